-- quantized.lua - quantized tensors: integers q of 8 or 32 bits that stand for the numbers
-- (q - zero_point) * scale. A quantized tensor is a wrapped tensor (wrapped.lua) whose parts are
-- integers, the dtype, one scale and zero point (per_tensor_affine) or one for each position of a
-- dimension (per_channel_affine). The functions below are its methods; inside them, `self` is the
-- table of parts. Operators without such a method need an ordinary tensor, which `dequantize` or
-- `int_repr` returns.

local torch = require "tlua"
local args = require "tlua.args"
local wrapped = require "tlua.wrapped"

local M = {}

local kind = wrapped.kind {
   title = "quantized tensor", plural = "quantized tensors", main = "integers", rest = "scale",
   hint = "dequantize() makes a dense one",
}

local stored <const> = {quint8 = "uint8", qint8 = "int8", qint32 = "int32"}

--- A tensor of integers that stand for the numbers (q - zero_point) * scale, as
--- torch.quantize_per_tensor and torch.quantize_per_channel make it.
---
---     local x = torch.tensor {-1, 0.26, 300}
---     local q = torch.quantize_per_tensor(x, 0.1, 10, "quint8")
---     print(q:int_repr(), q:q_scale())
---     --> tensor([  0,  13, 255], dtype=torch.uint8)	0.1
---@class ao.QuantizedTensor
---@field dtype string  "quint8", "qint8" or "qint32"
---@field shape integer[]  the sizes
---@field device torch.device  the device of the integers
---@field is_quantized boolean  true
local Quantized = {}
local of_parts <const> = {__index = Quantized}

-- Returns a quantized tensor that has the given integers, and the scales and zero points of the
-- quantized tensor `like`.
local function with_integers(like, integers, axis)
   return kind.new(setmetatable({
      integers = integers, dtype = like.dtype, scale = like.scale, zero_point = like.zero_point,
      axis = axis or like.axis,
   }, of_parts))
end

local function limits(dtype)
   local info = torch.iinfo(stored[dtype])
   return info.min, info.max
end

-- Returns a vector in a shape that broadcasts along the axis of an ndim-dimensional tensor.
local function along(vector, ndim, axis)
   local shape = {}
   for d = 1, ndim do shape[d] = d == axis and vector:size(1) or 1 end
   return vector:reshape(shape)
end

-- Returns the scale in float32 and the zero point, which broadcast to x.
local function parameters(p, x)
   if not p.axis then
      return torch.tensor(p.scale, {dtype = "float32", device = x.device}), p.zero_point
   end
   return along(p.scale, x:dim(), p.axis):float(), along(p.zero_point, x:dim(), p.axis)
end

-- Rounds x to integers. NaN becomes the largest integer, as in PyTorch.
local function integers_of(p, x)
   local low, high = limits(p.dtype)
   local scale, zero_point = parameters(p, x)
   local q = (x * scale:reciprocal()):round():double() + zero_point
   q = torch.where(q:isnan(), math.huge, q)
   return q:clamp(low, high):to(stored[p.dtype])
end

local function check(who, a)
   if a.input.dtype ~= "float32" then args.refuse(who, "input", "a float32 tensor", a.input) end
   if not stored[a.dtype] then
      args.refuse(who, "dtype", '"quint8", "qint8" or "qint32"', a.dtype)
   end
end

local function check_zero(who, value, dtype)
   local low, high = limits(dtype)
   if value < low or value > high or value ~= math.floor(value) then
      args.refuse(who, "zero_point", ("an integer from %d to %d for %s"):format(low, high, dtype),
         value)
   end
end

-- lua/tlua/ao/operators.lua uses these four functions.
M._parts, M._limits, M._integers_of, M._check_zero = kind.parts, limits, integers_of, check_zero

--- Makes a quantized tensor from integers. With `axis`, scale and zero_point are vectors, one
--- element for each position of that dimension.
function M._of_integers(integers, dtype, scale, zero_point, axis)
   local like = {dtype = dtype, scale = scale, zero_point = zero_point, axis = axis}
   return with_integers(like, integers)
