-- spans.lua - parts of a program that have a name in what the profiler records.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local Span = {__name = "profiler.Span"}

function Span:__close()
   if self.session then torch._span_close(self.session, self.event) end
   self.session = nil
end
Span.__index = {close = Span.__close}

--- Opens a span of a kind; it ends with `close()` or as a to-be-closed variable.
---@param kind "user"|"module"|"data"|"optimizer"|"step"
---@param name string
---@return {close: fun(self: table)} span
function M.open(kind, name)
   local session, event = torch._span_open(kind, name)
   return setmetatable({session = session, event = event}, Span)
end

local function finish(session, event, ...)
   torch._span_close(session, event)
   return ...
end

--- Calls fn(...) in a span. One that an error leaves open ends with the span around it.
function M.call(kind, name, fn, ...)
   local session, event = torch._span_open(kind, name)
   return finish(session, event, fn(...))
end

--- A function whose calls are spans while somebody profiles.
---@param kind string
---@param name string
---@param fn function
---@return function
function M.watched(kind, name, fn)
   return function(...)
      if not torch._profiling() then return fn(...) end
      return M.call(kind, name, fn, ...)
   end
end

--- Gives a part of the program a name in what is recorded: `record_function(name, fn, ...)` calls
--- fn(...) and returns its results; `local _ <close> = record_function(name)` holds to the end of
--- the block. Nests; outside of a profile it does nothing.
---@param name string
---@param fn? function
---@param ... any
---@return any ...
function M.record_function(name, fn, ...)
   if type(name) ~= "string" then args.refuse("record_function", "name", "a string", name) end
   if fn == nil then return M.open("user", name) end
   if type(fn) ~= "function" then args.refuse("record_function", "fn", "a function", fn) end
   local _ <close> = M.open("user", name)
   return fn(...)
end

return M
