-- Elementwise operators for arithmetic, rounding and bounds. Inputs are broadcast and promoted as
-- in PyTorch. Each operator computes the scalar function of the same name in kernels/math.h.
--
-- In examples, T(sizes) is a random tensor, P has positive numbers (0.5 to 2), U has numbers within
-- (-0.9, 0.9), I(n, sizes) has positions from 1 to n, and M(sizes) is a mask.

local function unary(name, entry)
   entry[1] = name .. "(Tensor self) -> Tensor"
   entry.pointwise = entry.pointwise or {types = "floating"}
   if entry.inplace == nil then entry.inplace = true end
   entry.examples = entry.examples or {"T(3, 4)", "T()", "T(0, 2)", "T(4, 3):t()"}
   op(entry)
end

-- Arithmetic --------------------------------------------------------------------------------------

op {"add(Tensor self, Operand other, *, Number alpha=1) -> Tensor",
    metamethod = "add",
    doc = "Computes self + alpha * other, elementwise.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", other = "scaled(grad, conj(alpha))"},
    examples = {"T(3, 4), T(3, 4)", "T(3, 4), T(4)", "T(4), T(3, 1), {alpha = 2.5}", "T(2, 3), 1.5",
                "T(), T(2)"}}
example("add", [=[
   local x = torch.tensor {1.0, 2.0}
   print(x + 10)
   --> tensor([11., 12.])
   print(x + torch.tensor {{1.0}, {2.0}}) -- the operands broadcast to (2, 2)
   --> tensor([[2., 3.],
   -->         [3., 4.]])
   print(x:add(torch.ones(2), {alpha = 0.5})) -- x + 0.5 * other
   --> tensor([1.5000, 2.5000])]=])

op {"sub(Tensor self, Operand other, *, Number alpha=1) -> Tensor",
    metamethod = "sub", reversed = "Rsub",
    doc = "Computes self - alpha * other, elementwise. Bool tensors are refused.",
    pointwise = {types = "number", bool = false}, inplace = true, alias = {"subtract"},
    grad = {self = "grad", other = "neg(scaled(grad, conj(alpha)))"},
    examples = {"T(3, 4), T(3, 4)", "T(4), T(3, 1), {alpha = 2.5}", "T(2, 3), 1.5"}}
example("sub", [[
   print(torch.tensor({5, 7}) - torch.tensor {1, 2}, 1 - torch.tensor {5, 7})
   --> tensor([4, 5])	tensor([-4, -6])]])

op {"rsub(Tensor self, Operand other, *, Number alpha=1) -> Tensor",
    node = "Rsub", doc = "Computes other - alpha * self, elementwise.",
    expr = "sub(other, self, alpha)", examples = {"T(3, 4), T(4)", "T(3), 2, {alpha = 3}"}}

op {"mul(Tensor self, Operand other) -> Tensor",
    metamethod = "mul",
    doc = "Computes self * other, elementwise.",
    pointwise = {types = "number"}, inplace = true, alias = {"multiply"},
    grad = {self = "grad * conj(other)", other = "grad * conj(self)"},
    examples = {"T(3, 4), T(3, 4)", "T(3, 4), T(4)", "T(2, 3), 1.5", "T(), T(2)"}}
example("mul", [=[
   local x = torch.tensor {{1, 2}, {3, 4}}
   print(x * x) -- elementwise; x:matmul(x) multiplies matrices
   --> tensor([[ 1,  4],
   -->         [ 9, 16]])]=])

op {"div(Tensor self, Operand other, *, string rounding_mode=nil) -> Tensor", node = "Div",
    doc = [[Computes self / other, elementwise. Without rounding_mode integers give float32.
    rounding_mode "trunc" rounds the quotient towards zero, "floor" down; both keep the inputs'
    dtype. Integer division by zero is an error.]],
    composite = true, inplace = "own", alias = {"divide"},
    examples = {"T(3, 4), P(3, 4)", "T(3, 4), P(4)", "T(2, 3), 1.5",
                "T(3), P(3), {rounding_mode = 'floor'}"}}
