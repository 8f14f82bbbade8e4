-- Encoding.lua - the tokens of a text. Arrays hold the tokens' numbers, first and last bytes, and
-- words. The other fields are computed when they are first read, from a list of runs. A run is a
-- group of adjacent tokens that come from the same text, have the same type, and are all ordinary,
-- special or padding tokens. It stores these properties and its number of tokens.

local args = require "tlua.args"
local class = require "tlua.class"
local torch = require "tlua"

--- The tokens of a text, or of a pair of texts, with their places in the text.
---
---     local Tokenizer = torch.text.Tokenizer
---     local tokenizer = assert(Tokenizer.from_str(Tokenizer.example))
---     local encoding = tokenizer:encode "low lower"
---     local first, last = table.unpack(encoding.offsets[2])
---     print(table.concat(encoding.tokens, "|"), first, last)
---     --> low|Ġlow|er	4	7
---@class text.Encoding
---@field ids integer[]  the numbers of the tokens, from 1: positions in an embedding
---@field file_ids integer[]  the numbers as in the tokenizer's file, from 0
---@field type_ids integer[]  1 for tokens of the first text, 2 for tokens of the second
---@field tokens string[]  the texts of the tokens in the vocabulary
---@field offsets integer[][]  the first and last byte of each token in its text; {1, 0} for tokens
--- that do not come from a text
---@field word_ids (integer|false)[]  the word of its text that each token belongs to, from 1; false
--- for tokens that do not come from a text
---@field sequence_ids (integer|false)[]  1 for tokens of the first text, 2 for tokens of the
--- second, false for tokens that do not come from a text
---@field attention_mask integer[]  0 for padding
---@field special_tokens_mask integer[]  1 for tokens that do not come from a text
---@field overflowing text.Encoding[]  the parts that truncation has cut off
local Encoding = class.class("text.Encoding")

local lazy = {}

-- Returns a list with one entry for each token: of(run), where `run` is the run that contains the
-- token.
local function spread(self, of)
   local list, n = {}, 0
   for _, run in ipairs(self.runs) do
      local value = of(run)
      for i = n + 1, n + run.count do list[i] = value end
      n = n + run.count
   end
   return list
end

function lazy.type_ids(self) return spread(self, function(run) return run.type end) end

function lazy.sequence_ids(self)
   return spread(self, function(run) return run.sequence or false end)
end

function lazy.attention_mask(self)
   return spread(self, function(run) return run.is_padding and 0 or 1 end)
end

function lazy.special_tokens_mask(self)
   return spread(self, function(run) return run.is_special and 1 or 0 end)
end

function lazy.file_ids(self)
   local list = {}
   for i, id in ipairs(self.ids) do list[i] = id - 1 end
   return list
end

function lazy.word_ids(self)
   local list, words = {}, self.words
   for i = 1, #self.ids do list[i] = words[i] end
   return list
end

function lazy.offsets(self)
   local list, first, last = {}, self.first, self.last
   for i = 1, #first do list[i] = {first[i], last[i]} end
   return list
end

function lazy.tokens(self)
   local list, surface, tokens = {}, rawget(self, "surface"), self.vocabulary
   for i, id in ipairs(self.ids) do list[i] = surface and surface[i] or tokens[id] end
   return list
end

function lazy.overflowing() return {} end

-- Computes the arrays `first`, `last` and `words` from self.parts, in which tokenize.lua stores
-- three values for each part of the text: its tokens, the position before its first byte, and the
-- number of words before it.
local function place(self)
   local first, last, words, n, parts = {}, {}, {}, 0, self.parts
   for k = 1, #parts, 3 do
      local found, base, word = parts[k], parts[k + 1], parts[k + 2]
      if found.places then
         n = found.inner:place(found.places, n, first, last, words, word, found.splits)
         goto continue
      end
      local from, to, of = found.first, found.last, found.words
      for i = 1, found.n do
         n = n + 1
         first[n], last[n] = base + from[i], base + to[i]
         words[n] = of[i] and word + of[i]
      end
      ::continue::
   end
   self.first, self.last = first, last
   if not rawget(self, "words") then self.words = words end
   self.parts = nil
   if self.trims then self.trims(self) end
end

for _, name in ipairs {"first", "last", "words"} do
   lazy[name] = function(self)
      place(self)
      return self[name]
   end
end

class.index_by(Encoding, function(cls)
   return function(self, key)
      local compute = lazy[key]
      if not compute then return rawget(cls, key) end
      local value = compute(self)
      rawset(self, key, value)
      return value
   end
end)

