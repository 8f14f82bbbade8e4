-- IterableDataset.lua - the base of datasets whose items come one after the other, as from a
-- stream. A dataset of one's own has `iter`, which returns a function that gives the next item at
-- each call and nil at the end.

local torch = require "tlua"
local class = require "tlua.class"

---@class data.IterableDataset
---@field iter fun(self): fun(): any ...
local IterableDataset = class.class("data.IterableDataset")

function IterableDataset:iter()
   torch.raise(("%s has no method iter"):format(torch.type(self)))
end

return IterableDataset
