-- Rprop.lua - resilient backpropagation (Riedmiller and Braun, 1993): each element has its own step
-- size, which grows while the gradient keeps its sign and shrinks when the sign changes.

local class = require "tlua.class"
local torch = require "tlua"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Gives each element its own step size, which grows while the gradient keeps its sign and shrinks
--- when the sign changes.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Rprop({w}, {lr = 0.25})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.7500])
---@class optim.Rprop: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Rprop
local Rprop = class.class("optim.Rprop", Fused)

-- The options. lr is the initial size of all steps, step_sizes are the bounds of the sizes, and
-- etas the factors by which a size shrinks and grows.
local defaults = {lr = 1e-2, etas = {0.5, 1.2}, step_sizes = {1e-6, 50}}

Rprop.clocks = {"step"}

local function check(o)
   local low, high = o.etas[1], o.etas[2]
   local fits = checks.is_number(low) and checks.is_number(high) and #o.etas == 2
   if not (fits and low > 0 and low < 1 and high > 1) then
      return "etas", "a number between 0 and 1 and one above 1"
   end
   local least, most = o.step_sizes[1], o.step_sizes[2]
   fits = checks.is_number(least) and checks.is_number(most) and #o.step_sizes == 2
   if not (fits and least <= most) then
      return "step_sizes", "two numbers of at least 0 in ascending order"
   end
   return checks.not_negative(o, {"lr"})
end

Fused.define(Rprop, defaults, check)

function Rprop:initial(name, o)
   if name ~= "step_size" then return 0 end
   return torch.is_tensor(o.lr) and o.lr:item() or o.lr
end

local names <const> = {"prev", "step_size"}

function Rprop:rule(o)
   return "rprop", names, {o.lr, o.etas[1], o.etas[2], o.step_sizes[1], o.step_sizes[2]}
end

return Rprop
