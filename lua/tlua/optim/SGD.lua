-- SGD.lua - stochastic gradient descent, with momentum (Polyak) or Nesterov's.

local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.SGD: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.SGD
local SGD, parent = class.class("optim.SGD", Optimizer)

local defaults = {
   lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false,
}

local function check(o)
   if o.lr < 0 then return "lr", "a number of at least 0" end
   if o.momentum < 0 then return "momentum", "a number of at least 0" end
   if o.weight_decay < 0 then return "weight_decay", "a number of at least 0" end
   if o.nesterov and (o.momentum == 0 or o.dampening ~= 0) then
      return "nesterov", "momentum above 0 and no dampening with it"
   end
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function SGD:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function SGD:update(parameter, grad, state, o)
   -- (1) weight decay
   if o.weight_decay ~= 0 then grad = grad:add(parameter, {alpha = o.weight_decay}) end
   -- (2) b = momentum b + (1 - dampening) g; the first b is g
   if o.momentum ~= 0 then
      if state.momentum_buffer then
         state.momentum_buffer:mul_(o.momentum):add_(grad, {alpha = 1 - o.dampening})
      else
         state.momentum_buffer = grad:clone()
      end
      -- (3) Nesterov looks ahead: g + momentum b
      if o.nesterov then
         grad = grad:add(state.momentum_buffer, {alpha = o.momentum})
      else
         grad = state.momentum_buffer
      end
   end
   -- (4) p = p - lr g
   parameter:add_(grad, {alpha = -o.lr})
end

return SGD
