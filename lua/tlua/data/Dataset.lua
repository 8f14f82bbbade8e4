-- Dataset.lua - the base of datasets whose items have positions. A dataset of one's own has a
-- length and gives an item, which is one value or several:
--
--    local Squares = torch.class("Squares", torch.data.Dataset)
--    function Squares:__len() return 100 end
--    function Squares:get(i) return torch.tensor(i), torch.tensor(i * i) end
--
-- One that can fetch many items at once better than one by one also has `get_items`: it takes a
-- 1-d int64 tensor of positions and returns whole batches.

local torch = require "tlua"
local class = require "tlua.class"

---@class data.Dataset
---@field get fun(self, i: integer): any ...
---@field get_items? fun(self, positions: Tensor): any ...
local Dataset = class.class("data.Dataset")

function Dataset:get()
   torch.raise(("%s has no method get"):format(torch.type(self)))
end

function Dataset:__len()
   torch.raise(("%s has no metamethod __len"):format(torch.type(self)))
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
