-- fields.lua - the options of generate, and the fields of generation_config.json.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"

local M = {}

local defaults <const> = {
   max_new_tokens = 20, min_new_tokens = 0, min_length = 0, do_sample = false, num_beams = 1,
   num_return_sequences = 1, temperature = 1.0, top_k = 50, top_p = 1.0, min_p = 0.0,
   typical_p = 1.0, epsilon_cutoff = 0.0, eta_cutoff = 0.0, repetition_penalty = 1.0,
   encoder_repetition_penalty = 1.0, no_repeat_ngram_size = 0, encoder_no_repeat_ngram_size = 0,
   length_penalty = 1.0, remove_invalid_values = false, renormalize_logits = false,
   use_cache = true, cache = "dynamic", return_scores = false, penalty_alpha = 0.0,
   max_matching_ngram_size = 2,
}
local kinds <const> = {
   max_new_tokens = "count", min_new_tokens = "count", min_length = "count", num_beams = "count",
   num_return_sequences = "count", top_k = "count", no_repeat_ngram_size = "count",
   encoder_no_repeat_ngram_size = "count", max_matching_ngram_size = "count",
}
local others <const> = {
   max_length = true, early_stopping = true, eos_token_id = true, pad_token_id = true,
   attention_mask = true, streamer = true, stop_strings = true, tokenizer = true,
   logits_processor = true, generator = true, decoder_input_ids = true,
   decoder_start_token_id = true, forced_bos_token_id = true, forced_eos_token_id = true,
   bad_words_ids = true, suppress_tokens = true, begin_suppress_tokens = true, top_h = true,
   sequence_bias = true, exponential_decay_length_penalty = true, assistant_model = true,
   num_assistant_tokens = true, num_assistant_tokens_schedule = true,
   assistant_confidence_threshold = true, prompt_lookup_num_tokens = true,
}

-- Options of `generate` whose defaults may come from generation_config.json.
local remembered <const> = {
   "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "top_h", "epsilon_cutoff",
   "eta_cutoff", "repetition_penalty", "encoder_repetition_penalty", "no_repeat_ngram_size",
   "encoder_no_repeat_ngram_size", "length_penalty", "early_stopping", "num_beams", "min_length",
   "max_new_tokens", "max_length", "min_new_tokens", "num_return_sequences", "stop_strings",
   "remove_invalid_values", "renormalize_logits", "exponential_decay_length_penalty", "use_cache",
   "penalty_alpha", "prompt_lookup_num_tokens", "max_matching_ngram_size",
}

-- Options with token numbers. In generation_config.json and config.json these count from 0, so 1 is
-- added.
local tokens <const> = {
   "pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id",
   "forced_eos_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
   "sequence_bias",
}

-- Fields of generation_config.json that would change the result and are not supported. Each has a
-- list of values that have no effect and are therefore accepted. A field that is not listed here is
-- accepted, because it concerns only speed, memory or the form of the result, or because Hugging
-- Face's library does not know it either.
local refused <const> = {
   forced_decoder_ids = {}, guidance_scale = {1}, watermarking_config = {},
   token_healing = {false}, max_time = {}, dola_layers = {},
   num_beam_groups = {1}, diversity_penalty = {0}, constraints = {}, force_words_ids = {},
   is_assistant = {false},
}

local function is_set(value) return value ~= nil and not rawequal(value, json.null) end

local function refuse_unsupported(title, own)
   for name, neutral in pairs(refused) do
      local value = own[name]
      local fits = not is_set(value) or type(value) == "table" and next(value) == nil
      for _, allowed in ipairs(neutral) do fits = fits or value == allowed end
      if not fits then
         torch.raise(("%s: generation_config: field %s = %s is not supported"):format(title, name,
            type(value) == "table" and json.encode(value) or tostring(value)))
      end
   end
end

local function shifted(value)
   if math.type(value) == "integer" then return value + 1 end
   if type(value) ~= "table" then return value end
   local list = {}
   for i, item in ipairs(value) do list[i] = shifted(item) end
   return list
end

-- Adds 1 to the token numbers in the pairs of sequence_bias, because they count from 0 in files.
-- The biases do not change.
local function shifted_biases(value)
   if type(value) ~= "table" then return value end
   local list = {}
   for i, pair in ipairs(value) do
      list[i] = type(pair) == "table" and {shifted(pair[1]), pair[2]} or pair
   end
   return list
end

--- Fills missing options of a call of `generate` with the defaults of the model's files.
---@param title string
---@param model text.PreTrainedModel
---@param given table<string, any>
---@return table<string, any>
function M.with_defaults(title, model, given)
   local own, config, all = model.generation_config or {}, model.config, {}
   refuse_unsupported(title, own)
   for _, name in ipairs(remembered) do
      local value = own[name]
      if name == "max_length" and given.max_new_tokens then value = nil end
      if name == "max_new_tokens" and given.max_length then value = nil end
      if is_set(value) then all[name] = value end
   end
   for _, name in ipairs(tokens) do
      local value = own[name]
      if value == nil then value = config[name] end
      if is_set(value) then
         all[name] = name == "sequence_bias" and shifted_biases(value) or shifted(value)
      end
   end
   if own.cache_implementation == "quantized" then all.cache = "quantized" end
   for key, value in pairs(given) do all[key] = value end
   return all
end

--- Checks the names and types of the options of `generate`, and fills missing options with general
--- defaults.
---@param title string
---@param options table<string, any>
---@return table<string, any>
function M.check(title, options)
   return args.over_defaults(title, options, defaults, kinds, others)
end

return M
