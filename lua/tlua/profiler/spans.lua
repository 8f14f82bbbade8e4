-- spans.lua - lets a program name its parts in a profile.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"

local M = {}

local Span = {__name = "profiler.Span"}

function Span:__close()
   if self.session then torch._span_close(self.session, self.event) end
   self.session = nil
end
Span.__index = {close = Span.__close}

--- Opens a span of a kind; the span ends at the call of `close()`, or with the block of a `<close>`
--- variable.
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

--- Calls fn(...) in a span. If fn raises an error, the span ends with the span around it.
function M.call(kind, name, fn, ...)
   local session, event = torch._span_open(kind, name)
   return finish(session, event, fn(...))
end

--- Returns a function that calls fn, within a span if a profile is running.
---@param kind string
---@param name string
---@param fn function
---@return function
function M.watched(kind, name, fn)
   local function watched(...)
      if not torch._spans_seen() then return fn(...) end
      return M.call(kind, name, fn, ...)
   end
   checked.wraps(watched, fn)
   return watched
end

--- Names a part of the program in the profile: `record_function(name, fn, ...)` calls fn(...) and
--- returns its results; `local _ <close> = record_function(name)` names the rest of the block.
--- Named parts can be nested. If no profile is running, record_function only calls fn.
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
