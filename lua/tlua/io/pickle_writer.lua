-- pickle_writer.lua - plain data as a pickle, protocol 2: the form in which PyTorch's tools take
-- what they show. There are strings, numbers, booleans, dicts, lists (tables with the metatable
-- `json.array`) and tuples (`tuple`). What occurs twice is written once.

local json = require "tlua.utils.json"

local M = {}

--- Metatable of tables that are tuples.
M.tuple = {__name = "pickle.tuple"}

local put -- put(out, value): appends the opcodes that make a value

-- The number under which the unpickler keeps what it has just made.
local function keep(out, value)
   local n = out.kept
   out.kept = n + 1
   out.number[value] = n
   out[#out + 1] = n < 256 and string.pack("<c1B", "q", n) or string.pack("<c1I4", "r", n)
end

-- Whether the value has been made before, and so is only named.
local function again(out, value)
   local n = out.number[value]
   if not n then return false end
   out[#out + 1] = n < 256 and string.pack("<c1B", "h", n) or string.pack("<c1I4", "j", n)
   return true
end

local function put_integer(out, n)
   local short = n >= -0x80000000 and n < 0x80000000
   out[#out + 1] = short and string.pack("<c1i4", "J", n) or string.pack("<c2i8", "\x8a\8", n)
end

local function put_string(out, text)
   if again(out, text) then return end
   out[#out + 1] = string.pack("<c1s4", "X", text)
   keep(out, text)
end

local function put_list(out, list)
   out[#out + 1] = "]"
   keep(out, list)
   out[#out + 1] = "("
   for _, item in ipairs(list) do put(out, item) end
   out[#out + 1] = "e"
end

local function put_tuple(out, list)
   out[#out + 1] = "("
   for _, item in ipairs(list) do put(out, item) end
   out[#out + 1] = "t"
   keep(out, list)
end

local function put_dict(out, dict)
   local keys = {}
   for key in pairs(dict) do keys[#keys + 1] = key end
   table.sort(keys)
   out[#out + 1] = "}"
   keep(out, dict)
   out[#out + 1] = "("
   for _, key in ipairs(keys) do
      put_string(out, key)
      put(out, dict[key])
   end
   out[#out + 1] = "u"
end

local function put_table(out, value)
   if again(out, value) then return end
   local meta = getmetatable(value)
   local write = meta == json.array and put_list or meta == M.tuple and put_tuple or put_dict
   write(out, value)
end

local writers = {
   table = put_table,
   string = put_string,
   boolean = function(out, value) out[#out + 1] = value and "\x88" or "\x89" end,
   number = function(out, value)
      if math.type(value) == "integer" then return put_integer(out, value) end
      out[#out + 1] = string.pack(">c1d", "G", value)
   end,
}

function put(out, value)
   writers[type(value)](out, value)
end

--- A value as the bytes of a pickle. Keys of dicts are strings, and text is UTF-8.
---@param value string|number|boolean|table
---@return string
function M.encode(value)
   local out = {"\x80\2", kept = 0, number = {}}
   put(out, value)
   out[#out + 1] = "."
   return table.concat(out)
end

return M