example("div", [[
   local x = torch.tensor {7, -7}
   print(x / 2, x:div(2, {rounding_mode = "floor"}))
   --> tensor([ 3.5000, -3.5000])	tensor([ 3, -4])
   print(x:div(2, {rounding_mode = "trunc"}))
   --> tensor([ 3, -3])]])

op {"true_divide(Tensor self, Operand other) -> Tensor", node = "Div",
    metamethod = "div", reversed = "Mul",
    doc = "Computes self / other, elementwise; integers give float32.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad / conj(other)",
            other = "neg(grad * conj(self) / conj(other * other))"},
    examples = {"T(3, 4), P(3, 4)", "T(3, 4), P(4)", "T(2, 3), 1.5"}}

op {"div_trunc(Tensor self, Operand other) -> Tensor", name = "div", internal = true,
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "zeros_like(grad)", other = "zeros_like(grad)"}}

op {"floor_divide(Tensor self, Operand other) -> Tensor",
    metamethod = "idiv",
    doc = [[Computes the quotient self / other rounded down, elementwise, in the inputs' dtype.
    Lua's operator `//` calls it.]],
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "zeros_like(grad)", other = "zeros_like(grad)"},
    examples = {"T(3, 4), P(4)", "T(3), 0.7"}}
example("floor_divide", [[
   print(torch.tensor({7, -7}) // 2)
   --> tensor([ 3, -4])]])

op {"remainder(Tensor self, Operand other) -> Tensor",
    metamethod = "mod",
    doc = [[Computes self - other * floor(self / other), which has other's sign. Lua's operator `%`
    calls it.]],
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", other = "neg(grad * floor_divide(self, other))"},
    examples = {"T(3, 4), P(4)", "T(3), 0.7"}}
example("remainder", [[
   print(torch.tensor({7, -7}) % 3) -- has the divisor's sign, as in Lua
   --> tensor([1, 2])]])

op {"fmod(Tensor self, Operand other) -> Tensor",
    doc = "Computes self - other * trunc(self / other), which has self's sign, as C's fmod does.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", other = "neg(grad * div_trunc(self, other))"},
    examples = {"T(3, 4), P(4)", "T(3), 0.7"}}
example("fmod", [[
   print(torch.tensor({7, -7}):fmod(3)) -- has the dividend's sign, as in C
   --> tensor([ 1, -1])]])

op {"pow(Operand self, Operand exponent) -> Tensor",
    metamethod = "pow",
    doc = [[Raises self to the power exponent, elementwise; either may be a number. Anything to the
    power 0, even NaN, is 1. Integers to a negative integer power are an error.]],
    pointwise = {types = "number"}, inplace = true, method = true,
    grad = {self = "pow_backward_self(grad, self, exponent)",
            exponent = "pow_backward_exponent(grad, self, exponent, result)"},
    autocast = {gpu = "float32"},
    examples = {"P(3, 4), T(3, 4)", "T(3, 4), 2", "P(3), 0.5", "2.5, T(3)", "T(2, 3), 0",
                "P(3, 1), T(4)"}}
example("pow", [[
   local x = torch.tensor {1.0, 2.0, 3.0}
   print(x ^ 2, 2 ^ x)
   --> tensor([1., 4., 9.])	tensor([2., 4., 8.])]])

op {"cube(Tensor self) -> Tensor", name = "pow", internal = true, pointwise = {types = "number"}}
op {"pow_backward_self(Tensor grad, Tensor self, Tensor exponent) -> Tensor", internal = true,
    composite = true}
op {"pow_backward_exponent(Tensor grad, Tensor self, Tensor exponent, Tensor result) -> Tensor",
    internal = true, composite = true}

op {"float_power(Tensor self, Operand exponent) -> Tensor",
    doc = "Raises self to the power exponent in float64, or in complex128.",
    composite = true, examples = {"P(3, 4), T(3, 4)", "P(3), 2"}}
example("float_power", [[
   print(torch.tensor({1, 2, 3}):float_power(0.5))
   --> tensor([1.0000, 1.4142, 1.7321], dtype=torch.float64)]])
op {"float_power_(Tensor self, Operand exponent) -> self",
    doc = "The same in place; self must be float64 or complex128.",
    composite = true, func = false, nondiff = "see pow_", examples = {"P(3, 4), T(3, 4)"}}

op {"scaled(Tensor self, Number factor) -> Tensor", internal = true, composite = true}

op {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
    doc = "Computes self + value * tensor1 * tensor2, elementwise.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", tensor1 = "scaled(grad * conj(tensor2), conj(value))",
            tensor2 = "scaled(grad * conj(tensor1), conj(value))"},
    autocast = {gpu = "widest"},
    examples = {"T(3, 4), T(3, 1), T(4), {value = 0.7}", "T(2), T(2), T(2)"}}
