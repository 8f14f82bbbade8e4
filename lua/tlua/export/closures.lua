-- closures.lua - finds functions that assign to their upvalues while they are recorded. Such
-- functions are refused, because a program would always use the values that the upvalues had in the
-- recorded call.

local torch = require "tlua"

local function upvalue(fn, i)
   if debug and debug.getupvalue and type(fn) == "function" then return debug.getupvalue(fn, i) end
end

--- Reads the values of a function's upvalues. Returns a function that raises an error if one of the
--- upvalues has changed since.
---@param title string  the operator
---@param what string  the name that the function has in a call of the operator
---@param fn any
---@return function check
return function(title, what, fn)
   local values, n = {}, 0
   for i = 1, 255 do
      local name, value = upvalue(fn, i)
      if not name then break end
      values[i], n = value, i
   end
   return function()
      for i = 1, n do
         local name, value = upvalue(fn, i)
         if not rawequal(value, values[i]) and (value == value or values[i] == values[i]) then
            torch.raise(("%s: %s assigns the variable %s outside of it, which torch.export cannot "
               .. "repeat; return a tensor instead"):format(title, what, name))
         end
      end
   end
end
