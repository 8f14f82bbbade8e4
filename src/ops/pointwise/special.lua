-- torch.special: special functions by the names of SciPy.

local function special(signature, expr, doc, examples, autocast)
   op {signature .. " -> Tensor", module = "special", method = false, doc = doc, expr = expr,
       autocast = autocast, examples = examples}
end

-- Those that torch has under another name, or the same.
for _, row in ipairs {
   {"expit", "sigmoid", "T(3, 4)"}, {"gammaln", "lgamma", "P(3, 4)"},
   {"digamma", "digamma", "P(3, 4)"}, {"psi", "digamma", "P(3, 4)"}, {"erf", "erf", "T(3, 4)"},
   {"erfc", "erfc", "T(3, 4)"}, {"erfinv", "erfinv", "U(3, 4)"}, {"exp2", "exp2", "T(3, 4)"},
   {"expm1", "expm1", "T(3, 4)"}, {"log1p", "log1p", "P(3, 4)"}, {"sinc", "sinc", "T(3, 4)"},
   {"i0", "i0", "T(3, 4)"}, {"i1", "i1", "T(3, 4)"},
} do
   local name, of, example = table.unpack(row)
   local doc = name == "i1" and "Modified Bessel function of the first kind, order 1."
      or "torch." .. of .. "."
   special(name .. ".special(Tensor input)", of .. "(input)", doc, {example})
end
special("logit.special(Tensor input, float eps=nil)", "logit(input, eps)", "torch.logit.",
   {"P(3, 4):clamp(0.1, 0.9)"})
special("round.special(Tensor input, *, int decimals=0)", "round(input, decimals)", "torch.round.",
   {"T(3, 4)"})
special("polygamma.special(int n, Tensor input)", "polygamma(input, n)", "torch.polygamma.",
   {"1, P(3, 4)"})
special("multigammaln(Tensor a_, int p)", "mvlgamma(a_, p)", "torch.mvlgamma.", {"P(3, 4) + 2, 2"})
special("logsumexp.special(Tensor input, dim[] dim, bool keepdim=false)",
   "logsumexp(input, dim, keepdim)",
   "torch.logsumexp.", {"T(3, 4), 2"}, {gpu = "float32"})
special("softmax.special(Tensor input, dim dim, *, dtype dtype=nil)", "softmax(input, dim, dtype)",
   "torch.softmax.", {"T(3, 4), 2"}, {gpu = "float32"})
special("log_softmax.special(Tensor input, dim dim, *, dtype dtype=nil)",
   "log_softmax(input, dim, dtype)",
   "torch.log_softmax.", {"T(3, 4), 2"}, {gpu = "float32"})
special("xlogy.special(Operand input, Operand other)", "xlogy(input, other)", "torch.xlogy.",
   {"T(3, 4), P(3, 4)"})

-- Others.
special("xlog1py(Tensor input, Tensor other)",
   "where(eq(input, 0):logical_and(logical_not(isnan(other))), 0, input * log1p(other))",
   "input * log(1 + other), 0 where input is 0 and other a number.", {"T(3, 4), P(4)"})
special("entr(Tensor input)", "where(lt(input, 0), -inf, 0 - xlogy(input, input))",
   "-x log(x); 0 at 0, -inf below.", {"P(3, 4)"})
special("ndtr(Tensor input)", "erfc(input * -0.7071067811865476) * 0.5",
   "The share of the normal distribution below input.", {"T(3, 4)"})
