-- SGD.lua - stochastic gradient descent, with plain (Polyak) or Nesterov's momentum.

local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Stochastic gradient descent, with momentum, dampening, weight decay and Nesterov's variant.
--- nesterov needs momentum above 0 and no dampening.
---
---     local w = torch.tensor({2.0}, {requires_grad = true})
---     local optimizer = torch.optim.SGD({w}, {lr = 0.25})
---     w:square():sum():backward()
---     optimizer:step()
---     print(w:item())
---     --> 1.0
---@class optim.SGD: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.SGD
local SGD = class.class("optim.SGD", Fused)

local defaults = {lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false}

local function check(o)
   local option, expected = checks.not_negative(o, {"lr", "momentum", "weight_decay"})
   if option then return option, expected end
   if o.nesterov and (o.momentum == 0 or o.dampening ~= 0) then
      return "nesterov", "momentum above 0 and no dampening with it"
   end
end

Fused.define(SGD, defaults, check)

local none <const>, buffer <const> = {}, {"momentum_buffer"}

-- Returns the arguments of a step. `first`: 1 if the buffer is new and becomes the gradient,
-- without dampening.
local function rule(o, first)
   local name = o.momentum == 0 and "sgd" or o.nesterov and "sgd_nesterov" or "sgd_momentum"
   return name, o.momentum == 0 and none or buffer,
      {o.lr, o.momentum, o.dampening, o.weight_decay, 0, first}
end

local function is_new(state) return not state.momentum_buffer end
local function is_old(state) return not is_new(state) end

function SGD:update_group(o, offset)
   if o.momentum == 0 or o.dampening == 0 then
      return self:step_group(o, offset, rule(o, 0)) -- a new buffer is 0
   end
   local name, names, options = rule(o, 0)
   self:step_group(o, offset, name, names, options, is_old)
   name, names, options = rule(o, 1)
   self:step_group(o, offset, name, names, options, is_new)
end

return SGD
