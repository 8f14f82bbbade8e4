-- Tests samples of distributions: their empirical distribution functions, their moments, and their gradients with
-- respect to the parameters.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local device = require "spec.support.device"
local D = torch.distributions

local options <const> = {dtype = "float64"}
local function t(x) return torch.tensor(x, options) end

-- Returns the largest distance between a sample's empirical distribution function and cdf, times the square root of the
-- sample size. This statistic exceeds 1.95 for one in a thousand samples (Kolmogorov and Smirnov).
local function distance(x, cdf)
   local n = x:numel()
   local f = cdf(x:flatten():sort())
   local at = torch.arange(1, n + 1, options) / n
   return math.max((f - at):abs():max():item(), (f - at + 1 / n):abs():max():item()) * n ^ 0.5
end

-- Integrates a density on [low, high] by the trapezoidal rule. Returns the distribution function.
local function integrated(d, low, high)
   local n = 20000
   local at = torch.linspace(low, high, n, options)
   local density = d:log_prob(at):exp()
   local step = (high - low) / (n - 1)
   local sums = torch.cumulative_trapezoid(density) * step
   local total = torch.cat {torch.zeros(1, options), sums}
   return function(x)
      local position = ((x - low) / step):clamp(0, n - 1.001)
      local below = position:floor()
      local k = below:long() + 1
      local share = position - below
      return total:take(k) * (1 - share) + total:take(k + 1) * share
   end
end

local one <const> = {
   D.Normal(t(1), 2), D.LogNormal(t(0), 0.5), D.HalfNormal(t(2)), D.Cauchy(t(1), 2), D.HalfCauchy(t(2)),
   D.Laplace(t(1), 2), D.Uniform(t(-1), 2), D.Gumbel(t(1), 2), D.Exponential(t(2)), D.Weibull(t(2), 1.5),
   D.Pareto(t(2), 3), D.Gamma(t(0.05), 2), D.Gamma(t(0.7), 2), D.Gamma(t(9.5), 0.5), D.Chi2(t(3)),
   D.InverseGamma(t(3), 2),
   D.GeneralizedPareto(t(1), 2, 0.3), D.GeneralizedPareto(t(1), 2, -0.3), D.GeneralizedPareto(t(1), 2, 0),
   D.Kumaraswamy(t(2), 3), D.ContinuousBernoulli(t(0.8)), D.ContinuousBernoulli(t(0.4999)),
   D.MixtureSameFamily(D.Categorical(t {0.3, 0.7}), D.Normal(t {-2, 1}, 1)),
   D.TransformedDistribution(D.Normal(t(0), 1), {D.AffineTransform(1, -2), D.SigmoidTransform()}),
}
-- Distributions that have no method cdf, which is integrated from the density. Nearly all draws lie in the given
-- interval.
local by_density <const> = {
   {D.Beta(t(2), 3), 0, 1}, {D.Beta(t(5), 1.5), 0, 1}, {D.StudentT(t(5), 1, 2), -120, 120},
   {D.FisherSnedecor(t(4), 9), 1e-9, 120}, {D.VonMises(t(1), 2), -math.pi, math.pi},
   {D.VonMises(t(-3), 0.3), -math.pi, math.pi}, {D.RelaxedBernoulli(2, t(0.3)), 1e-6, 1 - 1e-6},
   {D.LogitRelaxedBernoulli(0.5, t(0.3)), -60, 60},
}

