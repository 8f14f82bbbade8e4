-- Operators of torch.special: special functions under SciPy's names.

local function special(signature, expr, doc, examples, autocast, node)
   op {signature .. " -> Tensor", module = "special", method = false, doc = doc, expr = expr,
       autocast = autocast, examples = examples, node = node}
end

-- Returns PyTorch's name for the node, such as "SpecialBesselJ0" for bessel_j0.
local function node_of(name)
   local words = name:gsub("(%d)(%l)", "%1_%2"):gsub("%f[%w]%l", string.upper):gsub("_", "")
   return "Special" .. words
end

-- Functions of torch.special that are also available in torch itself. Each row has the name in
-- torch.special and the name in torch.
for _, row in ipairs {
   {"expit", "sigmoid", "T(3, 4)"}, {"gammaln", "lgamma", "P(3, 4)"},
   {"digamma", "digamma", "P(3, 4)"}, {"psi", "digamma", "P(3, 4)"}, {"erf", "erf", "T(3, 4)"},
   {"erfc", "erfc", "T(3, 4)"}, {"erfinv", "erfinv", "U(3, 4)"}, {"exp2", "exp2", "T(3, 4)"},
   {"expm1", "expm1", "T(3, 4)"}, {"log1p", "log1p", "P(3, 4)"}, {"sinc", "sinc", "T(3, 4)"},
   {"i0", "i0", "T(3, 4)"}, {"i1", "i1", "T(3, 4)"},
} do
   local name, of, example = table.unpack(row)
   local doc = name == "i1" and "Computes the modified Bessel function of the first kind, order 1."
      or "The same as torch." .. of .. "."
   special(name .. ".special(Tensor input)", of .. "(input)", doc, {example})
end
special("logit.special(Tensor input, float eps=nil)", "logit(input, eps)", [[The same as
torch.logit.]],
   {"P(3, 4):clamp(0.1, 0.9)"})
special("round.special(Tensor input, *, int decimals=0)", "round(input, decimals)", [[The same as
torch.round.]],
   {"T(3, 4)"})
special("polygamma.special(int n, Tensor input)", "polygamma(input, n)", [[The same as
torch.polygamma.]],
   {"1, P(3, 4)"})
special("multigammaln(Tensor a_, int p)", "mvlgamma(a_, p)", "The same as torch.mvlgamma.",
{"P(3, 4) + 2, 2"})
special("logsumexp.special(Tensor input, dim[] dim, bool keepdim=false)",
   "logsumexp(input, dim, keepdim)",
   "The same as torch.logsumexp.", {"T(3, 4), 2"}, {gpu = "float32"})
special("softmax.special(Tensor input, dim dim, *, dtype dtype=nil)", "softmax(input, dim, dtype)",
   "The same as torch.softmax.", {"T(3, 4), 2"}, {gpu = "float32"})
special("log_softmax.special(Tensor input, dim dim, *, dtype dtype=nil)",
   "log_softmax(input, dim, dtype)",
   "The same as torch.log_softmax.", {"T(3, 4), 2"}, {gpu = "float32"})
special("xlogy.special(Operand input, Operand other)", "xlogy(input, other)", [[The same as
torch.xlogy.]],
   {"T(3, 4), P(3, 4)"})

-- Others.
op {"xlog1py(Operand input, Operand other) -> Tensor", module = "special", method = false,
    node = "SpecialXlog1Py",
    doc = "Computes input * log(1 + other); 0 where input is 0, NaN where other is NaN.",
    pointwise = {types = "floating", rare = true},
    grad = {input = "grad * masked_log1p(input, other)", other = "grad * input / (other + 1)"},
    examples = {"T(3, 4), P(4)", "T(3), 2", "2, P(3)"}}
special("entr(Tensor input)", "where(lt(input, 0), -inf, 0 - xlogy(input, input))",
   "Computes -input * log(input); 0 at 0, -inf below 0.", {"P(3, 4)"}, nil, "SpecialEntr")
special("ndtr(Tensor input)", "erfc(input * -0.7071067811865476) * 0.5",
   "Computes the share of the normal distribution below input.", {"T(3, 4)"})

for _, row in ipairs {{"gammainc", "igamma"}, {"gammaincc", "igammac"}} do
   special(row[1] .. "(Tensor input, Tensor other)", row[2] .. "(input, other)",
      "The same as torch." .. row[2] .. ".", {"P(3, 4):detach(), P(4)"})
end

-- Declares a function that has its own kernel.
local function kernel(name, entry)
   entry[1] = name .. "(Tensor input) -> Tensor"
   entry.module, entry.method, entry.node = "special", false, node_of(name)
   entry.pointwise = {types = "floating", rare = entry.rare ~= false}
   entry.rare = nil
   entry.examples = entry.examples or {"T(3, 4)", "T()"}
   op(entry)
