-- LRScheduler.lua - the base of schedulers. A scheduler sets `lr` of an optimizer's groups. The
-- program calls the scheduler's `step` after each epoch, or each step, of training; last_epoch
-- counts these calls, from 0.
--
-- Most schedulers compute a rate from the previous one, so that several can act on the same
-- optimizer in turn. A rate that is a tensor is updated in place; reading it waits for its device.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local kinds = require "tlua.io.kinds"
local Optimizer = require "tlua.optim.Optimizer"

--- The base of schedulers, which set the learning rate of an optimizer's groups. A class derived
--- from it defines next_lr.
---
---
---     local sgd = torch.optim.SGD({torch.zeros(1):requires_grad_()}, {lr = 1.0})
---     local schedule = torch.optim.lr_scheduler.ExponentialLR(sgd, {gamma = 0.5})
---     sgd:step()
---     schedule:step()
---     print(table.unpack(schedule:get_last_lr()))
---     --> 0.5
---@class optim.LRScheduler
---@field optimizer optim.Optimizer  the optimizer whose rates are set
---@field last_epoch integer  the number of steps so far
---@field base_lrs number[]  each group's rate at the beginning
local LRScheduler = class.class("optim.LRScheduler")

local function number_of(rate)
   return torch.is_tensor(rate) and rate:item() or rate
end

--- Raises an error unless the value is an optimizer.
function LRScheduler:check_optimizer(optimizer)
   if not class.isinstance(optimizer, Optimizer) then
      args.refuse(torch.type(self), "optimizer", "an optimizer", optimizer)
   end
end

---@param optimizer optim.Optimizer
---@param last_epoch? integer  -1, the default: at the beginning
function LRScheduler:__init(optimizer, last_epoch)
   self:check_optimizer(optimizer)
   self.optimizer, self.last_epoch = optimizer, last_epoch or -1
   self.base_lrs = {}
   for g, group in ipairs(optimizer.param_groups) do
      if not group.initial_lr and self.last_epoch ~= -1 then
         torch.raise(("%s: last_epoch: group %d of the optimizer has no initial_lr to go on from;"
            .. " load the optimizer's state first"):format(torch.type(self), g))
      end
      group.initial_lr = number_of(group.initial_lr or group.lr)
      self.base_lrs[g] = group.initial_lr
   end
   self:first_step()
end

--- Makes the initial step, to epoch 0. In this step, some schedulers leave the rates unchanged.
function LRScheduler:first_step()
   self.is_initial = true
   self:step()
   self.is_initial = nil
end

--- Sets a group's rate.
---@param group table
---@param rate number
function LRScheduler:set_lr(group, rate)
   if torch.is_tensor(group.lr) then
      local _ <close> = torch.no_grad()
      group.lr:fill_(rate)
   else
      group.lr = rate
   end
end

--- Goes to the next epoch and sets the rates.
function LRScheduler:step()
   self.last_epoch = self.last_epoch + 1
   for g, group in ipairs(self.optimizer.param_groups) do
      self:set_lr(group, self:next_lr(number_of(group.lr), self.base_lrs[g], g))
   end
end

--- Returns the rate at `self.last_epoch`; each scheduler defines this method. `self.is_initial` is
--- true in the first step.
---@param lr number  the rate before
---@param base number  the rate at the beginning
---@param g integer  the group's position
---@return number
function LRScheduler:next_lr(lr, base, g) -- luacheck: no unused args
   torch.raise(("%s has no method next_lr"):format(torch.type(self)))
end

--- Restarts at epoch 0 from the initial rates. SequentialLR calls this when the scheduler's turn
--- begins.
function LRScheduler:restart()
   for g, group in ipairs(self.optimizer.param_groups) do self:set_lr(group, self.base_lrs[g]) end
   self.last_epoch = -1
   self:first_step()
end

--- Undoes the count of the first step, which the constructor has made. SequentialLR calls this for
--- its schedulers and sets the rates itself.
function LRScheduler:undo()
   self.last_epoch = self.last_epoch - 1
end

--- Returns the present rates of all groups; rates that are tensors are copied.
---@return (number|Tensor)[]
function LRScheduler:get_last_lr()
   local list = {}
   for g, group in ipairs(self.optimizer.param_groups) do
      list[g] = torch.is_tensor(group.lr) and group.lr:detach():clone() or group.lr
   end
   return list
end

-- Returns a copy of a value, or nil if the value contains anything but plain data.
local function copy_plain(value)
   local kind = type(value)
   if kind == "number" or kind == "boolean" or kind == "string" then return value end
   if kind ~= "table" or getmetatable(value) and not kinds.of(value) then return nil end
   local copied = {}
   for key, item in pairs(value) do
      copied[key] = copy_plain(item)
      if copied[key] == nil then return nil end
   end
   return copied
end

-- Raises an error unless `names` is nil or "pytorch".
local function check_names(self, method, names)
   if names ~= nil and names ~= "pytorch" then
      args.refuse(("%s.%s"):format(torch.type(self), method), "names", '"pytorch" or nil', names)
   end
