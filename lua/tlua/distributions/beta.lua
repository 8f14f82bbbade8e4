-- beta.lua - the beta distribution and related distributions of vectors of probabilities and of
-- correlation matrices.

local torch = require "tlua"
local args = require "tlua.args"
local base = require "tlua.distributions.Distribution"
local constraints = require "tlua.distributions.constraints"
local transformed = require "tlua.distributions.transformed"
local transforms = require "tlua.distributions.transforms"
local Uniform = require "tlua.distributions.continuous".Uniform

local positive <const> = constraints.positive
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

--- The Dirichlet distribution of vectors of probabilities. concentration is a vector or a batch of
--- vectors. rsample computes implicit gradients, which are exact to the dtype's precision.
---
---     local d = torch.distributions.Dirichlet {1.0, 2.0, 3.0}
---     print(d.mean, d:log_prob(torch.tensor {0.2, 0.3, 0.5}))
---     --> tensor([0.1667, 0.3333, 0.5000])	tensor(1.5041)
---@class distributions.Dirichlet : distributions.ExponentialFamily
---@field concentration Tensor  the vectors of concentrations
define("Dirichlet", "concentration: any", {
   parent = base.ExponentialFamily, support = constraints.simplex,
   constraints = {concentration = constraints.independent(positive, 1)},
   event = function(self) return {self.concentration:size(-1)} end,
   mean = function(self) return self.concentration / self.concentration:sum(-1, true) end,
   mode = function(self)
      local a = self.concentration
      local above = (a - 1):clamp {min = 0}
      local first = torch.zeros_like(a)
      first:narrow(-1, 1, 1):fill_(1)
      return torch.where(a:lt(1):all(-1):unsqueeze(-1), first, above / above:sum(-1, true))
   end,
   variance = function(self)
      local a, sum = self.concentration, self.concentration:sum(-1, true)
      return a * (sum - a) / (sum:square() * (sum + 1))
   end,
   rsample = function(self, shape)
      return torch._sample_dirichlet(self.concentration:expand(shape))
   end,
   log_prob = function(self, x)
      local a = self.concentration
      return torch.xlogy(a - 1, x):sum(-1) + a:sum(-1):lgamma() - a:lgamma():sum(-1)
   end,
   entropy = function(self)
      local a = self.concentration
      local sum, k = a:sum(-1), a:size(-1)
      return a:lgamma():sum(-1) - sum:lgamma() - (k - sum) * sum:digamma()
         - ((a - 1) * a:digamma()):sum(-1)
   end,
})

local of_beta <const> = {concentration1 = positive, concentration0 = positive}

--- The beta distribution of numbers from 0 to 1, with density x^(concentration1 - 1)
--- (1 - x)^(concentration0 - 1) before normalization.
---
---     local beta = torch.distributions.Beta(2, 3)
---     print(beta.mean, beta:log_prob(0.5))
---     --> tensor(0.4000)	tensor(0.4055)
---@class distributions.Beta : distributions.ExponentialFamily
---@field concentration1 Tensor  the exponent of x, plus 1
---@field concentration0 Tensor  the exponent of 1 - x, plus 1
define("Beta", "concentration1: any, concentration0: any", {
   parent = base.ExponentialFamily, support = constraints.unit_interval, constraints = of_beta,
   cached = {
      _dirichlet = function(self)
         return M.Dirichlet(torch.stack({self.concentration1, self.concentration0}, -1), false)
      end,
   },
   mean = function(self)
      return self.concentration1 / (self.concentration1 + self.concentration0)
   end,
   mode = function(self) return self._dirichlet.mode:select(-1, 1) end,
   variance = function(self)
      local sum = self.concentration1 + self.concentration0
      return self.concentration1 * self.concentration0 / (sum:square() * (sum + 1))
   end,
   rsample = function(self, _, size) return self._dirichlet:rsample(size):select(-1, 1) end,
   log_prob = function(self, x) return self._dirichlet:log_prob(torch.stack({x, 1 - x}, -1)) end,
   entropy = function(self) return self._dirichlet:entropy() end,
})

-- Returns the expected value of x^n, where x has the distribution `self`.
local function moment(self, n)
   local a, b = 1 + n / self.concentration1, self.concentration0
   return b * (a:lgamma() + b:lgamma() - (a + b):lgamma()):exp()
