-- optimizers.lua - calls configure_optimizers and reads its result.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local notice = require "tlua.utils.notice"

local M = {}

local function is_optimizer(value)
   return class.isinstance(value, torch.optim.Optimizer)
end

local function is_schedule(value)
   return class.isinstance(value, torch.optim.lr_scheduler.LRScheduler)
end

local function is_plateau(value)
   return class.isinstance(value, torch.optim.lr_scheduler.ReduceLROnPlateau)
end

local function schedule_of(who, value)
   local entry = {interval = "epoch", frequency = 1, strict = true}
   if is_schedule(value) then
      entry.scheduler = value
   elseif type(value) == "table" and not getmetatable(value) then
      args.check_options(who .. ": lr_scheduler", value, "scheduler", "interval", "frequency",
         "monitor", "strict", "name", "reduce_on_plateau")
      for key, given in pairs(value) do entry[key] = given end
   end
   if not is_schedule(entry.scheduler) then
      args.refuse(who, "lr_scheduler", "a schedule of torch.optim.lr_scheduler, or a table with "
         .. "the field scheduler", value)
   end
   if entry.interval ~= "epoch" and entry.interval ~= "step" then
      args.refuse(who, "interval", "epoch or step", entry.interval)
   end
   if math.type(entry.frequency) ~= "integer" or entry.frequency < 1 then
      args.refuse(who, "frequency", "an integer of at least 1", entry.frequency)
   end
   if entry.reduce_on_plateau == nil then entry.reduce_on_plateau = is_plateau(entry.scheduler) end
   if entry.reduce_on_plateau and type(entry.monitor) ~= "string" then
      args.refuse(who, "monitor", "the name of a logged value, for a schedule that monitors one",
         entry.monitor)
   end
   entry.name = entry.name or torch.type(entry.scheduler):match "[%w_]+$"
   return entry
end

--- Raises an error if several optimizers would have to be stepped automatically.
---@param self trainer.Trainer
---@param who string  the beginning of the message
---@param count integer  the number of optimizers
function M.check_count(self, who, count)
   if not self.module.automatic_optimization or count <= 1 then return end
   torch.raise(("%s: expected one optimizer, got %d; with several, set automatic_optimization = "
      .. "false, and step them in training_step: local first, second = self:optimizers()"):format(
      who, count))
end

--- Makes the trainer count the steps that training_step makes itself. For this, it adds a hook to
--- each optimizer.
---@param self trainer.Trainer
function M.count_steps(self)
   for i = 1, #self.optimizers do
      local optimizer = self.optimizers[i]
      if not self.counted[optimizer] then
         self.counted[optimizer] = true
         optimizer:register_step_post_hook(function()
            if self.module and not self.module.automatic_optimization then
               self.global_step = self.global_step + 1
            end
         end)
      end
   end
end

-- Returns whether all values are optimizers or tables {optimizer = ...}.
local function are_optimizers(values)
   for i = 1, values.n do
      local value = values[i]
      local is_entry = type(value) == "table" and not getmetatable(value) and value.optimizer ~= nil
      if not is_entry and not is_optimizer(value) then return false end
   end
   return true
end

--- Calls configure_optimizers, and stores the optimizers and the schedules in the trainer.
function M.configure(self)
   local module = self.module
   local who = torch.type(module) .. ".configure_optimizers"
   local expected <const> = "an optimizer, a table {optimizer =, lr_scheduler =}, a list of "
      .. "either, or lists of optimizers and schedules"
   local given = table.pack(module:configure_optimizers())
   if given.n > 1 and are_optimizers(given) then given = {given} end
   local first, second = given[1], given[2]
   local optimizers, schedules = {}, {}
   local function add(item)
      if is_optimizer(item) then
         optimizers[#optimizers + 1] = item
      elseif type(item) == "table" and not getmetatable(item) and item.optimizer ~= nil then
         args.check_options(who, item, "optimizer", "lr_scheduler", "monitor")
         if not is_optimizer(item.optimizer) then args.refuse(who, "optimizer", expected, item) end
         optimizers[#optimizers + 1] = item.optimizer
         if item.lr_scheduler ~= nil then
            local schedule = item.lr_scheduler
            if item.monitor and is_schedule(schedule) then
               schedule = {scheduler = schedule, monitor = item.monitor}
            end
            schedules[#schedules + 1] = schedule_of(who, schedule)
         end
      else
         args.refuse(who, "result", expected, item)
      end
   end
   local pair = type(first) == "table" and not getmetatable(first) and first[1] ~= nil
   if pair and second == nil and type(first[1]) == "table" and not getmetatable(first[1])
      and first[1].optimizer == nil and first[1][1] ~= nil then
      -- The only result was a table with both lists, the optimizers and the schedules.
      first, second = first[1], first[2]
   end
   if first == nil then
      notice("trainer: %s returned nil: the weights stay as they are", who)
   elseif pair then
      for _, item in ipairs(first) do add(item) end
   else
      add(first)
   end
   if second ~= nil then
      if type(second) ~= "table" or is_schedule(second) then second = {second} end
      for _, item in ipairs(second) do schedules[#schedules + 1] = schedule_of(who, item) end
   end
   M.check_count(self, who, #optimizers)
   self.optimizers, self.schedules = optimizers, schedules
   local known, parameters = {}, module:parameters()
   -- For a nested parameter, an optimizer has the tensor of its values.
   for _, parameter in ipairs(parameters) do
      known[parameter.is_nested and parameter:values() or parameter] = true
   end
   local ours = false
   for _, optimizer in ipairs(optimizers) do
      for _, group in ipairs(optimizer.param_groups) do
         for _, parameter in ipairs(group.params) do
            ours = ours or known[parameter] or false
            if ours then break end
         end
      end
   end
   if not module.automatic_optimization then M.count_steps(self) end
   if #optimizers > 0 and not ours and #parameters > 0 then
      torch.raise(who .. ": the optimizer has none of the module's parameters")
   end
end

return M