end

--- Returns the state that PyTorch's schedule has; each class adds its own fields.
---@return table
function LRScheduler:to_pytorch()
   local state = {
      base_lrs = copy_plain(self.base_lrs), last_epoch = self.last_epoch,
      _step_count = self.last_epoch + 1, _is_initial = false, _get_lr_called_within_step = false,
      _last_lr = self:get_last_lr(),
   }
   for _, name in ipairs(self.pytorch_names) do state[name] = copy_plain(self[name]) end
   return state
end
LRScheduler.pytorch_names = {}

--- Converts a state of PyTorch's schedule to this schedule's form. A state that already has this
--- form is returned unchanged.
---@param state table
---@return table
function LRScheduler:from_pytorch(state) return state end

--- Returns the schedule's state as plain data, without functions and the optimizer. The field
--- `_last_lr` has the rates that PyTorch's schedules return from get_last_lr. With {names =
--- "pytorch"} the result is the state of PyTorch's schedule instead.
---@param names? "pytorch"
---@return table
function LRScheduler:state_dict(names)
   check_names(self, "state_dict", names)
   if names then return self:to_pytorch() end
   local state = {}
   for key, value in pairs(self) do state[key] = copy_plain(value) end
   state._last_lr = self:get_last_lr()
   return state
end

-- Returns a state in this schedule's form. Raises an error for a state that both lacks an option of
-- this kind of schedule and has an unknown option, because it must be the state of another kind of
-- schedule.
local function converted(self, given)
   local title <const> = torch.type(self) .. ".load_state_dict"
   local ok, state = pcall(self.from_pytorch, self, given)
   if not ok then args.refuse(title, "state_dict", "a state of this schedule", given) end
   local lacking, foreign
   for _, name in ipairs(self.pytorch_names) do
      if state[name] == nil and copy_plain(self[name]) ~= nil then lacking = lacking or name end
   end
   for key in pairs(state) do
      if type(key) ~= "string" or key:sub(1, 1) ~= "_" and self[key] == nil then
         local name = tostring(key)
         foreign = foreign and foreign < name and foreign or name
      end
   end
   if lacking and foreign then
      torch.raise(("%s: state_dict: expected %s, got %s: a state of another schedule"):format(
         title, lacking, foreign))
   end
   return state
end

--- Restores a saved state, of this schedule or of PyTorch's.
---@param state_dict table
---@param names? "pytorch"  has no effect, since both kinds of states are recognized
function LRScheduler:load_state_dict(state_dict, names)
   check_names(self, "load_state_dict", names)
   for key, value in pairs(converted(self, state_dict)) do
      if type(key) == "string" and key:sub(1, 1) ~= "_" then self[key] = copy_plain(value) end
   end
end

--- Returns the value of an option for group g. The option is one value for all groups, or a list
--- with a value for each group.
---@param value any
---@param g integer
function LRScheduler.of_group(value, g)
   if type(value) == "table" and not getmetatable(value) then return value[g] end
   return value
end

--- Raises an error if an option that is a list does not have one value for each group.
---@param ... string  their names
function LRScheduler:check_lists(...)
   local groups = #self.optimizer.param_groups
   for _, name in ipairs {...} do
      local value = self[name]
      if type(value) == "table" and not getmetatable(value) and #value ~= groups then
         torch.raise(("%s: %s: expected one for each of %d groups, got %d of them"):format(
            torch.type(self), name, groups, #value))
      end
   end
end

--- Defines the class optim.lr_scheduler.<name>. Its options become fields; next_lr computes the
--- next rate of group g.
---@param name string
---@param options string  the options' declarations, as args.signature takes them
---@param next_lr fun(self: optim.LRScheduler, lr: number, base: number, g: integer): number
---@param check? fun(self: optim.LRScheduler, name: string)  checks the options before the first
--- step
---@return table class
function LRScheduler.define(name, options, next_lr, check)
   local full_name = "optim.lr_scheduler." .. name
   local fields = options .. (options == "" and "" or ", ") .. "last_epoch: integer = -1"
   local signature = args.signature(("%s(optimizer: any, %s)"):format(full_name, fields))
   local Schedule = class.class(full_name, LRScheduler)
   function Schedule:__init(...)
      local a = signature(...)
      self:check_optimizer(a.optimizer)
      for key, value in pairs(a) do self[key] = value end
      if check then check(self, full_name) end
      LRScheduler.__init(self, a.optimizer, a.last_epoch)
   end
   Schedule.next_lr = next_lr
   Schedule.pytorch_names = {}
   for option in options:gmatch "([%w_]+)%s*:" do
      table.insert(Schedule.pytorch_names, option)
   end
   return Schedule
end

checked.methods(LRScheduler,
   [[step() get_last_lr() state_dict(names: string?)
   load_state_dict(state_dict: table, names: string?)]])

return LRScheduler
