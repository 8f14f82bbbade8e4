-- Tests nn.DataParallel on two simulated devices. The reference is the same module, called with the whole batch.

local torch = require "tlua"
local nn = torch.nn

local function build()
   torch.manual_seed(1)
   return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
end

describe("nn.DataParallel", function()
   local devices = {"sim:0", "sim:1"}

   it("gives the outputs and gradients of the whole batch on one device", function()
      local x = torch.randn({5, 4}, {device = "cpu"}) -- 3 samples go to one device, and 2 to the other
      local alone, model = build():to "cpu", nn.DataParallel(build():to "sim:0", devices)
      local expected, got = alone(x), model(x:to "sim:0")
      assert.equal(torch.device "sim:0", got.device)
      assert.same({5, 3}, got.shape)
      assert.is_true((got:cpu() - expected):abs():max():item() < 1e-6)
      expected:pow(2):sum():backward()
      got:pow(2):sum():backward()
      local list = model:parameters()
      for i, p in ipairs(alone:parameters()) do
         assert.equal(torch.device "sim:0", list[i].grad.device)
         assert.is_true((list[i].grad:cpu() - p.grad):abs():max():item() < 1e-5)
      end
      assert.equal("module.1.weight", (model:named_parameters()()))
   end)

   it("uses the devices, as few as the batch needs, and puts tables together", function()
      local seen = {}
      local Spy = torch.class("DataParallelSpy", nn.Module)
      function Spy:__init()
         nn.Module.__init(self)
         self.weight = nn.Parameter(torch.ones(1, {device = "sim:0"}))
      end
      function Spy:forward(t, scale)
         seen[#seen + 1] = ("%s %s %d"):format(t.device, self.weight.device, t:size(1))
         return {twice = t * 2 * self.weight, sum = t:sum()}, t * scale
      end
      local model = nn.DataParallel(Spy(), devices)
      local both, scaled = model(torch.ones({4, 2}, {device = "sim:1"}), 3)
      assert.same({"sim:0 sim:0 2", "sim:1 sim:1 2"}, seen)
      assert.same({4, 2}, both.twice.shape)
      assert.same({4.0, 4.0}, both.sum:tolist())
      assert.same({3.0, 3.0}, scaled:tolist()[4])
      seen = {}
      model(torch.ones({1, 2}, {device = "sim:0"}), 1)
      assert.same({"sim:0 sim:0 1"}, seen)
   end)

   it("refuses arguments that do not fit", function()
      assert.raises("expected its parameters on sim:0, but 1.weight is on cpu",
         function() nn.DataParallel(build():to "cpu", devices) end)
      assert.raises("device_ids: expected at least one device", function() nn.DataParallel(build(), {}) end)
      assert.raises("device_ids[1]: expected a device", function() nn.DataParallel(build(), {1}) end)
      assert.raises("module: expected a module", function() nn.DataParallel(1, devices) end)
   end)

   it("is made for one call by nn.parallel.data_parallel", function()
      local model, x = nn.Linear(2, 3), torch.randn(4, 2)
      local device = {tostring(x.device)}
      assert.is_true(torch.equal(model(x), nn.parallel.data_parallel(model, x, device)))
      assert.is_true(torch.equal(model(x), nn.parallel.data_parallel(model, {x}, device, {dim = 1})))
      assert.raises("device_ids", function() nn.parallel.data_parallel(model, x, {}) end)
   end)
end)
