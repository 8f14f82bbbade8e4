-- transforms.lua - torch.distributions.transforms: functions between sets of values, with the
-- logarithm of their Jacobian's determinant.
--
-- A definition has the functions `call`, `inverse` and `jacobian`. `domain` and `codomain` are
-- constraints, or functions that return constraints.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local constraints = require "tlua.distributions.constraints"
local lazy = require "tlua.lazy"
local shapes = require "tlua.distributions.shapes"

local F = torch.nn.functional
local M = {}

--- A function between sets of values. `t(x)` computes the function, and `t:inv(y)` its inverse. The
--- field `t.inv` is the inverse as a transform. With cache_size = 1 the transform remembers its
--- last argument and result, so that inverting the result returns that same argument.
---
---     local exp = torch.distributions.ExpTransform()
---     local y = exp(torch.tensor {0.0, 1.0})
---     print(y, exp:inv(y), exp.inv(y))
---     --> tensor([1.0000, 2.7183])	tensor([0., 1.])	tensor([0., 1.])
---@class distributions.Transform
---@field domain distributions.constraints.Constraint  the arguments
---@field codomain distributions.constraints.Constraint  the results
---@field bijective boolean  whether each result has one argument
---@field sign integer|Tensor  1 if the function increases, -1 if it decreases
---@field inv distributions.Transform  the inverse
---@field event_dim integer  the number of dimensions of an argument and of a result
local Transform = class.class "distributions.Transform"
M.Transform = Transform
Transform._fields, Transform._cache_size = {bijective = false}, 0

class.index_by(Transform, function(cls)
   return function(self, key)
      local value = cls[key]
      if value ~= nil then return value end
      local get = cls._fields[key]
      if type(get) == "function" then return get(self) end
      if get ~= nil then return get end
      if type(key) == "string" and not key:find "^_" then
         torch.raise(("%s: no field '%s'"):format(cls.__name, key))
      end
   end
end)

function Transform._fields:event_dim()
   if self.domain.event_dim ~= self.codomain.event_dim then
      torch.raise(torch.type(self) .. ": event_dim: use domain.event_dim or codomain.event_dim")
   end
   return self.domain.event_dim
end

local function undefined(self, what)
   torch.raise(("%s: %s is not defined"):format(torch.type(self), what))
end

function Transform._fields:sign() undefined(self, "sign") end

local function tensor_of(self, what, x)
   if type(x) == "number" then return torch.tensor(x + 0.0) end
   if not torch.is_tensor(x) then args.refuse(torch.type(self), what, "a tensor", x) end
   return x
end

-- Returns method(self, x), or takes it from the cache, which holds the last argument and its
-- result. `from` and `to` are "x" and "y": an inverse exchanges them.
local function apply(self, method, from, to, x)
   local last = self._last
   if last and rawequal(last[from], x) then return last[to] end
   local y = method(self, x)
   if self._cache_size == 1 then self._last = {[from] = x, [to] = y} end
   return y
end

function Transform:__call(x, y)
   -- in a call `inverse:inv(y)`, the first argument is the transform `inverse`
   if y ~= nil and class.isinstance(x, Transform) then x = y end
   return apply(self, self._call, "x", "y", tensor_of(self, "x", x))
end

-- The inverse of a transform. A call `t:inv(y)` passes the transform t as the first argument.
local Inverse = class.class("distributions.Inverse", Transform)
function Inverse:__init(of) self._of = of end
function Inverse:__call(first, y)
   local of = self._of
   if rawequal(first, of) then first = y end
   if not of._inverse then undefined(of, "the inverse") end
   return apply(of, of._inverse, "y", "x", tensor_of(of, "y", first))
end
Inverse._fields = setmetatable({
   domain = function(self) return self._of.codomain end,
   codomain = function(self) return self._of.domain end,
   bijective = function(self) return self._of.bijective end,
   sign = function(self) return self._of.sign end,
   inv = function(self) return self._of end,
}, {__index = Transform._fields})
function Inverse:log_abs_det_jacobian(x, y) return -self._of:log_abs_det_jacobian(y, x) end
function Inverse:forward_shape(shape) return self._of:inverse_shape(shape) end
function Inverse:inverse_shape(shape) return self._of:forward_shape(shape) end
function Inverse:with_cache(size) return self._of:with_cache(size).inv end
function Inverse:__eq(other)
   return class.isinstance(other, Inverse) and rawget(other, "_of") == self._of
