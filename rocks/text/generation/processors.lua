-- processors.lua - functions of (ids, scores) that change the scores of the next token. They have
-- Hugging Face's names and give the same results. ids (B, S) has all tokens so far, and scores is
-- (B, V). Each `M.<option>(value)` returns such a function.

local args = require "tlua.args"
local torch = require "tlua"

local M = {}

local lowest <const> = -math.huge

--- Penalises tokens that occur in ids: divides their positive scores by the penalty, and multiplies
--- their negative scores by it.
---@param penalty number
---@param padding? Tensor  (B): the number of tokens at the beginning that are padding
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.repetition_penalty(penalty, padding)
   return function(ids, scores)
      local vocab = scores:size(2)
      -- Padding must not be penalised: it is redirected to an additional column of scores, which is
      -- dropped later.
      if padding then
         local places = torch.arange(1, ids:size(2) + 1, {dtype = "int64", device = ids.device})
         ids = ids:masked_fill(places:unsqueeze(1):le(padding:unsqueeze(2)), vocab + 1)
         scores = torch.nn.functional.pad(scores, {0, 1})
      end
      local own = scores:gather(2, ids)
      own = torch.where(own:lt(0), own * penalty, own / penalty)
      return scores:scatter(2, ids, own):narrow(2, 1, vocab)
   end
end

