-- factors.lua - schedulers that multiply a rate by a factor in each epoch.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local kinds = require "tlua.io.kinds"
local LRScheduler = require "tlua.optim.schedules.LRScheduler"

local M = {}
local of_group <const> = LRScheduler.of_group

local function define(name, ...)
   M[name] = LRScheduler.define(name, ...)
end

local function refuse_outside(self, name, option, low, high)
   local value = self[option]
   if not (value >= low and value <= high) then
      args.refuse(name, option, ("a number from %g to %g"):format(low, high), value)
   end
end

local function check_lambdas(self) self:check_lists("lr_lambda") end

-- Returns the factor that the function lr_lambda of group g gives for the present epoch.
local function factor_of(self, g)
   local factor = of_group(self.lr_lambda, g)(self.last_epoch)
   return args.to_number(torch.type(self), "the result of lr_lambda", factor)
end

--- Multiplies the first rate by lr_lambda(epoch). lr_lambda may be a list with a function for each
--- group.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local factor = function(epoch) return 1 / (1 + epoch) end
---     local schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
---     optimizer:step()
---     schedule:step()
---     print(schedule:get_last_lr()[1])
---     --> 0.5
define("LambdaLR", "lr_lambda: table|callable", function(self, _, base, g)
   return base * factor_of(self, g)
end, check_lambdas)

--- Multiplies the previous rate by lr_lambda(epoch).
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local multiply = torch.optim.lr_scheduler.MultiplicativeLR
---     local schedule = multiply(optimizer, function() return 0.5 end)
---     for _ = 1, 2 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(schedule:get_last_lr()[1])
---     --> 0.25
define("MultiplicativeLR", "lr_lambda: table|callable", function(self, lr, _, g)
   if self.is_initial then return lr end
   return lr * factor_of(self, g)
end, check_lambdas)

-- In place of a function, PyTorch saves None, and in place of a callable object its attributes.
-- Functions in Lua have no attributes, so None is saved.
for _, name in ipairs {"LambdaLR", "MultiplicativeLR"} do
   M[name].to_pytorch = function(self)
      local state = LRScheduler.to_pytorch(self)
      state.lr_lambda, state.lr_lambdas = nil, kinds.as_list {}
      for g = 1, #self.base_lrs do state.lr_lambdas[g] = json.null end
      return state
   end
end

--- Restarts at epoch 0 with the present rate, because this schedule computes rates from the
--- previous rate only.
function M.MultiplicativeLR:restart()
   self.last_epoch = -1
   self:step()
end

--- Multiplies the rate by gamma every step_size epochs.
---
---     local weight = torch.zeros(1):requires_grad_()
---     local optimizer = torch.optim.SGD({weight}, {lr = 1})
---     local schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
---     for _ = 1, 4 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(optimizer.param_groups[1].lr)
---     --> 0.25
define("StepLR", "step_size: count, gamma: number = 0.1", function(self, lr)
   if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return lr end
   return lr * self.gamma
end, function(self, name)
   if self.step_size == 0 then args.refuse(name, "step_size", "at least 1", 0) end
end)

--- Multiplies the rate by gamma at each epoch in the list `milestones`.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local schedules = torch.optim.lr_scheduler
---     local schedule = schedules.MultiStepLR(optimizer, {2, 3}, 0.5)
---     for _ = 1, 3 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(schedule:get_last_lr()[1])
---     --> 0.25
define("MultiStepLR", "milestones: numbers, gamma: number = 0.1", function(self, lr)
   for _, milestone in ipairs(self.milestones) do
      if milestone == self.last_epoch then lr = lr * self.gamma end
   end
   return lr
end)

