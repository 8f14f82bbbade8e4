-- sentencepiece.lua - reads SentencePiece's model files. A file is a protocol buffer with the
-- pieces, the type of the model (unigram or BPE), and the rules by which texts are normalised.

local bpe = require "tlua.text.tokenizer.bpe"
local charsmap = require "tlua.text.tokenizer.charsmap"
local decoders = require "tlua.text.tokenizer.decoders"
local models = require "tlua.text.tokenizer.models"
local pieces = require "tlua.text.tokenizer.pieces"
local protobuf = require "tlua.utils.protobuf"

local M = {}

local space <const> = "\u{2581}"

-- Calls fn(field, value) for each field of a protocol-buffer message.
local function each_field(text, fail, fn)
   local damaged = protobuf.each(text, fn)
   if damaged then fail(("expected a protocol buffer, byte %d is wrong"):format(damaged)) end
end

-- Reads a piece of the vocabulary from its message `text`, and appends it to the model's lists.
local function read_piece(model, text, fail)
   local id = #model.texts + 1
   model.texts[id], model.scores[id], model.kinds[id] = "", 0.0, 1
   each_field(text, fail, function(field, value)
      if field == 1 and type(value) == "string" then model.texts[id] = value end
      if field == 2 and math.type(value) == "float" then model.scores[id] = value end
      if field == 3 and math.type(value) == "integer" then model.kinds[id] = value end
   end)
end

--- Reads a model file. Returns a description for `make`.
---@param text string
---@param fail fun(why: string)
---@return table model
function M.read(text, fail)
   local model = {texts = {}, scores = {}, kinds = {}, kind = 1, has_prefix = true,
      collapses = true, escapes = true}
   each_field(text, fail, function(field, value)
      if type(value) ~= "string" then return end
      if field == 1 then
         read_piece(model, value, fail)
      elseif field == 2 then
         each_field(value, fail, function(inner, setting)
            if inner == 3 then model.kind = setting end
            if inner == 35 then model.byte_fallback = setting == 1 end
            if inner == 24 then model.suffixes = setting == 1 end
         end)
      elseif field == 3 then
         each_field(value, fail, function(inner, setting)
            if inner == 2 then model.charsmap = setting end
            if inner == 3 then model.has_prefix = setting == 1 end
            if inner == 4 then model.collapses = setting == 1 end
            if inner == 5 then model.escapes = setting == 1 end
         end)
      end
   end)
   if #model.texts == 0 then fail "expected a SentencePiece model, which has pieces" end
   return model
end

-- Normalisation ---------------------------------------------------------------------------------

