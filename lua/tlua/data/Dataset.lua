-- Dataset.lua - the base of map-style datasets, whose items have positions. A user-defined dataset
-- has a length and returns an item, which is one value or several:
--
--    local Squares = torch.class("Squares", torch.data.Dataset)
--    function Squares:__len() return 100 end
--    function Squares:get(i) return torch.tensor(i), torch.tensor(i * i) end
--
-- dataset[i] is the same item as one value, which is a list if `get` returns several values.
-- #dataset is the length, ipairs iterates over the items, and + appends another dataset.
--
-- A dataset that can fetch many items faster at once than one by one also has the method
-- `get_items`, which takes a 1-d int64 tensor of positions and returns whole batches.

local torch = require "tlua"
local class = require "tlua.class"
local indexing = require "tlua.data.indexing"

--- The base of datasets whose items have positions. A user-defined class has `get`, which returns
--- an item, and `__len`.
---
---     local Squares, parent = torch.class("Squares", torch.data.Dataset)
---     function Squares:__len() return 4 end
---     function Squares:get(i) return torch.tensor(i), torch.tensor(i * i) end
---     for x, y in torch.data.DataLoader(Squares(), {batch_size = 4}):iter() do
---        print(x, y)
---     end
---     --> tensor([1, 2, 3, 4])	tensor([ 1,  4,  9, 16])
---@class data.Dataset
---@field get fun(self, i: integer): any ...  returns the sample with a number, from 1
---@field get_items? fun(self, positions: Tensor): any ...  returns the rows at several positions
local Dataset = class.class("data.Dataset")

function Dataset:get()
   torch.raise(("%s has no method get"):format(torch.type(self)))
end

function Dataset:__len()
   torch.raise(("%s has no metamethod __len"):format(torch.type(self)))
end

indexing.define(Dataset, function(self, i, ends)
   local n = #self
   if ends and i == n + 1 then return nil end
   local position = i < 0 and n + 1 + i or i
   indexing.check(self, position, i)
   local item = table.pack(self:get(position))
   if item.n <= 1 then return item[1] end
   item.n = nil
   return item
end)

--- Returns this dataset followed by another one, as a ConcatDataset.
---@param other data.Dataset
---@return data.ConcatDataset
function Dataset:__add(other)
   return require "tlua.data.ConcatDataset" {self, other}
end

--- Iterates over the positions and items: `for i, x, y in dataset:items()`.
---@return fun(): integer, any ...
function Dataset:items()
   local i, n = 0, #self
   return function()
      if i >= n then return nil end
      i = i + 1
      return i, self:get(i)
   end
end

return Dataset
