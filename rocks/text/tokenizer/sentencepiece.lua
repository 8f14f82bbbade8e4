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

local function read_piece(text, fail)
   local piece = {text = "", score = 0.0, kind = 1}
   each_field(text, fail, function(field, value)
      if field == 1 and type(value) == "string" then piece.text = value end
      if field == 2 and math.type(value) == "float" then piece.score = value end
      if field == 3 and math.type(value) == "integer" then piece.kind = value end
   end)
   return piece
end

local function read_model(text, fail)
   local model = {pieces = {}, kind = 1, has_prefix = true, collapses = true, escapes = true}
   each_field(text, fail, function(field, value)
      if type(value) ~= "string" then return end
      if field == 1 then
         table.insert(model.pieces, read_piece(value, fail))
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
   if #model.pieces == 0 then fail "expected a SentencePiece model, which has pieces" end
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

-- Returns the ranks of tokens. The token with the highest score has the lowest rank.
local function ranks_of(list)
   local order, ranks = {}, {}
   for id in ipairs(list) do order[id] = id end
   table.sort(order, function(a, b)
      if list[a].score ~= list[b].score then return list[a].score > list[b].score end
      return a < b
   end)
   for i, id in ipairs(order) do
      local before = order[i - 1]
      ranks[id] = before and list[before].score == list[id].score and ranks[before] or i
   end
   return ranks
end

local function longest_first(a, b) return #a > #b or #a == #b and a < b end

local function decoder(self, model, unknown)
   return function(tokens)
      local parts = {}
      for i, token in ipairs(tokens) do
         local code = self.kinds[token] == 6 and token:match "^<0x(%x%x)>$"
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

-- Sorts the pieces into lists by their types, which are 1 ordinary, 2 unknown, 3 control, 4
-- user-defined, 5 unused and 6 byte.
local function sort_pieces(self, model, fail)
   local sorted = {ordinary = {}, found = {}, symbols = {}, least = math.huge, most = -math.huge}
   for id, piece in ipairs(model.pieces) do
      if self.ids[piece.text] then
         fail(("piece %d: %q occurs twice"):format(id - 1, piece.text))
      end
      self.ids[piece.text], self.tokens[id], self.kinds[piece.text] = id, piece.text, piece.kind
      if piece.kind == 1 then
         sorted.ordinary[piece.text], sorted.found[piece.text] = id, id
         sorted.least = math.min(sorted.least, piece.score)
         sorted.most = math.max(sorted.most, piece.score)
      elseif piece.kind == 2 then
         sorted.unknown = sorted.unknown or id
      elseif piece.kind == 3 then
         self.special[piece.text] = true
      elseif piece.kind == 4 then
         sorted.found[piece.text] = id
         table.insert(sorted.symbols, piece.text)
      end
   end
   table.sort(sorted.symbols, longest_first)
   if not sorted.unknown then fail "expected a piece for what is unknown" end
   return sorted
end

--- Reads a model file.
---@param text string
---@param fail fun(why: string)
---@return table parts  of a tokenizer
function M.read(text, fail)
   local model = read_model(text, fail)
   if model.kind ~= 1 and model.kind ~= 2 then
      fail(("expected the model type 1 (unigram) or 2 (BPE), got %s"):format(model.kind))
   end
   if model.suffixes then fail "treat_whitespace_as_suffix is not supported" end
   local self = {ids = {}, tokens = {}, special = {}, added_tokens = {}, kinds = {}, space = space}
   local sorted = sort_pieces(self, model, fail)
   local options = {unknown = sorted.unknown, byte_fallback = model.byte_fallback}
   if model.kind == 2 then
      options.fuses, options.ranks = true, ranks_of(model.pieces)
      options.frozen = #sorted.symbols > 0 and sorted.symbols or nil
      options.vocab = {}
      for token, id in pairs(self.ids) do
         if self.kinds[token] ~= 2 and self.kinds[token] ~= 3 then options.vocab[token] = id end
      end
      self.model = bpe.by_rank(sorted.ordinary, options)
   else
      local scores = {}
      for id, piece in ipairs(model.pieces) do
         local is_symbol = piece.kind == 4
         scores[id] = is_symbol and #piece.text * sorted.most - 0.1 or piece.score
      end
      options.byte_ids = self.ids
      self.model = models.single_unigram(sorted.found, scores, sorted.least, options)
   end
   self.normalizer = normalizer(model, sorted.symbols, fail)
   self.decoder = decoder(self, model, self.tokens[sorted.unknown])
   local ids = {}
   for token, id in pairs(self.ids) do ids[token] = id end
   self.ids = ids
   return self
end

return M