-- Returns a function that normalises the beginning of a text. It returns the normalised text and
-- the position of the first byte that it has not read.
local function prefix_of(model, symbols, fail)
   local map
   if model.charsmap and model.charsmap ~= "" then
      local why
      map, why = charsmap.new(model.charsmap)
      if not map then fail("precompiled_charsmap: " .. why) end
   end
   return function(text, at)
      for _, symbol in ipairs(symbols) do
         if text:sub(at, at + #symbol - 1) == symbol then return symbol, at + #symbol end
      end
      if map then
         local new, length = map.lookup(text, at, true)
         if new then return new, at + length end
      end
      local after = utf8.offset(text, 2, at)
      return text:sub(at, after - 1), after
   end
end

local function normalizer(model, symbols, fail)
   local prefix, mark = prefix_of(model, symbols, fail), model.escapes and space or " "
   return {is_local = true, by_ends = true, apply = function(piece, ends)
      local text, base = piece.text, piece.base
      local parts, starts, ends_of, n = {}, {}, {}, 0
      local function add(part, from, to)
         parts[#parts + 1] = part
         for _ = 1, #part do
            n = n + 1
            starts[n], ends_of[n] = base + from, base + to
         end
      end
      local at, previous = 1, false
      if model.collapses and ends.first then
         while at <= #text do
            local new, after = prefix(text, at)
            if new ~= " " then break end
            at = after
         end
         previous = true
      end
      if at <= #text and ends.first and model.has_prefix then add(mark, at - 1, at - 1) end
      while at <= #text do
         local new, after = prefix(text, at)
         if previous then new = new:gsub("^ +", "") end
         if new ~= "" then
            for character in new:gmatch(pieces.character) do
               add(character == " " and mark or character, at - 1, after - 1)
            end
            previous = model.collapses and new:sub(-1) == " "
         end
         at = after
      end
      local whole = table.concat(parts)
      if model.collapses and ends.last then
         while whole:sub(-#mark) == mark do whole = whole:sub(1, -#mark - 1) end
      end
      piece.text, piece.starts, piece.ends, piece.shift = whole, starts, ends_of, 0
   end}
end

-- Models ----------------------------------------------------------------------------------------

-- Returns the ranks of tokens. The token with the highest score has the lowest rank. Returns nil if
-- the order of the ranks is the order of the tokens' numbers.
local function ranks_of(model)
   local scores, kinds, previous = model.scores, model.kinds, math.huge
   local order, ranks, is_ordered = {}, {}, true
   for id, score in ipairs(scores) do
      if kinds[id] == 1 then
         is_ordered = is_ordered and score < previous
         previous = score
      end
   end
   if is_ordered then return nil end
   for id in ipairs(scores) do order[id] = id end
   table.sort(order, function(a, b)
      if scores[a] ~= scores[b] then return scores[a] > scores[b] end
      return a < b
   end)
   for i, id in ipairs(order) do
      local before = order[i - 1]
      ranks[id] = before and scores[before] == scores[id] and ranks[before] or i
   end
   return ranks
end

local function longest_first(a, b) return #a > #b or #a == #b and a < b end

local function decoder(self, model, unknown)
   return function(tokens)
      local parts = {}
      for i, token in ipairs(tokens) do
         local code = self.kinds:byte(self.ids[token] or 0) == 6 and token:match "^<0x(%x%x)>$"
         parts[i] = code and string.char(tonumber(code, 16))
            or token == unknown and " \u{2047} " or token
      end
      local text = decoders.repair(table.concat(parts))
      if (model.has_prefix or model.collapses) and text:sub(1, #space) == space then
         text = text:sub(#space + 1)
      end
      return {(text:gsub(space, " "))}
   end
end

-- Stores the numbers of the pieces in `self`, and a string of their kinds, with one byte for each
-- piece. The kinds are 1 ordinary, 2 unknown, 3 control, 4 user-defined, 5 unused and 6 byte.
-- Returns the number of the unknown piece and the list of the user-defined texts.
local function sort_pieces(self, model, fail)
   local symbols, kinds, unknown = {}, {}, nil
   for id, text in ipairs(model.texts) do
      if self.ids[text] then fail(("piece %d: %q occurs twice"):format(id - 1, text)) end
      local kind = model.kinds[id]
      self.ids[text], kinds[id] = id, string.char(kind >= 1 and kind <= 6 and kind or 0)
      if kind == 2 then
         unknown = unknown or id
      elseif kind == 3 then
         self.special[text] = true
      elseif kind == 4 then
         table.insert(symbols, text)
      end
   end
   self.kinds = table.concat(kinds)
   table.sort(symbols, longest_first)
   return unknown or fail "expected a piece for what is unknown", symbols
end

-- Returns the numbers of the tokens that may be found in texts, which are all tokens except unknown
-- and control tokens.
local function encoded(self)
   local ids = {}
   for token, id in pairs(self.ids) do
      local kind = self.kinds:byte(id)
      if kind ~= 2 and kind ~= 3 then ids[token] = id end
   end
   return ids
end

local function unigram(self, model, options)
   local least, most, found, scores = math.huge, -math.huge, {}, {}
   for id, text in ipairs(model.texts) do
      local kind, score = model.kinds[id], model.scores[id]
      if kind == 1 then least, most = math.min(least, score), math.max(most, score) end
      if kind == 1 or kind == 4 then found[text] = id end
   end
   for id, text in ipairs(model.texts) do
      scores[id] = model.kinds[id] == 4 and #text * most - 0.1 or model.scores[id]
   end
   options.byte_ids = {}
   for byte = 0, 255 do
      local text = ("<0x%02X>"):format(byte)
      options.byte_ids[text] = self.ids[text]
   end
   return models.single_unigram(found, scores, least, options)
end

--- Makes the parts of a tokenizer. The list `texts` becomes a part of the tokenizer and must not be
--- changed later.
---@param model table  texts, scores and kinds: lists with an item for each piece; kind: 1 for a
--- unigram model, 2 for BPE; byte_fallback; suffixes; charsmap; has_prefix, collapses, escapes
---@param fail fun(why: string)
---@return table parts  of a tokenizer
function M.make(model, fail)
   if model.kind ~= 1 and model.kind ~= 2 then
      fail(("expected the model type 1 (unigram) or 2 (BPE), got %s"):format(model.kind))
   end
   if model.suffixes then fail "treat_whitespace_as_suffix is not supported" end
   local self = {ids = {}, tokens = model.texts, special = {}, added_tokens = {}, space = space}
   local unknown, symbols = sort_pieces(self, model, fail)
   local options = {unknown = unknown, byte_fallback = model.byte_fallback}
   if model.kind == 2 then
      options.fuses, options.ranks = true, ranks_of(model)
      options.frozen = #symbols > 0 and symbols or nil
      options.tokens, options.kinds = self.tokens, self.kinds
      self.model = bpe.by_rank(encoded(self), options)
   else
      self.model = unigram(self, model, options)
   end
   -- The normaliser and the decoder hold this small table instead of `model`, so that the lists of
   -- `model` can be freed.
   local settings = {charsmap = model.charsmap, has_prefix = model.has_prefix,
      collapses = model.collapses, escapes = model.escapes}
   self.normalizer = normalizer(settings, symbols, fail)
   self.decoder = decoder(self, settings, self.tokens[unknown])
   return self
end

return M
