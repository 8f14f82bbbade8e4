-- Tests the properties, shapes and dtypes of distributions, empty batches, and arguments that are refused.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local D = torch.distributions
local constraints = D.constraints

-- Returns one distribution of each class. Each has the batch shape (2).
local function all()
   local t = torch.tensor
   local rows = t {{0.2, 0.8}, {0.5, 0.5}}
   return {
      D.Bernoulli(t {0.2, 0.5}), D.Beta(t {0.5, 2}, 3), D.Binomial(5, t {0.2, 0.5}), D.Categorical(rows),
      D.Cauchy(t {0, 1.0}, 2), D.Chi2(t {1.0, 3}), D.ContinuousBernoulli(t {0.2, 0.5}), D.Dirichlet(rows),
      D.Exponential(t {1.0, 2}), D.FisherSnedecor(t {3.0, 5}, 7), D.Gamma(t {0.3, 2}, 2),
      D.GeneralizedPareto(0, t {1.0, 2}, 0.2), D.Geometric(t {0.3, 0.7}), D.Gumbel(t {0.0, 1}, 2),
      D.HalfCauchy(t {1.0, 2}), D.HalfNormal(t {1.0, 2}), D.Independent(D.Normal(torch.zeros(2, 3), 1), 1),
      D.InverseGamma(t {3.0, 4}, 2), D.Kumaraswamy(t {1.5, 2}, 3), D.LKJCholesky(3, t {1.0, 2}),
      D.Laplace(t {0.0, 1}, 2), D.LogNormal(t {0.0, 1}, 0.5), D.LogisticNormal(torch.zeros(2, 2), 1),
      D.LowRankMultivariateNormal(torch.zeros(2, 3), torch.ones(3, 1), torch.ones(3)),
      D.MixtureSameFamily(D.Categorical(t {0.3, 0.7}), D.Normal(torch.zeros(2, 2), t {1.0, 2})),
      D.Multinomial(5, rows), D.MultivariateNormal(torch.zeros(2, 3), torch.eye(3)),
      D.NegativeBinomial(t {3.0, 4}, 0.4), D.Normal(t {0, 1.0}, 2), D.OneHotCategorical(rows),
      D.OneHotCategoricalStraightThrough(rows), D.Pareto(t {1.0, 2}, 3), D.Poisson(t {1.0, 20}),
      D.RelaxedBernoulli(0.5, t {0.2, 0.8}), D.LogitRelaxedBernoulli(0.5, t {0.2, 0.8}),
      D.RelaxedOneHotCategorical(0.5, rows), D.ExpRelaxedCategorical(0.5, rows), D.StudentT(t {3.0, 5}),
      D.TransformedDistribution(D.Normal(t {0.0, 0}, 1), D.ExpTransform()), D.Uniform(t {0.0, 1}, 3),
      D.VonMises(t {0.0, 1}, 2), D.Weibull(t {1.0, 2}, 1.5), D.Wishart(t {3.0, 4}, torch.eye(2)),
   }
end

local function name_of(d) return torch.type(d):match "[^.]+$" end

