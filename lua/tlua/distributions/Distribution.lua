-- Distribution.lua - the base of all distributions, and the function that defines them.
--
-- A definition is a table. Its field `constraints` maps each parameter that is a tensor to the
-- constraint of its values. Parameters are broadcast to a common batch_shape, except for their last
-- dimensions that form one value (event) of the constraint. Distribution's methods check their
-- arguments and then call the definition's functions log_prob, cdf, icdf, entropy, rsample, sample,
-- enumerate_support and expand. The constructor calls `prepare` and `event` (which returns the
-- event_shape), and `check` if arguments are checked. `parent` is the class to derive from, and
-- `either` a list of parameters of which exactly one is given. Any other function of the definition
-- computes a field of that name whenever the field is read; a function in the table `cached` is
-- called only at the first reading.
-- A string in a definition makes the field an alias of the field that the string names.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local constraints = require "tlua.distributions.constraints"
local shapes = require "tlua.distributions.shapes"

local M = {}

--- A batch of probability distributions. batch_shape is the shape of the parameters, and
--- event_shape is the shape of one draw. Arguments are checked unless validate_args is false.
---
---     local normal = torch.distributions.Normal(torch.zeros(3), 2)
---     print(normal.batch_shape, normal.stddev)
---     --> torch.Size([3])	tensor([2., 2., 2.])
---@class distributions.Distribution
---@field batch_shape integer[]  the shape of the parameters
---@field event_shape integer[]  the shape of one draw
---@field mean Tensor  the expected value
---@field mode Tensor  the most probable value
---@field variance Tensor  the variance of each element
---@field stddev Tensor  the square root of the variance
---@field support distributions.constraints.Constraint  the possible values
---@field arg_constraints table<string, distributions.constraints.Constraint>  the constraints of
--- the parameters
---@field has_rsample boolean  whether rsample exists
---@field has_enumerate_support boolean  whether enumerate_support exists
local Distribution = class.class "distributions.Distribution"
M.Distribution = Distribution
Distribution._getters, Distribution._cached, Distribution._validate_args = {}, {}, true

-- Fields ------------------------------------------------------------------------------------------

local function refuse_field(self, cls, key)
   local known = {}
   for name in pairs(self) do known[name] = true end
   for _, set in ipairs {"_getters", "_cached"} do
      local fields = cls[set]
      while fields do
         for name in pairs(fields) do known[name] = true end
         local meta = getmetatable(fields)
         fields = meta and meta.__index
      end
   end
   for name, value in pairs(Distribution) do known[name] = type(value) == "function" or nil end
   local near = require "tlua.utils.suggest".hint(key, known)
   torch.raise(("%s: no field '%s'%s"):format(cls.__name, key, near))
end

class.index_by(Distribution, function(cls)
   return function(self, key)
      local own = cls[key]
      if own ~= nil then return own end
      local get = cls._getters[key]
      if get then return get(self) end
      get = cls._cached[key]
      if get then
         local memo = rawget(self, "_memo")
         if memo[key] ~= nil then return memo[key] end
         local value = torch.enable_grad(function() return get(self) end)
         -- a value computed in inference_mode has no graph, so later calls cannot use it
         if not torch.is_inference_mode_enabled() then memo[key] = value end
         return value
      end
      if type(key) == "string" and not key:find "^_" then refuse_field(self, cls, key) end
   end
end)

local function undefined(key)
   return function(self) torch.raise(("%s: %s is not defined"):format(torch.type(self), key)) end
end

for key in ("mean mode variance support"):gmatch "%a+" do
   Distribution._getters[key] = undefined(key)
end
function Distribution._getters:stddev() return self.variance:sqrt() end
function Distribution._getters:has_rsample() return self._rsample ~= nil end
function Distribution._getters:has_enumerate_support() return self._enumerate_support ~= nil end
function Distribution._getters:arg_constraints() return self._constraints or {} end
-- Returns a table with the dtype and the device of samples, which are those of the parameters.
function Distribution._getters:_like()
   for _, name in ipairs(self._names) do
      local x = rawget(self, name)
      if torch.is_tensor(x) then return {dtype = x.dtype, device = x.device} end
   end
   return {}
end

-- Construction ------------------------------------------------------------------------------------

