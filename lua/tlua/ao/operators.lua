-- operators.lua - torch.ops.quantized: sums, products and concatenations of quantized tensors. The
-- caller gives the scale and the zero point of the results. The formulas are PyTorch's: sums are
-- computed in float32 and then rounded; products are computed exactly from the integers and then
-- rounded.

local torch = require "tlua"
local args = require "tlua.args"
local quantized = require "tlua.ao.quantized"

local M = {}

local prefix <const> = "ops.quantized."

-- Returns the components of an argument: integers, dtype, scale and zero point. Raises an error
-- unless the argument is a tensor quantized per tensor.
local function parts_of(who, name, value)
   local p = quantized._parts(value)
   if not p or p.axis then args.refuse(who, name, "a tensor quantized per tensor", value) end
   return p
end

-- Returns the components of a second tensor. Raises an error unless its dtype and device are those
-- of the first tensor.
local function partner_of(who, name, value, first)
   local p = parts_of(who, name, value)
   if p.dtype ~= first.dtype or p.integers.device ~= first.integers.device then
      args.refuse(who, name, ("%s tensor on %s, as the first one is"):format(
         args.with_article(first.dtype), first.integers.device), value)
   end
   return p
end

-- Checks the scale and the zero point for a result, and returns them and the dtype as a table, such
-- as `rounded` takes.
local function result_like(who, dtype, scale, zero_point)
   local number = args.to_number(who, "scale", scale)
   if not (number > 0 and number < math.huge) then
      args.refuse(who, "scale", "a finite number above 0", scale)
   end
   local zero = args.to_number(who, "zero_point", zero_point)
   quantized._check_zero(who, math.tointeger(zero) or zero, dtype)
   return {dtype = dtype, scale = number, zero_point = math.tointeger(zero)}
end

-- Quantizes numbers with the dtype, the scale and the zero point of `like`. If `relu` is true,
-- negative numbers become 0.
local function rounded(like, numbers, relu)
   if relu then numbers = numbers:relu() end
   return quantized._of_integers(quantized._integers_of(like, numbers), like.dtype, like.scale,
      like.zero_point)
end

local function single(number, device)
   return torch.tensor(number, {dtype = "float32", device = device})
end

-- Numbers and quantized tensors ------------------------------------------------------------------

-- Returns p * factor + zero, where p is integers minus their zero point. The products are rounded,
-- and the sums are clamped to low .. high, the dtype's range.
local function rescaled(p, factor, low, high, zero)
   return (p:float() * factor):round():double():add(zero):clamp(low, high)
end

-- Adds a number to a quantized tensor by changing the tensor's zero point. If the zero point would
-- leave the dtype's range, the scale is enlarged as well.
local function add_number(who, p, number, relu, name)
   local low, high = quantized._limits(p.dtype)
   local device = p.integers.device
   local steps = (single(number, device) / single(p.scale, device)):round():double():item()
   if not (steps >= -0x1p31 and steps < 0x1p31) then
      args.refuse(who, name, ("a number of less than 2^31 steps of the scale, %g"):format(p.scale),
         number)
   end
   local c = math.tointeger(steps)
   local zero, like = p.zero_point - c, {dtype = p.dtype, scale = p.scale}
   local integers = p.integers
   like.zero_point = math.max(low, math.min(high, zero))
   if zero < low or zero > high then
      local span = zero < low and high - zero or zero - low
      like.scale = p.scale * (span / (high - low))
      local factor = single(p.scale, device) / single(like.scale, device)
      integers = rescaled(integers:to "int64" - zero, factor, low, high, like.zero_point)
   end
   if relu then integers = integers:clamp_min(like.zero_point) end
   return quantized._of_integers(integers:to(p.integers.dtype), p.dtype, like.scale,
      like.zero_point)
end

-- Multiplies a quantized tensor by a number. The number's magnitude changes the scale, and its sign
-- changes the integers.
local function multiply_number(_, p, number, relu)
   local low, high = quantized._limits(p.dtype)
   local integers, scale, zero = p.integers, p.scale * math.abs(number), p.zero_point
   if number == 0 then
      integers, scale, zero = torch.zeros_like(integers), 1.0, 0
   elseif number < 0 then
      integers = (low + high - integers:to "int64"):to(integers.dtype)
      zero = low + high - zero
   end
   if relu then integers = integers:clamp_min(zero) end
   return quantized._of_integers(integers:clone(), p.dtype, scale, zero)
