-- RMSprop.lua - Hinton's lecture 6e (2012): divides by the root of a moving mean of squared
-- gradients.

local torch = require "tlua"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.RMSprop: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.RMSprop
local RMSprop, parent = class.class("optim.RMSprop", Optimizer)

local defaults = {
   lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false,
   maximize = false,
}

local function check(o)
   for _, name in ipairs {"lr", "alpha", "eps", "weight_decay", "momentum"} do
      if o[name] < 0 then return name, "a number of at least 0" end
   end
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function RMSprop:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function RMSprop:update(parameter, grad, state, o)
   if not state.square_avg then
      state.step = 0
      state.square_avg = torch.zeros_like(parameter)
      if o.momentum > 0 then state.momentum_buffer = torch.zeros_like(parameter) end
      if o.centered then state.grad_avg = torch.zeros_like(parameter) end
   end
   state.step = state.step + 1
   -- (1) weight decay
   if o.weight_decay ~= 0 then grad = grad:add(parameter, {alpha = o.weight_decay}) end
   -- (2) v = alpha v + (1 - alpha) g^2
   state.square_avg:mul_(o.alpha):addcmul_(grad, grad, {value = 1 - o.alpha})
   -- (3) centered: the variance instead of the mean square
   local mean_square = state.square_avg
   if o.centered then
      state.grad_avg:lerp_(grad, 1 - o.alpha)
      mean_square = mean_square:addcmul(state.grad_avg, state.grad_avg, {value = -1})
   end
   local denominator = mean_square:sqrt():add_(o.eps)
   -- (4) p = p - lr g / (sqrt(v) + eps), by way of a momentum buffer if there is one
   if o.momentum > 0 then
      state.momentum_buffer:mul_(o.momentum):addcdiv_(grad, denominator)
      parameter:add_(state.momentum_buffer, {alpha = -o.lr})
   else
      parameter:addcdiv_(grad, denominator, {value = -o.lr})
   end
end

return RMSprop
