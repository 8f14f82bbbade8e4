-- lr_scheduler.lua - schedules of learning rates. A schedule sets `lr` of an optimizer's groups;
-- its `step` is called after each epoch (or step) of training. Epochs are counted as durations,
-- from 0: after n calls of `step`, last_epoch is n.
--
-- Most schedules say how a rate follows from the one before, so that several can act on the same
-- optimizer one after the other.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

local M = {}

---@class optim.LRScheduler
---@field optimizer optim.Optimizer
---@field last_epoch integer
---@field base_lrs number[]  each group's rate at the beginning
local LRScheduler = class.class("optim.LRScheduler")

---@param optimizer optim.Optimizer
---@param last_epoch? integer  -1, the default: at the beginning
function LRScheduler:__init(optimizer, last_epoch)
   if not class.isinstance(optimizer, Optimizer) then
      args.refuse(torch.type(self), "optimizer", "an optimizer", optimizer)
   end
   self.optimizer, self.last_epoch = optimizer, last_epoch or -1
   self.base_lrs = {}
   for g, group in ipairs(optimizer.param_groups) do
      group.initial_lr = group.initial_lr or group.lr
      self.base_lrs[g] = group.initial_lr
   end
   self:step()
end

--- To the next epoch.
function LRScheduler:step()
   self.last_epoch = self.last_epoch + 1
   for g, group in ipairs(self.optimizer.param_groups) do
      group.lr = self:next_lr(group.lr, self.base_lrs[g], g)
   end
end

--- What a schedule is: the rate at `self.last_epoch`.
---@param lr number  the rate before
---@param base number  the rate at the beginning
---@param g integer  which group
---@return number
function LRScheduler:next_lr(lr, base, g) -- luacheck: no unused args
   torch.raise(("%s has no method next_lr"):format(torch.type(self)))
end

--- The rates of all groups as they are now.
---@return number[]
function LRScheduler:get_last_lr()
   local list = {}
   for g, group in ipairs(self.optimizer.param_groups) do list[g] = group.lr end
   return list
end

-- A copy of plain data; nil for what is, or holds, something else.
local function copy_plain(value)
   local kind = type(value)
   if kind == "number" or kind == "boolean" or kind == "string" then return value end
   if kind ~= "table" or getmetatable(value) ~= nil then return nil end
   local copied = {}
   for key, item in pairs(value) do
      copied[key] = copy_plain(item)
      if copied[key] == nil then return nil end
   end
   return copied
end

--- The schedule's state as plain data; functions and the optimizer are left out.
---@return table
function LRScheduler:state_dict()
   local state = {}
   for key, value in pairs(self) do state[key] = copy_plain(value) end
   return state
end

--- Takes over a saved state.
---@param state table
function LRScheduler:load_state_dict(state)
   if type(state) ~= "table" then
      args.refuse(torch.type(self) .. ".load_state_dict", "state", "a table", state)
   end
   for key, value in pairs(state) do self[key] = copy_plain(value) end
end

M.LRScheduler = LRScheduler

-- Defines optim.lr_scheduler.<name>: its options, which become fields, and the rule.
local function define(name, options, next_lr, check)
   local full_name = "optim.lr_scheduler." .. name
   local fields = options .. (options == "" and "" or ", ") .. "last_epoch: integer = -1"
   local signature = args.signature(("%s(optimizer: any, %s)"):format(full_name, fields))
   local Schedule = class.class(full_name, LRScheduler)
   function Schedule:__init(...)
      local a = signature(...)
      for key, value in pairs(a) do
         if key ~= "optimizer" and key ~= "last_epoch" then self[key] = value end
      end
      if check then check(self, full_name) end
      LRScheduler.__init(self, a.optimizer, a.last_epoch)
   end
   Schedule.next_lr = next_lr
   M[name] = Schedule
   return Schedule
end

-- The value for a group of what is one for all or a list.
local function of_group(value, g)
   if type(value) == "table" and getmetatable(value) == nil then return value[g] end
   return value
end

--- lr_lambda(epoch), or one function for each group, as a factor of the first rate.
define("LambdaLR", "lr_lambda: table|callable", function(self, _, base, g)
   return base * of_group(self.lr_lambda, g)(self.last_epoch)
end)

