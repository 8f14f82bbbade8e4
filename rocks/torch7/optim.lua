-- optim.lua - Torch7's optimizers: optim.sgd(opfunc, x, config, state) and others. opfunc(x)
-- returns the loss and its gradient. An optimizer changes x in place. Values that the next call
-- needs are stored in the table `state`, or in `config` if `state` is nil. An optimizer returns x
-- and a table of losses.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local classes = require "tlua.torch7.classes"
local searches = require "tlua.torch7.optim_search"

local M = {}

-- Defines an optimizer that evaluates opfunc once per call and then changes x by step(x, gradient,
-- config, state).
local function method(name, defaults, step)
   M[name] = function(opfunc, x, config, state)
      config = config or {}
      state = state or config
      local c = setmetatable({}, {__index = function(_, key)
         local value = config[key]
         if value == nil then value = defaults[key] end
         return value
      end})
      local fx, gradient = opfunc(x)
      local decay = config.weightDecay or 0
      if decay ~= 0 then gradient:add(decay, x) end
      return x, {fx}, step(x, gradient, c, state)
   end
end

local function zeros(x) return x:clone():zero() end

-- Stores sqrt(x) + plus in a buffer and returns the buffer. Creates the buffer if it is nil.
local function root(buffer, x, plus)
   buffer = buffer or x:clone()
   return torch.sqrt(buffer, x):add(plus)
end

-- Returns the learning rate, which decays with the number of previous calls, and counts this call.
local function rate_of(c, state, default)
   local n = state.evalCounter or 0
   state.evalCounter = n + 1
   return (c.learningRate or default) / (1 + n * (c.learningRateDecay or 0))
end

local function rates(c, gradient)
   if not c.learningRates then return gradient end
   return torch.cmul(gradient, c.learningRates)
end

method("sgd", {momentum = 0}, function(x, gradient, c, state)
   if c.nesterov and (c.momentum <= 0 or (c.dampening or c.momentum) ~= 0) then
      tlua.raise "optim.sgd: nesterov needs a momentum, and dampening = 0"
   end
   if c.weightDecays then gradient:add(torch.cmul(c.weightDecays, x)) end
   if c.momentum ~= 0 then
      if not state.dfdx then
         state.dfdx = gradient:clone()
      else
         state.dfdx:mul(c.momentum):add(1 - (c.dampening or c.momentum), gradient)
      end
      if c.nesterov then gradient:add(c.momentum, state.dfdx) else gradient = state.dfdx end
   end
   x:add(-rate_of(c, state, 1e-3), rates(c, gradient))
end)

method("nag", {momentum = 0.9}, function(x, gradient, c, state)
   local rate = rate_of(c, state, 1e-3)
   state.dfdx = state.dfdx or zeros(x)
   state.dfdx:mul(c.momentum):add(-rate, rates(c, gradient))
   x:add(c.momentum, state.dfdx):add(-rate, rates(c, gradient))
end)

method("adagrad", {}, function(x, gradient, c, state)
   local rate = rate_of(c, state, 1e-3)
   state.paramVariance = (state.paramVariance or zeros(x)):addcmul(1, gradient, gradient)
   state.paramStd = root(state.paramStd, state.paramVariance, 1e-10)
   x:addcdiv(-rate, gradient, state.paramStd)
end)

method("adadelta", {rho = 0.9, eps = 1e-6}, function(x, gradient, c, state)
   if not state.paramVariance then
      state.paramVariance, state.accDelta = zeros(x), zeros(x)
   end
   state.paramVariance:mul(c.rho):addcmul(1 - c.rho, gradient, gradient)
   state.paramStd = torch.add(state.paramVariance, c.eps):sqrt()
   state.delta = torch.add(state.accDelta, c.eps):sqrt():cdiv(state.paramStd):cmul(gradient)
   state.accDelta:mul(c.rho):addcmul(1 - c.rho, state.delta, state.delta)
   x:add(-1, state.delta)
   state.evalCounter = (state.evalCounter or 0) + 1
end)

method("rmsprop", {alpha = 0.99, epsilon = 1e-8, initialMean = 0}, function(x, gradient, c, state)
   state.m = state.m or zeros(x):fill(c.initialMean)
   state.m:mul(c.alpha):addcmul(1 - c.alpha, gradient, gradient)
   state.tmp = root(state.tmp, state.m, c.epsilon)
   x:addcdiv(-(c.learningRate or 1e-2), gradient, state.tmp)
end)

method("adam", {beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8}, function(x, gradient, c, state)
   local t = (state.t or 0) + 1
   local rate = (c.learningRate or 0.001) / (1 + (t - 1) * (c.learningRateDecay or 0))
   state.t = t
   state.m = (state.m or zeros(x)):mul(c.beta1):add(1 - c.beta1, gradient)
   state.v = (state.v or zeros(x)):mul(c.beta2):addcmul(1 - c.beta2, gradient, gradient)
   local size = rate * math.sqrt(1 - c.beta2 ^ t) / (1 - c.beta1 ^ t)
   state.denom = root(state.denom, state.v, c.epsilon)
   x:addcdiv(-size, state.m, state.denom)
end)

