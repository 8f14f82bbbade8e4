-- Adafactor.lua - "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost" (Shazeer and
-- Stern, 2018): for a matrix it keeps only the row and column means of squared gradients.
-- A step does not wait for the device, unless the learning rate is a tensor there.

local torch = require "tlua"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Optimizer = require "tlua.optim.Optimizer"

--- A variant of Adam that uses less memory: for a matrix it keeps only the row and column means of
--- squared gradients.
---
---     local w = torch.ones(4, 3):requires_grad_()
---     local optimizer = torch.optim.Adafactor({w}, {lr = 0.01})
---     w:sum():backward()
---     optimizer:step()
---     print(w:lt(1):all():item())
---     --> true
---@class optim.Adafactor: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adafactor
local Adafactor, parent = class.class("optim.Adafactor", Optimizer)
Adafactor.needs_whole, Adafactor.needs_real = true, true
Adafactor.implementations, Adafactor.clocks = {foreach = true}, {"step"}

-- The options. lr is the largest step, relative to the parameter. eps is a pair: the lower bound of
-- the square roots of the variances (false means the machine epsilon), and the lower bound of a
-- parameter's root mean square. d is the upper bound of the root mean square of an update before
-- the step size multiplies it.
local defaults = {
   lr = 1e-2, beta2_decay = -0.8, eps = {false, 1e-3}, d = 1.0, weight_decay = 0, maximize = false,
}

local function check(o)
   local option, expected = checks.not_negative(o, {"lr", "weight_decay"})
   if option then return option, expected end
   if not checks.is_number(-o.beta2_decay) then return "beta2_decay", "a number of at most 0" end
   if not checks.is_number(o.d, 1) then return "d", "a number of at least 1" end
   local first = o.eps[1] == nil or o.eps[1] == false or checks.is_number(o.eps[1])
   if not (first and checks.is_number(o.eps[2])) then
      return "eps", "two numbers of at least 0, or false and one"
   end
end

---@param params Tensor[]|table[]
---@param options? table  any of `defaults`
function Adafactor:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

--- Converts a value of a loaded state. The step count becomes a float64 tensor on the CPU.
function Adafactor:adopt(key, value, parameter, group)
   if key ~= "step" then return parent.adopt(self, key, value, parameter, group) end
   if not torch.is_tensor(value) then
      return torch.full({}, value, {dtype = "float64", device = "cpu"})
   end
   return value:detach():clone():cpu():double():reshape({})
end

local function begin(state, grad)
   if state.step then return end
   state.step = torch.zeros({}, {dtype = "float64", device = "cpu"})
   if grad:dim() < 2 then
      state.variance = torch.zeros_like(grad)
      return
   end
   local rows, columns = grad.shape, grad.shape
   rows[#rows], columns[#columns - 1] = 1, 1
   state.row_var, state.col_var = grad:new_zeros(rows), grad:new_zeros(columns)
end

-- Moves a tensor of the state by the fraction `weight` towards `value`, which was computed in
-- float32. The state may have a half-precision dtype. Returns the new state in value's dtype.
local function approach(state, value, weight)
   state:lerp_(value:to(state.dtype), weight)
   return state:to(value.dtype)
end

-- Returns the mean of squares along a dimension.
local function mean_square(x, dim)
   return x:norm(2, dim, true):square_():div_(x:size(dim))
end

local function variance_of(state, grad, weight, eps)
   if grad:dim() < 2 then return approach(state.variance, grad:square(), weight):clone() end
   local rows = approach(state.row_var, mean_square(grad, -1), weight)
   local columns = approach(state.col_var, mean_square(grad, -2), weight)
   return rows:matmul(columns):div_(rows:mean(-2, true):clamp_min(eps))
end

local function root_mean_square(x)
   return x:norm() / x:numel() ^ 0.5
end

function Adafactor:update(parameter, grad, state, o)
   if parameter:numel() == 0 then return end
   if grad.layout ~= "strided" then checks.refuse_sparse(self, parameter) end
   local lr = checks.rate(self, o)
   begin(state, grad)
   state.step:add_(1)
   local t = state.step:item()
   local eps = o.eps[1] or torch.finfo(parameter.dtype).eps
   local half = parameter:element_size() < 4
   local p, g = half and parameter:float() or parameter, half and grad:float() or grad
   -- (1) computes the step size, relative to the parameter's root mean square
   local rho = math.min(lr, 1 / t ^ 0.5)
   local alpha = root_mean_square(p):clamp_min(o.eps[2]):mul_(rho)
   -- (2) applies weight decay
   if o.weight_decay ~= 0 then p:mul_(1 - lr * o.weight_decay) end
   -- (3) computes u: the gradient divided by the square root of its variance, and clipped
   local update = variance_of(state, g, t ^ o.beta2_decay, eps):clamp_min_(eps * eps):rsqrt_()
   update:mul_(g)
   alpha:div_((root_mean_square(update) / o.d):clamp_min_(1))
   -- (4) p = p - alpha u
   p:sub_(update:mul_(alpha))
   if half then parameter:copy_(p) end
end

return Adafactor
