-- translations.lua - translates the operators of a program to ONNX: elementwise functions,
-- reductions and products. A translation gets the builder and the call's arguments by name, and
-- returns the values of the results. Positions count from 1 in tlua, and also in the inputs and
-- outputs of an exported model. ONNX's operators count from 0, so translations subtract or add 1.

local torch = require "tlua"
local wire = require "tlua.onnx.wire"

local M = {}

local function float(x) return x + 0.0 end

-- Elementwise -------------------------------------------------------------------------------------

-- These operators have one input and the same meaning in ONNX.
for name, op in pairs {
   relu = "Relu", abs = "Abs", exp = "Exp", log = "Log", sqrt = "Sqrt", sin = "Sin", cos = "Cos",
   tan = "Tan", asin = "Asin", acos = "Acos", atan = "Atan", sinh = "Sinh", cosh = "Cosh",
   asinh = "Asinh", acosh = "Acosh", atanh = "Atanh", tanh = "Tanh", sigmoid = "Sigmoid",
   erf = "Erf", neg = "Neg", reciprocal = "Reciprocal", floor = "Floor", ceil = "Ceil",
   isnan = "IsNaN", isinf = "IsInf", softsign = "Softsign",
   hardswish = "HardSwish", clone = "Identity", contiguous = "Identity", detach = "Identity",
   det = "Det", positive = "Identity", alias = "Identity",
} do
   M[name] = function(b, a)
      local x = a.self or a.input or a.A
      local any = op == "Identity" or op == "Abs" or op == "Neg" or op == "Relu"
      if not any and not b:is_float(x) then
         if op == "Floor" or op == "Ceil" then return x end
         x = b:cast(x, "float32")
      end
      return b:node(op, {x})
   end
end

local function f32(b, x) return b:is_float(x) and x or b:cast(x, "float32") end

-- Returns a translation of an operator with one input, which is composed of other operators.
local function of_one(fn)
   return function(b, a)
      local x = f32(b, a.self or a.input)
      local function n(value) return b:number(value, b:dtype(x)) end
      return fn(b, x, n, a)
   end
end

local function op(b, name, ...) return b:node(name, {...}) end

-- In ONNX, the sign of NaN is NaN; in tlua and PyTorch it is 0.
M.sign = function(b, a)
   local x = a.self
   if not b:is_float(x) then return op(b, "Sign", x) end
   return op(b, "Where", op(b, "IsNaN", x), b:number(0, b:dtype(x)), op(b, "Sign", x))
end
M.logical_not = function(b, a) return op(b, "Not", b:cast(a.self, "bool")) end
M.bitwise_not = function(b, a)
   return op(b, b:dtype(a.self) == "bool" and "Not" or "BitwiseNot", a.self)