end
function Inverse:__tostring() return ("Inverse(%s)"):format(tostring(self._of)) end

function Transform._fields:inv()
   local inverse = Inverse(self)
   rawset(self, "inv", inverse)
   return inverse
end

--- Returns a copy of the transform with a cache of the given size, 0 or 1.
---@param cache_size? integer  1 by default
---@return distributions.Transform
function Transform:with_cache(cache_size)
   if cache_size ~= nil and cache_size ~= 0 and cache_size ~= 1 then
      args.refuse(torch.type(self) .. ".with_cache", "cache_size", "0 or 1", cache_size)
   end
   local new = setmetatable({}, getmetatable(self))
   for key, value in next, self do rawset(new, key, value) end
   new._cache_size, new._last, new.inv = cache_size or 1, nil, nil
   return new
end

--- Returns, for each event, the logarithm of the absolute value of the Jacobian's determinant.
---@param x Tensor  an argument
---@param y Tensor  its result
---@return Tensor
function Transform:log_abs_det_jacobian(x, y)
   if not self._jacobian then undefined(self, "log_abs_det_jacobian") end
   return self:_jacobian(tensor_of(self, "x", x), tensor_of(self, "y", y))
end

--- Returns the shape of the result for an argument of the given shape.
---@param shape integer[]
---@return integer[]
function Transform:forward_shape(shape) return shape end

--- Returns the shape of the argument for a result of the given shape.
---@param shape integer[]
---@return integer[]
function Transform:inverse_shape(shape) return shape end

function Transform:__tostring()
   return ("%s()"):format(torch.type(self):match "[^.]+$")
end

local function same_value(a, b)
   if torch.is_tensor(a) or torch.is_tensor(b) then
      return (torch.is_tensor(a) and a or b):eq(torch.is_tensor(a) and b or a):all():item()
   end
   return a == b
end

function Transform:__eq(other)
   if getmetatable(self) ~= getmetatable(other) then return false end
   for _, name in ipairs(self._names or {}) do
      if not same_value(self[name], other[name]) then return false end
   end
   return self._names ~= nil
end

checked.methods(Transform, "with_cache(cache_size: integer = 1)"
   .. " log_abs_det_jacobian(x: any, y: any) forward_shape(shape: any) inverse_shape(shape: any)")

