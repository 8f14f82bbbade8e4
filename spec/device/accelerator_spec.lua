-- Tests torch.accelerator, and the modules of devices that tlua does not support.

local torch = require "tlua"

local accelerator = torch.accelerator

-- Calls fn while `device` is the default device.
local function on(device, fn)
   local before = torch.get_default_device()
   torch.set_default_device(device)
   local ok, message = pcall(fn)
   torch.set_default_device(before)
   if not ok then error(message, 0) end
end

describe("torch.accelerator", function()
   it("is CUDA if there is a CUDA device", function()
      on("cpu", function()
         local there = torch.cuda.is_available()
         assert.equal(there, accelerator.is_available())
         assert.equal(there and torch.cuda.device_count() or 0, accelerator.device_count())
         assert.equal(there and torch.device "cuda" or nil, accelerator.current_accelerator())
         if there then return end
         assert.raises("accelerator.synchronize: there is no accelerator", function() accelerator.synchronize() end)
         assert.raises("accelerator.memory_allocated: there is no accelerator",
            function() accelerator.memory_allocated() end)
      end)
   end)

   it("is the simulated device if that is the default", function()
      on("sim", function()
         assert.is_true(accelerator.is_available())
         assert.equal(torch.device "sim", accelerator.current_accelerator())
         assert.equal(torch.sim.device_count(), accelerator.device_count())
         accelerator.set_device_index(1)
         assert.equal(1, accelerator.current_device_index())
         accelerator.set_device_index(torch.device "sim:0")
         assert.equal(0, accelerator.current_device_idx())
         local x = torch.ones(100)
         accelerator.synchronize()
         assert.is_true(accelerator.memory_allocated() >= x.nbytes)
         accelerator.set_stream(accelerator.current_stream())
      end)
   end)
end)

it("a device that tlua does not support is not available, without an error", function()
   for _, module in ipairs {torch.mps, torch.xpu} do
      assert.is_false(module.is_available())
      assert.equal(0, module.device_count())
      module.manual_seed(1)
   end
   assert.is_false(torch.backends.mps.is_available())
   assert.is_false(torch.backends.mps.is_built())
   assert.raises("torch.xpu: no field 'get_device_nam'", function() return torch.xpu.get_device_nam end)
end)

it("torch.version reports versions, nil for missing libraries", function()
   assert.equal(torch.__version__, torch.version.__version__)
   assert.is_nil(torch.version.hip)
   if torch.cuda.is_available() then
      assert.matches("^%d+%.%d+$", torch.version.cuda)
   else
      assert.is_nil(torch.version.cuda)
   end
   assert.raises("torch.version: no field 'cdua'; did you mean cuda?", function() return torch.version.cdua end)
end)