end
M.silu = of_one(function(b, x) return op(b, "Mul", x, op(b, "Sigmoid", x)) end)
M.mish = of_one(function(b, x) return op(b, "Mul", x, op(b, "Tanh", op(b, "Softplus", x))) end)
M.relu6 = of_one(function(b, x, n) return op(b, "Clip", x, n(0), n(6)) end)
M.hardtanh = of_one(function(b, x, n, a) return op(b, "Clip", x, n(a.min_val), n(a.max_val)) end)
M.hardsigmoid = of_one(function(b, x)
   return b:node("HardSigmoid", {x}, {alpha = 1 / 6, beta = 0.5})
end)
M.leaky_relu = of_one(function(b, x, _, a)
   return b:node("LeakyRelu", {x}, {alpha = float(a.negative_slope)})
end)
M.elu = of_one(function(b, x, _, a) return b:node("Elu", {x}, {alpha = float(a.alpha)}) end)
M.celu = of_one(function(b, x, _, a) return b:node("Celu", {x}, {alpha = float(a.alpha)}) end)
M.selu = of_one(function(b, x)
   return b:node("Selu", {x}, {alpha = 1.67326324235437728, gamma = 1.05070098735548049})
end)
M.rrelu = of_one(function(b, x, _, a)
   return b:node("LeakyRelu", {x}, {alpha = (a.lower + a.upper) / 2})
end)
M.softplus = of_one(function(b, x, n, a)
   local scaled = a.beta == 1 and x or op(b, "Mul", x, n(a.beta))
   local y = op(b, "Softplus", scaled)
   if a.beta ~= 1 then y = op(b, "Div", y, n(a.beta)) end
   -- With a threshold of at least 20, softplus(x) is x in float32 already where x exceeds the
   -- threshold.
   if a.threshold >= 20 then return y end
   return op(b, "Where", op(b, "Greater", scaled, n(a.threshold)), x, y)
end)
M.logsigmoid = of_one(function(b, x) return op(b, "Neg", op(b, "Softplus", op(b, "Neg", x))) end)
M.tanhshrink = of_one(function(b, x) return op(b, "Sub", x, op(b, "Tanh", x)) end)
M.softshrink = of_one(function(b, x, _, a)
   return b:node("Shrink", {x}, {lambd = float(a.lambd), bias = float(a.lambd)})
end)
M.hardshrink = of_one(function(b, x, _, a)
   return b:node("Shrink", {x}, {lambd = float(a.lambd), bias = 0.0})
end)
M.threshold = of_one(function(b, x, n, a)
   return op(b, "Where", op(b, "Greater", x, n(a.threshold)), x, n(a.value))
end)
M.gelu = of_one(function(b, x, n, a)
   if b.opset >= 20 then return b:node("Gelu", {x}, {approximate = a.approximate or "none"}) end
   local half = op(b, "Mul", x, n(0.5))
   if a.approximate == "tanh" then
      local cube = op(b, "Mul", op(b, "Mul", x, x), x)
      local inner = op(b, "Add", x, op(b, "Mul", cube, n(0.044715)))
      inner = op(b, "Tanh", op(b, "Mul", inner, n(math.sqrt(2 / math.pi))))
      return op(b, "Mul", half, op(b, "Add", inner, n(1)))
   end
   return op(b, "Mul", half, op(b, "Add", op(b, "Erf", op(b, "Mul", x, n(math.sqrt(0.5)))), n(1)))
end)
M.rsqrt = of_one(function(b, x) return op(b, "Reciprocal", op(b, "Sqrt", x)) end)
M.square = function(b, a) return op(b, "Mul", a.self, a.self) end

-- Returns small(x, u, d) where -0.5 < x < 0.5, and the value `large` elsewhere. The arguments of
-- small() are x, u = outer(x), and d = u - 1, which is exact. Where d is 0, the result is x.
local function near_zero(b, x, n, outer, small, large)
   local near = op(b, "Less", op(b, "Abs", x), n(0.5))
   local inner = op(b, "Where", near, x, n(0))
   local u = outer(inner)
   local d = op(b, "Sub", u, n(1))
   local none = op(b, "Equal", d, n(0))
   local safe = op(b, "Where", none, n(1), d)
   local y = op(b, "Where", none, inner, small(inner, u, safe))
   return op(b, "Where", near, y, large)
end

