-- SparseAdam.lua - Adam for embeddings: rows that were not used for the loss keep their values and
-- their averages. A sparse gradient lists the rows that were used. Dense gradients, which
-- F.embedding computes unless its option sparse is set, are refused, as PyTorch refuses them.

local torch = require "tlua"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Optimizer = require "tlua.optim.Optimizer"

--- Adam for embeddings: rows without a gradient keep their values and their averages. Parameters
--- are dense and gradients sparse, as F.embedding computes them with its option sparse.
---
---     local layer = torch.nn.Embedding(3, 1, {sparse = true})
---     local before = layer.weight:detach():clone()
---     local optimizer = torch.optim.SparseAdam(layer:parameters(), {lr = 0.1})
---     layer(torch.tensor {2}):sum():backward()
---     optimizer:step()
---     print((layer.weight:detach() - before):ne(0):flatten()) -- row 2 alone
---     --> tensor([False,  True, False])
---@class optim.SparseAdam: optim.Optimizer
---@overload fun(params: Tensor[]|table[], options?: table): optim.SparseAdam
local SparseAdam, parent = class.class("optim.SparseAdam", Optimizer)
SparseAdam.needs_whole, SparseAdam.takes_rows, SparseAdam.needs_real = true, true, true
SparseAdam.clocks = {"step"}

local defaults = {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, maximize = false}

local function check(o)
   local option, expected = checks.not_negative(o, {"lr", "eps"})
   if option then return option, expected end
   return checks.betas(o)
end

---@param params Tensor[]|table[]  (rows, ...) each
---@param options? table  any of `defaults`
function SparseAdam:__init(params, options)
   parent.__init(self, params, options, defaults, check)
end

function SparseAdam:check_parameter(i, parameter)
   parent.check_parameter(self, i, parameter)
   if torch._sparse_parts(parameter) then
      torch.raise(("%s: parameter %d: SparseAdam requires dense parameter tensors, got layout %s")
         :format(torch.type(self), i, parameter.layout))
   end
   if parameter:dim() == 0 then
      torch.raise(("%s: parameter %d: expected a tensor with rows, got a 0-d one"):format(
         torch.type(self), i))
   end
end

-- Moves the given rows of an average towards `values`, and returns the new rows.
local function moved(average, rows, values, beta)
   local new = torch.lerp(average:index_select(1, rows), values, 1 - beta)
   average:index_copy_(1, rows, new)
   return new
end

local function update(self, parameter, state, o)
   if not parameter.grad.is_sparse then
      torch.raise(("optim.SparseAdam: parameter of shape (%s): SparseAdam does not support dense "
         .. "gradients, please consider Adam instead"):format(table.concat(parameter.shape, ", ")))
   end
   local grad = parameter.grad:coalesce()
   local values, rows = grad:values(), grad:indices()[1]
   if o.maximize then values = -values end
   local lr = checks.rate(self, o)
   state.step = (state.step or 0) + 1
   state.exp_avg = state.exp_avg or torch.zeros_like(parameter)
   state.exp_avg_sq = state.exp_avg_sq or torch.zeros_like(parameter)
   if rows:numel() == 0 then return end

   local mean = moved(state.exp_avg, rows, values, o.betas[1])
   local square = moved(state.exp_avg_sq, rows, values * values, o.betas[2])
   local size = lr * (1 - o.betas[2] ^ state.step) ^ 0.5 / (1 - o.betas[1] ^ state.step)
   parameter:index_add_(1, rows, mean / (square:sqrt() + o.eps), {alpha = -size})
end

function SparseAdam:update_group(o, offset)
   for i, parameter in ipairs(o.params) do
      if parameter.grad then update(self, parameter, self:state_of(offset + i), o) end
   end
end

function SparseAdam:needed_state() -- luacheck: no unused args
   return {"exp_avg", "exp_avg_sq"}
end

return SparseAdam
