-- bytes.lua - the characters that represent bytes in byte-level vocabularies. A printable byte
-- represents itself; all other bytes are represented by code points from 256 on.

local M = {character = {}, byte = {}}

local moved = 0
for byte = 0, 255 do
   local plain = byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
   local character = utf8.char(plain and byte or 256 + moved)
   if not plain then moved = moved + 1 end
   M.character[byte], M.byte[character] = character, string.char(byte)
end

--- Returns the bytes that a text represents, or nil if one of its characters represents none.
---@param text string
---@return string?
function M.decode(text)
   local parts, n = {}, 0
   for character in text:gmatch "[\0-\x7F\xC2-\xF4][\x80-\xBF]*" do
      n = n + 1
      parts[n] = M.byte[character]
      if not parts[n] then return nil end
   end
   return table.concat(parts)
end

return M
