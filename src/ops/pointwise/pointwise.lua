-- Elementwise operators. Inputs are broadcast and promoted as PyTorch does; the arithmetic of each is
-- the scalar function of its name in kernels/math.h.
--
-- In examples: T(sizes) is a random tensor, P one of positive numbers (0.5 to 2), U one within
-- (-0.9, 0.9), I(n, sizes) one of positions 1 to n, M(sizes) a mask.

local function unary(name, entry)
   entry[1] = name .. "(Tensor self) -> Tensor"
   entry.pointwise = entry.pointwise or {types = "floating"}
   if entry.inplace == nil then entry.inplace = true end
   entry.examples = entry.examples or {"T(3, 4)", "T()", "T(0, 2)", "T(4, 3):t()"}
   op(entry)
end

local function predicate(name, doc)
   op {name .. "(Tensor self) -> Tensor", doc = doc, pointwise = {types = "number", out = "bool"},
       examples = {"T(3, 4)"}}
end

local function comparison(name, sign, alias)
   op {name .. "(Tensor self, Operand other) -> Tensor",
       doc = "Elementwise self " .. sign .. " other, as a bool tensor. A comparison with NaN is false, but for ne.",
       pointwise = {types = "number", out = "bool"}, inplace = true, alias = alias,
       examples = {"T(3, 4), T(4)", "T(3), 0.5"}}
end

-- Arithmetic ---------------------------------------------------------------------------------------

op {"add(Tensor self, Operand other, *, Number alpha=1) -> Tensor",
    doc = "self + alpha * other, elementwise.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", other = "scaled(grad, alpha)"},
    examples = {"T(3, 4), T(3, 4)", "T(3, 4), T(4)", "T(4), T(3, 1), {alpha = 2.5}", "T(2, 3), 1.5", "T(), T(2)"}}

op {"sub(Tensor self, Operand other, *, Number alpha=1) -> Tensor",
    doc = "self - alpha * other, elementwise. Bool tensors are refused.",
    pointwise = {types = "number", bool = false}, inplace = true, alias = {"subtract"},
    grad = {self = "grad", other = "neg(scaled(grad, alpha))"},
    examples = {"T(3, 4), T(3, 4)", "T(4), T(3, 1), {alpha = 2.5}", "T(2, 3), 1.5"}}

op {"rsub(Tensor self, Operand other, *, Number alpha=1) -> Tensor",
    doc = "other - alpha * self, elementwise.",
    expr = "sub(other, self, alpha)", examples = {"T(3, 4), T(4)", "T(3), 2, {alpha = 3}"}}

op {"mul(Tensor self, Operand other) -> Tensor",
    doc = "self * other, elementwise.",
    pointwise = {types = "number"}, inplace = true, alias = {"multiply"},
    grad = {self = "grad * other", other = "grad * self"},
    examples = {"T(3, 4), T(3, 4)", "T(3, 4), T(4)", "T(2, 3), 1.5", "T(), T(2)"}}

op {"div(Tensor self, Operand other, *, string rounding_mode=nil) -> Tensor",
    doc = [[self / other, elementwise. Without rounding_mode integers give float32; rounding_mode "trunc"
    rounds the quotient towards zero, "floor" down, and keep the inputs' type. Integer division by zero
    is an error.]],
    composite = true, inplace = true, alias = {"divide"},
    examples = {"T(3, 4), P(3, 4)", "T(3, 4), P(4)", "T(2, 3), 1.5", "T(3), P(3), {rounding_mode = 'floor'}"}}

op {"true_divide(Tensor self, Operand other) -> Tensor", node = "Div",
    doc = "self / other, elementwise; integers give float32.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad / other", other = "neg(grad * self / (other * other))"},
    examples = {"T(3, 4), P(3, 4)", "T(3, 4), P(4)", "T(2, 3), 1.5"}}

op {"div_trunc(Tensor self, Operand other) -> Tensor", name = "div", internal = true,
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "zeros_like(grad)", other = "zeros_like(grad)"}}

op {"floor_divide(Tensor self, Operand other) -> Tensor",
    doc = "The quotient self / other rounded down, elementwise, in the inputs' type. Lua's `//`.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "zeros_like(grad)", other = "zeros_like(grad)"},
    examples = {"T(3, 4), P(4)", "T(3), 0.7"}}