example("addcmul", [[
   local a, b = torch.tensor {1.0, 1.0}, torch.tensor {2.0, 3.0}
   print(a:addcmul(b, b, {value = 0.5})) -- a + 0.5 * b * b
   --> tensor([3.0000, 5.5000])]])

op {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
    doc = "Computes self + value * tensor1 / tensor2, elementwise, for floating dtypes.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad", tensor1 = "scaled(grad / conj(tensor2), conj(value))",
            tensor2 = [[neg(scaled(grad * conj(tensor1) / conj(tensor2 * tensor2),
                               conj(value)))]]},
    autocast = {gpu = "widest"},
    examples = {"T(3, 4), T(3, 1), P(4), {value = 0.7}", "T(2), T(2), P(2)"}}
example("addcdiv", [[
   local a, b = torch.tensor {1.0, 1.0}, torch.tensor {2.0, 4.0}
   print(a:addcdiv(b + 4, b, {value = 0.5})) -- a + 0.5 * (b + 4) / b
   --> tensor([2.5000, 2.0000])]])

op {"lerp(Tensor self, Tensor end_, Operand weight) -> Tensor",
    doc = "Computes self + weight * (end - self), elementwise, for floating dtypes.",
    pointwise = {types = "floating"}, inplace = true,
    -- lerp(grad, 0, w) is grad * (1 - w), but 1 - w of a number w alone would be a float32
    grad = {self = "lerp(grad, 0, conj(weight))", end_ = "grad * conj(weight)",
            weight = "grad * conj(end_ - self)"},
    examples = {"T(3, 4), T(3, 4), 0.3", "T(3, 4), T(4), U(3, 1)"}}
example("lerp", [[
   local from, to = torch.tensor {0.0, 10.0}, torch.tensor {10.0, 20.0}
   print(from:lerp(to, 0.25))
   --> tensor([ 2.5000, 12.5000])]])

unary("neg", {doc = "Computes -self, elementwise. Bool tensors are refused.", alias = {"negative"},
   pointwise = {types = "number", bool = false}, grad = {self = "neg(grad)"}})
example("neg", [[
   print(-torch.tensor {-2, 3})
   --> tensor([ 2, -3])]])
op {"positive(Tensor self) -> Tensor", doc = "Returns self itself. Bool tensors are refused.",
    composite = true,
    examples = {"T(3)"}, out = false}
unary("abs", {doc = "Computes the absolute value, elementwise; that of complex numbers is real.",
   pointwise = {types = "number", real = true},
   alias = {"absolute"},
   grad = {self = "grad * sgn(self)"}})
example("abs", [[
   print(torch.tensor({-2, 3}):abs())
   --> tensor([2, 3])]])
unary("sign", {doc = "Returns -1, 0 or 1 by sign, elementwise; NaN gives 0 as in PyTorch.",
   pointwise = {types = "number"},
   grad = {self = "zeros_like(grad)"}})
example("sign", [[
   print(torch.tensor({-3.0, 0.0, 2.0}):sign())
   --> tensor([-1.,  0.,  1.])]])
unary("sgn", {doc = [[Computes self / |self| for complex numbers, 0 for 0, and sign for real ones.
   NaN gives 0.]],
   pointwise = {types = "number", kernel = "sign"},
   grad = {self = "sgn_backward(grad, self, result)"}})
