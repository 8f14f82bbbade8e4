-- Adam.lua - "Adam: A Method for Stochastic Optimization" (Kingma and Ba, 2015): steps along the
-- mean of past gradients, divided by the square root of the mean of their squares.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Steps along the mean of past gradients, divided by the square root of the mean of their squares.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Adam({w}, {lr = 0.1})
---     optimizer:zero_grad()
---     local loss = (w * w):sum()
---     loss:backward()
---     optimizer:step()
---     print(w:detach()) -- the first step has the length lr
---     --> tensor([0.9000])
---@class optim.Adam: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adam
local Adam = class.class("optim.Adam", Fused)

local defaults = {
   lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false,
   decoupled_weight_decay = false,
}

Adam.clocks = {"step"}

--- Checks the options of Adam and of optimizers derived from Adam.
function Adam.check(o)
   local option, expected = checks.not_negative(o, {"lr", "eps", "weight_decay"})
   if option then return option, expected end
   return checks.betas(o)
end

Fused.define(Adam, defaults, Adam.check)

local moments <const> = {"exp_avg", "exp_avg_sq"}
local with_largest <const> = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}

function Adam:rule(o)
   return o.amsgrad and "amsgrad" or "adam", o.amsgrad and with_largest or moments,
      {o.lr, o.betas[1], o.betas[2], o.eps, o.weight_decay, o.decoupled_weight_decay and 1 or 0}
end

Adam.default_options, Adam.moments = defaults, moments

return Adam
