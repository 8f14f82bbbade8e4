-- Adamax.lua - Adam with the infinity norm in place of the root of mean squares (section 7.1 of
-- Adam's paper).

local class = require "tlua.class"
local Adam = require "tlua.optim.Adam"
local Fused = require "tlua.optim.Fused"

--- Adam with the infinity norm of past gradients in place of the root of their mean square.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Adamax({w}, {lr = 0.5})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.5000])
---@class optim.Adamax: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adamax
local Adamax = class.class("optim.Adamax", Fused)

local defaults = {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0}

Adamax.clocks = {"step"}

Fused.define(Adamax, defaults, Adam.check)

local names <const> = {"exp_avg", "exp_inf"}

function Adamax:rule(o)
   return "adamax", names, {o.lr, o.betas[1], o.betas[2], o.eps, o.weight_decay}
end

return Adamax
