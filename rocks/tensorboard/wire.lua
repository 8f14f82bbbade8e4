-- wire.lua - encodes event files: records with their checksums, and images.

local torch = require "tlua"
local png = require "tlua.io.png"

local M = {}

-- Checksums ---------------------------------------------------------------------------------------

local castagnoli = {}
for i = 0, 255 do
   local c = i
   for _ = 1, 8 do c = c & 1 == 1 and c >> 1 ~ 0x82f63b78 or c >> 1 end
   castagnoli[i] = c
end

--- Computes CRC-32C (RFC 3720).
function M.crc32c(text)
   local c = 0xffffffff
   for from = 1, #text, 4096 do
      local bytes = {text:byte(from, math.min(from + 4095, #text))}
      for i = 1, #bytes do c = castagnoli[(c ~ bytes[i]) & 0xff] ~ c >> 8 end
   end
   return c ~ 0xffffffff
end

--- Computes the masked checksum of a record, as TensorFlow does: the CRC is rotated and an offset
--- is added, because the CRC of data that contain CRCs themselves is less reliable.
function M.masked_crc(text)
   local c = M.crc32c(text)
   return (c >> 15 | c << 17) + 0xa282ead8 & 0xffffffff
end

--- Encodes a record of an event file.
---@param data string
---@return string
function M.record(data)
   local length = ("<I8"):pack(#data)
   return length .. ("<I4"):pack(M.masked_crc(length)) .. data .. ("<I4"):pack(M.masked_crc(data))
end

-- Pictures ----------------------------------------------------------------------------------------

--- Converts numbers from 0 to 1 to bytes. An image of uint8 is returned unchanged.
---@param image Tensor
---@return Tensor
function M.pixels(image)
   if image:is_floating_point() then image = (image * 255):clamp(0, 255) end
   return image:to "uint8":contiguous()
end

--- Encodes an image as PNG.
---@param image Tensor  (H, W, C) of uint8; C is 1 grey, 3 RGB or 4 RGBA
---@return string
function M.png(image)
   local h, w, c = image.shape[1], image.shape[2], image.shape[3]
   local rows = image:reshape(h, w * c):tolist()
   for y, list in ipairs(rows) do
      local parts = {}
      for from = 1, w * c, 4096 do
         parts[#parts + 1] = string.char(table.unpack(list, from, math.min(from + 4095, w * c)))
      end
      rows[y] = table.concat(parts)
   end
   return png.encode(w, h, rows)
end

--- Returns a tensor's numbers as a list.
function M.numbers(tensor)
   if not torch.is_tensor(tensor) then return tensor end
   return tensor:detach():to("cpu"):flatten():double():tolist()
end

return M