-- These are W. Kahan's formulas for values near 1, in which the rounding errors of u and of log(u)
-- cancel.
M.expm1 = of_one(function(b, x, n)
   local function small(y, u, d)
      local log = op(b, "Where", op(b, "Equal", u, n(1)), n(1), op(b, "Log", u))
      return op(b, "Mul", d, op(b, "Div", y, log))
   end
   return near_zero(b, x, n, function(y) return op(b, "Exp", y) end, small,
      op(b, "Sub", op(b, "Exp", x), n(1)))
end)
M.log1p = of_one(function(b, x, n)
   local function small(y, u, d) return op(b, "Mul", op(b, "Log", u), op(b, "Div", y, d)) end
   return near_zero(b, x, n, function(y) return op(b, "Add", y, n(1)) end, small,
      op(b, "Log", op(b, "Add", x, n(1))))
end)
M.log2 = of_one(function(b, x, n) return op(b, "Div", op(b, "Log", x), n(math.log(2))) end)
M.log10 = of_one(function(b, x, n) return op(b, "Div", op(b, "Log", x), n(math.log(10))) end)
M.exp2 = of_one(function(b, x, n) return op(b, "Pow", n(2), x) end)
M.trunc = of_one(function(b, x)
   return op(b, "Mul", op(b, "Sign", x), op(b, "Floor", op(b, "Abs", x)))
end)
M.frac = of_one(function(b, x) return op(b, "Sub", x, M.trunc(b, {self = x})) end)
function M.round(b, a)
   local x, decimals = a.self or a.input, a.decimals or 0
   if not b:is_float(x) then return x end
   if decimals == 0 then return op(b, "Round", x) end
   local dtype = b:dtype(x)
   -- The product is computed in float32, because it could overflow in 16 bits.
   local wide = dtype == "float64" and dtype or "float32"
   local scale = b:number(10.0 ^ math.abs(decimals), wide)
   local first, last = "Mul", "Div"
   if decimals < 0 then first, last = last, first end
   local y = op(b, "Round", op(b, first, b:cast(x, wide), scale))
   return b:cast(op(b, last, y, scale), dtype)
end
M.erfc = of_one(function(b, x, n) return op(b, "Sub", n(1), op(b, "Erf", x)) end)

-- Returns both operands as values of the graph with the result's dtype. A Lua number gets the dtype
-- of the tensor, unless it is a fraction and the tensor has integers.
local function operands(b, x, y)
   local function is_value(v) return type(v) == "table" and v.examples ~= nil end
   if not is_value(x) and not is_value(y) then
      local whole = math.type(x) == "integer" and math.type(y) == "integer"
      local dtype = whole and "int64" or type(x) == "boolean" and "bool" or "float32"
      return b:number(x, dtype), b:number(y, dtype), dtype
   end
   local function kind(v)
      return is_value(v) and v.examples[1] or v
   end
   local function rank_of(dtype)
      return dtype == "bool" and 0 or dtype:find "int" and 1 or 2
   end
   local dtype
   if is_value(x) and is_value(y) then
      dtype = torch.result_type(kind(x), kind(y))
   else
      local tensor, number = is_value(x) and x or y, is_value(x) and y or x
      dtype = b:dtype(tensor)
      local category = type(number) == "boolean" and 0
         or (math.type(number) == "float" and 2 or 1)
      if type(number) == "table" then category = 1 end
      if category > rank_of(dtype) then dtype = category == 2 and "float32" or "int64" end
   end
   local function value(v)
      if is_value(v) then return b:cast(v, dtype) end
      if type(v) == "table" then return b:cast(b:squeeze(b:integer(v), {0}), dtype) end
      return b:number(v, dtype)
   end
   return value(x), value(y), dtype
end

local function binary(name, cast)
   return function(b, a)
      local x, y, dtype = operands(b, a.self, a.other)
      if cast and not dtype:find "float" then x, y = b:cast(x, cast), b:cast(y, cast) end
      return b:node(name, {x, y})
   end
end

local function scaled(b, y, alpha)
   if alpha == nil or alpha == 1 then return y end
   return b:node("Mul", {y, b:number(alpha, b:dtype(y))})
end

function M.add(b, a)
   local x, y = operands(b, a.self, a.other)
   return op(b, "Add", x, scaled(b, y, a.alpha))
end
function M.sub(b, a)
   local x, y = operands(b, a.self, a.other)
   return op(b, "Sub", x, scaled(b, y, a.alpha))
end
function M.rsub(b, a)
   local x, y = operands(b, a.self, a.other)
   return op(b, "Sub", y, scaled(b, x, a.alpha))
end
M.mul = function(b, a)
   local x, y, dtype = operands(b, a.self, a.other)
   return op(b, dtype == "bool" and "And" or "Mul", x, y)
