-- Tests error messages for devices that this build lacks.

local torch = require "tlua"

local has_cuda <const> = torch.cuda.is_available()

it("torch.cuda counts the devices", function() assert.equal(has_cuda, torch.cuda.device_count() > 0) end)

-- The error message says what is missing: the plugin or, if there is a plugin, the driver or the GPU.
describe("a machine without a GPU", function()
   local function refuses(name, fn)
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.matches(name, message, 1, true)
      assert.matches("cuda:0: not available: ", message, 1, true)
      assert.is_true((message:find("there is no ", 1, true) or message:find("no driver was found", 1, true)
         or message:find("the driver finds no GPU", 1, true)) ~= nil, message)
   end

   it("raises an error wherever a device is requested", function()
      if has_cuda then pending("this machine has a GPU") return end
      local x = torch.ones(2)
      refuses("cuda:", function() x:cuda() end)
      refuses("cuda:", function() x:cuda(0) end)
      refuses("to:", function() x:to("cuda") end)
      refuses("ones:", function() torch.ones(2, {device = "cuda"}) end)
      refuses("tensor:", function() torch.tensor({1}, {device = "cuda:0"}) end)
      refuses("to:", function() torch.nn.Linear(2, 2):cuda() end)
   end)

   it("still distinguishes devices from other words", function()
      local x = torch.ones(2)
      assert.raises("cuda: device:", "expected a device such as \"cuda:0\", got cpu", function() x:cuda("cpu") end)
      assert.raises("cuda: device:", "expected a number from 0", function() x:cuda(-1) end)
      assert.raises("to", "cude", function() x:to("cude") end)
   end)
end)