unary("square", {node = "Pow",
doc = "Computes self * self, elementwise.", pointwise = {types = "number"},
   grad = {self = "grad * 2 * conj(self)"},
   autocast = {gpu = "float32"}})
example("square", [[
   print(torch.tensor({-2, 3}):square())
   --> tensor([4, 9])]])
unary("reciprocal", {doc = "Computes 1 / self, elementwise; integers give float32.",
   grad = {self = "neg(grad * conj(result) * conj(result))"},
   autocast = {gpu = "float32"}, examples = {"P(3, 4)"}})
example("reciprocal", [[
   print(torch.tensor({2.0, 4.0}):reciprocal())
   --> tensor([0.5000, 0.2500])]])
unary("sqrt", {doc = "Computes the square root, elementwise; NaN for negative numbers.",
   grad = {self = "grad / (2 * conj(result))"}, examples = {"P(3, 4)", "P()"}})
example("sqrt", [[
   print(torch.tensor({4.0, 9.0, -1.0}):sqrt())
   --> tensor([2., 3., nan])]])
unary("rsqrt", {doc = "Computes 1 / sqrt(self), elementwise.",
   grad = {self = "grad * -0.5 * conj(result:pow(3))"},
   autocast = {gpu = "float32"}, examples = {"P(3, 4)"}})
example("rsqrt", [[
   print(torch.tensor({4.0, 16.0}):rsqrt())
   --> tensor([0.5000, 0.2500])]])

-- Rounding ----------------------------------------------------------------------------------------

for _, row in ipairs {{"ceil", "Rounds up to an integer, elementwise."},
                      {"floor", "Rounds down to an integer, elementwise."},
                      {"trunc", "Rounds towards zero, elementwise."}} do
   unary(row[1], {doc = row[2], pointwise = {types = "number"}, grad = {self = "zeros_like(grad)"},
      alias = row[1] == "trunc" and {"fix"} or nil})
end
example("floor", [[
   print(torch.tensor({1.5, -1.5}):floor())
   --> tensor([ 1., -2.])]])
example("ceil", [[
   print(torch.tensor({1.5, -1.5}):ceil())
   --> tensor([ 2., -1.])]])
example("trunc", [[
   print(torch.tensor({1.5, -1.5}):trunc())
   --> tensor([ 1., -1.])]])
op {"round(Tensor self, *, int decimals=0) -> Tensor",
    doc = "Rounds to `decimals` decimals, halves to even, elementwise.",
    pointwise = {types = "number"}, inplace = true, grad = {self = "zeros_like(grad)"},
    examples = {"T(3, 4)", "T(3), {decimals = 2}"}}
example("round", [[
   local x = torch.tensor {0.5, 1.5, 2.567}
   print(x:round(), x:round {decimals = 1}) -- halves go to even
   --> tensor([0., 2., 3.])	tensor([0.5000, 1.5000, 2.6000])]])
unary("frac", {doc = "Computes self - trunc(self), elementwise, for floating dtypes.",
grad = {self = "grad"}})
example("frac", [[
   print(torch.tensor({1.5, -1.25}):frac())
   --> tensor([ 0.5000, -0.2500])]])

unary("cos", {doc = "Computes the cosine of angles in radians.",
grad = {self = "neg(grad * conj(sin(self)))"}})
example("cos", [[
   print(torch.tensor({0.0, math.pi}):cos())
   --> tensor([ 1., -1.])]])
unary("acos", {doc = "Computes the arc cosine, in radians.", alias = {"arccos"},
   grad = {self = "neg(grad * conj(rsqrt(1 - self * self)))"},
   autocast = {gpu = "float32"}, examples = {"U(3, 4)"}})
op {"hypot(Tensor self, Operand other) -> Tensor",
    doc = "Computes sqrt(self^2 + other^2) without overflow.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad * self / result", other = "grad * other / result"},
    examples = {"P(3, 4), P(4)"}}
