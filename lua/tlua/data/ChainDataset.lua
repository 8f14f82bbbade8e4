-- ChainDataset.lua - joins several datasets that are streams, and reads them one after another.
--
--    local Count = torch.class("ExampleCount", torch.data.IterableDataset)
--    function Count:iter()
--       local n = 0
--       return function()
--          n = n + 1
--          if n < 3 then return n end
--       end
--    end
--    for x in torch.data.ChainDataset({Count(), Count()}):iter() do print(x) end
--    --> 1
--    --> 2
--    --> 1
--    --> 2

local args = require "tlua.args"
local class = require "tlua.class"
local IterableDataset = require "tlua.data.IterableDataset"

---@class data.ChainDataset: data.IterableDataset
---@field datasets data.IterableDataset[]  the datasets, in the order of reading
---@overload fun(datasets: data.IterableDataset[]): data.ChainDataset
local ChainDataset = class.class("data.ChainDataset", IterableDataset)

---@param datasets data.IterableDataset[]
function ChainDataset:__init(datasets)
   if type(datasets) ~= "table" or getmetatable(datasets) then
      args.refuse("data.ChainDataset", "datasets", "a list of iterable datasets", datasets)
   end
   for i, dataset in ipairs(datasets) do
      if not class.isinstance(dataset, IterableDataset) then
         args.refuse("data.ChainDataset", "dataset " .. i, "an iterable dataset", dataset)
      end
   end
   self.datasets = datasets
end

--- Returns the sum of the datasets' lengths, if all of them have a length.
function ChainDataset:__len()
   local total = 0
   for _, dataset in ipairs(self.datasets) do total = total + #dataset end
   return total
end

local function take(self, state, first, ...)
   if first ~= nil then return first, ... end
   state.k, state.next = state.k + 1, nil
   return self:advance(state)
end

--- Returns the next item, from the current dataset or, at its end, from a later one.
---@param state table
---@return any
function ChainDataset:advance(state)
   local dataset = self.datasets[state.k]
   if dataset == nil then return nil end
   state.next = state.next or dataset:iter()
   return take(self, state, state.next())
end

--- Returns an iterator over the samples of all datasets, one dataset after the other.
---@return fun(): any ...
function ChainDataset:iter()
   local state = {k = 1}
   return function() return self:advance(state) end
end

return ChainDataset
