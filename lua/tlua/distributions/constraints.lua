-- constraints.lua - torch.distributions.constraints: sets of values, such as the positive numbers,
-- for parameters and samples.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"
local shapes = require "tlua.distributions.shapes"

local M = {}

--- A set of values. `check` tells which elements, or which events of event_dim dimensions, belong
--- to it.
---
---     local positive = torch.distributions.constraints.positive
---     print(positive:check(torch.tensor {-1.0, 2.0}))
---     --> tensor([False,  True])
---@class distributions.constraints.Constraint
---@field is_discrete boolean  whether the values are separate, such as integers
---@field event_dim integer  the number of dimensions of one value
local Constraint = class.class "distributions.constraints.Constraint"
Constraint.is_discrete, Constraint.event_dim = false, 0
M.Constraint = Constraint

--- Returns for each event whether it belongs to the set.
---@param value Tensor
---@return Tensor
function Constraint:check(value) -- luacheck: no unused args
   torch.raise(torch.type(self) .. ": check is not defined")
end

function Constraint:__tostring()
   local list = {}
   for _, name in ipairs(self._names or {}) do
      local value = self[name]
      local text = tostring(value)
      if torch.is_tensor(value) then
         text = value:numel() == 1 and ("%g"):format(value:item()) or args.describe(value)
      end
      list[#list + 1] = name .. "=" .. text
   end
   return ("%s(%s)"):format(self._shown or torch.type(self):match "[^.]+$",
      table.concat(list, ", "))
end

-- Defines a class of constraints. The constructor's arguments become fields.
local function define(name, parameters, check, fields)
   local full = "distributions.constraints." .. name
   local take, names = args.declare(("%s(%s)"):format(full, parameters))
   local cls = class.class(full, Constraint)
   cls._shown = name:gsub("^%l", string.upper):gsub("_(%l)", string.upper)
   cls.check = check
   for key, value in pairs(fields or {}) do cls[key] = value end
   function cls:__init(...)
      for key, value in pairs(take(...)) do self[key] = value end
      self._names = names()
      if self._prepare then self:_prepare() end
   end
   M[name] = cls
   return cls
end

local function whole(value) return value:remainder(1):eq(0) end

--- The numbers greater than lower_bound, a number or a tensor.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.greater_than(1):check(torch.tensor {1.0, 2.0}))
---     --> tensor([False,  True])
define("greater_than", "lower_bound: any", function(self, value)
   return value:gt(self.lower_bound)
end)
--- The numbers greater than or equal to lower_bound, a number or a tensor.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.greater_than_eq(1):check(torch.tensor {0.0, 1.0}))
---     --> tensor([False,  True])
define("greater_than_eq", "lower_bound: any", function(self, value)
   return value:ge(self.lower_bound)
end)
--- The numbers less than upper_bound, a number or a tensor.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.less_than(1):check(torch.tensor {0.5, 1.0}))
---     --> tensor([ True, False])
define("less_than", "upper_bound: any", function(self, value)
   return value:lt(self.upper_bound)
end)
--- The numbers from lower_bound to upper_bound. The bounds are numbers or tensors.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.interval(0, 1):check(torch.tensor {1.0, 1.5}))
---     --> tensor([ True, False])
define("interval", "lower_bound: any, upper_bound: any", function(self, value)
   return value:ge(self.lower_bound) & value:le(self.upper_bound)
end)
--- The numbers from lower_bound to upper_bound without upper_bound itself. The bounds are numbers
--- or tensors.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.half_open_interval(0, 1):check(torch.tensor {0.0, 1.0}))
---     --> tensor([ True, False])
define("half_open_interval", "lower_bound: any, upper_bound: any", function(self, value)
   return value:ge(self.lower_bound) & value:lt(self.upper_bound)
end)
--- The integers from lower_bound to upper_bound. The bounds are numbers or tensors.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.integer_interval(0, 3):check(torch.tensor {3.0, 0.5}))
---     --> tensor([ True, False])
define("integer_interval", "lower_bound: any, upper_bound: any", function(self, value)
   return whole(value) & value:ge(self.lower_bound) & value:le(self.upper_bound)
end, {is_discrete = true})
--- Vectors of counts whose sum is at most upper_bound, a number or a tensor.
---
---     local constraints = torch.distributions.constraints
---     print(constraints.multinomial(3):check(torch.tensor {{1, 2}, {3, 1}}))
---     --> tensor([ True, False])
define("multinomial", "upper_bound: any", function(self, value)
   return value:ge(0):all(-1) & value:sum(-1):le(self.upper_bound)
end, {is_discrete = true, event_dim = 1})

