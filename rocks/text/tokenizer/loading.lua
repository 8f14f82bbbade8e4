-- loading.lua - reads the files of tokenizers. A reader returns a table with the parts of a
-- tokenizer: normalizer, pre_tokenizer, model, processor, decoder, ids, tokens, added_tokens,
-- special, and whether texts may be cut into chunks. It raises an error if the file is invalid.

local bpe = require "tlua.text.tokenizer.bpe"
local charsmap = require "tlua.text.tokenizer.charsmap"
local decoders = require "tlua.text.tokenizer.decoders"
local fields = require "tlua.text.tokenizer.fields"
local json = require "tlua.utils.json"
local models = require "tlua.text.tokenizer.models"
local normalizers = require "tlua.text.tokenizer.normalizers"
local pre_tokenizers = require "tlua.text.tokenizer.pre_tokenizers"
local processors = require "tlua.text.tokenizer.processors"

local M = {}

--- The strategies of truncation.
---@type table<string, boolean>
M.strategies = {longest_first = true, only_first = true, only_second = true}

-- Raises an error about a file as a table {file = why}, so that `protect` can tell it from an error
-- in this package.
local function refuse(why) error({file = why}, 0) end

--- Calls a reader. Returns its result, or nil and a message if the file is invalid.
---@param read function
---@param text string
---@param ... any
---@return table? parts
---@return string? message
function M.protect(read, text, ...)
   local ok, parts = pcall(read, text, ...)
   if ok then return parts end
   if type(parts) == "table" and parts.file then return nil, parts.file end
   error(parts, 0)
end

--- Adds a token to a tokenizer's lists, and returns whether the token is new.
---@param self table
---@param token table
---@return boolean
function M.add_token(self, token)
   local id = self.ids[token.content]
   if not id then
      id = token.id or self.vocab_size + 1
      if self.tokens[id] and self.tokens[id] ~= token.content then
         refuse(("added_tokens: %q has the number of %q, %d"):format(token.content,
            self.tokens[id], id - 1))
      end
   elseif token.id and token.id ~= id then
      refuse(("added_tokens: %q has the number %d, the vocabulary gives it %d"):format(
         token.content, token.id - 1, id - 1))
   end
   token.id = id
   self.ids[token.content], self.tokens[id] = id, token.content
   self.vocab_size = math.max(self.vocab_size, id)
   self.special[token.content] = token.special and true or nil
   for i, other in ipairs(self.added_tokens) do
      if other.content == token.content then
         self.added_tokens[i] = token
         return false
      end
   end
   table.insert(self.added_tokens, token)
   return true
end

-- Returns a copy of a configuration in which json.null is nil.
local function without_null(value)
   if value == json.null then return nil end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, inner in pairs(value) do copy[key] = without_null(inner) end
   return copy
end

local function section(config, name, make)
   local part = without_null(config[name])
   if part == nil then return nil end
   local function fail(why) refuse(("%s: %s"):format(name, why)) end
   fields.check(part, "", fail)
   return make(part, fail)
end

-- Decides whether texts may be cut into chunks (see chunks.lua), and whether each cut is also the
-- end of a word.
local function decide_chunks(self)
   local normalizer, pre = self.normalizer, self.pre_tokenizer
   if normalizer and not normalizer.is_local then return end
   if pre and pre.is_local and pre.splits then
      self.is_local, self.splits = true, true
      return
   end
   -- Otherwise, a word may continue after a cut. Then the chunks give the right tokens only if no
   -- token reaches over a cut. So the model must not look up whole words, and tokens may have
   -- spaces only at their beginning.
   local space = pre and pre.space or not pre and self.space
   if not space or self.model.ignores_merges then return end
   if bpe.begins_with_space(self.model.vocab or self.ids, space) then
      self.is_local, self.splits = true, false
   end
end

-- Returns the text that a normaliser with the configuration `config` puts in place of a space.
-- Returns a space if the normaliser does not replace spaces.
local function space_of(config)
   if not config then return " " end
   local space = " "
   for _, part in ipairs(config.type == "Sequence" and config.normalizers or {config}) do
      local pattern = part.type == "Replace" and part.pattern
      if type(pattern) == "table" and pattern.String == " " then space = part.content end
   end
   return space
end

local function finish(self)
   self.vocab_size = 0
   for id in pairs(self.tokens) do self.vocab_size = math.max(self.vocab_size, id) end
   self.added_tokens, self.special = self.added_tokens or {}, self.special or {}
   local list = self.added_tokens
   self.added_tokens = {}
   for _, token in ipairs(list) do M.add_token(self, token) end
   decide_chunks(self)
   return self
end

local function read_added(config)
   local list, tokens = {}, without_null(config.added_tokens)
   if tokens ~= nil and type(tokens) ~= "table" then
      refuse(("added_tokens: expected a list, got %s"):format(tostring(tokens)))
   end
   fields.check(tokens, "added_tokens.", refuse)
   for i, entry in ipairs(tokens or {}) do
      if type(entry) ~= "table" or type(entry.content) ~= "string"
         or math.type(entry.id) ~= "integer" or entry.id < 0 then
         refuse(("added_tokens[%d]: expected content and id"):format(i))
      end
      list[#list + 1] = {content = entry.content, id = entry.id + 1, special = entry.special,
         single_word = entry.single_word, lstrip = entry.lstrip, rstrip = entry.rstrip,
         normalized = entry.normalized}
   end
   return list
end

local function integer(config, name, default)
   local value = config[name]
   if value == nil then return default end
   if math.type(value) ~= "integer" or value < 0 then
      refuse(("%s: expected an integer of at least 0, got %s"):format(name, tostring(value)))
   end
   return value
end