example("hypot", [[
   print(torch.tensor({3.0}):hypot(torch.tensor {4.0}))
   --> tensor([5.])]])
op {"copysign(Tensor self, Operand other) -> Tensor",
    doc = "Returns the magnitude of self with the sign of other.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad * (sgn(self) * sgn(result))", other = "zeros_like(grad)"},
    examples = {"T(3, 4), T(4)"}}
example("copysign", [[
   print(torch.tensor({1.0, -2.0}):copysign(-1))
   --> tensor([-1., -2.])]])
op {"nextafter(Tensor self, Operand other) -> Tensor",
    doc = "Returns the next representable number after self towards other.", method = true,
    pointwise = {types = "floating", rare = true}, inplace = true,
    grad = {self = "keep_where(grad, ne(self, other))", other = "zeros_like(grad)"},
    gradcheck = false, examples = {"T(3), T(3)"}}
-- Kernels for torch.nextafter with 16-bit dtypes.
op {"nextafter_f16(Tensor self, Operand other) -> Tensor", name = "nextafter", internal = true,
    pointwise = {types = "floating", rare = true}}
op {"nextafter_bf16(Tensor self, Operand other) -> Tensor", name = "nextafter", internal = true,
    pointwise = {types = "floating", rare = true}}
op {"ldexp(Tensor self, Operand other) -> Tensor",
    doc = [[Computes self * 2^other, elementwise. If other holds integers, the result keeps self's
    floating dtype.]],
    node = "Ldexp", composite = true, inplace = true, examples = {"T(3, 4), T(4)"}}
op {"heaviside(Tensor self, Operand values) -> Tensor",
    doc = [[Returns 0 where self is negative or NaN, 1 where it is positive, and values where it is
    0.]],
    pointwise = {types = "number"}, inplace = true, nondiff = "a step function",
    examples = {"T(3, 4), T(4)"}}
example("heaviside", [[
   print(torch.tensor({-1.0, 0.0, 2.0}):heaviside(torch.tensor(0.5)))
   --> tensor([0.0000, 0.5000, 1.0000])]])
op {"gcd(Tensor self, Operand other) -> Tensor",
    doc = "Computes the greatest common divisor of integers.",
    pointwise = {types = "integer", bool = false}, inplace = true,
    examples = {"I(30, 4), I(30, 3, 4)", "I(30, 4), 12"}}
example("gcd", [[
   print(torch.tensor({12, 18}):gcd(torch.tensor {8, 27}))
   --> tensor([4, 9])]])
op {"lcm(Tensor self, Operand other) -> Tensor",
    doc = "Computes the least common multiple of integers.",
    pointwise = {types = "integer", bool = false}, inplace = true,
    examples = {"I(30, 4), I(30, 3, 4)", "I(30, 4), 12"}}
example("lcm", [[
   print(torch.tensor({4, 6}):lcm(torch.tensor {6, 9}))
   --> tensor([12, 18])]])

-- Bounds ------------------------------------------------------------------------------------------

op {"maximum(Tensor self, Operand other) -> Tensor",
    doc = [[Returns the larger of both, elementwise; NaN if either is NaN. Equal elements share the
    gradient.]],
    pointwise = {types = "number"},
    grad = {self = "share_where(grad, gt(self, other), eq(self, other))",
            other = "share_where(grad, gt(other, self), eq(self, other))"},
    examples = {"T(3, 4), T(4)"}}
example("maximum", [[
   print(torch.tensor({1, 5}):maximum(torch.tensor {3, 4}))
   --> tensor([3, 5])]])
op {"minimum(Tensor self, Operand other) -> Tensor",
    doc = [[Returns the smaller of both, elementwise; NaN if either is NaN. Equal elements share the
    gradient.]],
    pointwise = {types = "number"},
    grad = {self = "share_where(grad, lt(self, other), eq(self, other))",
            other = "share_where(grad, lt(other, self), eq(self, other))"},
    examples = {"T(3, 4), T(4)"}}
