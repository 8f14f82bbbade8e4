-- compounds.lua - schedulers that combine other schedulers: SequentialLR, ChainedScheduler.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local LRScheduler = require "tlua.optim.schedules.LRScheduler"
local Plateau = require "tlua.optim.schedules.plateau".ReduceLROnPlateau

local M = {}

-- The base class of SequentialLR and ChainedScheduler, which hold a list of schedulers of one
-- optimizer.
local Compound = class.class("optim.lr_scheduler.Compound", LRScheduler)

-- Raises an error unless all values in the list are schedules of the same optimizer. Also raises an
-- error for schedules whose `step` takes a metric, such as ReduceLROnPlateau.
local function check_schedulers(self, optimizer, schedulers)
   local name = torch.type(self)
   if type(schedulers) ~= "table" or #schedulers == 0 then
      args.refuse(name, "schedulers", "a list of at least one schedule", schedulers)
   end
   optimizer = optimizer or type(schedulers[1]) == "table" and schedulers[1].optimizer
   for i, schedule in ipairs(schedulers) do
      local what = ("schedule %d"):format(i)
      if not class.isinstance(schedule, LRScheduler) then
         args.refuse(name, what, "a schedule", schedule)
      elseif class.isinstance(schedule, Plateau) then
         args.refuse(name, what, "one whose step takes no measure", schedule)
      elseif schedule.optimizer ~= optimizer then
         torch.raise(("%s: %s belongs to another optimizer"):format(name, what))
      end
   end
   self:check_optimizer(optimizer)
   self.optimizer, self.schedulers = optimizer, schedulers
end

function Compound:to_pytorch()
   local state = {_last_lr = self:get_last_lr(), _schedulers = {}}
   for i, schedule in ipairs(self.schedulers) do state._schedulers[i] = schedule:to_pytorch() end
   if self.milestones then
      state._milestones, state.last_epoch = {table.unpack(self.milestones)}, self.last_epoch
   end
   return state
end

function Compound:from_pytorch(state)
   local list = type(state) == "table" and state._schedulers
   if not list then return state end
   return {
      schedulers = list, milestones = state._milestones,
      last_epoch = state.last_epoch or list[1] and list[1].last_epoch,
   }
end

function Compound:state_dict(names)
   if names ~= nil then return LRScheduler.state_dict(self, names) end
   local state = {last_epoch = self.last_epoch, schedulers = {}}
   for i, schedule in ipairs(self.schedulers) do state.schedulers[i] = schedule:state_dict() end
   if self.milestones then state.milestones = {table.unpack(self.milestones)} end
   return state
end