op {"remainder(Tensor self, Operand other) -> Tensor",
    doc = "self - other * floor(self / other): the sign is other's. Lua's `%`.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", other = "neg(grad * floor_divide(self, other))"},
    examples = {"T(3, 4), P(4)", "T(3), 0.7"}}

op {"fmod(Tensor self, Operand other) -> Tensor",
    doc = "self - other * trunc(self / other): the sign is self's, as C's fmod.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", other = "neg(grad * div_trunc(self, other))"},
    examples = {"T(3, 4), P(4)", "T(3), 0.7"}}

op {"pow(Operand self, Operand exponent) -> Tensor",
    doc = [[self to the power exponent, elementwise; either may be a number. Anything, NaN too, to the power 0
    is 1. Integers to a negative integer number are an error.]],
    pointwise = {types = "number"}, inplace = true, method = true,
    grad = {self = "pow_backward_self(grad, self, exponent)",
            exponent = "pow_backward_exponent(grad, self, exponent, result)"},
    examples = {"P(3, 4), T(3, 4)", "T(3, 4), 2", "P(3), 0.5", "2.5, T(3)", "T(2, 3), 0", "P(3, 1), T(4)"}}

op {"cube(Tensor self) -> Tensor", name = "pow", internal = true, pointwise = {types = "number"}}
op {"pow_backward_self(Tensor grad, Tensor self, Tensor exponent) -> Tensor", internal = true, composite = true}
op {"pow_backward_exponent(Tensor grad, Tensor self, Tensor exponent, Tensor result) -> Tensor",
    internal = true, composite = true}

op {"float_power(Tensor self, Operand exponent) -> Tensor",
    doc = "self to the power exponent, computed in float64.",
    expr = "pow(to_dtype(self, 'float64'), exponent)", examples = {"P(3, 4), T(3, 4)", "P(3), 2"}}
op {"float_power_(Tensor self, Operand exponent) -> self", doc = "The same over self, which must be float64.",
    composite = true, func = false, nondiff = "see pow_", examples = {"P(3, 4), T(3, 4)"}}

op {"scaled(Tensor self, Number factor) -> Tensor", internal = true, composite = true}

op {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
    doc = "self + value * tensor1 * tensor2, elementwise.",
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "grad", tensor1 = "scaled(grad * tensor2, value)", tensor2 = "scaled(grad * tensor1, value)"},
    examples = {"T(3, 4), T(3, 1), T(4), {value = 0.7}", "T(2), T(2), T(2)"}}

op {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
    doc = "self + value * tensor1 / tensor2, elementwise; floating only.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad", tensor1 = "scaled(grad / tensor2, value)",
            tensor2 = "neg(scaled(grad * tensor1 / (tensor2 * tensor2), value))"},
    examples = {"T(3, 4), T(3, 1), P(4), {value = 0.7}", "T(2), T(2), P(2)"}}

op {"lerp(Tensor self, Tensor end_, Operand weight) -> Tensor",
    doc = "self + weight * (end - self), elementwise; floating only.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad * (1 - weight)", end_ = "grad * weight", weight = "grad * (end_ - self)"},
    examples = {"T(3, 4), T(3, 4), 0.3", "T(3, 4), T(4), U(3, 1)"}}

unary("neg", {doc = "-self, elementwise. Bool tensors are refused.", alias = {"negative"},
   pointwise = {types = "number", bool = false}, grad = {self = "neg(grad)"}})
op {"positive(Tensor self) -> Tensor", doc = "self itself; bool tensors are refused.", composite = true,
    examples = {"T(3)"}, out = false}
unary("abs", {doc = "Absolute value, elementwise.", pointwise = {types = "number"}, alias = {"absolute"},
   grad = {self = "grad * sgn(self)"}})
unary("sign", {doc = "-1, 0 or 1 by sign; NaN gives 0 as in PyTorch.", pointwise = {types = "number"},
   grad = {self = "zeros_like(grad)"}})
unary("sgn", {doc = "The same as sign for real tensors; 0 for NaN.", pointwise = {types = "number", kernel = "sign"},
   grad = {self = "zeros_like(grad)"}})