local function refuse_others(who, name, value)
   if not class.isinstance(value, Constraint) then
      args.refuse("distributions.constraints." .. who, name, "a constraint", value)
   end
end

--- Treats the last reinterpreted_batch_ndims dimensions of values of base_constraint as one event.
---
---     local constraints = torch.distributions.constraints
---     local rows = constraints.independent(constraints.positive, 1)
---     print(rows:check(torch.tensor {{1.0, 2.0}, {1.0, -2.0}}), rows.event_dim)
---     --> tensor([ True, False])	1
define("independent", "base_constraint: object, reinterpreted_batch_ndims: count",
   function(self, value)
      if value:dim() < self.event_dim then
         args.refuse("distributions.constraints.independent", "value",
            ("at least %d dimensions"):format(self.event_dim), value)
      end
      return shapes.all_last(self.base_constraint:check(value), self.reinterpreted_batch_ndims)
   end, {_prepare = function(self)
      refuse_others("independent", "base_constraint", self.base_constraint)
      self.is_discrete = self.base_constraint.is_discrete
      self.event_dim = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
   end, _shown = "IndependentConstraint"})

-- Returns the dimension of `value` along which the constraint `cat` or `stack` cuts slices. Raises
-- an error if the value lacks this dimension.
local function position(self, value)
   local dim, n = self.dim, value:dim()
   if dim == 0 or dim > n or dim < -n then
      args.refuse(torch.type(self), "value", ("a tensor with dimension %d"):format(dim), value)
   end
   return dim
end

local function prepare_list(self)
   local who = torch.type(self):match "[^.]+$"
   for i, c in ipairs(self.cseq) do refuse_others(who, ("cseq[%d]"):format(i), c) end
   self.event_dim = 0
   for _, c in ipairs(self.cseq) do
      self.is_discrete = self.is_discrete or c.is_discrete
      self.event_dim = math.max(self.event_dim, c.event_dim)
   end
end

--- Tensors that consist of slices along dim, one for each constraint in the list cseq. Slice i
--- satisfies cseq[i] and has the length lengths[i], 1 by default.
---
---     local constraints = torch.distributions.constraints
---     local parts = {constraints.positive, constraints.boolean}
---     print(constraints.cat(parts):check(torch.tensor {0.5, 0.5}))
---     --> tensor([ True, False])
define("cat", "cseq: table, dim: dim = 1, lengths: table?", function(self, value)
   local dim, start, checks = position(self, value), 1, {}
   for i, c in ipairs(self.cseq) do
      checks[i] = c:check(value:narrow(dim, start, self.lengths[i]))
      start = start + self.lengths[i]
   end
   return torch.cat(checks, dim)
end, {_prepare = function(self)
   prepare_list(self)
   self.lengths = self.lengths or {}
   for i = 1, #self.cseq do self.lengths[i] = self.lengths[i] or 1 end
end})
--- Tensors whose i-th slice of size 1 along dim satisfies the i-th constraint in the list cseq.
---
---     local constraints = torch.distributions.constraints
---     local parts = {constraints.positive, constraints.boolean}
---     print(constraints.stack(parts):check(torch.tensor {0.5, 0.5}))
---     --> tensor([ True, False])
define("stack", "cseq: table, dim: dim = 1", function(self, value)
   local checks, dim = {}, position(self, value)
   for i, c in ipairs(self.cseq) do checks[i] = c:check(value:select(dim, i)) end
   return torch.stack(checks, dim)
end, {_prepare = function(self)
   prepare_list(self)
   if self.dim + self.event_dim < 0 then self.event_dim = self.event_dim + 1 end
end})
--- The values of a mixture whose components have the support base_constraint.
---
---     local constraints = torch.distributions.constraints
---     local mixed = constraints.MixtureSameFamilyConstraint(constraints.positive)
---     print(mixed:check(torch.tensor {1.0, -1.0}))
---     --> tensor([ True, False])
define("MixtureSameFamilyConstraint", "base_constraint: object", function(self, value)
   local base = self.base_constraint
   return base:check(value:unsqueeze(-1 - base.event_dim)):any(-1)
end, {_prepare = function(self)
   refuse_others("MixtureSameFamilyConstraint", "base_constraint", self.base_constraint)
   self.is_discrete = self.base_constraint.is_discrete
   self.event_dim = self.base_constraint.event_dim
end})