end
M.true_divide = binary("Div", "float32")
M.div = function(b, a)
   if a.rounding_mode == "floor" then return M.floor_divide(b, a) end
   if a.rounding_mode == "trunc" then
      local x, y, dtype = operands(b, a.self, a.other)
      local q = op(b, "Div", x, y)
      return dtype:find "float" and M.trunc(b, {self = q}) or q
   end
   return M.true_divide(b, a)
end
M.floor_divide = function(b, a)
   local x, y, dtype = operands(b, a.self, a.other)
   if dtype:find "float" then return op(b, "Floor", op(b, "Div", x, y)) end
   return op(b, "Div", op(b, "Sub", x, op(b, "Mod", x, y)), y)
end
M.remainder = function(b, a)
   local x, y, dtype = operands(b, a.self, a.other)
   if not dtype:find "float" then return op(b, "Mod", x, y) end
   return op(b, "Sub", x, op(b, "Mul", op(b, "Floor", op(b, "Div", x, y)), y))
end
M.fmod = function(b, a)
   local x, y = operands(b, a.self, a.other)
   return b:node("Mod", {x, y}, {fmod = 1})
end
M.maximum, M.minimum = binary "Max", binary "Min"
M.max_other, M.min_other = M.maximum, M.minimum
M.eq, M.lt, M.le = binary "Equal", binary "Less", binary "LessOrEqual"
M.gt, M.ge = binary "Greater", binary "GreaterOrEqual"
M.ne = function(b, a) return op(b, "Not", M.eq(b, a)) end

local function logical(name)
   return function(b, a)
      return op(b, name, b:cast(a.self, "bool"), b:cast(a.other, "bool"))
   end
end
M.logical_and, M.logical_or, M.logical_xor = logical "And", logical "Or", logical "Xor"

local function bitwise(on_bool, on_ints)
   return function(b, a)
      local x, y, dtype = operands(b, a.self, a.other)
      return op(b, dtype == "bool" and on_bool or on_ints, x, y)
   end
end
M.bitwise_and = bitwise("And", "BitwiseAnd")
M.bitwise_or = bitwise("Or", "BitwiseOr")
M.bitwise_xor = bitwise("Xor", "BitwiseXor")

function M.pow(b, a)
   local x, y = operands(b, a.self, a.exponent)
   if a.exponent == 2 then return op(b, "Mul", x, x) end
   return op(b, "Pow", x, y)
end

function M.clamp(b, a)
   local x = a.self
   for _, pair in ipairs {{a.min, "Max"}, {a.max, "Min"}} do
      local limit = pair[1]
      if limit ~= nil then
         local left, right = operands(b, x, limit)
         x = op(b, pair[2], left, right)
      end
   end
   return x
end
M.clamp_min = function(b, a) return M.clamp(b, {self = a.self, min = a.min}) end
M.clamp_max = function(b, a) return M.clamp(b, {self = a.self, max = a.max}) end

function M.where_self(b, a)
   local x, y = operands(b, a.self, a.other)
   return op(b, "Where", b:cast(a.condition, "bool"), x, y)
end
function M.where(b, a)
   local x, y = operands(b, a.self or a.input, a.other)
   return op(b, "Where", b:cast(a.condition, "bool"), x, y)
end
function M.masked_fill(b, a)
   local dtype = b:dtype(a.self)
   local value = a.value
   value = type(value) == "table" and value.examples and b:cast(value, dtype)
      or b:number(value, dtype)
   return op(b, "Where", b:cast(a.mask, "bool"), value, a.self)
end
function M.lerp(b, a)
   local difference = op(b, "Sub", a["end"] or a["end_"], a.self)
   return op(b, "Add", a.self, M.mul(b, {self = difference, other = a.weight}))
end

