-- normal.lua - the normal distribution, and distributions of functions of normal values.

local torch = require "tlua"
local base = require "tlua.distributions.Distribution"
local constraints = require "tlua.distributions.constraints"
local transformed = require "tlua.distributions.transformed"
local transforms = require "tlua.distributions.transforms"

local real <const>, positive <const> = constraints.real, constraints.positive
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

local of_location <const> = {loc = real, scale = positive}
local log_2pi <const> = math.log(2 * math.pi)

--- The normal distribution with the mean loc and the standard deviation scale.
---
---     local normal = torch.distributions.Normal(torch.tensor {0.0, 1.0}, 2)
---     print(normal:log_prob(1.0), normal:cdf(0.0))
---     --> tensor([-1.7371, -1.6121])	tensor([0.5000, 0.3085])
---@class distributions.Normal : distributions.ExponentialFamily
---@field loc Tensor  the mean
---@field scale Tensor  the standard deviation
define("Normal", "loc: any, scale: any", {
   parent = base.ExponentialFamily, constraints = of_location, support = real,
   mean = "loc", mode = "loc", stddev = "scale",
   variance = function(self) return self.scale:square() end,
   rsample = function(self, shape)
      return self.loc + self.scale * torch.randn(shape, self._like)
   end,
   log_prob = function(self, x)
      return ((x - self.loc) / self.scale):square() * -0.5 - self.scale:log() - log_2pi / 2
   end,
   cdf = function(self, x) return 0.5 * (1 + ((x - self.loc) / (self.scale * 2 ^ 0.5)):erf()) end,
   icdf = function(self, p) return self.loc + self.scale * (2 * p - 1):erfinv() * 2 ^ 0.5 end,
   entropy = function(self) return 0.5 + log_2pi / 2 + self.scale:log() end,
})

--- The distribution of exp(x), where x is normal with the mean loc and the standard deviation
--- scale.
---
---     local log_normal = torch.distributions.LogNormal(0, 1)
---     print(log_normal.mean, log_normal:log_prob(2.0))
---     --> tensor(1.6487)	tensor(-1.8523)
---@class distributions.LogNormal : distributions.TransformedDistribution
---@field loc Tensor  the mean of the logarithm
---@field scale Tensor  the standard deviation of the logarithm
define("LogNormal", "loc: any, scale: any", {
   parent = transformed.TransformedDistribution, constraints = of_location, support = positive,
   cached = {
      base_dist = function(self) return M.Normal(self.loc, self.scale, self._validate_args) end,
      transforms = function() return {transforms.ExpTransform()} end,
   },
   mean = function(self) return (self.loc + self.scale:square() / 2):exp() end,
   mode = function(self) return (self.loc - self.scale:square()):exp() end,
   variance = function(self)
      local square = self.scale:square()
      return square:expm1() * (2 * self.loc + square):exp()
   end,
   entropy = function(self) return self.base_dist:entropy() + self.loc end,
})

--- Completes the definition of the distribution of |x|, where x is drawn from `base_dist`, which
--- must be symmetric around 0.
---@param spec table
---@return table spec
function M.halved(spec)
   spec.parent, spec.support = transformed.TransformedDistribution, constraints.nonnegative
   spec.constraints = {scale = positive}
   spec.cached.transforms = function() return {transforms.AbsTransform()} end
   spec.mode = function(self) return torch.zeros_like(self.scale) end
   spec.log_prob = function(self, x)
      return torch.where(x:ge(0), self.base_dist:log_prob(x) + math.log(2), -math.huge)
   end
   spec.cdf = function(self, x) return 2 * self.base_dist:cdf(x) - 1 end
   spec.icdf = function(self, p) return self.base_dist:icdf((p + 1) / 2) end
   spec.entropy = function(self) return self.base_dist:entropy() - math.log(2) end
   return spec
end

--- The distribution of |x|, where x is normal with the mean 0 and the standard deviation scale.
---
---     local half = torch.distributions.HalfNormal(2)
---     print(half.mean, half:log_prob(1.0))
---     --> tensor(1.5958)	tensor(-1.0439)
---@class distributions.HalfNormal : distributions.TransformedDistribution
---@field scale Tensor  the standard deviation of the normal distribution
define("HalfNormal", "scale: any", M.halved {
   cached = {base_dist = function(self) return M.Normal(0, self.scale, false) end},
   mean = function(self) return self.scale * (2 / math.pi) ^ 0.5 end,
   variance = function(self) return self.scale:square() * (1 - 2 / math.pi) end,
})

--- The distribution of vectors of probabilities, which StickBreakingTransform computes from vectors
--- of normal values with the mean loc and the standard deviation scale.
---
---     local d = torch.distributions.LogisticNormal(torch.zeros(2), torch.ones(2))
---     print(d:log_prob(torch.tensor {0.2, 0.3, 0.5}))
---     --> tensor(1.2980)
---@class distributions.LogisticNormal : distributions.TransformedDistribution
---@field loc Tensor  the means
---@field scale Tensor  the standard deviations
define("LogisticNormal", "loc: any, scale: any", {
   parent = transformed.TransformedDistribution, support = constraints.simplex,
   constraints = {loc = constraints.real_vector, scale = constraints.independent(positive, 1)},
   prepare = function(_, made)
      for key, x in pairs(made) do
         if x:dim() == 0 then made[key] = x:unsqueeze(1) end
      end
      made.loc, made.scale = table.unpack(torch.broadcast_tensors(made.loc, made.scale))
   end,
   event = function(self) return {self.loc:size(-1) + 1} end,
   cached = {
      base_dist = function(self)
         return transformed.Independent(M.Normal(self.loc, self.scale, self._validate_args), 1)
      end,
      transforms = function() return {transforms.StickBreakingTransform()} end,
   },
})

return M
