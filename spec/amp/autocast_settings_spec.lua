-- Tests torch.set_autocast_enabled and the related functions. PyTorch returns the expected values for the same
-- calls.

local torch = require "tlua"

local function product() return torch.ones(2, 2):mm(torch.ones(2, 2)).dtype end

describe("settings of autocast", function()
   after_each(function()
      torch.set_autocast_enabled("cpu", false)
      torch.set_autocast_dtype("cpu", "bfloat16")
      torch.set_autocast_enabled("cuda", false)
      torch.set_autocast_dtype("cuda", "float16")
      torch.set_autocast_cache_enabled(true)
   end)

   it("turn autocast on and off", function()
      assert.is_false(torch.is_autocast_enabled "cpu")
      torch.set_autocast_enabled("cpu", true)
      assert.is_true(torch.is_autocast_enabled "cpu")
      assert.equal("bfloat16", product())
      torch.set_autocast_enabled("cpu", false)
      assert.equal("float32", product())
   end)

   it("return the dtype, whether autocast is on or off", function()
      torch.set_autocast_dtype("cpu", "float16")
      assert.equal("float16", torch.get_autocast_dtype "cpu")
      assert.is_false(torch.is_autocast_enabled "cpu")
      assert.equal("float32", product())
      torch.set_autocast_enabled("cpu", true)
      assert.equal("float16", product())
      torch.set_autocast_dtype("cpu", "bfloat16")
      assert.equal("bfloat16", product())
   end)

   it("are the defaults of scopes, which restore them", function()
      torch.set_autocast_dtype("cpu", "float16")
      assert.equal("float16", torch.autocast("cpu", product))
      torch.set_autocast_enabled("cpu", true)
      torch.autocast({device = "cpu", dtype = "bfloat16"}, function()
         assert.equal("bfloat16", torch.get_autocast_dtype "cpu")
         assert.equal("bfloat16", product())
      end)
      assert.equal("float16", torch.get_autocast_dtype "cpu")
      torch.autocast({device = "cpu", enabled = false}, function()
         assert.equal("float16", torch.get_autocast_dtype "cpu")
         assert.is_false(torch.is_autocast_enabled "cpu")
         assert.equal("float32", product())
      end)
      assert.equal("float16", product())
   end)

   it("apply to the GPU if no device is given, and have PyTorch's older names", function()
      torch.set_autocast_enabled(true)
      assert.is_true(torch.is_autocast_enabled "cuda")
      assert.is_false(torch.is_autocast_cpu_enabled())
      torch.set_autocast_enabled(false)
      torch.set_autocast_gpu_dtype "bfloat16"
      assert.equal("bfloat16", torch.get_autocast_gpu_dtype())
      torch.set_autocast_cpu_dtype "float16"
      assert.equal("float16", torch.get_autocast_cpu_dtype())
      torch.set_autocast_cpu_enabled(true)
      assert.equal("float16", product())
   end)

   it("report whether casts of parameters are cached", function()
      torch.set_autocast_cache_enabled(false)
      assert.is_false(torch.is_autocast_cache_enabled())
      torch.set_autocast_cache_enabled(true)
      assert.is_true(torch.is_autocast_cache_enabled())
   end)

   it("release cached casts when autocast is turned off", function()
      local w = torch.ones(2, 2, {requires_grad = true})
      torch.set_autocast_dtype("cpu", "float16")
      torch.set_autocast_enabled("cpu", true)
      w:mm(w)
      torch.set_autocast_enabled("cpu", false)
      local weak = setmetatable({w}, {__mode = "v"})
      w = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.is_nil(weak[1])
   end)

   it("refuse other values", function()
      assert.raises("set_autocast_enabled: enabled: expected true or false, got 1",
         function() torch.set_autocast_enabled("cpu", 1) end)
      assert.raises("set_autocast_enabled: device", "xyz", function() torch.set_autocast_enabled("xyz", true) end)
      assert.raises("set_autocast_dtype: dtype", "float32", function() torch.set_autocast_dtype("cpu", "float32") end)
   end)
end)
