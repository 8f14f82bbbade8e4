-- scope.lua - scopes: values for `local _ <close>` whose end undoes a change; and functions that
-- change something for the time that a function runs, or until such a scope ends.
--
-- A debug hook that raises, as Ctrl-C does in the interactive mode, may strike at the call of
-- `__close`, which then does not run. So while a line of that mode runs, open scopes are noted, and
-- scopes that are still open after the line was interrupted are closed then.

local args = require "tlua.args"

local M = {}

local open -- the scopes that a line of the interactive mode has opened, in order; nil: none runs

local Scope = {}

function Scope.__close(self, fault)
   self.close(fault)
   self.done = true
   if open and open[#open] == self then open[#open] = nil end
end

--- A value for `local _ <close>`. A caller makes it before the change that it undoes. `close` may
--- be called when the change is half made, and a second time after an interruption.
---@param close fun(fault: any)  gets the error that has ended the scope, if one has
---@return table scope
function M.new(close)
   local scope = setmetatable({close = close, done = false}, Scope)
   if open then open[#open + 1] = scope end
   return scope
end

--- A scope that ends others, the last of the list first.
---@param list table[]  values for `local _ <close>`
---@return table scope
function M.all(list)
   return M.new(function(fault)
      for i = #list, 1, -1 do getmetatable(list[i]).__close(list[i], fault) end
   end)
end

--- Refuses an argument `fn` that is neither nil nor can be called.
---@param title string  of the function that has the argument
---@param fn any
function M.check_function(title, fn)
   if fn ~= nil and not args.is_callable(fn) then
      args.refuse(title, "fn", "a function or nil", fn)
   end
end

--- Makes a change for the time that fn runs, and undoes it when fn ends, fails or is abandoned.
--- Without fn the result is a scope, whose end undoes it: local _ <close> = M.run(change, restore).
---@param change fun()
---@param restore fun(fault: any)
---@param fn? fun(...): any
---@param ... any  fn's arguments
---@return any ...  fn's results, or the scope
function M.run(change, restore, fn, ...)
   local scope = M.new(restore)
   local ok, message = pcall(change)
   if not ok then
      Scope.__close(scope, message)
      error(message, 0)
   end
   if fn == nil then return scope end
   local _ <close> = scope
   return fn(...)
end

--- Gives a field another value for the time that fn runs or, without fn, until the scope that is
--- returned ends.
---@param target table
---@param key any
---@param value any
---@param fn? fun(...): any
---@param ... any  fn's arguments
---@return any ...  fn's results, or the scope
function M.with_field(target, key, value, fn, ...)
   local before = rawget(target, key)
   local scope = M.new(function() rawset(target, key, before) end)
   rawset(target, key, value)
   if fn == nil then return scope end
   local _ <close> = scope
   return fn(...)
end

-- The interactive mode -------------------------------------------------------------------------

--- Begins to note scopes.
function M.begin_line()
   open = {}
end

--- Forgets the noted scopes.
---@param close boolean  whether to close those that are open, the newest first
function M.end_line(close)
   local list = open or {}
   open = nil
   for i = close and #list or 0, 1, -1 do
      if not list[i].done then pcall(Scope.__close, list[i]) end
   end
end

return M