example("minimum", [[
   print(torch.tensor({1, 5}):minimum(torch.tensor {3, 4}))
   --> tensor([1, 4])]])
op {"share_where(Tensor grad, Tensor whole, Tensor half) -> Tensor", internal = true,
    composite = true}
op {"fmax(Tensor self, Operand other) -> Tensor",
    doc = "Returns the larger of both, elementwise; a number wins over NaN.",
    pointwise = {types = "number"},
    grad = {self = "keep_where(grad, ge(self, other):logical_or(isnan(other)))",
            other = "keep_where(grad, logical_not(ge(self, other):logical_or(isnan(other))))"},
    examples = {"T(3, 4), T(4)"}}
op {"fmin(Tensor self, Operand other) -> Tensor",
    doc = "Returns the smaller of both, elementwise; a number wins over NaN.",
    pointwise = {types = "number"},
    grad = {self = "keep_where(grad, le(self, other):logical_or(isnan(other)))",
            other = "keep_where(grad, logical_not(le(self, other):logical_or(isnan(other))))"},
    examples = {"T(3, 4), T(4)"}}
op {"keep_where(Tensor grad, Tensor mask) -> Tensor", internal = true,
    expr = "where(mask, grad, 0)"}

op {"clamp(Tensor self, Operand min=nil, Operand max=nil) -> Tensor",
    node = "Clamp",
    doc = [[Clamps self to [min, max]; each bound is a number or a tensor, and one may be missing.
    NaN stays NaN.]],
    composite = true, inplace = "own", alias = {"clip"},
    examples = {"T(3, 4), -0.5, 0.5", "T(3, 4), T(4) - 1, T(4) + 1", "T(3), nil, 0.2",
                "T(3), {min = 0}"}}
example("clamp", [[
   local x = torch.tensor {-2.0, 0.5, 3.0}
   print(x:clamp(-1, 1), x:clamp {min = 0})
   --> tensor([-1.0000,  0.5000,  1.0000])	tensor([0.0000, 0.5000, 3.0000])]])
op {"clamp_min(Tensor self, Operand min) -> Tensor", doc = "Raises elements below min to min.",
    pointwise = {types = "number", kernel = "maximum"}, inplace = true,
    grad = {self = "keep_where(grad, ge(self, min))", min = "keep_where(grad, lt(self, min))"},
    examples = {"T(3, 4), 0.1", "T(3, 4), T(4)"}}
op {"clamp_max(Tensor self, Operand max) -> Tensor", doc = "Lowers elements above max to max.",
    pointwise = {types = "number", kernel = "minimum"}, inplace = true,
    grad = {self = "keep_where(grad, le(self, max))", max = "keep_where(grad, gt(self, max))"},
    examples = {"T(3, 4), 0.1", "T(3, 4), T(4)"}}
op {"clamp_both(Tensor self, Tensor min, Tensor max) -> Tensor", name = "clamp", internal = true,
    pointwise = {types = "number", kernel = "clamp"}, inplace = true,
    grad = {self = "keep_where(grad, logical_and(ge(self, min), le(self, max)))",
            min = "keep_where(grad, logical_and(lt(self, min), lt(min, max)))",
            max = "keep_where(grad, logical_or(gt(self, max), gt(min, max)))"}}
op {"nan_to_num(Tensor self, Number nan=0.0, Number posinf=nil, Number neginf=nil) -> Tensor",
    doc = [[Replaces NaN by nan, and infinities by posinf and neginf, which are the dtype's extremes
    unless given.]],
    node = "NanToNum", composite = true, inplace = true, examples = {"T(3, 4)"}}
example("nan_to_num", [[
   local x = torch.tensor {torch.nan, torch.inf, 1.0}
   print(x:nan_to_num {nan = 0, posinf = 100})
   --> tensor([  0., 100.,   1.])]])

takes_complex [[nan_to_num ldexp add sub rsub mul div true_divide float_power float_power_ pow cube
   pow_backward_self pow_backward_exponent scaled addcmul addcdiv lerp neg positive abs sgn square
   reciprocal sqrt rsqrt cos acos]]
