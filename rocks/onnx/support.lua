-- support.lua - what several operators share.

local torch = require "tlua"

local M = {}

--- Returns a tensor with the shape {1, ..., sizes, ..., 1}, for operators of old versions, whose
--- second input was put beside the first from an axis on.
function M.beside(node, a, b)
   if node.version >= 7 or node:int("broadcast", 0) == 0 or b:dim() == 0 then return b end
   local axis = node:int("axis", a:dim() - b:dim())
   local dim = node:dim(axis, a:dim())
   local shape = table.move(b.shape, 1, #b.shape, 1, {})
   for _ = dim + #shape, a:dim() do shape[#shape + 1] = 1 end
   return b:reshape(shape)
end

--- Returns an operator of two inputs of one dtype, which are broadcast.
function M.binary(fn)
   return function(node, a, b)
      node:same_dtype(a, b)
      return fn(a, M.beside(node, a, b), node)
   end
end

--- Returns the lowest or the highest value of a dtype.
function M.limit(dtype, highest)
   if dtype == "bool" then return highest end
   if dtype:find "^u?int" then
      local bits = tonumber(dtype:match "%d+")
      if dtype:find "^u" then return highest and (1 << bits) - 1 or 0 end
      local low = -(1 << (bits - 1))
      return highest and -(low + 1) or low
   end
   return highest and math.huge or -math.huge
end

--- Returns a tensor with another dtype, or itself.
function M.cast(x, dtype) return x.dtype == dtype and x or x:to(dtype) end

--- Returns a one-dimensional tensor of int64 with the given integers.
function M.integers(list)
   if #list == 0 then return torch.empty({0}, {dtype = "int64"}) end
   return torch.tensor(list, {dtype = "int64"})
end

--- Returns a 0-dimensional tensor of one number.
function M.scalar(number, dtype, like)
   local x = torch.tensor(number, {dtype = dtype})
   return like and x:to(like.device) or x
end

--- Returns a number as a dtype has it.
function M.rounded(number, dtype) return torch.tensor(number, {dtype = dtype}):item() end

--- Returns a shape as a plain list.
function M.shape(x) return table.move(x.shape, 1, #x.shape, 1, {}) end

--- Returns the product of a list from `first` to `last`.
function M.product(list, first, last)
   local n = 1
   for i = first or 1, last or #list do n = n * list[i] end
   return n
end

--- Returns n times a value.
function M.fill(n, value)
   local list = {}
   for i = 1, n do list[i] = value end
   return list
end

--- Returns a permutation with the dimension `from` at the place `to`.
function M.moved(rank, from, to)
   local order = {}
   for i = 1, rank do
      if i ~= from then order[#order + 1] = i end
   end
   table.insert(order, to, from)
   return order
end

--- Returns positions that count from 1, after a check that they lie in the
--- dimension; negative positions count from the end.
function M.from_one(node, index, size)
   index = index:to "int64"
   index = torch.where(index:lt(0), index + size, index)
   if index:numel() > 0 then
      local low, high = index:min():item(), index:max():item()
      if low < 0 or high >= size then
         node:fail("indices: expected %d to %d, got %d", -size, size - 1,
            low < 0 and low - size or high)
      end
   end
   return index + 1
end

return M
