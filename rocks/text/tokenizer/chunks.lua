-- chunks.lua - cuts a text into chunks that can be tokenized independently, so that the tokens of
-- frequent chunks can be cached. A text is cut before a space that follows a visible character;
-- such a boundary of two chunks is called a cut. Each part of a tokenizer tells whether it allows
-- cuts.

local characters = require "tlua.text.tokenizer.characters"

local M = {}

-- Examines a node of a pattern's syntax tree, and returns two booleans. The first is whether a
-- match of the node may reach over a cut, because the match contains a space after another
-- character or depends on the text around it. The second is whether the match, up to the end of the
-- node, has a visible character. `begun` tells whether the match has one before the node.
local crosses

local function only_space(set)
   for code = 0, 127 do
      if set[code] and not characters.class "space"[code] then return false end
   end
   for _, code in ipairs {0xE9, 0x4E00, 0x301, 0x660, 0xBD, 0x20AC, 0x1F600, 0x378} do
      if set[code] then return false end
   end
   return true
end

local makers = {}

makers["set"] = function(node, begun)
   if node.set[32] and begun then return true, begun end
   return false, begun or not only_space(node.set)
end

makers["sequence"] = function(node, begun)
   for _, child in ipairs(node) do
      local bad
      bad, begun = crosses(child, begun)
      if bad then return true, begun end
   end
   return false, begun
end

makers["choice"] = function(node, begun)
   local after = begun
   for _, child in ipairs(node) do
      local bad, more = crosses(child, begun)
      if bad then return true, more end
      after = after or more
   end
   return false, after
end

makers["repeat"] = function(node, begun)
   local bad, after = crosses(node[1], begun)
   if bad then return true, after end
   if node.max > 1 then return crosses(node[1], after) end
   return false, after
end

-- Only negative lookaheads such as (?!\S) are allowed, because they give the same result at a space
-- and at the end of the text, that is, at the end of a chunk.
makers["look"] = function(node, begun)
   local inner = node[1]
   if inner.kind == "sequence" and #inner == 1 then inner = inner[1] end
   if node.behind or not node.negative or inner.kind ~= "set" then return true, begun end
   return inner.set[32], begun
end

makers.text_end = function(_, begun) return begun, begun end
makers.line_end = makers.text_end

function crosses(node, begun)
   local maker = makers[node.kind]
   if not maker then return true, begun end
   return maker(node, begun)
end

-- Returns whether a node can match the empty string.
local function can_be_empty(node)
   if node.kind == "set" then return false end
   if node.kind == "choice" then
      for _, child in ipairs(node) do
         if can_be_empty(child) then return true end
      end
      return false
   elseif node.kind == "sequence" then
      for _, child in ipairs(node) do
         if not can_be_empty(child) then return false end
      end
      return true
   end
   return node.kind ~= "repeat" or node.min == 0 or can_be_empty(node[1])
end

--- Returns whether each match of a pattern lies within one chunk of a text. A pattern that can
--- match the empty string is excluded, because an empty match may be at the end of a chunk.
---@param node table  a syntax tree that pattern.lua has returned
---@return boolean
function M.is_local(node) return not crosses(node, false) and not can_be_empty(node) end

local lefts <const> = [[a Z 5 ! " # $ % & ' ( ) * + , - . / : ; < = > ? @ [ \ ] ^ _ ` { | } ~ é É ʰ
   ǅ 中 あ 한 ि ́ ٣ Ⅷ ½ “ € © 😀]]

--- Returns whether a function that splits texts always splits them at a cut. The function is tested
--- with characters of all categories on both sides of a cut.
---@param split fun(text: string): integer[]  returns the bytes after each part
---@return boolean
function M.splits(split)
   for left in lefts:gmatch "%S+" do
      for _, right in ipairs {"a", "Z", "5", "!", "'", "é", "中", "\u{301}", " a", "\n", "\t", ""} do
         for _, before in ipairs {"", "b"} do
            local text, found = before .. left .. " " .. right, false
            for _, stop in ipairs(split(text)) do found = found or stop == #left + #before end
            if not found then return false end
         end
      end
   end
   return true
end

-- The non-ASCII characters after which a text may be cut. No normaliser turns them into white
-- space.
local safe = setmetatable({}, {__index = function(self, character)
   local code = utf8.codepoint(character)
   local category = characters.category[code]
   local good = category:find "^[LNP]" ~= nil
   for _, part in ipairs(characters.decomposition(code, true) or {}) do
      if part < 128 and not (part > 32 and part < 127) or characters.class "space"[part] then
         good = false
      end
   end
   self[character] = good
   return good
end})

--- Maps non-ASCII characters to whether a text may be cut after them.
---@type table<string, boolean>
M.safe = safe

--- Returns the last byte of the chunk that begins at byte `at`.
---@param text string
---@param at integer
---@param last integer  the last byte of the text
---@return integer
function M.chunk_end(text, at, last)
   local from = at
   while true do
      local left = text:find("[\33-\126\x80-\xBF] ", from)
      if not left or left >= last then return last end
      if text:byte(left) < 128 then return left end
      local start = utf8.offset(text, -1, left + 1)
      if start >= at and safe[text:sub(start, left)] then return left end
      from = left + 1
   end
end

return M
