-- gguf.lua - reads GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata
-- and tensors; quantized tensors become float32. The file lists the sizes of a shape with the
-- number of rows last; this file's functions put it first, as other formats do.

local torch = require "tlua"
local compact = require "tlua.io.compact"
local source = require "tlua.io.source"

local M = {}

local formats <const> = {[0] = "<B", "<b", "<I2", "<i2", "<I4", "<i4", "<f", "B", [10] = "<i8",
   [11] = "<i8", [12] = "<d"}
local dtypes <const> = {[0] = "float32", "float16", [24] = "int8", [25] = "int16", [26] = "int32",
   [27] = "int64", [28] = "float64", [30] = "bfloat16"}
-- The layouts of quantized blocks. Each has a name, the bytes in a block and the elements in it.
local blocks <const> = {
   [2] = {"Q4_0", 18, 32}, [3] = {"Q4_1", 20, 32}, [6] = {"Q5_0", 22, 32}, [7] = {"Q5_1", 24, 32},
   [8] = {"Q8_0", 34, 32}, [10] = {"Q2_K", 84, 256}, [11] = {"Q3_K", 110, 256},
   [12] = {"Q4_K", 144, 256}, [13] = {"Q5_K", 176, 256}, [14] = {"Q6_K", 210, 256},
   [20] = {"IQ4_NL", 18, 32}, [23] = {"IQ4_XS", 136, 256},
}
local names <const> = {[9] = "Q8_1", [15] = "Q8_K", [16] = "IQ2_XXS", [17] = "IQ2_XS",
   [18] = "IQ3_XXS", [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S", [29] = "IQ1_M",
   [34] = "TQ1_0", [35] = "TQ2_0", [39] = "MXFP4"}

-- Reads a count of items, each of which takes at least `least` bytes. Raises an error for a count
-- of more items than the rest of the file can hold.
local function read_count(s, least)
   local n = s:unpack "<i8"
   if n < 0 or n > (s.size - s.at + 1) // least then
      source.fail("byte %d: a count of %d does not fit into the file", s.at - 8, n)
   end
   return n
end

local function read_string(s) return s:text(read_count(s, 1)) end

local window <const> = 1 << 16 -- the number of bytes that are read at a time

-- Reads `count` strings, and passes lists of them to `add`. Windows of the file, `window` bytes
-- long, are read at once, and most strings are unpacked from a window.
local function read_strings(s, count, add)
   local left = count
   while left > 0 do
      local first, list, n = s.at, {}, 0
      local text = s:text(math.min(window, s.size - s.at + 1))
      local at = 1
      while n < left and at + 7 <= #text do
         local size = string.unpack("<i8", text, at)
         if size < 0 or size > #text - at - 7 then break end
         n = n + 1
         list[n] = text:sub(at + 8, at + 7 + size)
         at = at + 8 + size
      end
      s.at = first + at - 1
      if n < left and (at + window // 2 <= #text + 1 or at == 1) then
         n = n + 1
         list[n] = read_string(s) -- the string is longer than the window, or damaged
      end
      add(list)
      left = left - n
   end
end

-- Reads `count` numbers in a format of string.unpack, and returns them as a list.
local function read_numbers(s, format, count)
   local list, size, most <const> = {}, string.packsize(format), 128
   for first = 1, count, most do
      local n = math.min(most, count - first + 1)
      local text = s:text(n * size)
      local values = table.pack(string.unpack("<" .. format:sub(-#format + 1):rep(n), text))
      table.move(values, 1, n, first, list)
   end
   return list
end

-- A list with at least this many items is stored compactly (compact.lua) if the caller allows it.
local long <const> = 1024

local function read_list(s, of, count)
   local is_long = s.is_compact and count >= long
   if of ~= 8 then
      local format = formats[of]
      if not is_long then return read_numbers(s, format, count) end
      return compact.numbers(s:text(count * string.packsize(format)), format)
   end
   if is_long then
      local add, finish = compact.strings()
      read_strings(s, count, add)
      return finish()
   end
   local all = {}
   read_strings(s, count, function(list) table.move(list, 1, #list, #all + 1, all) end)
   return all
end

local function read_value(s, kind, depth)
   if kind == 8 then return read_string(s) end
   if kind == 9 then
      if depth > 4 then source.fail "metadata are nested too deeply" end
      local of = s:unpack "<I4"
      local format = formats[of]
      local count = read_count(s, of == 8 and 8 or format and string.packsize(format) or 1)
      if of == 8 or format and of ~= 7 then return read_list(s, of, count) end
      local list = {}
      for i = 1, count do list[i] = read_value(s, of, depth + 1) end
      return list
   end
   local format = formats[kind]
   if not format then source.fail("byte %d: metadata of unknown type %d", s.at, kind) end
   local value = s:unpack(format)
   if kind == 7 then return value ~= 0 end
   return value
end

local function read_info(s)
   local info = {name = read_string(s), shape = {}}
   local n = s:unpack "<I4"
   if n > 16 then source.fail("tensor %q: %d dimensions", info.name, n) end
   for i = n, 1, -1 do
      info.shape[i] = s:unpack "<i8"
      if info.shape[i] < 0 then source.fail("tensor %q: a negative size", info.name) end
   end
   info.kind, info.offset = s:unpack "<I4", s:unpack "<i8"
   return info
end

-- Completes a tensor's description: adds the position of its first byte, and its dtype or, for a
-- quantized tensor, its layout and the number of bytes in a row. Checks that the tensor lies within
-- the file.
local function complete(s, info, data)
   info.first = data + info.offset
   if info.offset < 0 or info.first > s.size + 1 or info.first < data then
      source.fail("tensor %q lies outside of the file", info.name)
   end
   info.dtype = dtypes[info.kind]
   if info.dtype then return end
   local block = blocks[info.kind]
   if not block then
      info.unknown = names[info.kind] or tostring(info.kind)
      return
   end
   local shape = info.shape
   local columns, rows = shape[#shape] or 1, 1
   if columns % block[3] ~= 0 then
      source.fail("tensor %q: rows of %d elements do not divide into %s blocks of %d elements",
         info.name, columns, block[1], block[3])
   end
   info.layout, info.row_bytes = block[1], columns // block[3] * block[2]
   local most = s.size - info.first + 1
   for i = 1, #shape - 1 do
      local fits = shape[i] == 0 or rows <= most // shape[i]
      rows = fits and rows * shape[i] or most + 1
   end
   if rows > 0 and info.row_bytes > most // rows then
      source.fail("tensor %q: %d rows of %d bytes lie outside of the file", info.name, rows,
         info.row_bytes)
   end
   info.rows = rows
end

--- Reads a file's metadata and the descriptions of its tensors: name, shape, first (the position of
--- the first byte), dtype or layout; for a layout of quantized blocks also rows and row_bytes.
---@param bytes Tensor  (n) uint8
---@param is_compact? boolean  whether long lists in the metadata are compact lists (compact.lua)
---@return io.Source source
---@return table[] infos
---@return table<string, any> metadata
function M.open(bytes, is_compact)
   local s, metadata, infos, seen = source.new(bytes), {}, {}, {}
   s.is_compact = is_compact
   if s:text(4) ~= "GGUF" then source.fail "no GGUF file: it does not begin with GGUF" end
   local version = s:unpack "<I4"
   if version ~= 2 and version ~= 3 then source.fail("version %d; expected 2 or 3", version) end
   local count, pairs_ = read_count(s, 24), read_count(s, 12)
   for _ = 1, pairs_ do
      local key = read_string(s)
      metadata[key] = read_value(s, s:unpack "<I4", 0)
   end
   for i = 1, count do
      infos[i] = read_info(s)
      if seen[infos[i].name] then source.fail("tensor %q occurs twice", infos[i].name) end
      seen[infos[i].name] = true
   end
   local alignment = metadata["general.alignment"] or 32
   if math.type(alignment) ~= "integer" or alignment < 1 or alignment > 1 << 32 then
      source.fail "general.alignment is not a size"
   end
   local data = (s.at - 1 + alignment - 1) // alignment * alignment + 1
   for _, info in ipairs(infos) do complete(s, info, data) end
   return s, infos, metadata
end

--- Returns a tensor of a file; quantized tensors become float32.
---@param s io.Source
---@param info table
---@return Tensor
function M.tensor(s, info)
   if info.unknown then
      source.fail("tensor %q: the quantization %s cannot be read", info.name, info.unknown)
   end
   local tensor, why
   if info.dtype then
      tensor, why = source.protect(s.elements, s, info.first, info.shape, info.dtype)
   else
      tensor, why = torch.io.dequantize(s.bytes, info.first, info.shape, info.layout)
   end
   return tensor or source.fail("tensor %q: %s", info.name, why)
end

--- Returns a table from names to a file's tensors, and the file's metadata.
---@param bytes Tensor  (n) uint8
---@return table<string, Tensor> tensors
---@return table<string, any> metadata
function M.read(bytes)
   local s, infos, metadata = M.open(bytes)
   local tensors = {}
   for _, info in ipairs(infos) do tensors[info.name] = M.tensor(s, info) end
   return tensors, metadata
end

return M
