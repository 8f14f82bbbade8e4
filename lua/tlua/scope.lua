-- scope.lua - scopes: a scope is a value for `local _ <close>` that undoes a change when its block
-- ends. This file also has functions that make a change while another function runs, or until a
-- scope ends.
--
-- A debug hook may raise an error, as Ctrl-C does in the interactive mode. If it raises the error
-- at the call of `__close`, `__close` does not run. Open scopes are therefore recorded while a line
-- of that mode runs, and if the line is interrupted, the scopes that are still open are closed.

local args = require "tlua.args"

local M = {}

local open -- the open scopes of the running interactive line, in order; nil while no line runs

local Scope = {}

function Scope.__close(self, fault)
   self.close(fault)
   self.done = true
   if open and open[#open] == self then open[#open] = nil end
end

--- Makes a value for `local _ <close>`. The caller makes it before making the change. `close` may
--- be called when only a part of the change has been made, and may be called again after an
--- interruption.
---@param close fun(fault: any)  gets the error that has ended the scope, if any
---@return table scope
function M.new(close)
   local scope = setmetatable({close = close, done = false}, Scope)
   if open then open[#open + 1] = scope end
   return scope
end

--- Makes a scope whose end ends the scopes in a list, the last one first.
---@param list table[]  values for `local _ <close>`
---@return table scope
function M.all(list)
   return M.new(function(fault)
      for i = #list, 1, -1 do getmetatable(list[i]).__close(list[i], fault) end
   end)
end

--- Refuses an argument `fn` that is neither nil nor can be called.
---@param title string  the function's name
---@param fn any
function M.check_function(title, fn)
   if fn ~= nil and not args.is_callable(fn) then
      args.refuse(title, "fn", "a function or nil", fn)
   end
end

--- Makes a change while fn runs, and undoes it when fn returns, fails or is abandoned. Without fn
--- it returns a scope that undoes the change at its end: local _ <close> = M.run(change, restore).
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

--- Sets a field to another value while fn runs or, without fn, until the returned scope ends.
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

--- Begins to record scopes.
function M.begin_line()
   open = {}
end

--- Stops recording scopes.
---@param close boolean  whether to close open scopes, the newest first
function M.end_line(close)
   local list = open or {}
   open = nil
   for i = close and #list or 0, 1, -1 do
      if not list[i].done then pcall(Scope.__close, list[i]) end
   end
end

return M