method("adamax", {beta1 = 0.9, beta2 = 0.999, epsilon = 1e-38}, function(x, gradient, c, state)
   state.t = (state.t or 0) + 1
   state.m = (state.m or zeros(x)):mul(c.beta1):add(1 - c.beta1, gradient)
   state.u = torch.cmax((state.u or zeros(x)):mul(c.beta2), torch.abs(gradient):add(c.epsilon))
   x:addcdiv(-(c.learningRate or 0.002) / (1 - c.beta1 ^ state.t), state.m, state.u)
end)

-- asgd: averaged gradient descent. From step t0 on, the average of the parameters is updated; it is
-- returned as the third result.
method("asgd", {eta0 = 1e-4, lambda = 1e-4, alpha = 0.75, t0 = 1e6}, function(x, gradient, c, state)
   state.t = state.t or 0
   state.eta_t = state.eta_t or c.eta0
   state.mu_t = state.mu_t or 1
   x:mul(1 - c.lambda * state.eta_t):add(-state.eta_t, gradient)
   state.ax = state.ax or zeros(x)
   if state.mu_t ~= 1 then
      state.ax:add(state.mu_t, x - state.ax)
   else
      state.ax:copy(x)
   end
   state.t = state.t + 1
   state.eta_t = c.eta0 / (1 + c.lambda * c.eta0 * state.t) ^ c.alpha
   state.mu_t = 1 / math.max(1, state.t - c.t0)
   return state.ax
end)

-- Rprop: takes steps by the signs of gradients. One call may evaluate opfunc several times.
function M.rprop(opfunc, x, config, state)
   config = config or {}
   state = state or config
   local up, down = config.etaplus or 1.2, config.etaminus or 0.5
   local most, least = config.stepsizemax or 50, config.stepsizemin or 1e-6
   local losses = {}
   for i = 1, config.niter or 1 do
      local fx, gradient = opfunc(x)
      losses[i] = fx
      state.stepsize_t = state.stepsize_t or zeros(x):fill(config.stepsize or 0.1)
      state.delta = state.delta or zeros(x)
      local change = torch.cmul(gradient, state.delta)
      local grown, shrunk = change:gt(0):typeAs(x), change:lt(0):typeAs(x)
      local factor = grown * up + shrunk * down + change:eq(0):typeAs(x)
      state.stepsize_t:cmul(factor):clamp(least, most)
      local direction = torch.sign(gradient):cmul(shrunk * -1 + 1)
      x:addcmul(-1, direction, state.stepsize_t)
      state.delta:copy(torch.cmul(gradient, shrunk * -1 + 1))
   end
   return x, losses
end

for name, fn in pairs(searches) do M[name] = fn end
for name, fn in pairs(require "tlua.torch7.optim_population") do M[name] = fn end
for name, class in pairs(require "tlua.torch7.optim_records") do M[name] = class end

-- Compares a gradient with finite differences. Returns their relative distance, the gradient and
-- the differences.
function M.checkgrad(opfunc, x, eps)
   eps = eps or 1e-7
   local _, gradient = opfunc(x)
   gradient = gradient:clone()
   local estimate = gradient:clone()
   for i = 1, x:size(1) do
      local old = x[i]
      x[i] = old + eps
      local above = opfunc(x)
      x[i] = old - eps
      local below = opfunc(x)
      x[i] = old
      estimate[i] = (above - below) / (2 * eps)
   end
   return torch.norm(gradient - estimate) / torch.norm(gradient + estimate), gradient, estimate
end

-- Wraps each optimizer so that it checks the function and the tensor that a program passes to it,
-- and the results of this function.
for name, fn in pairs(M) do
   if type(fn) == "function" and name ~= "polyinterp" and name ~= "lswolfe" then
      local no_gradient = name == "de" or name == "cmaes" or name == "FistaLS"
      M[name] = function(opfunc, x, ...)
         if type(opfunc) ~= "function" then
            tlua.raise(("optim.%s: opfunc: expected a function, got %s"):format(name,
               classes.type(opfunc)))
         end
         if name ~= "FistaLS" and not tlua.is_tensor(x) then
            tlua.raise(("optim.%s: x: expected a tensor, got %s"):format(name, classes.type(x)))
         end
         if no_gradient then return fn(opfunc, x, ...) end
         return fn(function(at)
            local loss, gradient = opfunc(at)
            if type(loss) ~= "number" or not tlua.is_tensor(gradient) then
               tlua.raise(("optim.%s: opfunc: expected a loss and its gradient, got %s and %s")
                  :format(name, classes.type(loss), classes.type(gradient)))
            end
            return loss, gradient
         end, x, ...)
      end
   end
end

M.fista = M.FistaLS

return M
