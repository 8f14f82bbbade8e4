-- json.lua - a small, strict reader and writer of JSON (RFC 8259), for the headers of files.
--
-- The reader accepts only what the standard allows: no trailing comma, no comment, no NaN. It
-- refuses duplicate keys, text that is not UTF-8, and nesting beyond a limit, so that a damaged or
-- hostile file causes an error message and never an overflow. Integers that fit are Lua integers.
-- Arrays carry the metatable `json.array`, so that `[]` and `{}` stay distinct.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local byte, sub = string.byte, string.sub

local max_depth <const> = 64

--- The metatable of tables that are arrays.
---@names utils.json.array
M.array = {__name = "json.array"}
--- The value that represents JSON's null, since a field whose value is nil would not exist.
---@names utils.json.null
M.null = setmetatable({}, {__name = "json.null", __tostring = function() return "null" end})

--- Marks a list as an array, so that an empty list is written as `[]`.
---@param list table
---@return table list
function M.as_array(list)
   if type(list) ~= "table" then args.refuse("json.as_array", "list", "a table", list) end
   return setmetatable(list, M.array)
end

--- Returns whether a table was made by utils.json.as_array, or read from an array.
---@param value any
---@return boolean
function M.is_array(value)
   return getmetatable(value) == M.array
end

-- Reading ------------------------------------------------------------------------------------

-- Raises an error about the JSON text. The error is a table, which distinguishes it from an error
-- in this module.
local function fail(position, why)
   error({json = ("at byte %d: %s"):format(position, why)}, 0)
end

local function skip_space(text, position)
   local code = byte(text, position)
   if code and code > 32 then return position end
   return text:find("[^ \t\r\n]", position) or #text + 1
end

local escapes = {
   ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}

-- Returns the character of a \u escape whose `u` is at `position`, and the position after it.
local function read_unicode(text, position)
   local digits = text:match("^%x%x%x%x", position + 1) or fail(position, "bad \\u escape")
   local code = tonumber(digits, 16)
   position = position + 5
   if code >= 0xD800 and code <= 0xDBFF then
      local low = tonumber(text:match("^\\u([dD][c-fC-F]%x%x)", position) or "", 16)
      if not low then fail(position, "a surrogate without its second half") end
      return utf8.char(0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)), position + 6
   elseif code >= 0xDC00 and code <= 0xDFFF then
      fail(position, "a surrogate without its first half")
   end
   return utf8.char(code), position
end

