-- SGD.lua - stochastic gradient descent, with plain (Polyak) or Nesterov's momentum.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Stochastic gradient descent, with momentum, dampening, weight decay and Nesterov's variant.
--- nesterov needs momentum above 0 and no dampening. Without momentum, a sparse gradient changes
--- only its own rows of the parameter. Sparse gradients cannot be combined with weight decay.
---
---     local w = torch.tensor({2.0}, {requires_grad = true})
---     local optimizer = torch.optim.SGD({w}, {lr = 0.25})
---     w:square():sum():backward()
---     optimizer:step()
---     print(w:item())
---     --> 1.0
---@class optim.SGD: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.SGD
local SGD = class.class("optim.SGD", Fused)

local defaults = {lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false}

local function check(o)
   local option, expected = checks.not_negative(o, {"lr", "momentum", "weight_decay"})
   if option then return option, expected end
   if o.nesterov and (o.momentum == 0 or o.dampening ~= 0) then
      return "nesterov", "momentum above 0 and no dampening with it"
   end
end

Fused.define(SGD, defaults, check)

local none <const>, buffer <const> = {}, {"momentum_buffer"}

-- Returns the name, the state tensors and the options of the update rule. `first` is 1 if the
-- momentum buffer is new; the buffer is then set to the gradient, without dampening. Otherwise
-- `first` is 0.
local function rule(o, first)
   local name = o.momentum == 0 and "sgd" or o.nesterov and "sgd_nesterov" or "sgd_momentum"
   return name, o.momentum == 0 and none or buffer,
      {o.lr, o.momentum, o.dampening, o.weight_decay, 0, first}
end

-- Makes a step along a sparse gradient. With momentum all rows of the parameter move, since the
-- momentum buffer is dense.
function SGD:update_rows(parameter, rows, values, state, o)
   if o.weight_decay ~= 0 then
      args.refuse("optim.SGD", "weight_decay", "0 with a sparse gradient", o.weight_decay)
   end
   local lr = torch.is_tensor(o.lr) and o.lr:item() or o.lr
   if o.momentum == 0 then
      parameter:index_add_(1, rows, values, {alpha = -lr})
      return
   end
   local average, weight = state.momentum_buffer, 1 - o.dampening
   if average then
      average:mul_(o.momentum)
   else
      average, weight = torch.zeros_like(parameter), 1
      state.momentum_buffer = average
   end
   average:index_add_(1, rows, values, {alpha = weight})
   if o.nesterov then
      parameter:add_(average, {alpha = -lr * o.momentum}):index_add_(1, rows, values, {alpha = -lr})
   else
      parameter:add_(average, {alpha = -lr})
   end
end

-- Makes a step along the gradient of a sparse parameter. The momentum buffer has the parameter's
-- positions.
function SGD:update_sparse(parameter, values, grad, state, o)
   local lr = torch.is_tensor(o.lr) and o.lr:item() or o.lr
   if o.weight_decay ~= 0 then grad = grad:add(values, {alpha = o.weight_decay}) end
   if o.momentum ~= 0 then
      local average = state.momentum_buffer
      if average then
         average:_values():mul_(o.momentum):add_(grad, {alpha = 1 - o.dampening})
      else
         average = parameter:detach():clone()
         average:_values():copy_(grad)
         state.momentum_buffer = average
      end
      average = average:_values()
      grad = o.nesterov and grad:add(average, {alpha = o.momentum}) or average
   end
   values:add_(grad, {alpha = -lr})
end

-- A saved state may lack the momentum buffer. In this case, the next gradient becomes the buffer.
function SGD:needed_state() return none end -- luacheck: no unused args

local function is_new(state) return not state.momentum_buffer end
local function is_old(state) return not is_new(state) end

function SGD:update_group(o, offset)
   if o.momentum == 0 or o.dampening == 0 then
      -- without dampening, a new buffer of zeros gives the same result as a buffer that is set to
      -- the gradient
      return self:step_group(o, offset, rule(o, 0))
   end
   self:step_sparse(o, offset)
   local name, names, options = rule(o, 0)
   self:step_group(o, offset, name, names, options, is_old)
   name, names, options = rule(o, 1)
   self:step_group(o, offset, name, names, options, is_new)
end

return SGD
