-- training.lua - learns the vocabularies of tokenizers with the same results as Hugging Face's
-- trainers. A word is a table {text =, count =}. A vocabulary is a list of tokens, whose numbers
-- are their positions from 1.

local torch = require "tlua"
local unigram_training = require "tlua.text.tokenizer.unigram_training"
local args = require "tlua.args"
local loading = require "tlua.text.tokenizer.loading"
local pieces = require "tlua.text.tokenizer.pieces"
local saving = require "tlua.text.tokenizer.saving"

local M = {}

-- A heap of pairs ------------------------------------------------------------------------------

-- A priority queue of pairs. The pair with the largest count comes first; of pairs with equal
-- counts, the smallest pair comes first.
local Queue = {}
Queue.__index = Queue

local function before(a, b)
   return a.count > b.count or a.count == b.count and a.pair < b.pair
end

function Queue:push(entry)
   local n = #self + 1
   while n > 1 and before(entry, self[n // 2]) do
      self[n] = self[n // 2]
      n = n // 2
   end
   self[n] = entry
end

function Queue:pop()
   local top, n = self[1], #self
   local last = self[n]
   self[n] = nil
   n = n - 1
   if n == 0 then return top end
   local i = 1
   while 2 * i <= n do
      local child = 2 * i
      if child < n and before(self[child + 1], self[child]) then child = child + 1 end
      if not before(self[child], last) then break end
      self[i] = self[child]
      i = child
   end
   self[i] = last
   return top
end

-- Alphabets -------------------------------------------------------------------------------------

local character <const> = "[\0-\x7F\xC2-\xF4][\x80-\xBF]*"

-- Returns the sorted list of the characters in the words and in options.initial_alphabet. If there
-- are more than options.limit_alphabet, only the most frequent characters are kept.
local function alphabet_of(words, options)
   local counts, list = {}, {}
   for _, word in ipairs(words) do
      for c in word.text:gmatch(character) do counts[c] = (counts[c] or 0) + word.count end
   end
   for _, text in ipairs(options.initial_alphabet) do
      counts[text:match(character)] = math.maxinteger
   end
   for c in pairs(counts) do list[#list + 1] = c end
   local most = options.limit_alphabet
   if most and #list > most then
      table.sort(list, function(a, b)
         if counts[a] ~= counts[b] then return counts[a] > counts[b] end
         return utf8.codepoint(a) < utf8.codepoint(b)
      end)
      for i = #list, most + 1, -1 do list[i] = nil end
   end
   table.sort(list, function(a, b) return utf8.codepoint(a) < utf8.codepoint(b) end)
   return list
end

local Vocabulary = {}
Vocabulary.__index = Vocabulary

-- Returns the number of a token, and adds the token if it is new.
function Vocabulary:add(token)
   local id = self.ids[token]
   if id then return id end
   id = #self.tokens + 1
   self.tokens[id], self.ids[token] = token, id
   return id
end

-- Returns two lists for a word: the numbers of its symbols and their lengths. Characters outside
-- the alphabet are left out.
local function symbols_of(word, vocabulary, options)
   local prefix, suffix = options.continuing_subword_prefix, options.end_of_word_suffix
   local ids, lengths, at, length = {}, {}, 1, #word.text
   for c in word.text:gmatch(character) do
      local symbol = c
      local is_first, is_last = at == 1, at + #c > length
      at = at + #c
      if vocabulary.ids[c] then
         if prefix and not is_first then symbol = prefix .. symbol end
         if suffix and is_last then symbol = symbol .. suffix end
         ids[#ids + 1], lengths[#lengths + 1] = vocabulary:add(symbol), 1
      end
   end
   return {ids = ids, lengths = lengths, count = word.count}
end

-- Pairs -----------------------------------------------------------------------------------------

-- Merges all occurrences of a pair in a word. Calls change(pair, difference) for each pair whose
-- number of occurrences changes.
local function merge(word, a, b, new, most, change)
   local ids, lengths, i = word.ids, word.lengths, 1
   while i < #ids do
      if ids[i] == a and ids[i + 1] == b then
         local length = lengths[i] + lengths[i + 1]
         if i > 1 then
            change(ids[i - 1] << 32 | a, -1)
            if lengths[i - 1] + length < most then change(ids[i - 1] << 32 | new, 1) end
         end
         table.remove(ids, i + 1)
         table.remove(lengths, i + 1)
         ids[i], lengths[i] = new, length
         if i < #ids then
            change(b << 32 | ids[i + 1], -1)
            if lengths[i + 1] + length < most then change(new << 32 | ids[i + 1], 1) end
         end
      end
      i = i + 1
   end
end

-- Returns the counts of all pairs of adjacent tokens, and a queue of the pairs with the words that
-- contain them.
local function count_pairs(list)
   local counts, places = {}, {}
   for _, word in ipairs(list) do
      local ids = word.ids
      for i = 1, #ids - 1 do
         local pair = ids[i] << 32 | ids[i + 1]
         counts[pair] = (counts[pair] or 0) + word.count
         places[pair] = places[pair] or {}
         places[pair][word] = true
      end
   end
   local queue = setmetatable({}, Queue)
   for pair, words in pairs(places) do
      if counts[pair] > 0 then queue:push {pair = pair, count = counts[pair], words = words} end
   end
   return counts, queue
end

--- Learns merges of pairs of tokens, as BpeTrainer does.
---@param words {text: string, count: integer}[]
---@param options table  of trainers.lua
---@return string[] tokens
---@return string[][] merges
function M.bpe(words, options)
   local vocabulary = setmetatable({tokens = {}, ids = {}}, Vocabulary)
   for _, token in ipairs(options.special_tokens) do
      vocabulary:add(type(token) == "table" and token.content or token)
   end
   for _, c in ipairs(alphabet_of(words, options)) do vocabulary:add(c) end
   local list = {}
   for i, word in ipairs(words) do list[i] = symbols_of(word, vocabulary, options) end
   local counts, queue = count_pairs(list)
   local tokens, merges, prefix = vocabulary.tokens, {}, options.continuing_subword_prefix
   local most = options.max_token_length or math.maxinteger
   while #tokens < options.vocab_size and #queue > 0 do
      local top = queue:pop()
      if top.count ~= counts[top.pair] then
         top.count = counts[top.pair]
         queue:push(top)
      else
         if top.count < 1 or top.count < options.min_frequency then break end
         local a, b = top.pair >> 32, top.pair & 0xFFFFFFFF
         local first, second = tokens[a], tokens[b]
         local rest = prefix and second:sub(1, #prefix) == prefix and second:sub(#prefix + 1)
            or second
         local new = vocabulary:add(first .. rest)
         merges[#merges + 1] = {first, second}
         local places = {}
         for word in pairs(top.words) do
            merge(word, a, b, new, most, function(pair, difference)
               counts[pair] = (counts[pair] or 0) + difference * word.count
               if difference > 0 then
                  places[pair] = places[pair] or {}
                  places[pair][word] = true
               end
            end)
         end
         for pair, more in pairs(places) do
            local count = counts[pair]
            if count > 0 then queue:push {pair = pair, count = count, words = more} end
         end
      end
   end
   return tokens, merges
end

--- Makes the most frequent words tokens, as WordLevelTrainer does. A token that occurs twice in the
--- list gets the number of its last occurrence.
---@param words {text: string, count: integer}[]  sorted by count and then by text
---@param options table  of trainers.lua
---@return string[] tokens
function M.words(words, options)
   local tokens = {}
   for i, token in ipairs(options.special_tokens) do
      tokens[i] = type(token) == "table" and token.content or token
   end
   for _, word in ipairs(words) do
      if word.count >= options.min_frequency then tokens[#tokens + 1] = word.text end
   end
   for i = #tokens, options.vocab_size + 1, -1 do tokens[i] = nil end
   return tokens
end

-- Tokenizers ---------------------------------------------------------------------------------

-- Adds the numbers of occurrences of the words of a text to `counts`.
local function count_words(self, text, counts)
   local piece, list = pieces.new(text, 0), {}
   if self.normalizer then self.normalizer.apply(piece, {first = true, last = true}) end
   if self.pre_tokenizer then self.pre_tokenizer.apply(piece, list) else list[1] = piece end
   for i = 1, #list do
      local word = list[i].text
      if word ~= "" then counts[word] = (counts[word] or 0) + 1 end
   end
end

-- Returns the list of words, sorted by count and then by text. For a byte-level model, the words
-- are written in the characters that represent bytes.
local function sorted_words(self, counts)
   local pre, words = self.pre_tokenizer, {}
   local last = pre and (pre.last or pre)
   for text, count in pairs(counts) do
      if last and last.keeps_bytes then text = saving.in_characters(text) end
      words[#words + 1] = {text = text, count = count}
   end
   table.sort(words, function(a, b)
      if a.count ~= b.count then return a.count > b.count end
      return a.text < b.text
   end)
   return words
end

local function check_trainer(self, name, trainer)
   local trainers = require "tlua.text.trainers"
   if getmetatable(trainer) ~= trainers._Trainer then
      args.refuse(name, "trainer", "one of text.trainers", trainer)
   end
   if not self.source then torch.raise(name .. ": expected a tokenizer of tokenizer.json") end
   local kind = require "tlua.utils.json".decode(self.source).model.type or "BPE"
   if kind ~= trainer.model then
      torch.raise(("%s: trainer: expected a trainer for %s, got one for %s"):format(name, kind,
         trainer.model))
   end
end

--- Learns a vocabulary. Each call of next_text returns one text, and nil at the end.
---@param self text.Tokenizer
---@param name string  the calling function's name, for error messages
---@param next_text fun(): string?
---@param trainer table  a trainer of text.trainers
---@return table parts  the parts of the tokenizer with that vocabulary, in the form that
--- loading.json returns
function M.parts(self, name, next_text, trainer)
   check_trainer(self, name, trainer)
   local counts, n = {}, 0
   for item in next_text do
      for _, text in ipairs(type(item) == "table" and item or {item}) do
         n = n + 1
         local length, at = utf8.len(type(text) == "string" and text or "")
         if type(text) ~= "string" then args.refuse(name, ("text %d"):format(n), "a text", text) end
         if not length then
            torch.raise(("%s: text %d: expected UTF-8, byte %d is not"):format(name, n, at))
         end
         count_words(self, text, counts)
      end
   end
   local words = sorted_words(self, counts)
   local model = {continuing_subword_prefix = trainer.continuing_subword_prefix,
      end_of_word_suffix = trainer.end_of_word_suffix}
   if trainer.model == "WordLevel" then
      model.tokens = M.words(words, trainer)
   elseif trainer.model == "Unigram" then
      local ok, vocab, unknown = pcall(unigram_training.train, words, trainer)
      if not ok then torch.raise(("%s: %s"):format(name, vocab)) end
      model.scored, model.unk_id = vocab, unknown
   else
      model.tokens, model.merges = M.bpe(words, trainer)
      if trainer.model == "WordPiece" then model.merges = nil end
   end
   local parts, why = loading.protect(loading.json, saving.with_vocabulary(self, model))
   if not parts then torch.raise(("%s: %s"):format(name, why)) end
   return parts
end

return M
