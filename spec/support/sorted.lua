-- sorted.lua - iterates over the pairs of a table in a fixed order. The order of `pairs` differs from run to
-- run. If a loop draws random numbers, they would depend on that order, and a failure could not be
-- reproduced.

--- Iterates over a table like `pairs`, but sorts the keys: strings, numbers and booleans in alphabetical
--- order.
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