unary("square", {node = "Pow", doc = "self * self, elementwise.", pointwise = {types = "number"},
   grad = {self = "grad * 2 * self"}})
unary("reciprocal", {doc = "1 / self, elementwise; integers give float32.",
   grad = {self = "neg(grad * result * result)"}, examples = {"P(3, 4)"}})
unary("sqrt", {doc = "Square root, elementwise; NaN for negative numbers.",
   grad = {self = "grad / (2 * result)"}, examples = {"P(3, 4)", "P()"}})
unary("rsqrt", {doc = "1 / sqrt(self), elementwise.",
   grad = {self = "grad * -0.5 * result:pow(3)"}, examples = {"P(3, 4)"}})

-- Rounding -----------------------------------------------------------------------------------------

for _, row in ipairs {{"ceil", "The smallest integer not below, elementwise."},
                      {"floor", "The largest integer not above, elementwise."},
                      {"trunc", "Rounded towards zero, elementwise."}} do
   unary(row[1], {doc = row[2], pointwise = {types = "number"}, grad = {self = "zeros_like(grad)"},
      alias = row[1] == "trunc" and {"fix"} or nil})
end
op {"round(Tensor self, *, int decimals=0) -> Tensor",
    doc = "Rounded to `decimals` decimals, halves to even, elementwise.",
    pointwise = {types = "number"}, inplace = true, grad = {self = "zeros_like(grad)"},
    examples = {"T(3, 4)", "T(3), {decimals = 2}"}}
unary("frac", {doc = "self - trunc(self), elementwise; floating only.", grad = {self = "grad"}})

-- Exponentials and logarithms ----------------------------------------------------------------------

unary("exp", {doc = "e to the power self, elementwise.", grad = {self = "grad * result"}})
unary("exp2", {doc = "2 to the power self, elementwise.", grad = {self = "grad * result * 0.6931471805599453"}})
unary("expm1", {doc = "exp(self) - 1, accurate near 0.", grad = {self = "grad * (result + 1)"}})
unary("log", {doc = "Natural logarithm, elementwise.", grad = {self = "grad / self"}, examples = {"P(3, 4)", "P()"}})
unary("log2", {doc = "Logarithm to base 2.", grad = {self = "grad / (self * 0.6931471805599453)"},
   examples = {"P(3, 4)"}})
unary("log10", {doc = "Logarithm to base 10.", grad = {self = "grad / (self * 2.302585092994046)"},
   examples = {"P(3, 4)"}})
unary("log1p", {doc = "log(1 + self), accurate near 0.", grad = {self = "grad / (self + 1)"},
   examples = {"P(3, 4)"}})

-- Trigonometry -------------------------------------------------------------------------------------

unary("sin", {doc = "Sine of radians.", grad = {self = "grad * cos(self)"}})
unary("cos", {doc = "Cosine of radians.", grad = {self = "neg(grad * sin(self))"}})
unary("tan", {doc = "Tangent of radians.", grad = {self = "grad * (1 + result * result)"}, examples = {"U(3, 4)"}})
unary("asin", {doc = "Arc sine, in radians.", alias = {"arcsin"},
   grad = {self = "grad * rsqrt(1 - self * self)"}, examples = {"U(3, 4)"}})
unary("acos", {doc = "Arc cosine, in radians.", alias = {"arccos"},
   grad = {self = "neg(grad * rsqrt(1 - self * self))"}, examples = {"U(3, 4)"}})
unary("atan", {doc = "Arc tangent, in radians.", alias = {"arctan"}, grad = {self = "grad / (1 + self * self)"}})
unary("sinh", {doc = "Hyperbolic sine.", grad = {self = "grad * cosh(self)"}})
unary("cosh", {doc = "Hyperbolic cosine.", grad = {self = "grad * sinh(self)"}})
unary("tanh", {doc = "Hyperbolic tangent.", grad = {self = "grad * (1 - result * result)"}})
unary("asinh", {doc = "Inverse hyperbolic sine.", alias = {"arcsinh"},
   grad = {self = "grad * rsqrt(self * self + 1)"}})
