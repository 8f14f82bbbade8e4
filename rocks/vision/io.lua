-- io.lua - torch.vision.io: reads and writes images and files of bytes, by the names of
-- torchvision.io.

local torch = require "tlua"
local args = require "tlua.args"
local files = require "tlua.vision.datasets.files"
local gif = require "tlua.vision.gif"
local png16 = require "tlua.vision.png16"

local M = {}

--- The forms into which pictures are decoded: as they are stored, grey, grey with opacity, RGB, and
--- RGB with opacity, for which RGBA is another name. Functions also accept the names as strings.
---
---     print(torch.vision.io.ImageReadMode.RGB)
---     --> RGB
---@names vision.io.ImageReadMode
---@enum vision.io.ImageReadMode
M.ImageReadMode = {
   UNCHANGED = "UNCHANGED", GRAY = "GRAY", GRAY_ALPHA = "GRAY_ALPHA", RGB = "RGB",
   RGB_ALPHA = "RGB_ALPHA", RGBA = "RGB_ALPHA",
}

-- The weights of red, green and blue in units of 1 / 32768 that libpng computes from the numbers
-- that torchvision passes to it.
local png_weights <const> = {9794, 19234, 3740}

-- Returns the grey values (..., 1, H, W) of images (..., 3, H, W). The grey values of PNG files are
-- computed in integers, as by libpng, which rounds them down for uint8.
local function grey(image, is_png)
   if not is_png then
      local weights = torch.tensor({0.299, 0.587, 0.114}):view(3, 1, 1)
      return image:float():mul_(weights):sum(-3, true):round_():to "uint8"
   end
   local sum = image:long():mul_(torch.tensor(png_weights):view(3, 1, 1)):sum(-3, true)
   if image.dtype == "uint16" then sum:add_(1 << 14) end
   return sum:bitwise_right_shift(15):to(image.dtype)
end

-- Converts decoded images (..., C, H, W) to the form that `mode` names.
local function converted(image, mode, is_png)
   if mode == "UNCHANGED" then return image end
   local channels, parts = image:size(-3), {}
   local colours = image:narrow(-3, 1, channels > 2 and 3 or 1)
   local is_grey, has_opacity = mode:find "^GRAY" ~= nil, mode:find "_ALPHA$" ~= nil
   parts[1] = is_grey and channels > 2 and grey(colours, is_png)
      or not is_grey and channels < 3 and colours:expand(3, -1, -1) or colours
   if has_opacity then
      parts[2] = channels % 2 == 0 and image:narrow(-3, channels, 1)
         or torch.full_like(image:narrow(-3, 1, 1), image.dtype == "uint8" and 255 or 65535)
   end
   return torch.cat(parts, -3)
end

local function decoded(title, input, most_bytes)
   local image, message
   local n = input:numel()
   local head = torch.io.text(input, 1, math.min(n, 25))
   if head:find "^GIF8" then
      image, message = gif.decode(torch.io.text(input, 1, n), most_bytes)
   elseif png16.fits(head) then
      image, message = png16.decode(torch.io.text(input, 1, n))
   else
      image, message = torch.io.decode_image(input)
   end
   return image or torch.raise(("%s: %s"):format(title, message))
end

-- Decodes the bytes of a picture. If only one format is accepted, `begin` is a pattern of the first
-- bytes of its files, and `format` is the name of the format.
local function decode(title, a, begin, format)
   local input = a.input
   if input.dtype ~= "uint8" or input:dim() ~= 1 or input.device.type ~= "cpu" then
      args.refuse(title, "input", "the bytes of a file as a uint8 tensor (n) on the CPU", input)
   end
   local mode = rawget(M.ImageReadMode, a.mode:upper())
   if not mode then
      args.refuse(title, "mode", '"UNCHANGED", "GRAY", "GRAY_ALPHA", "RGB" or "RGB_ALPHA"', a.mode)
   end
   input = input:contiguous()
   if begin and (input:numel() < 12 or not torch.io.text(input, 1, 12):find(begin)) then
      torch.raise(("%s: input: expected the bytes of a %s file"):format(title, format))
   end
   local is_png = input:numel() > 4 and torch.io.text(input, 1, 4) == "\x89PNG"
   return converted(decoded(title, input, a.max_bytes), mode, is_png)
end

local parameters <const> = "(input: tensor, mode: string = 'UNCHANGED')"
local take_decode = args.signature
   "vision.io.decode_image(input: tensor|string, mode: string = 'UNCHANGED')"
local take_webp = args.signature("vision.io.decode_webp" .. parameters)
local take_gif = args.signature "vision.io.decode_gif(input: tensor, max_bytes: integer?)"
local take_jpeg = args.signature("vision.io.decode_jpeg" .. parameters)
local take_png = args.signature("vision.io.decode_png" .. parameters)

