-- image.lua - Torch7's package image. Images are tensors (channels, height, width) of numbers from
-- 0 to 1. This file reads, writes and scales images; image_colours, image_filters, image_warps and
-- image_display contain the other functions.

local tlua = require "tlua"
local args = require "tlua.args"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.image_base"
local read_file = require "tlua.utils.read_file"

local T, M = tlua, base.image
local field, methods, shape, tag, as_batch = types.field, types.methods, base.shape, base.tag,
   base.as_batch

for _, part in ipairs {"colours", "filters", "warps", "display"} do
   require("tlua.torch7.image_" .. part)
end

-- Files -------------------------------------------------------------------------------------------

local function read(path)
   if type(path) ~= "string" then args.refuse("image.load", "path", "a string", path) end
   local bytes, problem = read_file(path)
   return bytes or tlua.raise("image.load: " .. problem)
end

-- Reads an image in one of Netpbm's formats: P2, P3, P5 or P6.
local function netpbm(text)
   local magic, at = text:match "^(P[2356])()"
   if not magic then return nil end
   local numbers = {}
   while #numbers < 3 do
      local comment = text:match("^%s*#[^\n]*\n()", at)
      if comment then
         at = comment
      else
         local value, after = text:match("^%s*(%d+)()", at)
         if not value then return nil end
         numbers[#numbers + 1], at = tonumber(value), after
      end
   end
   local w, h, most = table.unpack(numbers)
   if w < 1 or h < 1 or most < 1 or most > 65535 then
      tlua.raise(("image.load: expected sizes of at least 1 and a maximum from 1 to 65535, got "
         .. "%s x %s and %s"):format(w, h, most))
   end
   local channels = (magic == "P3" or magic == "P6") and 3 or 1
   local count, values = w * h * channels
   if magic == "P5" or magic == "P6" then
      -- Numbers above 255 take two bytes, the higher byte first.
      local wide = most > 255 and 2 or 1
      if (#text - at) // wide < count then tlua.raise "image.load: the file is too short" end
      values = T.frombuffer(text:sub(at + 1, at + wide * count), {dtype = "uint8"})
      if wide == 2 then
         local both = T.reshape(methods.to(values, "int32"), {count, 2})
         values = T.add(T.mul(T.select(both, 2, 1), 256), T.select(both, 2, 2))
      end
   else
      local list = {}
      for word in text:sub(at):gmatch "%d+" do list[#list + 1] = math.tointeger(tonumber(word)) end
      if #list < count then tlua.raise "image.load: the file is too short" end
      values = T.tensor(table.move(list, 1, count, 1, {}), {dtype = "int32", device = "cpu"})
   end
   return T.permute(T.reshape(values, {h, w, channels}), {3, 1, 2}), most
end

local function decode(bytes, depth, kind, name)
   if kind ~= "float" and kind ~= "double" and kind ~= "byte" then
      if kind ~= types.default.name:lower() then
         tlua.raise(("image.%s: tensortype: expected 'float', 'double' or 'byte', got %s"):format(
            name, tostring(kind)))
      end
      kind = nil
   end
   local picture, most = netpbm(bytes)
   if not picture then
      local problem
      picture, problem = T.io.decode_image(bytes)
      if not picture then tlua.raise(("image.%s: %s"):format(name, problem)) end
      most = 255
   end
   picture = methods.to(picture, "float64")
   if kind ~= "byte" then
      picture = T.div(picture, most)
   elseif most > 255 then
      picture = T.round(T.mul(picture, 255 / most))
   end
   local channels = shape(picture)[1]
   if channels == 4 and depth == 3 or channels == 2 and depth == 1 then
      picture = T.narrow(picture, 1, 1, depth)
   elseif depth == 1 and channels >= 3 then
      picture = T.detach(M.rgb2y(tag(T.narrow(picture, 1, 1, 3))))
   elseif depth == 3 and channels == 1 then
      picture = methods["repeat"](picture, {3, 1, 1})
   elseif depth ~= nil and depth ~= channels then
      tlua.raise(("image.%s: depth: expected 1 or 3, or the %d channels of the image, got %s")
         :format(name, channels, tostring(depth)))
   end
   local target = types.kinds[({float = "Float", double = "Double", byte = "Byte"})[kind
      or "double"]
      or types.default.name]
   return debug.setmetatable(methods.to(methods.contiguous(picture), target.dtype), target.tensor)
end

--- Reads an image (PNG, JPEG, PPM or PGM). The arguments are (path [, channels [, type]]), and the
--- type is "float", "double" or "byte".
function M.load(path, depth, kind)
   return decode(read(path), depth, kind or types.default.name:lower(), "load")
end
M.loadPNG, M.loadJPG, M.loadPPM, M.loadPGM = M.load, M.load, M.load, M.load

--- Reads an image from a ByteTensor that contains a file's bytes.
function M.decompress(bytes, depth, kind)
   if not types.is_tensor(bytes) then
      args.refuse("image.decompress", "bytes", "a ByteTensor with the bytes of a file", bytes)
   end
   return decode(bytes:byte():storage():string(), depth, kind or types.default.name:lower(),
      "decompress")
end
M.decompressJPG, M.decompressPNG = M.decompress, M.decompress

local function bytes_of(name, picture)
   local n = types.is_tensor(picture) and #shape(picture)
   if n ~= 2 and n ~= 3 then
      args.refuse("image." .. name, "picture", "an image of 2 or 3 dimensions", picture)
   end
   local x = T.detach(picture)
   if #shape(x) == 2 then x = T.unsqueeze(x, 1) end
   if field(x, "dtype") == "uint8" then return x end
   return methods.to(T.clamp(T.round(T.mul(methods.to(x, "float64"), 255)), 0, 255), "uint8")
end

local function to_bytes(content) return tag(methods.to(content, "uint8")) end

--- Encodes an image as JPEG with a quality from 1 to 100, and returns the bytes as a ByteTensor.
function M.compressJPG(picture, quality)
   quality = quality or 75
   if not math.type(quality) or not (quality >= 1 and quality <= 100) then
      args.refuse("image.compressJPG", "quality", "a number from 1 to 100", quality)
   end
   quality = math.floor(quality)
   return to_bytes(T.io.encode_jpeg(bytes_of("compressJPG", picture), quality))
end

--- Encodes an image as PNG and returns the bytes as a ByteTensor.
function M.compressPNG(picture)
   return to_bytes(T.io.encode_png(bytes_of("compressPNG", picture)))
end

local function netpbm_text(x)
   local size = shape(x)
   local flat = methods.contiguous(T.permute(x, {2, 3, 1}))
   return ("%s\n%d %d\n255\n"):format(size[1] == 3 and "P6" or "P5", size[3], size[2])
      .. T.io.text(T.reshape(flat, {-1}), 1, methods.numel(flat))
end

local encoders = {
   ppm = netpbm_text, pgm = netpbm_text,
   jpg = function(x)
      local bytes = T.io.encode_jpeg(x, 75)
      return T.io.text(bytes, 1, methods.numel(bytes))
   end,
   png = function(x)
      local bytes = T.io.encode_png(x)
      return T.io.text(bytes, 1, methods.numel(bytes))
   end,
}
encoders.jpeg = encoders.jpg

--- Writes an image as PNG, JPEG, PPM or PGM, according to the file extension.
function M.save(path, picture, kind)
   if type(path) ~= "string" then args.refuse("image.save", "path", "a string", path) end
   local bytes = bytes_of("save", picture)
   kind = kind or tostring(path):match "%.(%a+)$"
   local encode = kind and encoders[tostring(kind):lower()]
   if not encode then
      tlua.raise(("image.save: expected a name that ends with .png, .jpg, .ppm or .pgm, got '%s'")
         :format(tostring(path)))
   end
   local text = encode(methods.contiguous(bytes))
   local failure = require "tlua.io.replace"(path, function(file)
      return select(2, file:write(text))
   end)
   if failure then tlua.raise(("image.save: %s: %s"):format(path, failure)) end
end
for name, kind in pairs {PNG = "png", JPG = "jpg", PPM = "ppm", PGM = "pgm"} do
   M["save" .. name] = function(path, picture) return M.save(path, picture, kind) end
end

--- Returns the sizes of the image in a file: channels, height and width, as a LongStorage.
function M.getSize(path) return types.longs(shape(M.load(path, nil, "byte"))) end
M.getJPGsize, M.getPNGsize, M.getPPMsize, M.getPGMsize = M.getSize, M.getSize, M.getSize, M.getSize

-- Sizes -------------------------------------------------------------------------------------------

-- Returns the height and width for a size that is given as two numbers or as a text: "WxH", "N"
-- (the longer side), "^N" (the shorter side), "*F" (times F) or "*N/M" (times N/M).
local function size_from(src, width, height)
   local size = shape(src)
   local h, w = size[#size - 1], size[#size]
   if type(width) == "number" and type(height) == "number" then
      if not (width >= 1 and height >= 1 and width <= 1 << 24 and height <= 1 << 24) then
         tlua.raise(("image.scale: expected sizes from 1 to %d, got %sx%s"):format(1 << 24, width,
            height))
      end
      return math.floor(width), math.floor(height)
   end
   local text = tostring(width)
   local a, b = text:match "^(%d+)x(%d+)$"
   if a then return math.tointeger(tonumber(a)), math.tointeger(tonumber(b)) end
   local n, m = text:match "^%*(%d+)/(%d+)$"
   local kind, number = text:match "^([%^%*]?)([%d%.]+)$"
   number = n and tonumber(n) / tonumber(m) or tonumber(number)
   if not number or number <= 0 or number == math.huge then
      tlua.raise(("image.scale: size: expected a number, 'WxH', 'N', '^N', '*F' or '*N/M', got "
         .. "'%s'"):format(text))
   end
   local factor
   if n or kind == "*" then
      factor = number
   elseif kind == "^" then
      factor = number / math.min(w, h)
   else
      factor = number / math.max(w, h)
   end
   return math.max(math.floor(w * factor + 0.5), 1), math.max(math.floor(h * factor + 0.5), 1)
end

-- Returns a matrix (to, from) of weights that scales a line of `from` pixels to one of `to` pixels.
-- `fill` calls add(i, k, value) for pixel i of the result and pixel k of the source, counted from
-- 0.
local function weights(from, to, fill)
   local list = {}
   for i = 1, to * from do list[i] = 0.0 end
   for i = 0, to - 1 do
      fill(i, function(k, value)
         k = math.min(math.max(k, 0), from - 1)
         list[i * from + k + 1] = list[i * from + k + 1] + value
      end)
   end
   return T.reshape(T.tensor(list, {dtype = "float64", device = "cpu"}), {to, from})
end

-- A smaller result has the means over the corresponding parts of the source. A larger result is
-- interpolated linearly between the first and the last pixel of the source.
local lines = {}
function lines.bilinear(from, to)
   return weights(from, to, function(i, add)
      if to < from then
         local first, last = i * from / to, (i + 1) * from / to
         for k = math.floor(first), math.ceil(last) - 1 do
            add(k, (math.min(k + 1, last) - math.max(k, first)) * to / from)
         end
      else
         local at = to > 1 and i * (from - 1) / (to - 1) or 0
         local k = math.floor(at)
         add(k, 1 - (at - k))
         add(k + 1, at - k)
      end
   end)
end
function lines.bicubic(from, to) -- This is the kernel of Catmull and Rom.
   return weights(from, to, function(i, add)
      local at = to > 1 and i * (from - 1) / (to - 1) or 0
      local k = math.floor(at)
      local t = at - k
      add(k - 1, 0.5 * (-t + 2 * t ^ 2 - t ^ 3))
      add(k, 0.5 * (2 - 5 * t ^ 2 + 3 * t ^ 3))
      add(k + 1, 0.5 * (t + 4 * t ^ 2 - 3 * t ^ 3))
      add(k + 2, 0.5 * (t ^ 3 - t ^ 2))
   end)
end
function lines.simple(from, to)
   return weights(from, to, function(i, add) add(i * from // to, 1) end)
end

--- Scales an image: (src, width, height [, mode]) or (src, size [, mode]); the mode is "bilinear",
--- "simple" (the nearest pixel) or "bicubic". If a result tensor precedes src, it sets the size.
function M.scale(src, width, height, mode)
   local into
   if types.is_tensor(width) then
      into, src = src, width
      local size = shape(into)
      mode = type(height) == "string" and height or mode
      width, height = size[#size], size[#size - 1]
   end
   if type(height) == "string" then height, mode = nil, height end
   if not types.is_tensor(src) then args.refuse("image.scale", "src", "an image", src) end
   local w, h = size_from(src, width, height)
   local line = lines[mode or "bilinear"]
   if not line then
      tlua.raise(("image.scale: mode: expected 'bilinear', 'bicubic' or 'simple', got %s"):format(
         tostring(mode)))
   end
   local y = as_batch(src, function(x)
      local size, device = shape(x), field(x, "device")
      local rows, columns = line(size[3], h), line(size[4], w)
      return T.matmul(T.matmul(methods.to(rows, device), x),
         T.transpose(methods.to(columns, device), 1, 2))
   end)
   return into and into:copy(y) or y
end

--- Crops an image. The arguments are (src, x1, y1, x2, y2), where positions count from 0 and x2 and
--- y2 are excluded; or (src, "c", width, height) for the centre, with "tl", "tr", "bl" or "br"
--- instead of "c" for a corner.
function M.crop(src, a, b, c, d)
   local size = shape(src)
   if #size < 2 then args.refuse("image.crop", "src", "an image of 2 or 3 dimensions", src) end
   local H, W = size[#size - 1], size[#size]
   local x1, y1, x2, y2 = a, b, c, d
   if type(a) == "string" then
      local w, h = b, c
      if a ~= "c" and not a:find "^[tb][lr]$" then
         tlua.raise(("image.crop: format: expected 'c', 'tl', 'tr', 'bl' or 'br', got '%s'"):format(
            a))
      end
      w, h = base.position("crop", "width", w), base.position("crop", "height", h)
      x1, y1 = a:find "r" and W - w or 0, a:find "b" and H - h or 0
      if a == "c" then x1, y1 = (W - w) // 2, (H - h) // 2 end
      x2, y2 = x1 + w, y1 + h
   else
      x2, y2 = x2 or W, y2 or H
   end
   x1, y1 = base.position("crop", "x1", x1), base.position("crop", "y1", y1)
   x2, y2 = base.position("crop", "x2", x2), base.position("crop", "y2", y2)
   if x1 < 0 or y1 < 0 or x2 > W or y2 > H or x2 <= x1 or y2 <= y1 then
      tlua.raise(("image.crop: the part from (%s, %s) to (%s, %s) is not within %dx%d"):format(x1,
         y1, x2, y2, W, H))
   end
   return tag(T.clone(T.narrow(T.narrow(src, #size, x1 + 1, x2 - x1), #size - 1, y1 + 1, y2 - y1)))
end

--- Translates an image by (x, y). Pixels without a source are 0.
function M.translate(src, x, y)
   x, y = base.position("translate", "x", x), base.position("translate", "y", y)
   local size = shape(src)
   local n, H, W = #size, size[#size - 1], size[#size]
   local made = tag(T.zeros_like(src))
   local w, h = W - math.abs(x), H - math.abs(y)
   if w <= 0 or h <= 0 then return made end
   local from = T.narrow(T.narrow(src, n, math.max(-x, 0) + 1, w), n - 1, math.max(-y, 0) + 1, h)
   methods.copy_(T.narrow(T.narrow(made, n, math.max(x, 0) + 1, w), n - 1, math.max(y, 0) + 1, h),
      from)
   return made
end

function M.flip(src, d)
   local n = #shape(src)
   if math.type(d) ~= "integer" or d < 1 or d > n then
      tlua.raise(("image.flip: flip_dim: expected a dimension from 1 to %d, got %s"):format(n,
         tostring(d)))
   end
   return tag(T.flip(src, {d}))
end
function M.hflip(src) return M.flip(src, #shape(src)) end
function M.vflip(src) return M.flip(src, #shape(src) - 1) end

for _, name in ipairs {"crop", "translate", "flip", "hflip", "vflip"} do
   base.take_result(name, 1)
end

return M
