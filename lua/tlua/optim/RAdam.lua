-- RAdam.lua - "On the Variance of the Adaptive Learning Rate and Beyond" (Liu et al., 2020): Adam
-- that makes plain momentum steps until the estimate of its variance is reliable.

local class = require "tlua.class"
local Adam = require "tlua.optim.Adam"
local Fused = require "tlua.optim.Fused"

--- Adam that makes plain momentum steps until the estimate of its variance is reliable.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.RAdam({w}, {lr = 0.5})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.5000])
---@class optim.RAdam: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.RAdam
local RAdam = class.class("optim.RAdam", Fused)

local defaults = {
   lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0,
   decoupled_weight_decay = false,
}

RAdam.clocks = {"step"}

Fused.define(RAdam, defaults, Adam.check)

function RAdam:rule(o)
   return "radam", Adam.moments,
      {o.lr, o.betas[1], o.betas[2], o.eps, o.weight_decay, o.decoupled_weight_decay and 1 or 0}
end

return RAdam
