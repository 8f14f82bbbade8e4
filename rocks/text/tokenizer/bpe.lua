-- bpe.lua - byte-pair encoding for tokenizer.json, SentencePiece and tiktoken. A model's function
-- tokenize(word) returns a table {ids, first, last, surface?}. `ids` has the token numbers. `first`
-- and `last` have the first and last byte of the word that each token covers, extended to whole
-- characters. `surface` has the texts of tokens that are not in the vocabulary.

local bytes = require "tlua.text.tokenizer.bytes"
local heap = require "tlua.text.tokenizer.heap"
local pieces = require "tlua.text.tokenizer.pieces"

local M = {}

local long_word <const> = 24

-- Merges the pairs of a short word in the order of their ranks, the lowest first. `ids` and
-- `lengths` have the number and the length in bytes of each token, and are changed in place.
local function merge_short(merges, ids, lengths)
   local n = #ids
   while n > 1 do
      local least, at = math.maxinteger, nil
      for i = 1, n - 1 do
         local merge = merges[ids[i] << 32 | ids[i + 1]]
         if merge and merge < least then least, at = merge, i end
      end
      if not at then return end
      ids[at], lengths[at] = least & 0xFFFFFFFF, lengths[at] + lengths[at + 1]
      table.remove(ids, at + 1)
      table.remove(lengths, at + 1)
      n = n - 1
   end
end

-- Does the same as merge_short for a long word, with a heap of the pairs' ranks and positions, so
-- that the time is not quadratic in the length.
local function merge_long(merges, ids, lengths)
   local n = #ids
   local after, before = {}, {}
   for i = 1, n do after[i], before[i] = i + 1, i - 1 end
   local queue = heap.new()
   local function add(i)
      local k = after[i]
      if i < 1 or k > n then return end
      local merge = merges[ids[i] << 32 | ids[k]]
      if merge then queue:push(merge >> 32 << 31 | i, merge, ids[i] << 32 | ids[k]) end
   end
   for i = 1, n - 1 do add(i) end
   while queue.n > 0 do
      local key, merge, pair = queue:pop()
      local i = key & 0x7FFFFFFF
      local k = after[i]
      if ids[i] and k <= n and ids[i] << 32 | ids[k] == pair then
         ids[i], lengths[i] = merge & 0xFFFFFFFF, lengths[i] + lengths[k]
         ids[k] = false
         after[i] = after[k]
         if after[k] <= n then before[after[k]] = i end
         if before[i] >= 1 then add(before[i]) end
         add(i)
      end
   end
   local m = 0
   for i = 1, n do
      if ids[i] then
         m = m + 1
         ids[m], lengths[m] = ids[i], lengths[i]
      end
   end
   for i = m + 1, n do ids[i], lengths[i] = nil, nil end
end

-- Returns the result of tokenize from the tokens' numbers and lengths. Offsets are extended to
-- whole characters.
local function spread(word, ids, lengths)
   local first, last, at = {}, {}, 1
   local length, ascii = #word, pieces.is_ascii(word)
   for i = 1, #ids do
      local from, to = at, at + lengths[i] - 1
      at = to + 1
      if not ascii then
         while from > 1 and from <= length and word:byte(from) & 0xC0 == 0x80 do
            from = from - 1
         end
         while to < length and word:byte(to + 1) & 0xC0 == 0x80 do to = to + 1 end
      end
      first[i], last[i] = from, to
   end
   return {ids = ids, first = first, last = last}
end

local Model = {}
Model.__index = Model

-- Appends the tokens for the bytes of a symbol, such as "<0x41>", if all of them are in the
-- vocabulary.
local function add_bytes(self, symbol, ids, lengths)
   local found = {}
   for i = 1, #symbol do
      found[i] = self.vocab[("<0x%02X>"):format(symbol:byte(i))]
      if not found[i] then return false end
   end
   for i = 1, #found do ids[#ids + 1], lengths[#lengths + 1] = found[i], 1 end
   return true
end