describe("a sample", function()
   local n <const> = device.name == "cuda" and 3000 or 20000 -- the emulated GPU is slow, so it draws fewer numbers

   for _, d in ipairs(one) do
      it("has the distribution function of " .. tostring(d), function()
         torch.manual_seed(3)
         assert.is_true(distance(d:sample {n}, function(x) return d:cdf(x) end) < 1.95)
      end)
   end

   for _, row in ipairs(by_density) do
      it("has the density of " .. tostring(row[1]), function()
         torch.manual_seed(3)
         assert.is_true(distance(row[1]:sample {n}, integrated(table.unpack(row))) < 1.95)
      end)
   end

   it("is detected to be of another distribution", function()
      torch.manual_seed(3)
      local other = D.Beta(t(2.4), 3)
      assert.is_true(distance(D.Gamma(t(2), 1):sample {n}, function(x) return D.Gamma(t(2.3), 1):cdf(x) end) > 1.95)
      assert.is_true(distance(D.Beta(t(2), 3):sample {n}, integrated(other, 0, 1)) > 1.95)
   end)

   for _, d in ipairs {
      D.Bernoulli(t(0.3)), D.Binomial(12, t(0.3)), D.Binomial(60, t(0.7)), D.Geometric(t(0.3)), D.Poisson(t(4)),
      D.NegativeBinomial(t(2.5), 0.4), D.Categorical(t {0.1, 0.5, 0.4}),
   } do
      it("has the frequencies of " .. tostring(d), function()
         torch.manual_seed(3)
         local x = d:sample {n}:double()
         local first = torch.type(d):find "Categorical" and 1 or 0
         local last = d.support.upper_bound or x:max():item()
         last = torch.is_tensor(last) and last:item() or last
         local k = torch.arange(first, last + 1, options)
         local p = d:log_prob(k):exp()
         assert.is_true(p:sum():item() > 0.999)
         local found = x:unsqueeze(-1):eq(k):double():mean(1)
         local worst = ((found - p):abs() / (p * (1 - p) / n):sqrt():clamp {min = 1e-4}):max():item()
         assert.is_true(worst < 4.5, worst)
      end)
   end

   -- A uniform number in bfloat16 has only 256 possible values. If distributions used only these, Geometric with
   -- p = 0.25 would have the mean 4 instead of 3, and tails would be missing.
   local of_half <const> = {
      Geometric = {0.25, 3, 12 ^ 0.5}, Laplace = {0, 0, 2 ^ 0.5, 1}, Gumbel = {0, 0.5772, math.pi / 6 ^ 0.5, 1},
      LogitRelaxedBernoulli = {1, 0, math.pi / 3 ^ 0.5, 0.5},
   }
   for name, row in sorted(of_half) do
      it("has the mean and the deviation of " .. name .. " in half types", function()
         for _, dtype in ipairs {"float16", "bfloat16"} do
            local second = row[4] and torch.tensor(row[4], {dtype = dtype})
            local d = D[name](torch.tensor(row[1], {dtype = dtype}), second)
            torch.manual_seed(5)
            local x = d:sample {n}
            assert.equal(dtype, x.dtype)
            assert.close(row[2], x:double():mean(), 5 * row[3] / n ^ 0.5)
            assert.close(row[3], x:double():std(), 8 * row[3] / n ^ 0.5)
         end
      end)
   end

   for _, d in ipairs {
      D.Dirichlet(t {{0.5, 1, 2}, {5, 3, 0.2}}), D.Multinomial(6, t {0.2, 0.3, 0.5}), D.OneHotCategorical(t {0.2, 0.8}),
      D.MultivariateNormal(t {1, 2}, t {{2, 0.5}, {0.5, 1}}),
      D.MultivariateNormal {loc = t {1, 2}, precision_matrix = t {{2, 0.5}, {0.5, 1}}},
      D.LowRankMultivariateNormal(t {1, 2}, t {{1}, {0.5}}, t {0.3, 0.2}), D.Wishart(t(4), t {{2, 0.5}, {0.5, 1}}),
      D.Independent(D.Normal(t {1, 2}, 2), 1), D.Normal(t {1, 2}, t {{1}, {2}}),
      D.MixtureSameFamily(D.Categorical(t {0.3, 0.7}), D.Independent(D.Normal(t {{1, 2}, {3, 4}}, 1), 1)),
   } do
      it("has the mean and the variance of " .. torch.type(d), function()
         torch.manual_seed(4)
         local x = d:sample {n}
         assert.same({n, table.unpack(d.mean.shape)}, x.shape)
         local sd = (d.variance / n):sqrt()
         assert.is_true(((x:mean(1) - d.mean):abs() / sd):max():item() < 4.5)
         assert.is_true((x:var(1) / d.variance - 1):abs():max():item() < 15 / n ^ 0.5)
         assert.is_true(d.support:check(x):all():item())
      end)
   end

   it("of LKJCholesky has the variance of correlations", function()
      torch.manual_seed(4)
      local d = D.LKJCholesky(3, t(1.5))
      local l = d:sample {n}
      local r = l:matmul(l.mT)
      assert.close(torch.ones(n, 3, options), r:diagonal(0, -2, -1), 1e-12)
      for _, at in ipairs {{2, 1}, {3, 1}, {3, 2}} do
         local x = r:select(-1, at[2]):select(-1, at[1])
         assert.is_true(math.abs(x:mean():item()) < 2 / n ^ 0.5)
         -- For a correlation x, (x + 1) / 2 has a beta distribution. Both of its parameters are concentration - 1 + dim
         -- / 2.
         assert.is_true(math.abs(x:var():item() - 1 / (2 * 2 + 1)) < 1.4 / n ^ 0.5)
      end
   end)

   it("repeats with a seed", function()
      for _, d in ipairs {D.Gamma(2, 1), D.Beta(2, 3), D.Binomial(50, 0.5), D.Categorical {0.3, 0.7},
                          D.VonMises(0, 1)} do
         torch.manual_seed(8)
         local x = d:sample {5}
         torch.manual_seed(8)
         assert.is_true(torch.equal(x, d:sample {5}))
         assert.is_false(torch.equal(d:sample({200}):double(), d:sample({200}):double()))
      end
   end)

   it("has no gradient, and rsample has one", function()
      local scale = t(2):requires_grad_()
      for _, d in ipairs {D.Normal(0, scale), D.Gamma(2, scale), D.Beta(2, scale),
                          D.Independent(D.Normal(scale:expand {2}, 1), 1)} do
         assert.is_false(d:sample({2}).requires_grad)
         assert.is_true(d:rsample({2}).requires_grad)
         assert.is_true(d.has_rsample)
      end
   end)
end)

