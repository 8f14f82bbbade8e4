-- mat.lua - reads arrays of numbers from MATLAB files of version 5, which may be compressed.

local torch = require "tlua"

local M = {}

-- Maps the number of an element type to the type's format for string.unpack, its size in bytes and
-- its dtype.
local types <const> = {
   [1] = {"<i1", 1, "int8"}, [2] = {"<I1", 1, "uint8"}, [3] = {"<i2", 2, "int16"},
   [4] = {"<I2", 2, "uint16"}, [5] = {"<i4", 4, "int32"}, [6] = {"<I4", 4, "uint32"},
   [7] = {"<f", 4, "float32"}, [9] = {"<d", 8, "float64"}, [12] = {"<i8", 8, "int64"},
}
local matrix <const>, compressed <const> = 14, 15

local function fail(format, ...) error(format:format(...), 0) end

-- Reads the tag that precedes an element of the file. Returns the element's type, its number of
-- bytes, the position of these bytes, and the position of the next element.
local function tag(text, at)
   if at + 7 > #text then fail "it ends too early" end
   local kind, n = string.unpack("<I4I4", text, at)
   if kind >> 16 ~= 0 then return kind & 0xffff, kind >> 16, at + 4, at + 8 end
   local next_at = at + 8 + n
   if kind ~= compressed then next_at = next_at + -n % 8 end
   return kind, n, at + 8, next_at
end

-- Returns the integers in an element as a list. It is meant for short elements, such as the sizes
-- of an array.
local function integers(text, kind, n, from)
   local of = types[kind]
   if not of or from + n - 1 > #text then fail "it ends too early" end
   local list = {}
   for i = 0, n // of[2] - 1 do list[i + 1] = string.unpack(of[1], text, from + i * of[2]) end
   return list
end

-- Reads an array. Returns its name, and its tensor if the array contains numbers.
local function read_matrix(text, at)
   local kind, n, from, next_at = tag(text, at)
   local flags = integers(text, kind, n, from)[1] or fail "it has no flags"
   kind, n, from, next_at = tag(text, next_at)
   local sizes = integers(text, kind, n, from)
   local _, length, first, data_at = tag(text, next_at)
   local name = text:sub(first, first + length - 1)
   local class = flags & 0xff
   if class < 6 or class > 15 then return name end
   kind, n, from = tag(text, data_at)
   local of, count = types[kind], 1
   for _, size in ipairs(sizes) do count = count * size end
   if not of or count * of[2] ~= n then
      fail("%s has %d bytes for %d numbers", name, n, count)
   end
   if from + n - 1 > #text then fail "it ends too early" end
   local values
   if of[3] == "uint16" or of[3] == "uint32" then
      values = torch.tensor(integers(text, kind, n, from), {dtype = "int64"})
   else
      values = torch.frombuffer(text:sub(from, from + n - 1), {dtype = of[3]})
   end
   local order, reversed = {}, {}
   for i = 1, #sizes do reversed[i], order[i] = sizes[#sizes + 1 - i], #sizes + 1 - i end
   return name, values:view(reversed):permute(order)
end

-- Computes Adler-32, the checksum of zlib's format.
local function adler32(bytes)
   local a, b, n = 1, 0, bytes:numel()
   for first = 1, n, 1 << 20 do
      local m = math.min(1 << 20, n - first + 1)
      local x = bytes:narrow(1, first, m):long()
      local weighted = (x * torch.arange(m, 0, -1, {dtype = "int64"})):sum():item()
      b = (b + m * a + weighted) % 65521
      a = (a + x:sum():item()) % 65521
   end
   return b << 16 | a
end

-- Decompresses an element, which is compressed in zlib's format: two bytes, then the data, and then
-- a checksum.
local function unpack(text, from, n)
   if n < 7 or from + n - 1 > #text then fail "it ends too early" end
   local packed = torch.frombuffer(text:sub(from + 2, from + n - 5), {dtype = "uint8"})
   local head, message = torch.io.inflate(packed, "raw", 8, true)
   if not head then fail("%s", message) end
   local _, size = string.unpack("<I4I4", torch.io.text(head, 1, 8))
   local whole
   whole, message = torch.io.inflate(packed, "raw", size + 8)
   if not whole then fail("%s", message) end
   if adler32(whole) ~= string.unpack(">I4", text, from + n - 4) then
      fail "its checksum is wrong"
   end
   return torch.io.text(whole, 1, whole:numel())
end

--- Reads all arrays of numbers in a file.
---@param text string  the contents of the file
---@return table<string, Tensor>? arrays  the arrays by name; nil if the file is damaged
---@return string? message
function M.read(text)
   local ok, result = pcall(function()
      if #text < 128 or text:sub(127, 128) ~= "IM" then
         fail "expected a MATLAB file of version 5, little-endian"
      end
      local arrays, at = {}, 129
      while at <= #text do
         local kind, n, from, next_at = tag(text, at)
         local inner, place = text, from
         if kind == compressed then
            inner = unpack(text, from, n)
            kind, n, place = tag(inner, 1)
         end
         if place + n - 1 > #inner then fail "it ends too early" end
         if kind == matrix then
            local name, values = read_matrix(inner, place)
            arrays[name] = values
         end
         at = next_at
      end
      return arrays
   end)
   if ok then return result end
   return nil, "the file cannot be read: " .. tostring(result)
end

return M
