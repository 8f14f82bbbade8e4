-- regex.lua - matches the regular expressions of tokenizers. The nodes of a pattern's syntax tree
-- are compiled to functions m(text, at), which return the position after the match, or nil. The
-- function of a node calls the function of the rest of the pattern, so matching creates neither
-- tables nor closures.

local characters = require "tlua.text.tokenizer.characters"
local pattern = require "tlua.text.tokenizer.pattern"

local M = {}

local byte, find, codepoint = string.byte, string.find, utf8.codepoint

-- The largest number of attempts at one match, as in Oniguruma. Patterns such as (a+)+b may exceed
-- it.
local most_attempts <const> = 10000000
local attempts = 0

local function attempt()
   attempts = attempts + 1
   if attempts > most_attempts then
      error(("the text needs more than %d attempts for one match of a pattern"):format(
         most_attempts), 0)
   end
end

local function character_end(text, at)
   local lead = byte(text, at)
   return at + (lead < 0x80 and 1 or lead < 0xE0 and 2 or lead < 0xF0 and 3 or 4)
end

local function before(text, at)
   at = at - 1
   while at > 1 do
      local b = byte(text, at)
      if b < 0x80 or b >= 0xC0 then break end
      at = at - 1
   end
   return at
end

-- Returns the Lua pattern that matches a run of the ASCII characters in a set, or nil if the set
-- has no ASCII character.
local function run_of(set)
   local parts = {}
   for code = 0, 127 do
      if set[code] then parts[#parts + 1] = ("%%%c"):format(code) end
   end
   if #parts == 0 then return nil end
   for i, part in ipairs(parts) do
      local letter = part:sub(2)
      parts[i] = letter:find "[%w%s%c]" and letter or part
   end
   return "^[" .. table.concat(parts) .. "]*"
end

local compile

local function set_matcher(set, next)
   return function(text, at)
      local b = byte(text, at)
      if not b then return nil end
      if b < 0x80 then
         if set[b] then return next(text, at + 1) end
         return nil
      end
      if set[codepoint(text, at)] then return next(text, character_end(text, at)) end
      return nil
   end
end

-- Returns a function of a text and a position that returns the position after the run of characters
-- in `set`.
local function run_end(set)
   local run = run_of(set)
   return function(text, at)
      while true do
         if run then
            local _, last = find(text, run, at)
            at = last + 1
         end
         local b = byte(text, at)
         if not b or b < 0x80 or not set[codepoint(text, at)] then return at end
         at = at + (b < 0xE0 and 2 or b < 0xF0 and 3 or 4)
      end
   end
end

-- Like run_end, but the run has at most `max` characters.
local function counted_end(set, max)
   return function(text, at)
      for _ = 1, max do
         local b = byte(text, at)
         if not b then return at end
         if b < 0x80 then
            if not set[b] then return at end
            at = at + 1
         else
            if not set[codepoint(text, at)] then return at end
            at = at + (b < 0xE0 and 2 or b < 0xF0 and 3 or 4)
         end
      end
      return at
   end
end

local function set_repeat(node, set, next)
   local min, max, possessive = node.min, node.max, node.mode == "possessive"
   local stop_of = max == math.huge and run_end(set) or counted_end(set, max)
   return function(text, at)
      local stop, least = stop_of(text, at), at
      for _ = 1, min do
         if least >= stop then return nil end
         least = character_end(text, least)
      end
      local found = next(text, stop)
      if found or possessive then return found end
      while stop > least do
         stop = before(text, stop)
         attempt()
         found = next(text, stop)
         if found then return found end
      end
      return nil
   end
end

local function accept(_, at) return at end

local function lazy_set_repeat(node, set, next)
   return function(text, at)
      local count = 0
      while true do
         if count >= node.min then
            local found = next(text, at)
            if found then return found end
         end
         local b = byte(text, at)
         if count >= node.max or not b or not set[b < 0x80 and b or codepoint(text, at)] then
            return nil
         end
         at, count = character_end(text, at), count + 1
         attempt()
      end
   end
end

local function possessive_repeat(node, next)
   local one = compile(node[1], accept)
   return function(text, at)
      local count = 0
      while count < node.max do
         local after = one(text, at)
         if not after or after == at and count >= node.min then break end
         at, count = after, count + 1
      end
      if count < node.min then return nil end
      return next(text, at)
   end
end

-- Compiles the repetition of a node of any kind. The function for an iteration is created when this
-- iteration is first reached.
local function group_repeat(node, next)
   local levels, is_lazy = {}, node.mode == "lazy"
   local function level(count)
      if levels[count] then return levels[count] end
      local began = 0
      local inner
      local function again(text, at)
         if at == began then return next(text, at) end -- an empty match ends the repetition
         return level(math.min(count + 1, node.max == math.huge and node.min + 1 or count + 1))
            (text, at)
      end
      local function enter(text, at)
         attempt()
         if is_lazy and count >= node.min then
            local found = next(text, at)
            if found then return found end
         end
         if count < node.max then
            inner = inner or compile(node[1], again)
            local outer = began
            began = at
            local found = inner(text, at)
            began = outer
            if found then return found end
         end
         if count >= node.min and not is_lazy then return next(text, at) end
         return nil
      end
      levels[count] = enter
      return enter
   end
   return level(0)
end

local makers = {}

makers["set"] = function(node, next) return set_matcher(node.set, next) end

makers["sequence"] = function(node, next)
   for i = #node, 1, -1 do next = compile(node[i], next) end
   return next
end

makers["choice"] = function(node, next)
   local list = {}
   for i, child in ipairs(node) do list[i] = compile(child, next) end
   return function(text, at)
      for i = 1, #list do
         local found = list[i](text, at)
         if found then return found end
      end
      return nil
   end
end

makers["repeat"] = function(node, next)
   local inner = node[1]
   if inner.kind == "set" and node.mode == "lazy" then
      return lazy_set_repeat(node, inner.set, next)
   end
   if inner.kind == "set" then return set_repeat(node, inner.set, next) end
   if node.mode == "possessive" then return possessive_repeat(node, next) end
   return group_repeat(node, next)
end

makers["look"] = function(node, next)
   local target
   local function reaches(_, at) return at == target and at or nil end
   local inner = compile(node[1], node.behind and reaches or accept)
   if node.behind then
      return function(text, at)
         local found = false
         target = at
         for from = at, 1, -1 do
            local b = byte(text, from)
            if (not b or b < 0x80 or b >= 0xC0) and inner(text, from) then
               found = true
               break
            end
         end
         if found == not node.negative then return next(text, at) end
         return nil
      end
   end
   return function(text, at)
      if (inner(text, at) ~= nil) == not node.negative then return next(text, at) end
      return nil
   end
end

local function test(holds)
   return function(_, next)
      return function(text, at)
         if holds(text, at) then return next(text, at) end
         return nil
      end
   end
end

local function at_edge(text, at)
   local word = characters.class "word"
   local left = at > 1 and word[codepoint(text, before(text, at))] or false
   local right = at <= #text and word[codepoint(text, at)] or false
   return left ~= right
end

makers.text_start = test(function(_, at) return at == 1 end)
makers.text_end = test(function(text, at) return at > #text end)
makers.last_line_end = test(function(text, at)
   return at > #text or at == #text and byte(text, at) == 10
end)
makers.line_start = test(function(text, at)
   return at == 1 or byte(text, at - 1) == 10 and at <= #text
end)
makers.line_end = test(function(text, at) return at > #text or byte(text, at) == 10 end)
makers.edge = test(at_edge)
makers.no_edge = test(function(text, at) return not at_edge(text, at) end)

function compile(node, next) return makers[node.kind](node, next) end

-- Returns whether a node can match the empty string. Adds the ASCII characters with which a match
-- can begin to `bytes`, and sets bytes.other if a match can begin with a non-ASCII character.
local function first_bytes(node, bytes)
   if node.kind == "set" then
      for code = 0, 127 do
         if node.set[code] then bytes[code] = true end
      end
      bytes.other = true
      return false
   elseif node.kind == "sequence" then
      for _, child in ipairs(node) do
         if not first_bytes(child, bytes) then return false end
      end
      return true
   elseif node.kind == "choice" then
      local empty = false
      for _, child in ipairs(node) do empty = first_bytes(child, bytes) or empty end
      return empty
   elseif node.kind == "repeat" then
      return first_bytes(node[1], bytes) or node.min == 0
   end
   return true
end

-- Returns a table of the alternatives that can match at a character. It has an entry for each ASCII
-- character. The entry -1 is for all other characters and for the end of the text.
local function dispatch(node)
   local list = node.kind == "choice" and node or {node}
   local by_byte = {}
   for code = -1, 127 do by_byte[code] = {} end
   for _, child in ipairs(list) do
      local bytes, matcher = {}, compile(child, accept)
      local empty = first_bytes(child, bytes)
      for code = -1, 127 do
         if empty or bytes[code] or code == -1 then
            table.insert(by_byte[code], matcher)
         end
      end
   end
   return by_byte
end

local made = {}

--- Compiles a pattern. The function `match(text, at)` of the result returns the first and last byte
--- of the first match that begins at byte `at` or later.
---@param text string
---@param is_tiktoken? boolean
---@return {match: fun(text: string, at: integer): integer?, integer?; node: table}
function M.compile(text, is_tiktoken)
   local key = (is_tiktoken and "t" or "o") .. text
   if made[key] then return made[key] end
   local node = pattern.parse(text, is_tiktoken)
   local by_byte = dispatch(node)
   local regex = {node = node}
   function regex.match(subject, at)
      local length = #subject
      while at <= length + 1 do
         local b = byte(subject, at) or 128
         local list = by_byte[b < 128 and b or -1]
         attempts = 0
         for i = 1, #list do
            local stop = list[i](subject, at)
            if stop then return at, stop - 1 end
         end
         if at > length then return nil end
         at = b < 0x80 and at + 1 or character_end(subject, at)
      end
      return nil
   end
   made[key] = regex
   return regex
end

--- Returns a pattern that matches exactly the given text.
---@param text string
---@return table
function M.literal(text)
   return {match = function(subject, at) return find(subject, text, at, true) end, literal = text}
end

return M
