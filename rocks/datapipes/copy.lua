-- copy.lua - copies items, so that a reader's in-place changes do not affect other readers.

local torch = require "tlua"

local M = {}

--- Returns a new table with the same fields, or a clone of a tensor. Returns other values
--- unchanged.
---@param value any
---@return any
function M.shallow(value)
   if torch.is_tensor(value) then return value:clone() end
   if type(value) ~= "table" then return value end
   local copied = {}
   for key, item in next, value do copied[key] = item end
   return setmetatable(copied, getmetatable(value))
end

--- Copies a value and everything inside it. Functions, classes, and values that are neither tables
--- nor tensors are not copied. A part that occurs several times is copied once.
---@param value any
---@param seen? table<any, any>  values that were copied already
---@return any
function M.deep(value, seen)
   if torch.is_tensor(value) then
      seen = seen or {}
      seen[value] = seen[value] or value:clone()
      return seen[value]
   end
   if type(value) ~= "table" or rawget(value, "__name") ~= nil then return value end
   seen = seen or {}
   if seen[value] then return seen[value] end
   local copied = {}
   seen[value] = copied
   for key, item in next, value do copied[M.deep(key, seen)] = M.deep(item, seen) end
   return setmetatable(copied, getmetatable(value))
end

return M
