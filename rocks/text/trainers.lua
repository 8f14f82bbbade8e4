-- trainers.lua - trainers for text.Tokenizer:train_from_iterator, with the names and options of
-- Hugging Face's tokenizers.

local args = require "tlua.args"
local bytes = require "tlua.text.tokenizer.bytes"

local M = {}

-- The metatable of trainers.
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
--- max_token_length: integer}  vocab_size is 30000 by default, min_frequency 0
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

local no_arguments = args.signature "text.trainers.byte_alphabet()"

--- Returns the characters that represent bytes, which are the alphabet of byte-level models.
---@return string[]
function M.byte_alphabet(...)
   no_arguments(...)
   local list = {}
   for byte = 0, 255 do list[byte + 1] = bytes.character[byte] end
   return list
end

return M
