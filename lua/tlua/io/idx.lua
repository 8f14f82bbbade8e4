-- idx.lua - reads the IDX files of MNIST and similar datasets: a dtype, sizes and elements, all
-- big-endian, often compressed by gzip.

local torch = require "tlua"
local source = require "tlua.io.source"

local M = {}

-- Maps the file's type codes to dtypes and the size of their elements in bytes.
local dtypes <const> = {
   [8] = {"uint8", 1}, [9] = {"int8", 1}, [11] = {"int16", 2}, [12] = {"int32", 4},
   [13] = {"float32", 4}, [14] = {"float64", 8},
}

-- Reads the dtype and the sizes from the beginning of the file.
local function read_header(s)
   if s:unpack ">I2" ~= 0 then source.fail "no IDX file: it does not begin with two zeros" end
   local code, ndim = s:unpack "B", s:unpack "B"
   local dtype = dtypes[code]
   if not dtype then source.fail("byte 3: elements of unknown type %d", code) end
   if ndim > 16 then source.fail("byte 4: %d dimensions; expected at most 16", ndim) end
   local shape = {}
   for i = 1, ndim do shape[i] = s:unpack ">I4" end
   return dtype, shape
end

--- Returns the number of bytes that an IDX file inside a gzip file has by its IDX header. The
--- reader uncompresses no more bytes than this number.
---@param packed Tensor  (n) uint8
---@return integer
function M.unpacked_size(packed)
   local head, message = torch.io.inflate(packed, "gzip", 4 + 16 * 4, true)
   local s = source.new(head or source.fail("%s", message))
   local dtype, shape = read_header(s)
   -- Deflate compresses at most by the factor 1032, so the header's sizes are wrong if they need
   -- more bytes.
   local elements, most = 1, packed:numel() * 1032
   for _, size in ipairs(shape) do elements = math.min(elements * size, most + 1) end
   if elements * dtype[2] > most then
      source.fail("the shape {%s} is larger than what is packed", table.concat(shape, ", "))
   end
   return s.at - 1 + elements * dtype[2]
end

---@param bytes Tensor  (n) uint8, unpacked
---@return Tensor
function M.read(bytes)
   local s = source.new(bytes)
   local dtype, shape = read_header(s)
   if dtype[2] > 1 then return s:big_endian(s.at, shape, dtype[1], dtype[2]) end
   return s:elements(s.at, shape, dtype[1])
end

return M