unary("acosh", {doc = "Inverse hyperbolic cosine; NaN below 1.", alias = {"arccosh"},
   grad = {self = "grad * rsqrt(self * self - 1)"}, examples = {"P(3, 4) + 1"}})
unary("atanh", {doc = "Inverse hyperbolic tangent.", alias = {"arctanh"},
   grad = {self = "grad / (1 - self * self)"}, examples = {"U(3, 4)"}})
op {"atan2(Tensor self, Operand other) -> Tensor",
    doc = "The angle of the point (other, self) in radians, in (-pi, pi].", alias = {"arctan2"},
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad * other / (self * self + other * other)",
            other = "neg(grad * self / (self * self + other * other))"},
    examples = {"T(3, 4), P(3, 4)", "T(3, 4), P(4)"}}
op {"deg2rad(Tensor self) -> Tensor", doc = "Degrees to radians.", expr = "self * (pi / 180)", inplace = true,
    examples = {"T(3)"}}
op {"rad2deg(Tensor self) -> Tensor", doc = "Radians to degrees.", expr = "self * (180 / pi)", inplace = true,
    examples = {"T(3)"}}

-- Special functions --------------------------------------------------------------------------------

unary("erf", {doc = "The error function.",
   grad = {self = "grad * 1.1283791670955126 * exp(neg(self * self))"}})
unary("erfc", {doc = "1 - erf(self), accurate for large self.",
   grad = {self = "grad * -1.1283791670955126 * exp(neg(self * self))"}})
unary("erfinv", {doc = "The inverse of erf, on (-1, 1).",
   grad = {self = "grad * 0.886226925452758 * exp(result * result)"}, examples = {"U(3, 4)"}})
unary("lgamma", {doc = "Logarithm of the absolute value of the gamma function.",
   grad = {self = "grad * digamma(self)"}, examples = {"P(3, 4)"}})
unary("digamma", {doc = "Derivative of lgamma.", grad = {self = "grad * trigamma(self)"}, examples = {"P(3, 4)"}})
unary("trigamma", {name = "polygamma", internal = true, inplace = false, grad = {self = "grad * higher_gamma(self, 2)"},
   examples = {"P(3, 4)"}})
op {"higher_gamma(Tensor self, int n) -> Tensor",
    name = "polygamma", internal = true, pointwise = {types = "floating"},
    grad = {self = "grad * higher_gamma(self, n + 1)"}}
op {"polygamma(Tensor self, int n) -> Tensor",
    doc = "The n-th derivative of digamma, n from 0; as a function torch.polygamma(n, self).",
    composite = true, inplace = true, examples = {"P(3, 4), 1", "P(3), 0", "P(3), 4"}}
op {"polygamma.first(int n, Tensor self) -> Tensor", doc = "The same with n first.", expr = "polygamma(self, n)",
    method = false, examples = {"1, P(3, 4)"}}
op {"mvlgamma(Tensor self, int p) -> Tensor",
    doc = "The logarithm of the multivariate gamma function of p dimensions.", composite = true, inplace = true,
    alias = {"multigammaln"}, examples = {"P(3, 4) + 2, 3", "P(3), 1"}}
op {"frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    doc = "self = mantissa * 2^exponent with the mantissa's magnitude in [0.5, 1); exponents are int32.",
    grad = {self = "grad_mantissa / exp2(exponent)"}, examples = {"T(3, 4)"}}
for _, name in ipairs {"frexp_mantissa", "frexp_exponent"} do
   op {name .. "(Tensor self) -> Tensor", name = "frexp", internal = true, pointwise = {types = "floating"}}
end
unary("i0", {doc = "Modified Bessel function of the first kind, order 0.", grad = {self = "grad * i1(self)"}})
unary("i1", {node = "SpecialI1", internal = true, inplace = false, grad = {self = "grad * i1_derivative(self, result)"}})
op {"i1_derivative(Tensor self, Tensor i1) -> Tensor", internal = true, composite = true}
unary("sinc", {doc = "sin(pi x) / (pi x), 1 at 0.", grad = {self = "grad * sinc_derivative(self)"}})
unary("sinc_derivative", {name = "sinc_backward", internal = true, inplace = false, grad = {self = "grad * sinc_second(self)"}})
unary("sinc_second", {name = "sinc_backward", internal = true, inplace = false, nondiff = "third derivative of sinc"})
unary("sigmoid", {doc = "1 / (1 + exp(-self)).", alias = {"expit"}, grad = {self = "grad * result * (1 - result)"}})
op {"logit(Tensor self, float eps=nil) -> Tensor",
    doc = "log(p / (1 - p)); with eps self is first clamped to [eps, 1 - eps].",
    composite = true, inplace = true, examples = {"U(3, 4):abs() * 0.5 + 0.2", "T(3), 0.1"}}
