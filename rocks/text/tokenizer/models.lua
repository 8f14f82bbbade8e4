-- models.lua - the models of tokenizer.json. A model's function tokenize(word) returns {ids, first,
-- last, surface?}, as in bpe.lua. Token numbers count from 1 in Lua and from 0 in files.

local bpe = require "tlua.text.tokenizer.bpe"
local pieces = require "tlua.text.tokenizer.pieces"

local M = {}

local most_ids <const> = 1 << 31

-- Returns two tables: from tokens to their numbers (from 1), and from numbers to tokens.
local function read_vocab(vocab, fail)
   if type(vocab) ~= "table" then fail "expected a vocabulary" end
   local ids, tokens = {}, {}
   for token, id in pairs(vocab) do
      if type(token) ~= "string" then fail "expected an object as vocabulary, got a list" end
      if math.type(id) ~= "integer" or id < 0 or id >= most_ids then
         fail(("vocab: %q: expected a number from 0 to %d, got %s"):format(token, most_ids - 1,
            tostring(id)))
      end
      if tokens[id + 1] then
         fail(("vocab: %q and %q have the same number %d"):format(token, tokens[id + 1], id))
      end
      ids[token], tokens[id + 1] = id + 1, token
   end
   return ids, tokens
end

local function unknown_of(config, ids, fail)
   local token = config.unk_token
   if type(token) ~= "string" then fail "expected a text as unk_token" end
   return ids[token]
end

local makers = {}

makers.BPE = function(config, fail)
   local ids, tokens = read_vocab(config.vocab, fail)
   local model = bpe.make(config, ids, fail)
   return model, ids, tokens
end

-- Words -----------------------------------------------------------------------------------------

local function missing(unknown)
   error(("the text has a word that is not in the vocabulary, which lacks %q"):format(unknown), 0)
end