function Encoding:__len() return #self.ids end

function Encoding:__tostring()
   return ("text.Encoding(%d tokens)"):format(#self.ids)
end

-- Returns an encoding with the tokens from `first` to `last`.
local function part(self, first, last)
   local new, count = Encoding(), last - first + 1
   for _, key in ipairs {"ids", "first", "last", "words"} do
      new[key] = table.move(self[key], first, last, 1, {})
   end
   if self.surface then
      new.surface = {}
      for i = 1, count do new.surface[i] = self.surface[first + i - 1] end
   end
   local run = self.runs[1] or {type = 1}
   new.runs = {{count = count, type = run.type, sequence = run.sequence}}
   new.vocabulary, new.text, new.texts = self.vocabulary, self.text, self.texts
   return new
end

-- Cuts an encoding that has one run to at most `most` tokens. The remaining tokens go to
-- `overflowing`, in parts of at most `most` tokens. Adjacent parts have `stride` tokens in common.
function Encoding:_truncate(most, stride, direction)
   local n = #self.ids
   if most >= n then return self end
   if most == 0 then
      local new = part(self, 1, 0)
      new.overflowing = {self}
      return new
   end
   local parts, step = {}, most - stride
   if direction == "left" then
      local stop = n
      repeat
         local start = math.max(1, stop - most + 1)
         parts[#parts + 1] = part(self, start, stop)
         stop = stop - step
      until start == 1
   else
      local start = 1
      repeat
         local stop = math.min(n, start + most - 1)
         parts[#parts + 1] = part(self, start, stop)
         start = start + step
      until stop == n
   end
   local new = table.remove(parts, 1)
   new.overflowing = parts
   return new
end

local function append(into, from)
   local n, count = #into.ids, #from.ids
   for _, key in ipairs {"ids", "first", "last", "words"} do
      table.move(from[key], 1, count, n + 1, into[key])
   end
   for i, text in pairs(from.surface or {}) do
      into.surface = into.surface or {}
      into.surface[n + i] = text
   end
   for _, run in ipairs(from.runs) do
      local copy = {}
      for key, value in pairs(run) do copy[key] = value end
      table.insert(into.runs, copy)
   end
end

local function joined(a, b)
   local new = Encoding._empty(a.vocabulary or b.vocabulary)
   append(new, a)
   append(new, b)
   return new
end

-- Returns an encoding with the tokens of this encoding followed by those of `other`. Its
-- `overflowing` has every other combination of a part of this encoding with a part of `other`. The
-- parts are the kept tokens and those that truncation has cut off.
function Encoding:_merge(other)
   local new = joined(self, other)
   local cut, others = rawget(self, "overflowing") or {}, rawget(other, "overflowing") or {}
   if #cut + #others == 0 then return new end
   local list = {}
   for _, mine in ipairs(cut) do
      list[#list + 1] = joined(mine, other)
      for _, theirs in ipairs(others) do list[#list + 1] = joined(mine, theirs) end
   end
   for _, theirs in ipairs(others) do list[#list + 1] = joined(self, theirs) end
   new.overflowing = list
   return new
end

-- Returns one encoding with the tokens of all encodings of a list, in order. If only one encoding
-- comes from a text and all others are special tokens, the encoding of the text is changed in place
-- and returned.
function Encoding._join(list, vocabulary)
   local text, simple = nil, true
   for _, encoding in ipairs(list) do
      if not rawget(encoding, "n") then
         simple = simple and not text and rawget(encoding, "parts") ~= nil
            and not rawget(encoding, "overflowing") and not rawget(encoding, "words")
         text = text or encoding
      end
   end
   if #list == 1 and text then return text end
   if not simple or not text then
      local whole = Encoding._empty(vocabulary)
      for i = 1, #list do whole = whole:_merge(list[i]) end
      return whole
   end
   local ids, parts, runs, before = text.ids, {}, {}, 0
   for _, encoding in ipairs(list) do
      if encoding == text then break end
      before = before + encoding.n
   end
   local count, n = #ids, 0
   table.move(ids, 1, count, before + 1)
   for _, encoding in ipairs(list) do
      local m = #parts
      table.move(encoding.runs, 1, #encoding.runs, #runs + 1, runs)
      if encoding == text then
         table.move(text.parts, 1, #text.parts, m + 1, parts)
         n = n + count
      else
         table.move(encoding.ids, 1, encoding.n, n + 1, ids)
         parts[m + 1], parts[m + 2], parts[m + 3] = encoding, 0, 0
         n = n + encoding.n
      end
   end
   if text.surface and before > 0 then
      local surface = {}
      for i, value in pairs(text.surface) do surface[before + i] = value end
      text.surface = surface
   end
   text.parts, text.runs, text.before = parts, runs, before
   return text
end

-- Returns an encoding without tokens.
function Encoding._empty(vocabulary)
   local new = Encoding()
   new.ids, new.first, new.last, new.words, new.runs = {}, {}, {}, {}, {}
   new.vocabulary = vocabulary
   return new
end

-- Returns an encoding of special tokens, which are not part of a text.
function Encoding._special(vocabulary, ids, tokens, kind)
   local new = Encoding._empty(vocabulary)
   for i, id in ipairs(ids) do
      new.ids[i], new.first[i], new.last[i], new.words[i] = id, 1, 0, false
      if tokens and tokens[i] ~= vocabulary[id] then
         new.surface = new.surface or {}
         new.surface[i] = tokens[i]
      end
   end
   -- Other functions recognise an encoding of special tokens by its field n.
   new.runs[1], new.n = {count = #ids, type = kind, is_special = true}, #ids
   return new
end

local pad_arguments = args.signature [[text.Encoding.pad(length: integer,
   direction: string = 'right', pad_id: integer = 1, pad_type_id: integer = 1,
   pad_token: string = '[PAD]')]]

-- Pads one encoding with the arguments `a` of Encoding.pad. Its overflowing parts are not padded.
local function pad(self, a)
   local count = a.length - #self.ids
   if count <= 0 then return end
   local ids, tokens = {}, {}
   for i = 1, count do ids[i], tokens[i] = a.pad_id, a.pad_token end
   local padding = Encoding._special(self.vocabulary, ids, tokens, a.pad_type_id)
   padding.runs[1].is_padding = true
   local new = a.direction == "left" and joined(padding, self) or joined(self, padding)
   for key in pairs(lazy) do
      if key ~= "overflowing" then self[key] = nil end
   end
   for _, key in ipairs {"ids", "first", "last", "words", "runs", "surface"} do
      self[key] = new[key]
   end
end

--- Appends padding to this encoding, in place, and to the parts that truncation has cut off.
---@param length integer  the least number of tokens after padding
---@param options? {direction: string, pad_id: integer, pad_type_id: integer, pad_token: string}
--- direction: the end at which padding is added, "right" or "left"; pad_id: the padding's number,
--- from 1; pad_type_id: the padding's type, from 1; pad_token: the padding's text
---@return text.Encoding self
function Encoding:pad(length, options)
   local a = pad_arguments(length, options)
   if a.direction ~= "left" and a.direction ~= "right" then
      args.refuse("text.Encoding.pad", "direction", "left or right", a.direction)
   end
   for _, other in ipairs(self.overflowing) do pad(other, a) end
   pad(self, a)
   return self
end

local function check_position(name, what, value, sequence)
   if type(value) ~= "number" then args.refuse(name, what, "an integer", value) end
   if sequence ~= nil and sequence ~= 1 and sequence ~= 2 then
      args.refuse(name, "sequence", "1 or 2", sequence)
   end
end

--- Returns the positions of a word's first and last token.
---@param word integer  from 1
---@param sequence? integer  1 for the first text, which is the default, 2 for the second
---@return integer? first  nil if the word has no token
---@return integer? last
function Encoding:word_to_tokens(word, sequence)
   check_position("text.Encoding.word_to_tokens", "word", word, sequence)
   local first, last
   for i, of in ipairs(self.sequence_ids) do
      if of == (sequence or 1) and self.words[i] == word then first, last = first or i, i end
   end
   return first, last
end

--- Returns the position of the token that contains a byte of a text, or nil if there is none.
---@param byte integer  from 1
---@param sequence? integer  1 for the first text, which is the default, 2 for the second
---@return integer?
function Encoding:byte_to_token(byte, sequence)
   check_position("text.Encoding.byte_to_token", "byte", byte, sequence)
   for i, of in ipairs(self.sequence_ids) do
      if of == (sequence or 1) and byte >= self.first[i] and byte <= self.last[i] then return i end
   end
   return nil
end

--- Returns the numbers of the tokens as a tensor of int64.
---@return Tensor
function Encoding:tensor() return torch.tensor(self.ids, {dtype = "int64"}) end

return Encoding
