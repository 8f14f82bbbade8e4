-- safetensors.lua - the file format: 8 bytes with the header's length (little-endian), the header,
-- then the tensors' bytes. The header is a JSON object
--
--    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
--     "__metadata__": {"key": "text", ...}}
--
-- with offsets from the end of the header. The reader takes only files whose tensors fill the rest
-- of the file without gap or overlap, and checks every size before it allocates anything.
--
-- The dtypes' names are those of the safetensors package (0.8), which lacks C128 and C32: no other
-- program reads files with tensors of complex128 and complex32.

local torch = require "tlua"
local json = require "tlua.utils.json"

local M = {}

-- the largest header, in bytes, that the format allows
local max_header <const> = 100000000
local max_dims <const> = 16

-- The format names a dtype by the letters of its kind and the number of its bits: F32 for float32,
-- BF16, U8; only BOOL has no number. Two names lack the last letters of the dtype's name, which
-- describe its special values.
local letters = {float = "F", bfloat = "BF", int = "I", uint = "U", bool = "BOOL", complex = "C"}
local kinds = {}
for kind, code in pairs(letters) do kinds[code] = kind end

local shortened <const> = {float8_e4m3fn = "F8_E4M3", float8_e8m0fnu = "F8_E8M0"}
local full <const> = {F8_E4M3 = "float8_e4m3fn", F8_E8M0 = "float8_e8m0fnu"}

local function code_of(dtype)
   if shortened[dtype] then return shortened[dtype] end
   local kind, rest = dtype:match("^(%l+)(.*)$")
   return letters[kind] and letters[kind] .. rest:upper()
end

local known = {} -- maps each code to {dtype, bytes of an element}

-- Returns the dtype of a code, or nil if this build of the library lacks the dtype.
local function dtype_of(code)
   if type(code) ~= "string" then return nil end
   local kind, rest = code:match("^(%u+)(.*)$")
   if not known[code] and kinds[kind] then
      local name = full[code] or kinds[kind] .. rest:lower()
      local there, sample = pcall(torch.empty, {0}, {dtype = name})
      if there and sample.dtype == name and code_of(name) == code then
         known[code] = {name, sample:element_size()}
      end
   end
   return known[code]
end

-- Reading ------------------------------------------------------------------------------------

-- Returns the product of a shape and the size of an element, or nil if it overflows. Even if some
-- size is 0, the other sizes must not overflow.
local function byte_count(shape, size)
   local bytes, empty = size, false
   for _, n in ipairs(shape) do
      if n == 0 then
         empty = true
      elseif bytes > math.maxinteger // n then
         return nil
      else
         bytes = bytes * n
      end
   end
   return empty and 0 or bytes
end

local fields = {dtype = true, shape = true, data_offsets = true}

local function is_count(value)
   return math.type(value) == "integer" and value >= 0
end

local function is_count_list(value)
   if not json.is_array(value) then return false end
   for i = 1, #value do
      if not is_count(value[i]) then return false end
   end
   return true
end