-- Returns the milestones as a sorted list. `counts` is such a list, or the dictionary that PyTorch
-- saves, which maps each milestone to the number of its occurrences.
local function milestones_of(counts)
   if #counts > 0 and not counts[0] and require "tlua.io.kinds".looks_like_list(counts) then
      return counts
   end
   local list = {}
   for milestone, count in pairs(counts) do
      for _ = 1, count do list[#list + 1] = milestone end
   end
   table.sort(list)
   return list
end

--- Converts a saved state, which may come from PyTorch, to this schedule's form.
---@param state_dict table
function M.MultiStepLR:from_pytorch(state)
   local own = {}
   for key, value in pairs(state) do own[key] = value end
   own.milestones = state.milestones and milestones_of(state.milestones)
   return own
end

function M.MultiStepLR:to_pytorch()
   local state, counts = LRScheduler.to_pytorch(self), {}
   for _, epoch in ipairs(self.milestones) do counts[epoch] = (counts[epoch] or 0) + 1 end
   state.milestones = kinds.as_dict(counts)
   return state
end

--- Multiplies the rate by gamma at every epoch.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
---     for _ = 1, 3 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(schedule:get_last_lr()[1])
---     --> 0.125
define("ExponentialLR", "gamma: number", function(self, lr)
   return self.is_initial and lr or lr * self.gamma
end)

--- Multiplies the rate by `factor` for the first total_iters epochs.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.25, 2)
---     for _ = 1, 2 do
---        print(schedule:get_last_lr()[1])
---        optimizer:step()
---        schedule:step()
---     end
---     --> 0.25
---     --> 0.25
---     print(schedule:get_last_lr()[1])
---     --> 1.0
define("ConstantLR", "factor: number = 0.3333333333333333, total_iters: count = 5",
   function(self, lr)
      if self.last_epoch == 0 then return lr * self.factor end
      return self.last_epoch == self.total_iters and lr / self.factor or lr
   end, function(self, name) refuse_outside(self, name, "factor", 0, 1) end)

--- Scales the rate by a factor that goes linearly from start_factor to end_factor over total_iters
--- epochs.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5)
---     print(schedule:get_last_lr()[1])
---     --> 0.5
---     for _ = 1, 5 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(("%.3f"):format(schedule:get_last_lr()[1]))
---     --> 1.000
define("LinearLR", [[start_factor: number = 0.3333333333333333, end_factor: number = 1,
   total_iters: count = 5]], function(self, lr)
   local t, n = self.last_epoch, self.total_iters
   if t == 0 then return lr * self.start_factor end
   if self.is_initial or t > n then return lr end
   local slope = self.end_factor - self.start_factor
   return lr * (1 + slope / (n * self.start_factor + (t - 1) * slope))
end, function(self, name)
   if self.start_factor == 0 then
      args.refuse(name, "start_factor", "a number above 0", self.start_factor)
   end
   refuse_outside(self, name, "start_factor", 0, 1)
   refuse_outside(self, name, "end_factor", 0, 1)
end)

--- Scales the rate by (1 - epoch / total_iters) ^ power.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, 4)
---     optimizer:step()
---     schedule:step()
---     print(schedule:get_last_lr()[1])
---     --> 0.75
define("PolynomialLR", "total_iters: count = 5, power: number = 1", function(self, lr)
   local t, n = self.last_epoch, self.total_iters
   if self.is_initial or t > n then return lr end
   return lr * ((1 - t / n) / (1 - (t - 1) / n)) ^ self.power
end)

--- Moves the rate from its first value to eta_min along half a cosine over T_max epochs, then back.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
---     for _ = 1, 5 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(("%.3f"):format(schedule:get_last_lr()[1])) -- half way
---     --> 0.500
define("CosineAnnealingLR", "T_max: count, eta_min: number = 0", function(self, lr, base)
   local t, n, least = self.last_epoch, self.T_max, self.eta_min
   if self.is_initial then return lr end
   if (t - 1 - n) % (2 * n) == 0 then
      return lr + (base - least) * (1 - math.cos(math.pi / n)) / 2
   end
   return (1 + math.cos(math.pi * t / n)) / (1 + math.cos(math.pi * (t - 1) / n))
      * (lr - least) + least
end, function(self, name)
   if self.T_max == 0 then args.refuse(name, "T_max", "at least 1", 0) end
end)

return M
