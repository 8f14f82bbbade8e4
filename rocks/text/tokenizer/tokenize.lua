-- tokenize.lua - converts a text to tokens. First, added tokens are found. The text between added
-- tokens is normalised and split into words, and the model converts each word to tokens. Where the
-- tokenizer allows it, the text is cut into chunks whose tokens are cached (see chunks.lua).

local args = require "tlua.args"
local torch = require "tlua"
local Encoding = require "tlua.text.Encoding"
local chunks = require "tlua.text.tokenizer.chunks"
local inner = require "tlua.text.tokenizer.inner"
local pieces = require "tlua.text.tokenizer.pieces"

local M = {}

local most_known <const> = 200000

-- Returns the implementation of the tokenizer in C, which also caches the tokens of chunks. Returns
-- false if the C code does not support the model.
local function inner_of(self)
   local core = self.inner
   if core == nil or core and core:count() > most_known then
      core = inner.new(self)
      self.inner = core
   end
   return core
end

-- Returns the tokens of a word.
local function tokens_of(self, word)
   local found = self.words[word]
   if found then return found end
   local core = inner_of(self)
   local ids, first, last
   if core then ids, first, last = core:word(word) end
   found = ids and {ids = ids, first = first, last = last} or self.model:tokenize(word)
   if #word < 256 then
      if self.word_count >= most_known then self.words, self.word_count = {}, 0 end
      self.words[word], self.word_count = found, self.word_count + 1
   end
   return found
end

