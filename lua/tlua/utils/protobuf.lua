-- protobuf.lua - encodes and decodes messages of Protocol Buffers. A message is a string, the
-- concatenation of its fields.

local M = {}

--- Encodes an integer with 7 bits in each byte.
---@param value integer
---@return string
function M.varint(value)
   local bytes = {}
   while value >> 7 ~= 0 do
      bytes[#bytes + 1] = string.char(value & 0x7f | 0x80)
      value = value >> 7
   end
   return table.concat(bytes) .. string.char(value)
end

local varint = M.varint

--- Each of these functions encodes one field of a message, with the number `field`. M.bytes encodes
--- strings and nested messages.
function M.int(field, value) return varint(field << 3) .. varint(value) end
function M.double(field, value) return varint(field << 3 | 1) .. ("<d"):pack(value) end
function M.bytes(field, value) return varint(field << 3 | 2) .. varint(#value) .. value end
function M.float(field, value) return varint(field << 3 | 5) .. ("<f"):pack(value) end

--- Encodes a packed list of numbers, as doubles ("<d") or floats ("<f").
function M.packed(field, format, values)
   local parts = {}
   for i, value in ipairs(values) do parts[i] = format:pack(value) end
   return M.bytes(field, table.concat(parts))
end

local function read_varint(text, at)
   local value, shift = 0, 0
   while true do
      local byte = text:byte(at)
      if not byte or shift > 63 then return nil end
      value, at, shift = value | (byte & 0x7f) << shift, at + 1, shift + 7
      if byte < 0x80 then return value, at end
   end
end

-- Returns a field's value and the position after the field; nil if the field is damaged. `kind` is
-- the field's wire type.
local function read_value(text, at, kind)
   if kind == 0 then return read_varint(text, at) end
   if kind == 1 and at + 7 <= #text then return ("<d"):unpack(text, at) end
   if kind == 5 and at + 3 <= #text then return ("<f"):unpack(text, at) end
   if kind ~= 2 then return nil end
   local size, first = read_varint(text, at)
   if not size or size < 0 or size > #text - first + 1 then return nil end
   return text:sub(first, first + size - 1), first + size
end

--- Calls fn(field, value) for the fields of a message in their order. The value is an integer, a
--- floating-point number, or a string.
---@param text string
---@param fn fun(field: integer, value: number|string)
---@return integer? damaged  the position of the first damaged field, if there is one
function M.each(text, fn)
   local at = 1
   while at <= #text do
      local key, first = read_varint(text, at)
      if not key then return at end
      local value, after = read_value(text, first, key & 7)
      if value == nil then return at end
      fn(key >> 3, value)
      at = after
   end
end

--- Decodes a message. Returns a table that maps field numbers to lists of values; nil if the
--- message is damaged.
---@param text string
---@return table<integer, any[]>?
function M.fields(text)
   local found = {}
   local damaged = M.each(text, function(field, value)
      found[field] = found[field] or {}
      table.insert(found[field], value)
   end)
   return not damaged and found or nil
end

return M