local snake <const> = {LongestFirst = "longest_first", OnlyFirst = "only_first",
   OnlySecond = "only_second"}

local function read_truncation(config)
   if not config then return nil end
   return {max_length = integer(config, "max_length", 512), stride = integer(config, "stride", 0),
      strategy = snake[config.strategy] or "longest_first",
      direction = config.direction == "Left" and "left" or "right"}
end

local function read_padding(config)
   if not config then return nil end
   local strategy = config.strategy
   return {direction = config.direction == "Left" and "left" or "right",
      pad_id = integer(config, "pad_id", 0) + 1,
      pad_type_id = integer(config, "pad_type_id", 0) + 1,
      pad_token = config.pad_token or "[PAD]",
      length = type(strategy) == "table" and integer(strategy, "Fixed", 0) or 0,
      pad_to_multiple_of = integer(config, "pad_to_multiple_of", 0)}
end

local function read_lengths(truncation, padding)
   for name, part in pairs {truncation = truncation, padding = padding} do
      if type(part) ~= "table" then
         refuse(("%s: expected an object, got %s"):format(name, tostring(part)))
      end
   end
   fields.check_lengths(truncation, padding, function(name, why)
      refuse(("%s: %s"):format(name, why))
   end)
   return read_truncation(truncation), read_padding(padding)
end

-- Makes a byte-level model work on bytes directly, if no other part of the tokenizer needs the
-- characters that represent bytes.
local function use_bytes(self)
   local pre = self.pre_tokenizer
   local last = pre and (pre.last or pre)
   if last and last.is_byte_level and self.model.use_bytes then
      last.keeps_bytes = self.model:use_bytes()
   end
end

local cl100k <const> = [['(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+]]
   .. [[| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s]]

local function read_ranks(text)
   local ids, tokens, n = {}, {}, 0
   for line in text:gmatch "[^\r\n]+" do
      n = n + 1
      local code, number = line:match "^(%S+) (%d+)$"
      local token, id = code and charsmap.from_base64(code), math.tointeger(tonumber(number))
      if not token or not id or id >= 1 << 31 then
         refuse(("line %d: expected a token in base64 and its number, got %q"):format(n, line))
      end
      if tokens[id + 1] or ids[token] then
         refuse(("line %d: the token or the number %d occurs twice"):format(n, id))
      end
      ids[token], tokens[id + 1] = id + 1, token
   end
   for byte = 0, 255 do
      if not ids[string.char(byte)] then
         refuse(("expected a token for each byte, byte %d has none"):format(byte))
      end
   end
   return ids, tokens
end

--- Reads a file of ranks in tiktoken's format.
---@param text string
---@param options {pattern: string, special_tokens: table<string, integer>}
---@return table parts
function M.tiktoken(text, options)
   local self = {added_tokens = {}, pattern = options.pattern or cl100k}
   local ids, tokens = read_ranks(text)
   self.model = bpe.by_rank(ids, {tokens = tokens, of_bytes = true, ignores_merges = true})
   self.ids, self.tokens = {}, tokens
   for token, id in pairs(ids) do self.ids[token] = id end
   self.pre_tokenizer = pre_tokenizers.make({type = "Split", behavior = "Removed", invert = true,
      pattern = {Regex = self.pattern, is_tiktoken = true}}, refuse)
   self.ranks = ids
   self.decoder = function(list) return {decoders.repair(table.concat(list))} end
   for token, id in pairs(options.special_tokens or {}) do
      if type(token) ~= "string" or math.type(id) ~= "integer" or id < 0 then
         refuse(("special_tokens: expected texts and their numbers, got %s"):format(tostring(id)))
      end
      table.insert(self.added_tokens, {content = token, id = id + 1, special = true})
   end
   table.sort(self.added_tokens, function(a, b) return a.id < b.id end)
   return finish(self)
end

--- Reads a model file of SentencePiece.
---@param text string
---@return table parts
function M.sentencepiece(text)
   return M.pieces(require "tlua.text.tokenizer.sentencepiece".read(text, refuse))
end

--- Creates the parts of a tokenizer from the description of a SentencePiece model.
---@param model table  see `make` in sentencepiece.lua
---@return table parts
function M.pieces(model)
   return finish(require "tlua.text.tokenizer.sentencepiece".make(model, refuse))
end

--- Reads a tokenizer.json.
---@param text string
---@return table parts
function M.json(text)
   local config, why = json.decode(text)
   if type(config) ~= "table" then refuse(why or "expected an object") end
   return M.decoded(config, text)
end

--- Creates the parts of a tokenizer from a decoded tokenizer.json.
---@param config table
---@param text? string  the file's text
---@return table parts
function M.decoded(config, text)
   local model = config.model
   if type(model) ~= "table" then refuse "expected a field model, an object" end
   local plain = {}
   for key, value in pairs(model) do
      plain[key] = (key == "vocab" or key == "merges") and value ~= json.null and value
         or without_null(value)
   end
   fields.check(plain, "", function(message) refuse("model: " .. message) end)
   local self = {added_tokens = read_added(config), source = text}
   self.model, self.ids, self.tokens = models.make(plain, function(message)
      refuse("model: " .. message)
   end)
   self.normalizer = section(config, "normalizer", normalizers.make)
   self.pre_tokenizer = section(config, "pre_tokenizer", pre_tokenizers.make)
   self.processor = section(config, "post_processor", processors.make)
   self.decoder = section(config, "decoder", decoders.make)
   self.truncation, self.padding = read_lengths(without_null(config.truncation),
      without_null(config.padding))
   self.space = space_of(without_null(config.normalizer))
   local ids = {}
   for token, id in pairs(self.ids) do ids[token] = id end
   self.ids = ids
   use_bytes(self)
   return finish(self)
end

return M
