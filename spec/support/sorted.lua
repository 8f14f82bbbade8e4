-- sorted.lua - iterates over the pairs of a table in a fixed order. The order of `pairs` differs from run to run. If a
-- loop in that order draws random numbers, a failure cannot be reproduced.

--- Iterates over a table like `pairs`, but in the order of its keys: strings, numbers and booleans are sorted
--- alphabetically.
---@param t table
---@return fun(): any, any
return function(t)
   local keys, i = {}, 0
   for key in pairs(t) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
   return function()
      i = i + 1
      return keys[i], t[keys[i]]
   end
end
