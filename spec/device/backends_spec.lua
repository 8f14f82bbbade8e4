-- Tests torch.backends and other settings of kernels, which have PyTorch's names and defaults.

local device = require "spec.support.device"
local torch = require "tlua"

describe("torch.backends", function()
   it("has PyTorch's defaults", function()
      local matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
      assert.is_false(matmul.allow_tf32)
      assert.is_true(matmul.allow_fp16_reduced_precision_reduction)
      assert.is_true(matmul.allow_bf16_reduced_precision_reduction)
      assert.is_true(cudnn.enabled)
      -- spec/support/assert.lua has turned TF32 off for CUDA devices; the default is true
      assert.equal(device.name ~= "cuda", cudnn.allow_tf32)
      assert.is_false(cudnn.benchmark)
      assert.is_false(cudnn.deterministic)
      assert.equal(10, cudnn.benchmark_limit)
   end)

   it("keeps assigned values", function()
      local cudnn = torch.backends.cudnn
      for name, value in pairs(cudnn) do
         local other
         if type(value) == "boolean" then other = not value else other = value + 1 end
         cudnn[name] = other
         assert.equal(other, cudnn[name])
         cudnn[name] = value
         assert.equal(value, cudnn[name])
      end
   end)

   it("turns on the disk cache and fusion in graphs by default", function()
      for _, of in ipairs {torch.backends.cache, torch.backends.cuda.fusion} do
         assert.is_true(of.enabled)
         of.enabled = false
         assert.is_false(of.enabled)
         of.enabled = true
         assert.raises("enabled: expected true or false, got 0", function() of.enabled = 0 end)
      end
   end)

   it("cannot be replaced as a field of torch", function()
      assert.raises("backends.cuda.fusion: cannot be set", "such as backends.cuda.fusion.enabled",
         function() torch.backends.cuda.fusion = false end)
      assert.raises("backends.cudnn: cannot be set", function() torch.backends.cudnn = nil end)
      assert.is_true(torch.backends.cuda.fusion.enabled)
      assert.raises("torch.backends.cuda: no field 'no_such_thing'",
         function() return torch.backends.cuda.no_such_thing end)
   end)

   it("refuses other names and values", function()
      assert.raises("backends.cudnn has no setting 'benchmrk'; it has allow_tf32, benchmark,",
         function() torch.backends.cudnn.benchmrk = true end)
      assert.raises("backends.cudnn: benchmark: expected true or false, got 1",
         function() torch.backends.cudnn.benchmark = 1 end)
      assert.raises("backends.cudnn: benchmark_limit: expected an integer of at least 0",
         function() torch.backends.cudnn.benchmark_limit = -1 end)
      assert.raises("backends.cuda.matmul has no setting 'tf32'",
         function() return torch.backends.cuda.matmul.tf32 end)
   end)
end)

describe("torch.set_float32_matmul_precision", function()
   after_each(function() torch.set_float32_matmul_precision "highest" end)

   it("sets allow_tf32 as well", function()
      local matmul = torch.backends.cuda.matmul
      assert.equal("highest", torch.get_float32_matmul_precision())
      torch.set_float32_matmul_precision "high"
      assert.is_true(matmul.allow_tf32)
      torch.set_float32_matmul_precision "medium"
      assert.is_true(matmul.allow_tf32)
      assert.equal("medium", torch.get_float32_matmul_precision())
      matmul.allow_tf32 = false
      assert.equal("highest", torch.get_float32_matmul_precision())
   end)

   it("refuses other words", function()
      assert.raises('set_float32_matmul_precision: precision: expected "highest", "high" or "medium", got',
         function() torch.set_float32_matmul_precision "tf32" end)
      assert.equal("highest", torch.get_float32_matmul_precision())
   end)
end)

describe("torch.use_deterministic_algorithms", function()
   after_each(function() torch.use_deterministic_algorithms(false) end)

   it("sets the mode, with warn_only", function()
      assert.is_false(torch.are_deterministic_algorithms_enabled())
      torch.use_deterministic_algorithms(true)
      assert.is_true(torch.are_deterministic_algorithms_enabled())
      assert.is_false(torch.is_deterministic_algorithms_warn_only_enabled())
      torch.use_deterministic_algorithms(true, {warn_only = true})
      assert.is_true(torch.is_deterministic_algorithms_warn_only_enabled())
   end)

   it("accepts true or false", function()
      assert.raises("use_deterministic_algorithms: mode", function() torch.use_deterministic_algorithms(1) end)
   end)
end)
