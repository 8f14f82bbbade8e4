-- Adagrad.lua - "Adaptive Subgradient Methods" (Duchi, Hazan and Singer, 2011): divides by the
-- root of the sum of all squared gradients so far.

local torch = require "tlua"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.Adagrad: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adagrad
local Adagrad, parent = class.class("optim.Adagrad", Optimizer)

local defaults = {
   lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10,
   maximize = false,
}

local function check(o)
   for _, name in ipairs {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"} do
      if o[name] < 0 then return name, "a number of at least 0" end
   end
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function Adagrad:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function Adagrad:update(parameter, grad, state, o)
   if not state.step then
      state.step = 0
      state.sum = torch.zeros_like(parameter):fill_(o.initial_accumulator_value)
   end
   state.step = state.step + 1
   -- (1) weight decay
   if o.weight_decay ~= 0 then grad = grad:add(parameter, {alpha = o.weight_decay}) end
   -- (2) s = s + g^2
   state.sum:addcmul_(grad, grad)
   -- (3) p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
   local lr = o.lr / (1 + (state.step - 1) * o.lr_decay)
   parameter:addcdiv_(grad, state.sum:sqrt():add_(o.eps), {value = -lr})
end

return Adagrad