end

-- Checks that qa is a quantized tensor and that `value`, the argument called `name`, is a finite
-- number, then calls fn with both.
local function call_with_number(fn, who, qa, name, value, relu)
   local p = parts_of(who, "qa", qa)
   local number = args.to_number(who, name, value)
   if number - number ~= 0 then args.refuse(who, name, "a finite number", value) end
   return fn(who, p, number, relu, name)
end

-- Defines name and name_relu: functions of a quantized tensor and a number.
local function define_number(name, fn)
   for _, relu in ipairs {false, true} do
      local who = prefix .. name .. (relu and "_relu" or "")
      local take = args.signature(who .. "(qa: any, b: any)")
      M[name .. (relu and "_relu" or "")] = function(...)
         local a = take(...)
         return call_with_number(fn, who, a.qa, "b", a.b, relu)
      end
   end
end

--- Adds a number to a quantized tensor. Only the zero point changes, unless it would leave the
--- range of the dtype; then the scale grows as well. add_scalar_relu replaces negative sums by 0.
---
---     local x = torch.tensor {1.0, 2}
---     local q = torch.quantize_per_tensor(x, 0.5, 10, "quint8")
---     print(torch.ops.quantized.add_scalar(q, 1.5):tolist()[2])
---     --> 3.5
---@param qa ao.QuantizedTensor  quantized per tensor
---@param b number
---@return ao.QuantizedTensor
---@names torch.ops.quantized.add_scalar torch.ops.quantized.add_scalar_relu
define_number("add_scalar", add_number)

--- Multiplies a quantized tensor by a number, which changes only the scale. A negative number also
--- reverses the order of the integers, and 0 makes them 0, with scale 1 and zero point 0.
--- mul_scalar_relu replaces negative products by 0.
---
---     local x = torch.tensor {1.0, 2}
---     local q = torch.quantize_per_tensor(x, 0.5, 10, "quint8")
---     print(torch.ops.quantized.mul_scalar(q, 3):q_scale())
---     --> 1.5
---@param qa ao.QuantizedTensor  quantized per tensor
---@param b number
---@return ao.QuantizedTensor
---@names torch.ops.quantized.mul_scalar torch.ops.quantized.mul_scalar_relu
define_number("mul_scalar", multiply_number)

-- Two quantized tensors --------------------------------------------------------------------------

local function sum(like, p, q, relu)
   return rounded(like, p:dequantize() + q:dequantize(), relu)
end

local function product(like, p, q, relu)
   local device = p.integers.device
   local factor = single(p.scale, device) * single(q.scale, device)
      * single(like.scale, device):reciprocal()
   local low, high = quantized._limits(like.dtype)
   local exact = (p.integers:to "int64" - p.zero_point) * (q.integers:to "int64" - q.zero_point)
   if relu then exact = exact:clamp_min(0) end
   local integers = rescaled(exact, factor, low, high, like.zero_point)
   return quantized._of_integers(integers:to(p.integers.dtype), like.dtype, like.scale,
      like.zero_point)
end

-- Defines name and name_relu: functions of two quantized tensors, or of a quantized tensor and a
-- number.
local function define_pair(name, fn, fn_of_number)
   for _, relu in ipairs {false, true} do
      local whole = name .. (relu and "_relu" or "")
      local who = prefix .. whole
      local take = args.signature(who .. "(qa: any, qb: any, scale: any?, zero_point: any?)")
      M[whole] = function(...)
         local a = take(...)
         if type(a.qb) == "number" and a.scale == nil and a.zero_point == nil then
            return call_with_number(fn_of_number, who, a.qa, "qb", a.qb, relu)
         end
         local p = parts_of(who, "qa", a.qa)
         local q = partner_of(who, "qb", a.qb, p)
         local like = result_like(who, p.dtype, a.scale, a.zero_point)
         return fn(like, p, q, relu)
      end
   end
end