function Compound:load_state_dict(state, names)
   local name = torch.type(self) .. ".load_state_dict"
   if names ~= nil and names ~= "pytorch" then
      args.refuse(name, "names", '"pytorch" or nil', names)
   end
   state = self:from_pytorch(state)
   if type(state) ~= "table" or type(state.schedulers) ~= "table" then
      args.refuse(name, "state", "a result of state_dict", state)
   end
   if #state.schedulers ~= #self.schedulers then
      torch.raise(("%s: expected %d schedules, got %d"):format(
         name, #self.schedulers, #state.schedulers))
   end
   self.last_epoch = state.last_epoch
   if self.milestones then self.milestones = {table.unpack(state.milestones)} end
   for i, schedule in ipairs(self.schedulers) do schedule:load_state_dict(state.schedulers[i]) end
end

checked.methods(Compound,
   "state_dict(names: string?) load_state_dict(state_dict: any, names: string?)")

--- Runs schedulers one after another: schedulers[i + 1] takes over at epoch milestones[i].
---
---     local schedules = torch.optim.lr_scheduler
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local warm = schedules.ConstantLR(optimizer, 0.5, 2)
---     local decay = schedules.ExponentialLR(optimizer, 0.5)
---     local schedule = schedules.SequentialLR(optimizer, {warm, decay}, {2})
---     for _ = 1, 3 do
---        optimizer:step()
---        schedule:step()
---     end
---     print(schedule:get_last_lr()[1])
---     --> 0.5
local SequentialLR = class.class("optim.lr_scheduler.SequentialLR", Compound)

-- Returns the position in the list of the schedule that is active at an epoch.
local function turn_at(self, epoch)
   local turn = 1
   for i, milestone in ipairs(self.milestones) do
      if epoch >= milestone then turn = i + 1 end
   end
   return turn
end

local take_sequential = args.signature [[optim.lr_scheduler.SequentialLR(optimizer: any,
   schedulers: table, milestones: numbers)]]

---@param optimizer optim.Optimizer
---@param schedulers optim.LRScheduler[]
---@param milestones integer[]  one less than the number of schedulers
function SequentialLR:__init(...)
   local a = take_sequential(...)
   local optimizer, schedulers, milestones = a.optimizer, a.schedulers, a.milestones
   self:check_optimizer(optimizer)
   check_schedulers(self, optimizer, schedulers)
   if #schedulers ~= #milestones + 1 then
      torch.raise("optim.lr_scheduler.SequentialLR: expected one milestone less than schedulers")
   end
   self.milestones, self.last_epoch, self.base_lrs = milestones, -1, {}
   -- The constructors of all schedulers have made a first step. Its effect is undone here, and the
   -- first scheduler then makes its first step again.
   for g, group in ipairs(optimizer.param_groups) do
      self.base_lrs[g] = group.initial_lr
      self:set_lr(group, group.initial_lr)
   end
   for _, schedule in ipairs(schedulers) do schedule:undo() end
   self:first_step()
end

local function in_turn(self)
   return self.schedulers[turn_at(self, self.last_epoch)]
end

function SequentialLR:first_step()
   self.last_epoch = self.last_epoch + 1
   in_turn(self):first_step()
end

function SequentialLR:undo()
   in_turn(self):undo()
   self.last_epoch = self.last_epoch - 1
end

function SequentialLR:restart()
   self.last_epoch = 0
   in_turn(self):restart()
end

--- Goes to the next epoch of the current scheduler.
function SequentialLR:step()
   self.last_epoch = self.last_epoch + 1
   local turn = turn_at(self, self.last_epoch)
   local schedule = self.schedulers[turn]
   if turn > 1 and self.milestones[turn - 1] == self.last_epoch then
      schedule:restart()
   else
      schedule:step()
   end
end

M.SequentialLR = SequentialLR

--- Runs several schedulers at once. Each scheduler changes the rate that the scheduler before it
--- has set.
---
---     local schedules = torch.optim.lr_scheduler
---     local optimizer = torch.optim.SGD({torch.zeros(1)}, {lr = 1})
---     local half = schedules.ExponentialLR(optimizer, 0.5)
---     local tenth = schedules.ExponentialLR(optimizer, 0.1)
---     local schedule = schedules.ChainedScheduler {half, tenth}
---     optimizer:step()
---     schedule:step()
---     print(("%.3f"):format(optimizer.param_groups[1].lr))
---     --> 0.050
local ChainedScheduler = class.class("optim.lr_scheduler.ChainedScheduler", Compound)

local take_chained = args.signature [[optim.lr_scheduler.ChainedScheduler(schedulers: table,
   optimizer: any?)]]

---@param schedulers optim.LRScheduler[]  schedulers of one optimizer
---@param optimizer? optim.Optimizer  that optimizer
function ChainedScheduler:__init(...)
   local a = take_chained(...)
   check_schedulers(self, a.optimizer, a.schedulers)
   self.last_epoch, self.base_lrs = 0, a.schedulers[1].base_lrs
end

function ChainedScheduler:first_step()
   self.last_epoch = self.last_epoch + 1
   for _, schedule in ipairs(self.schedulers) do schedule:first_step() end
end

function ChainedScheduler:undo()
   self.last_epoch = self.last_epoch - 1
   for _, schedule in ipairs(self.schedulers) do schedule:undo() end
end

function ChainedScheduler:step()
   self.last_epoch = self.last_epoch + 1
   for _, schedule in ipairs(self.schedulers) do schedule:step() end
end

M.ChainedScheduler = ChainedScheduler

return M