local function read_string(text, position)
   local start = position
   position = position + 1
   local first = text:find('["\\%c]', position)
   -- the string has no escapes, so its text is copied at once
   if first and byte(text, first) == 34 then
      local whole = sub(text, position, first - 1)
      if not utf8.len(whole) then fail(start, "a string that is not UTF-8") end
      return whole, first + 1
   end
   local pieces = {}
   while true do
      local stop = text:find('["\\%c]', position) or fail(start, "a string without end")
      pieces[#pieces + 1] = text:sub(position, stop - 1)
      local c = text:sub(stop, stop)
      if c == '"' then
         local whole = table.concat(pieces)
         if not utf8.len(whole) then fail(start, "a string that is not UTF-8") end
         return whole, stop + 1
      -- Lua's %c matches this byte, but JSON does not count it as a control character
      elseif c == "\127" then
         pieces[#pieces + 1] = c
         position = stop + 1
      elseif c ~= "\\" then
         fail(stop, "a control character in a string")
      else
         local letter = text:sub(stop + 1, stop + 1)
         if letter == "u" then
            pieces[#pieces + 1], position = read_unicode(text, stop + 1)
         else
            pieces[#pieces + 1] = escapes[letter] or fail(stop, "unknown escape \\" .. letter)
            position = stop + 2
         end
      end
   end
end

local function read_number(text, position)
   local whole, stop = text:match("^(%-?%d+)()", position)
   if not whole or whole:find "^%-?0%d" then fail(position, "a malformed number") end
   local fraction, after = text:match("^(%.%d+)()", stop)
   stop = after or stop
   local exponent, last = text:match("^([eE][+-]?%d+)()", stop)
   stop = last or stop
   if text:find("^[%w.+-]", stop) then fail(position, "a malformed number") end
   if not fraction and not exponent then
      local integer = math.tointeger(tonumber(whole))
      if integer and ("%d"):format(integer) == whole then return integer, stop end
   end
   return tonumber(whole .. (fraction or ".0") .. (exponent or "")), stop
end

local read_value

local function read_array(text, position, depth)
   local list, n = M.as_array({}), 0
   position = skip_space(text, position + 1)
   if byte(text, position) == 93 then return list, position + 1 end
   while true do
      n = n + 1
      list[n], position = read_value(text, position, depth)
      position = skip_space(text, position)
      local c = byte(text, position)
      if c == 93 then return list, position + 1 end -- ]
      if c ~= 44 then fail(position, "expected , or ] in an array") end
      position = position + 1
   end
end

local function read_object(text, position, depth)
   local object = {}
   position = skip_space(text, position + 1)
   if byte(text, position) == 125 then return object, position + 1 end
   while true do
      position = skip_space(text, position)
      if byte(text, position) ~= 34 then fail(position, "expected a key") end
      local key, after = read_string(text, position)
      if object[key] ~= nil then fail(position, ("the key %q occurs twice"):format(key)) end
      position = after
      position = skip_space(text, position)
      if byte(text, position) ~= 58 then fail(position, "expected : after a key") end
      object[key], position = read_value(text, position + 1, depth)
      position = skip_space(text, position)
      local c = byte(text, position)
      if c == 125 then return object, position + 1 end -- }
      if c ~= 44 then fail(position, "expected , or } in an object") end
      position = position + 1
   end
end

local words = {["true"] = true, ["false"] = false, null = M.null}

function read_value(text, position, depth)
   position = skip_space(text, position)
   local c = sub(text, position, position)
   if c == '"' then return read_string(text, position) end
   if c == "{" or c == "[" then
      if depth == 0 then fail(position, "nested too deeply") end
      return (c == "{" and read_object or read_array)(text, position, depth - 1)
   end
   if c:find "[%d-]" then return read_number(text, position) end
   local word = text:match("^%a+", position)
   if word == nil or words[word] == nil then
      fail(position, c == "" and "the text ends too early" or "expected a value")
   end
   return words[word], position + #word
end

--- Returns the value of a JSON text.
---@param text string
---@return any value  nil on failure
---@return string? message
function M.decode(text)
   if type(text) ~= "string" then args.refuse("json.decode", "text", "a string", text) end
   local read = torch.io._json(text, M.array, M.null)
   if read ~= nil then return read end
   local ok, value, position = pcall(read_value, text, 1, max_depth)
   if ok then
      position = skip_space(text, position)
      if position <= #text then
         return nil, ("at byte %d: more text after the value"):format(position)
      end
      return value
   end
   if type(value) == "table" and value.json then return nil, value.json end
   error(value, 0)
end

-- Writing ------------------------------------------------------------------------------------

local function escape(c)
   local short = {["\b"] = "b", ["\f"] = "f", ["\n"] = "n", ["\r"] = "r", ["\t"] = "t"}
   if c == '"' or c == "\\" then return "\\" .. c end
   return "\\" .. (short[c] or ("u%04x"):format(c:byte()))
end

local function write_string(text)
   if not utf8.len(text) then torch.raise("json.encode: a string that is not UTF-8") end
   return '"' .. text:gsub('[\0-\31"\\]', escape) .. '"'
end

local function write_number(value)
   if math.type(value) == "integer" then return ("%d"):format(value) end
   if value ~= value or value == math.huge or value == -math.huge then
      torch.raise("json.encode: JSON has no " .. tostring(value))
   end
   local text = ("%.17g"):format(value)
   return text:find "[.eE]" and text or text .. ".0"
end

local write_value

-- Raises an error if a list has other keys than 1 to #list, because these would be left out.
local function check_keys(list)
   local n, count = #list, 0
   for key in next, list do
      if math.type(key) ~= "integer" or key < 1 or key > n then
         torch.raise(("json.encode: expected a list or an object, got the key %s in a list of %d "
            .. "elements"):format(args.describe(key), n))
      end
      count = count + 1
   end
   if count < n then torch.raise(("json.encode: a list of %d elements has a nil"):format(n)) end
end

local function write_array(list, depth)
   if not torch._is_size(list) then check_keys(list) end
   local pieces = {}
   for i = 1, #list do pieces[i] = write_value(list[i], depth) end
   return "[" .. table.concat(pieces, ",") .. "]"
end

-- Writes keys in sorted order, so that the same value gives the same text.
local function write_object(object, depth)
   local keys = {}
   for key in pairs(object) do
      if type(key) ~= "string" then torch.raise("json.encode: a key that is not a string") end
      keys[#keys + 1] = key
   end
   table.sort(keys)
   local pieces = {}
   for i, key in ipairs(keys) do
      pieces[i] = write_string(key) .. ":" .. write_value(object[key], depth)
   end
   return "{" .. table.concat(pieces, ",") .. "}"
end

function write_value(value, depth)
   local kind = type(value)
   if kind == "string" then return write_string(value) end
   if kind == "number" then return write_number(value) end
   if kind == "boolean" or rawequal(value, M.null) then return tostring(value) end
   if torch.type(value) == "torch.device" then return write_string(tostring(value)) end
   if kind ~= "table" then torch.raise("json.encode: a " .. torch.type(value)) end
   if depth == 0 then torch.raise("json.encode: nested too deeply") end
   local is_list = M.is_array(value) or #value > 0 or torch._is_size(value)
   return (is_list and write_array or write_object)(value, depth - 1)
end

--- Encodes a value as JSON. Tables that are marked as arrays or have a first element, and a
--- torch.Size, are arrays. A torch.device is written as its name. Raises an error if JSON cannot
--- represent the value, for example a list that has other keys besides its elements.
---@param value any
---@return string
function M.encode(value)
   return write_value(value, max_depth)
end

return M
