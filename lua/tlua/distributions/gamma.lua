-- gamma.lua - the gamma distribution, distributions derived from it, and the distributions of
-- powers of exponentially distributed values.

local torch = require "tlua"
local base = require "tlua.distributions.Distribution"
local constraints = require "tlua.distributions.constraints"
local transformed = require "tlua.distributions.transformed"
local transforms = require "tlua.distributions.transforms"

local real <const>, positive <const> = constraints.real, constraints.positive
local nonnegative <const> = constraints.nonnegative
local inf <const>, nan <const> = math.huge, torch.nan
local euler <const> = 0.57721566490153286061
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

-- Draws from gamma distributions. A draw that underflows to 0 becomes the smallest normal number of
-- the dtype; its gradient is kept.
local function draw(self, shape)
   local x = torch._standard_gamma(self.concentration:expand(shape)) / self.rate
   x:detach():clamp_ {min = torch.finfo(x.dtype).tiny}
   return x
end

--- The gamma distribution. concentration is its shape parameter, rate the inverse of its scale.
--- rsample computes implicit gradients, which are exact to the dtype's precision.
---
---     local gamma = torch.distributions.Gamma(2, torch.tensor {1.0, 2.0})
---     print(gamma.mean, gamma:log_prob(1.5))
---     --> tensor([2., 1.])	tensor([-1.0945, -1.2082])
---@class distributions.Gamma : distributions.ExponentialFamily
---@field concentration Tensor  the shape
---@field rate Tensor  the inverse of the scale
define("Gamma", "concentration: any, rate: any", {
   parent = base.ExponentialFamily,
   constraints = {concentration = positive, rate = positive}, support = nonnegative,
   mean = function(self) return self.concentration / self.rate end,
   mode = function(self) return ((self.concentration - 1) / self.rate):clamp {min = 0} end,
   variance = function(self) return self.concentration / self.rate:square() end,
   rsample = draw,
   log_prob = function(self, x)
      local a, rate = self.concentration, self.rate
      return torch.xlogy(a, rate) + torch.xlogy(a - 1, x) - rate * x - a:lgamma()
   end,
   cdf = function(self, x) return torch.special.gammainc(self.concentration, self.rate * x) end,
   entropy = function(self)
      local a = self.concentration
      return a - self.rate:log() + a:lgamma() + (1 - a) * a:digamma()
   end,
})

--- The chi-squared distribution: the distribution of the sum of the squares of df standard normal
--- values.
---
---     print(torch.distributions.Chi2(3):log_prob(2.0))
---     --> tensor(-1.5724)
---@class distributions.Chi2 : distributions.Gamma
---@field df Tensor  the degrees of freedom
define("Chi2", "df: any", {
   parent = M.Gamma, constraints = {df = positive},
   cached = {
      concentration = function(self) return self.df * 0.5 end,
      rate = function(self) return torch.full_like(self.df, 0.5) end,
   },
})

--- The exponential distribution. rate is the inverse of its mean.
---
---     local exponential = torch.distributions.Exponential(2)
---     print(exponential.mean, exponential:log_prob(1.0), exponential:icdf(0.5))
---     --> tensor(0.5000)	tensor(-1.3069)	tensor(0.3466)
---@class distributions.Exponential : distributions.ExponentialFamily
---@field rate Tensor  the inverse of the mean
define("Exponential", "rate: any", {
   parent = base.ExponentialFamily, constraints = {rate = positive}, support = nonnegative,
   mean = function(self) return self.rate:reciprocal() end,
   stddev = "mean",
   variance = function(self) return self.rate:pow(-2) end,
   mode = function(self) return torch.zeros_like(self.rate) end,
   rsample = function(self, shape)
      return torch.empty(shape, self._like):exponential_() / self.rate
   end,
   log_prob = function(self, x) return self.rate:log() - self.rate * x end,
   cdf = function(self, x) return -(-self.rate * x):expm1() end,
   icdf = function(self, p) return -(-p):log1p() / self.rate end,
   entropy = function(self) return 1 - self.rate:log() end,
})

