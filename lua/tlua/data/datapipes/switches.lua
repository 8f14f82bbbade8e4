-- switches.lua - what holds in this interpreter: whether items are checked, and whether pipes must
-- be deterministic.

local args = require "tlua.args"

local M = {validation = true, determinism = false}

--- A function that sets a switch: while `fn` runs, whose results it returns, or without one until
--- what it returns is closed.
---@param who string  the function, for messages
---@param name string
---@param value boolean
---@return fun(fn?: function): any
function M.scope(who, name, value)
   return function(fn)
      if fn ~= nil and type(fn) ~= "function" then args.refuse(who, "fn", "a function", fn) end
      local before = M[name]
      M[name] = value
      local scope = setmetatable({}, {__close = function() M[name] = before end})
      if fn == nil then return scope end
      local _ <close> = scope
      return fn()
   end
end

return M
