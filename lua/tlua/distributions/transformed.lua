-- transformed.lua - distributions that are made from another distribution: by transforming its
-- values, or by treating several independent values as one event.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local base = require "tlua.distributions.Distribution"
local constraints = require "tlua.distributions.constraints"
local shapes = require "tlua.distributions.shapes"
local transforms = require "tlua.distributions.transforms"

local Distribution <const> = base.Distribution
local M = {}

--- Raises an error unless the value is a distribution.
---@param who string
---@param name string
---@param value any
local function check_distribution(who, name, value)
   if not class.isinstance(value, Distribution) then
      args.refuse(who, name, "a distribution", value)
   end
end

-- Makes a class of distributions that take dtype, device and has_rsample from their field
-- `base_dist`.
local function derive(name)
   local cls = class.class("distributions." .. name, Distribution)
   cls._getters = setmetatable({}, {__index = Distribution._getters})
   cls._cached = setmetatable({}, {__index = Distribution._cached})
   cls._getters._like = function(self) return self.base_dist._like end
   cls._getters.has_rsample = function(self) return self.base_dist.has_rsample end
   return cls
end

-- Independent -------------------------------------------------------------------------------------

--- Treats the last reinterpreted_batch_ndims dimensions of base_distribution's batch as one event.
--- Its log_prob is the sum over these dimensions.
---
---     local distributions = torch.distributions
---     local normal = distributions.Normal(torch.zeros(2), 1)
---     print(distributions.Independent(normal, 1):log_prob(torch.zeros(2)))
---     --> tensor(-1.8379)
---@class distributions.Independent : distributions.Distribution
---@field base_dist distributions.Distribution  the distribution of the single values
---@field reinterpreted_batch_ndims integer  the number of batch dimensions that belong to an event
local Independent = derive "Independent"
M.Independent = Independent

local take_independent = args.signature [[distributions.Independent(base_distribution: object,
   reinterpreted_batch_ndims: count, validate_args: boolean?)]]

