-- support.lua - helper functions that several operators share.

local torch = require "tlua"

local M = {}

--- The key under which a scope stores the number of loop steps so far and the limit of this number.
M.BUDGET = {}

--- Reshapes b to {1, ..., sizes, ..., 1}, so that its sizes align with those of a from the axis
--- `axis` on. Old versions of operators broadcast their second input in this way.
function M.beside(node, a, b)
   if node.version >= 7 or node:int("broadcast", 0) == 0 or b:dim() == 0 then return b end
   local axis = node:int("axis", a:dim() - b:dim())
   local dim = node:dim(axis, a:dim())
   local shape = table.move(b.shape, 1, #b.shape, 1, {})
   for _ = dim + #shape, a:dim() do shape[#shape + 1] = 1 end
   return b:reshape(shape)
end

local wide <const> = {uint16 = true, uint32 = true, uint64 = true}

--- Converts integers to int64 if their dtype, such as uint64, has no arithmetic in tlua. uint64
--- numbers keep their bits.
function M.signed(x)
   if not wide[x.dtype] then return x end
   return x.dtype == "uint64" and x:contiguous():view "int64" or x:to "int64"
end

--- Converts int64 integers to another dtype. Numbers outside the range of the dtype wrap around.
function M.unsigned(x, dtype)
   if x.dtype ~= "int64" or not wide[dtype] then return x end
   if dtype == "uint64" then return x:contiguous():view "uint64" end
   return torch.bitwise_and(x, dtype == "uint16" and 0xffff or 0xffffffff):to(dtype)
end

-- Calls fn for integers whose dtype has no arithmetic, after converting them to int64. Numbers of
-- 2^63 and more become negative by this conversion. If fn depends on the order of numbers, their
-- sign bits are flipped first. If fn divides, such numbers raise an error.
local function call_wide(fn, how, node, a, b)
   local x, y = M.signed(a), M.signed(b)
   if a.dtype == "uint64" and how == "order" then
      x = torch.bitwise_xor(x, math.mininteger)
      y = torch.bitwise_xor(y, math.mininteger)
   elseif a.dtype == "uint64" and how == "divide" and (x:lt(0):any() or y:lt(0):any()):item() then
      node:fail "numbers of 2^63 and more are not supported"
   end
   local result = fn(x, y, node, a:element_size() * 8)
   if how == "order" and a.dtype == "uint64" and result.dtype == "int64" then
      result = torch.bitwise_xor(result, math.mininteger)
   end
   return M.unsigned(result, a.dtype)
end

--- Returns an operator with two inputs of the same dtype, which are broadcast. fn gets both inputs,
--- the node, and the number of bits of an element.
---@param fn function
---@param how? "order"|"divide"  if fn depends on the order of numbers, or divides them
function M.binary(fn, how)
   return function(node, a, b)
      node:same_dtype(a, b)
      b = M.beside(node, a, b)
      if wide[a.dtype] then return call_wide(fn, how, node, a, b) end
      return fn(a, b, node, a:element_size() * 8)
   end
end

--- Returns the highest value that a dtype can hold if `highest` is true, and otherwise the lowest
--- value.
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

--- Returns a tensor converted to a dtype, or the tensor itself if it has this dtype already.
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

--- Returns a number rounded to a dtype.
function M.rounded(number, dtype) return torch.tensor(number, {dtype = dtype}):item() end

--- Returns a tensor's shape as a plain list.
function M.shape(x) return table.move(x.shape, 1, #x.shape, 1, {}) end

--- Returns the product of a list from `first` to `last`.
function M.product(list, first, last)
   local n = 1
   for i = first or 1, last or #list do n = n * list[i] end
   return n
end

--- Returns a list with n copies of a value.
function M.fill(n, value)
   local list = {}
   for i = 1, n do list[i] = value end
   return list
end

--- Returns a permutation of `rank` dimensions that moves the dimension `from` to the position `to`.
function M.moved(rank, from, to)
   local order = {}
   for i = 1, rank do
      if i ~= from then order[#order + 1] = i end
   end
   table.insert(order, to, from)
   return order
end

--- Converts positions of the standard to positions that count from 1, and checks that they are in
--- range. Negative positions count from the end.
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
