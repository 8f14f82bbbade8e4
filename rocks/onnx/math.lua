-- math.lua - elementwise arithmetic and activations.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local F = torch.nn.functional
local binary <const>, cast <const> = support.binary, support.cast

local M = {}

-- Functions of one input -------------------------------------------------------------------------

for name, fn in pairs {
   Abs = torch.abs, Acos = torch.acos, Acosh = torch.acosh, Asin = torch.asin,
   Asinh = torch.asinh, Atan = torch.atan, Atanh = torch.atanh, Ceil = torch.ceil,
   Cos = torch.cos, Cosh = torch.cosh, Erf = torch.erf, Exp = torch.exp, Floor = torch.floor,
   Log = torch.log, Neg = torch.neg, Reciprocal = torch.reciprocal, Round = torch.round,
   Sigmoid = torch.sigmoid, Sin = torch.sin, Sinh = torch.sinh,
   Sqrt = torch.sqrt, Tan = torch.tan, Tanh = torch.tanh, Relu = F.relu, Softsign = F.softsign,
   Mish = F.mish, IsNaN = torch.isnan, Softplus = F.softplus,
} do
   M[name] = function(_, x) return fn(x) end
end

function M.Identity(_, x) return x end

-- In the standard, the sign of NaN is NaN.
function M.Sign(_, x)
   return x:is_floating_point() and torch.where(x:isnan(), x, x:sign()) or x:sign()
end

function M.HardSwish(_, x) return x * (x / 6 + 0.5):clamp(0, 1) end

function M.IsInf(node, x)
   local low, high = node:int("detect_negative", 1) ~= 0, node:int("detect_positive", 1) ~= 0
   if low and high then return torch.isinf(x) end
   if low then return x:eq(-math.huge) end
   if high then return x:eq(math.huge) end
   return torch.zeros(support.shape(x), {dtype = "bool", device = x.device})
end

function M.LeakyRelu(node, x) return F.leaky_relu(x, node:float("alpha", 0.01)) end

function M.PRelu(node, x, slope)
   if node.version < 7 and slope:dim() == 1 and x:dim() > 1 and slope:numel() > 1 then
      local shape = support.fill(x:dim(), 1)
      shape[2] = slope:numel()
      slope = slope:reshape(shape)
   end
   return torch.where(x:lt(0), x * slope, x)
end

function M.Elu(node, x) return F.elu(x, node:float("alpha", 1)) end

function M.Celu(node, x) return F.celu(x, node:float("alpha", 1)) end

function M.Selu(node, x)
   local alpha = node:float("alpha", 1.67326319217681884765625)
   local gamma = node:float("gamma", 1.05070102214813232421875)
   return torch.where(x:gt(0), x, alpha * torch.expm1(x:clamp {max = 0})) * gamma
end

function M.ThresholdedRelu(node, x)
   return torch.where(x:gt(node:float("alpha", 1)), x, torch.zeros_like(x))
end

function M.HardSigmoid(node, x)
   return (x * node:float("alpha", 0.2) + node:float("beta", 0.5)):clamp(0, 1)
end

function M.Gelu(node, x) return F.gelu(x, {approximate = node:text("approximate", "none")}) end

function M.Swish(node, x) return x * torch.sigmoid(x * node:float("alpha", 1)) end

function M.Shrink(node, x)
   local bias, limit = node:float("bias", 0), node:float("lambd", 0.5)
   local y = torch.where(x:lt(-limit), x + bias,
      torch.where(x:gt(limit), x - bias, torch.zeros_like(x)))
   return cast(y, x.dtype)
end

-- Returns an operator that calls fn along one axis. Old versions treat all dimensions from an axis
-- on as one, so for these the input is flattened to rows.
local function along(fn)
   return function(node, x)
      if node.version >= 13 then return fn(x, node:dim(node:int("axis", -1), x:dim())) end
      local axis = node:int("axis", 1)
      if axis < 0 then axis = axis + x:dim() end
      local rows = x:reshape(support.product(x.shape, 1, axis), -1)
      return fn(rows, 2):reshape(x.shape)
   end
