-- png16.lua - decodes PNG files of 16 bits per channel (PNG specification, third edition), since
-- the core's decoder reduces such files to 8 bits. zlib, which is found at run time, inflates the
-- data.

local torch = require "tlua"

local M = {}

local most_pixels <const> = 1 << 28
-- the number of channels for each colour type of the file
local channels_of <const> = {[0] = 1, [2] = 3, [4] = 2, [6] = 4}
-- For each pass of an interlaced image: the first row, the first column, the distance between rows
-- and the distance between columns.
local passes <const> = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4}, {2, 0, 4, 2},
   {0, 1, 2, 2}, {1, 0, 2, 1}}

local function fail(message, ...) error({message = message:format(...)}, 0) end

-- Returns the content of the header chunk, and the joined content of all data chunks.
local function chunks_of(text)
   local at, header, data = 9, nil, {}
   while true do
      if at + 11 > #text then fail "the file ends too early" end
      local size = string.unpack(">I4", text, at)
      if at + 11 + size > #text then fail "the file ends too early" end
      local kind, content = text:sub(at + 4, at + 7), text:sub(at + 8, at + 7 + size)
      if torch.io.crc32(kind .. content) ~= string.unpack(">I4", text, at + 8 + size) then
         fail("chunk %s is damaged", kind:gsub("%W", "?"))
      end
      if kind == "IHDR" then header = content end
      if kind == "IDAT" then data[#data + 1] = content end
      if kind == "IEND" then break end
      at = at + 12 + size
   end
   if not header or #header ~= 13 then fail "the header is damaged" end
   return header, table.concat(data)
end

-- For each type of filter, a function that returns the sum of a filtered byte and a prediction. The
-- prediction is computed from the bytes to the left, above, and above to the left.
local filters <const> = {
   [0] = function(x) return x end,
   function(x, left) return x + left end,
   function(x, _, above) return x + above end,
   function(x, left, above) return x + (left + above) // 2 end,
   function(x, left, above, corner)
      local a, b, c = above - corner, left - corner, left + above - 2 * corner
      if a < 0 then a = -a end
      if b < 0 then b = -b end
      if c < 0 then c = -c end
      return x + (a <= b and a <= c and left or b <= c and above or corner)
   end,
}

local piece <const> = 4096 -- the number of bytes that are joined to a string at once

-- Undoes the filters of a pass of `height` rows of `width` bytes, which begins at position `at`.
-- `near` is the distance to the byte of the pixel to the left. Returns the bytes, and the position
-- after the pass.
local function unfilter(text, at, height, width, near)
   local above, out = {}, {}
   for i = 1 - near, width do above[i] = 0 end
   for _ = 1, height do
      local filter = filters[text:byte(at)]
      if not filter then fail("row filter %d is unknown", text:byte(at)) end
      local row = {}
      for i = 1 - near, 0 do row[i] = 0 end
      for first = 1, width, piece do
         local last = math.min(first + piece - 1, width)
         local bytes = {text:byte(at + first, at + last)}
         for i = first, last do
            row[i] = filter(bytes[i - first + 1], row[i - near], above[i], above[i - near]) & 255
         end
         out[#out + 1] = string.char(table.unpack(row, first, last))
      end
      above, at = row, at + width + 1
   end
   return table.concat(out), at
end

-- Returns the bytes of big-endian numbers as an image (channels, height, width) of int32.
local function numbers(bytes, height, width, channels)
   local pairs_of = torch.io.bytes(bytes):view(height, width, channels, 2):int()
   return (pairs_of:select(4, 1) * 256 + pairs_of:select(4, 2)):permute {3, 1, 2}
end

local function image_of(text)
   local header, data = chunks_of(text)
   local width, height, depth, colour, _, _, interlace = string.unpack(">I4I4BBBBB", header)
   local channels = channels_of[colour]
   if depth ~= 16 or not channels or interlace > 1 then fail "the header is damaged" end
   if width == 0 or height == 0 or width > most_pixels // height then
      fail("an image of %d x %d pixels; expected at most %d in all", width, height, most_pixels)
   end
   local parts, size = {}, 0
   for _, pass in ipairs(interlace == 1 and passes or {{0, 0, 1, 1}}) do
      local rows = (height - pass[1] - 1) // pass[3] + 1
      local columns = (width - pass[2] - 1) // pass[4] + 1
      if rows > 0 and columns > 0 then
         parts[#parts + 1] = {rows, columns, pass}
         size = size + rows * (1 + columns * channels * 2)
      end
   end
   local bytes, message = torch.io.inflate(torch.io.bytes(data), "gzip", size)
   if not bytes then fail("%s", message) end
   bytes = torch.io.text(bytes, 1, size)
   local image = torch.empty(channels, height, width, {dtype = "int32"})
   local at = 1
   for _, part in ipairs(parts) do
      local rows, columns, pass = table.unpack(part)
      local content
      content, at = unfilter(bytes, at, rows, columns * channels * 2, channels * 2)
      image[{{}, {pass[1] + 1, height, pass[3]}, {pass[2] + 1, width, pass[4]}}] =
         numbers(content, rows, columns, channels)
   end
   return image:to "uint16"
end

--- Returns whether a text begins like a PNG file of 16 bits per channel.
---@param text string  at least the first 25 bytes
---@return boolean
function M.fits(text) return text:find "^\x89PNG\r\n\x1a\n....IHDR........\x10" ~= nil end

--- Decodes a PNG file of 16 bits per channel. Returns the image, (channels, height, width) uint16;
--- returns nil and a message if the file is damaged.
---@param text string  the file's bytes
---@return Tensor?
---@return string?
function M.decode(text)
   local ok, image = pcall(image_of, text)
   if ok then return image end
   if type(image) ~= "table" or not image.message then error(image, 0) end
   return nil, "PNG: " .. image.message
end

return M
