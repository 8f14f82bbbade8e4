-- plateau.lua - ReduceLROnPlateau: lowers the rates when a metric has stopped improving.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"
local LRScheduler = require "tlua.optim.schedules.LRScheduler"

local name <const> = "optim.lr_scheduler.ReduceLROnPlateau"

--- Multiplies the learning rates by `factor` once a metric has not improved for more than
--- `patience` epochs; `step(metric)` is called after each epoch. An improvement is a change by more
--- than `threshold`, which is relative or absolute according to threshold_mode. After a reduction,
--- the next `cooldown` epochs are not counted.
---
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
---     local schedule = plateau(optimizer, {patience = 1})
---     for _, loss in ipairs {3.0, 3.0, 3.0} do schedule:step(loss) end
---     print(optimizer.param_groups[1].lr)
---     --> 0.1
---@class optim.lr_scheduler.ReduceLROnPlateau: optim.LRScheduler
local Plateau = class.class(name, LRScheduler)

local take = args.signature(name .. [[(optimizer: any, mode: string = 'min', factor: number = 0.1,
   patience: count = 10, threshold: number = 1e-4, threshold_mode: string = 'rel',
   cooldown: count = 0, min_lr: number|numbers = 0, eps: number = 1e-8)]])

---@param optimizer optim.Optimizer
---@param mode? "min"|"max"
---@param options? {factor: number, patience: integer, threshold: number,
--- threshold_mode: "rel"|"abs", cooldown: integer, min_lr: number|number[], eps: number}  min_lr:
--- the lower bound of the rates; eps: a rate that would fall by no more than eps is left unchanged
function Plateau:__init(...)
   local a = take(...)
   self:check_optimizer(a.optimizer)
   if a.mode ~= "min" and a.mode ~= "max" then args.refuse(name, "mode", "min or max", a.mode) end
   if a.factor ~= a.factor or a.factor >= 1 then
      args.refuse(name, "factor", "a number below 1", a.factor)
   end
   if a.threshold_mode ~= "rel" and a.threshold_mode ~= "abs" then
      args.refuse(name, "threshold_mode", "rel or abs", a.threshold_mode)
   end
   for key, value in pairs(a) do self[key] = value end
   self:check_lists("min_lr")
   self.last_epoch, self.num_bad_epochs, self.cooldown_counter = 0, 0, 0
   self.best = a.mode == "min" and math.huge or -math.huge
end

-- Returns whether a value is better than the best so far by more than the threshold. A relative
-- threshold is a fraction of the best value. If the best value is negative, even a slightly worse
-- value counts as better, as in PyTorch.
local function is_better(self, value)
   local sign = self.mode == "min" and -1 or 1
   local bound = self.threshold_mode == "rel" and self.best * (1 + sign * self.threshold)
      or self.best + sign * self.threshold
   return sign * value > sign * bound
end

local function lower(self)
   -- The list is checked again, because groups may have been added since the schedule was made.
   self:check_lists("min_lr")
   for g, group in ipairs(self.optimizer.param_groups) do
      local rate = torch.is_tensor(group.lr) and group.lr:item() or group.lr
      local lowered = math.max(rate * self.factor, LRScheduler.of_group(self.min_lr, g))
      if rate - lowered > self.eps then self:set_lr(group, lowered) end
   end
end

--- Advances to the next epoch with its metric, and lowers the rates if necessary.
---@param metric number|Tensor  the value that should improve, such as the loss of a validation set
function Plateau:step(metric)
   if torch.is_tensor(metric) then metric = metric:item() end
   if type(metric) ~= "number" then args.refuse(name .. ".step", "metric", "a number", metric) end
   self.last_epoch = self.last_epoch + 1
   if is_better(self, metric) then
      self.best, self.num_bad_epochs = metric, 0
   else
      self.num_bad_epochs = self.num_bad_epochs + 1
   end
   if self.cooldown_counter > 0 then
      self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
   end
   if self.num_bad_epochs > self.patience then
      lower(self)
      self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
   end
end

local own_names <const> = {"factor", "patience", "cooldown", "eps", "last_epoch", "mode",
   "threshold", "threshold_mode", "best", "cooldown_counter", "num_bad_epochs"}

function Plateau:to_pytorch()
   local state, least = {_last_lr = self:get_last_lr()}, self.min_lr
   for _, field in ipairs(own_names) do state[field] = self[field] end
   state.min_lrs = {}
   for g = 1, #self.optimizer.param_groups do state.min_lrs[g] = LRScheduler.of_group(least, g) end
   state.default_min_lr = type(least) == "number" and least or json.null
   state.mode_worse = self.mode == "min" and math.huge or -math.huge
   return state
end

function Plateau:from_pytorch(state)
   if not state.min_lrs then return state end
   local own = {min_lr = state.min_lrs}
   for _, field in ipairs(own_names) do own[field] = state[field] end
   return own
end

return {ReduceLROnPlateau = Plateau}
