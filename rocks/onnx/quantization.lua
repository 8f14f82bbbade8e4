-- quantization.lua - conversions between real and quantized numbers, and products of quantized
-- integers.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"
require "tlua.onnx.layers" -- this file defines support.convolve

local cast <const> = support.cast

local M = {}

-- Returns scales or zero points in a shape that broadcasts with the input. There is one number for
-- the whole input, one for each position on an axis, or one for each block of an axis.
local function spread(node, x, vector)
   if not vector then return nil end
   if vector:numel() == 1 and vector:dim() <= 1 then return vector:reshape {} end
   local dim = node:dim(node:int("axis", 1), x:dim())
   local block = node:int("block_size", 0)
   if block > 0 then
      return vector:repeat_interleave(block, dim):narrow(dim, 1, x:size(dim))
   end
   if vector:dim() ~= 1 then return vector end
   if vector:numel() ~= x:size(dim) then
      node:fail("axis %d: %d places and %d scales", dim - 1, x:size(dim), vector:numel())
   end
   local shape = support.fill(x:dim(), 1)
   shape[dim] = vector:numel()
   return vector:reshape(shape)
end

local largest <const> = {
   float8_e4m3fn = 448, float8_e4m3fnuz = 240, float8_e5m2 = 57344, float8_e5m2fnuz = 57344,
}

-- Rounds real numbers to integers, adds the zero point, and converts the result to a quantized
-- dtype.
local function round_into(node, y, zero, dtype)
   if not values.element_size(dtype) then node:fail("the dtype %s is not supported", dtype) end
   if largest[dtype] then
      if node:int("saturate", 1) ~= 0 then
         y = y:clamp(-largest[dtype], largest[dtype])
      end
      return y:to(dtype)
   end
   y = y:round()
   if zero then y = y + zero:to(y.dtype) end
   return y:clamp(support.limit(dtype, false), support.limit(dtype, true)):to(dtype)
end

function M.QuantizeLinear(node, x, scale, zero)
   local number = node:int("output_dtype", 0)
   local dtype = zero and zero.dtype or number ~= 0 and schema.dtypes[number] or "uint8"
   local y = cast(x, x:is_floating_point() and x.dtype or "float32")
   local precision = node:int("precision", 0)
   if precision ~= 0 then y = y:to(schema.dtypes[precision]) end
   local factor = spread(node, x, scale):to(y.dtype)
   return round_into(node, y / factor, spread(node, x, zero), dtype)
end

function M.DequantizeLinear(node, x, scale, zero)
   local y = x:to "float32"
   if zero then y = y - spread(node, x, zero):to "float32" end
   local number = node:int("output_dtype", 0)
   local dtype = number ~= 0 and schema.dtypes[number] or scale.dtype
   return (y * spread(node, x, scale):to "float32"):to(dtype)
end

function M.DynamicQuantizeLinear(_, x)
   local high, low = x:amax():clamp {min = 0}, x:amin():clamp {max = 0}
   local range = high - low
   local scale = torch.where(range:eq(0), torch.ones_like(range), range) / 255
   local zero = (-low / scale):clamp(0, 255):round()
   local y = ((x / scale):round() + zero):clamp(0, 255):to "uint8"
   return y, scale, zero:to "uint8"
end

-- Subtracts the zero point from integers. A vector of zero points has one element for each position
-- in the dimension `dim`.
local function centred(x, zero, dim)
   local y = x:to "int32"
   if not zero then return y end
   zero = zero:to "int32"
   if zero:numel() > 1 and zero:dim() == 1 and dim then
      local shape = support.fill(x:dim(), 1)
      shape[dim < 0 and x:dim() + dim + 1 or dim] = zero:numel()
      zero = zero:reshape(shape)
   elseif zero:dim() == 1 and zero:numel() == 1 then
      zero = zero:reshape {}
   end
   return y - zero
end

-- Products of integers are computed in float64, where they are exact up to 2^53.
local function product(a, b)
   return torch.matmul(a:to "float64", b:to "float64")
end

function M.MatMulInteger(_, a, b, a_zero, b_zero)
   return product(centred(a, a_zero, -2), centred(b, b_zero, -1)):to "int32"
end

function M.QLinearMatMul(node, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
   local exact = product(centred(a, a_zero, -2), centred(b, b_zero, -1))
   local function row(scale)
      return scale:dim() == 1 and scale:numel() > 1 and scale:unsqueeze(2) or scale
   end
   local factor = row(a_scale):to "float64" * b_scale:to "float64" / row(y_scale):to "float64"
   return round_into(node, exact * factor, y_zero, y_zero and y_zero.dtype or a.dtype)
end

function M.ConvInteger(node, x, weight, x_zero, w_zero)
   local y = support.convolve(node, centred(x, x_zero):to "float64",
      centred(weight, w_zero, 1):to "float64", nil, node:int("group", 1))
   return y:to "int32"
end

function M.QLinearConv(node, x, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero, bias)
   local y = support.convolve(node, centred(x, x_zero):to "float64",
      centred(weight, w_zero, 1):to "float64", bias and bias:to "float64", node:int("group", 1))
   local factor = w_scale:to "float64" * x_scale:to "float64" / y_scale:to "float64"
   if factor:numel() > 1 then
      local shape = support.fill(x:dim(), 1)
      shape[2] = factor:numel()
      factor = factor:reshape(shape)
   else
      factor = factor:reshape {}
   end
   return round_into(node, y * factor, y_zero, y_zero.dtype)
end

return M
