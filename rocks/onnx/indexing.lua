-- indexing.lua - operators that read or write elements at given positions. In the standard,
-- positions count from 0, and negative positions count from the end.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local shape_of <const>, from_one <const> = support.shape, support.from_one

local M = {}

function M.Gather(node, x, index)
   if values.is_strings(x) then return require "tlua.onnx.texts"._gather(node, x, index) end
   local dim = node:dim(node:int("axis", 0), x:dim())
   local places = from_one(node, index, x:size(dim))
   if index:dim() == 0 then return x:select(dim, places:item()) end
   local shape = {}
   table.move(x.shape, 1, dim - 1, 1, shape)
   table.move(index.shape, 1, index:dim(), #shape + 1, shape)
   table.move(x.shape, dim + 1, x:dim(), #shape + 1, shape)
   return x:index_select(dim, places:reshape(-1)):reshape(shape)
end

function M.GatherElements(node, x, index)
   local dim = node:dim(node:int("axis", 0), x:dim())
   return x:gather(dim, from_one(node, index, x:size(dim)))
end

-- Converts positions in several dimensions to row-major positions from 1. The last dimension of
-- `index` has a position for each of the dimensions of `shape` that begin with `first`. Also
-- returns the number of elements that each position selects.
local function linear(node, index, shape, first)
   local depth = index:size(index:dim())
   if depth > #shape - first + 1 then
      node:fail("indices: expected at most %d in a row, got %d", #shape - first + 1, depth)
   end
   local result = torch.zeros(table.move(index.shape, 1, index:dim() - 1, 1, {}),
      {dtype = "int64", device = index.device})
   for k = 1, depth do
      local size = shape[first + k - 1]
      result = result * size + (from_one(node, index:select(-1, k), size) - 1)
   end
   return result + 1, depth
end

function M.GatherND(node, x, index)
   local batch = node:int("batch_dims", 0)
   local shape = shape_of(x)
   if batch < 0 or batch >= index:dim() or batch > #shape then
      node:fail("attribute batch_dims: got %d", batch)
   end
   local places, depth = linear(node, index, shape, batch + 1)
   local outer = support.product(shape, 1, batch)
   local middle = support.product(shape, batch + 1, batch + depth)
   local inner = table.move(shape, batch + depth + 1, #shape, 1, {})
   local rows = x:reshape(outer * middle, support.product(inner))
   local per = places:reshape(outer, -1)
   local start = torch.arange(0, outer, {dtype = "int64", device = x.device}):unsqueeze(2)
   local picked = rows:index_select(1, (per + start * middle):reshape(-1))
   local result = table.move(places.shape, 1, places:dim(), 1, {})
   table.move(inner, 1, #inner, #result + 1, result)
   return picked:reshape(result)
end

local joins <const> = {add = "sum", mul = "prod", max = "amax", min = "amin"}

local function scatter(node, x, dim, index, updates)
   local how = node:text("reduction", "none")
   if how == "none" then return x:scatter(dim, index, updates) end
   local join = joins[how] or node:fail("attribute reduction: %q is unknown", how)
   return x:scatter_reduce(dim, index, updates, join)
end

function M.ScatterElements(node, x, index, updates)
   node:same_dtype(x, updates)
   local dim = node:dim(node:int("axis", 0), x:dim())
   return scatter(node, x, dim, from_one(node, index, x:size(dim)), updates)
end
M.Scatter = M.ScatterElements

function M.ScatterND(node, x, index, updates)
   node:same_dtype(x, updates)
   local shape = shape_of(x)
   local places, depth = linear(node, index, shape, 1)
   local outer = support.product(shape, 1, depth)
   local inner = support.product(shape, depth + 1)
   local rows = x:reshape(outer, inner)
   local expanded = places:reshape(-1, 1):expand(places:numel(), inner):contiguous()
   return scatter(node, rows, 1, expanded, updates:reshape(places:numel(), inner)):reshape(shape)
end

function M.NonZero(_, x) return torch.nonzero(x):t() - 1 end

function M.Compress(node, x, condition)
   local flat, dim = x:reshape(-1), 1
   if node:has "axis" then flat, dim = x, node:dim(node:int "axis", x:dim()) end
   local chosen = torch.nonzero(condition:reshape(-1)):reshape(-1)
   if chosen:numel() > 0 and chosen:max():item() > flat:size(dim) then
      node:fail("condition: %d elements, but the axis has %d", condition:numel(), flat:size(dim))
   end
   return flat:index_select(dim, chosen)
end

function M.OneHot(node, index, depth, pair)
   local count = depth:reshape(-1):to "int64":item()
   if count < 0 or count > 1 << 32 then node:fail("depth: %d", count) end
   local axis = node:int("axis", -1)
   local dim = node:dim(axis, index:dim() + 1)
   local places = index:to "int64"
   places = torch.where(places:lt(0), places + count, places):unsqueeze(dim)
   local shape = support.fill(index:dim() + 1, 1)
   shape[dim] = count
   local classes = torch.arange(0, count, {dtype = "int64", device = index.device})
      :reshape(shape)
   return torch.where(places:eq(classes), pair:select(1, 2), pair:select(1, 1))
end

function M.Unique(node, x)
   local sorted = node:int("sorted", 1) ~= 0
   local flat, dim = x:reshape(-1), 1
   if node:has "axis" then flat, dim = x, node:dim(node:int "axis", x:dim()) end
   local unique, inverse, counts
   if node:has "axis" then
      unique, inverse, counts = torch.unique(flat, {return_inverse = true, return_counts = true,
         dim = dim})
   else
      unique, inverse, counts = torch.unique(flat, {return_inverse = true, return_counts = true})
   end
   inverse = inverse:reshape(-1)
   local n, total = counts:numel(), inverse:numel()
   local on = {dtype = "int64", device = x.device}
   local places = torch.arange(1, total + 1, on)
   local first = torch.full({n}, total, on)
      :scatter_reduce(1, inverse, places, "amin")
   if not sorted then -- the unique elements are in the order of their first occurrence
      local order = first:argsort()
      local rank = torch.empty_like(order):scatter(1, order, torch.arange(1, n + 1, on))
      unique, first, counts = unique:index_select(dim, order), first:index_select(1, order),
         counts:index_select(1, order)
      inverse = rank:index_select(1, inverse)
   end
   return unique, first - 1, inverse - 1, counts
end

function M.TensorScatter(node, past, update, write)
   local dim = node:dim(node:int("axis", -2), past:dim())
   local mode = node:text("mode", "linear")
   local n, length = update:size(dim), past:size(dim)
   local on = {dtype = "int64", device = past.device}
   local starts = write and write:to "int64" or torch.zeros({past:size(1)}, on)
   local places = starts:unsqueeze(2) + torch.arange(0, n, on):unsqueeze(1)
   if mode == "circular" then places = places:remainder(length) end
   if places:numel() > 0 and (places:min():item() < 0 or places:max():item() >= length) then
      node:fail("write_indices: expected 0 to %d", length - n)
   end
   local shape = support.fill(past:dim(), 1)
   shape[1], shape[dim] = past:size(1), n
   local index = (places + 1):reshape(shape):expand(shape_of(update)):contiguous()
   return past:scatter(dim, index, update)
end

return M