-- Iterates over the symbols of a word. A symbol is a byte, a character, or a text that is never
-- split.
local function each_symbol(self, word)
   if not self.frozen then return word:gmatch(self.of_bytes and "." or pieces.character) end
   local at = 1
   return function()
      if at > #word then return nil end
      local stop = utf8.offset(word, 2, at) - 1
      for _, text in ipairs(self.frozen) do
         if word:sub(at, at + #text - 1) == text then
            stop = at + #text - 1
            break
         end
      end
      local symbol = word:sub(at, stop)
      at = stop + 1
      return symbol
   end
end

local function symbols(self, word)
   local ids, lengths, unknown = {}, {}, nil
   local prefix, suffix, n = self.prefix, self.suffix, 0
   local at, length = 1, #word
   for symbol in each_symbol(self, word) do
      local width = #symbol
      if prefix and at > 1 then symbol = prefix .. symbol end
      at = at + width
      if suffix and at > length then symbol = symbol .. suffix end
      local id = self.vocab[symbol]
      if id then
         if unknown then
            n = n + 1
            ids[n], lengths[n] = self.unknown, unknown
            unknown = nil
         end
         n = n + 1
         ids[n], lengths[n] = id, width
      elseif self.byte_fallback and add_bytes(self, symbol, ids, lengths) then
         n = #ids
      elseif self.unknown then
         if unknown and not self.fuses then
            n = n + 1
            ids[n], lengths[n] = self.unknown, unknown
            unknown = nil
         end
         unknown = (unknown or 0) + width
      end
   end
   if unknown then ids[n + 1], lengths[n + 1] = self.unknown, unknown end
   return ids, lengths
end

--- Returns the tokens of a word.
---@param word string
---@return table
function Model:tokenize(word)
   if self.ignores_merges and self.vocab[word] then
      return {ids = {self.vocab[word]}, first = {1}, last = {#word}}
   end
   local ids, lengths = symbols(self, word)
   if #ids > 1 then
      local merge = #ids > long_word and merge_long or merge_short
      merge(self.merges, ids, lengths)
   end
   return spread(word, ids, lengths)
end

--- Returns the description of this model for the tokenizer in C, or nil if the C code does not
--- support the model.
---@return table?
function Model:inner()
   if self.frozen or getmetatable(self.merges) then return nil end
   local byte_ids = {}
   for byte = 0, 255 do byte_ids[byte] = self.vocab[("<0x%02X>"):format(byte)] end
   return {kind = 0, ids = self.vocab, merges = self.merges, prefix = self.prefix,
      suffix = self.suffix, unknown = self.unknown, of_bytes = self.of_bytes, fuses = self.fuses,
      ignores_merges = self.ignores_merges, byte_fallback = self.byte_fallback,
      byte_ids = byte_ids}
end

--- Converts the model's tokens to plain bytes, so that texts need not be converted to the
--- characters that represent bytes. Returns whether this is possible.
---@return boolean
function Model:use_bytes()
   if self.byte_fallback or self.prefix or self.suffix then return false end
   local vocab = {}
   for token, id in pairs(self.vocab) do
      local decoded = bytes.decode(token)
      if decoded then vocab[decoded] = id end
   end
   self.vocab, self.of_bytes = vocab, true
   return true
end

-- Returns the two tokens of an entry of the list of merges, or nil if the entry is invalid.
local function pair_of(entry)
   if type(entry) == "string" then return entry:match "^([^ ]+) ([^ ]+)$" end
   if type(entry) == "table" and #entry == 2 then return entry[1], entry[2] end
   return nil
end

-- Returns a table of merges. It maps the numbers of the two tokens of a pair to the pair's rank and
-- the number of the merged token.
local function read_merges(list, vocab, prefix, fail)
   local merges, skip = {}, prefix and #prefix + 1 or 1
   local function number(token, i)
      local id = type(token) == "string" and vocab[token]
      if not id then
         fail(("merges[%d]: the vocabulary lacks the token %s"):format(i,
            type(token) == "string" and ("%q"):format(token) or tostring(token)))
      end
      return id
   end
   for i, entry in ipairs(list) do
      local a, b = pair_of(entry)
      if not a then fail(("merges[%d]: expected two tokens, got %s"):format(i, tostring(entry))) end
      local key = number(a, i) << 32 | number(b, i)
      merges[key] = i << 32 | number(a .. b:sub(skip), i)
   end
   return merges
end

--- Creates a model from its configuration. Calls fail(why) if the configuration is invalid.
---@param config table
---@param vocab table<string, integer>
---@param fail fun(why: string)
---@return table
function M.make(config, vocab, fail)
   if type(config.merges) ~= "table" then fail "expected a list of merges" end
   if config.dropout and config.dropout ~= 0 then
      fail(("expected no dropout, which gives random tokens, got %s"):format(config.dropout))
   end
   local model = setmetatable({
      vocab = vocab, prefix = config.continuing_subword_prefix,
      suffix = config.end_of_word_suffix, byte_fallback = config.byte_fallback,
      fuses = config.fuse_unk, ignores_merges = config.ignore_merges,
   }, Model)
   if model.prefix == "" then model.prefix = nil end
   if model.suffix == "" then model.suffix = nil end
   if config.unk_token then
      model.unknown = vocab[config.unk_token]
      if not model.unknown and next(vocab) ~= nil then
         fail(("the vocabulary lacks the unknown token %q"):format(tostring(config.unk_token)))
      end
   end
   model.merges = read_merges(config.merges, vocab, model.prefix, fail)
   return model
end

--- Returns whether `space` is a token, and occurs in other tokens only at their beginning, once or
--- repeatedly.
---@param vocab table<string, integer>
---@param space string
---@return boolean
function M.begins_with_space(vocab, space)
   if not vocab[space] then return false end
   local length = #space
   for token in pairs(vocab) do
      local at = token:find(space, 2, true)
      while at do
         if token:sub(at - length, at - 1) ~= space then return false end
         at = token:find(space, at + 1, true)
      end
   end
   return true
end

--- Creates a model in which the rank of a pair is the number of the token that the pair is merged
--- to.
---@param vocab table<string, integer>  the model keeps this table
---@param options table  fields of the model; `tokens`: the list of the tokens' texts, which the
--- model keeps; `ranks`: the ranks of the tokens, instead of their numbers; `kinds`: a string with
--- a byte for each token, which is 1 if the token may be part and result of a merge
---@return table
function M.by_rank(vocab, options)
   local tokens, ranks, kinds = options.tokens, options.ranks, options.kinds
   local function number(text)
      local id = vocab[text]
      return id and (not kinds or kinds:byte(id) == 1) and id
   end
   local function text_of(id)
      local text = tokens[id]
      return text and number(text) == id and text
   end
   options.vocab, options.merges = vocab, setmetatable({}, {__index = function(self, key)
      local a, b = text_of(key >> 32), text_of(key & 0xFFFFFFFF)
      local id = a and b and number(a .. b)
      local merge = id and (ranks and ranks[id] or id) << 32 | id or false
      self[key] = merge
      return merge
   end})
   return setmetatable(options, Model)
end

M.spread = spread

return M
