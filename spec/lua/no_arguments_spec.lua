-- Tests that functions without options refuse further arguments, so that an option of another
-- function is not silently ignored.

local torch = require "tlua"
local sorted = require "spec.support.sorted"

local other <const> = {keepdim = true}

describe("an argument is refused by methods that take none", function()
   for _, name in ipairs {"dim", "ndimension", "numel", "nelement", "element_size",
                          "is_floating_point", "get_device", "is_complex", "storage_offset",
                          "data_ptr", "item", "tolist", "numpy", "iter", "detach_"} do
      it("such as " .. name, function()
         local x = torch.ones(1)
         assert.raises("expected no further argument, got table", function()
            x[name](x, other)
         end)
         x[name](x, nil)
      end)
   end
end)

describe("an argument is refused by functions of torch that take none", function()
   for _, name in ipairs {"is_grad_enabled", "is_inference_mode_enabled", "get_num_threads",
                          "get_default_dtype", "get_default_device", "initial_seed",
                          "is_autocast_cache_enabled", "clear_autocast_cache"} do
      it("such as " .. name, function()
         assert.raises(name .. ": expected no further argument, got table", function()
            torch[name](other)
         end)
         torch[name]()
      end)
   end
end)

describe("an argument is refused by queries of devices and settings that take fewer", function()
   for path, given in sorted {
      is_tensor = {1}, manual_seed = {1}, get_printoptions = {}, get_rng_state = {},
      memory_trim = {}, ["autograd.is_anomaly_enabled"] = {}, ["cuda.is_available"] = {},
      ["cuda.device_count"] = {}, ["cuda.is_initialized"] = {}, ["cuda.manual_seed"] = {1},
      ["cuda.manual_seed_all"] = {1}, ["cuda.seed_all"] = {}, ["cuda.get_rng_state_all"] = {},
      ["sim.is_available"] = {}, ["sim.device_count"] = {},
   } do
      it("such as " .. path, function()
         local fn = torch
         for name in path:gmatch "[%w_]+" do fn = fn[name] end
         for _, more in ipairs {other, 1, false} do
            local list = table.move(given, 1, #given, 1, {})
            list[#list + 1] = more
            assert.raises(path .. ": expected no further argument, got ", function()
               fn(table.unpack(list))
            end)
         end
         fn(table.unpack(given))
      end)
   end
end)

describe("an argument or an option is refused by queries in Lua", function()
   for _, path in ipairs {
      "cpu.is_available", "cpu.device_count", "cpu.current_device", "cpu.is_initialized",
      "accelerator.is_available", "accelerator.device_count", "accelerator.current_accelerator",
      "get_num_interop_threads", "is_anomaly_enabled", "get_float32_matmul_precision",
      "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
   } do
      it("such as " .. path, function()
         local fn = torch
         for name in path:gmatch "[%w_]+" do fn = fn[name] end
         assert.raises(path .. ": unknown option keepdim", function() fn(other) end)
         assert.raises(path .. ": expected at most 0 arguments, got 1", function() fn(1) end)
         fn()
      end)
   end
end)

describe("softmax and its relatives", function()
   it("need a dim: one that is missing or nil is an error, as in PyTorch", function()
      local F, x = torch.nn.functional, torch.ones(2, 3)
      for _, call in ipairs {
         function() return torch.softmax(x) end, function() return torch.softmax(x, nil) end,
         function() return x:softmax() end, function() return torch.log_softmax(x, nil) end,
         function() return F.softmax(x) end, function() return F.log_softmax(x) end,
         function() return F.softmin(x, nil) end,
      } do
         assert.raises("dim", "missing", call)
      end
      assert.close(torch.full({2, 3}, 0.5), F.softmax(x, 1))
      assert.close(torch.full({2, 3}, 1 / 3), F.softmax(x, {dim = -1}), 1e-6)
   end)
end)