end

local take_tensor = args.signature [[quantize_per_tensor(input: tensor, scale: any,
   zero_point: any, dtype: string)]]

--- Rounds a tensor to integers that stand for the numbers (q - zero_point) * scale.
---
---     local x = torch.tensor {-1, 0.26, 300}
---     local q = torch.quantize_per_tensor(x, 0.1, 10, "quint8")
---     print(q:int_repr())
---     --> tensor([  0,  13, 255], dtype=torch.uint8)
---@param input Tensor  float32
---@param scale number|Tensor  above 0
---@param zero_point integer|Tensor  the integer that stands for 0
---@param dtype string  "quint8", "qint8" or "qint32"
---@return ao.QuantizedTensor
function M.quantize_per_tensor(...)
   local who = "quantize_per_tensor"
   local a = take_tensor(...)
   check(who, a)
   local scale = args.to_number(who, "scale", a.scale)
   local zero = args.to_number(who, "zero_point", a.zero_point)
   if not (scale > 0 and scale < math.huge) then
      args.refuse(who, "scale", "a number above 0", a.scale)
   end
   check_zero(who, zero, a.dtype)
   local like = {dtype = a.dtype, scale = scale, zero_point = math.tointeger(zero)}
   return with_integers(like, integers_of(like, a.input:detach()))
end

local take_channel = args.signature [[quantize_per_channel(input: tensor, scales: tensor,
   zero_points: tensor, axis: integer, dtype: string)]]

--- Quantizes as quantize_per_tensor does, with a scale and a zero point for each position of one
--- dimension.
---
---     local scales, zeros = torch.tensor {0.1, 0.5}, torch.tensor {0, 3}
---     local x = torch.ones(2, 2)
---     local q = torch.quantize_per_channel(x, scales, zeros, 1, "quint8")
---     print(q:int_repr())
---     --> tensor([[10, 10],
---     -->         [ 5,  5]], dtype=torch.uint8)
---@param input Tensor  float32
---@param scales Tensor  (n), above 0
---@param zero_points Tensor  (n)
---@param axis integer  the dimension, of size n
---@param dtype string  "quint8", "qint8" or "qint32"
---@return ao.QuantizedTensor
function M.quantize_per_channel(...)
   local who = "quantize_per_channel"
   local a = take_channel(...)
   check(who, a)
   local x, n = a.input:detach(), a.input:dim()
   local axis = a.axis < 0 and a.axis + n + 1 or a.axis
   if axis < 1 or axis > n then args.refuse(who, "axis", ("1 to %d"):format(n), a.axis) end
   for _, name in ipairs {"scales", "zero_points"} do
      if a[name].device ~= x.device then
         args.refuse(who, name, ("a tensor on %s, as input is"):format(x.device), a[name].device)
      end
      if a[name]:dim() ~= 1 or a[name]:size(1) ~= x:size(axis) then
         args.refuse(who, name, ("a vector of %d, the size of the axis"):format(x:size(axis)),
            a[name])
      end
   end
   if not (a.scales:gt(0):all():item() and a.scales:isfinite():all():item()) then
      args.refuse(who, "scales", "finite numbers above 0", a.scales)
   end
   local zeros = a.zero_points:detach():to "int64"
   for _, zero in ipairs(a.zero_points:tolist()) do check_zero(who, zero, a.dtype) end
   local like = {
      dtype = a.dtype, scale = a.scales:detach():double(), zero_point = zeros, axis = axis,
   }
   return with_integers(like, integers_of(like, x))
end

--- Returns the numbers that a quantized tensor represents. A tensor that is not quantized is
--- returned in float32.
---
---     local q = torch.quantize_per_tensor(torch.tensor {0.26}, 0.1, 10, "quint8")
---     print(torch.dequantize(q))
---     --> tensor([0.3000])
---@param tensor ao.QuantizedTensor|Tensor
---@return Tensor  float32
function M.dequantize(tensor)
   if not torch.is_tensor(tensor) then args.refuse("dequantize", "tensor", "a tensor", tensor) end
   return kind.parts(tensor) and tensor:dequantize() or tensor:float()
