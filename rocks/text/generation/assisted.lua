-- assisted.lua - assisted generation: a smaller model, or an earlier part of the text, proposes
-- several tokens, and the model checks all of them in one step. Greedy generation returns the same
-- tokens as the model alone. Samples have the same distribution as the model's (Leviathan et al.,
-- 2023; Chen et al., 2023).

local torch = require "tlua"
local Steps = require "tlua.text.generation.steps"

local M = {}

local function processed(list, ids, scores)
   for _, process in ipairs(list) do scores = process(ids, scores) end
   return scores
end

local function is_eos(o, token)
   for _, eos in ipairs(o.eos) do
      if token == eos then return true end
   end
   return false
end

local function appended(ids, token)
   return torch.cat({ids, torch.full({1, 1}, token, {dtype = ids.dtype, device = ids.device})}, 2)
end

local function draw(probabilities, o)
   return torch.multinomial(probabilities, 1, false, {generator = o.generator}):item()
end

-- Drafts -----------------------------------------------------------------------------------------

-- Each function below returns an object with two methods. propose(ids, most) proposes at most
-- `most` tokens that follow ids (1, S), and returns ids with the proposed tokens appended. It also
-- returns a list, which has for each sampled token the distribution (1, V) from which it was drawn.
-- learn(count, matches) is called after each check, in which the model accepted `matches` of
-- `count` tokens.

-- Returns an object that proposes tokens of another model. A proposal ends after a token whose
-- probability is below the threshold. learn(count, matches) adapts the length of later proposals.
local function by_model(assistant, ids, o, list)
   local steps = Steps(assistant, ids, o, 1)
   local most_tokens = o.num_assistant_tokens
   local draft = {}
   function draft.propose(sequence, most)
      local tokens, drawn_from = sequence, {}
      steps:crop(sequence:size(2) - 1)
      for i = 1, math.min(most, most_tokens) do
         local scores = processed(list, tokens, steps:scores(tokens))
         local best = steps:best(scores):item()
         local p = scores:softmax(-1)
         local token = o.do_sample and draw(p, o) or best
         if o.do_sample then drawn_from[i] = p end
         tokens = appended(tokens, token)
         if is_eos(o, token) or p[{1, token}]:item() < o.assistant_confidence_threshold then
            break
         end
      end
      return tokens, drawn_from
   end
   function draft.learn(count, matches)
      if o.num_assistant_tokens_schedule == "constant" then return end
      most_tokens = matches == count and most_tokens + 2 or math.max(1, most_tokens - 1)
      if o.num_assistant_tokens_schedule == "heuristic" then
         assistant.generation_config = assistant.generation_config or {}
         assistant.generation_config.num_assistant_tokens = most_tokens
      end
   end
   return draft
end

-- Searches for the first earlier occurrence of the last `longest` tokens, and returns the tokens
-- that followed it, at most `most`. If there is no such occurrence, it searches for the last
-- `longest` - 1 tokens, and so on down to the last token.
local function look_up(tokens, most, longest)
   local n = #tokens
   for size = math.min(longest, n - 1), 1, -1 do
      for at = 1, n - size do
         local same = true
         for i = 0, size - 1 do same = same and tokens[at + i] == tokens[n - size + 1 + i] end
         if same then
            return table.move(tokens, at + size, math.min(n, at + size + most - 1), 1, {})
         end
      end
   end
   return {}
end

-- Returns an object whose proposals are copied from an earlier part of the text (Saxena, 2023). A
-- proposal ends before an end-of-sequence token.
local function by_lookup(o)
   local draft = {}
   function draft.propose(sequence, most)
      local found = look_up(sequence[1]:tolist(), math.min(most, o.prompt_lookup_num_tokens),
         o.max_matching_ngram_size)
      for _, token in ipairs(found) do
         if is_eos(o, token) then break end
         sequence = appended(sequence, token)
      end
      return sequence, {}
   end
   function draft.learn() end
   return draft
end

-- The check -------------------------------------------------------------------------------------

-- Returns the next token. `proposed` is the proposed token, or nil. `drawn_from` is the
-- distribution from which it was drawn, or nil if it was not sampled. A sampled token is accepted
-- with the probability p / q, where p is the model's probability of the token and q that of
-- `drawn_from`; this keeps the model's distribution.
local function choose(scores, best, proposed, drawn_from, o)
   if not o.do_sample then return best end
   local p = scores:softmax(-1)
   if not proposed or not drawn_from then return draw(p, o) end
   local ratio = p[{1, proposed}]:item() / drawn_from[{1, proposed}]:item()
   if torch.rand(1, {generator = o.generator, device = p.device}):item() < ratio then
      return proposed
   end
   local rest = (p - drawn_from):clamp {min = 0}
   return draw(rest:sum():item() > 0 and rest or p, o)
end

--- Generates the continuation of one text, with proposed tokens that the model checks.
---@param model text.PreTrainedModel
---@param ids Tensor  (1, S)
---@param o table  the options
---@param processors_of fun(prompt: integer): function[]
---@return Tensor
---@return Tensor[] scores  the processed scores of each new token
function M.search(model, ids, o, processors_of)
   local steps = Steps(model, ids, o, 1)
   o.prompt, o.most = steps.prompt, steps.prompt + o.max_new_tokens
   local list, sequence, kept = processors_of(steps.prompt), steps.ids, {}
   local draft = o.assistant_model and by_model(o.assistant_model, ids, o, list) or by_lookup(o)

   -- Appends a token, and returns whether it ends the text.
   local function take(token)
      sequence = appended(sequence, token)
      local is_last = o.streamer and o.streamer(sequence:select(2, -1)) == true
      return is_last or is_eos(o, token) or o.stops and o.stops(sequence[1])
         or sequence:size(2) >= o.most
   end

   local is_ended = sequence:size(2) >= o.most
   while not is_ended do
      local length = sequence:size(2)
      local proposal, drawn_from = draft.propose(sequence, o.most - length - 1)
      local count, matches = proposal:size(2) - length, 0
      steps:crop(length - 1)
      local all = steps:last_scores(proposal, count + 1)
      for i = 1, count + 1 do
         local so_far = proposal:narrow(2, 1, length + i - 1)
         local scores = processed(list, so_far, all:select(2, i))
         local proposed = i <= count and proposal[{1, length + i}]:item() or nil
         local token = choose(scores, steps:best(scores):item(), proposed, drawn_from[i], o)
         kept[#kept + 1] = scores
         is_ended = take(token)
         if is_ended or token ~= proposed then break end
         matches = matches + 1
      end
      draft.learn(count, matches)
   end
   return sequence:contiguous(), kept
end

return M
