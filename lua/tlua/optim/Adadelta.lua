-- Adadelta.lua - "ADADELTA: An Adaptive Learning Rate Method" (Zeiler, 2012): scales steps by the
-- ratio of the root mean squares of past steps and of gradients, so that they have the units of the
-- parameters.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Scales steps by the ratio of the root mean squares of past steps and of gradients.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Adadelta({w}, {eps = 1e-4})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.9684])
---@class optim.Adadelta: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adadelta
local Adadelta = class.class("optim.Adadelta", Fused)

local defaults = {lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0}

Adadelta.clocks = {"step"}

local function check(o)
   if not (checks.is_number(o.rho) and o.rho <= 1) then return "rho", "a number from 0 to 1" end
   return checks.not_negative(o, {"lr", "eps", "weight_decay"})
end

Fused.define(Adadelta, defaults, check)

local names <const> = {"square_avg", "acc_delta"}

function Adadelta:rule(o)
   return "adadelta", names, {o.lr, o.rho, o.eps, o.weight_decay}
end

return Adadelta
