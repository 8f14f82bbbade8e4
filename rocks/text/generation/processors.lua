-- processors.lua - functions of (ids, scores) that change the scores of the next token, with
-- Hugging Face's names and results. ids (B, S) has all tokens so far, and scores is (B, V). Each
-- `M.<option>(value)` returns such a function.

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
      if padding then -- padding refers to an additional column of scores
         local places = torch.arange(1, ids:size(2) + 1, {dtype = "int64", device = ids.device})
         ids = ids:masked_fill(places:unsqueeze(1):le(padding:unsqueeze(2)), vocab + 1)
         scores = torch.nn.functional.pad(scores, {0, 1})
      end
      local own = scores:gather(2, ids)
      own = torch.where(own:lt(0), own * penalty, own / penalty)
      return scores:scatter(2, ids, own):narrow(2, 1, vocab)
   end
end

--- Forbids tokens that would complete a sequence of n tokens which already occurs in ids.
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

--- Forbids sequences of tokens.
---@param words integer[][]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.bad_words_ids(words)
   return function(ids, scores)
      local rows, length, copy = ids:tolist(), ids:size(2), scores:clone()
      for b, row in ipairs(rows) do
         for _, word in ipairs(words) do
            local fits = #word - 1 <= length
            for i = 1, fits and #word - 1 or 0 do
               fits = fits and row[length - #word + 1 + i] == word[i]
            end
            if fits then copy[{b, word[#word]}] = lowest end
         end
      end
      return copy
   end
end

local function filled(scores, tokens, value)
   local copy = scores:clone()
   copy:index_fill_(2, torch.tensor(tokens, {dtype = "int64", device = scores.device}), value)
   return copy
end

--- Forbids tokens.
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

--- Forces the next token to be one of `tokens` when the text has `length` tokens.
---@param length integer
---@param tokens integer[]
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.forced(length, tokens)
   return function(ids, scores)
      if ids:size(2) ~= length then return scores end
      return filled(torch.full_like(scores, lowest), tokens, 0)
   end
end

--- Divides scores by the temperature.
---@param temperature number
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.temperature(temperature)
   return function(_, scores) return scores / temperature end
end

--- Keeps the k tokens with the highest scores, and all tokens with the same score as the last of
--- these.
---@param k integer
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.top_k(k)
   return function(_, scores)
      local best = scores:topk(math.min(k, scores:size(2)), 2)
      return scores:masked_fill(scores:lt(best:narrow(2, -1, 1)), lowest)
   end
end

--- Keeps the most probable tokens, until their probabilities together reach p.
---@param p number
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.top_p(p)
   return function(_, scores)
      local sorted, order = scores:sort(2, false)
      local gone = sorted:softmax(-1):cumsum(2):le(1 - p)
      gone:narrow(2, -1, 1):fill_(false)
      return scores:masked_fill(torch.zeros_like(gone):scatter(2, order, gone), lowest)
   end
end

--- Keeps tokens that are at least p times as probable as the most probable token.
---@param p number
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.min_p(p)
   return function(_, scores)
      local probabilities = scores:softmax(-1)
      return scores:masked_fill(probabilities:lt(probabilities:amax(-1, true) * p), lowest)
   end
end

--- Keeps the tokens whose information content is nearest to the entropy, until their probabilities
--- together reach p.
---@param p number
---@return fun(ids: Tensor, scores: Tensor): Tensor
function M.typical_p(p)
   return function(_, scores)
      local logs = scores:log_softmax(-1)
      local entropy = -(logs:exp() * logs):nansum(-1, true)
      local distance, order = (-logs - entropy):abs():sort(2, false)
      local total = scores:gather(2, order):softmax(-1):cumsum(-1)
      local last = (total:lt(p):long():sum(2) + 1):clamp(1, scores:size(2))
      local gone = distance:gt(distance:gather(2, last:view(-1, 1)))
      gone:narrow(2, 1, 1):fill_(false)
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
   add("repetition_penalty", o.repetition_penalty ~= 1, o.repetition_penalty, o.padding)
   add("no_repeat_ngram_size", o.no_repeat_ngram_size > 0, o.no_repeat_ngram_size)
   add("bad_words_ids", o.bad_words_ids, o.bad_words_ids)
   add("min_length", #eos > 0 and o.min_length > 0, o.min_length, eos)
   add("min_length", #eos > 0 and o.min_new_tokens > 0, prompt + o.min_new_tokens, eos)
   add("forced", o.forced_bos_token_id, 1, o.forced_bos_token_id)
   add("forced", o.forced_eos_token_id, o.most - 1, o.forced_eos_token_id)
   add("suppress_tokens", o.suppress_tokens, o.suppress_tokens)
   for _, own in ipairs(o.logits_processor or {}) do list[#list + 1] = own end
   if not o.do_sample then return list end
   add("temperature", o.temperature ~= 1, o.temperature)
   add("top_k", o.top_k > 0, o.top_k)
   add("top_p", o.top_p < 1, o.top_p)
   add("min_p", o.min_p > 0, o.min_p)
   add("typical_p", o.typical_p < 1, o.typical_p)
   return list
end

return M
