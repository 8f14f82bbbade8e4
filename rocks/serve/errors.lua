-- errors.lua - makes the texts of errors fit for clients.

local M = {}

--- Returns a text that JSON can represent: if it is not UTF-8, all bytes above 127 become question
--- marks.
---@param text any
---@return string
function M.text(text)
   text = tostring(text)
   return utf8.len(text) and text or (text:gsub("[\128-\255]", "?"))
end

return M