describe("rsample", function()
   -- Checks implicit gradients. For any distribution of single numbers, the sample x = F^-1(u; p) has the derivative
   -- -(dF/dp) / (dF/dx) with respect to the parameter p.
   local function implicit(make, params, cdf)
      local inputs = {}
      for i, p in ipairs(params) do inputs[i] = t(p):requires_grad_() end
      torch.manual_seed(2)
      local d = make(table.unpack(inputs))
      local x = d:rsample {6}
      local grads = {torch.autograd.grad(x, inputs, {grad_outputs = torch.ones_like(x), retain_graph = true})}
      local at, density = x:detach(), d:log_prob(x:detach()):detach():exp()
      for i, p in ipairs(params) do
         local h = 1e-5 * math.max(1, math.abs(p))
         local function f(q)
            local list = {}
            for j, v in ipairs(params) do list[j] = t(j == i and q or v) end
            return cdf(make(table.unpack(list)), at)
         end
         local sum = -((f(p + h) - f(p - h)) / (2 * h) / density):sum()
         assert.close(sum, grads[i], 1e-4 * math.max(1, math.abs(sum:item())))
      end
   end
   local function own(d, x) return d:cdf(x) end

   for name, params in pairs {
      Normal = {1, 2}, LogNormal = {0.3, 0.5}, Cauchy = {1, 2}, Laplace = {1, 2}, Uniform = {-1, 2}, Gumbel = {1, 2},
      Exponential = {2}, Weibull = {2, 1.5}, Pareto = {2, 3}, Gamma = {1.7, 2}, Chi2 = {3}, InverseGamma = {3, 2},
      Kumaraswamy = {2, 3}, GeneralizedPareto = {1, 2, 0.3}, ContinuousBernoulli = {0.8}, HalfNormal = {2},
      HalfCauchy = {2},
   } do
      it("has the gradient that its cdf implies: " .. name, function() implicit(D[name], params, own) end)
   end

   it("has the gradient that its cdf implies for small and large shapes of Gamma", function()
      for _, a in ipairs {0.3, 20, 400} do implicit(D.Gamma, {a, 1}, own) end
   end)

   it("has the gradient that Beta's integral implies", function()
      implicit(D.Beta, {2, 3}, function(d, x)
         local n = 5000
         local at = ((torch.arange(n, options) + 0.5) / n):unsqueeze(-1) * x
         return d:log_prob(at):exp():mean(1) * x
      end)
   end)

   it("has gradients with the right expected value, which sums of gammas give for Dirichlet", function()
      torch.manual_seed(7)
      local a = t {0.6, 1.5, 3}:requires_grad_()
      local d = D.Dirichlet(a)
      local weight = t {1, -2, 0.5}
      local n = 40000
      local x = d:rsample {n}
      local value = (x * weight):square():sum() / n
      local found = torch.autograd.grad(value, {a})
      -- E[x_i^2] = a_i (a_i + 1) / (s (s + 1))
      local b = t {0.6, 1.5, 3}:requires_grad_()
      local s = b:sum()
      local exact = (weight:square() * b * (b + 1) / (s * (s + 1))):sum()
      local expected = torch.autograd.grad(exact, {b})
      assert.close(expected, found, 0.02)
   end)

   it("keeps gradients where numbers of Gamma underflow", function()
      torch.manual_seed(1)
      local a = torch.full({200}, 1e-3):requires_grad_()
      local x = D.Gamma(a, 1):rsample()
      assert.is_true(x:gt(0):all():item())
      x:sum():backward()
      assert.is_true(a.grad:isfinite():all():item())
   end)

   for name, make in pairs {
      MultivariateNormal = function(loc, l)
         return D.MultivariateNormal {loc = loc, scale_tril = l:tril(), validate_args = false}
      end,
      ["MultivariateNormal of a precision matrix"] = function(loc, l)
         return D.MultivariateNormal {loc = loc, precision_matrix = l:matmul(l.mT) + torch.eye(2, options)}
      end,
      LowRankMultivariateNormal = function(loc, l) return D.LowRankMultivariateNormal(loc, l, loc:exp()) end,
      LogisticNormal = function(loc, l) return D.LogisticNormal(loc, l:exp()) end,
      ExpRelaxedCategorical = function(loc) return D.ExpRelaxedCategorical {temperature = 0.7, logits = loc} end,
      RelaxedOneHotCategorical = function(loc) return D.RelaxedOneHotCategorical {temperature = 0.7, logits = loc} end,
      RelaxedBernoulli = function(loc) return D.RelaxedBernoulli {temperature = 0.7, logits = loc} end,
      Independent = function(loc, l) return D.Independent(D.Normal(loc, l:exp()), 1) end,
   } do
      it("passes a gradient check: " .. name, function()
         local loc, l = t({0.3, -0.5}):requires_grad_(), t({{1.1, 0.2}, {0.4, 0.9}}):requires_grad_()
         assert.is_true(torch.autograd.gradcheck(function(a, b)
            torch.manual_seed(0)
            return make(a, b):rsample {3} + 0 * b:sum()
         end, {loc, l}))
      end)
   end

   it("is refused where there are no gradients", function()
      assert.raises("distributions.Poisson: rsample is not defined; sample draws without gradients",
         function() D.Poisson(1):rsample() end)
      assert.is_false(D.Poisson(1).has_rsample)
   end)
end)

