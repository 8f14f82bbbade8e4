-- fake_quantize.lua - rounds the elements of a tensor to the values that a quantized tensor can
-- represent, and keeps them in floating point:
--
--    q = clamp(round(x / scale) + zero_point, quant_min, quant_max)
--    y = (q - zero_point) * scale
--
-- The derivative of y with respect to x is 1 for elements that were not clamped, and 0 for clamped
-- elements.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

-- Returns round(x / scale) + zero_point as a floating-point tensor, in which -infinity replaces
-- NaN, so that NaN is clamped to quant_min.
local function steps(x, scale, zero_point)
   local q = (x:float() * scale:reciprocal()):round() + zero_point
   return torch.where(q:isnan(), -math.huge, q)
end

local Rounded = class.class("ao.quantization.Rounded", torch.autograd.Function)

function Rounded.forward(ctx, x, scale, zero_point, low, high)
   local q = steps(x, scale, zero_point)
   ctx:save_for_backward(q:ge(low):logical_and(q:le(high)))
   return ((q:clamp(low, high) - zero_point) * scale):to(x.dtype)
end

function Rounded.backward(ctx, grad) return grad * ctx:saved_tensors(), nil, nil end

-- Rounds as the class Rounded does, and also differentiates with respect to the scale and the zero
-- point. `over` lists the dimensions along which the scale and the zero point are constant; their
-- gradients are sums over these dimensions.
local Learned = class.class("ao.quantization.Learned", torch.autograd.Function)

function Learned.forward(ctx, x, scale, zero_point, low, high, factor, over)
   local zero = (zero_point + 0.5):clamp(low, high):floor()
   ctx:save_for_backward(x, scale, zero_point)
   ctx.low, ctx.high, ctx.factor, ctx.over = low, high, factor, over
   return ((steps(x, scale, zero):clamp(low, high) - zero) * scale):to(x.dtype)
end

function Learned.backward(ctx, grad)
   local x, scale, zero_point = ctx:saved_tensors()
   local low, high = ctx.low, ctx.high
   local zero = zero_point:round():clamp(low, high)
   local q = steps(x, scale, zero)
   local inside = q:ge(low):logical_and(q:le(high))
   local rounded = (q:clamp(low, high) - zero) * scale
   local by_scale = torch.where(inside, (rounded - x) / scale, q:clamp(low, high) - zero)
   local by_zero = torch.where(inside, 0, -scale)
   local function summed(t)
      t = grad * t * ctx.factor
      return #ctx.over > 0 and t:sum(ctx.over, {keepdim = true}) or t
   end
   return grad * inside, summed(by_scale), summed(by_zero)
end

local function check_range(who, low, high)
   if low > high then
      args.refuse(who, "quant_min", ("at most quant_max, %d"):format(high), low)
   end
end

local function check_zero(who, zero_point, low, high)
   if zero_point < low or zero_point > high then
      args.refuse(who, "zero_point", ("quant_min to quant_max, %d to %d"):format(low, high),
         zero_point)
   end
end

local function check_floating(who, x)
   if not x:is_floating_point() then args.refuse(who, "input", "a floating tensor", x) end
end

-- Converts a number, or a tensor of one element, to a 0-d tensor of float32.
local function single(who, name, value, device)
   return torch.tensor(args.to_number(who, name, value), {dtype = "float32", device = device})
end

local take_tensor = args.signature [[fake_quantize_per_tensor_affine(input: tensor, scale: any,
   zero_point: any, quant_min: integer, quant_max: integer)]]

--- Rounds each element to the nearest of the numbers (q - zero_point) * scale, where q is an
--- integer from quant_min to quant_max. The derivative is 1 for elements inside that range, and 0
--- outside.
---
---     local x = torch.tensor {0.12, -1, 99}
---     print(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255))
---     --> tensor([ 0.1000,  0.0000, 25.5000])
---@param input Tensor
---@param scale number|Tensor  the distance between neighbouring values
---@param zero_point integer|Tensor  the integer q that stands for 0
---@param quant_min integer  the smallest integer
---@param quant_max integer  the largest integer
---@return Tensor
function M.fake_quantize_per_tensor_affine(...)
   local who = "fake_quantize_per_tensor_affine"
   local a = take_tensor(...)
   check_floating(who, a.input)
   check_range(who, a.quant_min, a.quant_max)
   local zero = args.to_number(who, "zero_point", a.zero_point)
   check_zero(who, zero, a.quant_min, a.quant_max)
   return Rounded:apply(a.input, single(who, "scale", a.scale, a.input.device), zero, a.quant_min,
      a.quant_max)
end