--- lr_lambda(epoch) as a factor of the rate before.
define("MultiplicativeLR", "lr_lambda: table|callable", function(self, lr, _, g)
   if self.last_epoch == 0 then return lr end
   return lr * of_group(self.lr_lambda, g)(self.last_epoch)
end)

--- Times gamma every step_size epochs.
define("StepLR", "step_size: count, gamma: number = 0.1", function(self, lr)
   if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return lr end
   return lr * self.gamma
end, function(self, name)
   if self.step_size == 0 then args.refuse(name, "step_size", "at least 1", 0) end
end)

--- Times gamma at each epoch in the list.
define("MultiStepLR", "milestones: numbers, gamma: number = 0.1", function(self, lr)
   for _, milestone in ipairs(self.milestones) do
      if milestone == self.last_epoch then lr = lr * self.gamma end
   end
   return lr
end)

--- Times gamma at every epoch.
define("ExponentialLR", "gamma: number", function(self, lr)
   return self.last_epoch == 0 and lr or lr * self.gamma
end)

--- `factor` of the rate for the first total_iters epochs.
define("ConstantLR", "factor: number = 0.3333333333333333, total_iters: count = 5",
   function(self, lr)
      if self.last_epoch == 0 then return lr * self.factor end
      return self.last_epoch == self.total_iters and lr / self.factor or lr
   end)

--- From start_factor to end_factor of the rate, in a line over total_iters epochs.
define("LinearLR", [[start_factor: number = 0.3333333333333333, end_factor: number = 1,
   total_iters: count = 5]], function(self, lr)
   local t, n = self.last_epoch, self.total_iters
   if t == 0 then return lr * self.start_factor end
   if t > n then return lr end
   local slope = self.end_factor - self.start_factor
   return lr * (1 + slope / (n * self.start_factor + (t - 1) * slope))
end)

--- (1 - epoch / total_iters) ^ power of the first rate.
define("PolynomialLR", "total_iters: count = 5, power: number = 1", function(self, lr)
   local t, n = self.last_epoch, self.total_iters
   if t == 0 or t > n then return lr end
   return lr * ((1 - t / n) / (1 - (t - 1) / n)) ^ self.power
end)

--- Half a cosine from the first rate to eta_min over T_max epochs, and back.
define("CosineAnnealingLR", "T_max: count, eta_min: number = 0", function(self, lr, base)
   local t, n, least = self.last_epoch, self.T_max, self.eta_min
   if t == 0 then return lr end
   if (t - 1 - n) % (2 * n) == 0 then
      return lr + (base - least) * (1 - math.cos(math.pi / n)) / 2
   end
   return (1 + math.cos(math.pi * t / n)) / (1 + math.cos(math.pi * (t - 1) / n))
      * (lr - least) + least
end)

--- Half cosines of T_0 epochs, each T_mult times as long as the one before (SGDR).
define("CosineAnnealingWarmRestarts", "T_0: count, T_mult: count = 1, eta_min: number = 0",
   function(self, _, base)
      local t, length = self.last_epoch, self.T_0
      while t >= length do
         t, length = t - length, length * self.T_mult
      end
      return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * t / length)) / 2
   end, function(self, name)
      if self.T_0 < 1 then args.refuse(name, "T_0", "at least 1", self.T_0) end
      if self.T_mult < 1 then args.refuse(name, "T_mult", "at least 1", self.T_mult) end
   end)

local function blend(shape, from, to, share)
   if shape == "linear" then return from + (to - from) * share end
   return to + (from - to) * (1 + math.cos(math.pi * share)) / 2
end

