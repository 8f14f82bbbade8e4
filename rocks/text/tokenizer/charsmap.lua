-- charsmap.lua - SentencePiece's precompiled maps of characters. A map consists of a double-array
-- trie of texts and a replacement for each text. Its bytes are the size of the trie (4 bytes,
-- little-endian), the trie's units of 4 bytes, and the replacements, each with a zero byte after
-- it.

local M = {}

local alphabet <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local value_of

--- Decodes base64. Returns nil if the text is not base64.
---@param text string
---@return string?
function M.from_base64(text)
   if not value_of then
      value_of = {}
      for i = 1, #alphabet do value_of[alphabet:byte(i)] = i - 1 end
   end
   text = text:gsub("=+$", "")
   local parts, n = {}, 0
   for at = 1, #text, 4 do
      local a, b, c, d = text:byte(at, at + 3)
      local va, vb, vc, vd = value_of[a], value_of[b], value_of[c or 65], value_of[d or 65]
      if not (va and vb and vc and vd) then return nil end
      local bits = va << 18 | vb << 12 | vc << 6 | vd
      n = n + 1
      parts[n] = string.char(bits >> 16, bits >> 8 & 255, bits & 255)
      if not d then parts[n] = parts[n]:sub(1, c and 2 or 1) end
   end
   return table.concat(parts)
end

--- Creates a map from its bytes. Returns nil and a message if the bytes are damaged.
---@param blob string
---@return {lookup: fun(text: string, at: integer, longest: boolean): string?, integer}? map
---@return string? message
function M.new(blob)
   if #blob < 4 then return nil, "expected at least 4 bytes" end
   local size = string.unpack("<I4", blob)
   if size % 4 ~= 0 or size > #blob - 4 or size < 1024 then
      return nil, ("expected a trie of %d bytes, got %d bytes"):format(size, #blob - 4)
   end
   local units, texts = size // 4, blob:sub(size + 5)
   local known = {}
   local function unit(node)
      -- For a node outside the trie, the result is a unit whose label matches no byte.
      if node >= units then return 0x80000000 end
      local found = known[node]
      if not found then
         found = string.unpack("<I4", blob, 5 + 4 * node)
         known[node] = found
      end
      return found
   end
   local function step(node, u) return node ~ (u >> 10 << ((u & 0x200) >> 6)) end
   local root = step(0, unit(0))
   local map = {}
   -- Returns the replacement for the shortest or longest known prefix of the text from byte `at`
   -- on, and the length of the prefix. Returns nil if no prefix is known.
   function map.lookup(text, at, longest)
      local node, found, length = root, nil, 0
      for i = at, #text do
         local b = text:byte(i)
         if b == 0 then break end
         node = node ~ b
         local u = unit(node)
         if u & 0x800000FF ~= b then break end
         node = step(node, u)
         if u & 0x100 ~= 0 then
            found, length = unit(node) & 0x7FFFFFFF, i - at + 1
            if not longest then break end
         end
      end
      if not found then return nil, 0 end
      local stop = texts:find("\0", found + 1, true) or #texts + 1
      return texts:sub(found + 1, stop - 1), length
   end
   return map
end

-- Graphemes -------------------------------------------------------------------------------------

-- Pairs of kinds of adjacent characters between which there is no grapheme boundary. The rules that
-- depend on more than two characters are in is_joined.
local together <const> = {
   CR = {LF = true}, L = {L = true, V = true, LV = true, LVT = true}, V = {V = true, T = true},
   LV = {V = true, T = true}, LVT = {T = true}, T = {T = true},
}

local controls <const> = {CR = true, LF = true, CN = true}

local function is_joined(state, before, kind)
   if together[before] and together[before][kind] then return true end
   if controls[before] or controls[kind] then return false end
   if kind == "EX" or kind == "ZWJ" or kind == "SM" or before == "PP" then return true end
   if state.consonants == "linked" and state.is_consonant then return true end
   if state.pictograph == "joined" and kind == "pictograph" then return true end
   return before == "RI" and kind == "RI" and state.flags % 2 == 1
end

local function follow(state, characters, code, kind)
   if kind == "pictograph" then
      state.pictograph = "seen"
   elseif kind == "ZWJ" and state.pictograph == "seen" then
      state.pictograph = "joined"
   elseif kind ~= "EX" or state.pictograph == "joined" then
      state.pictograph = nil
   end
   if state.is_consonant then
      state.consonants = "seen"
   elseif state.consonants and characters.class "linker"[code] then
      state.consonants = "linked"
   elseif not (characters.class "extend"[code] or kind == "ZWJ") then
      state.consonants = nil
   end
   state.flags = kind == "RI" and state.flags + 1 or 0
end

--- Returns the byte after the grapheme that begins at byte `at`.
---@param text string
---@param at integer
---@return integer
function M.grapheme_end(text, at)
   local characters = require "tlua.text.tokenizer.characters"
   local state, before = {flags = 0}, nil
   while at <= #text do
      local code = utf8.codepoint(text, at)
      local kind = characters.grapheme[code]
      state.is_consonant = characters.class "consonant"[code]
      if before and not is_joined(state, before, kind) then return at end
      follow(state, characters, code, kind)
      before = kind
      at = utf8.offset(text, 2, at)
   end
   return at
end

return M
