-- results.lua - collects the values that a module logs during a loop.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local is_tensor <const> = torch.is_tensor
local dim <const>, detach <const> = torch.Tensor.dim, torch.Tensor.detach

local Results = class.class("trainer.Results")

-- Maps each stage in which values may be logged to the defaults of the options on_step and
-- on_epoch. A value of a training batch is logged at once. A value of any other stage is logged as
-- its mean over the epoch.
local defaults <const> = {
   train_batch = {true, false}, train_epoch = {false, true}, eval = {false, true},
}

local reductions <const> = {mean = true, sum = true, min = true, max = true}

function Results:__init(suffix)
   self.suffix = suffix or ""
   self:reset()
end

--- Clears the values at the beginning of an epoch.
function Results:reset()
   self.entries, self.order, self.is_fresh = {}, {}, false
   self.defers, self.postpones = false, false
end

-- Returns the number of examples in a batch, which is the first size of its first tensor, or nil
-- if it has no tensor. The search goes through list entries first, and then through named fields in
-- alphabetical order.
local function size_of(batch)
   if torch.is_tensor(batch) then return batch:dim() > 0 and batch:size(1) or 1 end
   if type(batch) ~= "table" then return nil end
   for i = 1, #batch do
      local n = size_of(batch[i])
      if n then return n end
   end
   local names = {}
   for name in pairs(batch) do
      if type(name) == "string" then names[#names + 1] = name end
   end
   table.sort(names)
   for _, name in ipairs(names) do
      local n = size_of(batch[name])
      if n then return n end
   end
end

local function refuse(trainer, name, text)
   torch.raise(("%s.log: %s: %s"):format(torch.type(trainer.module), name, text))
end

local function begin(self, trainer, a)
   local standard = defaults[trainer.log_stage or ""]
   if not standard then
      refuse(trainer, a.name, ("values are logged in steps and in hooks of batches and epochs, "
         .. "not in "
         .. "%s"):format(trainer.log_place or "this hook"))
   end
   local entry = {name = a.name, prog_bar = a.prog_bar or false, logger = a.logger ~= false,
      on_step = a.on_step, on_epoch = a.on_epoch, reduce_fx = a.reduce_fx or "mean",
      sync_dist = a.sync_dist, count = 0}
   if entry.on_step == nil then entry.on_step = standard[1] and not a.on_epoch or false end
   if a.on_step == nil and standard[1] then entry.on_step = true end
   if entry.on_epoch == nil then entry.on_epoch = standard[2] end
   if not reductions[entry.reduce_fx] then
      args.refuse("trainer.Module.log", "reduce_fx", "mean, sum, min or max", a.reduce_fx)
   end
   if not entry.on_step and not entry.on_epoch then
      refuse(trainer, a.name, "expected on_step or on_epoch, got neither")
   end
   entry.forked = entry.on_step and entry.on_epoch
   entry.step_name = a.name .. "_step" .. self.suffix
   -- In steps whose values are not passed to loggers, a silent value only goes to callback_metrics.
   entry.is_silent = not entry.on_epoch and not entry.prog_bar and not entry.sync_dist
   self.entries[a.name] = entry
   self.order[#self.order + 1] = entry
   return entry
end

local function accumulate(entry, value, weight)
   if entry.reduce_fx == "mean" then
      entry.sum = entry.sum and entry.sum + value * weight or value * weight
      entry.count = entry.count + weight
   elseif entry.reduce_fx == "sum" then
      entry.sum = (entry.sum or 0) + value
   else
      local number = args.to_number("trainer.Module.log", entry.name, value)
      local sum = entry.sum or number
      -- If one of the values is NaN, the result is NaN, as in torch.max and torch.min.
      entry.sum = (sum ~= sum or number ~= number) and 0 / 0 or math[entry.reduce_fx](sum, number)
   end
end

-- Returns a value in the form in which it is stored: a number, or a detached tensor of one element.
local function checked(name, value)
   if torch.is_tensor(value) and value:numel() == 1 then
      value = value:detach()
      return value:dim() > 0 and value:view({}) or value
   elseif type(value) == "number" then
      return value
   elseif type(value) == "boolean" then
      return value and 1 or 0
   end
   args.refuse("trainer.Module.log", "value",
      ("a number or a tensor of one element for %q"):format(name), value)
end

local function keep(self, trainer, entry, value, batch_size)
   entry.value, entry.fresh, self.is_fresh = value, true, true
   if entry.on_epoch then
      local _ <close> = torch.no_grad()
      -- The log accumulates a copy, because the tensor may change in place later.
      accumulate(entry, value, batch_size or size_of(trainer.current.batch) or 1)
   end
end

--- Adds a value if it was logged before in the same hook under this name and without options.
--- Returns false if it was not; the caller must then call `add`. If the field `defers` is true, the
--- current step is not one that loggers get. A value that neither the epoch, the progress bar nor
--- other ranks need is then only passed to callback_metrics.
function Results:add_again(trainer, name, value)
   local entry = self.entries[name]
   if not entry or entry.plain_place ~= trainer.log_place then return false end
   if is_tensor(value) and dim(value) == 0 then
      value = detach(value)
   else
      value = checked(name, value)
   end
   if entry.on_epoch then
      keep(self, trainer, entry, value)
   elseif self.defers and entry.is_silent then
      entry.value, trainer.callback_metrics[name] = value, value
   else
      entry.value, entry.fresh, self.is_fresh = value, true, true
   end
   return true
end

--- Adds a value. `a` has the arguments of Module:log.
function Results:add(trainer, a)
   local name = a.name
   if type(name) ~= "string" or name == "" then
      args.refuse("trainer.Module.log", "name", "a name", name)
   end
   local value = checked(name, a.value)
   if a.batch_size ~= nil and (type(a.batch_size) ~= "number" or a.batch_size <= 0) then
      args.refuse("trainer.Module.log", "batch_size", "a number above 0", a.batch_size)
   end
   local entry = self.entries[name] or begin(self, trainer, a)
   for _, option in ipairs {"reduce_fx", "on_step", "on_epoch"} do
      local given = entry.given
      if given and given.place == trainer.log_place and a[option] ~= given[option] then
         refuse(trainer, name, ("was logged with %s = %s before, and with %s now"):format(option,
            tostring(given[option]), tostring(a[option])))
      end
   end
   entry.given = entry.given or {reduce_fx = a.reduce_fx, on_step = a.on_step,
      on_epoch = a.on_epoch, place = trainer.log_place}
   local given = entry.given
   entry.plain_place = given.reduce_fx == nil and given.on_step == nil and given.on_epoch == nil
      and given.place
   keep(self, trainer, entry, value, a.batch_size)
end

local function reduced(trainer, entry, value)
   if not entry.sync_dist or trainer.world_size == 1 then return value end
   local dist = torch.distributed
   local op = entry.reduce_fx == "mean" and "avg" or entry.reduce_fx
   local tensor = torch.tensor(args.to_number("log", entry.name, value), {dtype = "float64"})
   tensor = tensor:to(trainer.device)
   dist.all_reduce(tensor, op == "avg" and "sum" or op)
   return op == "avg" and tensor:item() / trainer.world_size or tensor:item()
end

--- Returns the value of an entry for the current step, reduced over the ranks if the option
--- sync_dist is set.
function Results:step_value(trainer, entry) -- luacheck: no self
   return reduced(trainer, entry, entry.value)
end

--- Calls visit(name, value, entry) for each value of the epoch. For a value that was also logged
--- for steps, then calls visit(name_epoch, value, entry, true) as well.
function Results:each_epoch(trainer, visit)
   for _, entry in ipairs(self.order) do
      if entry.on_epoch and entry.sum ~= nil then
         local value = entry.sum
         if entry.reduce_fx == "mean" then value = value / entry.count end
         value = reduced(trainer, entry, value)
         visit(entry.name .. self.suffix, value, entry)
         if entry.forked then visit(entry.name .. "_epoch" .. self.suffix, value, entry, true) end
      end
   end
end

--- Returns the entries as plain data.
function Results:state_dict()
   local list = {}
   for i, entry in ipairs(self.order) do
      list[i] = {}
      for key, value in pairs(entry) do list[i][key] = value end
   end
   return list
end

-- Returns the entry with the given name, or nil.
local function find(list, name)
   for _, entry in ipairs(list) do
      if entry.name == name then return entry end
   end
end

-- Divides the values that the old ranks have accumulated under a name among the new ranks. Reducing
-- the results over the new ranks gives the same value as before.
local function redistribute(entry, lists, rank)
   local sum, count
   for _, list in ipairs(lists) do
      local other = find(list, entry.name)
      if other and other.sum ~= nil then
         local value = args.to_number("log", entry.name, other.sum)
         if entry.reduce_fx == "mean" then value = value / other.count end
         count = (count or 0) + 1
         if sum == nil then
            sum = value
         elseif entry.reduce_fx == "min" or entry.reduce_fx == "max" then
            sum = (sum ~= sum or value ~= value) and 0 / 0 or math[entry.reduce_fx](sum, value)
         else
            sum = sum + value
         end
      end
   end
   if sum == nil then return end
   if entry.reduce_fx == "mean" then
      entry.sum, entry.count = sum / count, 1
   else
      entry.sum = (entry.reduce_fx == "sum" and rank > 0) and 0 or sum
   end
end

--- Returns the entries for one rank if a training continues with another number of ranks than it
--- was saved with. Values with sync_dist still reduce to the same result. All other values are
--- those of the first rank.
---@param lists table[]  the results of state_dict on the old ranks
---@param rank integer  the new rank, from 0
---@return table
function Results.divide(lists, rank)
   local divided = {}
   for i, entry in ipairs(lists[1]) do
      divided[i] = {}
      for key, value in pairs(entry) do divided[i][key] = value end
      if entry.sync_dist and entry.sum ~= nil then redistribute(divided[i], lists, rank) end
   end
   return divided
end

function Results:load_state_dict(list)
   self:reset()
   for i, entry in ipairs(list) do
      self.order[i], self.entries[entry.name] = entry, entry
      self.is_fresh = self.is_fresh or entry.fresh or false
   end
end

return Results
