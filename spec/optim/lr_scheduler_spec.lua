local torch = require "tlua"
local optim = torch.optim
local schedules = optim.lr_scheduler

local function sgd(lr)
   return optim.SGD({torch.zeros(1)}, {lr = lr or 1})
end

local function rates(optimizer, schedule, n, ...)
   local list = {}
   for i = 1, n do
      list[i] = optimizer.param_groups[1].lr
      schedule:step(...)
   end
   return list
end

describe("torch.optim.lr_scheduler", function()
   it("runs schedules one after the other", function()
      local optimizer = sgd()
      local schedule = schedules.SequentialLR(optimizer, {
         schedules.LinearLR(optimizer, {start_factor = 0.5, total_iters = 2}),
         schedules.ExponentialLR(optimizer, 0.5),
      }, {3})
      assert.close({0.5, 0.75, 1, 1, 0.5, 0.25}, rates(optimizer, schedule, 6))
   end)

   it("runs schedules together", function()
      local optimizer = sgd()
      local schedule = schedules.ChainedScheduler {
         schedules.ConstantLR(optimizer, {factor = 0.5, total_iters = 2}),
         schedules.ExponentialLR(optimizer, 0.5),
      }
      assert.close({0.5, 0.25, 0.25, 0.125}, rates(optimizer, schedule, 4))
   end)

   it("lowers the rate on a plateau", function()
      local optimizer = sgd()
      local schedule = schedules.ReduceLROnPlateau(optimizer, {patience = 1, factor = 0.5,
         cooldown = 1, min_lr = 0.2})
      local list = {}
      for i, loss in ipairs {3, 2, 2, 2, 2, 2, 2, 2, 1, 1, torch.tensor(1.0)} do
         schedule:step(loss)
         list[i] = optimizer.param_groups[1].lr
      end
      assert.close({1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2}, list)
      assert.raises("metric: expected a number", function() schedule:step() end)
   end)

   it("continues from a saved state", function()
      local a, b = sgd(), sgd()
      local first = schedules.StepLR(a, 2, {gamma = 0.5})
      for _ = 1, 3 do first:step() end
      local second = schedules.StepLR(b, 5)
      second:load_state_dict(first:state_dict())
      b:load_state_dict(a:state_dict())
      assert.close(rates(a, first, 4), rates(b, second, 4), 0)
   end)

   it("keeps functions out of the state", function()
      local schedule = schedules.LambdaLR(sgd(), {lr_lambda = {function() return 0.5 end}})
      local state = schedule:state_dict()
      assert.is_nil(state.lr_lambda)
      assert.is_nil(state.optimizer)
      schedule:load_state_dict(state)
      schedule:step()
      assert.equal(0.5, schedule:get_last_lr()[1])
   end)

   it("says what it expects", function()
      assert.raises("optimizer: expected an optimizer", function() schedules.StepLR(3, 1) end)
      assert.raises("unknown option gama; did you mean gamma?", function()
         schedules.StepLR(sgd(), 1, {gama = 2})
      end)
      assert.raises("step 14 of 13", function()
         local schedule = schedules.OneCycleLR(sgd(), 1, 13, {cycle_momentum = false})
         for _ = 1, 13 do schedule:step() end
      end)
   end)

   it("may be derived from", function()
      local Halving = torch.class("Halving", schedules.LRScheduler)
      function Halving:next_lr(lr) return self.last_epoch == 0 and lr or lr / 2 end
      local optimizer = sgd()
      assert.close({1, 0.5, 0.25}, rates(optimizer, Halving(optimizer), 3))
   end)
end)