--- Adds two quantized tensors of the same dtype, which broadcast. The numbers are added in float32
--- and rounded to the scale and the zero point that are given. With a number as the second argument
--- the function does what add_scalar does. add_relu replaces negative sums by 0. For tensors
--- shorter than a SIMD vector, PyTorch's results are the same. In longer tensors PyTorch rounds
--- less often, so about one sum in a hundred, near the middle between two integers, differs by 1.
---
---     local x = torch.tensor {1.0, 2}
---     local q = torch.quantize_per_tensor(x, 0.5, 10, "quint8")
---     print(torch.ops.quantized.add(q, q, 0.25, 0):int_repr())
---     --> tensor([ 8, 16], dtype=torch.uint8)
---@param qa ao.QuantizedTensor  quantized per tensor
---@param qb ao.QuantizedTensor|number
---@param scale? number  of the result; not given for a number
---@param zero_point? integer  of the result; not given for a number
---@return ao.QuantizedTensor
---@names torch.ops.quantized.add torch.ops.quantized.add_relu
define_pair("add", sum, add_number)

--- Multiplies two quantized tensors of the same dtype, which broadcast. The products of the
--- integers are exact before they are rounded to the scale and the zero point that are given. With
--- a number as the second argument the function does what mul_scalar does. mul_relu replaces
--- negative products by 0.
---
---     local x = torch.tensor {1.0, 2}
---     local q = torch.quantize_per_tensor(x, 0.5, 10, "quint8")
---     print(torch.ops.quantized.mul(q, q, 0.25, 0):int_repr())
---     --> tensor([ 4, 16], dtype=torch.uint8)
---@param qa ao.QuantizedTensor  quantized per tensor
---@param qb ao.QuantizedTensor|number
---@param scale? number  of the result; not given for a number
---@param zero_point? integer  of the result; not given for a number
---@return ao.QuantizedTensor
---@names torch.ops.quantized.mul torch.ops.quantized.mul_relu
define_pair("mul", product, multiply_number)

local take_matmul <const> = args.signature(prefix
   .. "matmul(qa: any, qb: any, scale: any, zero_point: any)")

--- Multiplies matrices, or batches of them, of the same dtype. The products are summed in float32
--- and rounded to the scale and the zero point that are given.
---@param qa ao.QuantizedTensor  (..., n, k) quantized per tensor
---@param qb ao.QuantizedTensor  (..., k, m)
---@param scale number  of the result
---@param zero_point integer  of the result
---@return ao.QuantizedTensor
---@names torch.ops.quantized.matmul
function M.matmul(...)
   local who, a = prefix .. "matmul", take_matmul(...)
   local p = parts_of(who, "qa", a.qa)
   local q = partner_of(who, "qb", a.qb, p)
   local like = result_like(who, p.dtype, a.scale, a.zero_point)
   return rounded(like, torch.matmul(p:dequantize(), q:dequantize()))
end

local function define_cat(name, relu)
   local who = prefix .. name
   local take = args.signature(who .. "(qx: table, dim: integer, scale: any?, zero_point: any?)")
   M[name] = function(...)
      local a = take(...)
      local first = parts_of(who, "qx[1]", a.qx[1])
      local like = result_like(who, first.dtype, a.scale == nil and first.scale or a.scale,
         a.zero_point == nil and first.zero_point or a.zero_point)
      local all = {}
      for i, x in ipairs(a.qx) do
         local p = partner_of(who, ("qx[%d]"):format(i), x, first)
         local same = p.scale == like.scale and p.zero_point == like.zero_point
         all[i] = same and p.integers or quantized._integers_of(like, p:dequantize())
      end
      local joined = torch.cat(all, a.dim)
      if relu then joined = joined:clamp_min(like.zero_point) end
      return quantized._of_integers(joined, like.dtype, like.scale, like.zero_point)
   end
end

--- Concatenates quantized tensors of the same dtype along a dimension. The result has the given
--- scale and zero point; by default, they are equal to the first tensor's. cat_relu replaces
--- negative numbers by 0.
---@param qx ao.QuantizedTensor[]  quantized per tensor
---@param dim integer
---@param scale? number  of the result
---@param zero_point? integer  of the result
---@return ao.QuantizedTensor
---@names torch.ops.quantized.cat torch.ops.quantized.cat_relu
define_cat("cat", false)
define_cat("cat_relu", true)

return M