--- Decodes the bytes of a PNG, JPEG, WebP or GIF file, or the file at a path. WebP files need
--- libwebp, and cannot be animations. A GIF with several frames becomes a batch (n, channels,
--- height, width). PNG files of 16 bits per channel become uint16. Grey values that are computed
--- from the colours of JPEG files may differ by 1 from torchvision's.
---
---     local image = torch.zeros(1, 8, 9, {dtype = "uint8"})
---     local bytes = torch.vision.io.encode_png(image)
---     print(torch.vision.io.decode_image(bytes, "RGB").shape)
---     --> torch.Size([3, 8, 9])
---@param input Tensor|string  (n) uint8, or a path
---@param mode? string  a name of ImageReadMode, "UNCHANGED" by default
---@return Tensor  (channels, height, width), or (n, channels, height, width) for a GIF with several
--- frames; uint8, or uint16 for a PNG file of 16 bits per channel
function M.decode_image(...)
   local title, a = "vision.io.decode_image", take_decode(...)
   if type(a.input) ~= "string" then return decode(title, a) end
   local bytes = torch.io.bytes(files.read(title, a.input))
   return decode(title .. ": " .. a.input, {input = bytes, mode = a.mode})
end

--- Decodes the bytes of a JPEG file like decode_image.
---
---     local image = torch.zeros(3, 8, 9, {dtype = "uint8"})
---     local bytes = torch.vision.io.encode_jpeg(image)
---     print(torch.vision.io.decode_jpeg(bytes, "GRAY").shape)
---     --> torch.Size([1, 8, 9])
---@param input Tensor  (n) uint8
---@param mode? string  a name of ImageReadMode, "UNCHANGED" by default
---@return Tensor  (channels, height, width) uint8
function M.decode_jpeg(...)
   return decode("vision.io.decode_jpeg", take_jpeg(...), "^\xff\xd8\xff", "JPEG")
end

--- Decodes the bytes of a PNG file like decode_image. Files of 16 bits per channel become uint16.
---
---     local image = torch.zeros(3, 8, 9, {dtype = "uint8"})
---     local bytes = torch.vision.io.encode_png(image)
---     print(torch.vision.io.decode_png(bytes).shape)
---     --> torch.Size([3, 8, 9])
---@param input Tensor  (n) uint8
---@param mode? string  a name of ImageReadMode, "UNCHANGED" by default
---@return Tensor  (channels, height, width) uint8, or uint16 for a file of 16 bits per channel
function M.decode_png(...)
   return decode("vision.io.decode_png", take_png(...), "^\x89PNG", "PNG")
end

--- Decodes the bytes of a WebP file like decode_image. This needs libwebp.
---@param input Tensor  (n) uint8
---@param mode? string  a name of ImageReadMode, "UNCHANGED" by default
---@return Tensor  (channels, height, width) uint8
function M.decode_webp(...)
   return decode("vision.io.decode_webp", take_webp(...), "^RIFF....WEBP", "WebP")
end

--- Decodes the bytes of a GIF file. A frame is drawn over the frame before it if its disposal
--- method is "none", otherwise over the background, as in torchvision. A small file can ask for
--- many large frames: files whose frames have more than 64 MiB, and more than 1000 bytes for each
--- byte of the file, get an error unless `max_bytes` allows them.
---
---     local head = "GIF89a\1\0\1\0\x80\0\0\9\8\7\0\0\0"
---     local image = "\x2c\0\0\0\0\1\0\1\0\0\2\2\x44\1\0"
---     local bytes = torch.io.bytes(head .. image .. ";")
---     print(torch.vision.io.decode_gif(bytes):flatten())
---     --> tensor([9, 8, 7], dtype=torch.uint8)
---@param input Tensor  (n) uint8
---@param options? {max_bytes: integer}  the largest number of bytes of all frames
---@return Tensor  (3, height, width) uint8, or (n, 3, height, width) for n frames
function M.decode_gif(...)
   local title, a = "vision.io.decode_gif", take_gif(...)
   if a.max_bytes and a.max_bytes < 1 then
      args.refuse(title, "max_bytes", "an integer of at least 1", a.max_bytes)
   end
   a.mode = "UNCHANGED"
   return decode(title, a, "^GIF8[79]a", "GIF")
end

local take_read = args.signature "vision.io.read_file(path: string)"
local take_image = args.signature "vision.io.read_image(path: string, mode: string = 'UNCHANGED')"

--- Returns the bytes of a file.
---
---     local bytes = torch.tensor({1, 2, 3}, {dtype = "uint8"})
---     torch.vision.io.write_file("a.bin", bytes)
---     print(torch.vision.io.read_file "a.bin")
---     --> tensor([1, 2, 3], dtype=torch.uint8)
---@param path string
---@return Tensor  (n) uint8
function M.read_file(...)
   return torch.io.bytes(files.read("vision.io.read_file", take_read(...).path))
end