--- Constraints without arguments. `boolean` is the set of 0 and 1, `real` all numbers except NaN,
--- `simplex` vectors of probabilities with the sum 1, `one_hot` vectors with a single 1 and zeros
--- elsewhere, `lower_cholesky` lower triangular matrices with a positive diagonal, and
--- `corr_cholesky` such matrices whose rows have norm 1.
---@names distributions.constraints.boolean distributions.constraints.one_hot
---@names distributions.constraints.real distributions.constraints.simplex
---@names distributions.constraints.lower_triangular distributions.constraints.lower_cholesky
---@names distributions.constraints.corr_cholesky distributions.constraints.real_vector
---@names distributions.constraints.positive distributions.constraints.nonnegative
---@names distributions.constraints.positive_integer distributions.constraints.nonnegative_integer
---@names distributions.constraints.unit_interval distributions.constraints.square
---@names distributions.constraints.symmetric distributions.constraints.positive_semidefinite
---@names distributions.constraints.positive_definite distributions.constraints.dependent

-- Makes a constraint without arguments. The constraint becomes a field of the module, but its class
-- does not.
local function single(name, check, fields)
   M[name] = define(name, "", check, fields)()
end

single("boolean", function(_, value) return value:eq(0) | value:eq(1) end, {is_discrete = true})
single("one_hot", function(_, value)
   return (value:eq(0) | value:eq(1)):all(-1) & value:sum(-1):eq(1)
end, {is_discrete = true, event_dim = 1})
single("nonnegative_integer", function(_, value) return whole(value) & value:ge(0) end,
   {is_discrete = true})
single("positive_integer", function(_, value) return whole(value) & value:ge(1) end,
   {is_discrete = true})
single("real", function(_, value) return value:eq(value) end)
single("simplex", function(_, value)
   return value:ge(0):all(-1) & (value:sum(-1) - 1):abs():lt(1e-6)
end, {event_dim = 1})

local function is_lower(_, value) return shapes.all_last(value:tril():eq(value), 2) end
single("lower_triangular", is_lower, {event_dim = 2})
single("lower_cholesky", function(self, value)
   return is_lower(self, value) & value:diagonal(0, -2, -1):gt(0):all(-1)
end, {event_dim = 2})
single("corr_cholesky", function(_, value)
   local tolerance = torch.finfo(value.dtype).eps * value:size(-1) * 10
   local unit = (value:detach():norm(2, -1) - 1):abs():le(tolerance):all(-1)
   return M.lower_cholesky:check(value) & unit
end, {event_dim = 2})

local function is_square(value)
   local batch, event = shapes.split(value.shape, 2)
   return torch.full(batch, event[1] == event[2], {dtype = "bool", device = value.device})
end
-- Returns a function for the check of a constraint. It applies a test to square matrices, and
-- returns false for all other matrices.
local function of_square(test)
   return function(_, value)
      local square = is_square(value)
      if value:size(-1) ~= value:size(-2) then return square end
      return test(value)
   end
end
local function is_symmetric(value)
   return shapes.all_last(torch.isclose(value, value.mT, 1e-5, 1e-6), 2)
end
single("square", function(_, value) return is_square(value) end, {event_dim = 2})
single("symmetric", of_square(is_symmetric), {event_dim = 2})
single("positive_semidefinite", of_square(function(value)
   local symmetric = is_symmetric(value)
   if not symmetric:all():item() then return symmetric end
   return torch.linalg.eigvalsh(value):ge(0):all(-1)
end), {event_dim = 2})
single("positive_definite", of_square(function(value)
   local symmetric = is_symmetric(value)
   if not symmetric:all():item() then return symmetric end
   local _, info = torch.linalg.cholesky_ex(value)
   return info:eq(0)
end), {event_dim = 2})
single("dependent", function()
   torch.raise "distributions.constraints.dependent: check: it depends on other values"
end)

M.positive = M.greater_than(0)
M.nonnegative = M.greater_than_eq(0)
M.unit_interval = M.interval(0, 1)
M.real_vector = M.independent(M.real, 1)

--- Returns whether a constraint is `dependent`: its set of values depends on other values.
---@param constraint distributions.constraints.Constraint
---@return boolean
function M.is_dependent(constraint)
   refuse_others("is_dependent", "constraint", constraint)
   return constraint == M.dependent
end

return lazy.load(M, {})
