-- Elementwise elementary and special functions. The names used in the examples (T, P, I, ...) are
-- explained in arithmetic.lua.

local function unary(name, entry)
   entry[1] = name .. "(Tensor self) -> Tensor"
   entry.pointwise = entry.pointwise or {types = "floating"}
   if entry.inplace == nil then entry.inplace = true end
   entry.examples = entry.examples or {"T(3, 4)", "T()", "T(0, 2)", "T(4, 3):t()"}
   op(entry)
end

-- Exponentials and logarithms ---------------------------------------------------------------------

unary("exp", {doc = "Computes e to the power self, elementwise.",
grad = {self = "grad * conj(result)"},
   autocast = {gpu = "float32"}})
example("exp", [[
   print(torch.tensor({0.0, 1.0}):exp())
   --> tensor([1.0000, 2.7183])]])
unary("exp2", {doc = "Computes 2 to the power self, elementwise.",
   grad = {self = "grad * conj(result) * 0.6931471805599453"}})
unary("expm1", {doc = "Computes exp(self) - 1, accurately near 0.",
grad = {self = "grad * conj(result + 1)"},
   autocast = {gpu = "float32"}})
example("expm1", [[
   local x = torch.tensor {1e-10}
   print(x:expm1(), x:exp() - 1)
   --> tensor([1.0000e-10])	tensor([0.])]])
unary("log", {doc = "Computes the natural logarithm, elementwise.",
grad = {self = "grad / conj(self)"},
   autocast = {gpu = "float32"},
   examples = {"P(3, 4)", "P()"}})
example("log", [[
   print(torch.tensor({1.0, 2.0, 0.0}):log())
   --> tensor([0.0000, 0.6931,   -inf])]])
unary("log2", {doc = "Computes the logarithm to base 2, elementwise.",
   grad = {self = "grad / (conj(self) * 0.6931471805599453)"},
   autocast = {gpu = "float32"},
   examples = {"P(3, 4)"}})
example("log2", [[
   print(torch.tensor({1.0, 8.0}):log2())
   --> tensor([0., 3.])]])
unary("log10", {doc = "Computes the logarithm to base 10, elementwise.",
   grad = {self = "grad / (conj(self) * 2.302585092994046)"},
   autocast = {gpu = "float32"},
   examples = {"P(3, 4)"}})
example("log10", [[
   print(torch.tensor({1.0, 1000.0}):log10())
   --> tensor([0., 3.])]])
unary("log1p", {node = "Log1P",
    doc = "Computes log(1 + self), accurately near 0.", grad = {self = "grad / conj(self + 1)"},
   autocast = {gpu = "float32"},
   examples = {"P(3, 4)"}})
example("log1p", [[
   local x = torch.tensor {1e-10}
   print(x:log1p(), (x + 1):log()) -- 1 + 1e-10 is rounded to 1 in float32
   --> tensor([1.0000e-10])	tensor([0.])]])

-- Trigonometry ------------------------------------------------------------------------------------

unary("sin", {doc = "Computes the sine of angles in radians.",
grad = {self = "grad * conj(cos(self))"}})
example("sin", [[
   print(torch.tensor({0.0, math.pi / 2}):sin())
   --> tensor([0., 1.])]])
unary("tan", {doc = "Computes the tangent of angles in radians.",
grad = {self = "grad * conj(1 + result * result)"},
   autocast = {gpu = "float32"},
   examples = {"U(3, 4)"}})
example("tan", [[
   print(torch.tensor({0.0, 1.0}):tan())
   --> tensor([0.0000, 1.5574])]])
unary("asin", {doc = "Computes the arc sine, in radians.", alias = {"arcsin"},
   grad = {self = "grad * conj(rsqrt(1 - self * self))"},
   autocast = {gpu = "float32"}, examples = {"U(3, 4)"}})
unary("atan", {doc = "Computes the arc tangent, in radians.", alias = {"arctan"},
   grad = {self = "grad / conj(1 + self * self)"}})
