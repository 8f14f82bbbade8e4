-- continuous.lua - continuous distributions of numbers, except for families that have their own
-- files.

local torch = require "tlua"
local args = require "tlua.args"
local base = require "tlua.distributions.Distribution"
local binary = require "tlua.distributions.binary"
local constraints = require "tlua.distributions.constraints"
local halved = require "tlua.distributions.normal".halved
local shapes = require "tlua.distributions.shapes"
local transformed = require "tlua.distributions.transformed"
local transforms = require "tlua.distributions.transforms"

local real <const>, positive <const> = constraints.real, constraints.positive
local inf <const>, nan <const> = math.huge, torch.nan
local euler <const> = 0.57721566490153286061
local of_location <const> = {loc = real, scale = positive}
local full <const> = base.full
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

local function draw_by_icdf(self, shape)
   local like = self._like
   return self:_icdf(torch.rand(shape, shapes.of_uniform(like))):to(like.dtype)
end

-- Draws values as the icdf of uniform numbers that exclude 0 and 1, because the icdf is infinite
-- there.
local function draw_between(self, shape)
   local like = self._like
   local p = torch.rand(shape, shapes.of_uniform(like))
   local info = torch.finfo(p.dtype)
   return self:_icdf(p:clamp(info.tiny, 1 - info.eps)):to(like.dtype)
end

--- The Cauchy distribution with the mode loc. Its half width at half maximum is scale.
---
---     local cauchy = torch.distributions.Cauchy(0, 1)
---     print(cauchy:log_prob(1.0), cauchy:cdf(1.0))
---     --> tensor(-1.8379)	tensor(0.7500)
---@class distributions.Cauchy : distributions.Distribution
---@field loc Tensor  the middle
---@field scale Tensor  the half width
define("Cauchy", "loc: any, scale: any", {
   constraints = of_location, support = real, mode = "loc",
   mean = function(self) return full(self, nan) end,
   variance = function(self) return full(self, inf) end,
   rsample = function(self, shape)
      return self.loc + torch.empty(shape, self._like):cauchy_() * self.scale
   end,
   log_prob = function(self, x)
      return -math.log(math.pi) - self.scale:log() - ((x - self.loc) / self.scale):square():log1p()
   end,
   cdf = function(self, x) return ((x - self.loc) / self.scale):atan() / math.pi + 0.5 end,
   icdf = function(self, p) return ((p - 0.5) * math.pi):tan() * self.scale + self.loc end,
   entropy = function(self) return math.log(4 * math.pi) + self.scale:log() end,
})

--- The distribution of |x|, where x has the Cauchy distribution with the mode 0 and the half width
--- scale.
---
---     local half = torch.distributions.HalfCauchy(1)
---     print(half:log_prob(1.0), half:cdf(1.0))
---     --> tensor(-1.1447)	tensor(0.5000)
---@class distributions.HalfCauchy : distributions.TransformedDistribution
---@field scale Tensor  the half width
define("HalfCauchy", "scale: any", halved {
   cached = {base_dist = function(self) return M.Cauchy(0, self.scale, false) end},
   mean = function(self) return full(self, inf) end,
   variance = function(self) return full(self, inf) end,
})

--- The Laplace distribution: the density falls exponentially with the distance from loc, by a
--- factor of e over each distance of `scale`.
---
---     local laplace = torch.distributions.Laplace(0, 1)
---     print(laplace:log_prob(1.0), laplace:cdf(1.0))
---     --> tensor(-1.6931)	tensor(0.8161)
---@class distributions.Laplace : distributions.Distribution
---@field loc Tensor  the mean
---@field scale Tensor  the mean distance from loc
define("Laplace", "loc: any, scale: any", {
   constraints = of_location, support = real, mean = "loc", mode = "loc",
   variance = function(self) return 2 * self.scale:square() end,
   stddev = function(self) return 2 ^ 0.5 * self.scale end,
   rsample = function(self, shape)
      local like = self._like
      local u = torch.empty(shape, shapes.of_uniform(like))
      u:uniform_(torch.finfo(u.dtype).eps - 1, 1)
      return (self.loc - self.scale * u:sign() * (-u:abs()):log1p()):to(like.dtype)
   end,
   log_prob = function(self, x)
      return -(2 * self.scale):log() - (x - self.loc):abs() / self.scale
   end,
   cdf = function(self, x)
      local d = x - self.loc
      return 0.5 - 0.5 * d:sign() * (-d:abs() / self.scale):expm1()
   end,
   icdf = function(self, p)
      local d = p - 0.5
      return self.loc - self.scale * d:sign() * (-2 * d:abs()):log1p()
   end,
   entropy = function(self) return 1 + (2 * self.scale):log() end,
})

