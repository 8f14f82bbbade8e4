local torch = require "tlua"
local nn = torch.nn
local swa = torch.optim.swa_utils

-- A model with a weight of two numbers and a buffer of one number, all of which equal `value`.
local Model = torch.class("swa_spec.Model", nn.Module)
function Model:__init(value)
   self.weight = nn.Parameter(torch.full({2}, value))
   self:register_buffer("seen", torch.full({1}, value))
   self:register_buffer("count", torch.tensor(math.tointeger(value // 1)))
end
function Model:forward(x) return x * self.weight end

local function set(model, value)
   torch.no_grad(function()
      model.weight:fill_(value)
      model.seen:fill_(value)
      model.count:fill_(value // 1)
   end)
end

local function averages(options, values)
   local model = Model(values[1])
   local averaged = swa.AveragedModel(model, options)
   local list = {}
   for i, value in ipairs(values) do
      set(model, value)
      averaged:update_parameters(model)
      list[i] = averaged.module.weight[2]:item()
   end
   return list, averaged
end

describe("optim.swa_utils.AveragedModel", function()
   it("keeps the mean of all parameters, and the last buffers", function()
      local list, averaged = averages({}, {1.0, 3.0, 8.0, 0.0})
      assert.close({1, 2, 4, 3}, list)
      assert.equal(4, averaged.n_averaged:item())
      assert.equal(0, averaged.module.seen:item())
   end)

   it("keeps an exponential average, of buffers, too", function()
      local list, averaged = averages({multi_avg_fn = swa.get_ema_multi_avg_fn(0.75),
         use_buffers = true}, {1.0, 3.0, 8.0})
      assert.close({1, 1.5, 3.125}, list)
      assert.close(3.125, averaged.module.seen:item())
      -- the buffer has integers, so the averages 1, 1.5 and 2.75 are truncated; the last one becomes 2
      assert.equal(2, averaged.module.count:item())
   end)

   it("takes functions of one tensor", function()
      local list = averages({avg_fn = swa.get_ema_avg_fn(0.5)}, {1.0, 3.0, 8.0})
      assert.close({1, 2, 5}, list)
      list = averages({avg_fn = swa.get_swa_avg_fn()}, {1.0, 3.0, 8.0})
      assert.close({1, 2, 4}, list)
      list = averages({multi_avg_fn = swa.get_swa_multi_avg_fn()}, {1.0, 3.0, 8.0})
      assert.close({1, 2, 4}, list)
      list = averages({avg_fn = function(a, b, n) return a * n + b end}, {1.0, 3.0, 8.0})
      assert.close({1, 4, 16}, list)
   end)

   it("is an independent model", function()
      local model = Model(2.0)
      local averaged = swa.AveragedModel(model)
      assert.close({6, 6}, averaged(torch.full({2}, 3)))
      averaged:update_parameters(model)
      set(model, 9.0)
      assert.close({2, 2}, averaged.module.weight)
      local other = swa.AveragedModel(Model(0.0))
      other:load_state_dict(averaged:state_dict())
      assert.close({2, 2}, other.module.weight)
      assert.equal(1, other.n_averaged:item())
   end)

   it("averages on another device, without an update that fits changing nothing", function()
      local model = Model(1.0):to("cpu")
      local averaged = swa.AveragedModel(model, {device = "sim"})
      for _, value in ipairs {1.0, 2.0} do
         set(model, value)
         averaged:update_parameters(model)
      end
      assert.equal(torch.device "sim:0", averaged.module.weight.device)
      assert.close({1.5, 1.5}, averaged.module.weight)
   end)

   it("names the arguments that it expects", function()
      assert.raises("model: expected a module, got 3", function() swa.AveragedModel(3) end)
      assert.raises("avg_fn: expected it or multi_avg_fn, got both",
         function() swa.AveragedModel(Model(1.0), {avg_fn = print, multi_avg_fn = print}) end)
      assert.raises("unknown option use_bufers; did you mean use_buffers?",
         function() swa.AveragedModel(Model(1.0), {use_bufers = true}) end)
      assert.raises("decay: expected a number from 0 to 1, got 2", function() swa.get_ema_multi_avg_fn(2) end)
      local averaged = swa.AveragedModel(nn.Linear(2, 3))
      assert.raises("expected one with the parameters of the model",
         function() averaged:update_parameters(nn.Linear(3, 2)) end)
      assert.equal(0, averaged.n_averaged:item())
   end)
end)

describe("optim.swa_utils.update_bn", function()
   it("learns the mean over all batches, and restores modes and momenta", function()
      local net = nn.Sequential(nn.BatchNorm1d(2, {momentum = 0.3}), nn.Dropout(0.5),
         nn.BatchNorm1d(2, {track_running_stats = false})):eval()
      net[2]:train()
      net[1].running_mean:fill_(100)
      local a = torch.tensor({{1.0, 2.0}, {3.0, 6.0}})
      local b = torch.tensor({{5.0, 0.0}, {7.0, 0.0}})
      for _, loader in ipairs {
         {a, b}, {{a, 1}, {b, 2}},
         torch.data.DataLoader(torch.data.TensorDataset(torch.cat {a, b}, torch.zeros(4)), {batch_size = 2}),
      } do
         swa.update_bn(loader, net)
         assert.close({4, 2}, net[1].running_mean)
         assert.close({2, 4}, net[1].running_var)
         assert.equal(2, net[1].num_batches_tracked:item())
         assert.equal(0.3, net[1].momentum)
         assert.is_false(net.training)
         assert.is_false(net[1].training)
         assert.is_true(net[2].training)
      end
      local next_batch = coroutine.wrap(function() coroutine.yield(b) end)
      swa.update_bn(next_batch, net)
      assert.close({6, 0}, net[1].running_mean)
   end)

   it("also restores them after an error", function()
      local net = nn.Sequential(nn.BatchNorm1d(2)):eval()
      assert.is_false(pcall(swa.update_bn, {torch.ones(2, 3)}, net))
      assert.equal(0.1, net[1].momentum)
      assert.is_false(net.training)
   end)

   it("does not change models without batch norm", function() swa.update_bn({"no tensor"}, nn.Linear(1, 1)) end)
end)

describe("optim.swa_utils.SWALR", function()
   it("continues from a saved state", function()
      local function make()
         local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1.0})
         return optimizer, swa.SWALR(optimizer, 0.1, {anneal_epochs = 6})
      end
      local a, first = make()
      for _ = 1, 3 do first:step() end
      local b, second = make()
      second:load_state_dict(first:state_dict())
      b:load_state_dict(a:state_dict())
      for _ = 1, 5 do
         first:step()
         second:step()
         assert.equal(first:get_last_lr()[1], second:get_last_lr()[1])
      end
      assert.close(0.1, second:get_last_lr()[1])
   end)

   it("names the arguments that it expects", function()
      local optimizer = torch.optim.SGD({torch.zeros(1)})
      assert.raises("anneal_strategy: expected cos or linear",
         function() swa.SWALR(optimizer, 0.1, {anneal_strategy = "square"}) end)
      assert.raises("swa_lr: expected one for each of 1 groups, got 2",
         function() swa.SWALR(optimizer, {0.1, 0.2}) end)
   end)
end)
