-- contrastive.lua - contrastive search (Su et al., 2022). Among the k most probable tokens, it
-- chooses the token with the largest difference of two weighted terms: the token's probability, and
-- the largest cosine similarity of its hidden state to the earlier hidden states.

local torch = require "tlua"

local M = {}

-- Compares the hidden states (B * k, 1, D) of the candidates with those of the tokens before them,
-- `past` (B, S, D). Returns the largest cosine similarity for each candidate (B * k). Padding,
-- where the mask (B, S) is false, is ignored.
local function similarity(hidden, past, mask)
   local function unit(x) return x / x:norm(2, 3, true) end
   local k = hidden:size(1) // past:size(1)
   local cosine = unit(past):repeat_interleave(k, 1):matmul(unit(hidden):transpose(2, 3)):squeeze(3)
   if mask then
      cosine = cosine:masked_fill(mask:logical_not():repeat_interleave(k, 1), -math.huge)
   end
   return cosine:amax(2)
end

--- Returns a function of the tokens so far, ids (B, S). It returns the tokens (B) that follow, and
--- the processed scores (B, V) from which they were chosen.
---@param steps table  text.generation.Steps
---@param o table  the options
---@param list function[]  processors of scores
---@return fun(ids: Tensor): Tensor, Tensor
function M.chooser(steps, o, list)
   local next_scores, past -- the scores of the next token, and the hidden states (B, S, D) of ids
   return function(ids)
      if not next_scores then
         next_scores, past = steps:last_scores(ids, 1, true)
         next_scores = next_scores:select(2, -1)
      end
      local scores = next_scores
      for _, process in ipairs(list) do scores = process(ids, scores) end
      steps:best(scores) -- raises an error if a score is NaN
      local batch, mask = ids:size(1), steps.mask
      local p, tokens = scores:softmax(-1):topk(math.min(o.top_k, scores:size(2)), 2)
      local k = tokens:size(2)
      local rows = torch.arange(1, batch + 1, {dtype = "int64", device = ids.device})

      -- Each candidate is appended to its text, and the model computes the hidden state of the
      -- candidate and the scores of the token after it.
      steps:reorder(rows:repeat_interleave(k, 1))
      local longer = torch.cat({ids:repeat_interleave(k, 1), tokens:view(-1, 1)}, 2)
      local after, hidden = steps:last_scores(longer, 1, true)
      local value = (1 - o.penalty_alpha) * p
         - o.penalty_alpha * similarity(hidden, past, mask):view(batch, k)
      local at = value:argmax(2)
      local chosen = (rows - 1) * k + at
      steps:reorder(chosen)
      next_scores = after:select(2, -1):index_select(1, chosen)
      past = torch.cat({past, hidden:index_select(1, chosen)}, 2)
      return tokens:gather(2, at:unsqueeze(2)):squeeze(2), scores
   end
end

return M