describe("every distribution", function()
   it("is in the list of this file", function()
      local names = {}
      for _, d in ipairs(all()) do names[name_of(d)] = true end
      for name, value in pairs(D) do
         if torch.isinstance(value, torch.Size) then error(name) end
         local is_class = type(value) == "table" and rawget(value, "__init")
         local of = is_class and value
         if of and pcall(rawget, of, "_getters") and rawget(of, "_getters")
            and name ~= "Distribution" and name ~= "ExponentialFamily" then
            assert.is_true(names[name], name)
         end
      end
   end)

   it("draws samples of its shape, which are in the support and have a log_prob", function()
      torch.manual_seed(2)
      for _, d in ipairs(all()) do
         for _, size in ipairs {{}, {3}, {2, 3}} do
            local x = d:sample(size)
            local shape = {table.unpack(size)}
            table.move(d.batch_shape, 1, #d.batch_shape, #shape + 1, shape)
            assert.same(shape, d:log_prob(x).shape, name_of(d))
            table.move(d.event_shape, 1, #d.event_shape, #shape + 1, shape)
            assert.same(shape, x.shape, name_of(d))
         end
      end
   end)

   it("has an empty batch and draws no samples", function()
      for _, d in ipairs(all()) do
         local none = d:sample {0}
         assert.same(0, none:numel(), name_of(d))
         if name_of(d) ~= "MixtureSameFamily" then
            local empty = d:expand {0, 2}
            assert.equal(0, empty:sample({3}):numel(), name_of(d))
            assert.same({3, 0, 2}, empty:log_prob(empty:sample {3}).shape, name_of(d))
         end
      end
   end)

   it("expands, and keeps its values", function()
      for _, d in ipairs(all()) do
         local wide = d:expand {3, 2}
         assert.same({3, 2}, wide.batch_shape)
         assert.same(d.event_shape, wide.event_shape)
         assert.equal(torch.type(d), torch.type(wide))
         local x = d:sample()
         assert.close(d:log_prob(x):expand {3, 2}, wide:log_prob(x), 1e-5)
         assert.same({4, 3, 2, table.unpack(d.event_shape)}, wide:sample({4}).shape)
         local ok, mean = pcall(function() return d.mean end)
         if ok then assert.close(mean:expand(wide.mean.shape):nan_to_num(), wide.mean:nan_to_num(), 1e-6) end
         assert.same({2}, d.batch_shape)
      end
   end)

   it("prints its parameters", function()
      assert.equal("Normal(loc: 0.0, scale: 2.0)", tostring(D.Normal(0, 2)))
      assert.equal("Normal(loc: torch.Size([2]), scale: torch.Size([2]))", tostring(D.Normal(torch.zeros(2), 2)))
      for _, d in ipairs(all()) do assert.matches("^" .. name_of(d) .. "%(", tostring(d)) end
   end)

   it("is derived from Distribution and refuses unknown fields", function()
      for _, d in ipairs(all()) do
         assert.is_true(torch.isinstance(d, D.Distribution))
         assert.raises("no field 'means'; did you mean mean?", function() return d.means end)
      end
   end)
end)

describe("parameters", function()
   it("are numbers, lists or tensors by position or name, and broadcast", function()
      local a = D.Normal(torch.zeros(3), 1)
      local b = D.Normal {loc = {0, 0, 0}, scale = 1}
      assert.same({3}, a.batch_shape)
      assert.is_true(torch.equal(a.loc, b.loc) and torch.equal(a.scale, b.scale))
      assert.same({2, 3}, D.Normal(torch.zeros(2, 1), torch.ones(3)).batch_shape)
      assert.same({}, D.Normal(0, 1).batch_shape)
      assert.close(torch.tensor {0.25, 0.75}, D.Categorical({1, 3}).probs)
   end)

   it("have the dtype of the first tensor of floats", function()
      for _, dtype in ipairs {"float32", "float64"} do
         local x = torch.tensor(1.5, {dtype = dtype})
         for _, d in ipairs {D.Normal(0, x), D.Gamma(x, 2), D.Poisson(x), D.Beta(x, 2), D.Binomial(3, x / 2)} do
            assert.equal(dtype, d:sample().dtype)
            assert.equal(dtype, d:log_prob(1 - 0.5 * (d.support.is_discrete and 0 or 1)).dtype)
            assert.equal(dtype, d.mean.dtype)
         end
      end
      assert.equal("float32", D.Normal(torch.tensor {0, 1}, 1).loc.dtype)
   end)

   it("are refused with the distribution, the name, the constraint and the value", function()
      local text = "distributions.Normal: scale: expected values that satisfy GreaterThan(lower_bound=0), got -1"
      assert.raises(text, function() D.Normal(0, -1) end)
      assert.raises(text, function() D.Normal(0, torch.tensor {1.0, -1}) end)
      assert.raises("scale: expected values that satisfy GreaterThan(lower_bound=0), got nan",
         function() D.Normal(0, torch.nan) end)
      assert.raises("distributions.Normal: scale is missing", function() D.Normal(0) end)
      assert.raises('Normal: scale: expected a number, a list of numbers or a tensor of real numbers, got "x"',
         function() D.Normal(0, "x") end)
      assert.raises("distributions.Normal: unknown option sigma", function() D.Normal {loc = 0, sigma = 1} end)
      assert.raises("distributions.Normal: expected parameters that broadcast, got loc (2) and scale (3)",
         function() D.Normal(torch.zeros(2), torch.ones(3)) end)
      assert.raises("distributions.Bernoulli: expected one of probs, logits, got none", function() D.Bernoulli() end)
      assert.raises("distributions.Bernoulli: expected one of probs, logits, got 2", function() D.Bernoulli(0.5, 0) end)
      assert.raises("probs: expected values that satisfy Interval(lower_bound=0, upper_bound=1), got 1.5",
         function() D.Bernoulli(1.5) end)
      assert.raises("probs: expected values that satisfy", "got 1.5", function() D.ContinuousBernoulli(1.5) end)
      assert.raises("distributions.Categorical: probs: expected values that satisfy Simplex()",
         function() D.Categorical(torch.tensor {-1.0, 2}) end)
      assert.raises("distributions.Categorical: probs: expected at least 1 dimension",
         function() D.Categorical(0.5) end)
      assert.raises("distributions.Uniform: ", "expected values that satisfy", function() D.Uniform(1, 0) end)
      assert.raises("distributions.Geometric: probs: expected values greater than 0", function() D.Geometric(0) end)
      assert.raises("distributions.Binomial: total_count: expected values that satisfy", "got 2.5",
         function() D.Binomial(2.5, 0.5) end)
      assert.raises("covariance_matrix: expected 3 x 3 matrices",
         function() D.MultivariateNormal(torch.zeros(3), torch.eye(2)) end)
      assert.raises("covariance_matrix: expected values that satisfy PositiveDefinite()",
         function() D.MultivariateNormal(torch.zeros(2), -torch.eye(2)) end)
      assert.raises("expected one of covariance_matrix, precision_matrix, scale_tril, got none",
         function() D.MultivariateNormal(torch.zeros(2)) end)
      assert.raises("distributions.Wishart: df: expected values that satisfy",
         function() D.Wishart(1, torch.eye(3)) end)
      assert.raises("distributions.LKJCholesky: dim: expected an integer of at least 2, got 1",
         function() D.LKJCholesky(1) end)
      assert.raises("temperature: expected values greater than 0, got -1", function() D.RelaxedBernoulli(-1, 0.5) end)
      assert.raises("distributions.Independent: reinterpreted_batch_ndims: expected at most 1",
         function() D.Independent(D.Normal(torch.zeros(2), 1), 2) end)
      assert.raises("mixture_distribution: expected a Categorical",
         function() D.MixtureSameFamily(D.Normal(0, 1), D.Normal(torch.zeros(2), 1)) end)
      assert.raises("component_distribution: expected a batch_shape that fits the probabilities (2), got (3)",
         function() D.MixtureSameFamily(D.Categorical {0.5, 0.5}, D.Normal(torch.zeros(3), 1)) end)
      assert.raises("transforms[2]: expected a transform, got 3",
         function() D.TransformedDistribution(D.Normal(0, 1), {D.ExpTransform(), 3}) end)
   end)

   it("are not checked if validate_args is false, for one or for all", function()
      assert.equal(-1, D.Normal(0, -1, {validate_args = false}).scale:item())
      assert.equal(-1, D.Normal(0, -1, false).scale:item())
      D.Distribution.set_default_validate_args(false)
      local scale = D.Normal(0, -1).scale:item()
      D.Distribution.set_default_validate_args(true)
      assert.equal(-1, scale)
      assert.raises("GreaterThan", function() D.Normal(0, -1) end)
      assert.raises("value: expected a boolean", function() D.Distribution.set_default_validate_args(1) end)
      assert.equal(-math.huge, D.Uniform(0, 1, false):log_prob(2):item())
   end)
end)

describe("methods", function()
   local normal = D.Normal(torch.zeros(2), 1)

   it("refuse values outside of the support or of another shape", function()
      assert.raises("distributions.Exponential.log_prob: value: expected values that satisfy"
         .. " GreaterThanEq(lower_bound=0), got -1", function() D.Exponential(1):log_prob(-1) end)
      assert.raises("Normal.log_prob: value: expected a shape that broadcasts with batch_shape (2)",
         "got a float32 tensor of shape (3)", function() normal:log_prob(torch.zeros(3)) end)
      assert.raises("Dirichlet.log_prob: value: expected a shape", "event_shape (2)",
         function() D.Dirichlet({1, 2}):log_prob(torch.ones(3) / 3) end)
      assert.raises("Categorical.log_prob: value", "IntegerInterval(lower_bound=1, upper_bound=2), got 0",
         function() D.Categorical({1, 2}):log_prob(0) end)
      assert.raises("Normal.log_prob: value: expected a number or a tensor of real numbers, got \"x\"",
         function() normal:log_prob "x" end)
      local complex = torch.zeros(2, {dtype = "complex64", device = "cpu"})
      assert.raises("value: expected a number or a tensor of real numbers", function() normal:log_prob(complex) end)
      assert.raises("loc: expected a number, a list of numbers or a tensor of real numbers, got a complex64",
         function() D.Normal(complex, 1) end)
      assert.raises("Normal.icdf: value: expected values that satisfy", "got 1.5", function() normal:icdf(1.5) end)
      assert.raises("Bernoulli.log_prob", "Boolean(), got 0.5", function() D.Bernoulli(0.5):log_prob(0.5) end)
   end)

   it("refuse shapes that are none", function()
      for _, size in ipairs {"x", {1.5}, {-1}, {a = 1}, true} do
         assert.has_error(function() normal:sample(size) end)
      end
      assert.raises("distributions.Normal.sample: sample_shape: expected a list of sizes",
         function() normal:sample {-1} end)
      assert.raises("expected at most 1 argument", function() normal:sample({1}, {2}) end)
      assert.raises("expand", function() normal:expand {3} end)
   end)

   it("that a distribution lacks raise an error that says so", function()
      assert.raises("distributions.Beta: cdf is not defined", function() D.Beta(1, 2):cdf(0.5) end)
      assert.raises("distributions.LKJCholesky: mean is not defined", function() return D.LKJCholesky(2).mean end)
      assert.raises("distributions.Poisson: entropy is not defined", function() D.Poisson(1):entropy() end)
      assert.raises("distributions.Normal: enumerate_support is not defined", function() normal:enumerate_support() end)
   end)

   it("enumerate the support, with the batch's sizes or 1", function()
      assert.same({2, 3}, D.Bernoulli(torch.ones(3) / 2):enumerate_support().shape)
      assert.same({2, 1}, D.Bernoulli(torch.ones(3) / 2):enumerate_support(false).shape)
      assert.same({1, 2, 3}, D.Categorical({1, 1, 1}):enumerate_support():tolist())
      assert.same({3, 2, 3}, D.OneHotCategorical(torch.ones(2, 3)):enumerate_support().shape)
      assert.is_true(D.Bernoulli(0.5).has_enumerate_support)
      assert.is_false(normal.has_enumerate_support)
   end)

   it("count classes from 1", function()
      local d = D.Categorical(torch.tensor {0.0, 0.0, 1})
      assert.equal(3, d:sample():item())
      assert.equal(3, d.mode:item())
      assert.equal("int64", d:sample().dtype)
      assert.close(torch.tensor(0.0), d:log_prob(3), 1e-6)
      assert.close(torch.tensor(math.exp(1)), D.Categorical({1, 1}):perplexity() / 2 * math.exp(1), 1e-5)
   end)

   it("give entropies that enumerations and samples confirm", function()
      torch.manual_seed(1)
      for _, d in ipairs(all()) do
         local ok, entropy = pcall(function() return d:entropy() end)
         if ok then
            local log_prob = d:log_prob(d:sample {4000})
            local sd = log_prob:std(1) / 4000 ^ 0.5
            local gap = ((log_prob:mean(1) + entropy):abs() / (sd + 1e-3)):max():item()
            assert.is_true(gap < 5 or name_of(d):find "StraightThrough" ~= nil, name_of(d) .. " " .. gap)
         end
      end
   end)
end)

describe("ExponentialFamily", function()
   it("gives a class of users entropy and kl_divergence", function()
      local Mine = torch.class("Mine", D.ExponentialFamily)
      function Mine:__init(rate)
         self.rate = rate
         D.Distribution.__init(self, rate.shape)
      end
      function Mine:_natural_params() return {-self.rate} end
      function Mine._log_normalizer(_, x) return -(-x):log() end
      local p, q = Mine(torch.tensor {0.5, 2}), Mine(torch.tensor {1.5, 0.3})
      local a, b = D.Exponential(p.rate), D.Exponential(q.rate)
      assert.close(a:entropy(), p:entropy(), 1e-6)
      assert.close(D.kl_divergence(a, b), D.kl_divergence(p, q), 1e-6)
   end)

   it("has gradients by the parameters of both distributions", function()
      local function matrix(x) return x:matmul(x.mT) + torch.eye(2, {dtype = "float64"}) end
      local inputs = {}
      for i, x in ipairs {{{1.1, 0.2}, {0.4, 0.9}}, {{0.3, -0.5}, {0.2, 0.7}}, {3.0, 3.5}} do
         inputs[i] = torch.tensor(x, {dtype = "float64"}):requires_grad_()
      end
      assert.is_true(torch.autograd.gradcheck(function(a, b, df)
         local p, q = D.Wishart(df[1], matrix(a)), D.Wishart(df[2], matrix(b))
         return D.kl_divergence(p, q)
      end, inputs))
   end)
end)

describe("kl_divergence", function()
   it("is 0 for equal distributions and refuses pairs without a formula", function()
      for _, d in ipairs(all()) do
         local ok, kl = pcall(D.kl_divergence, d, d)
         if ok then
            assert.close(torch.zeros(2), kl, 1e-5)
         else
            assert.matches("distributions.kl_divergence: there is no formula for distributions", kl, 1, true)
         end
      end
      assert.raises("there is no formula for distributions.Beta and distributions.Bernoulli",
         function() D.kl_divergence(D.Beta(1, 2), D.Bernoulli(0.5)) end)
      assert.raises("distributions.kl_divergence: q: expected a distribution, got 3",
         function() D.kl_divergence(D.Beta(1, 2), 3) end)
      assert.raises("expected the same transforms", function()
         D.kl_divergence(D.LogNormal(0, 1), D.TransformedDistribution(D.Normal(0, 1), D.TanhTransform()))
      end)
   end)

   it("equals the mean over samples, and so do its gradients", function()
      torch.manual_seed(5)
      local loc = torch.tensor(0.5):requires_grad_()
      local p, q = D.Normal(loc, 1), D.Gumbel(0, 2)
      local kl = D.kl_divergence(p, q)
      local x = p:rsample {40000}
      local sampled = (p:log_prob(x) - q:log_prob(x)):mean()
      assert.close(kl, sampled, 0.02)
      local exact = torch.autograd.grad(kl, {loc})
      assert.close(exact, torch.autograd.grad(sampled, {loc}), 0.02)
   end)

   it("uses the rule of the nearest class", function()
      local Mine = torch.class("MyNormal", D.Normal)
      local p = Mine(0, 1)
      assert.close(D.kl_divergence(D.Normal(0, 1), D.Normal(1, 1)), D.kl_divergence(p, D.Normal(1, 1)))
      D.register_kl(Mine, D.Normal, function() return "mine" end)
      assert.equal("mine", D.kl_divergence(p, D.Normal(0, 1)))
      assert.equal(0, D.kl_divergence(D.Normal(0, 1), p):item())
      assert.raises("distributions.register_kl: p: expected a class of distributions, got 3",
         function() D.register_kl(3, Mine, print) end)
   end)
end)

describe("transforms", function()
   local cases <const> = {
      {D.ExpTransform(), {0.5, -1}}, {D.PowerTransform(2), {0.5, 1.5}}, {D.SigmoidTransform(), {0.5, -1}},
      {D.SoftplusTransform(), {0.5, -1}}, {D.TanhTransform(), {0.5, -1}}, {D.AffineTransform(1, -2), {0.5, -1}},
      {D.AffineTransform(torch.tensor {1.0, 2}, torch.tensor {3.0, -1}), {0.5, -1}},
      {D.ComposeTransform {D.AffineTransform(1, 2), D.TanhTransform()}, {0.2, -1}}, {D.ExpTransform().inv, {0.5, 2}},
      {D.IndependentTransform(D.ExpTransform(), 1), {0.5, -1}}, {D.StickBreakingTransform(), {0.5, -1}},
      {D.ReshapeTransform({2}, {1, 2}), {0.5, -1}}, {D.CumulativeDistributionTransform(D.Normal(0, 1)), {0.5, -1}},
      {D.CatTransform {transforms = {D.ExpTransform(), D.TanhTransform()}}, {0.5, -1}},
      {D.StackTransform {transforms = {D.ExpTransform(), D.TanhTransform()}}, {0.5, -1}},
      {D.CorrCholeskyTransform(), {0.5, -1, 0.3}}, {D.identity_transform, {0.5, -1}},
   }

   it("are inverted by inv, as a method and as a transform", function()
      for _, case in ipairs(cases) do
         local t, x = case[1], torch.tensor(case[2])
         local y = t(x)
         assert.close(x, t:inv(y), 1e-5)
         assert.close(x, t.inv(y), 1e-5)
         assert.equal(t, t.inv.inv)
         assert.is_true(t.domain:check(x):all():item(), tostring(t))
         assert.is_true(t.codomain:check(y):all():item(), tostring(t))
         assert.same(y.shape, torch.Size(t:forward_shape(x.shape)))
         assert.same(x.shape, torch.Size(t:inverse_shape(y.shape)))
         assert.is_true(t.bijective)
      end
   end)

   it("have the logarithm of their Jacobian's determinant", function()
      for _, case in ipairs(cases) do
         local t, x = case[1], torch.tensor(case[2], {dtype = "float64"})
         local function flat(v)
            local y = t(v):flatten()
            if torch.type(t):find "CorrCholesky" then return y:take(torch.tensor {4, 7, 8}) end
            return y:narrow(1, 1, math.min(y:numel(), x:numel()))
         end
         local jacobian = torch.autograd.functional.jacobian(flat, x)
         local _, expected = torch.linalg.slogdet(jacobian)
         local found = t:log_abs_det_jacobian(x, t(x))
         assert.close(expected, found:sum():double(), 1e-5)
         local back = t.inv:log_abs_det_jacobian(t(x), x)
         assert.close(-found, back, 1e-9)
      end
   end)

   it("without an inverse Jacobian are right, too", function()
      local x = torch.tensor {0.5, -1}
      assert.close(x:softmax(1), D.SoftmaxTransform()(x))
      assert.close(torch.tensor {0.5, 1}, D.AbsTransform()(x))
      local m = torch.tensor {{0.1, 9}, {0.5, -0.3}}
      local l = D.LowerCholeskyTransform()(m)
      assert.is_true(constraints.lower_cholesky:check(l):item())
      assert.close(m:tril(), D.LowerCholeskyTransform():inv(l), 1e-6)
      local p = D.PositiveDefiniteTransform()(m)
      assert.close(l:matmul(l.mT), p)
      assert.close(m:tril(), D.PositiveDefiniteTransform():inv(p), 1e-5)
      assert.is_false(D.SoftmaxTransform().bijective)
      assert.raises("distributions.SoftmaxTransform: log_abs_det_jacobian is not defined",
         function() D.SoftmaxTransform():log_abs_det_jacobian(x, x) end)
   end)

   it("return the argument of their last result with a cache", function()
      local t = D.TanhTransform {cache_size = 1}
      local x = torch.tensor(20.0)
      local y = t(x)
      assert.equal(x, t:inv(y))
      assert.equal(math.huge, D.TanhTransform():inv(y):item())
      assert.equal(x, t.inv(y))
      local again = D.TanhTransform():with_cache()
      assert.equal(x, again:inv(again(x)))
      assert.raises("cache_size: expected 0 or 1, got 2", function() D.ExpTransform {cache_size = 2} end)
   end)

   it("compare equal by kind and parameters", function()
      assert.equal(D.ExpTransform(), D.ExpTransform())
      assert.not_equal(D.ExpTransform(), D.TanhTransform())
      assert.equal(D.AffineTransform(1, torch.tensor(2)), D.AffineTransform(1, torch.tensor(2)))
      assert.not_equal(D.AffineTransform(1, 2), D.AffineTransform(1, 3))
      assert.equal(D.ExpTransform().inv, D.ExpTransform().inv)
      assert.equal(D.ComposeTransform {D.ExpTransform()}, D.ComposeTransform {D.ExpTransform()})
   end)

   it("refuse wrong arguments", function()
      assert.raises("distributions.ExpTransform: x: expected a tensor", function() D.ExpTransform() "x" end)
      assert.raises("CorrCholeskyTransform: x: expected D (D - 1) / 2 numbers, got 2",
         function() D.CorrCholeskyTransform()(torch.zeros(2)) end)
      assert.raises("ReshapeTransform: expected shapes of as many elements",
         function() D.ReshapeTransform({2}, {3}) end)
      assert.raises("ReshapeTransform: shape: expected a shape that ends with (2), got (3)",
         function() D.ReshapeTransform({2}, {2, 1})(torch.zeros(3)) end)
      assert.raises("parts[1]: expected a transform", function() D.ComposeTransform {3} end)
      assert.raises("CatTransform: x: expected a tensor of size 2 in dimension 1",
         function() D.CatTransform({transforms = {D.ExpTransform(), D.ExpTransform()}})(torch.zeros(3)) end)
      assert.raises("distributions.AffineTransform: scale is missing", function() D.AffineTransform(1) end)
      assert.raises("no field 'invers'", function() return D.ExpTransform().invers end)
   end)

   it("make distributions of other event shapes", function()
      local d = D.TransformedDistribution(D.Normal(torch.zeros(3, 4), 1), D.StickBreakingTransform())
      assert.same({3}, d.batch_shape)
      assert.same({5}, d.event_shape)
      local x = d:sample {2}
      assert.same({2, 3}, d:log_prob(x).shape)
      local r = D.TransformedDistribution(D.Normal(torch.zeros(4), 1), D.ReshapeTransform({4}, {2, 2}))
      assert.same({2, 2}, r:sample().shape)
      assert.same({}, r:log_prob(torch.zeros(2, 2)).shape)
      local m = D.TransformedDistribution(D.MultivariateNormal(torch.zeros(2), torch.eye(2)), D.ExpTransform())
      assert.close(m:log_prob(torch.ones(2)), D.Independent(D.LogNormal(torch.zeros(2), 1), 1):log_prob(torch.ones(2)))
   end)
end)

describe("constraints", function()
   it("tell which values belong to them", function()
      local function check(constraint, values, expected)
         assert.same(expected, constraint:check(torch.tensor(values)):tolist(), tostring(constraint))
      end
      check(constraints.boolean, {0, 1, 2}, {true, true, false})
      check(constraints.nonnegative_integer, {0, 1.5, -1}, {true, false, false})
      check(constraints.positive_integer, {0, 1, 2.5}, {false, true, false})
      check(constraints.integer_interval(1, 3), {0, 1, 3, 4}, {false, true, true, false})
      check(constraints.real, {0, torch.nan, torch.inf}, {true, false, true})
      check(constraints.greater_than_eq(1), {0, 1, torch.nan}, {false, true, false})
      check(constraints.less_than(torch.tensor {1, 2}), {1, 1}, {false, true})
      check(constraints.half_open_interval(0, 1), {0, 1}, {true, false})
      check(constraints.one_hot, {{0, 1}, {1, 1}}, {true, false})
      check(constraints.simplex, {{0.5, 0.5}, {0.6, 0.5}}, {true, false})
      check(constraints.multinomial(3), {{1, 2}, {2, 2}}, {true, false})
      check(constraints.symmetric, {{1, 2}, {2, 1}}, true)
      check(constraints.square, {{1, 2}}, false)
      check(constraints.positive_semidefinite, {{1.0, 1}, {1, 1}}, true)
      check(constraints.positive_definite, {{1.0, 0}, {0, -1}}, false)
      check(constraints.lower_triangular, {{1, 2}, {2, 1}}, false)
      check(constraints.lower_cholesky, {{1.0, 0}, {2, 1}}, true)
      check(constraints.corr_cholesky, {{1.0, 0}, {0.6, 0.8}}, true)
      check(constraints.stack({constraints.positive, constraints.real}, 1), {-1, -1}, {false, true})
      check(constraints.cat({constraints.positive, constraints.real}, 1, {lengths = {1, 2}}), {-1, -1, -1},
         {false, true, true})
   end)

   it("print, and refuse wrong arguments", function()
      assert.equal("Interval(lower_bound=0, upper_bound=1)", tostring(constraints.unit_interval))
      assert.equal("Simplex()", tostring(constraints.simplex))
      assert.raises("constraints.interval: upper_bound is missing", function() constraints.interval(1) end)
      assert.raises("constraints: no field 'positiv'", function() return constraints.positiv end)
      assert.is_true(constraints.is_dependent(constraints.dependent))
      assert.is_false(constraints.is_dependent(constraints.real))
      local exp = D.ExpTransform()
      assert.raises("base_constraint: expected a constraint", function() constraints.independent(exp, 1) end)
   end)

   it("have transforms whose results satisfy them", function()
      local lists <const> = {
         biject_to = {"real", "positive", "nonnegative", "unit_interval", "simplex", "corr_cholesky", "real_vector"},
         transform_to = {"real", "positive", "nonnegative", "unit_interval", "simplex", "corr_cholesky",
                         "lower_cholesky", "positive_definite", "positive_semidefinite"},
      }
      for registry, names in sorted(lists) do
         for _, name in ipairs(names) do
            local constraint = constraints[name]
            local t = D[registry](constraint)
            local x = constraint.event_dim == 2 and not name:find "corr" and torch.randn(3, 3) or torch.randn(3)
            assert.is_true(constraint:check(t(x)):all():item(), name)
            if registry == "biject_to" then assert.is_true(t.bijective) end
         end
      end
      for _, c in ipairs {constraints.interval(1, 3), constraints.less_than(-2), constraints.greater_than(5),
                          constraints.half_open_interval(torch.tensor(1.0), torch.tensor(2.0)),
                          constraints.independent(constraints.positive, 1)} do
         assert.is_true(c:check(D.biject_to(c)(torch.randn(4))):all():item())
      end
      local cat = constraints.cat({constraints.positive, constraints.less_than(0)}, -1, {lengths = {2, 2}})
      assert.is_true(cat:check(D.transform_to(cat)(torch.randn(4))):all():item())
      assert.raises("distributions.biject_to: there is no transform to Boolean()",
         function() D.biject_to(constraints.boolean) end)
      assert.raises("distributions.biject_to: constraint: expected a constraint, got 3", function() D.biject_to(3) end)
      local Mine = torch.class("MyConstraint", constraints.Constraint)
      D.transform_to:register(Mine, function() return D.TanhTransform() end)
      assert.equal(D.TanhTransform(), D.transform_to(Mine()))
   end)
end)

describe("distributions under modes", function()
   it("keep no values of inference_mode, which have no gradients", function()
      local probs = torch.tensor {0.3, 0.7}:requires_grad_()
      local d = D.Bernoulli(probs)
      torch.inference_mode(function() return d:log_prob(1), d.logits end)
      d:log_prob(1):sum():backward()
      assert.close({1 / 0.3, 1 / 0.7}, probs.grad, 1e-5)
   end)

   it("compute as exactly under autocast", function()
      local cpu = {device = "cpu"}
      local cov = torch.tensor({{1.301, 0.301}, {0.301, 1.301}}, cpu)
      local zeros, ones = torch.zeros(2, cpu), torch.ones(2, cpu)
      local function values()
         torch.manual_seed(0)
         local d = D.MultivariateNormal(zeros, cov)
         local low = D.LowRankMultivariateNormal(zeros, torch.full({2, 1}, 1.001, cpu), ones)
         return {d:sample(), d.covariance_matrix, low:sample(), low:log_prob(ones),
            D.Wishart(3, cov):sample(), D.kl_divergence(low, low)}
      end
      local plain = values()
      local lower = torch.autocast("cpu", values)
      for i, x in ipairs(plain) do assert.close(x, lower[i], 0) end
   end)

   it("refuse a shape with a gap, which would lose the sizes after it", function()
      for _, method in ipairs {"sample", "rsample", "expand"} do
         local d = D.Normal(0, 1)
         assert.raises("distributions.Normal." .. method, "expected a list of sizes",
            function() d[method](d, {[1] = 3, [3] = 2}) end)
      end
   end)

   it("refuse limits of ContinuousBernoulli that are not two in order", function()
      for _, lims in ipairs {{0.4}, {0.6, 0.4}, {}} do
         assert.raises("distributions.ContinuousBernoulli: lims: expected two numbers, the smaller first",
            function() D.ContinuousBernoulli {probs = 0.3, lims = lims} end)
      end
   end)

   it("refuse a number for a covariance matrix", function()
      assert.raises("distributions.MultivariateNormal: covariance_matrix: expected 1 x 1 matrices",
         function() D.MultivariateNormal(0, 1) end)
      assert.raises("distributions.Wishart: covariance_matrix: expected 1 x 1 matrices", function() D.Wishart(3, 1) end)
   end)
end)