--- The uniform distribution on the numbers x with low <= x < high.
---
---     local uniform = torch.distributions.Uniform(0, torch.tensor {1.0, 4.0})
---     print(uniform.mean, uniform:cdf(0.5))
---     --> tensor([0.5000, 2.0000])	tensor([0.5000, 0.1250])
---@class distributions.Uniform : distributions.Distribution
---@field low Tensor  the lower bound
---@field high Tensor  the upper bound
define("Uniform", "low: any, high: any", {
   constraints = {low = real, high = real},
   arg_constraints = function(self)
      return {low = constraints.less_than(self.high), high = constraints.greater_than(self.low)}
   end,
   support = function(self) return constraints.interval(self.low, self.high) end,
   mean = function(self) return (self.high + self.low) / 2 end,
   mode = function(self) return full(self, nan) end,
   stddev = function(self) return (self.high - self.low) / 12 ^ 0.5 end,
   variance = function(self) return (self.high - self.low):square() / 12 end,
   rsample = function(self, shape) return self:_icdf(torch.rand(shape, self._like)) end,
   log_prob = function(self, x)
      local inside = self.low:le(x) & self.high:gt(x)
      return torch.where(inside, -(self.high - self.low):log(), -inf)
   end,
   cdf = function(self, x) return ((x - self.low) / (self.high - self.low)):clamp(0, 1) end,
   icdf = function(self, p) return self.low + p * (self.high - self.low) end,
   entropy = function(self) return (self.high - self.low):log() end,
})

--- The Gumbel distribution with the mode loc: the limit for the largest of many random values.
---
---     local gumbel = torch.distributions.Gumbel(0, 1)
---     print(gumbel.mean, gumbel:log_prob(1.0))
---     --> tensor(0.5772)	tensor(-1.3679)
---@class distributions.Gumbel : distributions.TransformedDistribution
---@field loc Tensor  the mode
---@field scale Tensor  the width
define("Gumbel", "loc: any, scale: any", {
   parent = transformed.TransformedDistribution, constraints = of_location, support = real,
   cached = {
      base_dist = function(self)
         local info = torch.finfo(self._like.dtype)
         return M.Uniform(torch.full_like(self.loc, info.tiny),
            torch.full_like(self.loc, 1 - info.eps), self._validate_args)
      end,
      transforms = function(self)
         local log, Affine = transforms.ExpTransform().inv, transforms.AffineTransform
         return {log, Affine(0, -torch.ones_like(self.scale)), log, Affine(self.loc, -self.scale)}
      end,
   },
   mean = function(self) return self.loc + self.scale * euler end,
   mode = "loc",
   stddev = function(self) return math.pi / 6 ^ 0.5 * self.scale end,
   variance = function(self) return self.stddev:square() end,
   log_prob = function(self, x)
      local y = (self.loc - x) / self.scale
      return y - y:exp() - self.scale:log()
   end,
   sample = draw_between, rsample = draw_between,
   cdf = function(self, x) return (-((self.loc - x) / self.scale):exp()):exp() end,
   icdf = function(self, p) return self.loc - self.scale * (-p:log()):log() end,
   entropy = function(self) return self.scale:log() + 1 + euler end,
})

-- Returns a mask of the concentrations near 0, for which the distribution is exponential, and a
-- copy of the concentrations, with 1 in place of 0, as a divisor.
local function exponential_case(self)
   local zero = self.concentration:abs():le(1e-8)
   return zero, torch.where(zero, 1, self.concentration)
