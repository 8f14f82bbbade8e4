-- Subset.lua - a dataset of some items of another dataset, in a given order.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Dataset = require "tlua.data.Dataset"
local items = require "tlua.data.items"

--- A dataset of some items of another dataset, given by a list of positions.
---
---     local set = torch.data.TensorDataset(torch.arange(4) * 10)
---     local part = torch.data.Subset(set, {4, 1})
---     print(#part, part:get(1))
---     --> 2	tensor(30)
---@class data.Subset: data.Dataset
---@field dataset data.Dataset  the dataset from which the items are taken
---@field indices Tensor  the positions of the items, an int64 tensor of shape (n)
---@overload fun(dataset: data.Dataset, indices: Tensor|integer[]): data.Subset
local Subset, parent = class.class("data.Subset", Dataset)

---@param dataset data.Dataset
---@param indices Tensor|integer[]  positions in the dataset
function Subset:__init(dataset, indices)
   parent.__init(self)
   if not items.is_dataset(dataset) then
      args.refuse("data.Subset", "dataset", "a dataset", dataset)
   end
   if type(indices) == "table" then
      indices = torch.tensor(indices, {dtype = "int64", device = "cpu"})
   end
   if not torch.is_tensor(indices) or indices:dim() ~= 1 or indices.dtype ~= "int64" then
      args.refuse("data.Subset", "indices", "a list of positions or a 1-d int64 tensor", indices)
   end
   self.dataset, self.indices = dataset, indices
   -- the subset can return whole batches if the dataset can
   if items.gives_batches(dataset) then
      self.get_items = function(subset, positions)
         local own = subset.indices
         return subset.dataset:get_items(own:index_select(1, positions:to(own.device)))
      end
   end
end

function Subset:__len()
   return self.indices:size(1)
end

--- Returns the item at a position of the list of indices.
---@param i integer
---@return any ...
function Subset:get(i)
   return items.get(self.dataset, self.indices[i]:item())
end

return Subset
