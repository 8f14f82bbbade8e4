-- switches.lua - two settings of this interpreter: whether the types of items are checked, and
-- whether pipes must be deterministic.

local scopes = require "tlua.scope"

local M = {validation = true, determinism = false}

--- Returns a function that sets a switch while `fn` runs, and returns fn's results. Without fn, the
--- switch stays set until the returned scope is closed.
---@param who string  the function's name, for error messages
---@param name string
---@param value boolean
---@return fun(fn?: function): any
function M.scope(who, name, value)
   return function(fn)
      scopes.check_function(who, fn)
      return scopes.with_field(M, name, value, fn)
   end
end

return M
