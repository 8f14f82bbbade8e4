-- BPE.lua - GPT-2's byte-pair encoding. GPT-2's pattern splits a text into words. A word starts as
-- a list of single bytes. Adjacent tokens of a word are then merged, in the order in which training
-- has learnt the merges.
--
-- A token is a string of bytes. Token numbers count from 1 in Lua, so that they can index an
-- embedding, and from 0 in files.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"
local replace_file = require "tlua.io.replace"
local read_file = require "tlua.utils.read_file"
local characters = require "tlua.text.tokenizer.characters"

--- GPT-2's byte-pair encoding. Its tokens can be learnt from a text or read from files.
---
---     local bpe = torch.text.BPE.train("low lower lowest low low", 260)
---     local tokens = bpe:encode "low"
---     print(#tokens, bpe:decode(tokens))
---     --> 1	low
---@class text.BPE
---@field vocab_size integer  the number of tokens
local BPE = class.class("text.BPE")

-- Words -----------------------------------------------------------------------------------------

local contractions <const> = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

-- Returns the kind of a code point: "letter", "number", "space" or "other".
local function kind_of(code)
   local group = characters.category[code]:sub(1, 1)
   if group == "L" then return "letter" end
   if group == "N" then return "number" end
   return characters.class "space"[code] and "space" or "other"
end

-- Returns the kind of the character at byte `at`, and the position after that character. A byte of
-- invalid UTF-8 has the kind "other".
local function character(text, at)
   local byte = text:byte(at)
   if not byte then return nil end
   if byte < 128 then return kind_of(byte), at + 1 end
   local length = byte >= 240 and 4 or byte >= 224 and 3 or byte >= 192 and 2 or 1
   local piece = text:sub(at, at + length - 1)
   local ok, code = pcall(utf8.codepoint, piece)
   if length == 1 or not ok or #piece ~= length then return "other", at + 1 end
   return kind_of(code), at + length
end

local function end_of_run(text, at, kind)
   while true do
      local found, after = character(text, at)
      if found ~= kind then return at end
      at = after
   end
end

-- Returns the position after the word that begins at byte `at`. GPT-2's pattern for words is
-- 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
local function word_end(text, at)
   for _, short in ipairs(contractions) do
      if text:sub(at, at + #short - 1) == short then return at + #short end
   end
   local start = text:byte(at) == 32 and at + 1 or at
   local kind = character(text, start)
   if kind and kind ~= "space" then return end_of_run(text, start, kind) end
   -- If several spaces stand before a word, the last space belongs to the word.
   local last, stop = at, at
   while true do
      local found, after = character(text, stop)
      if found ~= "space" then break end
      last, stop = stop, after
   end
   if stop > #text or last == at then return stop end
   return last
end

--- Iterates over the words of a text.
---@param text string
---@return fun(): string?
function BPE.words(text)
   if type(text) ~= "string" then args.refuse("text.BPE.words", "text", "a string", text) end
   local at = 1
   return function()
      if at > #text then return nil end
      local start = at
      at = word_end(text, at)
      return text:sub(start, at - 1)
   end
end

-- Making one ------------------------------------------------------------------------------------

-- Returns an encoder. `tokens` lists the tokens by number. rank(a, b) returns the position of the
-- merge of a and b in the list of merges, or nil if a and b are never merged. `merges` is this
-- list, or nil if the tokens come from a file of ranks.
local function build(tokens, rank, merges)
   local bpe = BPE()
   bpe.tokens, bpe.numbers, bpe.rank, bpe.merges = tokens, {}, rank, merges
   bpe.vocab_size = #tokens
   for number, token in ipairs(tokens) do bpe.numbers[token] = number end
   bpe.cache = {}
   return bpe
end

local function by_merges(tokens, merges)
   local ranks = {}
   for i, pair in ipairs(merges) do
      ranks[pair[1]] = ranks[pair[1]] or {}
      ranks[pair[1]][pair[2]] = ranks[pair[1]][pair[2]] or i
   end
   return build(tokens, function(a, b) return ranks[a] and ranks[a][b] end, merges)
end

local function read_all(name, path)
   if type(path) ~= "string" then
      args.refuse("text.BPE." .. name, "path", "a file's name", path)
   end
   return read_file(path)
end

-- Returns two tables. The first has the character that represents each byte in GPT-2's files, and
-- the second has the byte of each character's code point. A printable byte represents itself. Code
-- points from 256 on represent all other bytes.
local function byte_characters()
   local to_character, to_byte, moved = {}, {}, 0
   for byte = 0, 255 do
      local plain = byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
      local code = plain and byte or 256 + moved
      if not plain then moved = moved + 1 end
      to_character[string.char(byte)] = utf8.char(code)
      to_byte[code] = string.char(byte)
   end
   return to_character, to_byte
end

local to_character, to_byte = byte_characters()

-- Returns the bytes that a text of GPT-2's files represents. A text with other characters, such as
-- the special token <|endoftext|>, and a text that is not UTF-8 are returned as they are.
local function from_characters(text)
   if not utf8.len(text) then return text end
   local bytes = {}
   for _, code in utf8.codes(text) do
      if not to_byte[code] then return text end
      bytes[#bytes + 1] = to_byte[code]
   end
   return table.concat(bytes)
end

local function in_characters(token) return (token:gsub(".", to_character)) end

--- Reads vocab.json and merges.txt, the files of Hugging Face's tokenizers.
---@param vocab string  a file's name
---@param merges string  a file's name
---@return text.BPE?
---@return string? message
function BPE.load(vocab, merges)
   local text, message = read_all("load", vocab)
   if not text then return nil, message end
   local lines
   lines, message = read_all("load", merges)
   if not lines then return nil, message end
   local table_of, why = json.decode(text)
   if type(table_of) ~= "table" then return nil, ("%s: %s"):format(vocab, why or "no object") end
   local tokens, count = {}, 0
   for token, number in pairs(table_of) do
      if math.type(number) ~= "integer" or number < 0 or tokens[number + 1] then
         return nil, ("%s: %q has no number of its own"):format(vocab, token)
      end
      tokens[number + 1] = from_characters(token)
      count = count + 1
   end
   if #tokens ~= count then return nil, ("%s: numbers have gaps"):format(vocab) end
   local pairs_list = {}
   for line in lines:gmatch "[^\r\n]+" do
      local a, b = line:match "^(%S+) (%S+)$"
      if a and not line:find "^#version" then
         pairs_list[#pairs_list + 1] = {from_characters(a), from_characters(b)}
      elseif not line:find "^#version" then
         return nil, ("%s: expected two tokens in a line, got %q"):format(merges, line)
      end
   end
   return by_merges(tokens, pairs_list)
end

local base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function from_base64(text)
   local bits, count, bytes = 0, 0, {}
   for character_ in text:gmatch "[^=]" do
      local value = base64:find(character_, 1, true)
      if not value then return nil end
      bits, count = bits << 6 | value - 1, count + 6
      if count >= 8 then
         count = count - 8
         bytes[#bytes + 1] = string.char(bits >> count & 255)
      end
   end
   return table.concat(bytes)
end

--- Reads a file of ranks in tiktoken's format. Each line has a token in base64 and the token's
--- number.
---@param path string
---@return text.BPE?
---@return string? message
function BPE.load_tiktoken(path)
   local text, message = read_all("load_tiktoken", path)
   if not text then return nil, message end
   local tokens, numbers, count = {}, {}, 0
   for line in text:gmatch "[^\r\n]+" do
      local code, number = line:match "^(%S+) (%d+)$"
      local token, id = code and from_base64(code), math.tointeger(tonumber(number))
      if not token or not id or id >= 1 << 31 then
         return nil, ("%s: expected a token in base64 and a number, got %q"):format(path, line)
      end
      tokens[id + 1], numbers[token] = token, id + 1
      count = count + 1
   end
   if count == 0 or #tokens ~= count then return nil, ("%s: numbers have gaps"):format(path) end
   return build(tokens, function(a, b) return numbers[a .. b] end)
end

-- Training --------------------------------------------------------------------------------------

-- Counts how often each word occurs in a text. Returns a list with an entry for each word: the
-- word's bytes as elements, and the field `count`. The order of the entries depends only on the
-- text.
local function count_words(text)
   local list, known = {}, {}
   for word in BPE.words(text) do
      local entry = known[word]
      if not entry then
         entry = {count = 0}
         for i = 1, #word do entry[i] = word:sub(i, i) end
         known[word] = entry
         list[#list + 1] = entry
      end
      entry.count = entry.count + 1
   end
   return list
end

-- The class of tables that count how often each pair of adjacent tokens occurs, and that record the
-- words that contain each pair.
local Pairs = {}
Pairs.__index = Pairs

function Pairs:add(a, b, word, count)
   self[a] = self[a] or {}
   local pair = self[a][b]
   if not pair then
      pair = {a = a, b = b, count = 0, words = {}}
      self[a][b] = pair
   end
   pair.count = pair.count + count
   if count > 0 then pair.words[word] = true end
end

function Pairs:add_word(word, sign)
   for i = 1, #word - 1 do self:add(word[i], word[i + 1], word, sign * word.count) end
end

-- Returns the most frequent pair. Of several equally frequent pairs, the first in byte order is
-- returned. Returns nil if no pair occurs twice.
function Pairs:best()
   local best
   for _, row in pairs(self) do
      for _, pair in pairs(row) do
         local better = not best or pair.count > best.count or pair.count == best.count
            and (pair.a < best.a or pair.a == best.a and pair.b < best.b)
         if better then best = pair end
      end
   end
   return best and best.count > 1 and best or nil
end

local function join(word, a, b)
   local n, i, length = 0, 1, #word
   while i <= length do
      n = n + 1
      if word[i] == a and word[i + 1] == b then
         word[n] = a .. b
         i = i + 2
      else
         word[n] = word[i]
         i = i + 1
      end
   end
   for k = n + 1, length do word[k] = nil end
end

local train_arguments = args.signature
   "text.BPE.train(text: string, vocab_size: integer = 512)"

--- Learns tokens from a text. Training starts with the 256 bytes and repeatedly merges the most
--- frequent pair, until there are vocab_size tokens or no pair occurs twice.
---@param text string
---@param options? {vocab_size: integer}  512 by default, at least 256
---@return text.BPE
function BPE.train(text, options)
   local a = train_arguments(text, options)
   if a.vocab_size < 256 then
      args.refuse("text.BPE.train", "vocab_size", "an integer of at least 256", a.vocab_size)
   end
   local tokens, merges, words = {}, {}, count_words(a.text)
   for byte = 0, 255 do tokens[byte + 1] = string.char(byte) end
   local counts = setmetatable({}, Pairs)
   for _, word in ipairs(words) do counts:add_word(word, 1) end
   local known = {}
   while #tokens < a.vocab_size do
      local pair = counts:best()
      if not pair then break end
      merges[#merges + 1] = {pair.a, pair.b}
      local token = pair.a .. pair.b
      if not known[token] then tokens[#tokens + 1], known[token] = token, true end
      local places = pair.words
      pair.words = {}
      for word in pairs(places) do
         counts:add_word(word, -1)
         join(word, pair.a, pair.b)
         counts:add_word(word, 1)
      end
      counts[pair.a][pair.b] = nil
   end
   return by_merges(tokens, merges)
end

-- Use -------------------------------------------------------------------------------------------

local function lowest(self, parts)
   local at, least
   for i = 1, #parts - 1 do
      local rank = self.rank(parts[i], parts[i + 1])
      if rank and (not least or rank < least) then at, least = i, rank end
   end
   return at
end

local function encode_word(self, word)
   local known = self.cache[word]
   if known then return known end
   local parts = {}
   for i = 1, #word do parts[i] = word:sub(i, i) end
   local at = lowest(self, parts)
   while at do
      join(parts, parts[at], parts[at + 1])
      at = lowest(self, parts)
   end
   local numbers = {}
   for i, part in ipairs(parts) do
      numbers[i] = self.numbers[part]
      if not numbers[i] then
         torch.raise(("text.BPE.encode: the vocabulary lacks the token %q"):format(part))
      end
   end
   self.cache[word] = numbers
   return numbers
end

--- Returns the numbers of a text's tokens.
---@param text string
---@return integer[]
function BPE:encode(text)
   if type(text) ~= "string" then args.refuse("text.BPE.encode", "text", "a string", text) end
   local list, n = {}, 0
   for word in BPE.words(text) do
      for _, number in ipairs(encode_word(self, word)) do
         n = n + 1
         list[n] = number
      end
   end
   return list
end

--- Returns the text that tokens stand for.
---@param numbers integer[]|Tensor
---@return string
function BPE:decode(numbers)
   if torch.is_tensor(numbers) then numbers = numbers:reshape(-1):tolist() end
   if type(numbers) ~= "table" then
      args.refuse("text.BPE.decode", "numbers", "a list of integers or a tensor", numbers)
   end
   local parts, count, keys = {}, #numbers, 0
   for _ in next, numbers do keys = keys + 1 end
   if keys ~= count then -- a nil may stand before the last number
      for i in next, numbers do
         if math.type(i) == "integer" and i > count then count = i end
      end
   end
   for i = 1, count do
      local number = numbers[i]
      parts[i] = number ~= nil and self.tokens[number] or nil
      if not parts[i] then
         args.refuse("text.BPE.decode", "number " .. i, "an integer from 1 to " .. #self.tokens,
            number)
      end
   end
   return table.concat(parts)
end

--- Writes vocab.json and merges.txt, the files of Hugging Face's tokenizers. Raises an error if the
--- tokens come from a file of ranks, which has no list of merges.
---@param vocab string  a file's name
---@param merges string  a file's name
---@return true?
---@return string? message
function BPE:save(vocab, merges)
   for name, path in pairs {vocab = vocab or false, merges = merges or false} do
      if type(path) ~= "string" then
         args.refuse("text.BPE.save", name, "a file's name", path or nil)
      end
   end
   if not self.merges then torch.raise "text.BPE.save: tiktoken's ranks have no list of merges" end
   local numbers, lines = {}, {"#version: 0.2"}
   for number, token in ipairs(self.tokens) do numbers[in_characters(token)] = number - 1 end
   for i, pair in ipairs(self.merges) do
      lines[i + 1] = in_characters(pair[1]) .. " " .. in_characters(pair[2])
   end
   for path, text in pairs {[vocab] = json.encode(numbers), [merges] = table.concat(lines, "\n")} do
      local failure = replace_file(path, function(file)
         return select(2, file:write(text, "\n"))
      end)
      if failure then return nil, ("%s: %s"):format(path, failure) end
   end
   return true
end

return BPE
