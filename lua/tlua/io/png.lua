-- png.lua - writes PNG files (ISO/IEC 15948) without a library. Pixels are stored uncompressed, in
-- deflate's stored blocks (RFC 1951, 3.2.4), so a file is as large as its pixels, unless
-- compression is asked for and zlib is installed.

local torch = require "tlua"

local M = {}

local function adler32(text)
   local a, b = 1, 0
   for from = 1, #text, 4096 do
      for _, byte in ipairs {text:byte(from, from + 4095)} do
         a = a + byte
         b = b + a
      end
      a, b = a % 65521, b % 65521
   end
   return b << 16 | a
end

-- Puts text into zlib's format (RFC 1950) without compression, as stored blocks of at most 65,535
-- bytes.
local function stored(text)
   local parts = {"\x78\x01"}
   for from = 1, math.max(#text, 1), 65535 do
      local block = text:sub(from, from + 65534)
      local last = from + 65535 > #text and 1 or 0
      parts[#parts + 1] = ("<BI2I2"):pack(last, #block, ~#block & 0xFFFF)
      parts[#parts + 1] = block
   end
   parts[#parts + 1] = (">I4"):pack(adler32(text))
   return table.concat(parts)
end

-- Compresses text in zlib's format. If zlib is not installed, stores the text without compression.
local function compressed(text)
   local bytes = torch.io.deflate(text, torch.empty(0, {dtype = "uint8", device = "cpu"}))
   if not bytes then return stored(text) end
   return "\x78\x9C" .. torch.io.text(bytes, 1, bytes:numel()) .. (">I4"):pack(adler32(text))
end

local function chunk(kind, data)
   return (">I4"):pack(#data) .. kind .. data .. (">I4"):pack(torch.io.crc32(kind .. data))
end

--- Encodes rows of pixels as PNG and returns the file's content.
---@param width integer
---@param height integer
---@param rows string[]  a string for each row, in which a pixel takes one byte (grey), two (grey
--- with opacity), three (RGB) or four (RGBA)
---@param palette? string  three bytes R, G, B for each possible value of a pixel; without a palette
--- one-byte pixels are greys
---@param packs? boolean  whether to compress the pixels if zlib is installed
---@return string
function M.encode(width, height, rows, palette, packs)
   local channels = #(rows[1] or "") // math.max(width, 1)
   local colour = palette and 3 or ({[2] = 4, [3] = 2, [4] = 6})[channels] or 0
   local lines = {}
   for i, row in ipairs(rows) do lines[i] = "\0" .. row end
   return table.concat {
      "\x89PNG\r\n\x1A\n",
      chunk("IHDR", (">I4I4BBBBB"):pack(width, height, 8, colour, 0, 0, 0)),
      palette and chunk("PLTE", palette) or "",
      chunk("IDAT", (packs and compressed or stored)(table.concat(lines))),
      chunk("IEND", ""),
   }
end

local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

--- Encodes bytes in base64 (RFC 4648), for images inside other files.
---@param text string
---@return string
function M.base64(text)
   local out = {}
   for i = 1, #text, 3 do
      local a, b, c = text:byte(i, i + 2)
      local n = a << 16 | (b or 0) << 8 | (c or 0)
      local four = {}
      for k = 1, 4 do
         local index = n >> (24 - 6 * k) & 63
         four[k] = digits:sub(index + 1, index + 1)
      end
      if not b then four[3] = "=" end
      if not c then four[4] = "=" end
      out[#out + 1] = table.concat(four)
   end
   return table.concat(out)
end

return M