--- Forbids each token that would complete a sequence of n tokens that ids already contains.
---@param n integer
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.no_repeat_ngram_size(n)
   return function(ids, scores)
      local rows, length = ids:tolist(), ids:size(2)
      if length + 1 < n then return scores end
      local row_list, token_list = {}, {}
      for b, row in ipairs(rows) do
         local tail = table.concat(row, " ", length - n + 2, length)
         for i = 1, length - n + 1 do
            if table.concat(row, " ", i, i + n - 2) == tail then
               row_list[#row_list + 1], token_list[#token_list + 1] = b, row[i + n - 1]
            end
         end
      end
      if #row_list == 0 then return scores end
      scores = scores:clone()
      local like = {dtype = "int64", device = scores.device}
      scores[{torch.tensor(row_list, like), torch.tensor(token_list, like)}] = lowest
      return scores
   end
end

--- Favours the source's tokens: multiplies their positive scores by the penalty, and divides their
--- negative scores by it.
---@param penalty number
---@param source Tensor  (B, S): the encoder's tokens, or the prompts
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.encoder_repetition_penalty(penalty, source)
   return function(_, scores)
      local copies = scores:size(1) // source:size(1)
      local ids = copies > 1 and source:repeat_interleave(copies, 1) or source
      local own = scores:gather(2, ids)
      return scores:scatter(2, ids, torch.where(own:lt(0), own / penalty, own * penalty))
   end
end

--- Forbids each token that would complete a sequence of n tokens that the source contains.
---@param n integer
---@param source Tensor  (B, S): the encoder's tokens, or the prompts
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.encoder_no_repeat_ngram_size(n, source)
   local known = {}
   for b, row in ipairs(source:tolist()) do
      known[b] = {}
      for i = 1, #row - n + 1 do
         local head = table.concat(row, " ", i, i + n - 2)
         known[b][head] = known[b][head] or {}
         table.insert(known[b][head], row[i + n - 1])
      end
   end
   return function(ids, scores)
      local copies, length = scores:size(1) // #known, ids:size(2)
      if length + 1 < n then return scores end
      local copy = scores:clone()
      for i, row in ipairs(ids:tolist()) do
         local tail = table.concat(row, " ", length - n + 2, length)
         for _, token in ipairs(known[(i - 1) // copies + 1][tail] or {}) do
            copy[{i, token}] = lowest
         end
      end
      return copy
   end
end

--- Adds a bias to the score of each token that would complete one of the sequences. A sequence of
--- one token is always completed.
---@param biases {[1]: integer[], [2]: number}[]  pairs {sequence, bias}
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.sequence_bias(biases)
   return function(ids, scores)
      local rows, length, copy = ids:tolist(), ids:size(2), scores:clone()
      for b, row in ipairs(rows) do
         for _, pair in ipairs(biases) do
            local word = pair[1]
            local fits = #word - 1 <= length
            for i = 1, fits and #word - 1 or 0 do
               fits = fits and row[length - #word + 1 + i] == word[i]
            end
            if fits then copy[{b, word[#word]}] = copy[{b, word[#word]}] + pair[2] end
         end
      end
      return copy
   end
end

--- Forbids the tokens that would complete one of the given sequences.
---@param words integer[][]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.bad_words_ids(words)
   local biases = {}
   for i, word in ipairs(words) do biases[i] = {word, lowest} end
   return M.sequence_bias(biases)
end

local function filled(scores, tokens, value)
   local copy = scores:clone()
   copy:index_fill_(2, torch.tensor(tokens, {dtype = "int64", device = scores.device}), value)
   return copy
end

--- Forbids the given tokens.
---@param tokens integer[]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.suppress_tokens(tokens)
   return function(_, scores) return filled(scores, tokens, lowest) end
end

--- Forbids end-of-sequence tokens while the text has fewer than `length` tokens.
---@param length integer
---@param eos integer[]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.min_length(length, eos)
   return function(ids, scores)
      return ids:size(2) < length and filled(scores, eos, lowest) or scores
   end
end

--- Forces the next token to be one of `tokens` if the text has exactly `length` tokens.
---@param length integer
---@param tokens integer[]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.forced(length, tokens)
   return function(ids, scores)
      if ids:size(2) ~= length then return scores end
      return filled(torch.full_like(scores, lowest), tokens, 0)
   end
end

--- Forbids some tokens as the first new token. A token is the first new token if the text before it
--- has `length` tokens.
---@param tokens integer[]
---@param length integer
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.begin_suppress_tokens(tokens, length)
   return function(ids, scores)
      return ids:size(2) == length and filled(scores, tokens, lowest) or scores
   end
end

--- Replaces NaN by 0, and infinities by the largest and the least finite number.
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.remove_invalid_values()
   return function(_, scores) return scores:nan_to_num() end
end

--- Raises the scores of end-of-sequence tokens once the text is longer than `start`. The increase
--- grows exponentially with the number of tokens beyond `start`.
---@param start integer
---@param factor number
---@param eos integer[]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.exponential_decay_length_penalty(start, factor, eos)
   return function(ids, scores)
      local past = ids:size(2) - start
      if past <= 0 then return scores end
      local at = torch.tensor(eos, {dtype = "int64", device = scores.device})
      local own = scores:index_select(2, at)
      local more = (own:abs() * (factor ^ past - 1)):masked_fill(own:isfinite():logical_not(), 0)
      return scores:index_copy(2, at, own + more)
   end
end

--- Replaces scores by the logarithms of probabilities.
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.renormalize_logits()
   return function(_, scores) return scores:log_softmax(-1) end
end

--- Divides scores by the temperature.
---@param temperature number
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.temperature(temperature)
   return function(_, scores) return scores / temperature end
end

--- Keeps the k tokens with the highest scores, and any tokens that tie with the last of them.
---@param k integer
---@param keep? integer  the minimum number of tokens to keep
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.top_k(k, keep)
   k = math.max(k, keep or 1)
   return function(_, scores)
      local best = scores:topk(math.min(k, scores:size(2)), 2)
      return scores:masked_fill(scores:lt(best:narrow(2, -1, 1)), lowest)
   end
end

--- Keeps the most probable tokens, as many as are needed for the sum of their probabilities to
--- reach p.
---@param p number
---@param keep? integer  the minimum number of tokens to keep
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.top_p(p, keep)
   return function(_, scores)
      local sorted, order = scores:sort(2, false)
      local gone = sorted:softmax(-1):cumsum(2):le(1 - p)
      local last = math.min(keep or 1, scores:size(2))
      gone:narrow(2, scores:size(2) - last + 1, last):fill_(false)
      return scores:masked_fill(torch.zeros_like(gone):scatter(2, order, gone), lowest)
   end
end

-- Returns the scores with `lowest` at the tokens that are marked in `gone`. The `keep` best tokens
-- are not changed.
local function without(scores, gone, keep)
   if keep then
      local best = scores:topk(math.min(keep, scores:size(2)), 2)
      gone = gone & scores:lt(best:narrow(2, -1, 1))
   end
   return scores:masked_fill(gone, lowest)
end

--- Keeps tokens that are at least p times as probable as the most probable token.
---@param p number
---@param keep? integer  the minimum number of tokens to keep
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.min_p(p, keep)
   return function(_, scores)
      local probabilities = scores:softmax(-1)
      return without(scores, probabilities:lt(probabilities:amax(-1, true) * p), keep)
   end
end

--- Keeps tokens whose probability is at least `epsilon`.
---@param epsilon number
---@param keep? integer  the minimum number of tokens to keep, 1 by default
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.epsilon_cutoff(epsilon, keep)
   return function(_, scores)
      return without(scores, scores:softmax(-1):lt(epsilon), keep or 1)
   end
end

-- Returns the entropies (B, 1) of the distributions softmax(scores).
local function entropy_of(scores)
   local logs = scores:log_softmax(-1)
   return -(logs:exp() * logs:clamp {min = torch.finfo(logs.dtype).min}):sum(-1, true)
end

--- Keeps tokens whose probability is at least min(epsilon, sqrt(epsilon) * exp(-entropy)).
---@param epsilon number
---@param keep? integer  the minimum number of tokens to keep, 1 by default
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.eta_cutoff(epsilon, keep)
   return function(_, scores)
      local eta = (epsilon ^ 0.5 * (-entropy_of(scores)):exp()):clamp {max = epsilon}
      return without(scores, scores:softmax(-1):lt(eta), keep or 1)
   end
end

--- Keeps the most probable tokens, as many as have a sum of -p log p of at most h times the
--- entropy. p and the entropy are computed over the 100 most probable tokens. At least one token is
--- kept.
---@param h number
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.top_h(h)
   return function(_, scores)
      local best, at = scores:topk(math.min(100, scores:size(2)), 2)
      local p = best:softmax(-1)
      local kept = (-p * p:log()):cumsum(-1):le(entropy_of(best) * h)
      kept:narrow(2, 1, 1):fill_(true)
      local gone = torch.ones_like(scores, {dtype = "bool"}):scatter(2, at, kept:logical_not())
      return scores:masked_fill(gone, lowest)
   end
end

--- Keeps the tokens whose information content, -log p, is nearest to the entropy, as many as are
--- needed for the sum of their probabilities to reach p.
---@param p number
---@param keep? integer  the minimum number of tokens to keep
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.typical_p(p, keep)
   return function(_, scores)
      local logs = scores:log_softmax(-1)
      local entropy = -(logs:exp() * logs):nansum(-1, true)
      local distance, order = (-logs - entropy):abs():sort(2, false)
      local total = scores:gather(2, order):softmax(-1):cumsum(-1)
      local last = (total:lt(p):long():sum(2) + 1):clamp(1, scores:size(2))
      local gone = distance:gt(distance:gather(2, last:view(-1, 1)))
      gone:narrow(2, 1, math.min(keep or 1, scores:size(2))):fill_(false)
      return scores:masked_fill(torch.zeros_like(gone):scatter(2, order, gone), lowest)
   end
end

--- Returns the processors that the options of generation select, in Hugging Face's order.
---@param o table  the options
---@param prompt integer  the number of tokens of the prompt
---@return fun(ids: Tensor, scores: Tensor)[]
function M.list(o, prompt)
   local list = {}
   local function add(name, is_on, ...)
      if is_on then list[#list + 1] = M[name](...) end
   end
   local eos = o.eos
   add("sequence_bias", o.sequence_bias, o.sequence_bias)
   add("encoder_repetition_penalty", o.encoder_repetition_penalty ~= 1,
      o.encoder_repetition_penalty, o.source)
   add("repetition_penalty", o.repetition_penalty ~= 1, o.repetition_penalty, o.padding)
   add("no_repeat_ngram_size", o.no_repeat_ngram_size > 0, o.no_repeat_ngram_size)
   add("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size > 0,
      o.encoder_no_repeat_ngram_size, o.source)
   add("bad_words_ids", o.bad_words_ids, o.bad_words_ids)
   add("min_length", #eos > 0 and o.min_length > 0, o.min_length, eos)
   add("min_length", #eos > 0 and o.min_new_tokens > 0, prompt + o.min_new_tokens, eos)
   add("forced", o.forced_bos_token_id, 1, o.forced_bos_token_id)
   add("forced", o.forced_eos_token_id, o.most - 1, o.forced_eos_token_id)
   add("remove_invalid_values", o.remove_invalid_values)
   local decay = o.exponential_decay_length_penalty
   add("exponential_decay_length_penalty", decay, decay and decay[1] + prompt, decay and decay[2],
      eos)
   add("suppress_tokens", o.suppress_tokens, o.suppress_tokens)
   local first = prompt == 1 and o.forced_bos_token_id and 2 or prompt
   add("begin_suppress_tokens", o.begin_suppress_tokens, o.begin_suppress_tokens, first)
   for i, own in ipairs(o.logits_processor or {}) do
      list[#list + 1] = function(ids, scores)
         local new = own(ids, scores)
         if not torch.is_tensor(new) or not new:is_same_size(scores) then
            args.refuse("generate", ("logits_processor, function %d"):format(i),
               ("scores of shape (%s)"):format(table.concat(scores.shape, ", ")), new)
         end
         return new
      end
   end
   if o.do_sample then
      -- `keep` is the number of best tokens that the filters never forbid. Beam search needs at
      -- least one token that does not end the text, in addition to the end-of-sequence tokens.
      local keep = o.num_beams > 1 and math.max(2, #eos + 1) or nil
      add("temperature", o.temperature ~= 1, o.temperature)
      add("top_h", o.top_h, o.top_h)
      add("top_k", o.top_k > 0, o.top_k, keep)
      add("top_p", o.top_p < 1, o.top_p, keep)
      add("min_p", o.min_p > 0, o.min_p, keep)
      add("typical_p", o.typical_p < 1, o.typical_p, keep)
      add("epsilon_cutoff", o.epsilon_cutoff > 0, o.epsilon_cutoff, keep)
      add("eta_cutoff", o.eta_cutoff > 0, o.eta_cutoff, keep)
   end
   add("renormalize_logits", o.renormalize_logits)
   return list
end

return M
