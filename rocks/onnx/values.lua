-- values.lua - converts TensorProto messages to tensors and back. A value of a graph is a tensor, a
-- tensor of strings (Strings), a sequence (Sequence), or an absent optional (nil).

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local wire = require "tlua.onnx.wire"

local M = {}

local MAX_DIMS <const> = 16

--- A tensor of strings: a list of the strings in row-major order, with the field `shape`.
---@class onnx.Strings
---@field shape integer[]
local Strings = {}
Strings.__index = Strings
M.Strings = Strings

--- Returns a tensor of strings.
function M.strings(list, shape)
   local copy = table.move(list, 1, #list, 1, {})
   copy.shape = shape
   return setmetatable(copy, Strings)
end

--- A sequence of values.
---@class onnx.Sequence
local Sequence = {}
Sequence.__index = Sequence
M.Sequence = Sequence

--- Returns a sequence with the values of a list.
function M.sequence(list) return setmetatable(table.move(list, 1, #list, 1, {}), Sequence) end

function M.is_strings(value) return getmetatable(value) == Strings end
function M.is_sequence(value) return getmetatable(value) == Sequence end

--- Returns a description of a value, for messages: its dtype and shape.
function M.describe(value)
   if value == nil then return "nothing" end
   if torch.is_tensor(value) then
      return ("%s {%s}"):format(value.dtype, table.concat(value.shape, ", "))
   elseif M.is_strings(value) then
      return ("strings {%s}"):format(table.concat(value.shape, ", "))
   elseif M.is_sequence(value) then
      return ("a sequence of %d"):format(#value)
   end
   return type(value)
end

-- Maps a dtype to the number of bytes of an element. The value is false if this build does not have
-- the dtype.
local sizes = {}

--- Returns the number of bytes of an element, or nil if tlua does not have the dtype.
function M.element_size(dtype)
   if sizes[dtype] == nil then
      local there, sample = pcall(torch.empty, {0}, {dtype = dtype})
      sizes[dtype] = there and sample.dtype == dtype and sample:element_size() or false
   end
   return sizes[dtype] or nil
end

-- Reading -----------------------------------------------------------------------------------------

-- Returns the shape of a tensor and the number of its elements, after a check that a file can
-- contain so many.
local function check_shape(proto, title)
   local shape, n = {}, 1
   if proto.dims and #proto.dims > MAX_DIMS then
      wire.fail("%s: %d dimensions; tensors have at most %d", title, #proto.dims, MAX_DIMS)
   end
   for i, size in ipairs(proto.dims or {}) do
      if size < 0 then wire.fail("%s: dims: a size of %d", title, size) end
      if size > 0 and n > math.maxinteger // 16 // size then
         wire.fail("%s: dims: {%s} has too many elements", title, table.concat(proto.dims, ", "))
      end
      shape[i], n = size, n * size
   end
   return shape, n
end

local fields <const> = {
   float32 = "float_data", float64 = "double_data", int64 = "int64_data", uint32 = "uint64_data",
   uint64 = "uint64_data", string = "string_data", complex64 = "float_data",
   complex128 = "double_data",
}

-- Reads bytes of a file, n bytes from `first` on, as elements of a dtype.
local function elements(reader, first, n, shape, count, dtype, title, field)
   local size = M.element_size(dtype)
   if n ~= count * size then
      wire.fail("%s: %s: expected %d bytes for %s {%s}, got %d", title, field, count * size, dtype,
         table.concat(shape, ", "), n)
   end
   if count == 0 then return torch.empty(shape, {dtype = dtype}) end
   if dtype == "bool" then -- any byte other than 0 means true
      return torch.io.bytes_as(reader.bytes, first, shape, "uint8"):ne(0)
   end
   local tensor, why = torch.io.bytes_as(reader.bytes, first, shape, dtype)
   return tensor or wire.fail("%s: %s: %s", title, field, why)
end

-- Checks where a tensor's external data are stored. Returns the file's path, the offset in the file
-- and the length.
local function external_place(proto, folder, title)
   local place = {}
   for _, entry in ipairs(proto.external_data or {}) do place[entry.key or ""] = entry.value end
   local name = place.location
   if not name or name == "" then wire.fail("%s: external_data: no location", title) end
   local outside = name:find "^[/\\]" or name:find "^%a:" or name:find "%z"
   for part in name:gmatch "[^/\\]+" do outside = outside or part == ".." end
   if outside then
      wire.fail("%s: external_data: expected a file in the model's folder, got %q", title, name)
   end
   local offset, length = 0, nil
   if place.offset then offset = math.tointeger(tonumber(place.offset)) end
   if place.length then length = math.tointeger(tonumber(place.length)) end
   if not offset or offset < 0 or place.length and (not length or length < 0) then
      wire.fail("%s: external_data: expected numbers of bytes, got offset %q, length %q", title,
         tostring(place.offset), tostring(place.length))
   end
   return folder .. name, offset, length
end

local function read_external(proto, source, shape, n, dtype, title)
   local path, offset, length = external_place(proto, source.folder, title)
   local files = source.files
   files[path] = files[path] or wire.open(path)
   local reader = files[path]
   length = length or n * M.element_size(dtype)
   if offset > reader.size or length > reader.size - offset then
      wire.fail("%s: external_data: %s has %d bytes; offset %d and length %d lie outside", title,
         path, reader.size, offset, length)
   end
   return elements(reader, offset + 1, length, shape, n, dtype, title, "external_data")
end

-- Reads the elements from one of the typed fields. The field is a list of numbers, or a packed list
-- that is still in the file.
local function read_list(list, reader, shape, n, dtype, title, field)
   local complex = dtype:find "^complex"
   if list.n then
      return elements(reader, list.first, list.n, shape, n, dtype, title, field)
   end
   if #list ~= (complex and 2 * n or n) then
      wire.fail("%s: %s: expected %d numbers for %s {%s}, got %d", title, field,
         complex and 2 * n or n, dtype, table.concat(shape, ", "), #list)
   end
   if n == 0 then return torch.empty(shape, {dtype = dtype}) end
   if complex then
      local half = dtype == "complex64" and "float32" or "float64"
      return torch.view_as_complex(torch.tensor(list, {dtype = half}):view(n, 2)):reshape(shape)
   end
   local size = M.element_size(dtype)
   if dtype == "bool" then return torch.tensor(list, {dtype = "int64"}):ne(0):reshape(shape) end
   -- In this case the field has the bits of the elements.
   if field == "int32_data" or field == "uint64_data" then
      local format, parts = "<I" .. size, {}
      local mask = size == 8 and -1 or (1 << 8 * size) - 1
      for i, value in ipairs(list) do parts[i] = string.pack(format, value & mask) end
      return torch.io.bytes_as(torch.io.bytes(table.concat(parts)), 1, shape, dtype)
   end
   return torch.tensor(list, {dtype = dtype}):reshape(shape)
end

--- Returns the value of a TensorProto.
---@param proto table
---@param source {reader: onnx.Bytes, folder: string, files: table}
---@param title string  the tensor's name in messages
---@return any value
function M.read(proto, source, title)
   local shape, n = check_shape(proto, title)
   local dtype = schema.dtypes[proto.data_type or 0]
   if not dtype then
      wire.fail("%s: data_type: the unknown number %d", title, proto.data_type or 0)
   end
   if proto.segment then wire.fail("%s: segments are not supported", title) end
   if dtype == "string" then
      local list = proto.string_data or {}
      if #list ~= n then
         wire.fail("%s: string_data: expected %d strings, got %d", title, n, #list)
      end
      return M.strings(list, shape)
   end
   if not M.element_size(dtype) then
      wire.fail("%s: the dtype %s is not supported", title, dtype)
   end
   if proto.data_location == 1 then
      return read_external(proto, source, shape, n, dtype, title)
   end
   local raw = proto.raw_data
   if raw then
      return elements(source.reader, raw.first, raw.n, shape, n, dtype, title, "raw_data")
   end
   local field = fields[dtype] or "int32_data"
   return read_list(proto[field] or {}, source.reader, shape, n, dtype, title, field)
end

--- Converts a SparseTensorProto to a dense tensor.
function M.read_sparse(proto, source, title)
   local dense = check_shape(proto, title)
   if not (proto.values and proto.indices) then wire.fail("%s: no values or indices", title) end
   local values = M.read(proto.values, source, title .. ": values")
   local places = M.read(proto.indices, source, title .. ": indices")
   local total = 1
   for _, size in ipairs(dense) do total = total * size end
   if values:dim() ~= 1 or places.dtype ~= "int64" or total > 1 << 32 then
      wire.fail("%s: expected values {n} and indices of int64, got %s and %s", title,
         M.describe(values), M.describe(places))
   end
   if places:dim() == 2 and places:size(2) == #dense and places:size(1) == values:numel() then
      local linear = torch.zeros({places:size(1)}, {dtype = "int64"})
      for i, size in ipairs(dense) do linear = linear * size + places:select(2, i) end
      places = linear
   elseif places:dim() ~= 1 or places:numel() ~= values:numel() then
      wire.fail("%s: indices: expected one for each of %d values, got %s", title, values:numel(),
         M.describe(places))
   end
   if places:numel() > 0 and (places:min():item() < 0 or places:max():item() >= total) then
      wire.fail("%s: indices lie outside of {%s}", title, table.concat(dense, ", "))
   end
   local flat = torch.zeros({total}, {dtype = values.dtype})
   return flat:index_put({places + 1}, values):reshape(dense)
end

-- Writing -----------------------------------------------------------------------------------------

--- Converts a tensor to a TensorProto.
---@param name string?
---@param tensor Tensor
---@return table proto
function M.write(name, tensor)
   local data = tensor:detach():cpu():contiguous()
   local number = schema.numbers[data.dtype]
   if not number then wire.fail("%s: ONNX has no dtype %s", tostring(name), data.dtype) end
   return {name = name, dims = table.move(data.shape, 1, #data.shape, 1, {}), data_type = number,
      raw_data = data}
end

return M
