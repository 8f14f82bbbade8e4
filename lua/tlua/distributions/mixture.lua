-- mixture.lua - mixtures of distributions of one family.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local base = require "tlua.distributions.Distribution"
local Categorical = require "tlua.distributions.categorical".Categorical
local constraints = require "tlua.distributions.constraints"
local shapes = require "tlua.distributions.shapes"

local Distribution <const> = base.Distribution

--- A mixture of distributions. The components are the distributions along the last dimension of
--- component_distribution's batch; mixture_distribution, a Categorical, has their probabilities.
---
---     local distributions = torch.distributions
---     local weights = distributions.Categorical(torch.tensor {0.25, 0.75})
---     local normals = distributions.Normal(torch.tensor {-1.0, 1.0}, 1)
---     local mixture = distributions.MixtureSameFamily(weights, normals)
---     print(mixture.mean, mixture:log_prob(0.0))
---     --> tensor(0.5000)	tensor(-1.4189)
---@class distributions.MixtureSameFamily : distributions.Distribution
---@field mixture_distribution distributions.Categorical  the components' probabilities
---@field component_distribution distributions.Distribution  the components
local Mixture = class.class("distributions.MixtureSameFamily", Distribution)
Mixture._getters = setmetatable({}, {__index = Distribution._getters})

local take = args.signature [[distributions.MixtureSameFamily(mixture_distribution: object,
   component_distribution: object, validate_args: boolean?)]]

function Mixture:__init(...)
   local given, who = take(...), "distributions.MixtureSameFamily"
   local weights, parts = given.mixture_distribution, given.component_distribution
   if not class.isinstance(weights, Categorical) then
      args.refuse(who, "mixture_distribution", "a Categorical", weights)
   end
   if not class.isinstance(parts, Distribution) then
      args.refuse(who, "component_distribution", "a distribution", parts)
   end
   local batch, n = shapes.split(parts.batch_shape, math.min(1, #parts.batch_shape))
   if n[1] ~= weights._n or not pcall(torch.broadcast_shapes, weights.batch_shape, batch) then
      torch.raise(("%s: component_distribution: expected a batch_shape that fits the probabilities"
         .. " %s, got %s"):format(who, shapes.text(weights.param_shape),
         shapes.text(parts.batch_shape)))
   end
   self.mixture_distribution, self.component_distribution = weights, parts
   Distribution.__init(self, batch, parts.event_shape, given.validate_args)
end

function Mixture:_expand(new, batch)
   new.component_distribution =
      self.component_distribution:expand(shapes.join(batch, {self.mixture_distribution._n}))
   new.mixture_distribution = self.mixture_distribution:expand(batch)
end

function Mixture._getters:_like() return self.component_distribution._like end
function Mixture._getters:support()
   return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)
end

-- Returns the mean of a tensor over the components of a mixture, weighted by their probabilities.
local function expectation(self, x)
   local probs, n = self.mixture_distribution.probs, #self.event_shape
   for _ = 1, n do probs = probs:unsqueeze(-1) end
   return (probs * x):sum(-1 - n)
end
local function with_components(self, x) return x:unsqueeze(-1 - #self.event_shape) end

function Mixture._getters:mean() return expectation(self, self.component_distribution.mean) end
function Mixture._getters:variance()
   local parts = self.component_distribution
   local spread = (parts.mean - with_components(self, self.mean)):square()
   return expectation(self, parts.variance + spread)
end
function Mixture:_cdf(x)
   local cdf = self.component_distribution:cdf(with_components(self, x))
   return (cdf * self.mixture_distribution.probs):sum(-1)
end
function Mixture:_log_prob(x)
   local log_prob = self.component_distribution:log_prob(with_components(self, x))
   return (log_prob + self.mixture_distribution.logits:log_softmax(-1)):logsumexp(-1)
end
function Mixture:_sample(_, size)
   local chosen = self.mixture_distribution:expand(self.batch_shape):sample(size)
   local drawn, at = self.component_distribution:sample(size), chosen:dim() + 1
   for _ = 0, #self.event_shape do chosen = chosen:unsqueeze(-1) end
   local _, event = shapes.split(drawn.shape, #self.event_shape)
   local batch = shapes.split(chosen.shape, #self.event_shape)
   return drawn:gather(at, chosen:expand(shapes.join(batch, event))):squeeze(at)
end
function Mixture:__tostring()
   return ("MixtureSameFamily(\n  %s,\n  %s)"):format(tostring(self.mixture_distribution),
      tostring(self.component_distribution))
end

return {MixtureSameFamily = Mixture}