-- Reshapes the vectors of scales and zero points so that they broadcast along the axis. Returns
-- both, and the axis as a positive number.
local function along(who, x, scale, zero_point, axis)
   if axis < 0 then axis = axis + x:dim() + 1 end
   if axis < 1 or axis > x:dim() then
      args.refuse(who, "axis", ("1 to %d"):format(x:dim()), axis)
   end
   local n, shape = x:size(axis), {}
   for d = 1, x:dim() do shape[d] = d == axis and n or 1 end
   for name, t in pairs {scale = scale, zero_point = zero_point} do
      if t:dim() ~= 1 or t:size(1) ~= n then
         args.refuse(who, name, ("a vector of %d, the size of the axis"):format(n), t)
      end
   end
   return scale:float():reshape(shape), zero_point:float():reshape(shape), axis
end

local take_channel = args.signature [[fake_quantize_per_channel_affine(input: tensor,
   scale: tensor, zero_point: tensor, axis: integer, quant_min: integer, quant_max: integer)]]

--- Rounds as fake_quantize_per_tensor_affine does, with a scale and a zero point for each position
--- of one dimension.
---
---     local x = torch.tensor {{0.12, 1}, {0.12, 1}}
---     local scale = torch.tensor {0.1, 0.5}
---     local zero = torch.zeros(2, {dtype = "int32"})
---     print(torch.fake_quantize_per_channel_affine(x, scale, zero, 1, 0, 255))
---     --> tensor([[0.1000, 1.0000],
---     -->         [0.0000, 1.0000]])
---@param input Tensor
---@param scale Tensor  (n)
---@param zero_point Tensor  (n) int32 or floating
---@param axis integer  the dimension, of size n
---@param quant_min integer  the smallest integer
---@param quant_max integer  the largest integer
---@return Tensor
function M.fake_quantize_per_channel_affine(...)
   local who = "fake_quantize_per_channel_affine"
   local a = take_channel(...)
   check_floating(who, a.input)
   check_range(who, a.quant_min, a.quant_max)
   if a.zero_point.dtype == "int64" then
      args.refuse(who, "zero_point", "int32 or a floating dtype", a.zero_point)
   end
   local scale, zero = along(who, a.input, a.scale, a.zero_point, a.axis)
   if zero:numel() > 0 then
      check_zero(who, zero:min():item(), a.quant_min, a.quant_max)
      check_zero(who, zero:max():item(), a.quant_min, a.quant_max)
   end
   return Rounded:apply(a.input, scale, zero, a.quant_min, a.quant_max)
end

local take_learned = args.signature [[_fake_quantize_learnable_per_tensor_affine(input: tensor,
   scale: tensor, zero_point: tensor, quant_min: integer, quant_max: integer,
   grad_factor: number = 1.0)]]

--- Rounds as fake_quantize_per_tensor_affine does, and also differentiates with respect to the
--- scale and the zero point, which are tensors of one element.
---@param input Tensor
---@param scale Tensor  (1)
---@param zero_point Tensor  (1) floating
---@param quant_min integer  the smallest integer
---@param quant_max integer  the largest integer
---@param grad_factor? number  multiplies the gradients of scale and zero_point
---@return Tensor
function M._fake_quantize_learnable_per_tensor_affine(...)
   local who = "_fake_quantize_learnable_per_tensor_affine"
   local a = take_learned(...)
   check_floating(who, a.input)
   check_range(who, a.quant_min, a.quant_max)
   local shape, over = {}, {}
   for d = 1, a.input:dim() do shape[d], over[d] = 1, d end
   for _, name in ipairs {"scale", "zero_point"} do
      if a[name]:numel() ~= 1 then args.refuse(who, name, "a tensor of one element", a[name]) end
   end
   return Learned:apply(a.input, a.scale:reshape(shape), a.zero_point:reshape(shape), a.quant_min,
      a.quant_max, a.grad_factor, over)
end

local take_learned_channel = args.signature [[_fake_quantize_learnable_per_channel_affine(
   input: tensor, scale: tensor, zero_point: tensor, axis: integer, quant_min: integer,
   quant_max: integer, grad_factor: number = 1.0)]]

--- Rounds as fake_quantize_per_channel_affine does, and also differentiates with respect to the
--- scales and the zero points.
---@param input Tensor
---@param scale Tensor  (n)
---@param zero_point Tensor  (n) floating
---@param axis integer  the dimension, of size n
---@param quant_min integer  the smallest integer
---@param quant_max integer  the largest integer
---@param grad_factor? number  multiplies the gradients of scale and zero_point
---@return Tensor
function M._fake_quantize_learnable_per_channel_affine(...)
   local who = "_fake_quantize_learnable_per_channel_affine"
   local a = take_learned_channel(...)
   check_floating(who, a.input)
   check_range(who, a.quant_min, a.quant_max)
   local scale, zero, axis = along(who, a.input, a.scale, a.zero_point, a.axis)
   local over = {}
   for d = 1, a.input:dim() do
      if d ~= axis then over[#over + 1] = d end
   end
   return Learned:apply(a.input, scale, zero, a.quant_min, a.quant_max, a.grad_factor, over)
end

return M
