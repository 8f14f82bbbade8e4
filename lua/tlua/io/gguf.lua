-- gguf.lua - reads GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata
-- and tensors; quantized tensors become float32. The file lists the sizes of a shape in reverse;
-- here the number of rows comes first, as in other formats.

local torch = require "tlua"
local source = require "tlua.io.source"

local M = {}

local formats <const> = {[0] = "<B", "<b", "<I2", "<i2", "<I4", "<i4", "<f", "B", [10] = "<i8",
   [11] = "<i8", [12] = "<d"}
local dtypes <const> = {[0] = "float32", "float16", [24] = "int8", [25] = "int16", [26] = "int32",
   [27] = "int64", [28] = "float64", [30] = "bfloat16"}
local blocks <const> = {[2] = "Q4_0", [8] = "Q8_0", [12] = "Q4_K", [14] = "Q6_K"}
local names <const> = {[3] = "Q4_1", [6] = "Q5_0", [7] = "Q5_1", [9] = "Q8_1", [10] = "Q2_K",
   [11] = "Q3_K", [13] = "Q5_K", [15] = "Q8_K"}

-- Reads a count of items, each of which takes at least `least` bytes. Refuses a count of more items
-- than the rest of the file can hold.
local function read_count(s, least)
   local n = s:unpack "<i8"
   if n < 0 or n > (s.size - s.at + 1) // least then
      source.fail("byte %d: a count of %d does not fit into the file", s.at - 8, n)
   end
   return n
end

local function read_string(s) return s:text(read_count(s, 1)) end

local function read_value(s, kind, depth)
   if kind == 8 then return read_string(s) end
   if kind == 9 then
      if depth > 4 then source.fail "metadata are nested too deeply" end
      local of = s:unpack "<I4"
      local list = {}
      for i = 1, read_count(s, 1) do list[i] = read_value(s, of, depth + 1) end
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

local function read_tensor(s, info, data)
   local first = data + info.offset
   if info.offset < 0 or first > s.size + 1 or first < data then
      source.fail("tensor %q lies outside of the file", info.name)
   end
   if dtypes[info.kind] then
      local tensor, why = source.protect(s.elements, s, first, info.shape, dtypes[info.kind])
      return tensor or source.fail("tensor %q: %s", info.name, why)
   end
   if not blocks[info.kind] then
      source.fail("tensor %q: the quantization %s cannot be read", info.name,
         names[info.kind] or info.kind)
   end
   local tensor, why = torch.io.dequantize(s.bytes, first, info.shape, blocks[info.kind])
   return tensor or source.fail("tensor %q: %s", info.name, why)
end

--- Returns a table from names to a file's tensors, and the file's metadata.
---@param bytes Tensor  (n) uint8
---@return table<string, Tensor> tensors
---@return table<string, any> metadata
function M.read(bytes)
   local s, metadata, infos, tensors = source.new(bytes), {}, {}, {}
   if s:text(4) ~= "GGUF" then source.fail "no GGUF file: it does not begin with GGUF" end
   local version = s:unpack "<I4"
   if version ~= 2 and version ~= 3 then source.fail("version %d; expected 2 or 3", version) end
   local count, pairs_ = read_count(s, 24), read_count(s, 12)
   for _ = 1, pairs_ do
      local key = read_string(s)
      metadata[key] = read_value(s, s:unpack "<I4", 0)
   end
   for i = 1, count do infos[i] = read_info(s) end
   local alignment = metadata["general.alignment"] or 32
   if math.type(alignment) ~= "integer" or alignment < 1 then
      source.fail "general.alignment is not a size"
   end
   local data = (s.at - 1 + alignment - 1) // alignment * alignment + 1
   for _, info in ipairs(infos) do tensors[info.name] = read_tensor(s, info, data) end
   return tensors, metadata
end

return M
