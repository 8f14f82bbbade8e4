-- RMSprop.lua - Hinton's lecture 6e (2012): divides gradients by the square root of a moving mean
-- of their squares or, with `centered`, of their variance.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Divides gradients by the square root of a moving mean of their squares or, with `centered`, of
--- their variance.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.RMSprop({w}, {lr = 0.05})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.5000])
---@class optim.RMSprop: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.RMSprop
local RMSprop = class.class("optim.RMSprop", Fused)

local defaults = {
   lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false,
}

RMSprop.clocks = {"step"}

local function check(o)
   return checks.not_negative(o, {"lr", "alpha", "eps", "weight_decay", "momentum"})
end

Fused.define(RMSprop, defaults, check)

function RMSprop:rule(o)
   local rule, names = "rmsprop", {"square_avg"}
   if o.centered then rule, names[2] = rule .. "_centered", "grad_avg" end
   if o.momentum > 0 then rule, names[#names + 1] = rule .. "_momentum", "momentum_buffer" end
   return rule, names, {o.lr, o.alpha, o.eps, o.weight_decay, o.momentum}
end

return RMSprop