end

--- Returns the numbers that the integers represent.
---@return Tensor  float32
function Quantized:dequantize()
   local scale, zero = parameters(self, self.integers)
   return (self.integers:to "int64" - zero):float() * scale
end

--- Returns the number that a quantized tensor of one element represents.
---@return number
function Quantized:item() return self:dequantize():item() end

--- Returns the numbers as nested lists.
---@return table|number
function Quantized:tolist() return self:dequantize():tolist() end

--- Returns a copy of the integers.
---@return Tensor  uint8, int8 or int32
function Quantized:int_repr() return self.integers:clone() end

local function expect(who, q, channels)
   if (q.axis ~= nil) ~= channels then
      torch.raise(("%s: expected a tensor quantized per %s, got one of %s"):format(who,
         channels and "channel" or "tensor", q:qscheme()))
   end
end

--- Returns the scale of a tensor that is quantized per tensor.
---@return number
function Quantized:q_scale()
   expect("q_scale", self, false)
   return self.scale
end

--- Returns the zero point, the integer that stands for 0, of a tensor that is quantized per tensor.
---@return integer
function Quantized:q_zero_point()
   expect("q_zero_point", self, false)
   return self.zero_point
end

--- Returns the scales of a tensor that is quantized per channel.
---@return Tensor  (n) float64
function Quantized:q_per_channel_scales()
   expect("q_per_channel_scales", self, true)
   return self.scale
end

--- Returns the zero points, the integers that stand for 0, of a tensor that is quantized per
--- channel.
---@return Tensor  (n) int64
function Quantized:q_per_channel_zero_points()
   expect("q_per_channel_zero_points", self, true)
   return self.zero_point
end

--- Returns the dimension along which the scales differ, for a tensor that is quantized per channel.
---@return integer
function Quantized:q_per_channel_axis()
   expect("q_per_channel_axis", self, true)
   return self.axis
end

--- Returns "per_tensor_affine" or "per_channel_affine".
---@return string
function Quantized:qscheme() return self.axis and "per_channel_affine" or "per_tensor_affine" end

--- Returns the sizes, or the size of one dimension.
---@param dim? integer  the dimension; all sizes if it is not given
---@return integer[]|integer
function Quantized:size(dim) return self.integers:size(dim) end

--- Returns the number of dimensions.
---@return integer
function Quantized:dim() return self.integers:dim() end

--- Returns the number of elements.
---@return integer
function Quantized:numel() return self.integers:numel() end

--- Returns a copy.
---@return ao.QuantizedTensor
function Quantized:clone() return with_integers(self, self.integers:clone()) end

--- Returns a tensor with the same elements in row-major order in memory.
---@return ao.QuantizedTensor
function Quantized:contiguous() return with_integers(self, self.integers:contiguous()) end

--- Returns the elements in another shape. The tensor must be quantized per tensor.
---@param ... integer  sizes
---@return ao.QuantizedTensor
function Quantized:reshape(...)
   expect("reshape", self, false)
   return with_integers(self, self.integers:reshape(...))
end

--- Returns the tensor with the dimensions from start_dim to end_dim merged into one.
---@param start_dim? integer  1 by default
---@param end_dim? integer  the last dimension by default
---@return ao.QuantizedTensor
function Quantized:flatten(start_dim, end_dim)
   expect("flatten", self, false)
   return with_integers(self, self.integers:flatten(start_dim or 1, end_dim or -1))
end

--- Returns the tensor with two dimensions exchanged.
---@param dim0 integer  the first of the two dimensions
---@param dim1 integer  the second of the two dimensions
---@return ao.QuantizedTensor
function Quantized:transpose(dim0, dim1)
   local turned = self.integers:transpose(dim0, dim1)
   local n, axis = turned:dim(), self.axis
   if dim0 < 0 then dim0 = dim0 + n + 1 end
   if dim1 < 0 then dim1 = dim1 + n + 1 end
   axis = axis == dim0 and dim1 or axis == dim1 and dim0 or axis
   return with_integers(self, turned, axis)
end