unary("sinh", {doc = "Computes the hyperbolic sine.", grad = {self = "grad * conj(cosh(self))"},
   autocast = {gpu = "float32"}})
unary("cosh", {doc = "Computes the hyperbolic cosine.", grad = {self = "grad * conj(sinh(self))"},
   autocast = {gpu = "float32"}})
unary("tanh", {doc = "Computes the hyperbolic tangent.",
grad = {self = "tanh_backward(grad, result)"}})
example("tanh", [[
   print(torch.tensor({-1.0, 0.0, 1.0}):tanh())
   --> tensor([-0.7616,  0.0000,  0.7616])]])
op {"tanh_backward(Tensor grad_output, Tensor output) -> Tensor", internal = true,
    pointwise = {types = "floating"},
    grad = {grad_output = "conj(tanh_backward(conj(grad), output))",
            output = "conj(grad) * grad_output * conj(output * -2)"}}
unary("asinh", {doc = "Computes the inverse hyperbolic sine.", alias = {"arcsinh"},
   grad = {self = "grad * conj(rsqrt(self * self + 1))"}})
unary("acosh", {doc = "Computes the inverse hyperbolic cosine; NaN below 1.", alias = {"arccosh"},
   grad = {self = "grad * conj(acosh_slope(self))"}, examples = {"P(3, 4) + 1"}})
op {"acosh_slope(Tensor self) -> Tensor", internal = true, composite = true}
unary("atanh", {doc = "Computes the inverse hyperbolic tangent.", alias = {"arctanh"},
   grad = {self = "grad / conj(1 - self * self)"}, examples = {"U(3, 4)"}})
op {"atan2(Tensor self, Operand other) -> Tensor",
    doc = "Returns the angle of the point (other, self), in radians from -pi (excluded) to pi.",
    alias = {"arctan2"},
    pointwise = {types = "floating"}, inplace = true,
    -- addcmul, because `other` may be a number: other * other would then be rounded to float32
    grad = {self = "grad * other / addcmul(self * self, other, other)",
            other = "neg(grad * self / addcmul(self * self, other, other))"},
    autocast = {gpu = "widest"},
    examples = {"T(3, 4), P(3, 4)", "T(3, 4), P(4)"}}
example("atan2", [[
   local y, x = torch.tensor {1.0, -1.0}, torch.tensor {1.0, -1.0}
   print(y:atan2(x)) -- atan2 keeps the quadrant of the angle
   --> tensor([ 0.7854, -2.3562])]])
op {"deg2rad(Tensor self) -> Tensor", node = "Deg2Rad",
    doc = "Converts degrees to radians.", expr = "self * (pi / 180)",
    inplace = true,
    examples = {"T(3)"}}
example("deg2rad", [[
   print(torch.tensor({180.0, 90.0}):deg2rad())
   --> tensor([3.1416, 1.5708])]])
op {"rad2deg(Tensor self) -> Tensor", node = "Rad2Deg",
    doc = "Converts radians to degrees.", expr = "self * (180 / pi)",
    inplace = true,
    examples = {"T(3)"}}

-- Special functions -------------------------------------------------------------------------------

local rare <const> = {types = "floating", rare = true}

unary("erf", {doc = "Computes the error function.",
   grad = {self = "grad * 1.1283791670955126 * exp(neg(self * self))"}})
example("erf", [[
   print(torch.tensor({0.0, 0.5, 1.0}):erf())
   --> tensor([0.0000, 0.5205, 0.8427])]])
unary("erfc", {doc = "Computes 1 - erf(self), accurately for large self.",
   grad = {self = "grad * -1.1283791670955126 * exp(neg(self * self))"}})
unary("erfinv", {doc = "Computes the inverse of erf, on (-1, 1).",
   grad = {self = "grad * 0.886226925452758 * exp(result * result)"},
   autocast = {gpu = "float32"}, examples = {"U(3, 4)"}})
