-- Adam.lua - "Adam: A Method for Stochastic Optimization" (Kingma and Ba, 2015): steps along the
-- mean of past gradients, divided by the root of the mean of their squares.

local torch = require "tlua"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.Adam: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adam
local Adam, parent = class.class("optim.Adam", Optimizer)

local defaults = {
   lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false,
   maximize = false,
}

local function check(o)
   if o.lr < 0 then return "lr", "a number of at least 0" end
   if o.eps < 0 then return "eps", "a number of at least 0" end
   if o.weight_decay < 0 then return "weight_decay", "a number of at least 0" end
   for i = 1, 2 do
      local beta = o.betas[i]
      if type(beta) ~= "number" or beta < 0 or beta >= 1 then
         return "betas", "two numbers from 0 to below 1"
      end
   end
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function Adam:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function Adam:update(parameter, grad, state, o)
   -- (1) weight decay
   if o.weight_decay ~= 0 then grad = grad:add(parameter, {alpha = o.weight_decay}) end
   self:adapt(parameter, grad, state, o)
end

--- The step without weight decay.
function Adam:adapt(parameter, grad, state, o)
   local beta1, beta2 = o.betas[1], o.betas[2]
   if not state.step then
      state.step = 0
      state.exp_avg = torch.zeros_like(parameter)
      state.exp_avg_sq = torch.zeros_like(parameter)
      if o.amsgrad then state.max_exp_avg_sq = torch.zeros_like(parameter) end
   end
   -- (2) t = t + 1
   state.step = state.step + 1
   -- (3) m = beta1 m + (1 - beta1) g
   state.exp_avg:lerp_(grad, 1 - beta1)
   -- (4) v = beta2 v + (1 - beta2) g^2
   state.exp_avg_sq:mul_(beta2):addcmul_(grad, grad, {value = 1 - beta2})
   -- (5) both without their bias towards zero: m / (1 - beta1^t), v / (1 - beta2^t)
   local variance = state.exp_avg_sq
   if o.amsgrad then
      state.max_exp_avg_sq:copy_(state.max_exp_avg_sq:maximum(variance))
      variance = state.max_exp_avg_sq
   end
   local root = (1 - beta2 ^ state.step) ^ 0.5
   local denominator = variance:sqrt():div_(root):add_(o.eps)
   -- (6) p = p - lr m / (sqrt(v) + eps)
   parameter:addcdiv_(state.exp_avg, denominator, {value = -o.lr / (1 - beta1 ^ state.step)})
end

Adam.check, Adam.default_options = check, defaults

return Adam
