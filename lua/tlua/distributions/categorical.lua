-- categorical.lua - distributions over K classes, which count from 1.

local torch = require "tlua"
local args = require "tlua.args"
local base = require "tlua.distributions.Distribution"
local constraints = require "tlua.distributions.constraints"
local shapes = require "tlua.distributions.shapes"
local Binomial = require "tlua.distributions.discrete".Binomial

local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

-- Adds the parameters probs and logits to a definition. Their last dimension has one number for
-- each class.
local function classes(spec)
   spec.either = {"probs", "logits"}
   spec.constraints = {probs = constraints.simplex, logits = constraints.real_vector}
   spec.cached = spec.cached or {}
   function spec.cached:probs() return self.logits:softmax(-1) end
   function spec.cached:logits()
      local eps = torch.finfo(self.probs.dtype).eps
      return self.probs:clamp(eps, 1 - eps):log()
   end
   local prepare = spec.prepare
   function spec.prepare(self, made)
      if prepare then prepare(self) end
      local probs, logits = made.probs, made.logits
      if probs and probs:dim() > 0 then made.probs = probs / probs:sum(-1, true) end
      if logits and logits:dim() > 0 then made.logits = logits - logits:logsumexp(-1, true) end
   end
   function spec:param_shape() return torch.Size(shapes.join(self.batch_shape, {self._n})) end
   function spec:_n() return (rawget(self, "probs") or rawget(self, "logits")):size(-1) end
   return spec
end

-- Adds to a definition the parameters probs and logits, the event shape {K} for K classes, and the
-- field `_categorical`: a Categorical with the same parameters, which draws classes as numbers from
-- 1 to K.
local function one_of_classes(spec)
   spec = classes(spec)
   spec.event = function(self) return {self._n} end
   function spec.cached:_categorical()
      return M.Categorical {
         probs = rawget(self, "probs"), logits = rawget(self, "logits"), validate_args = false,
      }
   end
   return spec
end

local function ones_at(classes_drawn, n, like)
   return torch.nn.functional.one_hot(classes_drawn, n):to(like.dtype)
end

--- A distribution over the classes 1 to K. Their probabilities are proportional to the K numbers
--- along the last dimension of probs, or to the exponentials of logits. One of probs and logits is
--- given.
---
---     local logits = torch.tensor {1.0, 3.0}:log()
---     local d = torch.distributions.Categorical {logits = logits}
---     print(d.probs, d:log_prob(2), d.mode)
---     --> tensor([0.2500, 0.7500])	tensor(-0.2877)	tensor(2)
---@class distributions.Categorical : distributions.Distribution
---@field probs Tensor  the classes' probabilities
---@field logits Tensor  their logarithms
define("Categorical", "probs: any?, logits: any?", classes {
   support = function(self) return constraints.integer_interval(1, self._n) end,
   mean = function(self) return base.full(self, torch.nan) end,
   variance = function(self) return base.full(self, torch.nan) end,
   mode = function(self) return self.probs:argmax(-1) end,
   sample = function(self, shape, size)
      local batch, n = torch.Size(self.batch_shape):numel(), torch.Size(size):numel()
      local options = {dtype = "int64", device = self._like.device}
      if batch == 0 or n == 0 then return torch.empty(shape, options) end
      return self.probs:reshape({batch, self._n}):multinomial(n, true).T:reshape(shape)
   end,
   log_prob = function(self, x)
      x = x:long():unsqueeze(-1)
      local size = torch.broadcast_shapes(x.shape, self.logits.shape)
      local logits = self.logits:expand(size)
      local batch = shapes.split(size, 1)
      return logits:gather(-1, x:expand(shapes.join(batch, {1}))):squeeze(-1)
   end,
   entropy = function(self)
      local logits = self.logits:clamp {min = torch.finfo(self.logits.dtype).min}
      return -(logits * self.probs):sum(-1)
   end,
   enumerate_support = function(self)
      return torch.arange(1, self._n + 1, {dtype = "int64", device = self._like.device})
   end,
})

