-- copy.lua - copies of items, so that what is done to them in place stays with one reader.

local torch = require "tlua"

local M = {}

--- A table of its own with the same fields; a tensor of its own. Anything else is returned as it
--- is.
---@param value any
---@return any
function M.shallow(value)
   if torch.is_tensor(value) then return value:clone() end
   if type(value) ~= "table" then return value end
   local copied = {}
   for key, item in next, value do copied[key] = item end
   return setmetatable(copied, getmetatable(value))
end

--- A copy of a value and of all that it holds, but functions, classes and what is neither table nor
--- tensor. What is shared inside stays shared.
---@param value any
---@param seen? table<any, any>  what has been copied already
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