op {"xlogy(Operand self, Operand other) -> Tensor",
    doc = "self * log(other); 0 where self is 0, NaN where other is.",
    pointwise = {types = "floating"}, inplace = true, method = true,
    grad = {self = "grad * masked_log(self, other)", other = "grad * self / other"},
    examples = {"P(3, 4), P(4)", "T(3), 2"}}
op {"masked_log(Tensor self, Tensor other) -> Tensor", internal = true, composite = true}
op {"logaddexp(Tensor self, Operand other) -> Tensor",
    doc = "log(exp(self) + exp(other)), without overflow.",
    pointwise = {types = "floating"},
    grad = {self = "grad * sigmoid(self - other)", other = "grad * sigmoid(other - self)"},
    examples = {"T(3, 4), T(4)"}}
op {"logaddexp2(Tensor self, Operand other) -> Tensor",
    doc = "log2(2^self + 2^other), without overflow.",
    pointwise = {types = "floating"},
    grad = {self = "grad * sigmoid((self - other) * 0.6931471805599453)",
            other = "grad * sigmoid((other - self) * 0.6931471805599453)"},
    examples = {"T(3, 4), T(4)"}}
op {"hypot(Tensor self, Operand other) -> Tensor",
    doc = "sqrt(self^2 + other^2), without overflow.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad * self / result", other = "grad * other / result"},
    examples = {"P(3, 4), P(4)"}}
op {"copysign(Tensor self, Operand other) -> Tensor",
    doc = "The magnitude of self with the sign of other.",
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "grad * (sgn(self) * sgn(result))", other = "zeros_like(grad)"},
    examples = {"T(3, 4), T(4)"}}
op {"nextafter(Tensor self, Operand other) -> Tensor",
    doc = "The next representable number after self towards other.", method = true,
    pointwise = {types = "floating"}, inplace = true,
    grad = {self = "keep_where(grad, ne(self, other))", other = "zeros_like(grad)"},
    gradcheck = false, examples = {"T(3), T(3)"}}
op {"ldexp(Tensor self, Operand other) -> Tensor",
    doc = "self * 2^other, elementwise; integers of other leave self its floating dtype.",
    composite = true, inplace = true, examples = {"T(3, 4), T(4)"}}
op {"heaviside(Tensor self, Operand values) -> Tensor",
    doc = "0 where self < 0 or NaN, 1 where self > 0, values where self is 0.",
    pointwise = {types = "number"}, inplace = true, nondiff = "a step function", examples = {"T(3, 4), T(4)"}}
op {"gcd(Tensor self, Operand other) -> Tensor", doc = "Greatest common divisor of integers.",
    pointwise = {types = "integer", bool = false}, inplace = true, examples = {"I(30, 4), I(30, 3, 4)", "I(30, 4), 12"}}
op {"lcm(Tensor self, Operand other) -> Tensor", doc = "Least common multiple of integers.",
    pointwise = {types = "integer", bool = false}, inplace = true, examples = {"I(30, 4), I(30, 3, 4)", "I(30, 4), 12"}}

-- Bounds -------------------------------------------------------------------------------------------

op {"maximum(Tensor self, Operand other) -> Tensor",
    doc = "The larger of both, elementwise; NaN if either is. Equal elements share the gradient.",
    pointwise = {types = "number"},
    grad = {self = "share_where(grad, gt(self, other), eq(self, other))",
            other = "share_where(grad, gt(other, self), eq(self, other))"},
    examples = {"T(3, 4), T(4)"}}