describe("log_prob", function()
   for name, make in pairs {
      Normal = function(a, b, x) return D.Normal(a, b:exp()):log_prob(x) end,
      Gamma = function(a, b, x) return D.Gamma(a:exp(), b:exp()):log_prob(x:exp()) end,
      Beta = function(a, b, x) return D.Beta(a:exp(), b:exp()):log_prob(x:sigmoid()) end,
      StudentT = function(a, b, x) return D.StudentT(a:exp(), b, 2):log_prob(x) end,
      Categorical = function(a) return D.Categorical {logits = a}:log_prob(2) end,
      NegativeBinomial = function(a, b) return D.NegativeBinomial {total_count = a:exp(), logits = b}:log_prob(3) end,
      MultivariateNormal = function(a, b, x)
         return D.MultivariateNormal(a, b:exp():diag_embed() + 0.1):log_prob(x)
      end,
   } do
      it("passes a gradient check: " .. name, function()
         local a, b, x = t({0.3, -0.5}), t({0.1, 0.4}), t({0.7, -1.1})
         for _, v in ipairs {a, b, x} do v:requires_grad_() end
         local function fn(...) return make(...) + 0 * (b + x):sum() end
         assert.is_true(torch.autograd.gradcheck(fn, {a, b, x}))
         assert.is_true(torch.autograd.gradgradcheck(fn, {a, b, x}))
      end)
   end

   it("broadcasts a sample with the batch", function()
      local d = D.Normal(torch.zeros(2, 3), 1)
      assert.same({4, 2, 3}, d:log_prob(torch.zeros(4, 1, 3)).shape)
      assert.same({2, 3}, d:log_prob(0).shape)
      assert.same({5, 2}, D.Categorical(torch.ones(2, 3)):log_prob(torch.ones(5, 1)).shape)
   end)
end)