--- The distribution of 1 / x, where x has the gamma distribution with this concentration and rate.
---
---     local d = torch.distributions.InverseGamma(3, 2)
---     print(d.mean, d:log_prob(1.0))
---     --> tensor(1.)	tensor(-0.6137)
---@class distributions.InverseGamma : distributions.TransformedDistribution
---@field concentration Tensor  the gamma distribution's shape
---@field rate Tensor  the gamma distribution's rate
define("InverseGamma", "concentration: any, rate: any", {
   parent = transformed.TransformedDistribution,
   constraints = {concentration = positive, rate = positive}, support = positive,
   cached = {
      base_dist = function(self)
         return M.Gamma(self.concentration, self.rate, self._validate_args)
      end,
      transforms = function(self)
         return {transforms.PowerTransform(torch.tensor(-1.0, self._like))}
      end,
   },
   mean = function(self)
      local a = self.concentration
      return torch.where(a:gt(1), self.rate / (a - 1), inf)
   end,
   mode = function(self) return self.rate / (self.concentration + 1) end,
   variance = function(self)
      local a = self.concentration
      return torch.where(a:gt(2), self.rate:square() / ((a - 1):square() * (a - 2)), inf)
   end,
   entropy = function(self)
      local a = self.concentration
      return a + self.rate:log() + a:lgamma() - (1 + a) * a:digamma()
   end,
})

--- Fisher's and Snedecor's F distribution: the distribution of the ratio of x1 / df1 to x2 / df2,
--- where x1 and x2 have chi-squared distributions with df1 and df2 degrees of freedom.
---
---     local f = torch.distributions.FisherSnedecor(2, 6)
---     print(f.mean, f:log_prob(1.0))
---     --> tensor(1.5000)	tensor(-1.1507)
---@class distributions.FisherSnedecor : distributions.Distribution
---@field df1 Tensor  the numerator's degrees of freedom
---@field df2 Tensor  the denominator's degrees of freedom
define("FisherSnedecor", "df1: any, df2: any", {
   constraints = {df1 = positive, df2 = positive}, support = positive,
   mean = function(self)
      return torch.where(self.df2:gt(2), self.df2 / (self.df2 - 2), nan)
   end,
   mode = function(self)
      local df1, df2 = self.df1, self.df2
      return torch.where(df1:gt(2), (df1 - 2) / df1 * df2 / (df2 + 2), nan)
   end,
   variance = function(self)
      local df1, df2 = self.df1, self.df2
      local value = 2 * df2:square() * (df1 + df2 - 2) / (df1 * (df2 - 2):square() * (df2 - 4))
      return torch.where(df2:gt(4), value, nan)
   end,
   rsample = function(self, _, size)
      local x = M.Gamma(self.df1 * 0.5, self.df1, false):rsample(size)
      local y = x / M.Gamma(self.df2 * 0.5, self.df2, false):rsample(size)
      return y:clamp {min = torch.finfo(y.dtype).tiny}
   end,
   log_prob = function(self, x)
      local a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
      return (a + b):lgamma() - a:lgamma() - b:lgamma() + a * ratio:log() + (a - 1) * x:log()
         - (a + b) * (ratio * x):log1p()
   end,
})

