-- wire.lua - reads and writes Protocol Buffers messages, which is the encoding of ONNX files, with
-- the tables of schema.lua. No C library is needed, and a model's weights can stay in the mapped
-- file until they are used.
--
-- A message is a table that maps the names of its fields to numbers, strings, tables, or lists of
-- these. A field of kind `data` is read as {first =, n =}, which is the range of its bytes in the
-- file. A packed list of float or double is read in the same way. When a message is written, a
-- tensor may be given in place of bytes.
--
-- Files are not trusted: a length must fit in the enclosing message, and the depth of nesting is
-- limited.

local torch = require "tlua"
local protobuf = require "tlua.utils.protobuf"
local schema = require "tlua.onnx.schema"

local varint = protobuf.varint

local M = {}

-- Files of at least this many bytes are memory-mapped. Of a mapped file, only the parts that are
-- used are read.
local MAP_FROM <const> = 1 << 24
-- The number of bytes that a reader converts to a string at a time.
local WINDOW <const> = 1 << 16
-- The maximum nesting depth of messages. A graph within a graph adds four levels.
local DEEPEST <const> = 100

--- Throws an error about a file's content, which `protect` catches.
---@param format string
---@param ... any
function M.fail(format, ...) error({onnx = format:format(...)}, 0) end

--- Calls fn(...). If it throws an error about a file's content, raises it at the user's line, with
--- `title` before the message.
---@param title string
---@param fn function
---@param ... any
---@return any ...
function M.protect(title, fn, ...)
   local results = table.pack(pcall(fn, ...))
   if results[1] then return table.unpack(results, 2, results.n) end
   local failure = results[2]
   if type(failure) == "table" and failure.onnx then
      torch.raise(("%s: %s"):format(title, failure.onnx))
   end
   error(failure, 0)
end

-- Reading -----------------------------------------------------------------------------------------

---@class onnx.Bytes
---@field bytes Tensor  (n) uint8
---@field size integer
local Bytes = {}
Bytes.__index = Bytes

--- Returns a reader for a tensor of bytes.
---@param bytes Tensor  (n) uint8
---@return onnx.Bytes
function M.bytes(bytes)
   return setmetatable({bytes = bytes, size = bytes:numel(), text = "", first = 1}, Bytes)
end

--- Opens a file and returns a reader for its bytes. Throws an error if the file cannot be read.
---@param path string
---@return onnx.Bytes
function M.open(path)
   local file <close> = io.open(path, "rb")
   if not file then
      local _, why = io.open(path, "rb")
      M.fail("%s", why)
   end
   local size = file:seek "end"
   if not size or not file:seek "set" then M.fail("%s: the file has no known length", path) end
   local bytes, why
   if size == 0 then
      bytes = torch.empty({0}, {dtype = "uint8"})
   elseif size >= MAP_FROM then
      bytes, why = torch.io.map(path)
   else
      bytes, why = torch.io.read(file, {size}, "uint8")
   end
   if not bytes then M.fail("%s: %s", path, why) end
   return M.bytes(bytes)
end

-- Returns a string that contains the n bytes from position `at` on. The second result is the index
-- of the first of these bytes in the string.
function Bytes:window(at, n)
   local offset = at - self.first
   if offset < 0 or offset + n > #self.text then
      local length = math.min(math.max(n, WINDOW), self.size - at + 1)
      self.text, self.first, offset = torch.io.text(self.bytes, at, length), at, 0
   end
   return self.text, offset + 1
end

--- Returns n bytes as a string. The caller must have checked that they lie in the file.
function Bytes:string(at, n)
   if n == 0 then return "" end
   local text, i = self:window(at, n)
   return text:sub(i, i + n - 1)
end

-- The functions below take three positions or names: `at`, the position at which a value begins;
-- `last`, the last byte of the enclosing message; and `path`, the names of the enclosing fields for
-- messages.

local function broken(path, at, format, ...)
   M.fail("%s: byte %d: " .. format, table.concat(path, "."), at - 1, ...)
end

local function read_varint(r, at, last, path)
   local text, i = r:window(at, math.min(10, last - at + 1))
   local value, shift = 0, 0
   for k = 0, 9 do
      if at + k > last then broken(path, at, "a number ends behind its message") end
      local byte = text:byte(i + k)
      value = value | (byte & 127) << shift
      if byte < 128 then return value, at + k + 1 end
      shift = shift + 7
   end
   broken(path, at, "a number of more than 10 bytes")
end

local fixed <const> = {float = {"<f", 4}, double = {"<d", 8}}

local function read_fixed(r, at, last, format, size, path)
   if at + size - 1 > last then broken(path, at, "a number ends behind its message") end
   local text, i = r:window(at, size)
   return (string.unpack(format, text, i)), at + size
end

local read_message