end

kernel("i0e", {doc = "Computes exp(-|input|) * i0(input), which does not overflow.",
   grad = {input = "grad * (i1e(input) - sign(input) * result)"}})
kernel("i1e", {doc = "Computes exp(-|input|) * i1(input), which does not overflow.",
   grad = {input = "grad * (i1_derivative_scaled(input, result) - sign(input) * result)"}})
kernel("erfcx", {rare = false,
doc = "Computes exp(input^2) * erfc(input), which does not underflow.",
   grad = {input = "grad * (2 * input * result - 1.1283791670955126)"}})
kernel("log_ndtr", {rare = false,
doc = [[Computes the logarithm of the share of the normal distribution below input, accurately even
far below 0.]],
   grad = {input = "grad / erfcx(input * -0.7071067811865476) * 0.7978845608028654"}})
kernel("ndtri", {doc = [[Returns the number below which the share input of the normal distribution
   lies, the inverse of ndtr; NaN outside of [0, 1].]],
   grad = {input = "grad * 2.5066282746310002 * exp(result * result * 0.5)"},
   examples = {"U(3, 4) * 0.45 + 0.5"}})

-- Bessel functions --------------------------------------------------------------------------------

local function bessel(name, doc, gradient, example)
   kernel(name, {doc = doc, grad = {input = gradient}, examples = {example}})
end
bessel("bessel_j0", "Computes the Bessel function of the first kind, order 0.",
   "neg(grad * bessel_j1(input))", "T(3, 4)")
bessel("bessel_j1", "Computes the Bessel function of the first kind, order 1.",
   "grad * bessel_j1_derivative(input, result)", "T(3, 4)")
bessel("bessel_y0",
   "Computes the Bessel function of the second kind, order 0; -inf at 0, NaN below.",
   "neg(grad * bessel_y1(input))", "P(3, 4)")
bessel("bessel_y1",
   "Computes the Bessel function of the second kind, order 1; -inf at 0, NaN below.",
   "grad * (bessel_y0(input) - result / input)", "P(3, 4)")
bessel("airy_ai", "Computes Airy's function Ai; 0 at both infinities.",
   "grad * airy_ai_slope(input)", "T(3, 4)")
op {"airy_ai_slope(Tensor input) -> Tensor", internal = true,
    pointwise = {types = "floating", rare = true}, node = "SpecialAiryAi",
    grad = {input = "grad * input * airy_ai(input)"}}
special("modified_bessel_i0(Tensor input)", "i0(input)",
   "The same as torch.special.i0.", {"T(3, 4)"}, nil, node_of "modified_bessel_i0")
special("modified_bessel_i1(Tensor input)", "i1(input)",
   "The same as torch.special.i1.", {"T(3, 4)"}, nil, node_of "modified_bessel_i1")
bessel("modified_bessel_k0",
   "Computes the modified Bessel function of the second kind, order 0; inf at 0, NaN below.",
   "neg(grad * modified_bessel_k1(input))", "P(3, 4)")
bessel("modified_bessel_k1",
   "Computes the modified Bessel function of the second kind, order 1; inf at 0, NaN below.",
   "neg(grad * (modified_bessel_k0(input) + result / input))", "P(3, 4)")
bessel("scaled_modified_bessel_k0",
   "Computes exp(input) * modified_bessel_k0(input), which does not underflow.",
   "grad * (result - scaled_modified_bessel_k1(input))", "P(3, 4)")
bessel("scaled_modified_bessel_k1",
   "Computes exp(input) * modified_bessel_k1(input), which does not underflow.",
   "grad * (result - result / input - scaled_modified_bessel_k0(input))", "P(3, 4)")
bessel("spherical_bessel_j0",
   "Computes the spherical Bessel function of the first kind, order 0: sin(input) / input, 1 at 0.",
   "grad * spherical_j0_derivative(input)", "T(3, 4)")

op {"zeta(Operand input, Operand other) -> Tensor", module = "special", method = false,
    doc = [[Computes Hurwitz's zeta function, the sum of (k + other)^-input over k = 0, 1, ...;
    infinite at input = 1, NaN below. Differentiable with respect to other only.]],
    pointwise = {types = "floating", rare = true},
    grad = {input = "no_derivative(grad, 'special.zeta', 'input')",
            other = "neg(grad * input * zeta(input + 1, other))"},
    examples = {"P(3, 4):detach() + 1.5, P(3, 4)", "3, P(4)"}}
