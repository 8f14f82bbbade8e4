-- dispatch.lua - calls hooks of callbacks and of the module.
--
-- By default, a hook of callbacks runs before the same hook of the module. Callbacks that save
-- (their field `is_checkpoint` is true) run after the module in the hooks after which a training
-- can be continued. Callbacks that monitor (`is_monitor`) run after the module at the end of an
-- epoch, as in Lightning. A callback's method _ignores(hook, trainer) returns true for hooks in
-- which it would do nothing during a run, so that batches need not call them.

local torch = require "tlua"

local M = {}

local after_module <const> = {on_train_batch_end = true, on_validation_end = true,
   on_train_epoch_end = true}

-- Returns what a hook must call: {before =, monitors =, savers =, module =}. The first three fields
-- are lists of callbacks, and `module` is the module's function or nil.
local function lists_of(self, hook)
   local before, monitors, savers = {}, {}, {}
   for _, callback in ipairs(self.callbacks) do
      if callback[hook] and not (callback._ignores and callback:_ignores(hook, self)) then
         local list = before
         if after_module[hook] and callback.is_checkpoint then
            list = savers
         elseif hook == "on_train_epoch_end" and callback.is_monitor then
            list = monitors
         end
         list[#list + 1] = callback
      end
   end
   return {before = before, monitors = monitors, savers = savers, module = self.module[hook]}
end

--- Prepares the dispatch of hooks for a run. The lists of a hook are made when it is first called.
function M.prepare(self)
   self.hook_lists = setmetatable({}, {__index = function(lists, hook)
      lists[hook] = lists_of(self, hook)
      return lists[hook]
   end})
   -- heard[hook] tells whether a hook has anything to call, so that a loop can skip the calls of
   -- `fire` for each batch.
   self.heard = setmetatable({}, {__index = function(heard, hook)
      local lists = self.hook_lists[hook]
      heard[hook] = self.profiler ~= nil or #lists.before > 0 or lists.module ~= nil
      return heard[hook]
   end})
end

local function call(self, hook, list, ...)
   local result
   for i = 1, #list do
      local callback = list[i]
      local value = callback[hook](callback, self, self.module, ...)
      if value ~= nil and result ~= -1 then result = value end
   end
   return result
end

local function fire(self, hook, ...)
   local lists = self.hook_lists[hook]
   if not self.log_stage then self.log_place = hook end
   local result = call(self, hook, lists.before, ...)
   if lists.module then
      local value = lists.module(self.module, ...)
      if value ~= nil and result ~= -1 then result = value end
   end
   return result
end

--- Calls a hook of the callbacks and then of the module. Returns -1 if one of them has returned -1:
--- from on_train_batch_start this asks the trainer to skip the rest of the epoch. Otherwise returns
--- the last of their results that is not nil.
function M.fire(self, hook, ...)
   if not self.profiler then return fire(self, hook, ...) end
   local begun = torch.io.clock()
   local result = fire(self, hook, ...)
   local entry = self.times[hook] or {count = 0, seconds = 0}
   self.times[hook] = entry
   entry.count, entry.seconds = entry.count + 1, entry.seconds + torch.io.clock() - begun
   return result
end

--- Calls a hook of the callbacks that save.
function M.fire_savers(self, hook, ...) call(self, hook, self.hook_lists[hook].savers, ...) end

--- Calls a hook of the callbacks that monitor, and then of the callbacks that save.
function M.fire_monitors(self, hook, ...)
   call(self, hook, self.hook_lists[hook].monitors, ...)
   call(self, hook, self.hook_lists[hook].savers, ...)
end

return M
