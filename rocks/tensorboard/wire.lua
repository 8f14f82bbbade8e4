-- wire.lua - encodes event files: protocol buffers, the checksums of records, and images.

local torch = require "tlua"
local png = require "tlua.io.png"

local M = {}

-- Protocol buffers --------------------------------------------------------------------------------

local function varint(value)
   local bytes = {}
   repeat
      local low = value & 0x7f
      value = value >> 7
      bytes[#bytes + 1] = string.char(value ~= 0 and low | 0x80 or low)
   until value == 0
   return table.concat(bytes)
end

--- These functions encode one field of a message as bytes.
function M.int(field, value) return varint(field << 3) .. varint(value) end
function M.double(field, value) return varint(field << 3 | 1) .. ("<d"):pack(value) end
function M.float(field, value) return varint(field << 3 | 5) .. ("<f"):pack(value) end
function M.bytes(field, value) return varint(field << 3 | 2) .. varint(#value) .. value end

--- Encodes a packed list of numbers, as doubles ("<d") or floats ("<f").
function M.packed(field, format, values)
   local parts = {}
   for i, value in ipairs(values) do parts[i] = format:pack(value) end
   return M.bytes(field, table.concat(parts))
end

local function read_varint(text, at)
   local value, shift = 0, 0
   while true do
      local byte = text:byte(at)
      if not byte or shift > 63 then return nil end
      value, at, shift = value | (byte & 0x7f) << shift, at + 1, shift + 7
      if byte < 0x80 then return value, at end
   end
end

--- Decodes a message. Returns a table that maps field numbers to lists of values, each a number or
--- a text; nil if the message is damaged.
---@param text string
---@return table<integer, any[]>?
function M.fields(text)
   local found, at = {}, 1
   while at <= #text do
      local key, value
      key, at = read_varint(text, at)
      if not key then return nil end
      local kind = key & 7
      if kind == 0 then
         value, at = read_varint(text, at)
         if not value then return nil end
      elseif kind == 1 or kind == 5 then
         local size = kind == 1 and 8 or 4
         if at + size - 1 > #text then return nil end
         value, at = (kind == 1 and "<d" or "<f"):unpack(text, at)
      elseif kind == 2 then
         local size
         size, at = read_varint(text, at)
         if not size or at + size - 1 > #text then return nil end
         value, at = text:sub(at, at + size - 1), at + size
      else
         return nil
      end
      local field = key >> 3
      found[field] = found[field] or {}
      table.insert(found[field], value)
   end
   return found
end

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

--- Computes the masked checksum of a record: the CRC is rotated and offset, so that checksums also
--- protect data that contain checksums.
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

--- Converts numbers from 0 to 1 to bytes; a uint8 image stays unchanged.
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