-- Checks a tensor in the header. Returns {name, dtype, shape, first, last}, or nil and a message.
local function check_entry(name, entry, data_size)
   if type(entry) ~= "table" or json.is_array(entry) then return nil, "expected an object" end
   for field in pairs(entry) do
      if not fields[field] then return nil, ("unknown field %q"):format(field) end
   end
   local dtype = dtype_of(entry.dtype)
   if not dtype then return nil, ("unknown dtype %s"):format(tostring(entry.dtype)) end
   local shape, offsets = entry.shape, entry.data_offsets
   if not is_count_list(shape) then return nil, "shape is not a list of sizes" end
   if #shape > max_dims then
      return nil, ("%d dimensions, expected at most %d"):format(#shape, max_dims)
   end
   if not is_count_list(offsets) or #offsets ~= 2 then
      return nil, "data_offsets is no pair of offsets"
   end
   local first, last = offsets[1], offsets[2]
   if first > last or last > data_size then
      return nil, ("data_offsets %d to %d lie outside of the file's %d bytes of data"):format(
         first, last, data_size)
   end
   local bytes = byte_count(shape, dtype[2])
   if bytes ~= last - first then
      return nil, ("shape (%s) of %s takes %s bytes, data_offsets hold %d"):format(
         table.concat(shape, ", "), entry.dtype, bytes or "too many", last - first)
   end
   local plain = {}
   for i, n in ipairs(shape) do plain[i] = n end
   return {name = name, dtype = dtype[1], shape = plain, first = first, last = last}
end

local function check_metadata(metadata)
   if metadata == nil then return {} end
   if type(metadata) ~= "table" or json.is_array(metadata) or metadata == json.null then
      return nil, "__metadata__ is no object"
   end
   for key, value in pairs(metadata) do
      if type(value) ~= "string" then
         return nil, ("__metadata__: %q: expected a string"):format(key)
      end
   end
   return metadata
end

--- Reads a header's text.
---@param text string
---@param data_size integer  bytes after the header
---@return {name: string, dtype: string, shape: integer[], first: integer, last: integer}[]? entries
--- entries in the order of their data; nil on failure
---@return table<string, string>|string metadata  or an error message
function M.parse(text, data_size)
   local header, message = json.decode(text)
   if header == nil then return nil, "the header is not JSON: " .. message end
   if type(header) ~= "table" or json.is_array(header) or header == json.null then
      return nil, "the header is not a JSON object"
   end
   local metadata, why = check_metadata(header.__metadata__)
   if not metadata then return nil, why end

   local entries = {}
   for name, value in pairs(header) do
      if name ~= "__metadata__" then
         local entry
         entry, why = check_entry(name, value, data_size)
         if not entry then return nil, ("tensor %q: %s"):format(name, why) end
         entries[#entries + 1] = entry
      end
   end
   table.sort(entries, function(a, b)
      if a.first ~= b.first then return a.first < b.first end
      if a.last ~= b.last then return a.last < b.last end
      return a.name < b.name
   end)
   local position = 0
   for _, entry in ipairs(entries) do
      if entry.first ~= position then
         return nil, ("tensor %q: expected to begin at byte %d of the data, got %d"):format(
            entry.name, position, entry.first)
      end
      position = entry.last
   end
   if position ~= data_size then
      return nil, ("%d bytes of data belong to no tensor"):format(data_size - position)
   end
   return entries, metadata
end

-- Reads the header's text; returns it and the number of bytes after it, or nil and a message.
local function read_header(file)
   local prefix, message = file:read(8)
   if not prefix or #prefix < 8 then
      return nil, message or "not a safetensors file: shorter than 8 bytes"
   end
   local size = file:seek("end")
   if not size or not file:seek("set", 8) then return nil, "the file has no known length" end
   -- A length of 2^63 or more is read as a negative number, and refused.
   local length = string.unpack("<i8", prefix)
   if length < 0 or length > max_header or length > size - 8 then
      return nil, ("not a safetensors file, or a damaged one: it has %d bytes, and its header "
         .. "should have %s"):format(size, length < 0 and "more than 2^63" or length)
   end
   local text = length == 0 and "" or file:read(length)
   if not text or #text < length then return nil, "the header cannot be read" end
   return text, size - 8 - length
end

-- Files of at least this many bytes are mapped by default, so that a tensor is read only when it is
-- used.
local map_from <const> = 1 << 24

-- Returns a function that returns the tensor of an entry. With `mmap` the tensor is a view of the
-- mapped file; otherwise it is read from the file, so entries must come in the file's order.
local function tensor_reader(file, path, data_size, mmap)
   if not mmap then
      return function(entry) return torch.io.read(file, entry.shape, entry.dtype) end
   end
   local begin = file:seek()
   local bytes, message = torch.io.map(path)
   if bytes and bytes:numel() ~= begin + data_size then
      return nil, "the file changes while it is read"
   end
   if not bytes then return nil, message end
   return function(entry)
      return torch.io.bytes_as(bytes, begin + entry.first + 1, entry.shape, entry.dtype)
   end
end

--- Reads all tensors of an open file.
---@param file file*
---@param path? string  the file's path, needed to map it
---@param mmap? boolean  if nil, large files are mapped
---@return table<string, Tensor>? tensors  nil on failure
---@return table<string, string>|string metadata  or an error message
function M.read(file, path, mmap)
   local text, data_size = read_header(file)
   if not text then return nil, data_size end
   local entries, metadata = M.parse(text, data_size)
   if not entries then return nil, metadata end
   if mmap == nil then mmap = path ~= nil and data_size >= map_from end
   local tensors, read_tensor, why = {}, tensor_reader(file, path, data_size, mmap)
   if not read_tensor then return nil, why end
   for _, entry in ipairs(entries) do
      local tensor, message = read_tensor(entry)
      if not tensor then return nil, ("tensor %q: %s"):format(entry.name, message) end
      tensors[entry.name] = tensor
   end
   return tensors, metadata
end

-- Writing ------------------------------------------------------------------------------------

-- Sorts entries by the size of an element, the largest first, so that the data of every tensor are
-- aligned. Returns nil and a message if the format lacks a dtype.
local function sorted(entries)
   local list = {}
   for i, entry in ipairs(entries) do
      local code = code_of(entry.tensor.dtype)
      if not code then
         return nil, ("tensor %q: safetensors has no dtype %s"):format(
            entry.name, entry.tensor.dtype)
      end
      list[i] = {name = entry.name, tensor = entry.tensor, code = code, size = dtype_of(code)[2]}
   end
   table.sort(list, function(a, b)
      if a.size ~= b.size then return a.size > b.size end
      return a.name < b.name
   end)
   return list
end

-- Returns the header's text for the tensors of `list`, in this order.
local function compose(list, metadata)
   local header, position = {}, 0
   for _, entry in ipairs(list) do
      local last = position + entry.tensor:numel() * entry.size
      header[entry.name] = {
         dtype = entry.code, shape = json.as_array({table.unpack(entry.tensor.shape)}),
         data_offsets = {position, last},
      }
      position = last
   end
   if next(metadata) ~= nil then header.__metadata__ = metadata end
   local text = json.encode(header)
   return text .. (" "):rep(-#text % 8)
end

--- Writes tensors to an open file.
---@param file file*
---@param entries {name: string, tensor: Tensor}[]
---@param metadata table<string, string>
---@return string? failure
function M.write(file, entries, metadata)
   local list, why = sorted(entries)
   if not list then return why end
   local text = compose(list, metadata)
   if #text > max_header then return "the header would be too long" end
   local ok, message = file:write(string.pack("<i8", #text), text)
   if not ok then return message end
   for _, entry in ipairs(list) do
      ok, message = torch.io.write(file, entry.tensor:detach():cpu())
      if not ok then return message end
   end
end

return M
