-- logic.lua - comparisons, and operators on booleans and bits.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local binary <const> = support.binary

local M = {}

M.And = binary(function(a, b) return torch.logical_and(a, b) end)
M.Or = binary(function(a, b) return torch.logical_or(a, b) end)
M.Xor = binary(function(a, b) return torch.logical_xor(a, b) end)
function M.Not(_, x) return torch.logical_not(x) end

M.Greater = binary(function(a, b) return a:gt(b) end, "order")
M.GreaterOrEqual = binary(function(a, b) return a:ge(b) end, "order")
M.Less = binary(function(a, b) return a:lt(b) end, "order")
M.LessOrEqual = binary(function(a, b) return a:le(b) end, "order")

local equal = binary(function(a, b) return a:eq(b) end)
function M.Equal(node, a, b)
   if values.is_strings(a) then return require "tlua.onnx.texts"._equal(node, a, b) end
   return equal(node, a, b)
end

M.BitwiseAnd = binary(function(a, b) return torch.bitwise_and(a, b) end)
M.BitwiseOr = binary(function(a, b) return torch.bitwise_or(a, b) end)
M.BitwiseXor = binary(function(a, b) return torch.bitwise_xor(a, b) end)
function M.BitwiseNot(_, x)
   return support.unsigned(torch.bitwise_not(support.signed(x)), x.dtype)
end

M.BitShift = binary(function(a, b, node, bits)
   local direction = node:need("text", "direction")
   if direction ~= "LEFT" and direction ~= "RIGHT" then
      node:fail("attribute direction: expected LEFT or RIGHT, got %q", direction)
   end
   local shift = direction == "LEFT" and torch.bitwise_left_shift or torch.bitwise_right_shift
   -- A shift by all bits gives 0, except that a right shift of a negative number gives -1.
   local rest = direction == "RIGHT" and a:lt(0):to(a.dtype) * -1 or torch.zeros_like(a)
   return torch.where(b:ge(bits), rest, shift(a, b:clamp {max = bits - 1}))
end, "divide")

return M
