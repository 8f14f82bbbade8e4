-- idx.lua - the files of MNIST and its kin: a dtype, sizes and elements, all big-endian; often
-- packed by gzip.

local source = require "tlua.io.source"

local M = {}

-- By the file's code: the dtype and its bytes.
local dtypes <const> = {
   [8] = {"uint8", 1}, [9] = {"int8", 1}, [11] = {"int16", 2}, [12] = {"int32", 4},
   [13] = {"float32", 4}, [14] = {"float64", 8},
}

---@param bytes Tensor  (n) uint8, unpacked
---@return Tensor
function M.read(bytes)
   local s = source.new(bytes)
   if s:unpack ">I2" ~= 0 then source.fail "no IDX file: it does not begin with two zeros" end
   local code, ndim = s:unpack "B", s:unpack "B"
   local dtype = dtypes[code]
   if not dtype then source.fail("byte 3: elements of unknown type %d", code) end
   if ndim > 16 then source.fail("byte 4: %d dimensions; expected at most 16", ndim) end
   local shape = {}
   for i = 1, ndim do shape[i] = s:unpack ">I4" end
   if dtype[2] > 1 then return s:big_endian(s.at, shape, dtype[1], dtype[2]) end
   return s:elements(s.at, shape, dtype[1])
end

return M
