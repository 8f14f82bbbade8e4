-- npy.lua - NumPy's arrays: .npy files, and .npz, which is a zip file of them. The format is
-- numpy.lib.format's, of versions 1 to 3. Unsigned integers that there is no dtype for become wider
-- ones; arrays of objects, which only running code could make, are refused.

local source = require "tlua.io.source"
local zip = require "tlua.io.zip"

local M = {}

-- By kind and size: the dtype that the elements are read as, and what becomes of unsigned ones.
local dtypes <const> = {
   f2 = "float16", f4 = "float32", f8 = "float64", i1 = "int8", i2 = "int16", i4 = "int32",
   i8 = "int64", u1 = "uint8", b1 = "bool", u2 = "int16", u4 = "int32", u8 = "int64",
}
local wider <const> = {u2 = {"int32", 0xFFFF}, u4 = {"int64", 0xFFFFFFFF}}

-- The header's dictionary, which Python wrote.
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

local function widen(tensor, kind)
   if wider[kind] then return tensor:to(wider[kind][1]):bitwise_and(wider[kind][2]) end
   if kind == "u8" and tensor:numel() > 0 and tensor:min():item() < 0 then
      source.fail "a uint64 of 2^63 or more; there is no dtype for it"
   end
   return tensor
end

--- The array in a file's bytes.
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
   if order == ">" and size > 1 then
      tensor = s:big_endian(s.at, shape, dtype, size)
   else
      tensor = s:elements(s.at, shape, dtype)
   end
   tensor = widen(tensor, kind)
   if not fortran or #shape < 2 then return tensor end
   local dims = {}
   for i = 1, #shape do dims[i] = #shape + 1 - i end
   return tensor:permute(dims)
end

--- The arrays in a .npz file by name.
---@param bytes Tensor  (n) uint8
---@return table<string, Tensor>
function M.arrays(bytes)
   local archive, arrays = zip.open(bytes), {}
   for name, entry in pairs(archive) do
      local key = name:match "^(.*)%.npy$"
      if key then
         local array, why = source.protect(M.array, zip.read(bytes, entry))
         if not array then source.fail("%s: %s", name, why) end
         arrays[key] = array
      end
   end
   return arrays
end

return M
