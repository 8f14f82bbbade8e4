-- gif.lua - decodes GIF files (GIF89a specification, CompuServe 1990). Frames are combined as in
-- torchvision: the disposal method of an image decides whether the frame before it is kept, and
-- "previous" has the same effect as "none". The specification says instead that the disposal method
-- decides what happens after the image.

local torch = require "tlua"

local M = {}

-- All frames together may have this many bytes, or this many times the bytes of the file if that is
-- more. A file of a few bytes can ask for much more, since a frame needs no pixels of its own for
-- most of its area.
local always_fine <const>, most_times <const> = 1 << 26, 1000

-- Raises an error with a message, which M.decode returns.
local function fail(message, ...) error({message = message:format(...)}, 0) end

-- Reads values at position `at` in the given format of string.unpack. Returns the values, and the
-- position after them.
local function read(format, text, at)
   if at + string.packsize(format) - 1 > #text then fail "the file ends too early" end
   return string.unpack(format, text, at)
end

-- Returns the joined content of the sub-blocks from position `at` on, and the position after the
-- sub-blocks.
local function blocks(text, at)
   local parts = {}
   while true do
      local part
      if at > #text then fail "the file ends too early" end
      if #text < at + text:byte(at) then fail "the file ends too early" end
      part, at = string.unpack("s1", text, at)
      if part == "" then return table.concat(parts), at end
      parts[#parts + 1] = part
   end
end

-- Reads a palette if the `packed` field says that there is one. Returns the palette as a tensor (n,
-- 3), or nil, and the position after it.
local function palette(text, at, packed)
   if packed & 0x80 == 0 then return nil, at end
   local bytes = 3 << (packed & 7) + 1
   if at + bytes - 1 > #text then fail "the file ends too early" end
   return torch.io.bytes(text:sub(at, at + bytes - 1)):view(-1, 3), at + bytes
end

local longest <const> = 4096 -- the largest number of LZW codes

-- Decompresses LZW codes, which have `size` + 1 bits at first. Returns a string of `count` bytes,
-- which are the colour numbers of the pixels.
local function decompress(data, size, count)
   if size < 1 or size > 11 then fail("the smallest code has %d bits", size) end
   local clear = 1 << size
   local words, next_code, bits, last = {}, clear + 2, size + 1, nil
   for code = 0, clear - 1 do words[code] = string.char(code & 255) end
   local parts, made, buffer, filled = {}, 0, 0, 0
   local byte = string.byte
   for i = 1, #data do
      buffer, filled = buffer | byte(data, i) << filled, filled + 8
      while filled >= bits do
         local code = buffer & (1 << bits) - 1
         buffer, filled = buffer >> bits, filled - bits
         if code == clear then
            next_code, bits, last = clear + 2, size + 1, nil
         elseif code == clear + 1 then
            fail("expected %d pixels, got %d", count, made)
         else
            local word = code < next_code and words[code]
            if not word then
               if not last or code ~= next_code or code >= longest then fail "a code is damaged" end
               word = last .. last:sub(1, 1)
            end
            if last and next_code < longest then
               words[next_code] = last .. word:sub(1, 1)
               next_code = next_code + 1
               if next_code == 1 << bits and bits < 12 then bits = bits + 1 end
            end
            last, made = word, made + #word
            parts[#parts + 1] = word
            if made >= count then return table.concat(parts):sub(1, count) end
         end
      end
   end
   fail("expected %d pixels, got %d", count, made)
end

-- Returns the rows of an interlaced image in their order from top to bottom.
local function deinterlaced(image)
   local height, order = image:size(1), {}
   for _, pass in ipairs {{0, 8}, {4, 8}, {2, 4}, {1, 2}} do
      for y = pass[1], height - 1, pass[2] do order[#order + 1] = y + 1 end
   end
   return image:index_select(1, torch.tensor(order):argsort())
end

-- Decodes the image that begins at byte `at` of the file's text, and draws it into a frame (3, H,
-- W). Returns the position after the image. `control` has two values of the last graphic control
-- extension: its packed field and the number of the transparent colour.
local function draw(text, at, frame, colours, control)
   local left, top, width, height, packed, own
   left, top, width, height, packed, at = read("<I2I2I2I2B", text, at)
   own, at = palette(text, at, packed)
   colours = own or colours
   if not colours then fail "an image has no palette" end
   if left + width > frame:size(3) or top + height > frame:size(2) then
      fail("an image of %d x %d pixels at (%d, %d) does not fit into %d x %d", height, width, top,
         left, frame:size(2), frame:size(3))
   end
   local size, data
   size, at = read("B", text, at)
   data, at = blocks(text, at)
   if width == 0 or height == 0 then return at end
   local numbers = torch.io.bytes(decompress(data, size, width * height)):view(height, width)
   if packed & 0x40 ~= 0 then numbers = deinterlaced(numbers) end
   local shown = control[1] & 1 == 1 and numbers:ne(control[2])
   local places = numbers:flatten():long()
   if shown then places:mul_(shown:flatten()) end
   if places:max():item() >= colours:size(1) then
      fail("a pixel has colour %d of %d", places:max():item(), colours:size(1))
   end
   local drawn = colours:index_select(1, places:add_(1)):view(height, width, 3):permute {3, 1, 2}
   local part = frame:narrow(2, top + 1, height):narrow(3, left + 1, width)
   part:copy_(shown and torch.where(shown, drawn, part) or drawn)
   return at
end

-- after this disposal method, the next image is drawn over the background instead of the frame
-- before it
local erase <const> = 2

local function frames_of(text, most_bytes)
   local width, height, packed, background, at, colours
   width, height, packed, background, at = read("<I2I2BBx", text, 7)
   if width == 0 or height == 0 then fail "the image is empty" end
   colours, at = palette(text, at, packed)
   local ground = torch.zeros(3, 1, 1, {dtype = "uint8"})
   if colours and background < colours:size(1) then
      ground = colours[background + 1]:view(3, 1, 1)
   end
   local frames, control = {}, {0, 0}
   while true do
      local kind
      kind, at = read("B", text, at)
      if kind == 0x3B then
         break
      elseif kind == 0x21 then
         local label, content
         label, at = read("B", text, at)
         content, at = blocks(text, at)
         if label == 0xF9 and #content >= 4 then control = {content:byte(1), content:byte(4)} end
      elseif kind == 0x2C then
         if (#frames + 1) * width * height * 3 > most_bytes then
            fail("%d frames of %d x %d pixels have more than %d bytes; decode_gif(input, "
               .. "{max_bytes = n}) decodes up to n bytes", #frames + 1, height, width, most_bytes)
         end
         local before = frames[#frames]
         local keeps = before and control[1] >> 2 & 7 ~= erase
         local frame = keeps and before:clone() or ground:expand(3, height, width):clone()
         at = draw(text, at, frame, colours, control)
         frames[#frames + 1] = frame
         control = {0, 0}
      else
         fail("expected a block, got a byte %d", kind)
      end
   end
   if #frames == 0 then fail "the file has no image" end
   return frames
end

--- Decodes a GIF file. Returns the frames, (3, height, width) uint8 for one and (n, 3, height,
--- width) for several; returns nil and a message if the file is damaged or too large.
---@param text string  the file's bytes
---@param most_bytes? integer  the largest number of bytes of all frames; by default 64 MiB, or 1000
--- bytes for each byte of the file if that is more
---@return Tensor?
---@return string?
function M.decode(text, most_bytes)
   if not text:find "^GIF8[79]a" then return nil, "expected the bytes of a GIF file" end
   most_bytes = most_bytes or math.max(always_fine, most_times * #text)
   local ok, frames = pcall(frames_of, text, most_bytes)
   if ok then return #frames == 1 and frames[1] or torch.stack(frames) end
   if type(frames) ~= "table" or not frames.message then error(frames, 0) end
   return nil, "GIF: " .. frames.message
end

return M