--- Sets whether distributions check their arguments if validate_args is not given. The default is
--- true.
---@param value boolean
function Distribution.set_default_validate_args(value)
   if type(value) ~= "boolean" then
      args.refuse("distributions.Distribution.set_default_validate_args", "value", "a boolean",
         value)
   end
   Distribution._validate_args = value
end

-- Returns a text that describes the first element that violates a constraint. If `valid` has one
-- flag for several elements, describes the whole tensor instead.
local function offender(value, valid)
   if valid:dim() ~= value:dim() then return args.describe(value) end
   return ("%g"):format(value:masked_select(valid:logical_not())[1]:item())
end

local function require_all(who, name, constraint, value)
   local valid = constraint:check(value)
   if valid:all():item() then return end
   if valid:dim() == value:dim() then value = value:expand_as(valid) end
   torch.raise(("%s: %s: expected values that satisfy %s, got %s"):format(who, name,
      tostring(constraint), offender(value, valid)))
end

--- Sets batch_shape and event_shape, and checks the parameters' values.
---@param batch integer[]  the batch_shape
---@param event integer[]  the event_shape
---@param validate_args? boolean  the value of set_default_validate_args unless given
function Distribution:__init(batch, event, validate_args)
   self._memo = {}
   local who = torch.type(self)
   self.batch_shape = torch.Size(shapes.size(who, "batch_shape", batch or {}))
   self.event_shape = torch.Size(shapes.size(who, "event_shape", event or {}))
   if validate_args ~= nil then self._validate_args = validate_args end
   if not self._validate_args then return end
   for name, constraint in pairs(self.arg_constraints) do
      local value = rawget(self, name)
      if torch.is_tensor(value) then require_all(torch.type(self), name, constraint, value) end
   end
end

local methods <const> = {
   log_prob = true, cdf = true, icdf = true, entropy = true, rsample = true, sample = true,
   enumerate_support = true, expand = true, natural_params = true, log_normalizer = true,
}

-- Adds the functions and fields of a definition (see the head of this file) to the class.
local function adopt(cls, spec)
   local parent = getmetatable(cls).parent
   cls._getters = setmetatable({}, {__index = parent._getters})
   cls._cached = setmetatable(spec.cached or {}, {__index = parent._cached})
   for key, value in pairs(spec) do
      if methods[key] then
         cls["_" .. key] = value
      elseif type(value) == "function" then
         cls._getters[key] = value
      elseif type(value) == "string" then
         cls._getters[key] = function(self) return self[value] end
      elseif key == "support" then
         cls._getters.support = function() return value end
      end
   end
   cls._constraints, cls._plain, cls._either = spec.constraints, spec.plain, spec.either
end

local function check_either(who, either, given)
   local found = 0
   for _, name in ipairs(either or {}) do found = found + (given[name] ~= nil and 1 or 0) end
   if either and found ~= 1 then
      torch.raise(("%s: expected one of %s, got %s"):format(who, table.concat(either, ", "),
         found == 0 and "none" or tostring(found)))
   end
end

--- Returns a tensor of the shape batch_shape, event_shape that is filled with one value.
---@param self distributions.Distribution
---@param value number
---@return Tensor
function M.full(self, value)
   return torch.full(shapes.join(self.batch_shape, self.event_shape), value, self._like)
end

