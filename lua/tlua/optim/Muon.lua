-- Muon.lua - "Muon: An optimizer for hidden layers in neural networks" (Jordan et al., 2024): steps
-- along the orthogonalized momentum, for weight matrices of hidden layers. Other parameters
-- (biases, embeddings, norms) go to another optimizer, such as AdamW.

local torch = require "tlua"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Optimizer = require "tlua.optim.Optimizer"
local parts = require "tlua.optim.parts"

--- Steps along the orthogonalized momentum, for weight matrices of hidden layers. Other parameters
--- (biases, embeddings, norms) need another optimizer, such as AdamW.
---
---     local model = torch.nn.Linear(4, 3, {bias = false}) -- for matrices only
---     local optimizer = torch.optim.Muon(model:parameters(), {lr = 0.02})
---     model(torch.ones(2, 4)):sum():backward()
---     optimizer:step()
---     print(optimizer.param_groups[1].lr)
---     --> 0.02
---@class optim.Muon: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.Muon
local Muon, parent = class.class("optim.Muon", Optimizer)
Muon.needs_real = true

-- The options. ns_coefficients are the coefficients of the polynomial that moves all singular
-- values towards 1. adjust_lr_fn names the rule by which the learning rate depends on a matrix's
-- sizes.
local defaults = {
   lr = 1e-3, weight_decay = 0.1, momentum = 0.95, nesterov = true,
   ns_coefficients = {3.4445, -4.7750, 2.0315}, eps = 1e-7, ns_steps = 5,
   adjust_lr_fn = "original",
}

-- Maps adjust_lr_fn to a function that returns the factor of the learning rate for an (m, n)
-- matrix.
local adjustments <const> = {
   original = function(m, n) return math.max(1, m / n) ^ 0.5 end,
   match_rms_adamw = function(m, n) return 0.2 * math.max(m, n) ^ 0.5 end,
   spectral_unclamped = function(m, n) return (m / n) ^ 0.5 end,
}

local function check(o)
   local option, expected = checks.not_negative(o, {"lr", "momentum", "weight_decay", "eps"})
   if option then return option, expected end
   if not adjustments[o.adjust_lr_fn] then
      return "adjust_lr_fn", "original, match_rms_adamw or spectral_unclamped"
   end
   local steps = math.tointeger(o.ns_steps)
   if not steps or steps < 0 or steps >= 100 then
      return "ns_steps", "an integer from 0 to 99"
   end
   for i = 1, 3 do
      if type(o.ns_coefficients[i]) ~= "number" or #o.ns_coefficients ~= 3 then
         return "ns_coefficients", "three numbers"
      end
   end
end

---@param params Tensor[]|table[]  matrices
---@param options? table  any of `defaults`
function Muon:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function Muon:check_parameter(i, parameter)
   parent.check_parameter(self, i, parameter)
   local shape = parts.whole_shape(parameter)
   if #shape ~= 2 then
      torch.raise(("%s: parameter %d: expected a matrix, got a tensor of shape (%s)"):format(
         torch.type(self), i, table.concat(shape, ", ")))
   end
end

-- Returns approximately U V^T for a matrix U S V^T, in bfloat16, by Newton-Schulz iterations: with
-- A = X X^T, X = a X + (b A + c A^2) X.
local function orthogonal(matrix, o)
   local a, b, c = table.unpack(o.ns_coefficients)
   local tall = matrix:size(1) > matrix:size(2)
   local x = matrix:to("bfloat16")
   if tall then x = x:t() end
   x = x / x:norm():clamp_min(o.eps)
   for _ = 1, o.ns_steps do
      local gram = x:matmul(x:t())
      local polynomial = torch.addmm(gram, gram, gram, {beta = b, alpha = c})
      x = torch.addmm(x, polynomial, x, {beta = a})
   end
   return tall and x:t() or x
end

-- Updates the momenta of the parameters. Returns the momenta or, for Nesterov's variant, the
-- momenta after one more update with the same gradients.
local function directions(self, params, grads, positions, o)
   local ahead, buffers = {}, {}
   for i, parameter in ipairs(params) do
      local state = self:state_of(positions[i])
      state.momentum_buffer = state.momentum_buffer or torch.zeros_like(parameter)
      buffers[i], ahead[i] = state.momentum_buffer, torch.empty_like(parameter)
   end
   local rule = o.nesterov and "muon_nesterov" or "muon"
   return torch._fused_step_(ahead, grads, buffers, {}, rule, {0, o.momentum})
end

-- Returns a group's learning rate as a number, and a function that rounds a number to the dtype of
-- the rate; the function changes nothing if the rate was given as a number.
local function rate(self, o)
   local lr = checks.rate(self, o)
   if not torch.is_tensor(o.lr) then return lr, function(x) return x end end
   local like = torch.zeros({}, {dtype = o.lr.dtype})
   return lr, function(x) return like:fill_(x):item() end
end

function Muon:update_group(o, offset)
   local params, grads, positions = {}, {}, {}
   for i, parameter in ipairs(o.params) do
      local grad = parameter.grad
      if grad then
         if grad.layout ~= "strided" then checks.refuse_sparse(self, parameter) end
         local n = #params + 1
         params[n], grads[n], positions[n] = parameter, grad, offset + i
      end
   end
   local lr, rounded = rate(self, o)
   -- weight decay uses the learning rate without the adjustment for the matrix's sizes
   local left = rounded(1 - rounded(lr * o.weight_decay))
   for i, direction in ipairs(directions(self, params, grads, positions, o)) do
      local m, n = table.unpack(parts.whole_shape(params[i]))
      if m * n > 0 then
         local adjusted = rounded(lr * adjustments[o.adjust_lr_fn](m, n))
         local decay = adjusted > 0 and (1 - left) / adjusted or 0
         local step = parts.through_whole(params[i], direction, function(whole)
            return orthogonal(whole, o)
         end)
         torch._fused_step_({params[i]}, {step}, {}, {}, "sgd", {adjusted, 0, 0, decay, 1, 0})
      end
   end
end

function Muon:needed_state() -- luacheck: no unused args
   return {"momentum_buffer"}
end

return Muon