op {"minimum(Tensor self, Operand other) -> Tensor",
    doc = "The smaller of both, elementwise; NaN if either is. Equal elements share the gradient.",
    pointwise = {types = "number"},
    grad = {self = "share_where(grad, lt(self, other), eq(self, other))",
            other = "share_where(grad, lt(other, self), eq(self, other))"},
    examples = {"T(3, 4), T(4)"}}
op {"share_where(Tensor grad, Tensor whole, Tensor half) -> Tensor", internal = true, composite = true}
op {"fmax(Tensor self, Operand other) -> Tensor",
    doc = "The larger of both, elementwise; a number wins over NaN.",
    pointwise = {types = "number"},
    grad = {self = "keep_where(grad, ge(self, other):logical_or(isnan(other)))",
            other = "keep_where(grad, logical_not(ge(self, other):logical_or(isnan(other))))"},
    examples = {"T(3, 4), T(4)"}}
op {"fmin(Tensor self, Operand other) -> Tensor",
    doc = "The smaller of both, elementwise; a number wins over NaN.",
    pointwise = {types = "number"},
    grad = {self = "keep_where(grad, le(self, other):logical_or(isnan(other)))",
            other = "keep_where(grad, logical_not(le(self, other):logical_or(isnan(other))))"},
    examples = {"T(3, 4), T(4)"}}
op {"keep_where(Tensor grad, Tensor mask) -> Tensor", internal = true, expr = "where(mask, grad, 0)"}

op {"clamp(Tensor self, Operand min=nil, Operand max=nil) -> Tensor",
    doc = "self bounded to [min, max]; either may be missing, a number or a tensor. NaN stays NaN.",
    composite = true, inplace = true, alias = {"clip"},
    examples = {"T(3, 4), -0.5, 0.5", "T(3, 4), T(4) - 1, T(4) + 1", "T(3), nil, 0.2", "T(3), {min = 0}"}}
op {"clamp_min(Tensor self, Operand min) -> Tensor", doc = "self, but at least min.",
    pointwise = {types = "number", kernel = "maximum"}, inplace = true,
    grad = {self = "keep_where(grad, ge(self, min))", min = "keep_where(grad, lt(self, min))"},
    examples = {"T(3, 4), 0.1", "T(3, 4), T(4)"}}
op {"clamp_max(Tensor self, Operand max) -> Tensor", doc = "self, but at most max.",
    pointwise = {types = "number", kernel = "minimum"}, inplace = true,
    grad = {self = "keep_where(grad, le(self, max))", max = "keep_where(grad, gt(self, max))"},
    examples = {"T(3, 4), 0.1", "T(3, 4), T(4)"}}
op {"clamp_both(Tensor self, Tensor min, Tensor max) -> Tensor", name = "clamp", internal = true,
    pointwise = {types = "number", kernel = "clamp"},
    grad = {self = "keep_where(grad, logical_and(ge(self, min), le(self, max)))",
            min = "keep_where(grad, logical_and(lt(self, min), lt(min, max)))",
            max = "keep_where(grad, logical_or(gt(self, max), gt(min, max)))"}}
op {"nan_to_num(Tensor self, Number nan=0.0, Number posinf=nil, Number neginf=nil) -> Tensor",
    doc = "NaN and infinities replaced: NaN by nan, infinities by posinf and neginf or the dtype's extremes.",
    composite = true, inplace = true, examples = {"T(3, 4)"}}

-- Choice -------------------------------------------------------------------------------------------

op {"where(Tensor condition, Operand self, Operand other) -> Tensor",
    doc = "self where condition is true, else other; all broadcast.",
    composite = true, examples = {"M(3, 4), T(3, 4), T(4)", "M(3), T(2, 3), 0.5", "M(2, 1), 1.5, T(3)"}}
op {"where_self(Tensor self, Tensor condition, Operand other) -> Tensor",
    name = "where", doc = "x:where(condition, other): self where condition is true, else other; all broadcast.",
    expr = "where(condition, self, other)", func = false, examples = {"T(3, 4), M(3, 4), T(4)", "T(3), M(4, 3), 0.5"}}
op {"where.positions(Tensor condition) -> Tensor[]",
    doc = "With the condition alone: the positions of its true elements, a list with one tensor per dimension.",
    composite = true, nondiff = "positions"}
