-- items.lua - recognizes datasets and fetches their items. A dataset is an object with `get` and a
-- length, a tensor, whose items are its rows, or a plain list, whose items may be lists of several
-- values.

local torch = require "tlua"
local class = require "tlua.class"

local M = {}

--- Returns whether a value is a dataset with positions.
---@param dataset any
---@return boolean
function M.is_dataset(dataset)
   if type(dataset) ~= "table" and type(dataset) ~= "userdata" then return false end
   if torch.is_tensor(dataset) then return dataset:dim() > 0 end
   if type(dataset) == "userdata" then return false end
   if getmetatable(dataset) then return dataset.get ~= nil end
   -- A table that has keys but no list elements is not a dataset.
   return #dataset > 0 or next(dataset) == nil
end

--- Returns whether a dataset can give whole batches.
---@param dataset any
---@return boolean
function M.gives_batches(dataset)
   return type(dataset) == "table" and getmetatable(dataset) ~= nil
      and dataset.get_items ~= nil
end

--- Returns the item at a position, as one value or several.
---@param dataset any
---@param i integer
---@return any ...
function M.get(dataset, i)
   if type(dataset) == "table" and getmetatable(dataset) then return dataset:get(i) end
   local item = dataset[i]
   if item == nil then
      torch.raise(("data: position %s: expected 1 to %d, since the dataset is a list of that "
         .. "length"):format(i, #dataset))
   end
   if type(item) == "table" and not getmetatable(item) and #item > 0 then
      return table.unpack(item)
   end
   return item
end

--- Returns whether a value is a dataset without positions.
---@param dataset any
---@return boolean
function M.is_stream(dataset)
   return class.isinstance(dataset, require "tlua.data.IterableDataset")
end

--- Returns the functions that set the order, share and seed of a pipe of the package datapipes.
---@param dataset any
---@return table? settings  the module tlua.datapipes.graph_settings; nil if `dataset` is not such a
--- pipe
function M.pipe_settings(dataset)
   local pipes = package and package.loaded["tlua.datapipes.IterDataPipe"]
   if not (pipes and class.isinstance(dataset, pipes)) then return nil end
   return require "tlua.datapipes.graph_settings"
end

return M