-- Defines a class of transforms. The constructor's arguments become fields.
local function define(name, parameters, spec)
   local full = "distributions." .. name
   local comma = parameters == "" and "" or ", "
   local take, names = args.declare(("%s(%s%scache_size: integer = 0)"):format(full, parameters,
      comma))
   local cls = class.class(full, Transform)
   cls._fields = setmetatable({}, {__index = Transform._fields})
   cls._call, cls._inverse, cls._jacobian = spec.call, spec.inverse, spec.jacobian
   for key in ("forward_shape inverse_shape __tostring"):gmatch "%S+" do
      if spec[key] then cls[key] = spec[key] end
   end
   for key in ("domain codomain sign bijective event_dim inv"):gmatch "%a+" do
      cls._fields[key] = spec[key]
   end
   if spec.bijective == nil then cls._fields.bijective = spec.jacobian ~= nil end
   function cls:__init(...)
      local given = take(...)
      if given.cache_size ~= 0 and given.cache_size ~= 1 then
         args.refuse(full, "cache_size", "0 or 1", given.cache_size)
      end
      self._cache_size = given.cache_size
      self._names = table.move(names(), 1, #names() - 1, 1, {})
      for _, key in ipairs(self._names) do self[key] = given[key] end
      if spec.prepare then spec.prepare(self, full) end
   end
   M[name] = cls
   return cls
end

local function need_dims(self, shape, n)
   if #shape < n then
      torch.raise(("%s: shape: expected at least %d dimensions, got %s"):format(torch.type(self),
         n, shapes.text(shape)))
   end
end

local real <const>, positive <const> = constraints.real, constraints.positive

-- Elementwise -------------------------------------------------------------------------------------

--- Computes y = exp(x).
---
---     print(torch.distributions.ExpTransform()(torch.tensor(0.0)))
---     --> tensor(1.)
define("ExpTransform", "", {
   domain = real, codomain = positive, sign = 1,
   call = function(_, x) return x:exp() end,
   inverse = function(_, y) return y:log() end,
   jacobian = function(_, x) return x end,
})

local function broadcast(self, shape)
   local list = {shape}
   for _, name in ipairs(self._names) do
      local value = self[name]
      if torch.is_tensor(value) then list[#list + 1] = value.shape end
   end
   return torch.broadcast_shapes(table.unpack(list))
end

--- Computes y = x ^ exponent, for positive numbers x.
---
---     print(torch.distributions.PowerTransform(2)(torch.tensor(3.0)))
---     --> tensor(9.)
define("PowerTransform", "exponent: any", {
   domain = positive, codomain = positive,
   prepare = function(self, full)
      self.exponent = shapes.tensors(full, self, {"exponent"}).exponent
   end,
   sign = function(self) return self.exponent:sign() end,
   call = function(self, x) return x:pow(self.exponent) end,
   inverse = function(self, y) return y:pow(1 / self.exponent) end,
   jacobian = function(self, x, y) return (self.exponent * y / x):abs():log() end,
   forward_shape = broadcast, inverse_shape = broadcast,
})

-- Clamps probabilities to numbers greater than 0 and less than 1.
local function inside(y)
   local info = torch.finfo(y.dtype)
   return y:clamp(info.tiny, 1 - info.eps)
end

--- Computes y = 1 / (1 + exp(-x)), clamped to numbers greater than 0 and less than 1.
---
---     print(torch.distributions.SigmoidTransform()(torch.tensor(0.0)))
---     --> tensor(0.5000)
define("SigmoidTransform", "", {
   domain = real, codomain = constraints.unit_interval, sign = 1,
   call = function(_, x) return inside(x:sigmoid()) end,
   inverse = function(_, y)
      y = inside(y)
      return y:log() - (-y):log1p()
   end,
   jacobian = function(_, x) return -F.softplus(-x) - F.softplus(x) end,
})

--- Computes y = log(1 + exp(x)).
---
---     print(torch.distributions.SoftplusTransform()(torch.tensor(0.0)))
---     --> tensor(0.6931)
define("SoftplusTransform", "", {
   domain = real, codomain = positive, sign = 1,
   call = function(_, x) return F.softplus(x) end,
   inverse = function(_, y) return (-y):expm1():neg():log() + y end,
   jacobian = function(_, x) return -F.softplus(-x) end,
})

--- Computes y = tanh(x).
---
---     print(torch.distributions.TanhTransform()(torch.tensor(0.5)))
---     --> tensor(0.4621)
define("TanhTransform", "", {
   domain = real, codomain = constraints.interval(-1, 1), sign = 1,
   call = function(_, x) return x:tanh() end,
   inverse = function(_, y) return y:atanh() end,
   jacobian = function(_, x) return 2 * (math.log(2) - x - F.softplus(-2 * x)) end,
})

--- Computes y = |x|. The inverse returns the positive one of the two possible arguments.
---
---     print(torch.distributions.AbsTransform()(torch.tensor(-2.0)))
---     --> tensor(2.)
define("AbsTransform", "", {
   domain = real, codomain = positive,
   call = function(_, x) return x:abs() end,
   inverse = function(_, y) return y end,
})

local function reals(self)
   return self.event_dim == 0 and real or constraints.independent(real, self.event_dim)
end

--- Computes y = loc + scale * x, where loc and scale are numbers or tensors. An event has event_dim
--- dimensions.
---
---     print(torch.distributions.AffineTransform(1, 2)(torch.tensor(3.0)))
---     --> tensor(7.)
define("AffineTransform", "loc: any, scale: any, event_dim: count = 0", {
   domain = reals, codomain = reals, bijective = true,
   prepare = function(self, full)
      for _, name in ipairs {"loc", "scale"} do
         if type(self[name]) ~= "number" and not torch.is_tensor(self[name]) then
            args.refuse(full, name, "a number or a tensor", self[name])
         end
      end
   end,
   sign = function(self)
      local scale = self.scale
      if torch.is_tensor(scale) then return scale:sign() end
      return scale > 0 and 1 or scale < 0 and -1 or 0
   end,
   call = function(self, x) return self.loc + self.scale * x end,
   inverse = function(self, y) return (y - self.loc) / self.scale end,
   jacobian = function(self, x)
      local scale = self.scale
      local result = torch.is_tensor(scale) and scale:abs():log()
         or torch.full_like(x, math.log(math.abs(scale)))
      return shapes.sum_last(result:expand(broadcast(self, x.shape)), self.event_dim)
   end,
   forward_shape = broadcast, inverse_shape = broadcast,
})

--- Computes y = cdf(x), the cumulative distribution function of a continuous distribution.
---
---     local D = torch.distributions
---     local t = D.CumulativeDistributionTransform(D.Uniform(0, 4))
---     print(t(torch.tensor(1.0)))
---     --> tensor(0.2500)
define("CumulativeDistributionTransform", "distribution: object", {
   codomain = constraints.unit_interval, sign = 1,
   domain = function(self) return self.distribution.support end,
   call = function(self, x) return self.distribution:cdf(x) end,
   inverse = function(self, y) return self.distribution:icdf(y) end,
   jacobian = function(self, x) return self.distribution:log_prob(x) end,
})

-- Combinations ------------------------------------------------------------------------------------

local function refuse_others(full, name, list)
   for i, t in ipairs(list) do
      if not class.isinstance(t, Transform) then
         args.refuse(full, ("%s[%d]"):format(name, i), "a transform", t)
      end
   end
end

local function with_caches(self, list)
   if self._cache_size == 0 then return list end
   local cached = {}
   for i, t in ipairs(list) do cached[i] = t:with_cache(self._cache_size) end
   return cached
end

-- Returns the domain of the first transform, or the codomain of the last transform, as a constraint
-- with as many event dimensions as all transforms of the chain together need.
local function end_of(parts, from, to, step, near, far)
   if #parts == 0 then return real end
   local constraint, event_dim = parts[from][near], parts[to][far].event_dim
   for i = to, from, step do
      local part = parts[i]
      event_dim = event_dim + part[near].event_dim - part[far].event_dim
      event_dim = math.max(event_dim, part[near].event_dim)
   end
   local more = event_dim - constraint.event_dim
   return more > 0 and constraints.independent(constraint, more) or constraint
end

--- Applies the transforms in the list `parts`, one after the other.
---
---     local D = torch.distributions
---     local t = D.ComposeTransform {D.AffineTransform(0, 2), D.ExpTransform()}
---     print(t(torch.tensor(0.5)))
---     --> tensor(2.7183)
define("ComposeTransform", "parts: names", {
   prepare = function(self, full)
      refuse_others(full, "parts", self.parts)
      self.parts = with_caches(self, self.parts)
   end,
   domain = function(self) return end_of(self.parts, 1, #self.parts, -1, "domain", "codomain") end,
   codomain = function(self) return end_of(self.parts, #self.parts, 1, 1, "codomain", "domain") end,
   bijective = function(self)
      for _, part in ipairs(self.parts) do
         if not part.bijective then return false end
      end
      return true
   end,
   sign = function(self)
      local sign = 1
      for _, part in ipairs(self.parts) do sign = part.sign * sign end
      return sign
   end,
   call = function(self, x)
      for _, part in ipairs(self.parts) do x = part(x) end
      return x
   end,
   inverse = function(self, y)
      for i = #self.parts, 1, -1 do y = self.parts[i].inv(y) end
      return y
   end,
   jacobian = function(self, x, y)
      if #self.parts == 0 then return torch.zeros_like(x) end
      local event_dim, sum = self.domain.event_dim, nil
      for i, part in ipairs(self.parts) do
         local result = i == #self.parts and y or part(x)
         local term = shapes.sum_last(part:log_abs_det_jacobian(x, result),
            event_dim - part.domain.event_dim)
         sum = sum and sum + term or term
         event_dim = event_dim + part.codomain.event_dim - part.domain.event_dim
         x = result
      end
      return sum
   end,
   forward_shape = function(self, shape)
      for _, part in ipairs(self.parts) do shape = part:forward_shape(shape) end
      return shape
   end,
   inverse_shape = function(self, shape)
      for i = #self.parts, 1, -1 do shape = self.parts[i]:inverse_shape(shape) end
      return shape
   end,
   __tostring = function(self)
      local list = {}
      for i, part in ipairs(self.parts) do list[i] = "\n    " .. tostring(part) end
      return ("ComposeTransform(%s\n)"):format(table.concat(list, ","))
   end,
})
function M.ComposeTransform:__eq(other)
   if getmetatable(self) ~= getmetatable(other) or #self.parts ~= #other.parts then
      return false
   end
   for i, part in ipairs(self.parts) do
      if part ~= other.parts[i] then return false end
   end
   return true
end

--- The transform that returns its argument.
---@names distributions.identity_transform distributions.transforms.identity_transform
M.identity_transform = M.ComposeTransform {}

--- Treats the last reinterpreted_batch_ndims dimensions of base_transform as one event.
---
---     local D = torch.distributions
---     local rows = D.IndependentTransform(D.ExpTransform(), 1)
---     local x = torch.tensor {1.0, 2.0}
---     print(rows:log_abs_det_jacobian(x, rows(x)))
---     --> tensor(3.)
define("IndependentTransform", "base_transform: object, reinterpreted_batch_ndims: count", {
   prepare = function(self, full)
      refuse_others(full, "base_transform", {self.base_transform})
      self.base_transform = with_caches(self, {self.base_transform})[1]
   end,
   domain = function(self)
      return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)
   end,
   codomain = function(self)
      return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)
   end,
   bijective = function(self) return self.base_transform.bijective end,
   sign = function(self) return self.base_transform.sign end,
   call = function(self, x)
      need_dims(self, x.shape, self.domain.event_dim)
      return self.base_transform(x)
   end,
   inverse = function(self, y)
      need_dims(self, y.shape, self.codomain.event_dim)
      return self.base_transform.inv(y)
   end,
   jacobian = function(self, x, y)
      return shapes.sum_last(self.base_transform:log_abs_det_jacobian(x, y),
         self.reinterpreted_batch_ndims)
   end,
   forward_shape = function(self, shape) return self.base_transform:forward_shape(shape) end,
   inverse_shape = function(self, shape) return self.base_transform:inverse_shape(shape) end,
})

-- Replaces the sizes `from` at the end of a shape by the sizes `to`. Raises an error if the shape
-- does not end with `from`.
local function swap_event(self, shape, from, to)
   need_dims(self, shape, #from)
   local batch, event = shapes.split(shape, #from)
   if not shapes.same(event, from) then
      torch.raise(("%s: shape: expected a shape that ends with %s, got %s"):format(
         torch.type(self), shapes.text(from), shapes.text(shape)))
   end
   return shapes.join(batch, to)
end

--- Reshapes each event from in_shape to out_shape.
---
---     local t = torch.distributions.ReshapeTransform({4}, {2, 2})
---     print(t(torch.ones(3, 4)).shape)
---     --> torch.Size([3, 2, 2])
define("ReshapeTransform", "in_shape: table, out_shape: table", {
   prepare = function(self, full)
      shapes.size(full, "in_shape", self.in_shape)
      shapes.size(full, "out_shape", self.out_shape)
      if torch.Size(self.in_shape):numel() ~= torch.Size(self.out_shape):numel() then
         torch.raise(("%s: expected shapes of as many elements, got %s and %s"):format(full,
            shapes.text(self.in_shape), shapes.text(self.out_shape)))
      end
   end,
   domain = function(self) return constraints.independent(real, #self.in_shape) end,
   codomain = function(self) return constraints.independent(real, #self.out_shape) end,
   call = function(self, x) return x:reshape(self:forward_shape(x.shape)) end,
   inverse = function(self, y) return y:reshape(self:inverse_shape(y.shape)) end,
   jacobian = function(self, x)
      return x:new_zeros((shapes.split(x.shape, #self.in_shape)))
   end,
   forward_shape = function(self, shape)
      return swap_event(self, shape, self.in_shape, self.out_shape)
   end,
   inverse_shape = function(self, shape)
      return swap_event(self, shape, self.out_shape, self.in_shape)
   end,
})

-- Calls fn(transform, slices...) for each transform, where `slices` has the transform's slice of
-- each tensor in the list xs. Returns the list of results.
local function on_slices(self, xs, slice, fn)
   local first, n, lengths = xs[1], 0, rawget(self, "lengths")
   for i in ipairs(self.transforms) do n = n + (lengths and lengths[i] or 1) end
   local dim = self.dim
   if dim == 0 or math.abs(dim) > first:dim() or first:size(dim) ~= n then
      args.refuse(torch.type(self), "x", ("a tensor of size %d in dimension %d"):format(n, dim),
         first)
   end
   local results = {}
   for i, t in ipairs(self.transforms) do
      local parts = {}
      for k, x in ipairs(xs) do parts[k] = slice(self, x, i) end
      results[i] = fn(t, table.unpack(parts))
   end
   return results
end

local function forward(t, x) return t(x) end
local function backward(t, y) return t.inv(y) end
local function jacobian(t, x, y) return t:log_abs_det_jacobian(x, y) end

local function narrow(self, x, i)
   local start = 1
   for k = 1, i - 1 do start = start + self.lengths[k] end
   return x:narrow(self.dim, start, self.lengths[i])
end
local function select(self, x, i) return x:select(self.dim, i) end

local function list_of(self, name)
   local list = {}
   for i, t in ipairs(self.transforms) do list[i] = t[name] end
   return list
end
local function all_bijective(self)
   for _, t in ipairs(self.transforms) do
      if not t.bijective then return false end
   end
   return true
end
local function prepare_list(self, full)
   refuse_others(full, "transforms", self.transforms)
   self.transforms = with_caches(self, self.transforms)
end

--- Splits a tensor along dim, applies the i-th transform of a list to the i-th slice, and
--- concatenates the results. Slice i has the length lengths[i], 1 by default.
---
---     local D = torch.distributions
---     local parts = {D.AffineTransform(0, 2), D.ExpTransform()}
---     local t = D.CatTransform {transforms = parts}
---     print(t(torch.tensor {1.0, 0.0}))
---     --> tensor([2., 1.])
define("CatTransform", "transforms: table, dim: dim = 1, lengths: table?", {
   prepare = function(self, full)
      prepare_list(self, full)
      self.lengths = rawget(self, "lengths") or {}
      for i = 1, #self.transforms do self.lengths[i] = self.lengths[i] or 1 end
   end,
   event_dim = function(self)
      local n = 0
      for _, t in ipairs(self.transforms) do n = math.max(n, t.event_dim) end
      return n
   end,
   bijective = all_bijective,
   domain = function(self)
      return constraints.cat(list_of(self, "domain"), self.dim, {lengths = self.lengths})
   end,
   codomain = function(self)
      return constraints.cat(list_of(self, "codomain"), self.dim, {lengths = self.lengths})
   end,
   call = function(self, x) return torch.cat(on_slices(self, {x}, narrow, forward), self.dim) end,
   inverse = function(self, y)
      return torch.cat(on_slices(self, {y}, narrow, backward), self.dim)
   end,
   jacobian = function(self, x, y)
      local terms = on_slices(self, {x, y}, narrow, function(t, a, b)
         return shapes.sum_last(t:log_abs_det_jacobian(a, b), self.event_dim - t.event_dim)
      end)
      local dim = (self.dim > 0 and self.dim - x:dim() - 1 or self.dim) + self.event_dim
      if dim < 0 then return torch.cat(terms, dim) end
      local sum = terms[1]
      for i = 2, #terms do sum = sum + terms[i] end
      return sum
   end,
})

--- Applies the i-th transform of a list to the slice at position i of dimension dim, and stacks the
--- results.
---
---     local D = torch.distributions
---     local parts = {D.AffineTransform(0, 2), D.ExpTransform()}
---     local t = D.StackTransform {transforms = parts}
---     print(t(torch.tensor {1.0, 0.0}))
---     --> tensor([2., 1.])
define("StackTransform", "transforms: table, dim: dim = 1", {
   prepare = prepare_list, bijective = all_bijective,
   domain = function(self) return constraints.stack(list_of(self, "domain"), self.dim) end,
   codomain = function(self) return constraints.stack(list_of(self, "codomain"), self.dim) end,
   call = function(self, x) return torch.stack(on_slices(self, {x}, select, forward), self.dim) end,
   inverse = function(self, y)
      return torch.stack(on_slices(self, {y}, select, backward), self.dim)
   end,
   jacobian = function(self, x, y)
      return torch.stack(on_slices(self, {x, y}, select, jacobian), self.dim)
   end,
})

-- Vectors and matrices ----------------------------------------------------------------------------

local function same_shape(self, shape)
   need_dims(self, shape, 1)
   return shape
end

--- Maps vectors to vectors of probabilities by softmax. The inverse is the logarithm.
---
---     print(torch.distributions.SoftmaxTransform()(torch.zeros(2)))
---     --> tensor([0.5000, 0.5000])
define("SoftmaxTransform", "", {
   domain = constraints.real_vector, codomain = constraints.simplex,
   call = function(_, x) return x:softmax(-1) end,
   inverse = function(_, y) return y:log() end,
   forward_shape = same_shape, inverse_shape = same_shape,
})

local function resized(by)
   return function(self, shape)
      need_dims(self, shape, 1)
      local batch, event = shapes.split(shape, 1)
      return shapes.join(batch, {event[1] + by})
   end
end

-- Returns the logarithms of n, n - 1, ..., 1. The transform subtracts these offsets from its
-- argument, so that it maps the zero vector to equal probabilities.
local function offsets(x, n)
   return torch.arange(n, 0, -1, {dtype = x.dtype, device = x.device}):log()
end

--- Maps vectors of n numbers to n + 1 probabilities by breaking a stick of length 1. Each number
--- determines the share that is broken off the rest of the stick.
---
---     print(torch.distributions.StickBreakingTransform()(torch.zeros(2)))
---     --> tensor([0.3333, 0.3333, 0.3333])
define("StickBreakingTransform", "", {
   domain = constraints.real_vector, codomain = constraints.simplex, bijective = true,
   call = function(_, x)
      local n = x:size(-1)
      local z = inside((x - offsets(x, n)):sigmoid())
      return F.pad(z, {0, 1}, "constant", 1) * F.pad((1 - z):cumprod(-1), {1, 0}, "constant", 1)
   end,
   inverse = function(_, y)
      local n = y:size(-1) - 1
      local kept = y:narrow(-1, 1, n)
      local rest = (1 - kept:cumsum(-1)):clamp {min = torch.finfo(y.dtype).tiny}
      return kept:log() - rest:log() + offsets(y, n)
   end,
   jacobian = function(_, x, y)
      local n = x:size(-1)
      x = x - offsets(x, n)
      return (F.logsigmoid(x) - x + y:narrow(-1, 1, n):log()):sum(-1)
   end,
   forward_shape = resized(1), inverse_shape = resized(-1),
})

-- Returns a matrix's elements on and below diagonal number `diagonal`, row by row.
local function below(x, diagonal)
   local n = x:size(-1)
   local at = torch.tril_indices(n, n, diagonal, {device = x.device})
   return x:flatten(-2, -1):index_select(-1, (at[1] - 1) * n + at[2])
end

--- Maps vectors of D (D - 1) / 2 numbers to the Cholesky factors of D x D correlation matrices.
---
---     print(torch.distributions.CorrCholeskyTransform()(torch.zeros(1)))
---     --> tensor([[1., 0.],
---     -->         [0., 1.]])
define("CorrCholeskyTransform", "", {
   domain = constraints.real_vector, codomain = constraints.corr_cholesky,
   call = function(self, x)
      local eps, size = torch.finfo(x.dtype).eps, self:forward_shape(x.shape)
      local n = size[#size]
      x = x:tanh():clamp(-1 + eps, 1 - eps)
      local batch = shapes.split(x.shape, 1)
      local at = torch.tril_indices(n, n, -1, {device = x.device})
      local flat = x:new_zeros(shapes.join(batch, {n * n}))
      local r = flat:index_copy(-1, (at[1] - 1) * n + at[2], x):view(size)
      local rest = (1 - r * r):sqrt():cumprod(-1):narrow(-1, 1, n - 1)
      return (r + torch.eye(n, {dtype = x.dtype, device = x.device}))
         * F.pad(rest, {1, 0}, "constant", 1)
   end,
   inverse = function(_, y)
      local rest = 1 - (y * y):cumsum(-1):narrow(-1, 1, y:size(-1) - 1)
      local shifted = F.pad(rest, {1, 0}, "constant", 1)
      local t = below(y, -1) / below(shifted, -1):sqrt()
      return (t:log1p() - (-t):log1p()) / 2
   end,
   jacobian = function(_, x, y)
      local rest = below(1 - (y * y):cumsum(-1), -2):log():sum(-1)
      return 0.5 * rest - 2 * (x + F.softplus(-2 * x) - math.log(2)):sum(-1)
   end,
   forward_shape = function(self, shape)
      need_dims(self, shape, 1)
      local batch, event = shapes.split(shape, 1)
      local n = math.tointeger((0.25 + 2 * event[1]) ^ 0.5 + 0.5)
      if not n then
         torch.raise(("%s: x: expected D (D - 1) / 2 numbers, got %d"):format(torch.type(self),
            event[1]))
      end
      return shapes.join(batch, {n, n})
   end,
   inverse_shape = function(self, shape)
      need_dims(self, shape, 2)
      local batch, event = shapes.split(shape, 2)
      if event[1] ~= event[2] then
         torch.raise(("%s: y: expected square matrices, got %s"):format(torch.type(self),
            shapes.text(shape)))
      end
      return shapes.join(batch, {event[1] * (event[1] - 1) // 2})
   end,
})

local function with_diagonal(x, change)
   return x:tril(-1) + change(x:diagonal(0, -2, -1)):diag_embed()
end
local function lower(x) return with_diagonal(x, torch.exp) end

--- Maps matrices to lower triangular matrices with a positive diagonal: elements above the diagonal
--- become 0, and elements on the diagonal are replaced by their exponentials.
---
---     print(torch.distributions.LowerCholeskyTransform()(torch.zeros(2, 2)))
---     --> tensor([[1., 0.],
---     -->         [0., 1.]])
define("LowerCholeskyTransform", "", {
   domain = constraints.independent(real, 2), codomain = constraints.lower_cholesky,
   call = function(_, x) return lower(x) end,
   inverse = function(_, y) return with_diagonal(y, torch.log) end,
})

--- Maps matrices to positive definite matrices L L^T, where L is the result of
--- LowerCholeskyTransform.
---
---     print(torch.distributions.PositiveDefiniteTransform()(torch.zeros(2, 2)))
---     --> tensor([[1., 0.],
---     -->         [0., 1.]])
define("PositiveDefiniteTransform", "", {
   domain = constraints.independent(real, 2), codomain = constraints.positive_definite,
   call = function(_, x)
      x = lower(x)
      return shapes.matmul(x, x.mT)
   end,
   inverse = function(_, y) return with_diagonal(torch.linalg.cholesky(y), torch.log) end,
})

M.transforms = lazy.load({}, {})
for name, value in pairs(M) do
   if name ~= "transforms" then M.transforms[name] = value end
end

return M
