-- slicing.lua - positions from the end and ranges as keys of lists of modules: list[-1],
-- list[{2, 3}], list[{2, -1}]. As everywhere, a range includes its end.

local torch = require "tlua"

local type <const>, getmetatable <const> = type, getmetatable

local M = {}

-- First and last position of a range {first, last}; {} is all.
local function bounds(self, range)
   local n, first, last = #self, range[1], range[2]
   if next(range) == nil then return 1, n end
   local fits = #range == 2 and math.type(first) == "integer" and math.type(last) == "integer"
   for key in pairs(range) do fits = fits and (key == 1 or key == 2) end
   if not fits then
      torch.raise(("%s: expected a position, or a range {first, last}"):format(torch.type(self)))
   end
   if first < 0 then first = n + 1 + first end
   if last < 0 then last = n + 1 + last end
   if first < 1 or last > n or first > last + 1 then
      torch.raise(("%s: the range %d to %d does not lie inside of 1 to %d"):format(
         torch.type(self), range[1], range[2], n))
   end
   return first, last
end

--- Gives instances of a class these keys. A position behind the end is nil, as ipairs wants it.
---@param cls table
---@param make fun(modules: nn.Module[]): nn.Module  makes a list that shares some of the modules
function M.define(cls, make)
   function cls:__index(key)
      local kind = type(key)
      if kind == "string" then return getmetatable(self)[key] end -- every method comes this way
      if kind == "table" then
         local first, last = bounds(self, key)
         return make(table.move(self, first, last, 1, {}))
      end
      if math.type(key) == "integer" and key < 0 then
         local position = #self + 1 + key
         if position >= 1 then return rawget(self, position) end
         torch.raise(("%s: expected a position from -%d to -1, got %d"):format(torch.type(self),
            #self, key))
      end
      return getmetatable(self)[key]
   end
end

return M