unary("lgamma", {pointwise = rare,
doc = "Computes the logarithm of the absolute value of the gamma function.",
   grad = {self = "grad * digamma(self)"}, examples = {"P(3, 4)"}})
unary("digamma", {doc = "Computes the derivative of lgamma.",
grad = {self = "grad * trigamma(self)"},
   examples = {"P(3, 4)"}})
unary("trigamma", {pointwise = rare, name = "polygamma", internal = true, inplace = false,
   grad = {self = "grad * higher_gamma(self, 2)"},
   examples = {"P(3, 4)"}})
op {"higher_gamma(Tensor self, int n) -> Tensor",
    name = "polygamma", internal = true, pointwise = rare,
    grad = {self = "grad * higher_gamma(self, n + 1)"}}
op {"polygamma(Tensor self, int n) -> Tensor",
    node = "Polygamma",
    doc = [[Computes the n-th derivative of digamma; n = 0 is digamma. The function's form is
    torch.polygamma(n, self).]],
    composite = true, inplace = true, examples = {"P(3, 4), 1", "P(3), 0", "P(3), 4"}}
op {"polygamma.first(int n, Tensor self) -> Tensor", doc = "The same with n first.",
    expr = "polygamma(self, n)",
    method = false, examples = {"1, P(3, 4)"}}
op {"mvlgamma(Tensor self, int p) -> Tensor",
    node = "Mvlgamma",
    doc = "Computes the logarithm of the multivariate gamma function of p dimensions.",
    composite = true,
    inplace = true,
    alias = {"multigammaln"}, examples = {"P(3, 4) + 2, 3", "P(3), 1"}}
op {"frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    doc = [[Returns a mantissa and an exponent with self = mantissa * 2^exponent; the mantissa's
    magnitude is in [0.5, 1), the exponent int32.]],
    grad = {self = "grad_mantissa / exp2(exponent)"}, examples = {"T(3, 4)"}}
for _, name in ipairs {"frexp_mantissa", "frexp_exponent"} do
   op {name .. "(Tensor self) -> Tensor", name = "frexp", internal = true, pointwise = rare}
end
unary("i0", {pointwise = rare,
doc = "Computes the modified Bessel function of the first kind, order 0.",
   grad = {self = "grad * i1(self)"}})
unary("i1", {pointwise = rare, node = "SpecialI1", internal = true, inplace = false,
   grad = {self = "grad * i1_derivative(self, result)"}})
op {"i1_derivative(Tensor self, Tensor i1) -> Tensor", internal = true, composite = true}
op {"i1_derivative_scaled(Tensor self, Tensor i1e) -> Tensor", internal = true, composite = true}
op {"bessel_j1_derivative(Tensor self, Tensor j1) -> Tensor", internal = true, composite = true}
-- Takes the place of a derivative that cannot be computed, and always fails. The incomplete gamma
-- function has no closed-form derivative with respect to its shape parameter, and zeta has none
-- with respect to s.
op {"no_derivative(Tensor grad, string op, string input) -> Tensor", internal = true,
    composite = true}
for _, row in ipairs {{"igamma", "below", ""}, {"igammac", "above", "neg"}} do
   local name, side, sign = table.unpack(row)
   op {name .. "(Tensor self, Tensor other) -> Tensor",
       doc = "Computes the share of the gamma distribution of shape self that lies " .. side ..
          " other; NaN where either is negative. Differentiable with respect to other only.",
       pointwise = rare, inplace = true,
       grad = {self = ("no_derivative(grad, '%s', 'self')"):format(name),
               other = sign .. "(grad * exp((self - 1) * log(other) - other - lgamma(self)))"},
       examples = {"P(3, 4):detach(), P(3, 4)", "P(4):detach() + 3, P(3, 4)"}}
