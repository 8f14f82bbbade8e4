-- errors.lua - makes texts that are safe in the error messages that clients get.

local json = require "tlua.utils.json"

local M = {}

--- Returns a text that JSON can represent. If the text is not UTF-8, each byte above 127 becomes a
--- question mark.
---@param text any
---@return string
function M.text(text)
   local ok, as_text = pcall(tostring, text)
   local has_text = text ~= nil and (type(text) ~= "table" or ok and not as_text:find "^table: ")
   text = ok and has_text and as_text or "an error without a text"
   return utf8.len(text) and text or (text:gsub("[\128-\255]", "?"))
end

--- Returns a short description of a JSON value, for messages such as "expected a list, got a text".
---@param value any
---@return string
function M.kind(value)
   if value == nil then return "nothing" end
   if value == json.null then return "null" end
   if type(value) == "table" then return json.is_array(value) and "a list" or "an object" end
   if type(value) == "string" then
      return #value <= 40 and ("%q"):format(value) or ("a text of %d bytes"):format(#value)
   end
   return tostring(value)
end

--- Describes a value for a message, which says that an object with the given field was expected.
--- For an object, its field is described; any other value is described itself.
---@param value any
---@param field string
---@return string
function M.field(value, field)
   local is_object = type(value) == "table" and value ~= json.null and not json.is_array(value)
   return is_object and ("the %s %s"):format(field, M.kind(value[field])) or M.kind(value)
end

return M