end

M.Softmax = along(function(x, dim) return x:softmax(dim) end)
M.LogSoftmax = along(function(x, dim) return x:log_softmax(dim) end)
M.Hardmax = along(function(x, dim)
   local first = x:argmax(dim, true)
   return torch.zeros_like(x):scatter(dim, first, torch.ones_like(x))
end)

-- Functions of two and more inputs ---------------------------------------------------------------

local function is_integer(x) return not x:is_floating_point() and not torch.is_complex(x) end

M.Add = binary(function(a, b) return a + b end)
M.Sub = binary(function(a, b) return a - b end)
M.Mul = binary(function(a, b) return a * b end)

M.Div = binary(function(a, b, node)
   if not is_integer(a) then return a / b end
   if b:eq(0):any():item() then node:fail "division of integers by 0" end
   return torch.div(a, b, {rounding_mode = "trunc"})
end, "divide")

M.Mod = binary(function(a, b, node)
   if is_integer(a) and b:eq(0):any():item() then node:fail "division of integers by 0" end
   if node:int("fmod", 0) ~= 0 then return torch.fmod(a, b) end
   return torch.remainder(a, b)
end, "divide")

function M.Pow(node, a, b)
   b = support.beside(node, a, b)
   if a.dtype == b.dtype and not is_integer(a) then return torch.pow(a, b) end
   if is_integer(a) and is_integer(b) then
      return cast(torch.pow(a:to "int64", b:to "int64"), a.dtype)
   end
   if is_integer(a) then return cast(torch.pow(a:to "float64", b:to "float64"), a.dtype) end
   return cast(torch.pow(a, b:to(a.dtype)), a.dtype)
end

-- Returns an operator that takes any number of inputs and combines them by fn from left to right.
-- `how` is passed to support.binary. last(x, n), if given, is applied to the result.
local function fold(fn, how, last)
   fn = binary(fn, how)
   return function(node, first, ...)
      local sum = first
      for i = 1, select("#", ...) do
         local x = select(i, ...)
         sum = fn(node, sum, x)
      end
      return last and last(sum, select("#", ...) + 1) or sum
   end
end

M.Sum = fold(function(a, b) return a + b end)
M.Mean = fold(function(a, b) return a + b end, nil, function(sum, n) return sum / n end)
M.Max = fold(function(a, b) return torch.maximum(a, b) end, "order")
M.Min = fold(function(a, b) return torch.minimum(a, b) end, "order")

-- Returns a limit of Clip as a number. If the limit is trained, returns it as a tensor.
local function limit_of(node, x, limit, name)
   if limit == nil then return nil end
   if limit:numel() ~= 1 then
      node:fail("%s: expected one number, got %s", name, values.describe(limit))
   end
   node:same_dtype(x, limit)
   return limit.requires_grad and limit:reshape {} or limit:item()
end

function M.Clip(node, x, low, high)
   if node.version < 11 then
      low, high = node:float "min", node:float "max"
   else
      low, high = limit_of(node, x, low, "min"), limit_of(node, x, high, "max")
   end
   if low == nil and high == nil then return x end
   if torch.is_tensor(low) or torch.is_tensor(high) then
      if low ~= nil then x = torch.maximum(x, torch.as_tensor(low, {dtype = x.dtype})) end
      if high ~= nil then x = torch.minimum(x, torch.as_tensor(high, {dtype = x.dtype})) end
      return x
   end
   return cast(x:clamp(low, high), x.dtype)
end

function M.Where(node, condition, a, b)
   if values.is_strings(a) then return require "tlua.onnx.texts"._where(node, condition, a, b) end
   node:same_dtype(a, b)
   return torch.where(condition, a, b)
end

-- Conversions ------------------------------------------------------------------------------------

-- These dtypes saturate: a number that is too large becomes the largest finite value, which is
-- listed here.
local largest <const> = {
   float8_e4m3fn = 448, float8_e4m3fnuz = 240, float8_e5m2 = 57344, float8_e5m2fnuz = 57344,
}