end
unary("sinc", {doc = "Computes sin(pi x) / (pi x), and 1 at 0.",
   grad = {self = "grad * conj(sinc_slope(self))"}})
op {"sinc_slope(Tensor self) -> Tensor", internal = true, composite = true}
unary("spherical_j0_derivative", {pointwise = rare, name = "spherical_j0_backward", internal = true,
   inplace = false,
   grad = {self = "grad * spherical_j0_second(self)"}})
unary("spherical_j0_second", {pointwise = rare, name = "spherical_j0_backward", internal = true,
   inplace = false,
   nondiff = "third derivative of spherical_bessel_j0"})
unary("sinc_derivative", {pointwise = rare, name = "sinc_backward", internal = true,
   inplace = false,
   grad = {self = "grad * sinc_second(self)"}})
unary("sinc_second", {pointwise = rare, name = "sinc_backward", internal = true,
   inplace = false,
   nondiff = "third derivative of sinc"})
unary("sigmoid", {doc = "Computes 1 / (1 + exp(-self)).", alias = {"expit"},
   grad = {self = "sigmoid_backward(grad, result)"}})
example("sigmoid", [[
   print(torch.tensor({-1.0, 0.0, 1.0}):sigmoid())
   --> tensor([0.2689, 0.5000, 0.7311])]])
op {"sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", internal = true,
    pointwise = {types = "floating"},
    grad = {grad_output = "conj(sigmoid_backward(conj(grad), output))",
            output = "conj(grad) * grad_output * conj(1 - output * 2)"}}
op {"logit(Tensor self, float eps=nil) -> Tensor",
    doc = "Computes log(self / (1 - self)); with eps self is first clamped to [eps, 1 - eps].",
    node = "Logit", composite = true, inplace = true,
    examples = {"U(3, 4):abs() * 0.5 + 0.2", "T(3), 0.1"}}
example("logit", [[
   print(torch.tensor({0.5, 0.9}):logit())
   --> tensor([0.0000, 2.1972])]])
op {"xlogy(Operand self, Operand other) -> Tensor",
    doc = "Computes self * log(other); 0 where self is 0, NaN where other is NaN.",
    pointwise = {types = "floating"}, inplace = true, method = true,
    grad = {self = "grad * masked_log(self, other)", other = "grad * self / other"},
    examples = {"P(3, 4), P(4)", "T(3), 2"}}
example("xlogy", [[
   local x = torch.tensor {0.0, 1.0}
   print(x:xlogy(torch.tensor {0.0, math.exp(1)})) -- 0 * log(0) counts as 0
   --> tensor([0., 1.])]])
op {"masked_log(Tensor self, Tensor other) -> Tensor", internal = true, composite = true}
op {"masked_log1p(Tensor input, Tensor other) -> Tensor", internal = true, composite = true}
op {"logaddexp(Tensor self, Operand other) -> Tensor",
    doc = "Computes log(exp(self) + exp(other)) without overflow.",
    pointwise = {types = "floating"},
    grad = {self = "grad * conj(sigmoid(self - other))",
            other = "grad * conj(sigmoid(other - self))"},
    examples = {"T(3, 4), T(4)"}}
example("logaddexp", [[
   local x = torch.tensor {-1000.0}
   print(x:logaddexp(x)) -- log(2) - 1000
   --> tensor([-999.3068])]])
op {"logaddexp2(Tensor self, Operand other) -> Tensor",
    doc = "Computes log2(2^self + 2^other) without overflow.",
    pointwise = rare,
    grad = {self = "grad * sigmoid((self - other) * 0.6931471805599453)",
            other = "grad * sigmoid((other - self) * 0.6931471805599453)"},
    examples = {"T(3, 4), T(4)"}}

takes_complex [[exp exp2 expm1 log log2 log10 log1p sin tan asin atan sinh cosh tanh asinh
   acosh acosh_slope atanh sinc sinc_slope sigmoid sigmoid_backward tanh_backward logaddexp]]
