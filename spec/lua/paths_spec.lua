-- Tests functions that PyTorch offers under several names, and functions that return simple facts.
local torch = require "tlua"
local nn = torch.nn

describe("PyTorch's other paths", function()
   it("hold the same values", function()
      for path, value in pairs {
         ["nn.modules.conv.Conv2d"] = nn.Conv2d, ["nn.modules.Linear"] = nn.Linear,
         ["nn.modules.module.Module"] = nn.Module, ["nn.parameter.Parameter"] = nn.Parameter,
         ["nn.modules.batchnorm.BatchNorm2d"] = nn.BatchNorm2d,
         ["amp.grad_scaler.GradScaler"] = torch.amp.GradScaler, GradScaler = torch.amp.GradScaler,
         ["utils.data.dataloader.DataLoader"] = torch.data.DataLoader,
         ["utils.data.dataset.Dataset"] = torch.data.Dataset,
         ["autograd.no_grad"] = torch.no_grad, ["autograd.grad_mode.enable_grad"] = torch.enable_grad,
         ["autograd.profiler.profile"] = torch.profiler.profile,
         ["profiler.ProfilerActivity.CPU"] = "cpu",
         ["profiler.ProfilerAction.RECORD_AND_SAVE"] = "record_and_save",
      } do
         local found = torch
         for part in path:gmatch "[^.]+" do found = found[part] end
         assert.equal(value, found, path)
      end
   end)

   it("raise errors for unknown names", function()
      assert.raises("no field 'Conv2D'", function() return nn.modules.conv.Conv2D end)
      assert.raises("no field 'GPU'", function() return torch.profiler.ProfilerActivity.GPU end)
   end)
end)

it("torch.autograd.Variable is the tensor, or a leaf that shares its memory", function()
   local x = torch.ones(2)
   assert.equal(x, torch.autograd.Variable(x))
   local leaf = torch.autograd.Variable(x, {requires_grad = true})
   assert.is_true(leaf.requires_grad)
   assert.equal(x:data_ptr(), leaf:data_ptr())
   assert.is_false(x.requires_grad)
   assert.raises("autograd.Variable", "a tensor", function() torch.autograd.Variable(3) end)
end)

describe("torch.random.fork_rng", function()
   it("does not change later random numbers", function()
      torch.manual_seed(1)
      local expected = torch.rand(2):tolist()
      torch.manual_seed(1)
      local n = torch.random.fork_rng(function(k)
         torch.rand(5)
         return k
      end, 3)
      assert.same({3, expected}, {n, torch.rand(2):tolist()})
      torch.manual_seed(1)
      do
         local _ <close> = torch.random.fork_rng()
         torch.rand(5)
      end
      assert.same(expected, torch.rand(2):tolist())
      torch.manual_seed(1)
      torch.random.fork_rng({enabled = false}, torch.rand, 2)
      assert.not_same(expected, torch.rand(2):tolist())
      assert.equal(torch.manual_seed, torch.random.manual_seed)
   end)

   it("refuses unknown options", function()
      assert.raises("random.fork_rng", "unknown option enable",
         function() torch.random.fork_rng({enable = false}, print) end)
   end)
end)

describe("functions that query properties", function()
   it("answer as in PyTorch", function()
      local x = torch.ones(1)
      assert.equal("torch.Tensor", torch.typename(x))
      assert.equal("nn.Linear", torch.typename(nn.Linear(1, 1)))
      assert.is_false(torch.is_complex(x))
      assert.is_false(torch.is_storage(x))
      assert.equal(torch.cpu, torch.get_device_module "cpu")
      assert.equal(torch.sim, torch.get_device_module "sim:0")
      assert.raises("get_device_module", "device", function() torch.get_device_module "tpu" end)
      assert.same({true, 1, "cpu"}, {torch.cpu.is_available(), torch.cpu.device_count(), torch.cpu.current_device()})
      torch.set_num_interop_threads(2)
      assert.equal(2, torch.get_num_interop_threads())
      assert.raises("set_num_interop_threads", "at least 1", function() torch.set_num_interop_threads(0) end)
      assert.is_false(torch.set_flush_denormal(true))
      assert.is_false(torch.is_anomaly_enabled())
      assert.is_true(torch.autograd.detect_anomaly(torch.is_anomaly_enabled))
      assert.equal("cpu", torch.profiler.supported_activities()[1])
   end)

   it("include setting the default dtype by the name of a tensor type", function()
      local before = torch.get_default_dtype()
      torch.set_default_tensor_type "torch.DoubleTensor"
      local dtype = torch.ones(1).dtype
      torch.set_default_dtype(before)
      assert.equal("float64", dtype)
      for _, name in ipairs {"torch.LongTensor", "DoubleTensor", "torch.tpu.FloatTensor"} do
         assert.raises("set_default_tensor_type", "torch.FloatTensor",
            function() torch.set_default_tensor_type(name) end)
      end
   end)
end)

it("a tensor reports its device's index, its layout and its properties", function()
   local x = torch.ones(2, {device = "cpu"})
   assert.same({-1, "strided", false, false, false, false},
      {x:get_device(), x.layout, x:is_complex(), x.is_sparse, x.is_quantized, x.is_nested})
   assert.equal(0, torch.ones(2, {device = "sim"}):get_device())
end)

it("torch.vander gives decreasing powers unless increasing = true", function() -- the expected values are PyTorch 2.15's
   local x = torch.tensor {1, 2, 3, 5}
   assert.same({{1, 1, 1, 1}, {8, 4, 2, 1}, {27, 9, 3, 1}, {125, 25, 5, 1}}, torch.vander(x):tolist())
   assert.same({{1, 1, 1}, {4, 2, 1}, {9, 3, 1}, {25, 5, 1}}, torch.vander(x, {N = 3}):tolist())
   assert.same({{1, 1}, {1, 2}, {1, 3}, {1, 5}}, torch.vander(x, {N = 2, increasing = true}):tolist())
   assert.same({4, 0}, torch.vander(x, 0).shape)
   assert.equal("float32", torch.vander(x:float()).dtype)
   assert.raises("vander", "a vector", function() torch.vander(torch.ones(2, 2)) end)
end)
