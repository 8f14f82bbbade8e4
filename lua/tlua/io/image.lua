-- image.lua - writes image files from uint8 tensors (channels, height, width), the layout that
-- torch.load returns. The public functions of this file are fields of torch.io.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- the largest width and height in pixels, since the format stores sizes in 16 bits
local JPEG_SIDE <const> = 65535

-- Returns an image's pixels, (height, width, channels), contiguous on the CPU, or nil and a
-- message. `channels` maps each allowed number of channels to true; `listed` describes these
-- numbers in messages.
local function pixels_of(kind, image, channels, listed)
   if not torch.is_tensor(image) then
      return nil, ("a %s file takes a tensor, got %s"):format(kind, args.describe(image))
   end
   local dims = image:dim()
   local planes = dims == 2 and image:unsqueeze(1) or image
   local shape = planes.shape
   if #shape ~= 3 or not channels[shape[1]] or shape[2] < 1 or shape[3] < 1 then
      return nil, ("a %s file takes an image of shape (%s channels, height, width), got %s"):format(
         kind, listed, args.describe(image))
   end
   if image.dtype ~= "uint8" then
      return nil, ("a %s file takes uint8 from 0 to 255, got %s; from 0 to 1: "
         .. '(x * 255):round():to "uint8"'):format(kind, image.dtype)
   end
   return planes:detach():cpu():permute({2, 3, 1}):contiguous()
end

--- Encodes an image as PNG and returns the file's content.
---@param image any  (channels, height, width) or (height, width), uint8; 1 channel is grey, 2 are
--- grey with opacity, 3 are RGB, 4 are RGBA
---@return string? content
---@return string? message
function M.png(image)
   local pixels, message = pixels_of("PNG", image, {true, true, true, true}, "1 to 4")
   if not pixels then return nil, message end
   local height, width, channels = table.unpack(pixels.shape)
   local rows, row = {}, width * channels
   pixels = pixels:view(-1)
   for y = 1, height do rows[y] = torch.io.text(pixels, (y - 1) * row + 1, row) end
   return require "tlua.io.png".encode(width, height, rows)
end

--- Encodes an image as JPEG and returns the file's content.
---@param image any  (channels, height, width) or (height, width), uint8; 1 channel is grey, 3 are
--- RGB
---@param quality integer  from 1 to 100
---@return Tensor? content
---@return string? message
function M.jpeg(image, quality)
   local pixels, message = pixels_of("JPEG", image, {[1] = true, [3] = true}, "1 or 3")
   if not pixels then return nil, message end
   if pixels:size(1) > JPEG_SIDE or pixels:size(2) > JPEG_SIDE then
      return nil, ("a JPEG file takes at most %d pixels a side, got %s"):format(JPEG_SIDE,
         args.describe(image))
   end
   if quality < 1 or quality > 100 then
      return nil, ("quality: expected an integer from 1 to 100, got %d"):format(quality)
   end
   return torch.io._jpeg(pixels, quality)
end

local take_jpeg = args.signature "io.encode_jpeg(input: any, quality: integer = 75)"
local take_png = args.signature "io.encode_png(input: any)"

--- Encodes an image as JPEG and returns the file's bytes, as torchvision.io.encode_jpeg does. This
--- needs libturbojpeg. torch.save writes such bytes to a file whose name ends in .jpg.
---
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     local bytes = torch.io.encode_jpeg(image, 90)
---     print(torch.io.decode_image(bytes).shape)
---     --> torch.Size([3, 8, 8])
---@param input Tensor  (channels, height, width), uint8; 1 channel is grey, 3 are RGB
---@param quality? integer  from 1 to 100, 75 by default
---@return Tensor bytes  (n) uint8
function M.encode_jpeg(...)
   local a = take_jpeg(...)
   local bytes, message = M.jpeg(a.input, a.quality)
   return bytes or torch.raise("io.encode_jpeg: " .. message)
end

--- Encodes an image as PNG and returns the file's bytes, as torchvision.io.encode_png does, but
--- without compression. torch.save writes such bytes to a file whose name ends in .png.
---
---     local bytes = torch.io.encode_png(torch.zeros(3, 8, 8, {dtype = "uint8"}))
---     print(torch.io.decode_image(bytes).shape)
---     --> torch.Size([3, 8, 8])
---@param input Tensor  (channels, height, width), uint8; 1 channel is grey, 2 are grey with
--- opacity, 3 are RGB, 4 are RGB with opacity
---@return Tensor bytes  (n) uint8
function M.encode_png(...)
   local content, message = M.png(take_png(...).input)
   return content and torch.io.bytes(content) or torch.raise("io.encode_png: " .. message)
end

return M
