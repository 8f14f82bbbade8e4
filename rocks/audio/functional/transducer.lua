-- transducer.lua - the loss of a recurrent transducer (Graves, 2012). alpha[t, u] is the
-- log-probability that u tokens were emitted before step t. All alphas on a diagonal, where t + u
-- is constant, are computed at once.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local M = {}

local prefix <const> = "audio.functional."

-- The value that stands for log(0). With minus infinity, a difference of two such values would be
-- NaN.
local NEVER <const> = -1e30

local Clamp = torch.class("audio.ClampGradient", torch.autograd.Function)

function Clamp.forward(ctx, x, limit)
   ctx.limit = limit
   return x:clone()
end

function Clamp.backward(ctx, grad) return grad:clamp(-ctx.limit, ctx.limit) end

-- Returns a tensor (batch, diagonals, states) whose element (b, d, u) is x[b, d - u, u], so that
-- each diagonal of x (batch, steps, states) becomes a row. Elements for which x has no element are
-- NEVER.
local function skew(x, diagonals)
   local batch, steps, states = table.unpack(x.shape)
   local d = torch.arange(diagonals, {device = x.device}):unsqueeze(2)
   local t = d - torch.arange(states, {device = x.device})
   local outside = t:lt(0) | t:ge(steps)
   local index = (t:clamp(0, steps - 1) + 1):expand(batch, diagonals, states)
   return x:gather(2, index):masked_fill(outside, NEVER)
end

local function check(title, a)
   local x = a.logits
   checks.real(title, "logits", x, 4, "(batch, time, length + 1, tokens)")
   local batch, steps, states, tokens = table.unpack(x.shape)
   if a.targets:dim() ~= 2 or a.targets:size(1) ~= batch or a.targets:size(2) ~= states - 1 then
      args.refuse(title, "targets", ("a tensor of shape (%d, %d)"):format(batch, states - 1),
         a.targets)
   end
   for _, row in ipairs {{"logit_lengths", steps, 1}, {"target_lengths", states - 1, 0}} do
      local name, most, least = table.unpack(row)
      local value = a[name]
      if value:dim() ~= 1 or value:size(1) ~= batch then
         args.refuse(title, name, ("a tensor of shape (%d)"):format(batch), value)
      end
      for _, n in ipairs(value:tolist()) do
         if n < least or n > most then
            args.refuse(title, name, ("lengths from %d to %d"):format(least, most), n)
         end
      end
   end
   local blank = a.blank < 0 and tokens + 1 + a.blank or a.blank
   if blank < 1 or blank > tokens then
      args.refuse(title, "blank", ("a position from 1 to %d, or from the end"):format(tokens),
         a.blank)
   end
   checks.among(title, "reduction", a.reduction, {none = true, mean = true, sum = true})
   return blank
end

-- Returns two tensors of log-probabilities: those of the blank, (batch, time, length + 1), and
-- those of the targets, (batch, time, length).
local function scores_of(title, a, blank)
   local x = a.logits
   if a.clamp > 0 then x = Clamp:apply(x, a.clamp) end
   local batch, steps, states, tokens = table.unpack(x.shape)
   local targets = a.targets:long()
   local valid = torch.arange(states - 1, {device = x.device}):lt(a.target_lengths:unsqueeze(2))
   if (valid & (targets:lt(1) | targets:gt(tokens))):any():item() then
      args.refuse(title, "targets", ("positions from 1 to %d"):format(tokens), a.targets)
   end
   local index = targets:clamp(1, tokens):unsqueeze(2):unsqueeze(-1)
      :expand(batch, steps, states - 1, 1)
   local blanks = x:select(4, blank)
   local labels = x:narrow(3, 1, states - 1):gather(4, index):squeeze(4)
   if not a.fused_log_softmax then return blanks, labels end
   local norm = x:logsumexp(-1)
   return blanks - norm, labels - norm:narrow(3, 1, states - 1)
end

local take = args.signature(prefix .. [[rnnt_loss(logits: tensor, targets: tensor,
   logit_lengths: tensor, target_lengths: tensor, blank: integer = -1, clamp: number = -1,
   reduction: string = 'mean', fused_log_softmax: boolean = true)]])

--- Returns the loss of a recurrent transducer.
---
---     local loss = torch.audio.functional.rnnt_loss(torch.zeros(1, 2, 2, 3),
---        torch.tensor {{1}}, torch.tensor {2}, torch.tensor {1})
---     print(("%.4f"):format(loss:item()))
---     --> 2.6027
---@param logits Tensor  (batch, time, length + 1, tokens)
---@param targets Tensor  (batch, length), positions of tokens
---@param logit_lengths Tensor  (batch)
---@param target_lengths Tensor  (batch)
---@param blank? integer  the blank's position, counted from the end if negative; -1 by default
---@param clamp? number  the limit of gradients, or a negative number for no limit
---@param reduction? string
---@param fused_log_softmax? boolean  false if logits are log-probabilities
---@return Tensor
function M.rnnt_loss(...)
   local title, a = prefix .. "rnnt_loss", take(...)
   local blank = check(title, a)
   local blanks, labels = scores_of(title, a, blank)
   local batch, steps, states = table.unpack(blanks.shape)
   local diagonals = steps + states - 1
   local stay, say = skew(blanks, diagonals), skew(labels, diagonals)
   local alpha = stay:new_full({batch, states}, NEVER)
   alpha:narrow(2, 1, 1):zero_()
   local list = {alpha}
   local edge = stay:new_full({batch, 1}, NEVER)
   for d = 2, diagonals do
      local stayed = alpha + stay:select(2, d - 1)
      local said = alpha:narrow(2, 1, states - 1) + say:select(2, d - 1)
      alpha = torch.logaddexp(stayed, torch.cat({edge, said}, 2))
      list[d] = alpha
   end
   local u = a.target_lengths:long()
   local d = a.logit_lengths:long() + u
   local index = ((d - 1) * states + u + 1):unsqueeze(2)
   local total = (torch.stack(list, 2) + stay):view(batch, -1):gather(2, index):squeeze(2)
   local costs = -total
   if a.reduction == "mean" then return costs:mean() end
   return a.reduction == "sum" and costs:sum() or costs
end

return M