op {"select_where(Tensor condition, Tensor self, Tensor other) -> Tensor",
    name = "where", internal = true,
    pointwise = {types = "number", kernel = "where"},
    grad = {self = "where(condition, grad, 0)", other = "where(condition, 0, grad)"}}

-- Comparison and logic -----------------------------------------------------------------------------

comparison("eq", "==")
comparison("ne", "~=", {"not_equal"})
comparison("lt", "<", {"less"})
comparison("le", "<=", {"less_equal"})
comparison("gt", ">", {"greater"})
comparison("ge", ">=", {"greater_equal"})

for _, row in ipairs {{"and", "both are"}, {"or", "at least one is"}, {"xor", "exactly one is"}} do
   op {"logical_" .. row[1] .. "(Tensor self, Operand other) -> Tensor",
       doc = "Whether " .. row[2] .. " not zero, elementwise, as a bool tensor.",
       pointwise = {types = "number", out = "bool"}, inplace = true, examples = {"M(3, 4), M(4)"}}
end
op {"logical_not(Tensor self) -> Tensor", doc = "Whether an element is zero, as a bool tensor.",
    pointwise = {types = "number", out = "bool"}, inplace = true, examples = {"M(3)"}}

for _, row in ipairs {{"and", "and"}, {"or", "or"}, {"xor", "exclusive or"}} do
   op {"bitwise_" .. row[1] .. "(Tensor self, Operand other) -> Tensor",
       doc = "Bitwise " .. row[2] .. " of integers; of bool tensors the logical one.",
       pointwise = {types = "integer"}, inplace = true, examples = {"M(3), M(3)"}}
end
op {"bitwise_not(Tensor self) -> Tensor", doc = "All bits of integers inverted; of bool tensors logical_not.",
    composite = true, inplace = true, nondiff = "integers", examples = {"M(3)"}}
op {"bitwise_invert(Tensor self) -> Tensor",
    name = "bitwise_not", internal = true, pointwise = {types = "integer", bool = false}}
op {"bitwise_left_shift(Tensor self, Operand other) -> Tensor", doc = "self << other of integers.",
    pointwise = {types = "integer", bool = false}, inplace = true, examples = {"I(30, 4), I(5, 3, 4)", "I(30, 4), 2"}}
op {"bitwise_right_shift(Tensor self, Operand other) -> Tensor",
    doc = "self >> other of integers; the sign is kept.",
    pointwise = {types = "integer", bool = false}, inplace = true, examples = {"I(30, 4), I(5, 3, 4)", "I(30, 4), 2"}}

predicate("isnan", "Whether an element is NaN.")
predicate("isinf", "Whether an element is infinite, of either sign.")
predicate("isfinite", "Whether an element is neither infinite nor NaN.")
predicate("isposinf", "Whether an element is +infinity.")
predicate("isneginf", "Whether an element is -infinity.")
predicate("signbit", "Whether the sign bit is set; true for -0.0.")
op {"isreal(Tensor self) -> Tensor", doc = "True everywhere: there are real numbers, and NaN, only.",
    composite = true, out = false, nondiff = "a bool result", examples = {"T(3)"}}
op {"isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=false) -> Tensor",
    doc = "Whether |self - other| <= atol + rtol * |other|, elementwise; equal infinities are close.",
    composite = true, nondiff = "a bool result", examples = {"T(3), T(3)"}}
op {"allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=false) -> bool",
    doc = "Whether isclose holds everywhere.", composite = true, nondiff = "a boolean", examples = {"T(3), T(3)"}}
op {"is_same_size(Tensor self, Tensor other) -> bool", doc = "Whether both have the same shape.",
    composite = true, nondiff = "a boolean", examples = {"T(3), T(2)"}}
op {"is_nonzero(Tensor self) -> bool", doc = "Whether the one element of self is not zero.",
    composite = true, nondiff = "a boolean", examples = {"T(1)"}}
op {"is_signed(Tensor self) -> bool", doc = "Whether self's dtype has negative numbers.",
    composite = true, nondiff = "a boolean", examples = {"T(1)"}}
op {"equal(Tensor self, Tensor other) -> bool",
    doc = "Whether both have the same shape and the same elements.",
    composite = true, nondiff = "a boolean", examples = {"T(3), T(3)"}}