end
local function log_survival(self, x)
   local z = (x - self.loc) / self.scale
   local zero, k = exponential_case(self)
   return torch.where(zero, -z, -(k * z):log1p() / k)
end

--- The generalized Pareto distribution of values that exceed a threshold, loc. The tail is heavy if
--- the concentration is positive, and exponential if it is 0. The support is bounded if the
--- concentration is negative.
---
---     local d = torch.distributions.GeneralizedPareto(0, 1, 0.25)
---     print(d.mean, d:log_prob(1.0), d:cdf(1.0))
---     --> tensor(1.3333)	tensor(-1.1157)	tensor(0.5904)
---@class distributions.GeneralizedPareto : distributions.Distribution
---@field loc Tensor  the smallest value
---@field scale Tensor  the factor
---@field concentration Tensor  the shape
define("GeneralizedPareto", "loc: any, scale: any, concentration: any", {
   constraints = {loc = real, scale = positive, concentration = real},
   support = function(self)
      local k = self.concentration
      local upper = torch.where(k:lt(0), self.loc - self.scale / k, inf)
      return constraints.interval(self.loc, upper)
   end,
   mode = "loc",
   mean = function(self)
      local k = self.concentration
      return torch.where(k:lt(1), self.loc + self.scale / (1 - k), nan)
   end,
   variance = function(self)
      local k = self.concentration
      return torch.where(k:lt(0.5), self.scale:square() / ((1 - k):square() * (1 - 2 * k)), nan)
   end,
   rsample = draw_by_icdf,
   log_prob = function(self, x)
      local zero, k = exponential_case(self)
      local z = (x - self.loc) / self.scale
      local y = 1 / k + 1
      local other = torch.where(y:eq(0), y, y * (k * z):log1p())
      return -self.scale:log() - torch.where(zero, z, other)
   end,
   cdf = function(self, x) return -log_survival(self, x):expm1() end,
   icdf = function(self, p)
      local zero, k = exponential_case(self)
      local u = (-p):log1p()
      return self.loc + self.scale * torch.where(zero, -u, (-k * u):expm1() / k)
   end,
   entropy = function(self) return self.scale:log() + self.concentration + 1 end,
})

-- Returns the parameter of the wrapped Cauchy distribution from which rejection sampling draws its
-- proposals for a von Mises distribution of concentration k (D. J. Best and N. I. Fisher, Efficient
-- simulation of the von Mises distribution, 1979).
local function proposal(k)
   local tau = 1 + (1 + 4 * k:square()):sqrt()
   local rho = (tau - (2 * tau):sqrt()) / (2 * k)
   return torch.where(k:lt(1e-5), 1 / k + k, (1 + rho:square()) / (2 * rho))
end

--- The von Mises distribution of angles around loc. A larger concentration makes it narrower.
---
---     local d = torch.distributions.VonMises(0, 2)
---     print(d.variance, d:log_prob(0.0))
---     --> tensor(0.3022)	tensor(-0.6619)
---@class distributions.VonMises : distributions.Distribution
---@field loc Tensor  the mean angle
---@field concentration Tensor  the inverse of the squared width
define("VonMises", "loc: any, concentration: any", {
   constraints = {loc = real, concentration = positive}, support = real,
   mean = "loc", mode = "loc",
   variance = function(self)
      local k = self.concentration
      return 1 - torch.special.i1e(k) / torch.special.i0e(k)
   end,
   sample = function(self, shape)
      local k = self.concentration:double():expand(shape)
      local r = proposal(k)
      local options = {dtype = "float64", device = k.device}
      local x, missing = torch.zeros(shape, options), torch.ones(shape, {dtype = "bool",
         device = k.device})
      while missing:any():item() do
         local z = (math.pi * torch.rand(shape, options)):cos()
         local f = ((1 + r * z) / (r + z)):clamp(-1, 1)
         local c, u = k * (r - f), torch.rand(shape, options)
         local accepted = missing & ((c * (2 - c)):gt(u) | ((c / u):log() + 1 - c):ge(0))
         local side = torch.where(torch.rand(shape, options):lt(0.5), -1.0, torch.ones_like(x))
         x = torch.where(accepted, side * f:acos(), x)
         missing = missing & accepted:logical_not()
      end
      x = (x + math.pi + self.loc:double()) % (2 * math.pi) - math.pi
      return x:to(self.loc.dtype)
   end,
   log_prob = function(self, x)
      local k = self.concentration
      return k * ((x - self.loc):cos() - 1) - math.log(2 * math.pi) - torch.special.i0e(k):log()
   end,
})

