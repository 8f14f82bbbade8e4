-- Adadelta.lua - "ADADELTA: An Adaptive Learning Rate Method" (Zeiler, 2012): steps in the units
-- of the parameters, by the ratio of the mean squares of past steps and of gradients.

local torch = require "tlua"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.Adadelta: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adadelta
local Adadelta, parent = class.class("optim.Adadelta", Optimizer)

local defaults = {lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0, maximize = false}

local function check(o)
   if o.rho < 0 or o.rho > 1 then return "rho", "a number from 0 to 1" end
   for _, name in ipairs {"lr", "eps", "weight_decay"} do
      if o[name] < 0 then return name, "a number of at least 0" end
   end
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function Adadelta:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function Adadelta:update(parameter, grad, state, o)
   if not state.square_avg then
      state.step = 0
      state.square_avg = torch.zeros_like(parameter)
      state.acc_delta = torch.zeros_like(parameter)
   end
   state.step = state.step + 1
   -- (1) weight decay
   if o.weight_decay ~= 0 then grad = grad:add(parameter, {alpha = o.weight_decay}) end
   -- (2) v = rho v + (1 - rho) g^2
   state.square_avg:mul_(o.rho):addcmul_(grad, grad, {value = 1 - o.rho})
   -- (3) d = sqrt(u + eps) / sqrt(v + eps) g
   local root = state.square_avg:add(o.eps):sqrt_()
   local delta = state.acc_delta:add(o.eps):sqrt_():div_(root):mul_(grad)
   -- (4) u = rho u + (1 - rho) d^2
   state.acc_delta:mul_(o.rho):addcmul_(delta, delta, {value = 1 - o.rho})
   -- (5) p = p - lr d
   parameter:add_(delta, {alpha = -o.lr})
end

return Adadelta
