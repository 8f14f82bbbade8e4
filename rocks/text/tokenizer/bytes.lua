-- bytes.lua - the characters that represent bytes in byte-level vocabularies. A printable byte
-- represents itself. Code points from 256 on represent the other bytes.

local M = {character = {}, byte = {}}

local moved = 0
for byte = 0, 255 do
   local plain = byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
   local character = utf8.char(plain and byte or 256 + moved)
   if not plain then moved = moved + 1 end
   M.character[byte], M.byte[character] = character, string.char(byte)
end

local missing
local beyond_ascii = setmetatable({}, {__index = function(_, _) missing = true end})
for character, of in pairs(M.byte) do
   if #character > 1 then beyond_ascii[character] = of end
end

--- Returns the bytes that a text represents, or nil if a character of the text represents no byte.
---@param text string
---@return string?
function M.decode(text)
   if text:find "[\0-\32\127]" then return nil end
   if not text:find "[\x80-\xFF]" then return text end
   missing = false
   local decoded = text:gsub("[\xC2-\xF4][\x80-\xBF]*", beyond_ascii)
   return not missing and decoded or nil
end

return M
