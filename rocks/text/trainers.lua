-- trainers.lua - trainers for text.Tokenizer:train_from_iterator, with the names and options of
-- Hugging Face's tokenizers.

local args = require "tlua.args"
local bytes = require "tlua.text.tokenizer.bytes"

local M = {}

-- The metatable of all trainers.
M._Trainer = {__name = "text.trainers.Trainer"}

local defaults <const> = {vocab_size = 30000, min_frequency = 0}

local function count(name, options, key, least)
   local value = options[key]
   if value == nil then return defaults[key] end
   if math.type(value) ~= "integer" or value < least then
      args.refuse(name, key, ("an integer of at least %d"):format(least), value)
   end
   return value
end

local function check_texts(name, key, list, takes_tables)
   if list == nil then return {} end
   if type(list) ~= "table" or getmetatable(list) then
      args.refuse(name, key, "a list of texts", list)
   end
   for i, text in ipairs(list) do
      local content = takes_tables and type(text) == "table" and text.content or text
      if type(content) ~= "string" or content == "" or not utf8.len(content) then
         args.refuse(name, ("%s[%d]"):format(key, i), "a text in UTF-8", text)
      end
   end
   return list
end

local function text_or_nil(name, options, key)
   local value = options[key]
   if value ~= nil and (type(value) ~= "string" or not utf8.len(value)) then
      args.refuse(name, key, "a text", value)
   end
   return value ~= "" and value or nil
end

local function make(model, options, ...)
   local name = ("text.trainers.%sTrainer"):format(model == "BPE" and "Bpe" or model)
   args.check_options(name, options, "vocab_size", "min_frequency", "special_tokens",
      "show_progress", ...)
   options = options or {}
   return setmetatable({
      model = model,
      vocab_size = count(name, options, "vocab_size", 0),
      min_frequency = count(name, options, "min_frequency", 0),
      special_tokens = check_texts(name, "special_tokens", options.special_tokens, true),
      initial_alphabet = check_texts(name, "initial_alphabet", options.initial_alphabet),
      limit_alphabet = count(name, options, "limit_alphabet", 0),
      max_token_length = count(name, options, "max_token_length", 1),
      continuing_subword_prefix = text_or_nil(name, options, "continuing_subword_prefix"),
      end_of_word_suffix = text_or_nil(name, options, "end_of_word_suffix"),
   }, M._Trainer)
end

--- Returns a trainer for a BPE model.
---@param options? {vocab_size: integer, min_frequency: integer, special_tokens:
--- (string|table)[], show_progress: boolean, limit_alphabet: integer,
--- initial_alphabet: string[], continuing_subword_prefix: string, end_of_word_suffix: string,
--- max_token_length: integer}  vocab_size: the largest number of tokens, 30000 by default;
--- min_frequency: the least number of occurrences of a pair that is merged, 0 by default;
--- show_progress: has no effect
---@return table
function M.BpeTrainer(options)
   return make("BPE", options, "limit_alphabet", "initial_alphabet", "continuing_subword_prefix",
      "end_of_word_suffix", "max_token_length")
end

--- Returns a trainer for a WordPiece model.
---@param options? {vocab_size: integer, min_frequency: integer, special_tokens:
--- (string|table)[], show_progress: boolean, limit_alphabet: integer,
--- initial_alphabet: string[], continuing_subword_prefix: string, end_of_word_suffix: string}
--- continuing_subword_prefix is "##" by default, the others are as for BpeTrainer
---@return table
function M.WordPieceTrainer(options)
   local trainer = make("WordPiece", options, "limit_alphabet", "initial_alphabet",
      "continuing_subword_prefix", "end_of_word_suffix")
   if not (options and options.continuing_subword_prefix) then
      trainer.continuing_subword_prefix = "##"
   end
   return trainer
end

--- Returns a trainer for a WordLevel model, whose tokens are the most frequent words.
---@param options? {vocab_size: integer, min_frequency: integer, special_tokens:
--- (string|table)[], show_progress: boolean}  as for BpeTrainer
---@return table
function M.WordLevelTrainer(options) return make("WordLevel", options) end

--- Returns a trainer for a Unigram model.
---@param options? {vocab_size: integer, special_tokens: (string|table)[], show_progress: boolean,
--- initial_alphabet: string[], unk_token: string, shrinking_factor: number, max_piece_length:
--- integer, n_sub_iterations: integer, seed_size: integer}  vocab_size is 8000 by default;
--- unk_token: the token for unknown characters, none by default; shrinking_factor: the fraction of
--- the pieces that each round keeps, 0.75 by default; max_piece_length: in characters, 16 by
--- default; n_sub_iterations: the number of fitting steps in each round, 2 by default; seed_size:
--- the largest number of initial pieces, 1000000 by default
---@return table
function M.UnigramTrainer(options)
   local name = "text.trainers.UnigramTrainer"
   args.check_options(name, options, "vocab_size", "special_tokens", "show_progress",
      "initial_alphabet", "unk_token", "shrinking_factor", "max_piece_length", "n_sub_iterations",
      "seed_size")
   options = options or {}
   local trainer = make("Unigram", {vocab_size = options.vocab_size or 8000,
      special_tokens = options.special_tokens, initial_alphabet = options.initial_alphabet},
      "initial_alphabet")
   local factor = options.shrinking_factor or 0.75
   if type(factor) ~= "number" or not (factor > 0 and factor < 1) then
      args.refuse(name, "shrinking_factor", "a number between 0 and 1", factor)
   end
   trainer.shrinking_factor = factor
   trainer.unk_token = text_or_nil(name, options, "unk_token")
   trainer.max_piece_length = count(name, options, "max_piece_length", 1) or 16
   trainer.n_sub_iterations = count(name, options, "n_sub_iterations", 1) or 2
   trainer.seed_size = count(name, options, "seed_size", 1) or 1000000
   return trainer
end

local no_arguments = args.signature "text.trainers.byte_alphabet()"

--- Returns the characters that represent the 256 bytes. They are the alphabet of byte-level models,
--- for the option initial_alphabet.
---@return string[]
function M.byte_alphabet(...)
   no_arguments(...)
   local list = {}
   for byte = 0, 255 do list[byte + 1] = bytes.character[byte] end
   return list
end

return M
