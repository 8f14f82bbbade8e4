-- kl.lua - Kullback-Leibler divergences in closed form: a table with a function for each pair of
-- distributions. The library's distributions are named by strings, so that only the distributions
-- that a program uses are loaded.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local base = require "tlua.distributions.Distribution"
local shapes = require "tlua.distributions.shapes"

local F = torch.nn.functional
local inf <const>, euler <const> = math.huge, 0.57721566490153286061
local M = {}

-- rules[p][q] is the function that computes the divergence for a pair of classes. p and q are short
-- names of the library's classes, or user-defined classes.
local rules = {}

-- Stores the function for p and each class that the text `q` names.
local function rule(p, q, compute)
   rules[p] = rules[p] or {}
   for name in q:gmatch "%S+" do rules[p][name] = compute end
end

-- Returns the keys under which a distribution's rules may be stored: its class and the class's
-- ancestors, each both as a class and as a short name.
local function keys_of(distribution)
   local list, cls = {}, getmetatable(distribution)
   while cls do
      list[#list + 1] = cls
      list[#list + 1] = cls.__name:match "^distributions%.(.*)"
      cls = getmetatable(cls).parent
   end
   return list
end

local function find(p, q)
   local keys = keys_of(q)
   for _, first in ipairs(keys_of(p)) do
      for _, second in ipairs(rules[first] and keys or {}) do
         if rules[first][second] then return rules[first][second] end
      end
   end
end

local function check(who, name, value)
   if not class.isinstance(value, base.Distribution) then
      args.refuse(who, name, "a distribution", value)
   end
end

--- Returns the Kullback-Leibler divergence of q from p, the expected value of
--- log p(x) - log q(x) for x drawn from p, for each distribution of the batch.
---
---     local distributions = torch.distributions
---     local p, q = distributions.Normal(0, 1), distributions.Normal(1, 2)
---     print(distributions.kl_divergence(p, q))
---     --> tensor(0.4431)
---@param p distributions.Distribution
---@param q distributions.Distribution
---@return Tensor
function M.kl_divergence(p, q, ...)
   local who = "distributions.kl_divergence"
   if select("#", ...) > 0 then
      torch.raise(("%s: expected 2 arguments, got %d"):format(who, 2 + select("#", ...)))
   end
   check(who, "p", p)
   check(who, "q", q)
   local compute = find(p, q)
   if not compute then
      torch.raise(("%s: there is no formula for %s and %s"):format(who, torch.type(p),
         torch.type(q)))
   end
   return compute(p, q)
end

--- Sets the function that computes kl_divergence for two classes and all classes derived from them.
---
---     local distributions = torch.distributions
---     local Mine = torch.class("Mine", distributions.Normal)
---     local function distance(p, q) return (p.loc - q.loc):abs() end
---     distributions.register_kl(Mine, Mine, distance)
---     print(distributions.kl_divergence(Mine(0, 1), Mine(3, 1)))
---     --> tensor(3.)
---@param p table  a class of distributions
---@param q table  a class of distributions
---@param compute fun(p: distributions.Distribution, q: distributions.Distribution): Tensor
function M.register_kl(p, q, compute)
   for name, cls in pairs {p = p or false, q = q or false} do
      if not class.issubclass(cls, base.Distribution) then
         args.refuse("distributions.register_kl", name, "a class of distributions", cls or nil)
      end
   end
   if not args.is_callable(compute) then
      args.refuse("distributions.register_kl", "compute", "a function", compute)
   end
   rules[p] = rules[p] or {}
   rules[p][q] = compute
end

-- One family --------------------------------------------------------------------------------------

local function where_infinite(condition, value) return torch.where(condition, inf, value) end

-- Returns p (log p - log q), given log p - log q as `difference`. The result is also right where p
-- or q is 0.
local function bernoulli_term(p, q, difference)
   return torch.where(p:eq(0), 0, where_infinite(q:eq(0), p * difference))
end
rule("Bernoulli", "Bernoulli", function(p, q)
   local soft = F.softplus
   return bernoulli_term(p.probs, q.probs, soft(-q.logits) - soft(-p.logits))
      + bernoulli_term(1 - p.probs, 1 - q.probs, soft(q.logits) - soft(p.logits))
end)
rule("Beta", "Beta", function(p, q)
   local a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
   local of_p, of_q = a + b, c + d
   return c:lgamma() + d:lgamma() + of_p:lgamma() - a:lgamma() - b:lgamma() - of_q:lgamma()
      + (a - c) * a:digamma() + (b - d) * b:digamma() + (of_q - of_p) * of_p:digamma()
end)
rule("Binomial", "Binomial", function(p, q)
   if p.total_count:lt(q.total_count):any():item() then
      torch.raise("distributions.kl_divergence: q: expected a Binomial whose total_count is at most"
         .. " p's, got a larger one")
   end
   local kl = p.total_count
      * (p.probs * (p.logits - q.logits) + (-p.probs):log1p() - (-q.probs):log1p())
   return where_infinite(p.total_count:gt(q.total_count), kl)
end)
rule("Categorical", "Categorical", function(p, q)
   return bernoulli_term(p.probs, q.probs, p.logits - q.logits):sum(-1)
end)
rule("OneHotCategorical", "OneHotCategorical", function(p, q)
   return M.kl_divergence(p._categorical, q._categorical)
end)
rule("ContinuousBernoulli", "ContinuousBernoulli", function(p, q)
   return p.mean * (p.logits - q.logits) + p._log_norm + (-p._inner):log1p() - q._log_norm
      - (-q._inner):log1p()
end)
rule("Dirichlet", "Dirichlet", function(p, q)
   local a, b = p.concentration, q.concentration
   local of_p = a:sum(-1)
   return of_p:lgamma() - b:sum(-1):lgamma() - (a:lgamma() - b:lgamma()):sum(-1)
      + ((a - b) * (a:digamma() - of_p:digamma():unsqueeze(-1))):sum(-1)
end)
rule("Exponential", "Exponential", function(p, q)
   local ratio = q.rate / p.rate
   return ratio - 1 - ratio:log()
end)
rule("ExponentialFamily", "ExponentialFamily", function(p, q)
   if getmetatable(p) ~= getmetatable(q) then
      torch.raise(("distributions.kl_divergence: there is no formula for %s and %s"):format(
         torch.type(p), torch.type(q)))
   end
   local normalizer, gradients, params = p:_expected_statistics()
   local of_q = q:_natural_params()
   local result = q:_log_normalizer(table.unpack(of_q)) - normalizer
   for i, x in ipairs(params) do
      local more = math.max(x:dim() - #p.batch_shape, of_q[i]:dim() - #q.batch_shape)
      result = result - shapes.sum_last((of_q[i] - x) * gradients[i], more)
   end
   return result
end)
rule("Gamma", "Gamma", function(p, q)
   local a, b = p.concentration, q.concentration
   return b * (p.rate / q.rate):log() + b:lgamma() - a:lgamma() + (a - b) * a:digamma()
      + (q.rate - p.rate) * (a / p.rate)
end)
rule("Gumbel", "Gumbel", function(p, q)
   local ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
   return ratio * euler - ratio:log() - shift + (shift + (1 + ratio):lgamma()):exp() - (1 + euler)
end)
rule("Geometric", "Geometric", function(p, q)
   return -p:entropy() - (-q.probs):log1p() / p.probs - q.logits
end)
rule("Laplace", "Laplace", function(p, q)
   local ratio, distance = p.scale / q.scale, (p.loc - q.loc):abs()
   return distance / q.scale + ratio * (-distance / p.scale):exp() - ratio:log() - 1
end)
local function normal(p, q)
   local ratio = (p.scale / q.scale):square()
   return 0.5 * (ratio + ((p.loc - q.loc) / q.scale):square() - 1 - ratio:log())
end
rule("Normal", "Normal", normal)
rule("HalfNormal", "HalfNormal", function(p, q) return normal(p.base_dist, q.base_dist) end)
rule("Pareto", "Pareto", function(p, q)
   local ratio = q.alpha / p.alpha
   local kl = q.alpha * (p.scale / q.scale):log() - ratio:log() + ratio - 1
   return where_infinite(p.scale:lt(q.scale), kl)
end)
rule("Poisson", "Poisson", function(p, q)
   return torch.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)
end)
rule("Uniform", "Uniform", function(p, q)
   local kl = ((q.high - q.low) / (p.high - p.low)):log()
   return where_infinite(q.low:gt(p.low) | q.high:lt(p.high), kl)
end)
rule("Cauchy", "Cauchy", function(p, q)
   return ((p.scale + q.scale):square() + (p.loc - q.loc):square()):log()
      - (4 * p.scale * q.scale):log()
end)

-- Combinations ------------------------------------------------------------------------------------

local function refuse_pair(p, q, why)
   torch.raise(("distributions.kl_divergence: %s and %s: expected the same %s"):format(
      torch.type(p), torch.type(q), why))
end

rule("Independent", "Independent", function(p, q)
   if p.reinterpreted_batch_ndims ~= q.reinterpreted_batch_ndims then
      refuse_pair(p, q, "reinterpreted_batch_ndims")
   end
   return shapes.sum_last(M.kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
end)
rule("TransformedDistribution", "TransformedDistribution", function(p, q)
   local same = #p.transforms == #q.transforms
   for i, t in ipairs(p.transforms) do same = same and t == q.transforms[i] end
   if not same then refuse_pair(p, q, "transforms") end
   if not shapes.same(p.event_shape, q.event_shape) then refuse_pair(p, q, "event_shape") end
   return M.kl_divergence(p.base_dist, q.base_dist)
end)

-- Returns the logarithm of the determinant of a distribution's covariance matrix.
local function log_det(d)
   local m = require "tlua.distributions.multivariate"
   return rawget(d, "_factor") and m.log_det(d) or 2 * m.half_log_det(d._triangle)
end
local function squares(x) return x:square():sum({-2, -1}) end

-- Returns the divergence of two normal distributions of vectors. Either may be a
-- LowRankMultivariateNormal.
local function multivariate(p, q)
   local m = require "tlua.distributions.multivariate"
   if not shapes.same(p.event_shape, q.event_shape) then refuse_pair(p, q, "event_shape") end
   local factors = rawget(p, "_factor") and {p._factor, p._diagonal:sqrt():diag_embed()}
      or {p._triangle}
   local trace, distance = 0
   for _, factor in ipairs(factors) do -- adds the trace of q's precision matrix * factor * factor^T
      if rawget(q, "_factor") then
         local inner = shapes.matmul(m.scaled(q), factor)
         local batch = torch.broadcast_shapes(shapes.split(q._capacitance.shape, 2),
            (shapes.split(inner.shape, 2)))
         local triangle = q._capacitance:expand(shapes.join(batch, {-1, -1}))
         local a = torch.linalg.solve_triangular(triangle, inner, {upper = false})
         trace = trace + squares(factor / q._diagonal:sqrt():unsqueeze(-1)) - squares(a)
      else
         local batch = torch.broadcast_shapes((shapes.split(q._triangle.shape, 2)),
            (shapes.split(factor.shape, 2)))
         trace = trace + squares(torch.linalg.solve_triangular(
            q._triangle:expand(shapes.join(batch, {-1, -1})),
            factor:expand(shapes.join(batch, {-1, -1})), {upper = false}))
      end
   end
   if rawget(q, "_factor") then
      distance = m.distance(q, q.loc - p.loc)
   else
      distance = m.mahalanobis(q._triangle, q.loc - p.loc)
   end
   return 0.5 * (log_det(q) - log_det(p) + trace + distance - p.event_shape[1])
end
for _, p in ipairs {"MultivariateNormal", "LowRankMultivariateNormal"} do
   rule(p, "MultivariateNormal LowRankMultivariateNormal", multivariate)
end

-- Two families ------------------------------------------------------------------------------------

-- The pairs whose divergence is infinite, because p can have values that q cannot have.
for p, q in pairs {
   Beta = "Pareto", ContinuousBernoulli = "Pareto",
   Exponential = "Beta ContinuousBernoulli Pareto Uniform",
   Gamma = "Beta ContinuousBernoulli Pareto Uniform",
   Gumbel = "Beta ContinuousBernoulli Exponential Gamma Pareto Uniform",
   Laplace = "Beta ContinuousBernoulli Exponential Gamma Pareto Uniform",
   Normal = "Beta ContinuousBernoulli Exponential Gamma Pareto Uniform",
   Pareto = "Beta ContinuousBernoulli Uniform", Poisson = "Bernoulli Binomial",
} do
   rule(p, q, function(a) return base.full(a, inf) end)
end

-- These functions return the expected value of -log q(x) under a distribution of x, given the means
-- of x (`mean`), of x^2 (`square`) or of log x (`log`).
local function to_exponential(q, mean) return q.rate * mean - q.rate:log() end
local function to_normal(q, mean, square)
   return 0.5 * math.log(2 * math.pi) + q.scale:log()
      + (square - 2 * mean * q.loc + q.loc:square()) / (2 * q.scale:square())
end
local function to_gamma(q, mean, log)
   local a = q.concentration
   return a:lgamma() - a * q.rate:log() - (a - 1) * log + q.rate * mean
end
local function to_continuous_bernoulli(q, mean)
   return -mean * q.logits - (-q._inner):log1p() - q._log_norm
end
local function square_of(p) return p.variance + p.mean:square() end

rule("Bernoulli", "Poisson", function(p, q)
   return q.rate - p.probs * q.rate:log() - p:entropy()
end)
for _, name in ipairs {"Beta", "ContinuousBernoulli", "Gamma", "Exponential", "Gumbel", "Laplace",
                       "Uniform"} do
   rule(name, "Normal", function(p, q) return to_normal(q, p.mean, square_of(p)) - p:entropy() end)
end
for _, name in ipairs {"Beta", "ContinuousBernoulli", "Gamma"} do
   rule(name, "Exponential", function(p, q) return to_exponential(q, p.mean) - p:entropy() end)
end
rule("Beta", "ContinuousBernoulli", function(p, q)
   return to_continuous_bernoulli(q, p.mean) - p:entropy()
end)
rule("Beta", "Gamma", function(p, q)
   local a, b = p.concentration1, p.concentration0
   return to_gamma(q, p.mean, a:digamma() - (a + b):digamma()) - p:entropy()
end)
local function beyond_unit(q, kl) return where_infinite(q.low:gt(0) | q.high:lt(1), kl) end
for _, name in ipairs {"Beta", "ContinuousBernoulli"} do
   rule(name, "Uniform", function(p, q)
      return beyond_unit(q, (q.high - q.low):log() - p:entropy())
   end)
end
rule("Exponential", "Gamma", function(p, q)
   return to_gamma(q, p.mean, -euler - p.rate:log()) - p:entropy()
end)
-- Returns the expected value of -log q(x), where x has the gamma distribution with concentration a
-- and this rate.
local function to_gumbel(q, rate, a)
   local product, shift = rate * q.scale, q.loc / q.scale
   return q.scale:log() + a / product - shift + shift:exp() * (1 + 1 / product):pow(-a)
end
rule("Exponential", "Gumbel", function(p, q)
   return to_gumbel(q, p.rate, torch.ones_like(p.rate)) - p:entropy()
end)
rule("Gamma", "Gumbel", function(p, q)
   return to_gumbel(q, p.rate, p.concentration) - p:entropy()
end)
rule("Normal", "Gumbel", function(p, q)
   local shift = (p.loc - q.loc) / q.scale
   return q.scale:log() + shift + (0.5 * (p.scale / q.scale):square() - shift):exp() - p:entropy()
end)
rule("Normal", "Laplace", function(p, q)
   local distance = p.loc - q.loc
   local z = distance / p.scale
   local mean = (2 / math.pi) ^ 0.5 * p.scale * (-0.5 * z:square()):exp()
      + distance * (0.5 ^ 0.5 * z):erf()
   return (2 * q.scale):log() + mean / q.scale - p:entropy()
end)
local function finite_above(p, least, kl) return where_infinite(p.alpha:le(least), kl) end
local function log_mean_of_pareto(p) return p.scale:log() + p.alpha:reciprocal() end
local function raw_mean_of_pareto(p) return p.alpha * p.scale / (p.alpha - 1) end
rule("Pareto", "Exponential", function(p, q)
   return finite_above(p, 1, to_exponential(q, raw_mean_of_pareto(p)) - p:entropy())
end)
rule("Pareto", "Gamma", function(p, q)
   local kl = to_gamma(q, raw_mean_of_pareto(p), log_mean_of_pareto(p)) - p:entropy()
   return finite_above(p, 1, kl)
end)
rule("Pareto", "Normal", function(p, q)
   local square = p.alpha * p.scale:square() / (p.alpha - 2)
   return finite_above(p, 2, to_normal(q, raw_mean_of_pareto(p), square) - p:entropy())
end)

-- Returns the mean of log x for x uniformly distributed from low to high.
local function mean_log(low, high)
   return (torch.xlogy(high, high) - torch.xlogy(low, low)) / (high - low) - 1
end
local function needs_low(p, low, kl) return where_infinite(p.low:lt(low), kl) end
rule("Uniform", "Beta", function(p, q)
   local a, b = q.concentration1, q.concentration0
   local kl = a:lgamma() + b:lgamma() - (a + b):lgamma() - (a - 1) * mean_log(p.low, p.high)
      - (b - 1) * mean_log(1 - p.high, 1 - p.low) - p:entropy()
   return where_infinite(p.low:lt(0) | p.high:gt(1), kl)
end)
rule("Uniform", "ContinuousBernoulli", function(p, q)
   return where_infinite(p.low:lt(0) | p.high:gt(1),
      to_continuous_bernoulli(q, p.mean) - p:entropy())
end)
rule("Uniform", "Exponential", function(p, q)
   return needs_low(p, 0, to_exponential(q, p.mean) - p:entropy())
end)
rule("Uniform", "Gamma", function(p, q)
   return needs_low(p, 0, to_gamma(q, p.mean, mean_log(p.low, p.high)) - p:entropy())
end)
rule("Uniform", "Gumbel", function(p, q)
   local high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
   return 0.5 * (high + low) + ((-low):exp() - (-high):exp()) / (high - low) + q.scale:log()
      - p:entropy()
end)
rule("Uniform", "Pareto", function(p, q)
   local kl = (q.alpha + 1) * mean_log(p.low, p.high) - q.alpha:log() - q.alpha * q.scale:log()
      - p:entropy()
   return needs_low(p, q.scale, kl)
end)

return M
