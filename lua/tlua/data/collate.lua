-- collate.lua - makes a batch from a list of items.

local torch = require "tlua"
local args = require "tlua.args"
local tree = require "tlua.func.tree"

local M = {}

local collate

-- Returns whether a value is a table without a metatable, or a batch that a data pipe has made
-- (data.DataChunk).
local function is_plain(value)
   if type(value) ~= "table" then return false end
   local meta = getmetatable(value)
   return not meta or meta.__name == "data.DataChunk"
end

-- Raises an error unless all values are of the kind of the first one, which `fits` recognizes.
local function check_all(values, expected, fits)
   for i, value in ipairs(values) do
      if not fits(value) then
         args.refuse("data.default_collate", ("item %d of the batch"):format(i), expected, value)
      end
   end
end

-- Makes one table of batches from a list of tables with the same keys: the values under each key
-- become a batch.
local function collate_tables(values)
   local batch, length = {}, #values[1]
   check_all(values, length == 0 and "a table without list elements, as in the first item"
      or ("a list of length %d, as in the first item"):format(length), function(value)
         return is_plain(value) and #value == length
      end)
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

-- Makes one batch from a list of values: tensors are stacked, numbers become one tensor, and
-- strings stay a list.
function collate(values)
   local first = values[1]
   if torch.is_tensor(first) then return torch.stack(values) end
   local kind = type(first)
   if kind == "number" or kind == "boolean" then return torch.tensor(values) end
   if kind == "string" then
      check_all(values, "a string, as in the first item", function(value)
         return type(value) == "string"
      end)
      return values
   end
   if is_plain(first) then return collate_tables(values) end
   args.refuse("data.default_collate", "item", "tensors, numbers, strings or tables of them",
      first)
end

--- Makes a batch of items, each of which is a list of values. Combines the first values of all
--- items into one result, the second values into another, and so on.
---
---     local items = {{torch.tensor {1, 2}, 5}, {torch.tensor {3, 4}, 6}}
---     local x, y = torch.data.default_collate(items)
---     print(x)
---     --> tensor([[1, 2],
---     -->         [3, 4]])
---     print(y)
---     --> tensor([5, 6])
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
   if #items[1] == 0 then
      local key = next(items[1])
      torch.raise("data.default_collate: item 1 of the batch " .. (key == nil and "is nil" or
         ("has the key %s: expected a list of values, such as {value}"):format(key)))
   end
   local batch = {}
   for place = 1, #items[1] do
      local column = {}
      for i, item in ipairs(items) do
         if item[place] == nil and place <= #item then
            torch.raise(("data.default_collate: value %d of item %d of the batch is nil"):format(
               place, i))
         elseif #item ~= #items[1] or item[place] == nil then
            torch.raise(("data.default_collate: item %d of the batch has %d values, not %d")
               :format(i, #item, #items[1]))
         end
         column[i] = item[place]
      end
      batch[place] = collate(column)
   end
   return table.unpack(batch)
end

--- Converts an item as PyTorch's loader does for single items: numbers and booleans become tensors,
--- even in tables; other values are unchanged. torch.data.DataLoader with batch_size = false does
--- not call this function, and returns items as the dataset gives them.
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
