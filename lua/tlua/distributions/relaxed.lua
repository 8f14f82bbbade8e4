-- relaxed.lua - continuous relaxations of Bernoulli and categorical distributions, whose
-- rsample has gradients (C. J. Maddison et al., The Concrete distribution, 2017; E. Jang et al.,
-- Categorical reparameterization with Gumbel-Softmax, 2017).

local torch = require "tlua"
local args = require "tlua.args"
local base = require "tlua.distributions.Distribution"
local binary = require "tlua.distributions.binary"
local constraints = require "tlua.distributions.constraints"
local shapes = require "tlua.distributions.shapes"
local transformed = require "tlua.distributions.transformed"
local transforms = require "tlua.distributions.transforms"

local F = torch.nn.functional
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

local parameters <const> = "temperature: any, probs: any?, logits: any?"

-- Converts the temperature to a tensor of the parameters' dtype. The temperature is not broadcast
-- to the batch's shape.
local function prepare(self, made)
   local like = made.probs or made.logits
   local given = {temperature = self.temperature, like = like}
   self.temperature = shapes.tensors(torch.type(self), given, {"like", "temperature"}).temperature
   if not self.temperature:gt(0):all():item() then
      args.refuse(torch.type(self), "temperature", "values greater than 0",
         self.temperature:numel() == 1 and self.temperature:item() or self.temperature)
   end
end

-- Draws uniform numbers greater than 0 and less than 1.
local function uniform(shape, like)
   local eps = torch.finfo(like.dtype).eps
   return torch.rand(shape, like):clamp(eps, 1 - eps)
end

-- Returns a function that makes the base distribution, which has the class `name` and the same
-- parameters.
local function base_of(name)
   return function(self)
      return M[name] {
         temperature = self.temperature, probs = rawget(self, "probs"),
         logits = rawget(self, "logits"), validate_args = self._validate_args,
      }
   end
end

--- The distribution of the logits of values drawn from RelaxedBernoulli. One of probs and logits is
--- given.
---
---     local d = torch.distributions.LogitRelaxedBernoulli(0.5, 0.3)
---     print(d:log_prob(1.0))
---     --> tensor(-2.5026)
---@class distributions.LogitRelaxedBernoulli : distributions.Distribution
---@field temperature Tensor  the distance of draws from 0 and 1
---@field probs Tensor  the probability of 1
---@field logits Tensor  log(probs / (1 - probs))
define("LogitRelaxedBernoulli", parameters, binary {
   support = constraints.real, prepare = prepare,
   rsample = function(self, shape)
      local like, p = self._like, self._inner
      local u = uniform(shape, shapes.of_uniform(like))
      local x = (u:log() - (-u):log1p() + p:log() - (-p):log1p()) / self.temperature
      return x:to(like.dtype)
   end,
   log_prob = function(self, x)
      local d = self.logits - x * self.temperature
      return self.temperature:log() + d - 2 * F.softplus(d)
   end,
})

--- A relaxation of Bernoulli to numbers between 0 and 1. The smaller the temperature, the closer
--- the draws are to 0 and 1. One of probs and logits is given.
---
---     local d = torch.distributions.RelaxedBernoulli(0.5, 0.3)
---     print(d:log_prob(0.5))
---     --> tensor(-0.8675)
---@class distributions.RelaxedBernoulli : distributions.TransformedDistribution
---@field temperature Tensor  the distance of draws from 0 and 1
---@field probs Tensor  the probability of 1
---@field logits Tensor  log(probs / (1 - probs))
define("RelaxedBernoulli", parameters, binary {
   parent = transformed.TransformedDistribution, support = constraints.unit_interval,
   prepare = prepare,
   cached = {
      base_dist = base_of "LogitRelaxedBernoulli",
      transforms = function() return {transforms.SigmoidTransform()} end,
   },
})

-- Adds the parameters probs and logits, whose last dimension has one number for each class.
local function classes(spec)
   spec.either, spec.event = {"probs", "logits"}, function(self) return {self._n} end
   spec.constraints = {probs = constraints.simplex, logits = constraints.real_vector}
   function spec:_n() return (rawget(self, "probs") or rawget(self, "logits")):size(-1) end
   function spec.cached:probs() return self.logits:softmax(-1) end
   function spec.cached:logits()
      local eps = torch.finfo(self.probs.dtype).eps
      return self.probs:clamp(eps, 1 - eps):log()
   end
   function spec.prepare(self, made)
      prepare(self, made)
      local probs, logits = made.probs, made.logits
      if probs and probs:dim() > 0 then made.probs = probs / probs:sum(-1, true) end
      if logits and logits:dim() > 0 then made.logits = logits - logits:logsumexp(-1, true) end
   end
   return spec
end

--- The distribution of the logarithms of vectors drawn from RelaxedOneHotCategorical. One of probs
--- and logits is given.
---
---     local D = torch.distributions
---     local d = D.ExpRelaxedCategorical(1, torch.tensor {0.5, 0.5})
---     print(d:log_prob(torch.tensor {0.5, 0.5}:log()))
---     --> tensor(-1.3863)
---@class distributions.ExpRelaxedCategorical : distributions.Distribution
---@field temperature Tensor  the distance of draws from one-hot vectors
---@field probs Tensor  the classes' probabilities
---@field logits Tensor  their logarithms
define("ExpRelaxedCategorical", parameters, classes {
   support = constraints.real_vector, cached = {},
   rsample = function(self, shape)
      local like = self._like
      local gumbels = -(-uniform(shape, shapes.of_uniform(like)):log()):log()
      return ((self.logits + gumbels) / self.temperature):log_softmax(-1):to(like.dtype)
   end,
   log_prob = function(self, x)
      local n, t = self._n, self.temperature
      local scale = torch.lgamma(torch.tensor(n, self._like)) + (n - 1) * t:log()
      return (self.logits - x * t):log_softmax(-1):sum(-1) + scale
   end,
})

--- A relaxation of OneHotCategorical to vectors of probabilities. The smaller the temperature, the
--- closer the draws are to one-hot vectors. One of probs and logits is given.
---
---     local D = torch.distributions
---     local d = D.RelaxedOneHotCategorical(1, torch.tensor {0.5, 0.5})
---     print(d:log_prob(torch.tensor {0.5, 0.5}))
---     --> tensor(0.)
---@class distributions.RelaxedOneHotCategorical : distributions.TransformedDistribution
---@field temperature Tensor  the distance of draws from one-hot vectors
---@field probs Tensor  the classes' probabilities
---@field logits Tensor  their logarithms
define("RelaxedOneHotCategorical", parameters, classes {
   parent = transformed.TransformedDistribution, support = constraints.simplex,
   cached = {
      base_dist = base_of "ExpRelaxedCategorical",
      transforms = function() return {transforms.ExpTransform()} end,
   },
})

return M