local one_hot <const> = one_of_classes {
   support = constraints.one_hot, mean = "probs",
   mode = function(self) return ones_at(self.probs:argmax(-1), self._n, self._like) end,
   variance = function(self) return self.probs * (1 - self.probs) end,
   sample = function(self, _, size)
      return ones_at(self._categorical:sample(size), self._n, self._like)
   end,
   log_prob = function(self, x) return self._categorical:log_prob(x:argmax(-1)) end,
   entropy = function(self) return self._categorical:entropy() end,
   enumerate_support = function(self) return torch.eye(self._n, self._like) end,
}

--- The categorical distribution with one-hot draws: vectors that are 1 at the drawn class and 0
--- elsewhere.
---
---     local d = torch.distributions.OneHotCategorical(torch.tensor {0.25, 0.75})
---     print(d.mode, d:log_prob(torch.tensor {1.0, 0.0}))
---     --> tensor([0., 1.])	tensor(-1.3863)
---@class distributions.OneHotCategorical : distributions.Distribution
---@field probs Tensor  the classes' probabilities
---@field logits Tensor  their logarithms
define("OneHotCategorical", "probs: any?, logits: any?", one_hot)

--- OneHotCategorical with an rsample whose gradient flows to probs as if the draw were probs itself
--- (the straight-through estimator). This gradient is biased.
---
---     torch.manual_seed(0)
---     local logits = torch.zeros(3):requires_grad_()
---     local make = torch.distributions.OneHotCategoricalStraightThrough
---     local d = make {logits = logits}
---     d:rsample()[1]:backward()
---     print(logits.grad)
---     --> tensor([ 0.2222, -0.1111, -0.1111])
---@class distributions.OneHotCategoricalStraightThrough : distributions.OneHotCategorical
define("OneHotCategoricalStraightThrough", "probs: any?, logits: any?", {
   parent = M.OneHotCategorical, constraints = one_hot.constraints, either = one_hot.either,
   event = one_hot.event, prepare = one_hot.prepare,
   rsample = function(self, shape, size)
      return self:_sample(shape, size):detach() + (self.probs - self.probs:detach())
   end,
})

--- The distribution of the number of times that each class is drawn in total_count draws from
--- Categorical. One of probs and logits is given.
---
---     local d = torch.distributions.Multinomial(4, torch.tensor {0.25, 0.75})
---     print(d.mean, d:log_prob(torch.tensor {1.0, 3.0}))
---     --> tensor([1., 3.])	tensor(-0.8630)
---@class distributions.Multinomial : distributions.Distribution
---@field total_count integer  the number of draws
---@field probs Tensor  the classes' probabilities
---@field logits Tensor  their logarithms
define("Multinomial", "total_count: integer = 1, probs: any?, logits: any?", one_of_classes {
   prepare = function(self)
      if self.total_count < 0 then
         args.refuse("distributions.Multinomial", "total_count", "an integer of at least 0",
            self.total_count)
      end
   end,
   support = function(self) return constraints.multinomial(self.total_count) end,
   mean = function(self) return self.probs * self.total_count end,
   variance = function(self) return self.total_count * self.probs * (1 - self.probs) end,
   sample = function(self, shape, size)
      local drawn = self._categorical:sample(shapes.join({self.total_count}, size)):movedim(1, -1)
      local counts = torch.zeros(shape, self._like)
      return counts:scatter_add(-1, drawn, torch.ones(drawn.shape, self._like))
   end,
   log_prob = function(self, x)
      local logits = self.logits:masked_fill(x:eq(0) & self.logits:eq(-math.huge), 0)
      return (x:sum(-1) + 1):lgamma() - (x + 1):lgamma():sum(-1) + (logits * x):sum(-1)
   end,
   entropy = function(self)
      local n = self.total_count
      local counts = Binomial(n, self.probs, {validate_args = false})
      local k = counts:enumerate_support(false)
      local weighted = (counts:_log_prob(k):exp() * (k + 1):lgamma()):sum({1, -1})
      local total = torch.tensor(n + 1, self._like):lgamma()
      return n * self._categorical:entropy() - total + weighted
   end,
})

return M