-- Casts.
function M.to(b, a) return b:cast(a.self, a.dtype or b:dtype(a.self)) end
M.to_dtype = M.to
function M.to_like(b, a) return b:cast(a.self, b:dtype(a.other)) end
M.type_as = M.to_like
for name, dtype in pairs {float = "float32", double = "float64", half = "float16", long = "int64",
   int = "int32", short = "int16", char = "int8", byte = "uint8", bool = "bool",
   bfloat16 = "bfloat16"} do
   M[name] = function(b, a) return b:cast(a.self, dtype) end
end

for _, name in ipairs {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
   "feature_alpha_dropout"} do
   M[name] = function(_, a)
      if a.training then wire.fail("%s in training mode cannot be exported", name) end
      return a.self
   end
end

-- Reductions --------------------------------------------------------------------------------------

local function axes_of(b, x, dims)
   if dims == nil then return nil end
   if type(dims) == "number" then dims = {dims} end
   local axes = {}
   for i, dim in ipairs(dims) do axes[i] = b:axis(x, dim) end
   return #axes > 0 and axes or nil
end

local function reduction(name, cast)
   return function(b, a)
      local x = a.self
      if a.dtype then x = b:cast(x, a.dtype) end
      if cast and not b:is_float(x) then x = b:cast(x, cast) end
      return b:reduce(name, x, axes_of(b, x, a.dim), a.keepdim)
   end
end

M.sum, M.mean = reduction("ReduceSum", "int64"), reduction("ReduceMean", "float32")
M.amax, M.amin = reduction "ReduceMax", reduction "ReduceMin"
M.prod = reduction("ReduceProd", "int64")
M.max, M.min = M.amax, M.amin
M.logsumexp = reduction("ReduceLogSumExp", "float32")
M.any = function(b, a)
   local x = b:cast(b:cast(a.self, "bool"), "int32")
   return b:cast(b:reduce("ReduceMax", x, axes_of(b, x, a.dim), a.keepdim), "bool")
end
M.all = function(b, a)
   local x = b:cast(b:cast(a.self, "bool"), "int32")
   return b:cast(b:reduce("ReduceMin", x, axes_of(b, x, a.dim), a.keepdim), "bool")
end

local function one(b, dtype) return b:number(1, dtype or "int64") end

local function search(name)
   return function(b, a)
      local x, dim = a.self, a.dim
      if dim == nil then
         if a.keepdim then wire.fail("%s of all elements with keepdim", name) end
         x, dim = b:reshape(x, {-1}), 1
      end
      local y = b:node(name, {x}, {axis = b:axis(x, dim), keepdims = a.keepdim and 1 or 0})
      return op(b, "Add", y, one(b))
   end
end
M.argmax, M.argmin = search "ArgMax", search "ArgMin"

local function extreme(reduce, arg)
   return function(b, a)
      return b:reduce(reduce, a.self, {b:axis(a.self, a.dim)}, a.keepdim), search(arg)(b, a)
   end
end
M.max_dim, M.min_dim = extreme("ReduceMax", "ArgMax"), extreme("ReduceMin", "ArgMin")

-- Returns the number of elements that a reduction combines, as a value of the given dtype.
local function count(b, x, axes, dtype)
   local list = axes
   if not list then
      list = {}
      for i = 1, b:rank(x) do list[i] = i - 1 end
   end
   local n
   for _, axis in ipairs(list) do
      local size = b:size(x, axis + 1)
      n = n and op(b, "Mul", n, size) or size
   end
   return b:cast(b:squeeze(n, {0}), dtype)
end

function M.var(b, a)
   local x = f32(b, a.self)
   local axes = axes_of(b, x, a.dim)
   local centred = op(b, "Sub", x, b:reduce("ReduceMean", x, axes, true))
   local squares = op(b, "Mul", centred, centred)
   local correction = a.unbiased == false and 0 or a.correction or 1
   if correction == 0 then return b:reduce("ReduceMean", squares, axes, a.keepdim) end
   local dtype = b:dtype(x)
   local n = op(b, "Sub", count(b, x, axes, dtype), b:number(correction, dtype))
   return op(b, "Div", b:reduce("ReduceSum", squares, axes, a.keepdim), n)