makers.WordLevel = function(config, fail)
   local ids, tokens = read_vocab(config.vocab, fail)
   local unknown = unknown_of(config, ids, fail)
   local model, prefix = {}, "\0\0"
   function model:tokenize(word)
      local id = ids[word] or unknown or missing(config.unk_token)
      return {ids = {id}, first = {1}, last = {#word}}
   end
   -- The C code of WordPiece can compute this model too. It looks for the parts of a word after the
   -- first with a prefix. No token begins with the prefix "\0\0", so it finds whole words only.
   for token in pairs(ids) do
      if token:sub(1, #prefix) == prefix then return model, ids, tokens end
   end
   function model.inner()
      return {kind = 2, ids = ids, prefix = prefix, unknown = unknown}
   end
   return model, ids, tokens
end

-- Returns the length of the longest token in bytes.
local function longest(ids)
   local most = 0
   for token in pairs(ids) do most = math.max(most, #token) end
   return most
end

makers.WordPiece = function(config, fail)
   local ids, tokens = read_vocab(config.vocab, fail)
   local unknown = unknown_of(config, ids, fail)
   local prefix = config.continuing_subword_prefix or "##"
   local most = config.max_input_chars_per_word or 100
   if type(prefix) ~= "string" then fail "expected a text as continuing_subword_prefix" end
   if math.type(most) ~= "integer" then fail "expected an integer as max_input_chars_per_word" end
   local reach = longest(ids)
   local function whole(word)
      return {ids = {unknown or missing(config.unk_token)}, first = {1}, last = {#word}}
   end
   local model = {}
   function model:tokenize(word)
      if #word > most and utf8.len(word) > most then return whole(word) end
      local found, first, last, n, at, length = {}, {}, {}, 0, 1, #word
      while at <= length do
         local stop, id = math.min(length, at + reach - 1), nil
         while stop >= at do
            local part = word:sub(at, stop)
            id = ids[at > 1 and prefix .. part or part]
            if id then break end
            stop = stop - 1
         end
         if not id then return whole(word) end
         n = n + 1
         found[n], first[n], last[n] = id, at, stop
         at = stop + 1
      end
      return {ids = found, first = first, last = last}
   end
   function model.inner()
      return {kind = 2, ids = ids, prefix = prefix, unknown = unknown, most = math.max(most, 0)}
   end
   return model, ids, tokens
end

-- Unigram ---------------------------------------------------------------------------------------

local key_length <const> = 6

-- Returns a table that maps each text of key_length bytes to the length of the longest token that
-- begins with it.
local function reaches(ids)
   local reach = {}
   for token in pairs(ids) do
      if #token >= key_length then
         local key = token:sub(1, key_length)
         if #token > (reach[key] or 0) then reach[key] = #token end
      end
   end
   return reach
end

-- Returns, for each position at which a token ends, the start and the number of the last token on
-- the best path to this position.
local function best_path(self, word, ends)
   local ids, scores, reach = self.ids, self.scores, self.reach
   local best, starts, found = {[0] = 0.0}, {}, {}
   local length, from = #word, 0
   local round = self.round
   while from < length do
      local here, single = best[from], false
      local width = ends[from] - from
      local stop = ends[from]
      local limit = reach[word:sub(from + 1, from + key_length)] or key_length - 1
      while stop and stop - from <= limit do
         local id = ids[word:sub(from + 1, stop)]
         if id then
            local score = scores[id] + here
            if not best[stop] or score > best[stop] then
               if round then score = round(score) end
               best[stop], starts[stop], found[stop] = score, from, id
            end
            if stop - from == width then single = true end
         end
         stop = ends[stop]
      end
      if not single then
         stop = ends[from]
         local score = self.unknown_score + here
         if round then score = round(score) end
         if not best[stop] or score > best[stop] then
            if not self.unknown then
               error("the text has a character without a token, and unk_id is missing", 0)
            end
            best[stop], starts[stop], found[stop] = score, from, self.unknown
         end
      end
      from = ends[from]
   end
   return starts, found
end

-- Returns the tokens of the best path, the last token first. Adjacent unknown tokens are merged
-- into one.
local function parts_of(self, word)
   local ends, at = {}, 0
   for character in word:gmatch(pieces.character) do
      ends[at] = at + #character
      at = ends[at]
   end
   local starts, found = best_path(self, word, ends)
   local list, n, stop = {}, 0, #word
   while stop > 0 do
      local from, unknown = starts[stop], found[stop] == self.unknown
      if unknown and n > 0 and list[n].unknown and list[n].first == stop + 1 then
         list[n].first = from + 1
      else
         n = n + 1
         list[n] = {first = from + 1, last = stop, unknown = unknown}
      end
      stop = from
   end
   return list
end

local function unigram_tokenize(self, word)
   local ids, first, last, surface, n = {}, {}, {}, nil, 0
   local list, byte_ids = parts_of(self, word), self.byte_ids or self.ids
   for i = #list, 1, -1 do
      local part = list[i]
      local text = word:sub(part.first, part.last)
      local id = self.ids[text]
      local as_bytes = not id and self.byte_fallback
      for k = 1, as_bytes and #text or 0 do
         as_bytes = as_bytes and byte_ids[("<0x%02X>"):format(text:byte(k))]
      end
      if as_bytes then
         for k = 1, #text do
            n = n + 1
            ids[n] = byte_ids[("<0x%02X>"):format(text:byte(k))]
            first[n], last[n] = part.first, part.last
         end
      else
         n = n + 1
         ids[n], first[n], last[n] = id or self.unknown, part.first, part.last
         if not id then
            surface = surface or {}
            surface[n] = text
         end
      end
   end
   return {ids = ids, first = first, last = last, surface = surface}
end

-- Maps each byte to the number of the token for it, such as "<0x41>".
local function numbers_of_bytes(ids)
   local list = {}
   for byte = 0, 255 do list[byte] = ids[("<0x%02X>"):format(byte)] end
   return list
end

local function unigram_inner(self)
   return {kind = 1, ids = self.ids, scores = self.scores, unknown = self.unknown,
      unknown_score = self.unknown_score, byte_fallback = self.byte_fallback,
      single = self.round ~= nil, byte_ids = numbers_of_bytes(self.byte_ids or self.ids)}
end

--- Creates SentencePiece's unigram model, in which scores have single precision.
---@param ids table<string, integer>  the tokens that may be found in texts
---@param scores number[]  by number
---@param least number  the least score of an ordinary token
---@param model table  the fields unknown, byte_fallback and byte_ids
---@return table model
function M.single_unigram(ids, scores, least, model)
   model.ids, model.scores, model.reach, model.unknown_score = ids, scores, reaches(ids), least - 10
   model.tokenize, model.inner = unigram_tokenize, unigram_inner
   function model.round(value) return (string.unpack("<f", string.pack("<f", value))) end
   return model
end

--- Creates a unigram model.
---@param list table[]  {token, score} by number
---@param unknown integer?  the number of the unknown token
---@param byte_fallback boolean
---@return table model
---@return table<string, integer> ids
---@return string[] tokens
function M.unigram(list, unknown, byte_fallback)
   local ids, tokens, scores, least = {}, {}, {}, math.huge
   for id, entry in ipairs(list) do
      ids[entry[1]], tokens[id], scores[id] = id, entry[1], entry[2]
      least = math.min(least, entry[2])
   end
   local model = {ids = ids, scores = scores, unknown = unknown, byte_fallback = byte_fallback,
      reach = reaches(ids), unknown_score = least - 10.0, tokenize = unigram_tokenize,
      inner = unigram_inner}
   return model, ids, tokens
end

-- Returns the number that the JSON reader of Hugging Face's library computes from decimal digits:
-- the digits as an integer, divided by a power of ten. It may differ from the correctly rounded
-- number in the last bit.
local function as_read(value)
   local digits = ("%.16g"):format(value)
   if tonumber(digits) ~= value then digits = ("%.17g"):format(value) end
   local sign, whole, rest = digits:match "^(%-?)(%d+)%.(%d+)$"
   local number = whole and #rest <= 22 and math.tointeger(tonumber(whole .. rest))
   if not number then return value + 0.0 end
   value = number / 10.0 ^ #rest
   return sign == "-" and -value or value
end

makers.Unigram = function(config, fail)
   local list = config.vocab
   if type(list) ~= "table" then fail "expected a list of tokens and scores as vocab" end
   for i, entry in ipairs(list) do
      if type(entry) ~= "table" or type(entry[1]) ~= "string" or type(entry[2]) ~= "number" then
         fail(("vocab[%d]: expected a token and its score"):format(i))
      end
      list[i] = {entry[1], as_read(entry[2])}
   end
   local unknown = config.unk_id
   if unknown and (math.type(unknown) ~= "integer" or unknown < 0 or unknown >= #list) then
      fail(("unk_id: expected a number from 0 to %d, got %s"):format(#list - 1, tostring(unknown)))
   end
   return M.unigram(list, unknown and unknown + 1, config.byte_fallback or false)
end

-- Returns the type of a model. Older files do not state the type, so it is derived from the fields.
local function type_of(config)
   if config.type then return config.type end
   if config.merges then return "BPE" end
   if type(config.vocab) == "table" and config.vocab[1] then return "Unigram" end
   return config.continuing_subword_prefix and "WordPiece" or "WordLevel"
end

--- Creates a model from its configuration. Calls fail(why) if the configuration is invalid.
---@param config table
---@param fail fun(why: string)
---@return table model
---@return table<string, integer> ids
---@return table<integer, string> tokens
function M.make(config, fail)
   if type(config) ~= "table" then fail "expected an object" end
   local maker = makers[type_of(config)]
   if not maker then
      fail(("expected BPE, WordPiece, Unigram or WordLevel, got %s"):format(tostring(config.type)))
   end
   return maker(config, fail)
end

return M
