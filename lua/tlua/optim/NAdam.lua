-- NAdam.lua - "Incorporating Nesterov Momentum into Adam" (Dozat, 2016).

local torch = require "tlua"
local class = require "tlua.class"
local Adam = require "tlua.optim.Adam"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.NAdam: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.NAdam
local NAdam, parent = class.class("optim.NAdam", Optimizer)

local defaults = {
   lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
   decoupled_weight_decay = false, maximize = false,
}

local function check(o)
   if o.momentum_decay < 0 then return "momentum_decay", "a number of at least 0" end
   return Adam.check(o)
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function NAdam:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function NAdam:update(parameter, grad, state, o)
   local beta1, beta2 = o.betas[1], o.betas[2]
   if not state.step then
      state.step, state.mu_product = 0, 1.0
      state.exp_avg = torch.zeros_like(parameter)
      state.exp_avg_sq = torch.zeros_like(parameter)
   end
   state.step = state.step + 1
   -- (1) weight decay, of the weights or by way of the gradient
   if o.weight_decay ~= 0 then
      if o.decoupled_weight_decay then
         parameter:mul_(1 - o.lr * o.weight_decay)
      else
         grad = grad:add(parameter, {alpha = o.weight_decay})
      end
   end
   -- (2) the momentum of this step and of the next
   local function momentum(t)
      return beta1 * (1 - 0.5 * 0.96 ^ (t * o.momentum_decay))
   end
   local mu, mu_next = momentum(state.step), momentum(state.step + 1)
   state.mu_product = state.mu_product * mu
   -- (3) m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2
   state.exp_avg:lerp_(grad, 1 - beta1)
   state.exp_avg_sq:mul_(beta2):addcmul_(grad, grad, {value = 1 - beta2})
   -- (4) p = p - lr ((1 - mu) / (1 - Pi mu) g + mu' / (1 - Pi mu mu') m) / (sqrt(v) + eps)
   local root = (1 - beta2 ^ state.step) ^ 0.5
   local denominator = state.exp_avg_sq:sqrt():div_(root):add_(o.eps)
   parameter:addcdiv_(grad, denominator, {value = -o.lr * (1 - mu) / (1 - state.mu_product)})
   parameter:addcdiv_(state.exp_avg, denominator,
      {value = -o.lr * mu_next / (1 - state.mu_product * mu_next)})
end

return NAdam
