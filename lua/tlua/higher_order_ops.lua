-- higher_order_ops.lua - torch._higher_order_ops. The module has torch.cond, torch.while_loop, and
-- functions that call another function once for each slice of tensors. torch.export records each
-- of these calls, so the number of slices must not depend on a dynamic size.

local torch = require "tlua"
local args = require "tlua.args"
local nested = require "tlua.export.nested"

local M = {cond = torch.cond, while_loop = torch.while_loop}

-- Returns three results: a list of the tensors in `xs`, the structure of `xs` (see nested.flatten),
-- and the number of slices, which is the size of every tensor in dimension `dim`.
local function read_slices(title, xs, dim)
   local list = {}
   local structure = nested.flatten(title, "xs", xs, list)
   if #list == 0 then args.refuse(title, "xs", "a tensor, or a table of tensors", xs) end
   for i, x in ipairs(list) do
      if x:dim() < dim then
         torch.raise(("%s: xs: tensor %d: expected at least %d dimensions, got %s"):format(title, i,
            dim, args.describe(x)))
      end
      if x:size(dim) ~= list[1]:size(dim) then
         torch.raise(("%s: xs: tensor %d: expected size %d in dimension %d, as in the first, got "
            .. "%d"):format(title, i, list[1]:size(dim), dim, x:size(dim)))
      end
   end
   return list, structure, list[1]:size(dim)
end

local function slice_of(list, structure, dim, i)
   local slices = {}
   for k, x in ipairs(list) do slices[k] = x:select(dim, i) end
   return (nested.unflatten(structure, slices, 1))
end

-- Collects the results of the calls. At the end, they are stacked.
local Stack = {}
Stack.__index = Stack

function Stack:add(title, result)
   local list = {}
   local structure = nested.flatten(title, "the function's result", result, list)
   if self.structure and not nested.same(structure, self.structure) then
      torch.raise(title .. ": expected results of one structure from all calls")
   end
   self.structure = structure
   for k, x in ipairs(list) do
      self[k] = self[k] or {}
      table.insert(self[k], x)
   end
end

-- Returns the results of all calls: for each tensor in the structure of a result, join(list of the
-- calls' tensors).
function Stack:joined(join)
   local list = {}
   for k, slices in ipairs(self) do list[k] = join(slices) end
   return (nested.unflatten(self.structure, list, 1))
end

--- Calls f for each slice of xs along the first dimension, and stacks the results.
---
---     local function square(row) return (row * row):sum() end
---     print(torch._higher_order_ops.map(square, torch.tensor {{1, 2}, {3, 4}}))
---     --> tensor([ 5, 25])
---@param f function  gets a slice of xs, and the other arguments; returns a tensor or a table of
--- tensors
---@param xs Tensor|table  a tensor, or a table of tensors with one size in the first dimension
---@param ... any  further arguments of f
---@return Tensor|table results
function M.map(f, xs, ...)
   if not args.is_callable(f) then args.refuse("map", "f", "a function", f) end
   local list, structure, n = read_slices("map", xs, 1)
   if n == 0 then args.refuse("map", "xs", "at least one slice in the first dimension", list[1]) end
   local stack = setmetatable({}, Stack)
   for i = 1, n do stack:add("map", f(slice_of(list, structure, 1, i), ...)) end
   return stack:joined(function(slices) return torch.stack(slices, 1) end)
end

local function check_carry(carry, structure, tensors)
   local list = {}
   local given = nested.flatten("scan", "the carry of combine_fn", carry, list)
   if not nested.same(given, structure) then
      torch.raise "scan: expected a carry from combine_fn with the structure of init"
   end
   for i, x in ipairs(tensors) do
      local y = list[i]
      if x.dtype ~= y.dtype or x.shape ~= y.shape or x.device ~= y.device then
         torch.raise(("scan: the carry of combine_fn: expected %s, as in init, got %s"):format(
            args.describe(x), args.describe(y)))
      end
   end
end

--- Calls combine_fn for each slice of xs, together with the carry that the previous call has
--- returned, and stacks the results along the dimension of the slices.
---
---     local function add(carry, x) return carry + x, carry + x end
---     local xs = torch.arange(5)
---     print(torch._higher_order_ops.scan(add, torch.tensor(0), xs))
---     --> tensor(10)	tensor([ 0,  1,  3,  6, 10])
---@param combine_fn function  gets the carry and a slice; returns the next carry, like init, and a
--- tensor or a table of tensors
---@param init Tensor|table  the first carry
---@param xs Tensor|table  a tensor, or a table of tensors with one size in the dimension
---@param options? {dim: integer, reverse: boolean}  dim: the dimension of the slices, 1 by default;
--- reverse: whether the last slice comes first
---@return Tensor|table carry  the last call's
---@return Tensor|table results
function M.scan(combine_fn, init, xs, options)
   if not args.is_callable(combine_fn) then
      args.refuse("scan", "combine_fn", "a function", combine_fn)
   end
   args.check_options("scan", options, "dim", "reverse")
   options = options or {}
   local dim, reverse = options.dim or 1, options.reverse or false
   if math.type(dim) ~= "integer" or dim < 1 then
      args.refuse("scan", "dim", "a dimension from 1", dim)
   end
   if type(reverse) ~= "boolean" then
      args.refuse("scan", "reverse", "true or false", reverse)
   end
   local carried = {}
   local structure = nested.flatten("scan", "init", init, carried)
   if #carried == 0 then args.refuse("scan", "init", "a tensor, or a table of tensors", init) end
   local list, of_xs, n = read_slices("scan", xs, dim)
   if n == 0 then args.refuse("scan", "xs", "at least one slice in the dimension", list[1]) end
   local stack, carry = setmetatable({}, Stack), init
   for k = 1, n do
      local result
      carry, result = combine_fn(carry, slice_of(list, of_xs, dim, reverse and n + 1 - k or k))
      check_carry(carry, structure, carried)
      stack:add("scan", result)
   end
   return carry, stack:joined(function(slices)
      local y = torch.stack(slices, 1)
      if reverse then y = y:flip(1) end
      return dim <= y:dim() and y:movedim(1, dim) or y
   end)
end

return M
