-- npy.lua - NumPy's arrays: .npy files, and .npz files, which are zip files of .npy files. Versions
-- 1 to 3 of numpy.lib.format can be read; version 1 is written. Arrays of objects are refused,
-- because building them would run code from the file.

local torch = require "tlua"
local source = require "tlua.io.source"
local zip = require "tlua.io.zip"

local M = {}

-- Maps a kind and a size in bytes, such as "f4", to the dtype of the tensor into which elements are
-- read.
local dtypes <const> = {
   f2 = "float16", f4 = "float32", f8 = "float64", i1 = "int8", i2 = "int16", i4 = "int32",
   i8 = "int64", u1 = "uint8", b1 = "bool", u2 = "uint16", u4 = "uint32", u8 = "uint64",
   c8 = "complex64", c16 = "complex128",
}

-- Reads the header, a dictionary in Python's syntax.
local function read_header(text)
   local descr = text:match "'descr'%s*:%s*'([^']*)'"
   local order = text:match "'fortran_order'%s*:%s*(%a+)"
   local list = text:match "'shape'%s*:%s*%(([%d%s,L]*)%)"
   if not descr then source.fail "descr: expected one type of elements, as in '<f4'" end
   if order ~= "True" and order ~= "False" then
      source.fail "fortran_order: expected True or False"
   end
   if not list then source.fail "shape: expected a tuple of sizes" end
   local shape = {}
   for digits in list:gmatch "%d+" do
      shape[#shape + 1] = math.tointeger(tonumber(digits)) or source.fail "shape: too large"
   end
   if #shape > 16 then source.fail("%d dimensions; expected at most 16", #shape) end
   return descr, order == "True", shape
end

--- Returns the array in a file's bytes.
---@param bytes Tensor  (n) uint8
---@return Tensor
function M.array(bytes)
   local s = source.new(bytes)
   if s:text(6) ~= "\x93NUMPY" then
      source.fail "no .npy file: it does not begin with \\x93NUMPY"
   end
   local version = s:unpack "B"
   s:unpack "B"
   if version < 1 or version > 3 then source.fail("version %d; expected 1 to 3", version) end
   local descr, fortran, shape = read_header(s:text(s:unpack(version == 1 and "<I2" or "<I4")))
   local order, kind = descr:match "^([<>|=]?)(%a%d+)$"
   local dtype = dtypes[kind]
   if not dtype then source.fail("elements of type '%s' cannot be read", descr) end
   if fortran then
      local turned = {}
      for i = 1, #shape do turned[i] = shape[#shape + 1 - i] end
      shape = turned
   end
   local size = math.tointeger(tonumber(kind:sub(2)))
   local tensor
   -- the bytes of a complex number's two parts are swapped separately
   if order == ">" and kind:sub(1, 1) == "c" then
      local pairs_shape = table.move(shape, 1, #shape, 1, {})
      pairs_shape[#pairs_shape + 1] = 2
      tensor = s:big_endian(s.at, pairs_shape, size == 8 and "float32" or "float64", size // 2)
      tensor = tensor:view_as_complex()
   elseif order == ">" and size > 1 then
      tensor = s:big_endian(s.at, shape, dtype, size)
   else
      tensor = s:elements(s.at, shape, dtype)
   end
   if not fortran or #shape < 2 then return tensor end
   local dims = {}
   for i = 1, #shape do dims[i] = #shape + 1 - i end
   return tensor:permute(dims)
end

--- Returns a table from names to the arrays in a .npz file.
---@param bytes Tensor  (n) uint8
---@return table<string, Tensor>
function M.arrays(bytes)
   local archive, arrays = zip.open(bytes), {}
   for name, entry in pairs(archive) do
      local key = name:match "^(.*)%.npy$"
      if key then
         local array, why = source.protect(M.array, zip.read(bytes, entry, true))
         if not array then source.fail("%s: %s", name, why) end
         arrays[key] = array
      end
   end
   return arrays
end

-- Writing ------------------------------------------------------------------------------------

local descriptions <const> = {
   float16 = "<f2", float32 = "<f4", float64 = "<f8", int8 = "|i1", int16 = "<i2", int32 = "<i4",
   int64 = "<i8", uint8 = "|u1", bool = "|b1", complex64 = "<c8", complex128 = "<c16",
   uint16 = "<u2", uint32 = "<u4", uint64 = "<u8",
}

-- Returns a .npy header with NumPy's padding, which leaves room for a first size of 21 digits and
-- aligns the elements to 64 bytes. Returns nil and a message if NumPy lacks the dtype.
local function compose_header(tensor)
   local description = descriptions[tensor.dtype]
   if not description then return nil, "NumPy has no dtype " .. tensor.dtype end
   local sizes = table.concat(tensor.shape, ", ")
   if tensor:dim() == 1 then sizes = sizes .. "," end
   local text = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(description,
      sizes)
   if tensor:dim() > 0 then text = text .. (" "):rep(21 - #tostring(tensor:size(1))) end
   text = text .. (" "):rep(-(10 + #text + 1) % 64) .. "\n"
   return "\x93NUMPY\1\0" .. ("<s2"):pack(text)
end

--- Writes an array to an open file.
---@param file file*
---@param tensor Tensor
---@return string? failure
function M.write(file, tensor)
   if not torch.is_tensor(tensor) then
      return "expected a tensor, got " .. torch.type(tensor)
   end
   tensor = tensor:detach():cpu()
   local header, why = compose_header(tensor)
   if not header then return why end
   local ok, message = file:write(header)
   if ok then ok, message = torch.io.write(file, tensor) end
   if not ok then return message end
end

--- Writes a table of arrays to an open file, as numpy.savez does or, with `compress`,
--- numpy.savez_compressed.
---@param file file*
---@param arrays table<string, Tensor>
---@param compress? boolean
---@return string? failure
function M.write_all(file, arrays, compress)
   if type(arrays) ~= "table" or getmetatable(arrays) then
      return "expected a table of tensors, got " .. torch.type(arrays)
   end
   local names = {}
   for name, tensor in pairs(arrays) do
      if type(name) ~= "string" or not torch.is_tensor(tensor) then
         return ("%s: expected a table from names to tensors, got %s"):format(tostring(name),
            torch.type(type(name) == "string" and tensor or name))
      end
      names[#names + 1] = name
   end
   table.sort(names)
   local archive = zip.new(file)
   for _, name in ipairs(names) do
      local tensor = arrays[name]:detach():cpu()
      local header, why = compose_header(tensor)
      if header then why = archive:add(name .. ".npy", header, tensor, compress) end
      if why then return name .. ": " .. why end
   end
   return archive:finish()
end

return M
