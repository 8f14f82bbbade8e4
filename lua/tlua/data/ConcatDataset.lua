-- ConcatDataset.lua - joins several datasets into one, which has the items of the first dataset,
-- then the items of the second dataset, and so on.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Dataset = require "tlua.data.Dataset"
local items = require "tlua.data.items"

--- Joins datasets: the items of each dataset follow the items of the dataset before it.
---
---     local a = torch.data.TensorDataset(torch.arange(2))
---     local b = torch.data.TensorDataset(torch.arange(3))
---     print(#torch.data.ConcatDataset {a, b}, #(a + b))
---     --> 5	5
---@class data.ConcatDataset: data.Dataset
---@field datasets data.Dataset[]  the datasets in their order
---@overload fun(datasets: data.Dataset[]): data.ConcatDataset
local ConcatDataset, parent = class.class("data.ConcatDataset", Dataset)

---@param datasets data.Dataset[]
function ConcatDataset:__init(datasets)
   parent.__init(self)
   if type(datasets) ~= "table" or #datasets == 0 then
      args.refuse("data.ConcatDataset", "datasets", "a list of datasets", datasets)
   end
   self.datasets, self.ends = datasets, {}
   local total = 0
   for i = 1, #datasets do
      local dataset = datasets[i]
      if not items.is_dataset(dataset) then
         args.refuse("data.ConcatDataset", "dataset " .. i, "a dataset", dataset)
      end
      total = total + #dataset
      self.ends[i] = total
   end
end

function ConcatDataset:__len()
   return self.ends[#self.ends]
end

--- Returns the item at a position of the joined dataset.
---@param i integer
---@return any ...
function ConcatDataset:get(i)
   local before = 0
   for k, last in ipairs(self.ends) do
      if i <= last then return items.get(self.datasets[k], i - before) end
      before = last
   end
   torch.raise(("data.ConcatDataset: position %d of %d"):format(i, #self))
end

return ConcatDataset