-- The formulas divide by 2 probs - 1, which is 0 if probs is 1/2. Where probs is between the two
-- numbers in `lims`, `cut` therefore replaces probs by lims[1], and near_half replaces the result
-- by a series around 1/2.
local function outside(self)
   return self._inner:le(self.lims[1]) | self._inner:gt(self.lims[2])
end
local function cut(self)
   return torch.where(outside(self), self._inner, self.lims[1])
end
local function near_half(self, value, series)
   return torch.where(outside(self), value, series)
end
local function log_normalizer(self)
   local p = cut(self)
   local x = (self._inner - 0.5):square()
   local value = (((-p):log1p() - p:log()) / (1 - 2 * p)):abs():log()
   return near_half(self, value, math.log(2) + (4 / 3 + 104 / 45 * x) * x)
end

--- The distribution on [0, 1] whose density is proportional to probs^x (1 - probs)^(1 - x). One of
--- probs and logits is given. If probs is between the two numbers in lims, a series around 1/2
--- replaces the formulas, which divide by 0 there.
---
---     local d = torch.distributions.ContinuousBernoulli(0.8)
---     print(d.mean, d:log_prob(0.5), d:icdf(0.5))
---     --> tensor(0.6120)	tensor(-0.0788)	tensor(0.6610)
---@class distributions.ContinuousBernoulli : distributions.ExponentialFamily
---@field probs Tensor  the parameter in (0, 1)
---@field logits Tensor  log(probs / (1 - probs))
define("ContinuousBernoulli", "probs: any?, logits: any?, lims: numbers?", binary {
   parent = base.ExponentialFamily, support = constraints.unit_interval,
   prepare = function(self)
      local lims = rawget(self, "lims") or {0.499, 0.501}
      local in_order = #lims == 2 and lims[1] <= lims[2]
      if not in_order then
         args.refuse(torch.type(self), "lims", "two numbers, the smaller first",
            table.concat(lims, ", "))
      end
      self.lims = lims
   end,
   mean = function(self)
      local p, x = cut(self), self._inner - 0.5
      local value = p / (2 * p - 1) + 1 / ((-p):log1p() - p:log())
      return near_half(self, value, 0.5 + (1 / 3 + 16 / 45 * x:square()) * x)
   end,
   variance = function(self)
      local p, x = cut(self), (self._inner - 0.5):square()
      local value = p * (p - 1) / (1 - 2 * p):square() + ((-p):log1p() - p:log()):pow(-2)
      return near_half(self, value, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)
   end,
   _log_norm = log_normalizer,
   rsample = draw_by_icdf,
   log_prob = function(self, x)
      return x * self.logits - torch.nn.functional.softplus(self.logits) + log_normalizer(self)
   end,
   cdf = function(self, x)
      local p = cut(self)
      local value = (p:pow(x) * (1 - p):pow(1 - x) + p - 1) / (2 * p - 1)
      return near_half(self, value, x):clamp(0, 1)
   end,
   icdf = function(self, u)
      local p = cut(self)
      local rest = (-p):log1p()
      return near_half(self, ((u * (2 * p - 1) - p):log1p() - rest) / (p:log() - rest), u)
   end,
   entropy = function(self)
      local rest = (-self._inner):log1p()
      return self.mean * (rest - self._inner:log()) - log_normalizer(self) - rest
   end,
})

return M
