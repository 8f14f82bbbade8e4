-- inner.lua - describes a tokenizer to the implementation in C (src/io/tokens.h). The description
-- consists of the model and of the steps that convert ASCII texts. If the C code does not support
-- one of the steps, tokenize.lua converts all chunks.

local bytes = require "tlua.text.tokenizer.bytes"
local characters = require "tlua.text.tokenizer.characters"
local pattern = require "tlua.text.tokenizer.pattern"
local torch = require "tlua"

local M = {}

-- The kinds of nodes and steps, numbered as in tokens.h.
local SET <const>, REPEAT <const>, CHOICE <const>, LOOK <const>, END <const> = 0, 1, 2, 3, 4
local MAP <const>, PREPEND <const>, STRIP <const>, REPLACE <const> = 0, 1, 2, 3
local SPELL <const>, CHECK <const>, SPLIT <const>, META <const>, SPACE <const> = 4, 5, 6, 7, 8

local unknown <const> = {} -- raised as an error if the C code does not support a step

local function give_up() error(unknown, 0) end

-- Patterns --------------------------------------------------------------------------------------

-- The nodes of a pattern are created from the last to the first. steps_of later reverses their
-- order and renumbers them.

local function add(nodes, node)
   nodes[#nodes + 1] = node
   return #nodes
end

local function bits_of(holds)
   local low, high = 0, 0
   for code = 0, 63 do
      if holds(code) then low = low | 1 << code end
      if holds(code + 64) then high = high | 1 << code end
   end
   return low, high
end

local function add_set(nodes, holds, next)
   local low, high = bits_of(holds)
   return add(nodes, {kind = SET, low = low, high = high, next = next})
end

local compile

local makers = {}

makers["set"] = function(nodes, node, next)
   return add_set(nodes, function(code) return node.set[code] end, next)
end

makers["sequence"] = function(nodes, node, next)
   for i = #node, 1, -1 do next = compile(nodes, node[i], next) end
   return next
end

local function add_choice(nodes, list)
   local other
   for i = #list, 1, -1 do
      other = add(nodes, {kind = CHOICE, inner = list[i], other = other})
   end
   return other
end

makers["choice"] = function(nodes, node, next)
   local list = {}
   for i, child in ipairs(node) do list[i] = compile(nodes, child, next) end
   return add_choice(nodes, list)
end

makers["repeat"] = function(nodes, node, next)
   local inner = node[1]
   if inner.kind == "set" and node.mode ~= "lazy" then
      local low, high = bits_of(function(code) return inner.set[code] end)
      return add(nodes, {kind = REPEAT, low = low, high = high, next = next, min = node.min,
         max = node.max < 10000 and node.max or nil, possessive = node.mode == "possessive"})
   elseif node.min == 0 and node.max == 1 and node.mode == "greedy" then
      return add_choice(nodes, {compile(nodes, inner, next), next})
   end
   return give_up()
end

makers["look"] = function(nodes, node, next)
   if node.behind then give_up() end
   local inner = compile(nodes, node[1], add(nodes, {kind = END}))
   return add(nodes, {kind = LOOK, inner = inner, negative = node.negative, next = next})
end

function compile(nodes, node, next)
   local maker = makers[node.kind] or give_up()
   return maker(nodes, node, next)
end

local function tree(nodes, node) return compile(nodes, node, add(nodes, {kind = END})) end

local function class(nodes, holds) return add_set(nodes, holds, add(nodes, {kind = END})) end

local function literal(nodes, text)
   if text == "" then give_up() end
   local next = add(nodes, {kind = END})
   for i = #text, 1, -1 do
      next = add_set(nodes, function(code) return code == text:byte(i) end, next)
   end
   return next
end

-- Steps -----------------------------------------------------------------------------------------

-- A state, to which the functions below add steps, has the lists `steps` and `nodes`, and a flag
-- that tells whether the text is still ASCII. If it is not, the character in `added` may be the
-- only non-ASCII character.

local function step(state, fields) table.insert(state.steps, fields) end

local function is_ascii(text) return not text:find "[\x80-\xFF]" end

local function map(state, of)
   local list = {}
   for code = 0, 127 do list[code + 1] = string.char(of(code)) end
   step(state, {kind = MAP, text = table.concat(list)})
end

local function lower(code) return code >= 65 and code <= 90 and code + 32 or code end

-- Returns the node of a compiled pattern, or nil if the pattern cannot match ASCII text.
local function node_of(state, regex)
   if regex.literal then
      return is_ascii(regex.literal) and literal(state.nodes, regex.literal) or nil
   end
   if not state.is_ascii then give_up() end
   return tree(state.nodes, regex.node)
end

local normalizers = {}

for _, name in ipairs {"NFC", "NFD", "NFKC", "NFKD", "StripAccents"} do
   normalizers[name] = function(state) return state.is_ascii or give_up() end
end

function normalizers.Lowercase(state) map(state, lower) end

function normalizers.BertNormalizer(state, part)
   local config = part.config
   if not state.is_ascii then give_up() end
   map(state, function(code)
      if config.clean_text and (code == 9 or code == 10) then return 32 end
      return config.lowercase and lower(code) or code
   end)
end

function normalizers.Nmt(state)
   if not state.is_ascii then give_up() end
   map(state, function(code) return (code == 9 or code == 10) and 32 or code end)
end

function normalizers.Precompiled(state, part)
   if not part.map then return end
   if not state.is_ascii then give_up() end
   map(state, function(code)
      local visible = code >= 32 and code < 127 or code == 9 or code == 10
      local new = visible and part.map.lookup(string.char(code), 1, false)
      if not new then return code end
      if #new ~= 1 or new:byte() >= 128 then give_up() end
      return new:byte()
   end)
end

function normalizers.Replace(state, part)
   local node, content = node_of(state, part.pattern), part.config.content
   if not node then return end
   step(state, {kind = REPLACE, pattern = node, text = content})
   state.is_ascii = state.is_ascii and is_ascii(content)
end

function normalizers.Prepend(state, part)
   local text = part.config.prepend
   step(state, {kind = PREPEND, text = text})
   state.is_ascii = state.is_ascii and is_ascii(text)
end

function normalizers.Strip(state, part)
   if not state.is_ascii then give_up() end
   step(state, {kind = STRIP, a = part.config.strip_left, b = part.config.strip_right})
end

local splitters = {}

local behaviors <const> = {Isolated = {}, Removed = {b = true}, Contiguous = {joins = 1},
   MergedWithPrevious = {joins = 2}, MergedWithNext = {joins = 3}}

local function split(state, node, behavior, inverts)
   local flags = behaviors[behavior or "Isolated"] or give_up()
   if node then
      step(state, {kind = SPLIT, pattern = node, a = inverts or false, b = flags.b,
         joins = flags.joins})
      if inverts and flags.joins and flags.joins > 1 then give_up() end
   elseif inverts then
      give_up()
   end
end

local function split_class(state, name, behavior)
   local set, added = characters.class(name), state.added
   if not state.is_ascii and (not added or set[utf8.codepoint(added)]) then give_up() end
   split(state, class(state.nodes, function(code) return set[code] end), behavior)
end

function splitters.WhitespaceSplit(state) split_class(state, "space", "Removed") end

function splitters.BertPreTokenizer(state)
   split_class(state, "space", "Removed")
   split_class(state, "punctuation")
end

function splitters.Whitespace(state)
   if not state.is_ascii then give_up() end
   split(state, tree(state.nodes, pattern.parse [[\w+|[^\w\s]+]]), "Removed", true)
end

function splitters.Punctuation(state, part)
   split_class(state, "punctuation", part.config.behavior)
end

function splitters.Digits(state, part)
   split_class(state, "numeric", part.config.individual_digits and "Isolated" or "Contiguous")
end

function splitters.UnicodeScripts(state)
   if not state.is_ascii then give_up() end
   split(state, tree(state.nodes, pattern.parse "[A-Za-z][A-Za-z ]*"))
end

function splitters.CharDelimiterSplit(state, part)
   local delimiter = part.config.delimiter
   if is_ascii(delimiter) then split(state, literal(state.nodes, delimiter), "Removed") end
end

function splitters.Split(state, part)
   local config = part.config
   if config.pattern.is_tiktoken then give_up() end
   split(state, node_of(state, part.pattern), config.behavior, config.invert)
end

function splitters.ByteLevel(state, part)
   if not state.is_ascii then give_up() end
   if part.config.add_prefix_space ~= false then step(state, {kind = SPACE}) end
   if part.split then split(state, tree(state.nodes, part.split.pattern.node)) end
   if part.keeps_bytes then return end
   local list = {}
   for code = 0, 127 do list[code + 1] = bytes.character[code] .. "\0" end
   step(state, {kind = SPELL, text = table.concat(list)})
   state.is_ascii = false
end

function splitters.Metaspace(state, part)
   local config = part.config
   local scheme = config.prepend_scheme
   if not scheme then scheme = config.add_prefix_space == false and "never" or "always" end
   step(state, {kind = META, text = config.replacement, a = scheme == "always",
      b = scheme == "first", splits = config.split ~= false})
   state.added = state.is_ascii and utf8.len(config.replacement) == 1 and config.replacement
   state.is_ascii = false
end

local function walk(state, known, part)
   if not part then return end
   if part.parts then
      for _, inner in ipairs(part.parts) do walk(state, known, inner) end
      return
   end
   local describe = part.config and known[part.config.type] or give_up()
   describe(state, part)
end

-- Adds a step to `state`. If the normalised text contains an added token, the C code stops at this
-- step, and tokenize.lua tokenizes the text instead.
local function check_added(state, finder)
   if finder.n == 0 then return end
   local list = {}
   for _, group in pairs(finder.by_byte) do
      for text in pairs(group.tokens) do
         if text:find "\0" then give_up() end
         list[#list + 1] = text .. "\0"
      end
   end
   local text = table.concat(list)
   if #text > 1000 then give_up() end
   step(state, {kind = CHECK, text = text})
end

local function steps_of(self)
   local state = {steps = {}, nodes = {}, is_ascii = true}
   walk(state, normalizers, self.normalizer)
   check_added(state, self.normalized)
   walk(state, splitters, self.pre_tokenizer)
   local list, n = {}, #state.nodes
   for i = n, 1, -1 do
      local node = state.nodes[i]
      for _, name in ipairs {"next", "inner", "other"} do
         if node[name] then node[name] = n + 1 - node[name] end
      end
      list[n + 1 - i] = node
   end
   for _, one in ipairs(state.steps) do
      if one.pattern then one.pattern = n + 1 - one.pattern end
   end
   return state.steps, list
end

--- Creates the C implementation of a tokenizer (src/io/tokens.h). Returns false if the C code does
--- not support the tokenizer's model.
---@param self text.Tokenizer
---@return userdata|false
function M.new(self)
   local config = self.model.inner and self.model:inner()
   if not config then return false end
   config.byte_ids = config.byte_ids or {}
   if self.chunked then
      local ok, steps, nodes = pcall(steps_of, self)
      if ok then
         config.steps, config.nodes = steps, nodes
      elseif steps ~= unknown then
         error(steps, 0)
      end
   end
   local ok, made = pcall(torch.io._tokens, config)
   return ok and made
end

return M
