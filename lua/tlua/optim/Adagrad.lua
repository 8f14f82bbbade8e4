-- Adagrad.lua - "Adaptive Subgradient Methods" (Duchi, Hazan and Singer, 2011): divides gradients
-- by the square root of the sum of all squared gradients so far.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Fused = require "tlua.optim.Fused"

--- Divides gradients by the square root of the sum of all squared gradients so far. A sparse
--- gradient changes only its own rows of the parameter, and cannot be combined with weight decay.
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.Adagrad({w}, {lr = 0.5})
---     w:sum():backward()
---     optimizer:step()
---     print(w:detach())
---     --> tensor([0.5000])
---@class optim.Adagrad: optim.Fused
---@overload fun(params: Tensor[]|table[], options?: table): optim.Adagrad
local Adagrad = class.class("optim.Adagrad", Fused)

local defaults = {
   lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10,
}

Adagrad.clocks = {"step"}

local function check(o)
   return checks.not_negative(o,
      {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"})
end

Fused.define(Adagrad, defaults, check)

function Adagrad:initial(name, o)
   return name == "sum" and o.initial_accumulator_value or 0
end

local names <const> = {"sum"}

function Adagrad:rule(o)
   return "adagrad", names, {o.lr, o.lr_decay, o.eps, o.weight_decay}
end

-- Updates the rows of a parameter that a sparse gradient has.
function Adagrad:update_rows(parameter, rows, values, state, o)
   if o.weight_decay ~= 0 then
      args.refuse("optim.Adagrad", "weight_decay", "0 with a sparse gradient", o.weight_decay)
   end
   state.step = state.step or torch.full({}, 0, {dtype = "float64",
      device = o.capturable and parameter.device or "cpu"})
   state.sum = state.sum or torch.full_like(parameter, o.initial_accumulator_value)
   state.step:add_(1)
   local lr = torch.is_tensor(o.lr) and o.lr:item() or o.lr
   local size = lr / (1 + (state.step:item() - 1) * o.lr_decay)
   local sum = state.sum:index_select(1, rows) + values * values
   state.sum:index_copy_(1, rows, sum)
   parameter:index_add_(1, rows, values / (sum:sqrt() + o.eps), {alpha = -size})
end

return Adagrad