end

--- Kumaraswamy's distribution of numbers from 0 to 1, whose cdf is
--- 1 - (1 - x^concentration1)^concentration0.
---
---     local d = torch.distributions.Kumaraswamy(2, 3)
---     print(d.mean, d:log_prob(0.5))
---     --> tensor(0.4571)	tensor(0.5232)
---@class distributions.Kumaraswamy : distributions.TransformedDistribution
---@field concentration1 Tensor  the inner exponent
---@field concentration0 Tensor  the outer exponent
define("Kumaraswamy", "concentration1: any, concentration0: any", {
   parent = transformed.TransformedDistribution, support = constraints.unit_interval,
   constraints = of_beta,
   cached = {
      base_dist = function(self)
         local b = self.concentration0
         return Uniform(torch.zeros_like(b), torch.ones_like(b), self._validate_args)
      end,
      transforms = function(self)
         local Power <const> = transforms.PowerTransform
         return {Power(self.concentration0:reciprocal()), transforms.AffineTransform(1, -1),
            Power(self.concentration1:reciprocal())}
      end,
   },
   mean = function(self) return moment(self, 1) end,
   mode = function(self)
      local a, b = self.concentration1, self.concentration0
      local mode = (b:reciprocal() * (-b):log1p() - (-a * b):log1p()):exp()
      return torch.where(a:lt(1) | b:lt(1), torch.nan, mode)
   end,
   variance = function(self) return moment(self, 2) - self.mean:square() end,
   entropy = function(self)
      local a, b = self.concentration1, self.concentration0
      local harmonic = (b + 1):digamma() + 0.57721566490153286061
      return 1 - b:reciprocal() + (1 - a:reciprocal()) * harmonic - a:log() - b:log()
   end,
})

--- The distribution of Lewandowski, Kurowicka and Joe: Cholesky factors of dim x dim correlation
--- matrices R with density proportional to det(R)^(concentration - 1).
---
---     local d = torch.distributions.LKJCholesky(2, 1)
---     print(d:log_prob(torch.eye(2)))
---     --> tensor(-0.6931)
---@class distributions.LKJCholesky : distributions.Distribution
---@field dim integer  the size of the matrices
---@field concentration Tensor  the determinant's exponent, plus 1
define("LKJCholesky", "dim: integer, concentration: any = 1", {
   constraints = {concentration = positive}, support = constraints.corr_cholesky,
   prepare = function(self)
      if self.dim < 2 then
         args.refuse("distributions.LKJCholesky", "dim", "an integer of at least 2", self.dim)
      end
   end,
   event = function(self) return {self.dim, self.dim} end,
   cached = {
      -- For each row, the distribution of the sum of the squares of the row's n elements before the
      -- diagonal: Beta(n / 2, ...) (D. Lewandowski et al., Generating random correlation matrices,
      -- 2009). PyTorch has n - 1 / 2 in place of n / 2, which makes the correlations in later rows
      -- too large.
      _beta = function(self)
         local offset = torch.arange(-1, self.dim - 1, self._like):clamp {min = 0}
         local rest = self.concentration + 0.5 * (self.dim - 2)
         return M.Beta(0.5 * offset + 0.5, rest:unsqueeze(-1) - 0.5 * offset, false)
      end,
   },
   sample = function(self, shape, size)
      local tiny = torch.finfo(self._like.dtype).tiny
      local direction = torch.randn(shape, self._like):tril(-1)
      direction = direction / direction:norm(2, -1, true):clamp {min = tiny}
      local w = self._beta:sample(size):unsqueeze(-1):sqrt() * direction
      return w + (1 - w:square():sum(-1)):clamp({min = tiny}):sqrt():diag_embed()
   end,
   log_prob = function(self, x)
      local n = self.dim - 1
      local diagonal = x:diagonal(0, -2, -1):narrow(-1, 2, n)
      local order = 2 * (self.concentration - 1):unsqueeze(-1)
         + torch.arange(n - 1, -1, -1, self._like)
      local a = self.concentration + 0.5 * n
      local norm = 0.5 * n * math.log(math.pi) + (a - 0.5):mvlgamma(n) - a:lgamma() * n
      return (order * diagonal:log()):sum(-1) - norm
   end,
})

return M