--- Student's t distribution with df degrees of freedom, shifted by loc and stretched by scale.
---
---     local t = torch.distributions.StudentT(3)
---     print(t.variance, t:log_prob(0.0))
---     --> tensor(3.)	tensor(-1.0009)
---@class distributions.StudentT : distributions.Distribution
---@field df Tensor  the degrees of freedom
---@field loc Tensor  the middle
---@field scale Tensor  the factor
define("StudentT", "df: any, loc: any = 0, scale: any = 1", {
   constraints = {df = positive, loc = real, scale = positive}, support = real,
   mean = function(self) return torch.where(self.df:gt(1), self.loc, nan) end,
   mode = "loc",
   variance = function(self)
      local df = self.df
      local finite = self.scale:square() * df / (df - 2)
      return torch.where(df:gt(2), finite, torch.where(df:gt(1), torch.full_like(df, inf), nan))
   end,
   rsample = function(self, shape, size)
      local z = M.Chi2(self.df, false):rsample(size)
      return self.loc + self.scale * torch.randn(shape, self._like) * (z / self.df):rsqrt()
   end,
   log_prob = function(self, x)
      local df, y = self.df, (x - self.loc) / self.scale
      local norm = self.scale:log() + 0.5 * df:log() + 0.5 * math.log(math.pi)
         + (0.5 * df):lgamma() - (0.5 * (df + 1)):lgamma()
      return -0.5 * (df + 1) * (y:square() / df):log1p() - norm
   end,
   entropy = function(self)
      local a, b = 0.5 * self.df, 0.5 * (self.df + 1)
      return self.scale:log() + b * (b:digamma() - a:digamma()) + 0.5 * self.df:log()
         + a:lgamma() + 0.5 * math.log(math.pi) - b:lgamma()
   end,
})

--- The Weibull distribution: the distribution of scale * x^(1 / concentration), where x has the
--- exponential distribution with rate 1.
---
---     local d = torch.distributions.Weibull(1, 2)
---     print(d.mean, d:log_prob(1.0))
---     --> tensor(0.8862)	tensor(-0.3069)
---@class distributions.Weibull : distributions.TransformedDistribution
---@field scale Tensor  the factor
---@field concentration Tensor  the shape
define("Weibull", "scale: any, concentration: any", {
   parent = transformed.TransformedDistribution,
   constraints = {scale = positive, concentration = positive}, support = positive,
   cached = {
      base_dist = function(self)
         return M.Exponential(torch.ones_like(self.scale), self._validate_args)
      end,
      transforms = function(self)
         return {transforms.PowerTransform(self.concentration:reciprocal()),
            transforms.AffineTransform(0, self.scale)}
      end,
   },
   mean = function(self) return self.scale * (1 + 1 / self.concentration):lgamma():exp() end,
   mode = function(self)
      local k = self.concentration
      return self.scale * ((k - 1) / k) ^ k:reciprocal()
   end,
   variance = function(self)
      local r = self.concentration:reciprocal()
      return self.scale:square() * ((1 + 2 * r):lgamma():exp() - (2 * (1 + r):lgamma()):exp())
   end,
   entropy = function(self)
      local r = self.concentration:reciprocal()
      return euler * (1 - r) + (self.scale * r):log() + 1
   end,
})

--- The Pareto distribution of values of at least scale. The probability of values above x falls as
--- x^-alpha.
---
---     local d = torch.distributions.Pareto(1, 3)
---     print(d.mean, d:log_prob(2.0))
---     --> tensor(1.5000)	tensor(-1.6740)
---@class distributions.Pareto : distributions.TransformedDistribution
---@field scale Tensor  the smallest value
---@field alpha Tensor  the tail's power
define("Pareto", "scale: any, alpha: any", {
   parent = transformed.TransformedDistribution,
   constraints = {scale = positive, alpha = positive},
   support = function(self) return constraints.greater_than_eq(self.scale) end,
   cached = {
      base_dist = function(self) return M.Exponential(self.alpha, self._validate_args) end,
      transforms = function(self)
         return {transforms.ExpTransform(), transforms.AffineTransform(0, self.scale)}
      end,
   },
   mean = function(self)
      local a = self.alpha:clamp {min = 1}
      return a * self.scale / (a - 1)
   end,
   mode = "scale",
   variance = function(self)
      local a = self.alpha:clamp {min = 2}
      return self.scale:square() * a / ((a - 1):square() * (a - 2))
   end,
   entropy = function(self)
      return (self.scale / self.alpha):log() + 1 + self.alpha:reciprocal()
   end,
})

return M