local function read_packed(r, at, last, field, list, path)
   if field.kind == "int" then
      while at <= last do list[#list + 1], at = read_varint(r, at, last, path) end
      return
   end
   local size = fixed[field.kind][2]
   local n = last - at + 1
   if n % size ~= 0 then broken(path, at, "%d bytes are no multiple of %d", n, size) end
   if #list == 0 and not list.n then
      list.first, list.n = at, n -- the numbers stay in the file until they are used
      return
   end
   if list.n then -- if a packed list comes in several parts, the numbers of all parts are read
      local first, count = list.first, list.n
      list.first, list.n = nil, nil
      for k = 0, count // size - 1 do
         list[#list + 1] = read_fixed(r, first + k * size, r.size, fixed[field.kind][1], size, path)
      end
   end
   while at <= last do
      list[#list + 1], at = read_fixed(r, at, last, fixed[field.kind][1], size, path)
   end
end

local function read_length(r, at, last, path)
   local n
   n, at = read_varint(r, at, last, path)
   if n < 0 or n > last - at + 1 then
      broken(path, at, "a length of %s, but %d bytes are left", n < 0 and "2^63 or more" or n,
         last - at + 1)
   end
   return n, at
end

-- Reads a value that begins with its length: text, data, a message, or a packed list.
local function read_long(r, at, last, field, message, path, depth)
   local n
   n, at = read_length(r, at, last, path)
   local kind, name = field.kind, field.name
   if kind == "int" or fixed[kind] then
      if not field.many then broken(path, at, "expected a number, got bytes") end
      message[name] = message[name] or {}
      read_packed(r, at, at + n - 1, field, message[name], path)
      return at + n
   end
   local value
   if kind == "text" then
      value = r:string(at, n)
   elseif kind == "data" then
      value = {first = at, n = n}
   else
      value = read_message(r, at, at + n - 1, kind, path, depth + 1)
   end
   if field.many then
      local list = message[name] or {}
      list[#list + 1] = value
      message[name] = list
   else
      message[name] = value
   end
   return at + n
end

local function skip(r, at, last, wire, path)
   if wire == 0 then
      at = select(2, read_varint(r, at, last, path))
   elseif wire == 2 then
      local n, first = read_length(r, at, last, path)
      at = first + n
   elseif wire == 1 or wire == 5 then
      at = at + (wire == 1 and 8 or 4)
   else
      broken(path, at, "an unknown kind of field, %d", wire)
   end
   if at > last + 1 then broken(path, at, "a field ends behind its message") end
   return at
end

local wires <const> = {int = 0, float = 5, double = 1}

local function read_number(r, at, last, field, message, path)
   local value
   if field.kind == "int" then
      value, at = read_varint(r, at, last, path)
   else
      value, at = read_fixed(r, at, last, fixed[field.kind][1], fixed[field.kind][2], path)
   end
   local name = field.name
   if field.many then
      message[name] = message[name] or {}
      if message[name].n then broken(path, at, "numbers after a packed list") end
      table.insert(message[name], value)
   else
      message[name] = value
   end
   return at
end

function read_message(r, at, last, kind, path, depth)
   if depth > DEEPEST then
      broken(path, at, "messages are nested more than %d deep", DEEPEST)
   end
   local fields, message = schema[kind], {}
   while at <= last do
      local key
      key, at = read_varint(r, at, last, path)
      local field, wire = fields[key >> 3], key & 7
      if not field then
         at = skip(r, at, last, wire, path)
      else
         local list = field.many and message[field.name]
         path[#path + 1] = field.many and wire == 2 and not wires[field.kind]
            and ("%s[%d]"):format(field.name, list and #list or 0) or field.name
         if wire == 2 then
            at = read_long(r, at, last, field, message, path, depth)
         elseif wire == wires[field.kind] then
            at = read_number(r, at, last, field, message, path)
         else
            broken(path, at, "a field of the wrong kind, %d", wire)
         end
         path[#path] = nil
      end
   end
   return message
end

--- Reads a whole file as one message. Throws an error that names the location if the bytes are
--- damaged.
---@param reader onnx.Bytes
---@param kind string  the message's name in schema.lua
---@return table message
function M.read(reader, kind)
   return read_message(reader, 1, reader.size, kind, {kind}, 1)
end

-- Writing -----------------------------------------------------------------------------------------

local encode

-- Appends a part of an encoded message, a string or a tensor, to the list `out`, and adds its
-- length to `out.size`.
local function put(out, part, size)
   out[#out + 1] = part
   out.size = out.size + (size or #part)
end

local function put_value(out, field, value)
   local kind = field.kind
   if kind == "int" then
      put(out, protobuf.int(field.number, value))
   elseif fixed[kind] then
      put(out, protobuf[kind](field.number, value))
   elseif type(value) == "string" then
      put(out, protobuf.bytes(field.number, value))
   elseif kind == "data" then
      local size = value:numel() * value:element_size()
      put(out, varint(field.number << 3 | 2) .. varint(size))
      put(out, value, size)
   else
      local inner = encode(value, kind)
      put(out, varint(field.number << 3 | 2) .. varint(inner.size))
      for _, part in ipairs(inner) do out[#out + 1] = part end
      out.size = out.size + inner.size
   end
end

local function put_list(out, field, list)
   local kind = field.kind
   if kind ~= "int" and not fixed[kind] then
      for _, value in ipairs(list) do put_value(out, field, value) end
      return
   end
   local parts = {}
   for i, value in ipairs(list) do
      parts[i] = kind == "int" and varint(value) or string.pack(fixed[kind][1], value)
   end
   put(out, protobuf.bytes(field.number, table.concat(parts)))
end

function encode(message, kind)
   local names, out = {}, {size = 0}
   local fields = schema.by_name[kind]
   for name in pairs(message) do
      assert(fields[name], name)
      names[#names + 1] = name
   end
   table.sort(names, function(a, b) return fields[a].number < fields[b].number end)
   for _, name in ipairs(names) do
      local field, value = fields[name], message[name]
      if field.many then put_list(out, field, value) else put_value(out, field, value) end
   end
   return out
end

--- Encodes a message. Returns a list of strings and tensors whose field `size` is their total
--- length.
---@param message table
---@param kind string
---@return table parts
function M.encode(message, kind) return encode(message, kind) end

--- Writes the parts of an encoded message to an open file. Returns an error message if a write
--- fails, and otherwise nil.
---@param file file*
---@param parts table
---@return string? failure
function M.write(file, parts)
   for _, part in ipairs(parts) do
      local ok, why
      if type(part) == "string" then
         ok, why = file:write(part)
      else
         ok, why = torch.io.write(file, part)
      end
      if not ok then return why end
   end
end

return M
