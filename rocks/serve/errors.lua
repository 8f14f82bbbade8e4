-- errors.lua - the texts of errors, as clients get them.

local M = {}

--- Returns a text that JSON can have: bytes that are no UTF-8 become question marks.
---@param text any
---@return string
function M.text(text)
   text = tostring(text)
   return utf8.len(text) and text or (text:gsub("[\128-\255]", "?"))
end

return M
