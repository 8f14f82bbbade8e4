-- Lion.lua - "Symbolic Discovery of Optimization Algorithms" (Chen et al., 2023): steps by the sign
-- of a running mean of gradients, so all elements move by the same amount.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Steps by the sign of a mean of gradients, so all elements move by the same amount.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Lion({w}, {lr = 0.25})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.7500])
---@class optim.Lion: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Lion
local Lion = class.class("optim.Lion", Fused)

-- The options. weight_decay is decoupled, as in AdamW.
local defaults = {lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0}

local function check(o)
   local option, expected = checks.not_negative(o, {"lr", "weight_decay"})
   if option then return option, expected end
   return checks.betas(o)
end

Fused.define(Lion, defaults, check)

local names <const> = {"exp_avg"}

function Lion:rule(o)
   return "lion", names, {o.lr, o.betas[1], o.betas[2], o.weight_decay}
end

return Lion
