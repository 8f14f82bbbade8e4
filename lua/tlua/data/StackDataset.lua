-- StackDataset.lua - combines datasets of the same length: each item consists of one item of each
-- dataset.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Dataset = require "tlua.data.Dataset"
local items = require "tlua.data.items"

--- Combines datasets of the same length: an item consists of one item of each dataset.
---
---     local a = torch.data.TensorDataset(torch.arange(2))
---     local b = torch.data.TensorDataset(torch.arange(2) * 10)
---     print(#torch.data.StackDataset(a, b))
---     --> 2
---@class data.StackDataset: data.Dataset
---@field datasets data.Dataset[]|table<string, data.Dataset>  the datasets by name or position
---@overload fun(...: data.Dataset): data.StackDataset
---@overload fun(datasets: table<string, data.Dataset>): data.StackDataset
local StackDataset, parent = class.class("data.StackDataset", Dataset)

-- Returns whether the arguments are one table of datasets with string keys.
local function are_named(first, ...)
   if select("#", ...) > 0 or type(first) ~= "table" or getmetatable(first) then return false end
   return type(next(first)) == "string"
end

--- Makes the dataset. If the argument is one table of datasets by name, an item is a table with the
--- same names; otherwise an item consists of several values, one for each dataset.
---@param ... data.Dataset  datasets of the same length, or one table of datasets by name
function StackDataset:__init(...)
   parent.__init(self)
   self.named = are_named(...)
   self.datasets = self.named and (...) or {...}
   if next(self.datasets) == nil then
      torch.raise("data.StackDataset: expected at least one dataset, got none")
   end
   for key, dataset in pairs(self.datasets) do
      if not items.is_dataset(dataset) then
         args.refuse("data.StackDataset", ("dataset %s"):format(key), "a dataset", dataset)
      end
      self.length = self.length or #dataset
      if #dataset ~= self.length then
         torch.raise(("data.StackDataset: dataset %s: expected %d items as in the others, got %d")
            :format(key, self.length, #dataset))
      end
   end
end

function StackDataset:__len()
   return self.length
end

-- Packs the values of one dataset's item into one value; several values become a list.
local function pack(first, ...)
   if select("#", ...) == 0 then return first end
   return {first, ...}
end

--- Returns a table with a sample of each dataset, or the samples as several values.
---@param i integer
---@return any ...
function StackDataset:get(i)
   local item = {}
   for key, dataset in pairs(self.datasets) do item[key] = pack(items.get(dataset, i)) end
   if self.named then return item end
   return table.unpack(item, 1, #self.datasets)
end

return StackDataset