function Independent:__init(...)
   local given = take_independent(...)
   local of, n = given.base_distribution, given.reinterpreted_batch_ndims
   check_distribution("distributions.Independent", "base_distribution", of)
   if n > #of.batch_shape then
      args.refuse("distributions.Independent", "reinterpreted_batch_ndims",
         ("at most %d, the dimensions of batch_shape"):format(#of.batch_shape), n)
   end
   self.base_dist, self.reinterpreted_batch_ndims = of, n
   local batch, event = shapes.split(of.batch_shape, n)
   Distribution.__init(self, batch, shapes.join(event, of.event_shape), given.validate_args)
end

function Independent:_expand(new, batch)
   local _, event = shapes.split(self.base_dist.batch_shape, self.reinterpreted_batch_ndims)
   new.base_dist = self.base_dist:expand(shapes.join(batch, event))
end

for key in ("mean mode variance"):gmatch "%a+" do
   Independent._getters[key] = function(self) return self.base_dist[key] end
end
function Independent._getters:support()
   return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)
end
function Independent._getters:has_enumerate_support()
   return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support
end
function Independent:_sample(_, size) return self.base_dist:sample(size) end
function Independent:_rsample(_, size) return self.base_dist:rsample(size) end
function Independent:_log_prob(value)
   return shapes.sum_last(self.base_dist:log_prob(value), self.reinterpreted_batch_ndims)
end
function Independent:_entropy()
   return shapes.sum_last(self.base_dist:entropy(), self.reinterpreted_batch_ndims)
end
function Independent:_enumerate_support()
   if self.reinterpreted_batch_ndims > 0 then
      torch.raise("distributions.Independent: enumerate_support: expected"
         .. " reinterpreted_batch_ndims = 0, got " .. self.reinterpreted_batch_ndims)
   end
   return self.base_dist:_enumerate_support()
end
function Independent:__tostring()
   return ("Independent(%s, %d)"):format(tostring(self.base_dist), self.reinterpreted_batch_ndims)
end

-- TransformedDistribution -------------------------------------------------------------------------

--- The distribution of transformed values: each value is drawn from base_distribution and passed
--- through `transforms`, which is one transform or a list.
---
---     local D = torch.distributions
---     local d = D.TransformedDistribution(D.Normal(0, 1), D.ExpTransform())
---     print(d:log_prob(1.0))
---     --> tensor(-0.9189)
---@class distributions.TransformedDistribution : distributions.Distribution
---@field base_dist distributions.Distribution  the distribution before the transforms
---@field transforms distributions.Transform[]  the transforms in the order of their application
local TransformedDistribution = derive "TransformedDistribution"
M.TransformedDistribution = TransformedDistribution

local take_transformed = args.signature [[distributions.TransformedDistribution(
   base_distribution: object, transforms: any, validate_args: boolean?)]]

-- Returns the base distribution, with as many dimensions in an event as the transforms need, and
-- the batch_shape and event_shape of the transformed values.
local function fit(of, list)
   local whole = transforms.ComposeTransform(list)
   local shape, n = shapes.join(of.batch_shape, of.event_shape), #of.event_shape
   local needed = whole.domain.event_dim
   if #shape < needed then
      args.refuse("distributions.TransformedDistribution", "base_distribution",
         ("a shape of at least %d dimensions"):format(needed), shapes.text(shape))
   end
   local forward = whole:forward_shape(shape)
   local back = whole:inverse_shape(forward)
   if not shapes.same(back, shape) then of = of:expand((shapes.split(back, n))) end
   if needed > n then of = Independent(of, needed - n) end
   local event_dim = math.max(whole.codomain.event_dim, n + whole.codomain.event_dim - needed)
   local batch, event = shapes.split(forward, event_dim)
   return of, batch, event
end
M.fit = fit

function TransformedDistribution:__init(...)
   local given, who = take_transformed(...), "distributions.TransformedDistribution"
   check_distribution(who, "base_distribution", given.base_distribution)
   local list = given.transforms
   if class.isinstance(list, transforms.Transform) then list = {list} end
   if type(list) ~= "table" or getmetatable(list) then
      args.refuse(who, "transforms", "a transform or a list of transforms", list)
   end
   for i, t in ipairs(list) do
      if not class.isinstance(t, transforms.Transform) then
         args.refuse(who, ("transforms[%d]"):format(i), "a transform", t)
      end
   end
   self.transforms = list
   local batch, event
   self.base_dist, batch, event = fit(given.base_distribution, list)
   Distribution.__init(self, batch, event, given.validate_args)
end

function TransformedDistribution:_expand(new, batch)
   local shape = shapes.join(batch, self.event_shape)
   for i = #self.transforms, 1, -1 do shape = self.transforms[i]:inverse_shape(shape) end
   new.base_dist = self.base_dist:expand((shapes.split(shape, #self.base_dist.event_shape)))
end

function TransformedDistribution._getters:support()
   local last = self.transforms[#self.transforms]
   if not last then return self.base_dist.support end
   local support = last.codomain
   local more = #self.event_shape - support.event_dim
   return more > 0 and constraints.independent(support, more) or support
end

local function transformed(self, x)
   for _, t in ipairs(self.transforms) do x = t(x) end
   return x
end
function TransformedDistribution:_sample(_, size)
   return transformed(self, self.base_dist:sample(size))
end
function TransformedDistribution:_rsample(_, size)
   return transformed(self, self.base_dist:rsample(size))
end

function TransformedDistribution:_log_prob(y)
   local event_dim, sum = #self.event_shape, 0
   for i = #self.transforms, 1, -1 do
      local t = self.transforms[i]
      local x = t.inv(y)
      event_dim = event_dim + t.domain.event_dim - t.codomain.event_dim
      sum = sum - shapes.sum_last(t:log_abs_det_jacobian(x, y), event_dim - t.domain.event_dim)
      y = x
   end
   return sum + shapes.sum_last(self.base_dist:log_prob(y),
      event_dim - #self.base_dist.event_shape)
end

-- Converts a probability p of the base distribution's cdf to the probability of the transformed
-- distribution's cdf, or back. If the transforms together are decreasing, p becomes 1 - p, since
-- they reverse the order of values.
local function mirrored(self, p)
   local sign = 1
   for _, t in ipairs(self.transforms) do sign = t.sign * sign end
   if sign == 1 then return p end
   return sign * (p - 0.5) + 0.5
end
function TransformedDistribution:_cdf(y)
   for i = #self.transforms, 1, -1 do y = self.transforms[i].inv(y) end
   return mirrored(self, self.base_dist:cdf(y))
end
function TransformedDistribution:_icdf(p)
   return transformed(self, self.base_dist:icdf(mirrored(self, p)))
end
function TransformedDistribution:__tostring()
   if self._names then return Distribution.__tostring(self) end
   return "TransformedDistribution()"
end

return M