--- Returns a tensor in which 0 replaces the negative numbers.
---@return ao.QuantizedTensor
function Quantized:relu()
   expect("relu", self, false)
   return with_integers(self, self.integers:clamp_min(self.zero_point))
end

--- Returns the largest number in each window, as torch.nn.functional.max_pool2d does.
---@param ... any  kernel_size, stride, padding, dilation and ceil_mode
---@return ao.QuantizedTensor
function Quantized:max_pool2d(...)
   expect("max_pool2d", self, false)
   local pooled = torch.nn.functional.max_pool2d(self.integers:double(), ...)
   return with_integers(self, pooled:to(stored[self.dtype]))
end

-- Returns the quantized tensor of the means that `fn` computes from the integers minus the zero
-- point, in float64. A mean halfway between two integers is rounded to the even integer. In
-- PyTorch, the direction of this rounding depends on the order of the elements in memory.
local function mean_by(who, q, fn)
   expect(who, q, false)
   local mean = fn((q.integers:to "int64" - q.zero_point):double()):float()
   local low, high = limits(q.dtype)
   local integers = mean:round():double():add(q.zero_point):clamp(low, high)
   return with_integers(q, integers:to(stored[q.dtype]))
end

--- Returns the mean of each window, as torch.nn.functional.avg_pool2d does.
---@param ... any  kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
---@return ao.QuantizedTensor
function Quantized:avg_pool2d(...)
   local options = table.pack(...)
   return mean_by("avg_pool2d", self, function(x)
      return torch.nn.functional.avg_pool2d(x, table.unpack(options, 1, options.n))
   end)
end

--- Returns the means of windows, as torch.nn.functional.adaptive_avg_pool2d does.
---@param output_size integer|integer[]  height and width of the result
---@return ao.QuantizedTensor
function Quantized:adaptive_avg_pool2d(output_size)
   return mean_by("adaptive_avg_pool2d", self, function(x)
      return torch.nn.functional.adaptive_avg_pool2d(x, output_size)
   end)
end

--- Returns the mean, as torch.mean does.
---@param ... any  dim and keepdim
---@return ao.QuantizedTensor
function Quantized:mean(...)
   local options = table.pack(...)
   return mean_by("mean", self, function(x) return x:mean(table.unpack(options, 1, options.n)) end)
end

--- Returns whether another quantized tensor has the same dtype, scales, zero points and integers.
---@param other ao.QuantizedTensor  the tensor to compare with
---@return boolean
function Quantized:equal(other)
   other = kind.parts(other) or args.refuse("equal", "other", "a quantized tensor", other)
   local function same(a, b)
      if torch.is_tensor(a) and torch.is_tensor(b) then return a:equal(b) end
      return a == b
   end
   return self.dtype == other.dtype and self.axis == other.axis and same(self.scale, other.scale)
      and same(self.zero_point, other.zero_point) and same(self.integers, other.integers)
end

for name, method in pairs(Quantized) do
   kind.define(name, function(x, ...)
      return method(kind.parts(x) or args.refuse(name, "self", "a quantized tensor", x), ...)
   end)
end
-- Concatenates tensors that are quantized per tensor. The result has the scale and the zero point
-- of the first tensor, to which the numbers of the other tensors are rounded.
kind.define("cat concat concatenate", function(list, dim)
   local first, all = kind.parts(list[1]), {}
   for i, x in ipairs(list) do
      local p = kind.parts(x)
      if not first or not p or p.axis or p.dtype ~= first.dtype then
         args.refuse("cat", ("tensors[%d]"):format(i),
            "a tensor quantized per tensor, of the dtype of the first", x)
      end
      local same = p.scale == first.scale and p.zero_point == first.zero_point
      all[i] = same and p.integers or integers_of(first, p:dequantize())
   end
   return with_integers(first, torch.cat(all, dim or 1))
end, false)

