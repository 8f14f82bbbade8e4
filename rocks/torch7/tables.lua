-- tables.lua - Torch7's layers that take or return tables of tensors.

local torch = require "tlua"
local args = require "tlua.args"
local define = require "tlua.nn.modules.layers".define

local M = {}

-- Converts a dimension that was given for inputs with `input_dims` dimensions to a dimension of
-- `tensor`, which may have an additional batch dimension in front.
local function with_batch(dim, input_dims, tensor)
   return input_dims and dim > 0 and tensor:dim() == input_dims + 1 and dim + 1 or dim
end

local function check_tensors(name, input, count)
   if type(input) ~= "table" then
      args.refuse("nn." .. name, "input", "a table of tensors", input)
   end
   if #input == 0 or count and #input ~= count then
      torch.raise(("nn.%s: input: expected %s, got a table of %d"):format(name,
         count and ("a table of %d tensors"):format(count) or "at least one tensor", #input))
   end
   for i, tensor in ipairs(input) do
      if not torch.is_tensor(tensor) then
         args.refuse("nn." .. name, "element " .. i, "a tensor", tensor)
      end
   end
end

-- JoinTable(dim): concatenates tensors along a dimension.
--
--    print(torch.nn.JoinTable(1) {torch.tensor {1, 2}, torch.tensor {3}})
--    --> tensor([1, 2, 3])
M.JoinTable = define("JoinTable", "dim: integer, nInputDims: count?", function(self, input)
   check_tensors("JoinTable", input)
   return torch.cat(input, with_batch(self.dim, self.nInputDims, input[1]))
end)

-- SplitTable(dim): returns a table of a tensor's slices along a dimension.
--
--    local pieces = torch.nn.SplitTable(1)(torch.tensor {{1, 2}, {3, 4}})
--    print(#pieces, pieces[2])
--    --> 2	tensor([3, 4])
M.SplitTable = define("SplitTable", "dim: integer, nInputDims: count?", function(self, input)
   if not torch.is_tensor(input) then args.refuse("nn.SplitTable", "input", "a tensor", input) end
   return input:unbind(with_batch(self.dim, self.nInputDims, input))
end)

-- Converts an index to a position in the list. A negative integer counts from the end. Any other
-- index stays unchanged.
local function place_in(list, index)
   if math.type(index) ~= "integer" then return index end
   return index < 0 and #list + 1 + index or index
end

-- SelectTable(index): returns one element of a table. The index is the element's position or key.
--
--    print(torch.nn.SelectTable(2) {torch.tensor {1}, torch.tensor {2, 3}})
--    --> tensor([2, 3])
M.SelectTable = define("SelectTable", "index: integer|string", function(self, input)
   if type(input) ~= "table" then args.refuse("nn.SelectTable", "input", "a table", input) end
   local value = input[place_in(input, self.index)]
   if value == nil then
      torch.raise(("nn.SelectTable: input: there is no element %s"):format(self.index))
   end
   return value
end)

-- NarrowTable(offset, length): returns `length` elements from position `offset` on. A negative
-- length counts from the end; -1 means all remaining elements.
--
--    local layer = torch.nn.NarrowTable(2, -1)
--    print(#layer {torch.ones(1), torch.ones(2), torch.ones(3)})
--    --> 2
M.NarrowTable = define("NarrowTable", "offset: integer, length: integer = 1", function(self, input)
   if type(input) ~= "table" then args.refuse("nn.NarrowTable", "input", "a table", input) end
   local first = place_in(input, self.offset)
   local last = self.length < 0 and #input + 1 + self.length or first + self.length - 1
   if first < 1 or last > #input then
      torch.raise(("nn.NarrowTable: input: expected elements %d to %d, got %d of them"):format(
         first, last, #input))
   end
   return table.move(input, first, last, 1, {})
end)

local function flatten(value, into)
   if type(value) ~= "table" or getmetatable(value) then
      into[#into + 1] = value
      return into
   end
   for _, item in ipairs(value) do flatten(item, into) end
   return into
end

-- FlattenTable(): flattens nested tables.
--
--    print(table.concat(torch.nn.FlattenTable() {1, {2, {3}}}, " "))
--    --> 1 2 3
M.FlattenTable = define("FlattenTable", "", function(_, input)
   if type(input) ~= "table" then args.refuse("nn.FlattenTable", "input", "a table", input) end
   return flatten(input, {})
end)

-- Defines a layer that combines all tensors of a table by fn, a function of two tensors: first the
-- first two tensors, then the result and the third, and so on. `count` is the required number of
-- tensors. If it is nil, any number is allowed.
local function arithmetic(name, count, options, fn)
   M[name] = define(name, options, function(self, input)
      check_tensors(name, input, count)
      local result = input[1]
      for i = 2, #input do result = fn(result, input[i], self.inplace) end
      return result
   end)
end

--- Adds all tensors of a table elementwise. With `inplace`, the first tensor is changed and
--- returned.
---
---     local layer = torch.nn.CAddTable()
---     print(layer {torch.tensor {1, 2}, torch.tensor {3, 4}})
---     --> tensor([4, 6])
---@class nn.CAddTable: nn.Module
arithmetic("CAddTable", nil, "inplace: boolean = false", function(a, b, in_place)
   if in_place then return a:add_(b) end
   return a + b
end)

--- Multiplies all tensors of a table elementwise.
---
---     local layer = torch.nn.CMulTable()
---     print(layer {torch.tensor {1, 2}, torch.tensor {3, 4}})
---     --> tensor([3, 8])
---@class nn.CMulTable: nn.Module
arithmetic("CMulTable", nil, "", function(a, b) return a * b end)
--- Takes a table of two tensors, and subtracts the second one from the first.
---
---     local layer = torch.nn.CSubTable()
---     print(layer {torch.tensor {5, 6}, torch.tensor {3, 1}})
---     --> tensor([2, 5])
---@class nn.CSubTable: nn.Module
arithmetic("CSubTable", 2, "", function(a, b) return a - b end)
--- Takes a table of two tensors, and divides the first one by the second.
---
---     local layer = torch.nn.CDivTable()
---     print(layer {torch.tensor {6, 8}, torch.tensor {3, 2}})
---     --> tensor([2., 4.])
---@class nn.CDivTable: nn.Module
arithmetic("CDivTable", 2, "", function(a, b) return a / b end)

return M
