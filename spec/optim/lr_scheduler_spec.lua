local torch = require "tlua"
local optim = torch.optim
local schedules = optim.lr_scheduler

local function sgd(lr) return optim.SGD({torch.zeros(1)}, {lr = lr or 1}) end

local function rates(optimizer, schedule, n, ...)
   local list = {}
   for i = 1, n do
      list[i] = optimizer.param_groups[1].lr
      schedule:step(...)
   end
   return list
end

describe("torch.optim.lr_scheduler", function()
   -- PyTorch 2.15 has written these states and rates. It made three steps of SGD with lr 0.1, called state_dict, and
   -- made four more steps.
   it("goes on from states that PyTorch has saved", function()
      local rows = {
         {"StepLR", {2}, {step_size = 2, gamma = 0.1}, 0.010000000000000002,
            {0.0010000000000000002, 0.0010000000000000002, 0.00010000000000000003,
               0.00010000000000000003}},
         {"MultiStepLR", {{2, 4}}, {milestones = {[2] = 1, [4] = 1}, gamma = 0.1},
            0.010000000000000002, {0.0010000000000000002, 0.0010000000000000002,
               0.0010000000000000002, 0.0010000000000000002}},
         {"CosineAnnealingLR", {8}, {T_max = 8, eta_min = 0.0}, 0.0691341716182545,
            {0.05, 0.030865828381745515, 0.014644660940672627, 0.0038060233744356634}},
         {"ExponentialLR", {0.5}, {gamma = 0.5}, 0.0125, {0.00625, 0.003125, 0.0015625, 0.00078125}},
         {"LinearLR", {}, {start_factor = 0.3333333333333333, end_factor = 1.0, total_iters = 5},
            0.07333333333333335, {0.08666666666666668, 0.1, 0.1, 0.1}},
         {"CosineAnnealingWarmRestarts", {4}, {T_0 = 4, T_i = 4, T_mult = 1, eta_min = 0.0,
            T_cur = 3}, 0.014644660940672627,
            {0.1, 0.08535533905932738, 0.05, 0.014644660940672627}},
      }
      for _, row in ipairs(rows) do
         local name, arguments, state, lr, expected = table.unpack(row)
         local optimizer = sgd(0.1)
         local schedule = schedules[name](optimizer, table.unpack(arguments))
         for key, value in pairs {base_lrs = {0.1}, last_epoch = 3, _step_count = 4,
            _is_initial = false, _get_lr_called_within_step = false, _last_lr = {lr}} do
            state[key] = value
         end
         schedule:load_state_dict(state)
         optimizer.param_groups[1].lr = lr
         local got = {}
         for i = 1, 4 do
            schedule:step()
            got[i] = optimizer.param_groups[1].lr
         end
         assert.close(expected, got, 1e-12)
         for key in pairs(state) do
            if key:sub(1, 1) ~= "_" then assert.not_nil(schedule:state_dict()[key], name .. key) end
         end
      end
   end)

   it("keeps milestones that were saved here", function()
      local optimizer = sgd()
      local schedule = schedules.MultiStepLR(optimizer, {1, 3}, 0.5)
      local other = schedules.MultiStepLR(sgd(), {7}, 0.5)
      other:load_state_dict(schedule:state_dict())
      assert.same({1, 3}, other.milestones)
   end)

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

   it("sets a rate in a tensor in place", function()
      local lr = torch.tensor(1.0)
      local optimizer = sgd(lr)
      local schedule = schedules.ExponentialLR(optimizer, 0.5)
      local kept = schedule:get_last_lr()[1]
      schedule:step()
      assert.equal(lr, optimizer.param_groups[1].lr)
      assert.equal(0.5, lr:item())
      assert.equal(1, kept:item())
      local plateau = schedules.ReduceLROnPlateau(optimizer, {patience = 0, factor = 0.5})
      plateau:step(1)
      plateau:step(1)
      assert.equal(0.25, lr:item())
   end)

   it("runs schedules of schedules", function()
      local optimizer = sgd()
      local inner = schedules.SequentialLR(optimizer, {
         schedules.ConstantLR(optimizer, {factor = 0.5, total_iters = 10}),
         schedules.ExponentialLR(optimizer, 0.5),
      }, {2})
      local schedule = schedules.SequentialLR(optimizer, {inner, schedules.StepLR(optimizer, 1, {gamma = 0.1})}, {5})
      assert.close({0.5, 0.5, 1, 0.5, 0.25, 1, 0.1, 0.01}, rates(optimizer, schedule, 8))
      optimizer = sgd()
      local later = schedules.SequentialLR(optimizer, {
         schedules.ConstantLR(optimizer, {factor = 0.5, total_iters = 10}),
         schedules.ExponentialLR(optimizer, 0.5),
      }, {2})
      schedule = schedules.SequentialLR(optimizer, {schedules.StepLR(optimizer, 1, {gamma = 0.1}), later}, {2})
      assert.close({1, 0.1, 0.5, 0.5, 1, 0.5}, rates(optimizer, schedule, 6))
   end)

   it("names the arguments that it expects", function()
      assert.raises("optimizer: expected an optimizer", function() schedules.StepLR(3, 1) end)
      assert.raises("LambdaLR: the result of lr_lambda: expected a number or a tensor of one, got nil",
         function() schedules.LambdaLR(sgd(), function() end) end)
      assert.raises("T_max: expected at least 1, got 0", function() schedules.CosineAnnealingLR(sgd(), 0) end)
      assert.raises("unknown option gama; did you mean gamma?", function() schedules.StepLR(sgd(), 1, {gama = 2}) end)
      assert.raises("base_lr: expected one for each of 1 groups, got 2 of them",
         function() schedules.CyclicLR(sgd(), {1, 2}, 3) end)
      assert.raises("cycle_momentum: optim.Adagrad has neither momentum nor betas",
         function() schedules.CyclicLR(optim.Adagrad({torch.zeros(1)}), 1, 3) end)
      assert.raises("scale_mode: expected cycle or iterations, got \"cycles\"",
         function() schedules.CyclicLR(sgd(), 1, 3, {scale_mode = "cycles"}) end)
      assert.raises("expected total_steps, or epochs and steps_per_epoch",
         function() schedules.OneCycleLR(sgd(), 1, {epochs = 3}) end)
      assert.raises("epoch: expected a number of at least 0, got -1",
         function() schedules.CosineAnnealingWarmRestarts(sgd(), 3):step(-1) end)
      assert.raises("min_lr: expected one for each of 1 groups, got 2",
         function() schedules.ReduceLROnPlateau(sgd(), {min_lr = {1, 2}}) end)
      assert.raises("group 1 of the optimizer has no initial_lr",
         function() schedules.StepLR(sgd(), 3, {last_epoch = 4}) end)
      assert.raises("schedule 1: expected one whose step takes no measure", function()
         local optimizer = sgd()
         schedules.ChainedScheduler {schedules.ReduceLROnPlateau(optimizer)}
      end)
      assert.raises("schedule 2 belongs to another optimizer", function()
         local optimizer = sgd()
         schedules.SequentialLR(optimizer, {schedules.ExponentialLR(optimizer, 1),
            schedules.ExponentialLR(sgd(), 1)}, {1})
      end)
      assert.raises("step 14 of 13", function()
         local schedule = schedules.OneCycleLR(sgd(), 1, 13, {cycle_momentum = false})
         for _ = 1, 14 do schedule:step() end
      end)
   end)

   it("may be derived from", function()
      local Halving = torch.class("Halving", schedules.LRScheduler)
      function Halving:next_lr(lr) return self.last_epoch == 0 and lr or lr / 2 end
      local optimizer = sgd()
      assert.close({1, 0.5, 0.25}, rates(optimizer, Halving(optimizer), 3))
   end)
end)

it("a schedule's state has the present rates under the name that PyTorch reads", function()
   local optimizer = torch.optim.SGD({torch.nn.Parameter(torch.ones(1))}, {lr = 1})
   local scheduler = torch.optim.lr_scheduler.StepLR(optimizer, {step_size = 2, gamma = 0.5})
   for i, rate in ipairs {1, 0.5, 0.5, 0.25} do
      optimizer:step()
      scheduler:step()
      assert.same({rate}, scheduler:state_dict()._last_lr, i)
   end
end)
