-- beams.lua - beam search. It keeps the num_beams most probable continuations of each prompt, with
-- the rules of Hugging Face's library.

local torch = require "tlua"
local Steps = require "tlua.text.generation.steps"

local M = {}

-- The score of sequences that must not be chosen. It is finite, because a difference of two
-- infinite scores would be NaN.
local never <const> = -1e9

-- Selects beams of each prompt from x (B, N, ...). Row b of `at` (B, K) has the positions of the
-- beams of prompt b.
local function select_beams(x, at)
   local shape = {at:size(1), at:size(2)}
   for d = 3, x:dim() do shape[d] = x:size(d) end
   local index = at
   for _ = 3, x:dim() do index = index:unsqueeze(-1) end
   return x:gather(2, index:expand(shape))
end

-- Returns whether each sequence (B, N, S) ends because of its last token, its length or a stop
-- string.
local function ended(sequences, o, length)
   local b, n = sequences:size(1), sequences:size(2)
   local flat = sequences:flatten(1, 2)
   local last = flat:select(2, -1)
   local done = torch.full({b * n}, length >= o.most, {dtype = "bool", device = flat.device})
   for _, token in ipairs(o.eos) do done = done | last:eq(token) end
   if o.stops then
      for i = 1, b * n do
         if o.stops(flat[i]) then done[i] = true end
      end
   end
   return done:view(b, n)
end

-- Returns, for each prompt, whether a sequence that has not ended may still become better than the
-- worst finished sequence.
local function may_improve(o, running, finished, is_done, made)
   local length = made
   if o.early_stopping == "never" and o.length_penalty > 0 then length = o.most - o.prompt end
   local best = running:narrow(2, 1, 1) / length ^ o.length_penalty
   local worst = torch.where(is_done, finished:amin(2, true), torch.full_like(finished, never))
   return best:gt(worst):any(2, true)
end

--- Searches for the best continuations of prompts. Returns the token numbers, and the score of each
--- continuation.
---@param model text.PreTrainedModel
---@param ids Tensor  (B, S)
---@param o table  the options
---@param processors_of fun(prompt: integer): function[]
---@return Tensor  (B * num_return_sequences, S)
---@return Tensor  (B * num_return_sequences)
function M.search(model, ids, o, processors_of)
   local beams, batch = o.num_beams, ids:size(1)
   local steps = Steps(model, ids, o, beams)
   local prompt, device = steps.prompt, ids.device
   o.prompt, o.most = prompt, prompt + o.max_new_tokens
   local processors = processors_of(prompt)
   local keep = math.max(2, 1 + #o.eos) * beams
   local like = {dtype = "int64", device = device}
   local fill = o.pad_token_id or o.eos[1] or 1
   local current = torch.full({batch, beams, o.most}, fill, like)
   current:narrow(3, 1, prompt):copy_(steps.ids:view(batch, beams, prompt))
   local found = current:clone()
   local running = torch.full({batch, beams}, never, {device = device})
   running:select(2, 1):fill_(0)
   local finished = torch.full({batch, beams}, never, {device = device})
   local lengths = torch.zeros(batch, beams, like)
   local is_done = torch.zeros(batch, beams, {dtype = "bool", device = device})
   local improves = torch.ones(batch, 1, {dtype = "bool", device = device})
   local top = torch.arange(1, keep + 1, like):le(beams):unsqueeze(1)
   local offsets = torch.arange(0, batch, like):unsqueeze(2) * beams
   local length = prompt
   while true do
      local flat = current:narrow(3, 1, length):flatten(1, 2)
      local scores = steps:scores(flat):log_softmax(-1)
      for _, process in ipairs(processors) do scores = process(flat, scores) end
      steps:best(scores) -- raises an error if a score is NaN
      local vocab = scores:size(2)
      scores = (scores:view(batch, beams, vocab) + running:unsqueeze(3)):flatten(2)

      -- These lines find the best continuations by one token, among all beams of each prompt.
      local values, at
      if o.do_sample then
         at = torch.multinomial(scores:softmax(-1), keep, false, {generator = o.generator})
         local order
         values, order = scores:gather(2, at):sort(2, true)
         at = at:gather(2, order)
      else
         values, at = scores:topk(keep, 2)
      end
      local beam, token = (at - 1) // vocab + 1, (at - 1) % vocab + 1
      local next_ones = select_beams(current, beam)
      next_ones:select(3, length + 1):copy_(token)
      local ends = ended(next_ones:narrow(3, 1, length + 1), o, length + 1)

      -- The best sequences that have not ended continue in the next step.
      local going = values + ends:float() * never
      local chosen
      running, chosen = going:topk(beams, 2)
      current = select_beams(next_ones, chosen)
      local rows = (beam:gather(2, chosen) + offsets):flatten()

      -- The best finished sequences are chosen from the new ones and those of earlier steps.
      local closed = ends & top
      local made = length + 1 - prompt
      local value = values / made ^ o.length_penalty
      if o.early_stopping == true then
         value = value + is_done:all(2, true):float() * never
      end
      value = value + improves:logical_not():float() * never
      value = value + closed:logical_not():float() * never
      local best
      finished, best = torch.cat({finished, value}, 2):topk(beams, 2)
      found = select_beams(torch.cat({found, next_ones}, 2), best)
      lengths = torch.cat({lengths, torch.full({batch, keep}, made, like)}, 2):gather(2, best)
      is_done = torch.cat({is_done, closed}, 2):gather(2, best)

      length = length + 1
      improves = improves & may_improve(o, running, finished, is_done, length - prompt)
      local open = not (o.early_stopping == true and is_done:all():item())
      if not improves:any():item() or not open or ends:all():item() then break end
      steps:reorder(rows)
   end
   local n = o.num_return_sequences
   local longest = lengths:narrow(2, 1, n):max():item()
   return found:narrow(2, 1, n):narrow(3, 1, prompt + longest):flatten(1, 2):contiguous(),
      finished:narrow(2, 1, n):flatten()
end

return M