-- Appends the tokens of a piece that consists of one word.
local function add_word(self, piece, out)
   local found = tokens_of(self, piece.text)
   local ids, from, to, n = found.ids, found.first, found.last, out.n
   local all_ids, first, last, words = out.ids, out.first, out.last, out.words
   local word = out.word + 1
   out.word = word
   local starts, base = piece.starts, piece.base
   if starts then
      local ends, shift = piece.ends, piece.shift
      for i = 1, #ids do
         n = n + 1
         all_ids[n], words[n] = ids[i], word
         first[n] = (starts[shift + from[i]] or base) + 1
         last[n] = ends[shift + to[i]] or ends[shift + #piece.text]
      end
   else
      for i = 1, #ids do
         n = n + 1
         all_ids[n], words[n], first[n], last[n] = ids[i], word, base + from[i], base + to[i]
      end
   end
   if found.surface then
      out.surface = out.surface or {}
      for i, text in pairs(found.surface) do out.surface[out.n + i] = text end
   end
   out.n = n
end

-- Appends an added token, which counts as a word.
local function add_token(self, id, piece, out)
   local n = out.n + 1
   out.n, out.word = n, out.word + 1
   out.ids[n], out.words[n] = id, out.word
   if piece.starts then
      out.first[n] = piece.starts[piece.shift + 1] + 1
      out.last[n] = piece.ends[piece.shift + #piece.text]
   else
      out.first[n], out.last[n] = piece.base + 1, piece.base + #piece.text
   end
   if piece.text ~= self.tokens[id] then
      out.surface = out.surface or {}
      out.surface[n] = piece.text
   end
end

local function add_plain(self, piece, out)
   if piece.text == "" then return end
   if not self.pre_tokenizer then return add_word(self, piece, out) end
   local list = {}
   self.pre_tokenizer.apply(piece, list)
   for i = 1, #list do
      if list[i].text ~= "" then add_word(self, list[i], out) end
   end
end

-- Appends the tokens of a part of a text. The part may contain those added tokens that are searched
-- after normalisation, but no others.
local function add_piece(self, piece, ends, out)
   if self.normalizer then self.normalizer.apply(piece, ends) end
   local found = self.normalized:find(piece.text)
   local at = 1
   for k = 1, #found, 3 do
      local first, last = found[k], found[k + 1]
      if first > at then add_plain(self, pieces.slice(piece, at, first - 1), out) end
      add_token(self, found[k + 2], pieces.slice(piece, first, last), out)
      at = last + 1
   end
   if at == 1 then return add_plain(self, piece, out) end
   if at <= #piece.text then
      add_plain(self, pieces.slice(piece, at, #piece.text), out)
   end
end

local function new_output()
   return {n = 0, word = 0, ids = {}, first = {}, last = {}, words = {}}
end

-- Returns the tokens of a part of a text. Their offsets are relative to `base`.
local function part_tokens(self, text, base, ends)
   local out = new_output()
   local piece = pieces.new(text, base)
   add_piece(self, piece, ends, out)
   for i = 1, out.n do out.first[i], out.last[i] = out.first[i] - base, out.last[i] - base end
   return out, piece.drifts
end

-- Appends the tokens of a part. Their offsets are computed only when they are read. For this,
-- `parts` stores the part's tokens, the byte before the part, and the number of the word before it.
local function append(all, found, base)
   local n, count, parts, m = all.n, found.n, all.parts, all.m
   table.move(found.ids, 1, count, n + 1, all.ids)
   parts[m + 1], parts[m + 2], parts[m + 3] = found, base, all.word
   all.n, all.m = n + count, m + 3
   if found.surface then
      all.surface = all.surface or {}
      for i, surface in pairs(found.surface) do all.surface[n + i] = surface end
   end
end

-- Computes and caches the tokens of a chunk, and returns them. Returns false if the tokens of the
-- text that follows depend on this chunk.
local function learn(self, known, chunk, flag, base, ends)
   local found, drifts = part_tokens(self, chunk, base, ends)
   if drifts then found = false end
   if found and self.inner and not found.surface and #chunk <= 256 then
      self.inner:put(chunk, flag, found)
   elseif #chunk < 256 then
      if self.known_count >= most_known then
         self.known, self.known_count = {{}, {}, {}, {}, {}, {}}, 0
      else
         known[chunk] = found
      end
      self.known_count = self.known_count + 1
   end
   return found
end

-- Appends the tokens of a text from byte `at` to byte `stop`, chunk by chunk. Returns false if the
-- tokens of a chunk depend on the chunks beside it.
local function add_chunks(self, text, at, stop, all)
   local begun_n, begun_m, begun_word, begun = all.n, all.m, all.word, at
   local splits, chunk_end, core = self.splits, chunks.chunk_end, inner_of(self)
   while at <= stop do
      if core then
         local after, ids, n, words, places = core:encode(text, at, stop, begun, chunks.safe, all.n,
            all.n > 0 and all.ids or nil)
         if after > at then
            local m = all.m
            all.parts[m + 1], all.parts[m + 2], all.parts[m + 3] =
               {n = n - all.n, inner = core, places = places, splits = splits}, 0, all.word
            all.ids, all.n, all.m, at = ids, n, m + 3, after
            if splits then all.word = all.word + words end
            if at > stop then break end
         end
      end
      local cut = chunk_end(text, at, stop)
      local chunk, place = text:sub(at, cut), at == 1 and 1 or at == begun and 2 or 3
      local known = self.known[place + (cut == stop and 3 or 0)]
      local found = known[chunk]
      if found == nil then
         found = learn(self, known, chunk, place + (cut == stop and 4 or 0), at - 1,
            {first = place < 3, last = cut == stop})
      end
      if not found then
         for i = all.n, begun_n + 1, -1 do
            all.ids[i] = nil
            if all.surface then all.surface[i] = nil end
         end
         for i = all.m, begun_m + 1, -1 do all.parts[i] = nil end
         all.n, all.m, all.word = begun_n, begun_m, begun_word
         return false
      end
      append(all, found, at - 1)
      if splits then all.word = all.word + found.word end
      at = cut + 1
   end
   if not splits then all.word = all.word + 1 end
   return true
end

-- Returns whether a part of a text must not be cut into chunks. This is the case if its normalised
-- form has an added token that may span several chunks, or if the pre-tokeniser needs the whole
-- text.
local function is_whole(self, text, first, last)
   local needs_whole = self.pre_tokenizer and self.pre_tokenizer.needs_whole
   if needs_whole and needs_whole(text:sub(first, last)) then return true end
   if not self.wide then return false end
   local piece = pieces.new(text:sub(first, last), 0)
   if self.normalizer then self.normalizer.apply(piece, {first = true, last = true}) end
   for _, pattern in ipairs(self.wide) do
      if piece.text:find(pattern, 1, true) then return true end
   end
   return false
end

local function add_part(self, text, first, last, all)
   if self.chunked and not is_whole(self, text, first, last)
         and add_chunks(self, text, first, last, all) then
      return
   end
   local found = part_tokens(self, text:sub(first, last), first - 1, {first = true, last = true})
   append(all, found, first - 1)
   all.word = all.word + found.word
end

local function add_text(self, text, all)
   local found, at = self.raw:find(text), 1
   for k = 1, #found, 3 do
      local first, last = found[k], found[k + 1]
      if first > at then add_part(self, text, at, first - 1, all) end
      local out = new_output()
      add_token(self, found[k + 2], pieces.new(text:sub(first, last), 0), out)
      append(all, out, first - 1)
      all.word = all.word + 1
      at = last + 1
   end
   if at <= #text then add_part(self, text, at, #text, all) end
end

local function check_text(what, text)
   if type(text) ~= "string" then
      args.refuse("text.Tokenizer.encode", what, "a string or a list of strings", text)
   end
   local length, at = utf8.len(text)
   if not length then
      torch.raise(("text.Tokenizer.encode: %s: expected UTF-8, byte %d is not"):format(what, at))
   end
end

local function tokenize(self, what, text)
   local all = {n = 0, m = 0, word = 0, ids = {}, parts = {}}
   if type(text) == "table" and not getmetatable(text) then
      all.list_words = {}
      local count = 0
      for i in pairs(text) do
         if math.type(i) == "integer" and i > count then count = i end
      end
      for i = 1, count do
         local word = text[i]
         check_text(("%s[%d]"):format(what, i), word)
         local before = all.n
         add_text(self, word, all)
         for k = before + 1, all.n do all.list_words[k] = i end
      end
   else
      check_text(what, text)
      add_text(self, text, all)
   end
   return all
end

--- Returns the encoding of one text, without special tokens.
---@param self text.Tokenizer
---@param what string  the argument's name, for errors
---@param text string|string[]  a text, or the list of its words
---@param kind integer  1 for the first text of a pair, 2 for the second
---@return text.Encoding
function M.encode_one(self, what, text, kind)
   local ok, all = pcall(tokenize, self, what, text)
   if not ok then
      if type(all) == "string" and not all:find "text%.Tokenizer" then
         if all:find "stack overflow" then all = "a pattern repeats a group too often" end
         torch.raise("text.Tokenizer.encode: " .. all)
      end
      error(all, 0)
   end
   local encoding = Encoding()
   encoding.ids, encoding.parts, encoding.surface = all.ids, all.parts, all.surface
   encoding.vocabulary = self.tokens
   encoding.runs = {{count = all.n, type = kind, sequence = kind}}
   if all.list_words then
      encoding.words, encoding.texts = all.list_words, text
   else
      encoding.text = text
   end
   return encoding
end

return M
