-- NAdam.lua - "Incorporating Nesterov Momentum into Adam" (Dozat, 2016): Adam that looks ahead
-- along its momentum.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Adam = require "tlua.optim.Adam"
local Fused = require "tlua.optim.Fused"

--- Adam with Nesterov's momentum: the step uses an estimate of the value that the mean of gradients
--- will have after the next update.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.NAdam({w}, {lr = 0.1})
---     w:sum():backward()
---     optimizer:step()
---     print(w:lt(1):item())
---     --> true
---@class optim.NAdam: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.NAdam
local NAdam = class.class("optim.NAdam", Fused)

local defaults = {
   lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
   decoupled_weight_decay = false,
}

-- mu_product is the product of the momentum factors of all steps so far
NAdam.clocks = {"step", "mu_product"}

local function check(o)
   local option, expected = checks.not_negative(o, {"momentum_decay"})
   if option then return option, expected end
   return Adam.check(o)
end

Fused.define(NAdam, defaults, check)

function NAdam:initial(name)
   return name == "mu_product" and 1 or 0
end

function NAdam:rule(o)
   return "nadam", Adam.moments, {
      o.lr, o.betas[1], o.betas[2], o.eps, o.weight_decay, o.decoupled_weight_decay and 1 or 0,
      o.momentum_decay,
   }
end

return NAdam
