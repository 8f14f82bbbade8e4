-- random_split.lua - splits a dataset's items at random into parts.

local torch = require "tlua"
local args = require "tlua.args"
local items = require "tlua.data.items"
local Subset = require "tlua.data.Subset"

local signature = args.signature [[data.random_split(dataset: any, lengths: numbers,
   generator: any?)]]

-- Returns the lengths of the parts, which are given as counts or as fractions that sum to 1. If
-- rounding leaves items over, the first parts get one more item each.
local function to_counts(lengths, n)
   local sum = 0
   for _, length in ipairs(lengths) do sum = sum + length end
   local counts = {}
   if n ~= 1 and math.abs(sum - 1) < 1e-9 then
      local left = n
      for i, share in ipairs(lengths) do
         counts[i] = math.floor(n * share)
         left = left - counts[i]
      end
      for i = 1, left do
         local k = (i - 1) % #counts + 1
         counts[k] = counts[k] + 1
      end
      return counts
   end
   for i, length in ipairs(lengths) do counts[i] = math.tointeger(length) end
   if sum ~= n or #counts ~= #lengths then
      torch.raise(("data.random_split: lengths: expected counts that add up to %d or shares that "
         .. "add up to 1, got {%s}"):format(n, table.concat(lengths, ", ")))
   end
   return counts
end

--- Splits a dataset into parts at random.
---
---     local set = torch.data.TensorDataset(torch.arange(10))
---     local train, test = torch.data.random_split(set, {8, 2})
---     print(#train, #test)
---     --> 8	2
---@param dataset data.Dataset
---@param lengths number[]  counts, or fractions that sum to 1
---@param options? {generator: Generator}
---@return data.Subset ...
return function(...)
   local a = signature(...)
   if not items.is_dataset(a.dataset) then
      args.refuse("data.random_split", "dataset", "a dataset", a.dataset)
   end
   local n = #a.dataset
   local counts = to_counts(a.lengths, n)
   local order = torch.randperm(n, {generator = a.generator, device = "cpu"})
   local parts, start = {}, 1
   for i, count in ipairs(counts) do
      parts[i] = Subset(a.dataset, order:narrow(1, start, count))
      start = start + count
   end
   return table.unpack(parts)
end