--- Up to max_lr and far down again over total_steps (Smith's one cycle); stepped after every batch.
--- Where the optimizer has `momentum` or `betas`, that goes the other way, if cycle_momentum.
define("OneCycleLR", [[max_lr: number|numbers, total_steps: count, pct_start: number = 0.3,
   anneal_strategy: string = 'cos', cycle_momentum: boolean = true, base_momentum: number = 0.85,
   max_momentum: number = 0.95, div_factor: number = 25, final_div_factor: number = 1e4]],
   function(self, _, _, g)
      local highest = of_group(self.max_lr, g)
      local first = highest / self.div_factor
      local last = first / self.final_div_factor
      local t, top = self.last_epoch, self.pct_start * self.total_steps - 1
      if t >= self.total_steps then
         torch.raise(("optim.lr_scheduler.OneCycleLR: step %d of %d"):format(
            t + 1, self.total_steps))
      end
      local from, to, m_from, m_to, share
      if t <= top then
         from, to, m_from, m_to = first, highest, self.max_momentum, self.base_momentum
         share = t / top
      else
         from, to, m_from, m_to = highest, last, self.base_momentum, self.max_momentum
         share = (t - top) / (self.total_steps - 1 - top)
      end
      if self.cycle_momentum then
         local momentum = blend(self.anneal_strategy, m_from, m_to, share)
         local group = self.optimizer.param_groups[g]
         if group.betas then group.betas[1] = momentum else group.momentum = momentum end
      end
      return blend(self.anneal_strategy, from, to, share)
   end, function(self, name)
      if self.anneal_strategy ~= "cos" and self.anneal_strategy ~= "linear" then
         args.refuse(name, "anneal_strategy", "cos or linear", self.anneal_strategy)
      end
   end)

--- Between base_lr and max_lr and back, again and again; stepped after every batch.
define("CyclicLR", [[base_lr: number|numbers, max_lr: number|numbers, step_size_up: count = 2000,
   step_size_down: count?, mode: string = 'triangular', gamma: number = 1]],
   function(self, _, _, g)
      local low, high = of_group(self.base_lr, g), of_group(self.max_lr, g)
      local up, down = self.step_size_up, self.step_size_down or self.step_size_up
      local t = self.last_epoch
      local cycle = t // (up + down)
      local within = t % (up + down)
      local height = (high - low) * (within <= up and within / up or (up + down - within) / down)
      if self.mode == "triangular2" then
         height = height / 2 ^ cycle
      elseif self.mode == "exp_range" then
         height = height * self.gamma ^ t
      end
      return low + height
   end, function(self, name)
      local modes = {triangular = true, triangular2 = true, exp_range = true}
      if not modes[self.mode] then
         args.refuse(name, "mode", "triangular, triangular2 or exp_range", self.mode)
      end
   end)

-- Schedules one after the other: schedulers[i + 1] takes over at epoch milestones[i].
local SequentialLR = class.class("optim.lr_scheduler.SequentialLR", LRScheduler)

---@param optimizer optim.Optimizer
---@param schedulers optim.LRScheduler[]
---@param milestones integer[]  one less than there are schedulers
function SequentialLR:__init(optimizer, schedulers, milestones)
   if type(schedulers) ~= "table" or type(milestones) ~= "table"
      or #schedulers ~= #milestones + 1 then
      torch.raise("optim.lr_scheduler.SequentialLR: expected one milestone less than schedulers")
   end
   self.optimizer, self.schedulers, self.milestones = optimizer, schedulers, milestones
   self.last_epoch, self.base_lrs = 0, {}
   -- The constructors have all taken their first step; only the first schedule's counts.
   for g, group in ipairs(optimizer.param_groups) do
      self.base_lrs[g] = group.initial_lr
      group.lr = group.initial_lr
   end
   for _, scheduler in ipairs(schedulers) do scheduler.last_epoch = scheduler.last_epoch - 1 end
   schedulers[1]:step()
end

--- To the next epoch, of the schedule whose turn it is.
function SequentialLR:step()
   self.last_epoch = self.last_epoch + 1
   local turn = 1
   for i, milestone in ipairs(self.milestones) do
      if self.last_epoch >= milestone then turn = i + 1 end
   end
   local scheduler = self.schedulers[turn]
   if turn > 1 and self.milestones[turn - 1] == self.last_epoch then
      -- It begins from the first rate, as if it were the only one.
      for _, group in ipairs(self.optimizer.param_groups) do group.lr = group.initial_lr end
      scheduler.last_epoch = -1
   end
   scheduler:step()
end

function SequentialLR:state_dict()
   local states = {}
   for i, scheduler in ipairs(self.schedulers) do states[i] = scheduler:state_dict() end
   return {last_epoch = self.last_epoch, milestones = {table.unpack(self.milestones)},
      schedulers = states}
end

function SequentialLR:load_state_dict(state)
   self.last_epoch, self.milestones = state.last_epoch, {table.unpack(state.milestones)}
   for i, scheduler in ipairs(self.schedulers) do
      scheduler:load_state_dict(state.schedulers[i])
   end
end

M.SequentialLR = SequentialLR

-- Several schedules at once, each acting on what the one before has set.
local ChainedScheduler = class.class("optim.lr_scheduler.ChainedScheduler", LRScheduler)

---@param schedulers optim.LRScheduler[]  of one optimizer
function ChainedScheduler:__init(schedulers)
   self.schedulers, self.optimizer = schedulers, schedulers[1].optimizer
   self.last_epoch = 0
end

function ChainedScheduler:step()
   self.last_epoch = self.last_epoch + 1
   for _, scheduler in ipairs(self.schedulers) do scheduler:step() end
end

function ChainedScheduler:state_dict()
   local states = {}
   for i, scheduler in ipairs(self.schedulers) do states[i] = scheduler:state_dict() end
   return {last_epoch = self.last_epoch, schedulers = states}
end

function ChainedScheduler:load_state_dict(state)
   self.last_epoch = state.last_epoch
   for i, scheduler in ipairs(self.schedulers) do
      scheduler:load_state_dict(state.schedulers[i])
   end
end

M.ChainedScheduler = ChainedScheduler

-- Lowers the rates when a measure has not got better for some time.
local Plateau = class.class("optim.lr_scheduler.ReduceLROnPlateau", LRScheduler)

local take_plateau = args.signature [[optim.lr_scheduler.ReduceLROnPlateau(optimizer: any,
   mode: string = 'min', factor: number = 0.1, patience: count = 10, threshold: number = 1e-4,
   threshold_mode: string = 'rel', cooldown: count = 0, min_lr: number|numbers = 0,
   eps: number = 1e-8)]]

---@param optimizer optim.Optimizer
---@param mode? "min"|"max"
---@param options? {factor: number, patience: integer, threshold: number, cooldown: integer}
function Plateau:__init(...)
   local a = take_plateau(...)
   local name = "optim.lr_scheduler.ReduceLROnPlateau"
   if not class.isinstance(a.optimizer, Optimizer) then
      args.refuse(name, "optimizer", "an optimizer", a.optimizer)
   end
   if a.mode ~= "min" and a.mode ~= "max" then args.refuse(name, "mode", "min or max", a.mode) end
   if a.factor >= 1 then args.refuse(name, "factor", "a number below 1", a.factor) end
   if a.threshold_mode ~= "rel" and a.threshold_mode ~= "abs" then
      args.refuse(name, "threshold_mode", "rel or abs", a.threshold_mode)
   end
   for key, value in pairs(a) do self[key] = value end
   self.last_epoch, self.bad_epochs, self.cooldown_left = 0, 0, 0
   self.best = a.mode == "min" and math.huge or -math.huge
end

local function is_better(self, value)
   local sign = self.mode == "min" and -1 or 1
   local margin = self.threshold_mode == "rel" and math.abs(self.best) * self.threshold
      or self.threshold
   if math.abs(self.best) == math.huge then margin = 0 end
   return sign * value > sign * self.best + margin
end

--- To the next epoch.
---@param metric number|Tensor  the measure
function Plateau:step(metric)
   if torch.is_tensor(metric) then metric = metric:item() end
   if type(metric) ~= "number" then
      args.refuse("optim.lr_scheduler.ReduceLROnPlateau.step", "metric", "a number", metric)
   end
   self.last_epoch = self.last_epoch + 1
   if is_better(self, metric) then
      self.best, self.bad_epochs = metric, 0
   else
      self.bad_epochs = self.bad_epochs + 1
   end
   if self.cooldown_left > 0 then
      self.cooldown_left, self.bad_epochs = self.cooldown_left - 1, 0
   end
   if self.bad_epochs <= self.patience then return end
   for g, group in ipairs(self.optimizer.param_groups) do
      local lower = math.max(group.lr * self.factor, of_group(self.min_lr, g))
      if group.lr - lower > self.eps then group.lr = lower end
   end
   self.cooldown_left, self.bad_epochs = self.cooldown, 0
end

M.ReduceLROnPlateau = Plateau

return M
