-- ASGD.lua - "Acceleration of Stochastic Approximation by Averaging" (Polyak and Juditsky, 1992):
-- gradient descent that also keeps the running mean of the parameters, as `ax` in their state.

local class = require "tlua.class"
local torch = require "tlua"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Averaged gradient descent: makes ordinary steps, and keeps the running mean of each parameter as
--- `ax` in the parameter's state.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.ASGD({w}, {lr = 0.5, lambd = 0})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.5000])
---@class optim.ASGD: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.ASGD
local ASGD = class.class("optim.ASGD", Fused)

-- The options. lambd is the decay of the parameters, alpha the exponent of the learning rate's
-- decay, and t0 the step at which averaging begins.
local defaults = {lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0}

ASGD.clocks = {"step", "eta", "mu"}

local function check(o)
   return checks.not_negative(o, {"lr", "lambd", "alpha", "weight_decay"})
end

Fused.define(ASGD, defaults, check)

function ASGD:initial(name, o)
   if name == "mu" then return 1 end
   if name ~= "eta" then return 0 end
   return torch.is_tensor(o.lr) and o.lr:item() or o.lr
end

local names <const> = {"ax"}

function ASGD:rule(o)
   return "asgd", names, {o.lr, o.lambd, o.alpha, o.t0, o.weight_decay}
end

return ASGD
