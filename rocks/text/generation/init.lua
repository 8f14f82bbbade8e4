-- init.lua - continues texts with a language model. The method `generate` of models calls the
-- function `generate` of this file.

local torch = require "tlua"
local args = require "tlua.args"
local assisted = require "tlua.text.generation.assisted"
local contrastive = require "tlua.text.generation.contrastive"
local fields = require "tlua.text.generation.fields"
local Steps = require "tlua.text.generation.steps"
local beams = require "tlua.text.generation.beams"
local modes = require "tlua.text.generation.modes"
local processors = require "tlua.text.generation.processors"

local M = {}

local title <const> = "generate"

local function refuse_unless(fits, name, expected, value)
   if not fits then args.refuse(title, name, expected, value) end
end

local function is_token(value) return math.type(value) == "integer" and value >= 1 end

-- Raises an error if one of the lists of forbidden or forced tokens in the options `o` has a number
-- that is not in the vocabulary.
local function check_tokens(model, o)
   local most = model.config.vocab_size or math.maxinteger
   local expected <const> = ("a list of token numbers from 1 to %d"):format(most)
   local function is_list(value)
      return type(value) == "table" and (#value > 0 or next(value) == nil)
   end
   local function fits(list, least)
      if not is_list(list) or #list < least then return false end
      for _, token in ipairs(list) do
         if not is_token(token) or token > most then return false end
      end
      return true
   end
   for _, name in ipairs {"suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id",
         "forced_eos_token_id"} do
      if math.type(o[name]) == "integer" then o[name] = {o[name]} end
      refuse_unless(o[name] == nil or fits(o[name], 0), name, expected, o[name])
   end
   local suppressed = {}
   for _, token in ipairs(o.suppress_tokens or {}) do suppressed[token] = true end
   for _, name in ipairs {"forced_bos_token_id", "forced_eos_token_id"} do
      local all = o[name] and #o[name] > 0
      for _, token in ipairs(o[name] or {}) do all = all and suppressed[token] end
      refuse_unless(not all, name, "a token that is not in suppress_tokens",
         o[name] and o[name][1])
   end
   local words = o.bad_words_ids
   refuse_unless(words == nil or is_list(words), "bad_words_ids",
      "a list of lists of tokens", words)
   for _, word in ipairs(words or {}) do
      refuse_unless(fits(word, 1), "bad_words_ids", expected, word)
   end
   local biases = o.sequence_bias
   refuse_unless(biases == nil or is_list(biases), "sequence_bias",
      "a list of pairs of tokens and a number", biases)
   for _, pair in ipairs(biases or {}) do
      local is_pair = type(pair) == "table" and fits(pair[1], 1) and type(pair[2]) == "number"
         and pair[2] == pair[2]
      refuse_unless(is_pair, "sequence_bias", "pairs of " .. expected .. " and a number", pair)
   end
end

-- Returns bad_words_ids without the entries that consist of one end-of-sequence token, since
-- forbidding it would keep texts from ending.
local function without_eos(o)
   local words = {}
   for _, word in ipairs(o.bad_words_ids) do
      local is_eos = false
      for _, token in ipairs(o.eos) do is_eos = is_eos or #word == 1 and word[1] == token end
      if not is_eos then words[#words + 1] = word end
   end
   return words
end

local function is_between(value, low, high)
   return type(value) == "number" and value > low and value <= high
end

-- Checks the less common options that change the scores of tokens.
local function check_scores(o)
   refuse_unless(o.encoder_repetition_penalty > 0, "encoder_repetition_penalty",
      "a positive number", o.encoder_repetition_penalty)
   refuse_unless(o.top_h == nil or is_between(o.top_h, 0, 1), "top_h",
      "a number above 0, up to 1", o.top_h)
   for _, name in ipairs {"epsilon_cutoff", "eta_cutoff"} do
      refuse_unless(o[name] >= 0 and o[name] < 1, name, "a number from 0 to below 1", o[name])
   end
   local decay = o.exponential_decay_length_penalty
   if decay == nil then return end
   refuse_unless(type(decay) == "table" and math.type(decay[1]) == "integer"
      and type(decay[2]) == "number", "exponential_decay_length_penalty",
      "a list of an integer and a number", decay)
   refuse_unless(#o.eos > 0, "exponential_decay_length_penalty", "none without eos_token_id",
      decay)
end

-- Checks the options that have no default, whose types are therefore not known to fields.check.
local function check_objects(o)
   local longest = o.max_length
   refuse_unless(longest == nil or math.type(longest) and math.tointeger(longest), "max_length",
      "an integer", longest)
   o.max_length = longest and math.tointeger(longest)
   local list = o.logits_processor
   refuse_unless(list == nil or type(list) == "table" and (list[1] or not getmetatable(list)),
      "logits_processor", "a list of functions", list)
   for i, process in ipairs(list or {}) do
      refuse_unless(args.is_callable(process), ("logits_processor[%d]"):format(i), "a function",
         process)
   end
   local strings, tokenizer = o.stop_strings, o.tokenizer
   refuse_unless(strings == nil or type(strings) == "string" or type(strings) == "table",
      "stop_strings", "a string or a list of strings", strings)
   refuse_unless(tokenizer == nil or type(tokenizer) == "table" and tokenizer.decode, "tokenizer",
      "a tokenizer", tokenizer)
   refuse_unless(strings == nil or tokenizer, "tokenizer",
      "a tokenizer, which stop_strings needs", tokenizer)
   refuse_unless(o.length_penalty == o.length_penalty and math.abs(o.length_penalty) < math.huge,
      "length_penalty", "a finite number", o.length_penalty)
end

local function check(model, o)
   check_tokens(model, o)
   check_scores(o)
   check_objects(o)
   refuse_unless(o.temperature > 0, "temperature", "a positive number", o.temperature)
   refuse_unless(o.top_p > 0 and o.top_p <= 1, "top_p", "a number above 0, up to 1", o.top_p)
   refuse_unless(o.min_p >= 0 and o.min_p <= 1, "min_p", "a number from 0 to 1", o.min_p)
   refuse_unless(o.typical_p > 0 and o.typical_p <= 1, "typical_p", "a number above 0, up to 1",
      o.typical_p)
   refuse_unless(o.repetition_penalty > 0, "repetition_penalty", "a positive number",
      o.repetition_penalty)
   refuse_unless(o.num_beams >= 1, "num_beams", "an integer of at least 1", o.num_beams)
   refuse_unless(o.num_return_sequences >= 1, "num_return_sequences", "an integer of at least 1",
      o.num_return_sequences)
   local early = o.early_stopping
   refuse_unless(early == nil or type(early) == "boolean" or early == "never", "early_stopping",
      'true, false or "never"', early)
   refuse_unless(o.cache == "dynamic" or o.cache == "static" or o.cache == "quantized", "cache",
      '"dynamic", "static" or "quantized"', o.cache)
   if o.num_return_sequences > o.num_beams and not o.do_sample then
      torch.raise(("generate: num_return_sequences: expected at most num_beams = %d, got %d")
         :format(o.num_beams, o.num_return_sequences))
   end
   for _, token in ipairs(o.eos) do
      refuse_unless(is_token(token), "eos_token_id", "token numbers from 1", token)
   end
   refuse_unless(o.pad_token_id == nil or is_token(o.pad_token_id), "pad_token_id",
      "a token number from 1", o.pad_token_id)
   refuse_unless(o.streamer == nil or args.is_callable(o.streamer), "streamer", "a function",
      o.streamer)
   refuse_unless(o.streamer == nil or o.num_beams == 1, "streamer", "none with num_beams above 1",
      o.streamer)
   if model.inputs == "seq2seq" and not o.decoder_input_ids then
      refuse_unless(is_token(o.decoder_start_token_id), "decoder_start_token_id",
         "a token number from 1", o.decoder_start_token_id)
   end
end

-- Returns whether the options select contrastive search. As in Hugging Face's library, a
-- penalty_alpha in generation_config.json is ignored for sampling and beam search.
local function is_contrastive(o, given)
   local alpha = o.penalty_alpha
   refuse_unless(alpha >= 0 and alpha <= 1, "penalty_alpha", "a number from 0 to 1", alpha)
   if alpha == 0 then return false end
   if o.do_sample or o.num_beams > 1 then
      refuse_unless(not given.penalty_alpha, "penalty_alpha",
         "none with do_sample or num_beams above 1", alpha)
      return false
   end
   refuse_unless(o.top_k > 1, "top_k", "at least 2 with penalty_alpha", o.top_k)
   refuse_unless(o.use_cache, "use_cache", "true with penalty_alpha", o.use_cache)
   return true
end

local function is_count(value) return math.type(value) == "integer" and value >= 1 end

local function check_assistant(model, o)
   local other = o.assistant_model
   if torch.type(other) == "text.PeftModel" then other = other.base_model.model end
   refuse_unless(type(other) == "table" and other.can_generate, "assistant_model",
      "a model that can generate", other)
   o.assistant_model = other
   for _, name in ipairs {"num_assistant_tokens", "num_assistant_tokens_schedule",
         "assistant_confidence_threshold"} do
      if o[name] == nil then o[name] = (other.generation_config or {})[name] end
   end
   o.num_assistant_tokens = o.num_assistant_tokens or 20
   o.num_assistant_tokens_schedule = o.num_assistant_tokens_schedule or "constant"
   o.assistant_confidence_threshold = o.assistant_confidence_threshold or 0.4
   local schedule, threshold = o.num_assistant_tokens_schedule, o.assistant_confidence_threshold
   refuse_unless(is_count(o.num_assistant_tokens), "num_assistant_tokens",
      "an integer of at least 1", o.num_assistant_tokens)
   refuse_unless(schedule == "constant" or schedule == "heuristic"
      or schedule == "heuristic_transient", "num_assistant_tokens_schedule",
      '"constant", "heuristic" or "heuristic_transient"', schedule)
   refuse_unless(type(threshold) == "number" and threshold >= 0 and threshold <= 1,
      "assistant_confidence_threshold", "a number from 0 to 1", threshold)
   local own, wanted = other.config.vocab_size, model.config.vocab_size
   refuse_unless(other.inputs == model.inputs and own == wanted, "assistant_model",
      ("a model of the same kind with vocab_size = %s"):format(wanted),
      ("%s with vocab_size = %s"):format(torch.type(other), own))
end

-- Checks the options of assisted generation, and returns whether the call uses assisted generation.
local function check_assistance(model, input_ids, o)
   local count = o.prompt_lookup_num_tokens
   if not o.assistant_model and not count then return false end
   local name = o.assistant_model and "assistant_model" or "prompt_lookup_num_tokens"
   refuse_unless(not (o.assistant_model and count), "prompt_lookup_num_tokens",
      "none with assistant_model", count)
   if o.assistant_model then
      check_assistant(model, o)
   else
      refuse_unless(is_count(count), name, "an integer of at least 1", count)
      refuse_unless(o.max_matching_ngram_size >= 1, "max_matching_ngram_size",
         "an integer of at least 1", o.max_matching_ngram_size)
   end
   for option, value in pairs {num_beams = 1, num_return_sequences = 1, use_cache = true} do
      refuse_unless(o[option] == value, option, ("%s with %s"):format(value, name), o[option])
   end
   refuse_unless(not o.is_contrastive, "penalty_alpha", "none with " .. name, o.penalty_alpha)
   refuse_unless(input_ids:size(1) == 1, "input_ids", "one text with " .. name, input_ids)
   return true
end

-- Checks the decoder's first tokens and returns them. As in Hugging Face's library, the start token
-- is inserted before them if no row begins with it already.
local function decoder_prompt(model, input_ids, given, start)
   refuse_unless(model.inputs == "seq2seq", "decoder_input_ids",
      "none with a model without an encoder", given)
   local batch = input_ids:size(1)
   refuse_unless(torch.is_tensor(given) and given:dim() == 2 and given:size(1) == batch
      and given:size(2) > 0 and not given:is_floating_point(), "decoder_input_ids",
      ("token numbers of shape (%d, length)"):format(batch), given)
   if not is_token(start) or given:select(2, 1):eq(start):any():item() then return given end
   return torch.cat({torch.full_like(given:narrow(2, 1, 1), start), given}, 2)
end

-- Returns a function that takes a sequence (S) and returns whether its generated part contains a
-- stop string.
local function stop_finder(o, prompt_of)
   local strings = type(o.stop_strings) == "string" and {o.stop_strings} or o.stop_strings
   if not strings then return nil end
   local longest = 0
   for _, text in ipairs(strings) do
      refuse_unless(type(text) == "string" and text ~= "", "stop_strings", "strings", text)
      longest = math.max(longest, #text)
   end
   return function(sequence)
      local from = math.max(prompt_of() + 1, #sequence - longest - 8)
      if from > #sequence then return false end
      -- The token before the generated part is decoded too, because decoders drop a space at the
      -- beginning of a text. Its text is then removed.
      local before = from > 1 and o.tokenizer:decode {sequence[from - 1]:item()} or ""
      local first = math.max(from - 1, 1)
      local text = o.tokenizer:decode(sequence:narrow(1, first, #sequence - first + 1):tolist())
      local at = text:sub(1, #before) == before and #before + 1 or 1
      for _, stop in ipairs(strings) do
         if text:find(stop, at, true) then return true end
      end
      return false
   end
end

-- Returns a function of the tokens so far, ids (B, S). It returns the tokens (B) that follow: the
-- most probable tokens, or sampled ones.
local function chooser(steps, o, list)
   return function(ids)
      local scores = steps:scores(ids)
      for _, process in ipairs(list) do scores = process(ids, scores) end
      local new = steps:best(scores)
      if o.do_sample then
         new = torch.multinomial(scores:softmax(-1), 1, false, {generator = o.generator})
            :squeeze(2)
      end
      return new, scores
   end
end

-- Appends one token at a time to each sequence, until all have ended.
local function continue(model, ids, o, processors_of)
   local steps = Steps(model, ids, o, o.num_return_sequences)
   local prompt, batch = steps.prompt, steps.batch
   o.prompt, o.most = prompt, prompt + o.max_new_tokens
   local list = processors_of(prompt)
   local all = torch.full({batch, o.most}, o.pad_token_id or o.eos[1] or 1,
      {dtype = "int64", device = ids.device})
   all:narrow(2, 1, prompt):copy_(steps.ids)
   local open, length, kept = nil, prompt, {}
   local stops_early = #o.eos > 0 or o.stops
   if stops_early then open = torch.ones(batch, {dtype = "bool", device = ids.device}) end
   local choose = o.is_contrastive and contrastive.chooser(steps, o, list)
      or chooser(steps, o, list)
   while length < o.most do
      local new, scores = choose(all:narrow(2, 1, length))
      if open then new = torch.where(open, new, o.pad_token_id or o.eos[1] or 1) end
      if o.return_scores then kept[#kept + 1] = scores end
      length = length + 1
      all:select(2, length):copy_(new)
      local is_stopped = o.streamer and o.streamer(new) == true
      if open then
         for _, token in ipairs(o.eos) do open = open & new:ne(token) end
         if o.stops then
            for i = 1, batch do
               local sequence = all[i]:narrow(1, 1, length)
               if open[i]:item() and o.stops(sequence) then open[i] = false end
            end
         end
         if not open:any():item() then break end
      end
      if is_stopped then break end
   end
   return all:narrow(2, 1, length):contiguous(), kept
end

--- Continues texts with a model. Token numbers count from 1. Padding must be on the left of
--- input_ids, where attention_mask is 0. For a model with an encoder and a decoder, the result has
--- the decoder's tokens. Missing options have the values in generation_config.json and config.json.
--- An unsupported field of generation_config.json that would change the result raises an error.
---
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config):eval()
---     local options = {max_new_tokens = 4, eos_token_id = {}}
---     local ids = model:generate(torch.tensor {{1, 2, 3}}, options)
---     print(table.unpack(ids.shape))
---     --> 1	7
---@param model text.PreTrainedModel
---@param input_ids Tensor  (B, S)
---@param options? {max_new_tokens: integer, max_length: integer, min_new_tokens: integer,
--- min_length: integer, do_sample: boolean, num_beams: integer, num_return_sequences: integer,
--- temperature: number, top_k: integer, top_p: number, min_p: number, typical_p: number, top_h:
--- number, epsilon_cutoff: number, eta_cutoff: number, repetition_penalty: number,
--- encoder_repetition_penalty: number, no_repeat_ngram_size: integer, encoder_no_repeat_ngram_size:
--- integer, bad_words_ids: integer[][], sequence_bias: any[], suppress_tokens: integer[],
--- begin_suppress_tokens: integer[], remove_invalid_values: boolean, renormalize_logits: boolean,
--- exponential_decay_length_penalty: number[], length_penalty: number, early_stopping:
--- boolean|string, eos_token_id: integer|integer[], pad_token_id: integer, attention_mask: Tensor,
--- streamer: function, stop_strings: string|string[], tokenizer: text.Tokenizer, logits_processor:
--- function[], generator: any, use_cache: boolean, cache: string, decoder_input_ids: Tensor,
--- decoder_start_token_id: integer, forced_bos_token_id: integer, forced_eos_token_id: integer,
--- return_scores: boolean, penalty_alpha: number, assistant_model: text.PreTrainedModel,
--- num_assistant_tokens: integer, num_assistant_tokens_schedule: string,
--- assistant_confidence_threshold: number, prompt_lookup_num_tokens: integer,
--- max_matching_ngram_size: integer}  cache: "dynamic", "static", or "quantized" with keys and
--- values in 8 bits; sequence_bias: pairs {tokens, bias}; exponential_decay_length_penalty: {start,
--- factor}; streamer(tokens) is called for each new token (B), and ends the generation by returning
--- true; logits_processor: functions of (ids, scores) that return scores; penalty_alpha: the weight
--- of contrastive search's penalty; assistant_model: a smaller model with the same tokens, which
--- proposes up to num_assistant_tokens tokens at once; prompt_lookup_num_tokens: the number of
--- tokens that are copied as a proposal from an earlier occurrence of the last
--- max_matching_ngram_size or fewer tokens. Proposals change only the speed: greedy tokens and the
--- distribution of samples stay the model's
---@return Tensor ids  (B * num_return_sequences, S + new tokens)
---@return any scores  with return_scores, the processed scores of each step, or the scores of the
--- beams
function M.generate(model, input_ids, options)
   if not (type(model) == "table" and (model.can_generate)) then
      torch.raise(("generate: %s cannot generate; expected a model such as GPT2LMHeadModel"):format(
         torch.type(model)))
   end
   options = options or {}
   if type(options) ~= "table" then args.refuse(title, "options", "a table", options) end
   fields.check(title, options)
   local o = fields.check(title, fields.with_defaults(title, model, options))
   if not torch.is_tensor(input_ids) or input_ids:dim() ~= 2 or input_ids:size(2) == 0
         or input_ids:is_floating_point() then
      args.refuse(title, "input_ids", "token numbers of shape (batch, length)", input_ids)
   end
   local eos = o.eos_token_id
   o.eos = type(eos) == "table" and eos or {eos}
   o.given_pad = options.pad_token_id ~= nil or o.pad_token_id ~= nil
   check(model, o)
   if o.bad_words_ids then o.bad_words_ids = without_eos(o) end
   o.source = input_ids
   o.is_contrastive = is_contrastive(o, options)
   local is_assisted = check_assistance(model, input_ids, o)
   if o.decoder_input_ids then
      o.decoder_input_ids = decoder_prompt(model, input_ids, o.decoder_input_ids,
         o.decoder_start_token_id)
   end
   if o.max_length and not options.max_new_tokens then
      local prompt = model.inputs ~= "seq2seq" and input_ids:size(2)
         or o.decoder_input_ids and o.decoder_input_ids:size(2) or 1
      o.max_new_tokens = o.max_length - prompt
      refuse_unless(o.max_new_tokens > 0, "max_length",
         ("more than the %d tokens of the prompt"):format(prompt), o.max_length)
   end
   if o.max_new_tokens == 0 and model.inputs ~= "seq2seq" then return input_ids end
   o.stops = stop_finder(o, function() return o.prompt end)
   local function processors_of(prompt) return processors.list(o, prompt) end
   local _ <close> = torch.no_grad()
   local search = o.num_beams > 1 and beams.search or is_assisted and assisted.search or continue
   local ids, scores = modes.evaluating(model, search, model, input_ids, o, processors_of)
   if o.return_scores then return ids, scores end
   return ids
end

return M
