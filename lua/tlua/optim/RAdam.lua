-- RAdam.lua - "On the Variance of the Adaptive Learning Rate and Beyond" (Liu et al., 2020): Adam
-- that takes plain momentum steps until it has seen enough to adapt.

local torch = require "tlua"
local class = require "tlua.class"
local Adam = require "tlua.optim.Adam"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.RAdam: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.RAdam
local RAdam, parent = class.class("optim.RAdam", Optimizer)

local defaults = {
   lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0,
   decoupled_weight_decay = false, maximize = false,
}

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function RAdam:__init(params, options)
   parent.__init(self, params, options, defaults, Adam.check)
end

function RAdam:update(parameter, grad, state, o)
   local beta1, beta2 = o.betas[1], o.betas[2]
   if not state.step then
      state.step = 0
      state.exp_avg = torch.zeros_like(parameter)
      state.exp_avg_sq = torch.zeros_like(parameter)
   end
   state.step = state.step + 1
   local t = state.step
   -- (1) weight decay, of the weights or by way of the gradient
   if o.weight_decay ~= 0 then
      if o.decoupled_weight_decay then
         parameter:mul_(1 - o.lr * o.weight_decay)
      else
         grad = grad:add(parameter, {alpha = o.weight_decay})
      end
   end
   -- (2) m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2
   state.exp_avg:lerp_(grad, 1 - beta1)
   state.exp_avg_sq:mul_(beta2):addcmul_(grad, grad, {value = 1 - beta2})
   -- (3) the length of the moving mean that v approximates
   local longest = 2 / (1 - beta2) - 1
   local length = longest - 2 * t * beta2 ^ t / (1 - beta2 ^ t)
   -- (4) p = p - lr r m / (sqrt(v) + eps) if it is long enough, else p = p - lr m
   local lr = o.lr / (1 - beta1 ^ t)
   if length > 5 then
      local rectified = ((length - 4) * (length - 2) * longest
         / ((longest - 4) * (longest - 2) * length)) ^ 0.5
      local root = (1 - beta2 ^ t) ^ 0.5
      parameter:addcdiv_(state.exp_avg, state.exp_avg_sq:sqrt():add_(o.eps),
         {value = -lr * rectified * root})
   else
      parameter:add_(state.exp_avg, {alpha = -lr})
   end
end

return RAdam
