-- pieces.lua - pieces of a text. A piece records from which bytes of the original text each of its
-- bytes comes. It has these fields:
--
--    text    the normalised text
--    base    the byte of the whole original text at which the piece begins, counted from 0
--    starts, ends, shift
--            byte i of the text comes from the bytes starts[shift + i] to ends[shift + i] - 1
--            of the original text. If these fields are missing, the text is unchanged, and each
--            byte comes from the character that contains it.
--
-- All bytes of a character come from the same original bytes. A slice shares its arrays with the
-- piece from which it was cut.

local M = {}

local byte, find, sub, gmatch = string.byte, string.find, string.sub, string.gmatch

M.character = "[\0-\x7F\xC2-\xF4][\x80-\xBF]*"

--- Makes a piece of an unchanged text.
---@param text string
---@param base integer
---@return table piece
function M.new(text, base) return {text = text, base = base} end

--- Returns the part of a piece from byte i to byte j.
---@param piece table
---@param i integer
---@param j integer
---@return table
function M.slice(piece, i, j)
   local text = piece.text
   if i == 1 and j == #text then return piece end
   local starts = piece.starts
   if not starts then return {text = sub(text, i, j), base = piece.base + i - 1} end
   local shift = piece.shift + i - 1
   return {text = sub(text, i, j), base = starts[shift + 1] or piece.base, starts = starts,
      ends = piece.ends, shift = shift}
end

local function arrays(piece)
   if piece.starts then return piece.starts, piece.ends, piece.shift end
   local starts, ends, n, base = {}, {}, 0, piece.base
   for character in gmatch(piece.text, M.character) do
      local first, stop = base + n, base + n + #character
      for _ = 1, #character do
         n = n + 1
         starts[n], ends[n] = first, stop
      end
   end
   return starts, ends, 0
end

local function width(text, at)
   local lead = byte(text, at)
   if not lead then return 0 end
   return lead < 0xC0 and 1 or lead < 0xE0 and 2 or lead < 0xF0 and 3 or 4
end

--- Replaces a piece's text by `characters`, and updates the original positions. changes[k] tells
--- where characters[k] comes from. 0: it replaces the next old character. -n: it replaces the next
--- old character and the n characters after it. Above 0: it is inserted, and counts as coming from
--- the previous old character. `removed` is the number of old characters that are dropped at the
--- beginning.
---@param piece table
---@param characters string[]
---@param changes integer[]
---@param removed integer
function M.transform(piece, characters, changes, removed)
   local text = piece.text
   local starts, ends, shift = arrays(piece)
   local at = 1 -- the next byte of the old text
   for _ = 1, removed do at = at + width(text, at) end
   local new_starts, new_ends, n = {}, {}, 0
   local last = #text
   for k = 1, #characters do
      local change = changes[k]
      local first, stop
      if change > 0 then
         if at > 1 then
            first, stop = starts[shift + at - 1], ends[shift + at - 1]
         else
            first, stop = piece.base, piece.base
         end
      else
         local from = at <= last and at or last
         first, stop = starts[shift + from] or piece.base, ends[shift + from] or piece.base
         for _ = change, 0 do at = at + width(text, at) end
      end
      for _ = 1, #characters[k] do
         n = n + 1
         new_starts[n], new_ends[n] = first, stop
      end
   end
   piece.text, piece.starts, piece.ends, piece.shift =
      table.concat(characters), new_starts, new_ends, 0
   piece.drifts = piece.drifts or at <= last
end

--- Removes the characters for which drop[character] is true.
---@param piece table
---@param drop table<string, boolean>
function M.filter(piece, drop)
   local characters, changes, n, removed, found = {}, {}, 0, 0, false
   for character in gmatch(piece.text, M.character) do
      if not drop[character] then
         n = n + 1
         characters[n], changes[n] = character, 0
      else
         found = true
         if n == 0 then removed = removed + 1 else changes[n] = changes[n] - 1 end
      end
   end
   if not found then return end
   M.transform(piece, characters, changes, removed)
   piece.drifts = piece.drifts and n > 0