local words <const> = {nan = 0 / 0, inf = math.huge, infinity = math.huge}

local function parse(node, text)
   local sign, word = text:lower():match "^%s*([+-]?)(%a+)%s*$"
   if words[word] then return sign == "-" and -words[word] or words[word] end
   return tonumber(text) or node:fail("no number: %q", text)
end

local function from_strings(node, x, dtype)
   local numbers = {}
   for i, text in ipairs(x) do numbers[i] = parse(node, text) end
   if #numbers == 0 then return torch.empty(x.shape, {dtype = dtype}) end
   return torch.tensor(numbers, {dtype = "float64"}):to(dtype):reshape(x.shape)
end

local function show(number, dtype)
   if type(number) == "boolean" then return number and "True" or "False" end
   if math.type(number) == "integer" then return tostring(number) end
   if number ~= number then return "NaN" end
   if number == math.huge then return "INF" end
   if number == -math.huge then return "-INF" end
   local digits = ({float16 = 5, float32 = 9, bfloat16 = 4})[dtype] or 17
   for n = 1, digits do -- this loop finds the shortest text that gives the same value
      local text = ("%." .. n .. "g"):format(number)
      local back = torch.tensor(tonumber(text), {dtype = dtype}):item()
      if back == number then return text:find "[.e]" and text or text .. ".0" end
   end
   return ("%.17g"):format(number)
end

local function to_strings(x)
   local list = x:reshape(-1):tolist()
   for i, number in ipairs(list) do list[i] = show(number, x.dtype) end
   return values.strings(list, support.shape(x))
end

-- Rounds numbers to powers of two, which are the only values of float8_e8m0fnu.
local function as_powers(node, x)
   local mode = node:text("round_mode", "up")
   local y = x:to "float64":abs()
   local _, exponent = torch.frexp(y)
   exponent = exponent:to "float64"
   local below = torch.exp2(exponent - 1)
   if mode == "up" then
      y = torch.where(y:eq(below), y, torch.exp2(exponent))
   elseif mode == "down" then
      y = torch.where(y:isfinite(), below, y)
   elseif mode ~= "nearest" then
      node:fail("attribute round_mode: %q is unknown", mode)
   end
   y = y:masked_fill(x:eq(0), 0)
   if node:int("saturate", 1) ~= 0 then y = y:clamp(2.0 ^ -127, 2.0 ^ 127) end
   return y:to "float32"
end

local function convert(node, x, dtype)
   if values.is_strings(x) then
      return dtype == "string" and x or from_strings(node, x, dtype)
   end
   if dtype == "string" then return to_strings(x) end
   if not values.element_size(dtype) then
      node:fail("attribute to: the dtype %s is not supported", dtype)
   end
   if x.dtype == dtype then return x end
   if dtype == "float8_e8m0fnu" then x = as_powers(node, x) end
   if largest[dtype] and node:int("saturate", 1) ~= 0 then
      x = x:to "float32":clamp(-largest[dtype], largest[dtype])
   -- Numbers up to 464 are rounded to 448, the largest value of this dtype.
   elseif dtype == "float8_e4m3fn" then
      x = x:to "float32"
      x = x:masked_fill(x:abs():gt(464), 0 / 0)
   end
   return x:to(dtype)
end

function M.Cast(node, x)
   local to
   if node.attributes.to and node.attributes.to.kind == "s" then -- version 1
      to = node:need("text", "to"):lower():gsub("^float$", "float32"):gsub("^double$", "float64")
   else
      local number = node:need("int", "to")
      to = schema.dtypes[number] or node:fail("attribute to: the unknown dtype %d", number)
   end
   return convert(node, x, to)
end

function M.CastLike(node, x, like)
   return convert(node, x, values.is_strings(like) and "string" or like.dtype)
end

function M.BitCast(node, x)
   local number = node:need("int", "to")
   local to = schema.dtypes[number]
   if not to or not values.element_size(to) then
      node:fail("attribute to: the dtype %s is not supported", to or number)
   end
   return x:contiguous():view(to)
end

return M