--- Replaces the integers, scales and zero points by those of another quantized tensor of the same
--- shape and dtype, or rounds the elements of a dense tensor.
---@names ao.QuantizedTensor:copy_
---@param src ao.QuantizedTensor|Tensor
---@return ao.QuantizedTensor self
kind.define("copy_", function(x, src)
   local p, q = kind.parts(x) or kind.unsupported "copy_", kind.parts(src)
   if not torch.is_tensor(src) then args.refuse("copy_", "src", "a tensor", src) end
   if q and (q.dtype ~= p.dtype or q.axis ~= p.axis or not q.integers:is_same_size(p.integers)) then
      args.refuse("copy_", "src", ("a tensor like self, %s"):format(args.describe(x)), src)
   elseif args.kind_of(src) and not q then
      kind.unsupported "copy_"
   end
   local numbers = q or torch.broadcast_to(src:detach():to(x.device):float(), p.integers.shape)
   p.integers:copy_(q and q.integers or integers_of(p, numbers))
   if q then
      local axis, device = p.axis, p.integers.device
      p.scale = axis and q.scale:to(device) or q.scale
      p.zero_point = axis and q.zero_point:to(device) or q.zero_point
   end
   return x
end)
for name in ("requires_grad_ retain_grad register_hook"):gmatch "%a+[_%a]*" do
   kind.methods[name], kind.operators[name] = nil, nil
end

local properties <const> = kind.properties
function properties.dtype(p) return p.dtype end
function properties.shape(p) return p.integers.shape end
function properties.ndim(p) return p.integers.ndim end
function properties.layout(p) return p.integers.layout end
function properties.is_quantized() return true end

function kind.length(p) return #p.integers end
function kind.like(p, integers) return with_integers(p, integers) end
function kind.same(p, q) return rawequal(p.scale, q.scale) and p.zero_point == q.zero_point end

function kind.moved(p, integers)
   if integers.dtype ~= p.integers.dtype then
      torch.raise(("to: a quantized tensor has no conversion to %s; %s"):format(integers.dtype,
         kind.hint))
   end
   local q = with_integers(p, integers)
   if p.axis then
      local parts, device = kind.parts(q), integers.device
      parts.scale, parts.zero_point = p.scale:to(device), p.zero_point:to(device)
   end
   return q
end

-- If channels are the first dimension, indexing a channel gives a tensor that is quantized per
-- tensor, with the scale and the zero point of that channel.
kind.operators.__index = function(x, key)
   local p = kind.parts(x)
   if not p.axis then return with_integers(p, p.integers[key]) end
   if p.axis > 1 or math.type(key) ~= "integer" then
      torch.raise("index: a tensor quantized per channel takes a position on the first dimension, "
         .. "if that is the axis; dequantize() makes a dense one")
   end
   local integers = p.integers[key]
   return with_integers({
      dtype = p.dtype, scale = p.scale[key]:item(), zero_point = p.zero_point[key]:item(),
   }, integers)
end

-- Rounds the assigned numbers with the scales and the zero points of the elements that they
-- replace.
kind.operators.__newindex = function(x, key, value)
   local p = kind.parts(x)
   local numbers, chosen = p:dequantize(), torch.zeros_like(p.integers, {dtype = "bool"})
   numbers[key] = kind.parts(value) and value:dequantize() or value
   chosen[key] = true
   p.integers:copy_(torch.where(chosen, integers_of(p, numbers), p.integers))
end

function kind.text(p)
   local text = tostring(p:dequantize()):gsub(", device='[^']*'", ""):gsub("%)$", "")
   local sizes = table.concat(p.integers.shape, ", ")
   if p:dim() == 1 then sizes = sizes .. "," end
   local device = p.integers.is_cpu and "" or (", device='%s'"):format(p.integers.device)
   local rest = p.axis
      and ("scale=%s,\n       zero_point=%s,\n       axis=%d"):format(p.scale, p.zero_point, p.axis)
      or ("scale=%s, zero_point=%d"):format(("%.17g"):format(p.scale) + 0.0, p.zero_point)
   return ("%s, size=(%s)%s, dtype=torch.%s,\n       quantization_scheme=torch.%s%s%s)")
      :format(text, sizes, device, p.dtype, p:qscheme(), p.axis and ",\n       " or ", ", rest)
end

return M