--- Reads an image as decode_image does.
---
---     local image = torch.zeros(3, 8, 9, {dtype = "uint8"})
---     torch.vision.io.write_png(image, "a.png")
---     print(torch.vision.io.read_image("a.png", "GRAY").shape)
---     --> torch.Size([1, 8, 9])
---@param path string
---@param mode? string  a name of ImageReadMode, "UNCHANGED" by default
---@return Tensor  the image in the form that decode_image returns
function M.read_image(...)
   local a = take_image(...)
   local bytes = torch.io.bytes(files.read("vision.io.read_image", a.path))
   return decode("vision.io.read_image: " .. a.path, {input = bytes, mode = a.mode})
end

local take_write = args.signature "vision.io.write_file(filename: string, data: tensor)"
local level <const> = ", compression_level: integer = 6)"
local take_encode_jpeg = args.signature "vision.io.encode_jpeg(input: any, quality: integer = 75)"
local take_encode_png = args.signature("vision.io.encode_png(input: any" .. level)
local take_write_jpeg = args.signature
   "vision.io.write_jpeg(input: any, filename: string, quality: integer = 75)"
local take_write_png = args.signature("vision.io.write_png(input: any, filename: string" .. level)

local function write(title, path, bytes)
   local file, message = io.open(path, "wb")
   if not file then torch.raise(("%s: %s"):format(title, message)) end
   local ok, why = torch.io.write(file, bytes)
   if ok then ok, why = file:close() else file:close() end
   if not ok then torch.raise(("%s: %s: %s"):format(title, path, why)) end
end

--- Writes bytes to a file.
---
---     local bytes = torch.tensor({65, 66}, {dtype = "uint8"})
---     torch.vision.io.write_file("a.bin", bytes)
---     print(io.open("a.bin"):read "a")
---     --> AB
---@param filename string  the path of the file
---@param data Tensor  (n) uint8
function M.write_file(...)
   local title, a = "vision.io.write_file", take_write(...)
   if a.data.dtype ~= "uint8" or a.data:dim() ~= 1 then
      args.refuse(title, "data", "a uint8 tensor (n)", a.data)
   end
   write(title, a.filename, a.data:cpu():contiguous())
end

local function jpeg(title, a)
   local bytes, message = require "tlua.io.image".jpeg(a.input, a.quality)
   return bytes or torch.raise(("%s: %s"):format(title, message))
end

local function png(title, a)
   local compression = a.compression_level
   if compression < 0 or compression > 9 then
      args.refuse(title, "compression_level", "an integer from 0 to 9", compression)
   end
   local content, message = require "tlua.io.image".png(a.input)
   return torch.io.bytes(content or torch.raise(("%s: %s"):format(title, message)))
end

--- Encodes an image as JPEG and returns the file's bytes.
---
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     print(torch.vision.io.encode_jpeg(image, 90).dtype)
---     --> uint8
---@param input Tensor  (channels, height, width) uint8; 1 channel is grey, 3 are RGB
---@param quality? integer  from 1 to 100, 75 by default
---@return Tensor  (n) uint8
function M.encode_jpeg(...) return jpeg("vision.io.encode_jpeg", take_encode_jpeg(...)) end

--- Encodes an image as PNG and returns the file's bytes. The file is not compressed, whatever
--- compression_level is.
---
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     print(torch.vision.io.encode_png(image).dtype)
---     --> uint8
---@param input Tensor  (channels, height, width) uint8; 1 channel is grey, 2 are grey with opacity,
--- 3 are RGB, 4 are RGB with opacity
---@param compression_level? integer  from 0 to 9, 6 by default
---@return Tensor  (n) uint8
function M.encode_png(...) return png("vision.io.encode_png", take_encode_png(...)) end

--- Writes an image to a JPEG file.
---
---     local image = torch.zeros(3, 8, 9, {dtype = "uint8"})
---     torch.vision.io.write_jpeg(image, "a.jpg")
---     print(torch.vision.io.read_image("a.jpg").shape)
---     --> torch.Size([3, 8, 9])
---@param input Tensor  (channels, height, width) uint8; 1 channel is grey, 3 are RGB
---@param filename string  the path of the file
---@param quality? integer  from 1 to 100, 75 by default
function M.write_jpeg(...)
   local title, a = "vision.io.write_jpeg", take_write_jpeg(...)
   write(title, a.filename, jpeg(title, a))
end

--- Writes an image to a PNG file, without compression.
---
---     local image = torch.zeros(3, 8, 9, {dtype = "uint8"})
---     torch.vision.io.write_png(image, "a.png")
---     print(torch.vision.io.read_image("a.png").shape)
---     --> torch.Size([3, 8, 9])
---@param input Tensor  (channels, height, width) uint8, with channels as in encode_png
---@param filename string  the path of the file
---@param compression_level? integer  from 0 to 9, 6 by default
function M.write_png(...)
   local title, a = "vision.io.write_png", take_write_png(...)
   write(title, a.filename, png(title, a))
end

return M
