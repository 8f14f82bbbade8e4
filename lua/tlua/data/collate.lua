-- collate.lua - makes a batch of single items.

local torch = require "tlua"
local args = require "tlua.args"
local tree = require "tlua.func.tree"

local M = {}

local collate

-- A table that is no object, or a batch that pipes have made.
local function is_plain(value)
   if type(value) ~= "table" then return false end
   local meta = getmetatable(value)
   return meta == nil or meta.__name == "data.DataChunk"
end

-- A table of values by name becomes a table of batches by name.
local function collate_tables(values)
   local batch = {}
   for key in pairs(values[1]) do
      local column = {}
      for i, value in ipairs(values) do
         column[i] = value[key]
         if column[i] == nil then
            torch.raise(("data.default_collate: item %d of the batch has no %s"):format(i, key))
         end
      end
      batch[key] = collate(column)
   end
   return batch
end

-- Tensors are stacked, numbers become a tensor, strings stay a list.
function collate(values)
   local first = values[1]
   if torch.is_tensor(first) then return torch.stack(values) end
   local kind = type(first)
   if kind == "number" or kind == "boolean" then return torch.tensor(values) end
   if kind == "string" then return values end
   if is_plain(first) then return collate_tables(values) end
   args.refuse("data.default_collate", "item", "tensors, numbers, strings or tables of them",
      first)
end

--- A batch of items, each a list of values: the values at the same place together, one result for
--- each place.
---@param items any[][]
---@return any ...
function M.default_collate(items)
   tree.check(items, "data.default_collate: items")
   if type(items) ~= "table" or getmetatable(items) or items[1] == nil then
      args.refuse("data.default_collate", "items", "a list of items", items)
   end
   for i, item in ipairs(items) do
      if type(item) ~= "table" or getmetatable(item) then
         args.refuse("data.default_collate", ("items[%d]"):format(i), "a list of values", item)
      end
   end
   if #items[1] == 0 then torch.raise "data.default_collate: item 1 of the batch is nil" end
   local batch = {}
   for place = 1, #items[1] do
      local column = {}
      for i, item in ipairs(items) do
         if item[place] == nil then
            torch.raise(("data.default_collate: item %d of the batch has %d values, not %d")
               :format(i, #item, #items[1]))
         end
         column[i] = item[place]
      end
      batch[place] = collate(column)
   end
   return table.unpack(batch)
end

--- What a loader with batch_size = false makes of an item: numbers and booleans become tensors, in
--- tables too; all else stays as it is.
---@param value any
---@return any
function M.default_convert(value)
   local kind = type(value)
   if kind == "number" or kind == "boolean" then return torch.tensor(value) end
   if not is_plain(value) then return value end
   local converted = {}
   for key, item in pairs(value) do converted[key] = M.default_convert(item) end
   return converted
end

return M
