-- constraint_registry.lua - finds a transform from unconstrained real numbers to the values that
-- satisfy a constraint.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local constraints = require "tlua.distributions.constraints"
local lazy = require "tlua.lazy"
local transforms = require "tlua.distributions.transforms"

local M = {}

--- A table that maps each class of constraints to a function that makes a transform whose results
--- satisfy the constraint. Calling the registry with a constraint returns the transform.
---
---     local D = torch.distributions
---     local to_positive = D.transform_to(D.constraints.positive)
---     print(to_positive(torch.tensor(0.0)))
---     --> tensor(1.)
---@class distributions.ConstraintRegistry
local Registry = class.class "distributions.ConstraintRegistry"

---@param title string  the registry's name in messages
function Registry:__init(title) self._title, self._factories = title, {} end

--- Sets the function that makes the transform for a class of constraints.
---@param constraint table  a class of constraints, or one of its instances
---@param factory fun(constraint: distributions.constraints.Constraint): distributions.Transform
--- returns the transform for a constraint of the class
function Registry:register(constraint, factory)
   local meta = getmetatable(constraint)
   local cls = class.isinstance(constraint, constraints.Constraint) and meta or constraint
   if not class.issubclass(cls, constraints.Constraint) then
      args.refuse(self._title .. ".register", "constraint", "a constraint or its class",
         constraint)
   end
   if not args.is_callable(factory) then
      args.refuse(self._title .. ".register", "factory", "a function", factory)
   end
   self._factories[cls] = factory
end

function Registry:__call(constraint)
   if not class.isinstance(constraint, constraints.Constraint) then
      args.refuse(self._title, "constraint", "a constraint", constraint)
   end
   local factory = self._factories[getmetatable(constraint)]
   if not factory then
      torch.raise(("%s: there is no transform to %s"):format(self._title, tostring(constraint)))
   end
   return factory(constraint)
end

--- A registry whose transforms are bijective and have known Jacobians.
---
---     local distributions = torch.distributions
---     local t = distributions.biject_to(distributions.constraints.simplex)
---     print(t(torch.zeros(2)))
---     --> tensor([0.3333, 0.3333, 0.3333])
---@names distributions.biject_to distributions.constraint_registry.biject_to
local biject_to = Registry "distributions.biject_to"

--- A registry whose transforms are meant for optimization; they need not be bijective.
---
---     local distributions = torch.distributions
---     local t = distributions.transform_to(distributions.constraints.simplex)
---     print(t(torch.zeros(2)))
---     --> tensor([0.5000, 0.5000])
---@names distributions.transform_to distributions.constraint_registry.transform_to
local transform_to = Registry "distributions.transform_to"

local function both(list, factory)
   for _, constraint in ipairs(list) do
      for _, registry in ipairs {biject_to, transform_to} do
         registry:register(constraint, function(c) return factory(c, registry) end)
      end
   end
end

local function then_affine(first, loc, scale)
   return transforms.ComposeTransform {first, transforms.AffineTransform(loc, scale)}
end

both({constraints.real}, function() return transforms.identity_transform end)
both({constraints.independent}, function(c, registry)
   return transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)
end)
both({constraints.greater_than, constraints.greater_than_eq}, function(c)
   local exp = transforms.ExpTransform()
   return c.lower_bound == 0 and exp or then_affine(exp, c.lower_bound, 1)
end)
both({constraints.less_than}, function(c)
   return then_affine(transforms.ExpTransform(), c.upper_bound, -1)
end)
both({constraints.interval, constraints.half_open_interval}, function(c)
   local sigmoid = transforms.SigmoidTransform()
   if c.lower_bound == 0 and c.upper_bound == 1 then return sigmoid end
   return then_affine(sigmoid, c.lower_bound, c.upper_bound - c.lower_bound)
end)
both({constraints.corr_cholesky}, function() return transforms.CorrCholeskyTransform() end)

local function each(list, registry)
   local made = {}
   for i, c in ipairs(list) do made[i] = registry(c) end
   return made
end
both({constraints.cat}, function(c, registry)
   return transforms.CatTransform {
      transforms = each(c.cseq, registry), dim = c.dim, lengths = c.lengths,
   }
end)
both({constraints.stack}, function(c, registry)
   return transforms.StackTransform {transforms = each(c.cseq, registry), dim = c.dim}
end)

biject_to:register(constraints.simplex, function() return transforms.StickBreakingTransform() end)
transform_to:register(constraints.simplex, function() return transforms.SoftmaxTransform() end)
transform_to:register(constraints.lower_cholesky, function()
   return transforms.LowerCholeskyTransform()
end)
for _, name in ipairs {"positive_definite", "positive_semidefinite"} do
   transform_to:register(constraints[name], function()
      return transforms.PositiveDefiniteTransform()
   end)
end

M.biject_to, M.transform_to = biject_to, transform_to
M.constraint_registry = lazy.load({biject_to = biject_to, transform_to = transform_to}, {})
M.constraint_registry.ConstraintRegistry = Registry
return M
