-- discrete.lua - distributions whose values are 0 and 1, or counts.

local torch = require "tlua"
local args = require "tlua.args"
local base = require "tlua.distributions.Distribution"
local binary = require "tlua.distributions.binary"
local constraints = require "tlua.distributions.constraints"
local Gamma = require "tlua.distributions.gamma".Gamma
local shapes = require "tlua.distributions.shapes"

local F = torch.nn.functional
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

-- Returns the elementwise cross entropy of probabilities, given by their logits, and targets.
local function cross_entropy(logits, target)
   return F.softplus(logits) - logits * target
end

--- The distribution of a number that is 1 with the probability probs, and otherwise 0. One of probs
--- and logits is given.
---
---     local coin = torch.distributions.Bernoulli(torch.tensor {0.3, 0.9})
---     print(coin:log_prob(1), coin.variance)
---     --> tensor([-1.2040, -0.1054])	tensor([0.2100, 0.0900])
---@class distributions.Bernoulli : distributions.ExponentialFamily
---@field probs Tensor  the probability of 1
---@field logits Tensor  log(probs / (1 - probs))
define("Bernoulli", "probs: any?, logits: any?", binary {
   parent = base.ExponentialFamily, support = constraints.boolean, mean = "probs",
   mode = function(self)
      local p = self.probs
      return torch.where(p:eq(0.5), torch.nan, p:ge(0.5):to(p.dtype))
   end,
   variance = function(self) return self.probs * (1 - self.probs) end,
   sample = function(self, shape) return torch.bernoulli(self.probs:expand(shape)) end,
   log_prob = function(self, x) return -cross_entropy(self.logits, x) end,
   entropy = function(self) return cross_entropy(self.logits, self.probs) end,
   enumerate_support = function(self) return torch.arange(2, self._like) end,
})

-- Returns the number of trials, which must be the same for the whole batch.
local function trials(self, method)
   local low, high = self.total_count:min():item(), self.total_count:max():item()
   if low ~= high then
      torch.raise(("distributions.Binomial.%s: expected one total_count, got counts from %g to %g")
         :format(method, low, high))
   end
   return high
end

--- The distribution of the number of successes in total_count trials, each of which succeeds with
--- the probability probs. One of probs and logits is given.
---
---     local d = torch.distributions.Binomial(10, 0.3)
---     print(d.mean, d:log_prob(2), d.mode)
---     --> tensor(3.)	tensor(-1.4547)	tensor(3.)
---@class distributions.Binomial : distributions.Distribution
---@field total_count Tensor  the number of trials
---@field probs Tensor  the probability of success
---@field logits Tensor  log(probs / (1 - probs))
define("Binomial", "total_count: any = 1, probs: any?, logits: any?", binary {
   constraints = {total_count = constraints.nonnegative_integer},
   support = function(self) return constraints.integer_interval(0, self.total_count) end,
   mean = function(self) return self.total_count * self.probs end,
   mode = function(self)
      return ((self.total_count + 1) * self.probs):floor():minimum(self.total_count)
   end,
   variance = function(self) return self.total_count * self.probs * (1 - self.probs) end,
   sample = function(self, shape)
      return torch.binomial(self.total_count:expand(shape), self.probs:expand(shape))
   end,
   log_prob = function(self, k)
      local n, logits = self.total_count, self.logits
      local ways = (n + 1):lgamma() - (k + 1):lgamma() - (n - k + 1):lgamma()
      return k * logits - n * F.softplus(logits) + ways
   end,
   entropy = function(self)
      trials(self, "entropy")
      local log_prob = self:_log_prob(self:enumerate_support(false))
      return -(log_prob:exp() * log_prob):sum(1)
   end,
   enumerate_support = function(self)
      return torch.arange(trials(self, "enumerate_support") + 1, self._like)
   end,
})

--- The distribution of the number of failures before the first success, if each trial succeeds with
--- the probability probs. One of probs and logits is given.
---
---     local d = torch.distributions.Geometric(0.25)
---     print(d.mean, d:log_prob(2))
---     --> tensor(3.)	tensor(-1.9617)
---@class distributions.Geometric : distributions.Distribution
---@field probs Tensor  the probability of success
---@field logits Tensor  log(probs / (1 - probs))
define("Geometric", "probs: any?, logits: any?", binary {
   support = constraints.nonnegative_integer,
   check = function(self)
      if rawget(self, "probs") and self.probs:le(0):any():item() then
         args.refuse("distributions.Geometric", "probs", "values greater than 0", 0)
      end
   end,
   mean = function(self) return 1 / self.probs - 1 end,
   mode = function(self) return torch.zeros_like(self.probs) end,
   variance = function(self) return (1 / self.probs - 1) / self.probs end,
   sample = function(self, shape)
      local like = self._like
      local u = torch.empty(shape, shapes.of_uniform(like))
      u:uniform_(torch.finfo(u.dtype).tiny, 1)
      return (u:log() / (-self.probs):log1p()):floor():to(like.dtype)
   end,
   log_prob = function(self, k) return torch.special.xlog1py(k, -self.probs) + self.probs:log() end,
   entropy = function(self) return cross_entropy(self.logits, self.probs) / self.probs end,
})

--- The distribution of the number of successes before total_count failures, if each trial succeeds
--- with the probability probs. total_count need not be a whole number. One of probs and logits is
--- given.
---
---     local d = torch.distributions.NegativeBinomial(3, 0.5)
---     print(d.mean, d:log_prob(2))
---     --> tensor(3.)	tensor(-1.6740)
---@class distributions.NegativeBinomial : distributions.Distribution
---@field total_count Tensor  the number of failures
---@field probs Tensor  the probability of success
---@field logits Tensor  log(probs / (1 - probs))
define("NegativeBinomial", "total_count: any, probs: any?, logits: any?", binary {
   constraints = {
      total_count = constraints.nonnegative, probs = constraints.half_open_interval(0, 1),
   },
   support = constraints.nonnegative_integer,
   mean = function(self) return self.total_count * self.logits:exp() end,
   mode = function(self)
      return ((self.total_count - 1) * self.logits:exp()):floor():clamp {min = 0}
   end,
   variance = function(self) return self.mean / (-self.logits):sigmoid() end,
   sample = function(self, _, size)
      return torch.poisson(Gamma(self.total_count, (-self.logits):exp(), false):sample(size))
   end,
   log_prob = function(self, k)
      local n = self.total_count
      local ways = (n + k):lgamma() - (1 + k):lgamma() - n:lgamma()
      return n * F.logsigmoid(-self.logits) + k * F.logsigmoid(self.logits)
         + ways:masked_fill((n + k):eq(0), 0)
   end,
})

--- The Poisson distribution of counts whose mean is rate.
---
---     local d = torch.distributions.Poisson(4)
---     print(d.mean, d:log_prob(3))
---     --> tensor(4.)	tensor(-1.6329)
---@class distributions.Poisson : distributions.ExponentialFamily
---@field rate Tensor  the mean
define("Poisson", "rate: any", {
   parent = base.ExponentialFamily, constraints = {rate = constraints.nonnegative},
   support = constraints.nonnegative_integer, mean = "rate", variance = "rate",
   mode = function(self) return self.rate:floor() end,
   sample = function(self, shape) return torch.poisson(self.rate:expand(shape)) end,
   log_prob = function(self, k) return torch.xlogy(k, self.rate) - self.rate - (k + 1):lgamma() end,
   entropy = function()
      torch.raise "distributions.Poisson: entropy is not defined; it has no closed form"
   end,
})

return M
