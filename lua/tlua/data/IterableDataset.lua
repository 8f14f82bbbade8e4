-- IterableDataset.lua - the base of datasets that are read as a stream. A user-defined dataset has
-- `iter`, which returns a function that returns the next item at each call and nil at the end.

local torch = require "tlua"
local class = require "tlua.class"
local indexing = require "tlua.data.indexing"

--- The base of datasets that are read as a stream. A user-defined class has `iter`, which returns
--- an iterator over the items.
---
---
---     local Count = torch.class("Count", torch.data.IterableDataset)
---     function Count:iter()
---        local i = 0
---        return function()
---           i = i + 1
---           return i <= 4 and torch.tensor(i) or nil
---        end
---     end
---     local loader = torch.data.DataLoader(Count(), {batch_size = 2})
---     for x in loader:iter() do print(x) end
---     --> tensor([1, 2])
---     --> tensor([3, 4])
---@class data.IterableDataset
---@field iter fun(self): fun(): any ...  returns an iterator over the samples
local IterableDataset = class.class("data.IterableDataset")

indexing.refuse(IterableDataset, "for x in dataset:iter() do")

--- Returns this dataset followed by another one, as a ChainDataset.
---@param other data.IterableDataset
---@return data.ChainDataset
function IterableDataset:__add(other)
   return require "tlua.data.ChainDataset" {self, other}
end

function IterableDataset:iter()
   torch.raise(("%s has no method iter"):format(torch.type(self)))
end

return IterableDataset