--- Makes a class of distributions.
---@param name string
---@param signature string  the constructor's parameters, in the notation of args.signature
---@param spec table  a definition, as the head of this file describes it
---@return table class
function M.define(name, signature, spec)
   local full = "distributions." .. name
   local take, names = args.declare(("%s(%s, validate_args: boolean?)"):format(full, signature))
   local cls = class.class(full, spec.parent or Distribution)
   adopt(cls, spec)
   local params, dims = {}, {}
   for parameter in signature:gmatch "([%w_]+):" do
      local constraint = spec.constraints and spec.constraints[parameter]
      if constraint then params[#params + 1], dims[parameter] = parameter, constraint.event_dim end
   end
   cls._names, cls._dims = params, dims
   if #params > 0 then
      cls._getters._like, cls._expand = Distribution._getters._like, Distribution._expand
   end
   function cls:__init(...)
      local given = take(...)
      check_either(full, spec.either, given)
      for _, key in ipairs(names()) do
         if not dims[key] and key ~= "validate_args" then self[key] = given[key] end
      end
      local made = shapes.tensors(full, given, params)
      if spec.prepare then spec.prepare(self, made) end
      local batch = shapes.broadcast(full, made, params, dims)
      for key, value in pairs(made) do self[key] = value end
      self._memo = {}
      Distribution.__init(self, batch, spec.event and spec.event(self), given.validate_args)
      if spec.check and self._validate_args then spec.check(self) end
   end
   return cls
end

--- Returns the distribution with its parameters expanded to a larger batch_shape.
---@param batch_shape integer[]
---@return distributions.Distribution
function Distribution:expand(batch_shape)
   local batch = shapes.size(torch.type(self) .. ".expand", "batch_shape", batch_shape)
   local new = setmetatable({}, getmetatable(self))
   for key, value in next, self do rawset(new, key, value) end
   new._memo, new.batch_shape = {}, torch.Size(batch)
   self._expand(self, new, batch)
   return new
end

-- Sets the parameters of `new`, a copy of this distribution, to this distribution's parameters,
-- expanded to the shape `batch`.
function Distribution:_expand(new, batch)
   for _, name in ipairs(self._names or {}) do
      local x = rawget(self, name)
      if x then
         local _, event = shapes.split(x.shape, self._dims[name])
         new[name] = x:expand(shapes.join(batch, event))
      end
   end
end

-- Methods -----------------------------------------------------------------------------------------

local function method_of(self, name)
   return self["_" .. name]
      or torch.raise(("%s: %s is not defined"):format(torch.type(self), name))
end

-- Converts an argument to a tensor, and checks that its values satisfy a constraint: the
-- distribution's support, unless another constraint is given.
local function value_of(self, method, value, constraint)
   local who = torch.type(self) .. "." .. method
   if type(value) == "number" then
      local like = self._like
      value = torch.tensor(value, {dtype = like.dtype, device = like.device})
   elseif type(value) == "table" and getmetatable(value) == nil then
      value = torch.tensor(value, self._like)
   end
   if not torch.is_tensor(value) or value:is_complex() then
      args.refuse(who, "value", "a number or a tensor of real numbers", value)
   end
   if not self._validate_args then return value end
   local n = #self.event_shape
   local _, event = shapes.split(value.shape, math.min(n, value:dim()))
   local whole = shapes.join(self.batch_shape, self.event_shape)
   local fits = constraint or shapes.same(event, self.event_shape)
   if not fits or not pcall(torch.broadcast_shapes, value.shape, whole) then
      args.refuse(who, "value", ("a shape that broadcasts with batch_shape %s and ends with"
         .. " event_shape %s"):format(shapes.text(self.batch_shape),
         shapes.text(self.event_shape)), value)
   end
   require_all(who, "value", constraint or self.support, value)
   return value
end

--- Returns the logarithm of the density or probability of a value.
---
---     local normal = torch.distributions.Normal(0, 1)
---     print(normal:log_prob(0))
---     --> tensor(-0.9189)
---@param value Tensor|number  a value of event_shape, after dimensions that broadcast with
--- batch_shape
---@return Tensor
function Distribution:log_prob(value)
   local compute = method_of(self, "log_prob")
   return compute(self, value_of(self, "log_prob", value))
end

--- Returns the cumulative distribution function: the probability that a draw is at most `value`.
---@param value Tensor|number
---@return Tensor
function Distribution:cdf(value)
   local compute = method_of(self, "cdf")
   return compute(self, value_of(self, "cdf", value))
end

--- Returns the quantile of a probability: the number x for which cdf(x) is that probability.
---@param value Tensor|number  from 0 to 1
---@return Tensor
function Distribution:icdf(value)
   local compute = method_of(self, "icdf")
   return compute(self, value_of(self, "icdf", value, constraints.unit_interval))
end

--- Returns the entropy of each distribution of the batch, in nats.
---@return Tensor
function Distribution:entropy() return method_of(self, "entropy")(self) end

--- Returns the exponential of the entropy.
---@return Tensor
function Distribution:perplexity() return self:entropy():exp() end

local function sizes_of(self, method, sample_shape)
   local size = shapes.size(torch.type(self) .. "." .. method, "sample_shape", sample_shape or {})
   return shapes.join(size, self.batch_shape, self.event_shape), size
end

--- Draws values of the shape sample_shape, batch_shape, event_shape, without gradients.
---
---     torch.manual_seed(0)
---     local coin = torch.distributions.Bernoulli(0.5)
---     print(coin:sample({2, 3}).shape)
---     --> torch.Size([2, 3])
---@param sample_shape? integer[]  {} by default: one draw from each distribution
---@return Tensor
function Distribution:sample(sample_shape)
   local draw = self._sample or method_of(self, "rsample")
   local shape, size = sizes_of(self, "sample", sample_shape)
   local _ <close> = torch.no_grad()
   return draw(self, shape, size)
end

--- Draws values that are differentiable functions of the parameters.
---
---     local scale = torch.tensor(2.0):requires_grad_()
---     local x = torch.distributions.Normal(0, scale):rsample()
---     x:backward()
---     print((scale.grad - x / 2):abs():item() < 1e-6)
---     --> true
---@param sample_shape? integer[]  {} by default: one draw from each distribution
---@return Tensor
function Distribution:rsample(sample_shape)
   if not self.has_rsample then
      torch.raise(torch.type(self) .. ": rsample is not defined; sample draws without gradients")
   end
   return self:_rsample(sizes_of(self, "rsample", sample_shape))
end

--- Draws n values from each distribution: sample {n}.
---@param n integer
---@return Tensor
function Distribution:sample_n(n) return self:sample {n} end

--- Returns all values that a discrete distribution can have, along a new first dimension.
---
---     print(torch.distributions.Binomial(2, 0.5):enumerate_support())
---     --> tensor([0., 1., 2.])
---@param expand? boolean  whether batch dimensions have the batch's sizes (the default), rather
--- than 1
---@return Tensor
function Distribution:enumerate_support(expand)
   local values = method_of(self, "enumerate_support")(self)
   local n = values:dim() - 1
   local ones = {}
   for i = 1, #self.batch_shape do ones[i] = 1 end
   local _, event = shapes.split(values.shape, n)
   values = values:view(shapes.join({values:size(1)}, ones, event))
   if expand == false then return values end
   return values:expand(shapes.join({values:size(1)}, self.batch_shape, event))
end

function Distribution:__tostring()
   local list = {}
   for _, name in ipairs(self._names or {}) do
      local x = rawget(self, name)
      if x then
         local text = x:numel() == 1 and tostring(x:item()) or tostring(x.shape)
         list[#list + 1] = name .. ": " .. text
      end
   end
   return ("%s(%s)"):format(torch.type(self):match "[^.]+$", table.concat(list, ", "))
end

checked.methods(Distribution, [[expand(batch_shape: any) log_prob(value: any) cdf(value: any)
   icdf(value: any) entropy() perplexity() sample(sample_shape: any?) rsample(sample_shape: any?)
   sample_n(n: count) enumerate_support(expand: boolean = true)]])

-- Exponential families ----------------------------------------------------------------------------

--- A family of densities exp(sum of natural parameters times statistics - log normalizer). A class
--- derived from it defines `_natural_params(self)`, which returns the list of natural parameters,
--- and `_log_normalizer(self, ...)`, which takes them. entropy and kl_divergence are computed by
--- differentiating the log normalizer.
---
---     local distributions = torch.distributions
---     local normal = distributions.Normal(0, 1)
---     print(torch.isinstance(normal, distributions.ExponentialFamily))
---     print(normal:entropy())
---     --> true
---     --> tensor(1.4189)
---@class distributions.ExponentialFamily : distributions.Distribution
local ExponentialFamily = class.class("distributions.ExponentialFamily", Distribution)
ExponentialFamily._mean_carrier_measure = 0
M.ExponentialFamily = ExponentialFamily

--- Returns the log normalizer at the distribution's natural parameters, its gradients there, and
--- the natural parameters. All are differentiable with respect to the distribution's own
--- parameters. PyTorch detaches the natural parameters, and so loses a part of the gradient.
function ExponentialFamily:_expected_statistics()
   local params = {}
   for i, x in ipairs(method_of(self, "natural_params")(self)) do
      params[i] = x.requires_grad and x or x:detach():requires_grad_()
   end
   return torch.enable_grad(function()
      local normalizer = self:_log_normalizer(table.unpack(params))
      local total = normalizer:sum()
      local gradients = {torch.autograd.grad(total, params, {create_graph = true})}
      return normalizer, gradients, params
   end)
end

function ExponentialFamily:_entropy()
   local normalizer, gradients, params = self:_expected_statistics()
   local result = normalizer - self._mean_carrier_measure
   for i, x in ipairs(params) do
      result = result - shapes.sum_last(x * gradients[i], x:dim() - #self.batch_shape)
   end
   return result
end

return M
