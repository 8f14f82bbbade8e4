-- Adamax.lua - Adam with the infinity norm in place of the root of mean squares (section 7.1 of its
-- paper).

local torch = require "tlua"
local class = require "tlua.class"
local Adam = require "tlua.optim.Adam"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.Adamax: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adamax
local Adamax, parent = class.class("optim.Adamax", Optimizer)

local defaults = {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, maximize = false}

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function Adamax:__init(params, options)
   parent.__init(self, params, options, defaults, Adam.check)
end

function Adamax:update(parameter, grad, state, o)
   local beta1, beta2 = o.betas[1], o.betas[2]
   if not state.step then
      state.step = 0
      state.exp_avg = torch.zeros_like(parameter)
      state.exp_inf = torch.zeros_like(parameter)
   end
   state.step = state.step + 1
   -- (1) weight decay
   if o.weight_decay ~= 0 then grad = grad:add(parameter, {alpha = o.weight_decay}) end
   -- (2) m = beta1 m + (1 - beta1) g
   state.exp_avg:lerp_(grad, 1 - beta1)
   -- (3) u = max(beta2 u, |g| + eps)
   state.exp_inf:copy_(state.exp_inf:mul(beta2):maximum(grad:abs():add_(o.eps)))
   -- (4) p = p - lr / (1 - beta1^t) m / u
   parameter:addcdiv_(state.exp_avg, state.exp_inf, {value = -o.lr / (1 - beta1 ^ state.step)})
end

return Adamax