end

--- Replaces each character by the text that into(character) returns.
---@param piece table
---@param into fun(character: string): string
function M.map(piece, into)
   local text = piece.text
   local parts, n, same_width, same = {}, 0, true, true
   for character in gmatch(text, M.character) do
      local other = into(character)
      n = n + 1
      parts[n] = other
      if other ~= character then
         same = false
         if #other ~= #character then same_width = false end
      end
   end
   if same then return end
   if same_width then
      piece.text = table.concat(parts)
      return
   end
   local characters, changes, m = {}, {}, 0
   for i = 1, n do
      local change = 0
      for character in gmatch(parts[i], M.character) do
         m = m + 1
         characters[m], changes[m] = character, change
         change = 1
      end
   end
   M.transform(piece, characters, changes, 0)
end

--- Inserts a text at the beginning of a piece that is not empty.
---@param piece table
---@param text string
function M.prepend(piece, text)
   if piece.text == "" then return end
   local first = piece.text:match(M.character)
   local starts, ends, shift = arrays(piece)
   local new_starts, new_ends, n = {}, {}, #text + #first
   for i = 1, n do new_starts[i], new_ends[i] = starts[shift + 1], ends[shift + 1] end
   local count = #piece.text - #first
   table.move(starts, shift + #first + 1, shift + #first + count, n + 1, new_starts)
   table.move(ends, shift + #first + 1, shift + #first + count, n + 1, new_ends)
   piece.text, piece.starts, piece.ends, piece.shift = text .. piece.text, new_starts, new_ends, 0
end

--- Replaces each match by `content`. The new text counts as coming from the last character of the
--- match.
---@param piece table
---@param matches integer[]  a flat list of the first and last byte of each match
---@param content string
function M.replace(piece, matches, content)
   if #matches == 0 then return end
   local text, length = piece.text, #content
   local same_width = true
   for k = 1, #matches, 2 do
      if matches[k + 1] - matches[k] + 1 ~= length or length ~= 1 then same_width = false end
   end
   local starts, ends, shift
   if not same_width then starts, ends, shift = arrays(piece) end
   local parts, new_starts, new_ends, n, after = {}, {}, {}, 0, 1
   local function copy(stop)
      parts[#parts + 1] = sub(text, after, stop)
      if same_width then return end
      table.move(starts, shift + after, shift + stop, n + 1, new_starts)
      table.move(ends, shift + after, shift + stop, n + 1, new_ends)
      n = n + stop - after + 1
   end
   for k = 1, #matches, 2 do
      local first, last = matches[k], matches[k + 1]
      copy(first - 1)
      parts[#parts + 1] = content
      if not same_width then
         local from, to = piece.base, piece.base
         if last > 0 then from, to = starts[shift + last], ends[shift + last] end
         for i = n + 1, n + length do new_starts[i], new_ends[i] = from, to end
         n = n + length
      end
      after = last + 1
   end
   copy(#text)
   piece.text = table.concat(parts)
   if not same_width then
      piece.starts, piece.ends, piece.shift = new_starts, new_ends, 0
   end
end

--- Shortens a piece in place to the bytes i to j of its text. Unlike the result of `slice`, the
--- piece keeps its base.
---@param piece table
---@param i integer
---@param j integer
function M.cut(piece, i, j)
   piece.starts, piece.ends, piece.shift = arrays(piece)
   piece.text, piece.shift = sub(piece.text, i, j), piece.shift + i - 1
end

-- Splitting -------------------------------------------------------------------------------------

--- Splits a text into single characters that pass a test, and runs of characters that fail it.
--- Returns a flat list {first, last, is_match, ...} of bytes; is_match is true for a character that
--- passes.
---@param text string
---@param test table<string, boolean>
---@return table
function M.by_character(text, test)
   local list, n, at, gap = {}, 0, 1, 1
   for character in gmatch(text, M.character) do
      local stop = at + #character
      if test[character] then
         if gap < at then
            list[n + 1], list[n + 2], list[n + 3] = gap, at - 1, false
            n = n + 3
         end
         list[n + 1], list[n + 2], list[n + 3] = at, stop - 1, true
         n, gap = n + 3, stop
      end
      at = stop
   end
   if gap <= #text then list[n + 1], list[n + 2], list[n + 3] = gap, #text, false end
   return list
end

--- Returns the matches of a pattern of regex.lua and the texts between them, as a flat list {first,
--- last, is_match, ...}.
---@param text string
---@param regex table
---@return table
function M.by_regex(text, regex)
   local list, n, gap = {}, 0, 1
   local match, at, length = regex.match, 1, #text
   while at <= length + 1 do
      local first, last = match(text, at)
      if not first then break end
      if gap < first then
         list[n + 1], list[n + 2], list[n + 3] = gap, first - 1, false
         n = n + 3
      end
      if last >= first then
         list[n + 1], list[n + 2], list[n + 3] = first, last, true
         n, gap, at = n + 3, last + 1, last + 1
      else -- the match is empty
         if first > 1 and first ~= gap or first == 1 or list[n] == false then
            list[n + 1], list[n + 2], list[n + 3] = first, first - 1, true
            n = n + 3
         end
         gap = first
         at = first + math.max(1, width(text, first))
      end
   end
   if gap <= length then list[n + 1], list[n + 2], list[n + 3] = gap, length, false end
   return list
end

-- Functions that join the parts of a split text, for the behaviors that merge: a match with the
-- part before or after it, or adjacent matches with each other.
local merges = {}

function merges.Contiguous(list)
   local new, n, previous = {}, 0, false
   for k = 1, #list, 3 do
      if list[k + 2] == previous and n > 0 then
         new[n - 1] = list[k + 1]
      else
         new[n + 1], new[n + 2], new[n + 3] = list[k], list[k + 1], false
         n = n + 3
      end
      previous = list[k + 2]
      if n > 0 then new[n] = false end
   end
   return new
end

-- Joins each match with the part before it (`step` is 3) or with the part after it (`step` is -3).
-- Returns a flat list with ascending positions.
local function joined(list, from, to, step)
   local new, previous = {}, false
   for k = from, to, step do
      local is_match, last = list[k + 2], new[#new]
      if is_match and not previous and last then
         if step > 0 then last[2] = list[k + 1] else last[1] = list[k] end
      else
         new[#new + 1] = {list[k], list[k + 1]}
      end
      previous = is_match
   end
   local flat = {}
   for i = 1, #new do
      local pair = new[step > 0 and i or #new + 1 - i]
      flat[#flat + 1], flat[#flat + 2], flat[#flat + 3] = pair[1], pair[2], false
   end
   return flat
end

function merges.MergedWithPrevious(list) return joined(list, 1, #list - 2, 3) end

function merges.MergedWithNext(list) return joined(list, #list - 2, 1, -3) end

--- The behaviors of a split, by tokenizer.json's names. They say whether the matches at which a
--- text is split are dropped, become parts of their own, or are joined with their neighbours.
---@type table<string, boolean>
M.behaviors = {Removed = true, Isolated = true, Contiguous = true, MergedWithPrevious = true,
   MergedWithNext = true}

--- Splits a piece, and appends the parts that are not empty to `into`.
---@param piece table
---@param list table  {first, last, is_match, ...}
---@param behavior string  a key of `behaviors`
---@param into table[]
function M.split(piece, list, behavior, into)
   if merges[behavior] then list = merges[behavior](list) end
   local removed = behavior == "Removed"
   for k = 1, #list, 3 do
      if list[k + 1] >= list[k] and not (removed and list[k + 2]) then
         into[#into + 1] = M.slice(piece, list[k], list[k + 1])
      end
   end
end

--- Returns whether a text has only ASCII characters.
---@param text string
---@return boolean
function M.is_ascii(text) return not find(text, "[\x80-\xFF]") end

return M