end
M.std = function(b, a) return op(b, "Sqrt", M.var(b, a)) end
M.var_mean = function(b, a) return M.var(b, a), M.mean(b, a) end
M.std_mean = function(b, a) return M.std(b, a), M.mean(b, a) end

function M.norm(b, a)
   local p, x = a.p or a.ord or 2, a.self or a.x
   local axes = axes_of(b, x, a.dim)
   if p == 2 then return b:reduce("ReduceL2", x, axes, a.keepdim) end
   if p == 1 then return b:reduce("ReduceL1", x, axes, a.keepdim) end
   local size = op(b, "Abs", x)
   if p == math.huge then return b:reduce("ReduceMax", size, axes, a.keepdim) end
   if p == -math.huge then return b:reduce("ReduceMin", size, axes, a.keepdim) end
   local dtype = b:dtype(x)
   local sum = b:reduce("ReduceSum", op(b, "Pow", size, b:number(p, dtype)), axes, a.keepdim)
   return op(b, "Pow", sum, b:number(1 / p, dtype))
end
M.linalg_vector_norm, M.vector_norm = M.norm, M.norm

function M.softmax(b, a)
   local x = a.dtype and b:cast(a.self, a.dtype) or f32(b, a.self)
   return b:node("Softmax", {x}, {axis = b:axis(x, a.dim)})
end
function M.log_softmax(b, a)
   local x = a.dtype and b:cast(a.self, a.dtype) or f32(b, a.self)
   return b:node("LogSoftmax", {x}, {axis = b:axis(x, a.dim)})
end
function M.softmin(b, a) return M.softmax(b, {self = op(b, "Neg", a.self), dim = a.dim}) end

function M.cumsum(b, a)
   local x = a.dtype and b:cast(a.self, a.dtype) or b:is_float(a.self) and a.self
      or b:cast(a.self, "int64")
   return b:node("CumSum", {x, b:const(b:axis(x, a.dim), "int64")})
end

local function ordered(b, x, k, dim, largest)
   local attributes = {axis = b:axis(x, dim), largest = largest and 1 or 0}
   local values, places = b:node("TopK", {x, k}, attributes, 2)
   return values, op(b, "Add", places, one(b))
end
function M.topk(b, a)
   return ordered(b, a.self, b:ints {a.k}, a.dim or -1, a.largest)
end
function M.sort(b, a)
   local dim = a.dim or -1
   local axis = b:axis(a.self, dim)
   return ordered(b, a.self, b:size(a.self, axis + 1), dim, a.descending)
end
M.argsort = function(b, a) return (select(2, M.sort(b, a))) end

-- Products ----------------------------------------------------------------------------------------

function M.matmul(b, a) return op(b, "MatMul", a.self, a.other or a.mat2 or a.vec or a.batch2) end
M.mm, M.bmm, M.mv, M.dot = M.matmul, M.matmul, M.matmul, M.matmul
M.dot = function(b, a) return op(b, "MatMul", a.self, a.other or a.tensor) end
function M.outer(b, a)
   return op(b, "Mul", b:unsqueeze(a.self, {1}), b:unsqueeze(a.vec2, {0}))
end
M.ger = M.outer
local function add_product(first, second)
   return function(b, a)
      local y = scaled(b, op(b, "MatMul", a[first], a[second]), a.alpha)
      return op(b, "Add", scaled(b, a.self, a.beta), y)
   end
end
M.addmm, M.baddbmm, M.addmv = add_product("mat1", "mat2"), add_product("batch1", "batch2"),
   add_product("mat", "vec")
function M.einsum(b, a)
   return b:node("Einsum", a.operands or a.tensors, {equation = a.equation})
end

M._operands, M._axes_of, M._op, M._one = operands, axes_of, op, one

return M
