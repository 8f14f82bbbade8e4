-- Adagrad.lua - "Adaptive Subgradient Methods" (Duchi, Hazan and Singer, 2011): divides gradients
-- by the square root of the sum of all squared gradients so far.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Divides gradients by the square root of the sum of all squared gradients so far.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Adagrad({w}, {lr = 0.5})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.5000])
---@class optim.Adagrad: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adagrad
local Adagrad = class.class("optim.Adagrad", Fused)

local defaults = {
   lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10,
}

Adagrad.clocks = {"step"}

local function check(o)
   return checks.not_negative(o,
      {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"})
end

Fused.define(Adagrad, defaults, check)

function Adagrad:initial(name, o)
   return name == "sum" and o.initial_accumulator_value or 0
end

local names <const> = {"sum"}

function Adagrad:rule(o)
   return "adagrad", names, {o.lr, o.lr_decay, o.eps, o.weight_decay}
end

return Adagrad
