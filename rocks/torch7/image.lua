-- image.lua - Torch7's package image. Images are tensors (channels, height, width) of numbers from
-- 0 to 1.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"

local T, F = tlua, tlua.nn.functional
local field, methods = types.field, types.methods

local M = {}

local function shape(x) return field(x, "shape") end
local function tag(x) return types.tag(x) end

-- Runs fn on a batch of one image (1, channels, height, width). The result gets the image's number
-- of dimensions and type.
local function as_batch(src, fn)
   local n, x = #shape(src), T.detach(src)
   while #shape(x) < 4 do x = T.unsqueeze(x, 1) end
   local y = fn(methods.to(x, "float64"))
   for _ = n, 3 do y = T.squeeze(y, 1) end
   return tag(methods.to(y, field(src, "dtype")))
end

-- Files
-- --------------------------------------------------------------------------------------------

local function read(path)
   local file, problem = io.open(path, "rb")
   if not file then tlua.raise("image.load: " .. problem) end
   local bytes = file:read "a"
   file:close()
   return bytes
end

-- Reads an image in one of Netpbm's formats P2, P3, P5 and P6.
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
   local channels = (magic == "P3" or magic == "P6") and 3 or 1
   local count, values = w * h * channels
   if magic == "P5" or magic == "P6" then
      if #text - at < count then tlua.raise "image.load: the file is too short" end
      values = T.frombuffer(text:sub(at + 1, at + count), {dtype = "uint8"})
   else
      local list = {}
      for word in text:sub(at):gmatch "%d+" do list[#list + 1] = math.tointeger(tonumber(word)) end
      if #list < count then tlua.raise "image.load: the file is too short" end
      values = T.tensor(table.move(list, 1, count, 1, {}), {dtype = "int32"})
   end
   return T.permute(T.reshape(values, {h, w, channels}), {3, 1, 2}), most
end

local function decode(bytes, depth, kind, name)
   local picture, most = netpbm(bytes)
   if not picture then
      local problem
      picture, problem = T.io.decode_image(bytes)
      if not picture then tlua.raise(("image.%s: %s"):format(name, problem)) end
      most = 255
   end
   picture = methods.to(picture, "float64")
   if kind ~= "byte" then picture = T.div(picture, most) end
   local channels = shape(picture)[1]
   if channels == 4 and depth == 3 or channels == 2 and depth == 1 then
      picture = T.narrow(picture, 1, 1, depth)
   elseif depth == 1 and channels >= 3 then
      picture = T.detach(M.rgb2y(tag(T.narrow(picture, 1, 1, 3))))
   elseif depth == 3 and channels == 1 then
      picture = methods["repeat"](picture, {3, 1, 1})
   end
   local target = types.kinds[({float = "Float", double = "Double", byte = "Byte"})[kind
      or "double"]
      or types.default.name]
   return debug.setmetatable(methods.to(methods.contiguous(picture), target.dtype), target.tensor)
end

--- Reads an image (PNG, JPEG, PPM, PGM): (path [, channels [, "float", "double" or "byte"]]).
function M.load(path, depth, kind)
   return decode(read(path), depth, kind or types.default.name:lower(), "load")
end
M.loadPNG, M.loadJPG, M.loadPPM, M.loadPGM = M.load, M.load, M.load, M.load

--- Reads an image from a ByteTensor that contains a file's bytes.
function M.decompress(bytes, depth, kind)
   return decode(bytes:byte():storage():string(), depth, kind or types.default.name:lower(),
      "decompress")
end
M.decompressJPG, M.decompressPNG = M.decompress, M.decompress

local function bytes_of(picture)
   local x = T.detach(picture)
   if #shape(x) == 2 then x = T.unsqueeze(x, 1) end
   if field(x, "dtype") == "uint8" then return x end
   return methods.to(T.clamp(T.round(T.mul(methods.to(x, "float64"), 255)), 0, 255), "uint8")
end

--- Writes an image as PNG, PPM or PGM, according to the file extension.
function M.save(path, picture)
   local ending = path:match "%.(%a+)$"
   local x = bytes_of(picture)
   if ending == "ppm" or ending == "pgm" then
      local size = shape(x)
      local flat = methods.contiguous(T.permute(x, {2, 3, 1}))
      local failure = require "tlua.io.replace"(path, function(file)
         return select(2, file:write(
            ("%s\n%d %d\n255\n"):format(size[1] == 3 and "P6" or "P5", size[3], size[2]),
            T.io.text(T.reshape(flat, {-1}), 1, methods.numel(flat))))
      end)
      if failure then tlua.raise(("image.save: %s: %s"):format(path, failure)) end
      return
   elseif ending ~= "png" then
      tlua.raise(("image.save: expected a name that ends with .png, .ppm or .pgm, got '%s'"):format(
         path))
   end
   T.save(x, path)
end
M.savePNG, M.savePPM, M.savePGM = M.save, M.save, M.save

-- Sizes
-- -------------------------------------------------------------------------------------------------

-- Parses a size: two numbers, "WxH", "N" (the longer side), "^N" (the shorter side) or "*F".
local function size_from(src, width, height)
   local size = shape(src)
   local h, w = size[#size - 1], size[#size]
   if type(width) == "number" and type(height) == "number" then return width, height end
   local text = tostring(width)
   local a, b = text:match "^(%d+)x(%d+)$"
   if a then return tonumber(a), tonumber(b) end
   local kind, number = text:match "^([%^%*]?)([%d%.]+)$"
   number = tonumber(number)
   if not number then tlua.raise("image.scale: expected a size, got " .. text) end
   local factor
   if kind == "*" then
      factor = number
   elseif kind == "^" then
      factor = number / math.min(w, h)
   else
      factor = number / math.max(w, h)
   end
   return math.max(math.floor(w * factor + 0.5), 1), math.max(math.floor(h * factor + 0.5), 1)
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
   local w, h = size_from(src, width, height)
   mode = mode or "bilinear"
   local y = as_batch(src, function(x)
      if mode == "simple" then return F.interpolate(x, {size = {h, w}, mode = "nearest"}) end
      local size = shape(x)
      local smaller = h < size[3] or w < size[4]
      return F.interpolate(x, {size = {h, w}, mode = mode, align_corners = not smaller,
         antialias = smaller or nil})
   end)
   return into and into:copy(y) or y
end

--- Crops an image. The arguments are (src, x1, y1, x2, y2), where positions count from 0 and x2 and
--- y2 are excluded; or (src, "c", width, height) for the centre, with "tl", "tr", "bl" or "br"
--- instead of "c" for a corner.
function M.crop(src, a, b, c, d)
   local size = shape(src)
   local H, W = size[#size - 1], size[#size]
   local x1, y1, x2, y2 = a, b, c, d
   if type(a) == "string" then
      local w, h = b, c
      x1, y1 = a:find "r" and W - w or 0, a:find "b" and H - h or 0
      if a == "c" then x1, y1 = (W - w) // 2, (H - h) // 2 end
      x2, y2 = x1 + w, y1 + h
   else
      x2, y2 = x2 or W, y2 or H
   end
   if x1 < 0 or y1 < 0 or x2 > W or y2 > H or x2 <= x1 or y2 <= y1 then
      tlua.raise(("image.crop: the part from (%s, %s) to (%s, %s) is not within %dx%d"):format(x1,
         y1, x2, y2, W, H))
   end
   return tag(T.clone(T.narrow(T.narrow(src, #size, x1 + 1, x2 - x1), #size - 1, y1 + 1, y2 - y1)))
end

--- Moves an image by (x, y). Pixels without a source are 0.
function M.translate(src, x, y)
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

function M.flip(src, d) return tag(T.flip(src, {d})) end
function M.hflip(src) return M.flip(src, #shape(src)) end
function M.vflip(src) return M.flip(src, #shape(src) - 1) end

-- Warps
-- ------------------------------------------------------------------------------------------------

-- Samples an image at rows and columns (height, width), counted from 0.
local function sample(x, rows, columns, mode, clamp)
   local size = shape(x)
   local function scaled(positions, n) return T.sub(T.mul(positions, 2 / math.max(n - 1, 1)), 1) end
   local grid = T.stack({scaled(columns, size[4]), scaled(rows, size[3])}, 3)
   return F.grid_sample(x, T.unsqueeze(grid, 1),
      {mode = mode == "simple" and "nearest" or mode == "bicubic" and "bicubic"
      or "bilinear", padding_mode = clamp and "border" or "zeros", align_corners = true})
end

local function mesh(h, w)
   local rows = methods.expand(T.reshape(T.arange(0, h, {dtype = "float64"}), {h, 1}), {h, w})
   return rows, methods.expand(T.reshape(T.arange(0, w, {dtype = "float64"}), {1, w}), {h, w})
end

--- For each pixel, samples the image at the position given by a field (2, height, width): row
--- first, relative to the pixel unless `offset` is false.
function M.warp(src, flow, mode, offset, clamp)
   local size = shape(flow)
   return as_batch(src, function(x)
      local rows, columns = T.select(flow, 1, 1), T.select(flow, 1, 2)
      rows, columns = methods.to(rows, "float64"), methods.to(columns, "float64")
      if offset ~= false then
         local y0, x0 = mesh(size[2], size[3])
         rows, columns = T.add(rows, y0), T.add(columns, x0)
      end
      return sample(x, rows, columns, mode, clamp ~= "pad")
   end)
end

--- Transforms an image by a matrix (2, 2) and a translation. The transform maps a pixel's position
--- in the result to the position in the source; both are rows and columns relative to the centre.
function M.affinetransform(src, matrix, mode, translation)
   local size = shape(src)
   local H, W = size[#size - 1], size[#size]
   local m = methods.tolist(matrix)
   local t = translation and methods.tolist(translation) or {0, 0}
   return as_batch(src, function(x)
      local rows, columns = mesh(H, W)
      local cy, cx = (H - 1) / 2, (W - 1) / 2
      rows, columns = T.sub(rows, cy), T.sub(columns, cx)
      local y = T.add(T.add(T.mul(rows, m[1][1]), T.mul(columns, m[1][2])), cy + t[1])
      local z = T.add(T.add(T.mul(rows, m[2][1]), T.mul(columns, m[2][2])), cx + t[2])
      return sample(x, y, z, mode)
   end)
end

--- Rotates an image about its centre, anticlockwise, by an angle in radians.
function M.rotate(src, angle, mode)
   local c, s = math.cos(angle), math.sin(angle)
   return M.affinetransform(src, torch.Tensor {{c, s}, {-s, c}}, mode or "simple")
end

-- Colours
-- -----------------------------------------------------------------------------------------------

-- Defines functions for a linear conversion of colours.
local function linear(name, rows)
   M[name] = function(src)
      local x = T.detach(src)
      local size = shape(x)
      if #size ~= 3 or size[1] ~= 3 then
         tlua.raise(("image.%s: expected (3, height, width)"):format(name))
      end
      local matrix = T.tensor(rows, {dtype = field(x, "dtype")})
      return tag(T.reshape(T.mm(matrix, T.reshape(x, {3, -1})), {#rows, size[2], size[3]}))
   end
end
linear("rgb2y", {{0.299, 0.587, 0.114}})
linear("rgb2yuv", {{0.299, 0.587, 0.114}, {-0.14713, -0.28886, 0.436}, {0.615, -0.51499, -0.10001}})
linear("yuv2rgb", {{1.0, 0.0, 1.13983}, {1.0, -0.39465, -0.58060}, {1.0, 2.03211, 0.0}})

local function channels(src) return T.unbind(T.detach(src), 1) end
local function stacked(a, b, c) return tag(T.stack({a, b, c}, 1)) end

local function hue_of(r, g, b, most, spread)
   local safe = T.where(T.eq(spread, 0), T.ones_like(spread), spread)
   local red = T.remainder(T.div(T.sub(g, b), safe), 6)
   local green = T.add(T.div(T.sub(b, r), safe), 2)
   local blue = T.add(T.div(T.sub(r, g), safe), 4)
   local hue = T.where(T.eq(most, r), red, T.where(T.eq(most, g), green, blue))
   return T.where(T.eq(spread, 0), T.zeros_like(hue), T.div(hue, 6))
end

local function range_of(r, g, b)
   local most, least = T.maximum(T.maximum(r, g), b), T.minimum(T.minimum(r, g), b)
   return most, least, T.sub(most, least)
end

local function ratio(a, b)
   local safe = T.where(T.eq(b, 0), T.ones_like(b), b)
   return T.where(T.eq(b, 0), T.zeros_like(a), T.div(a, safe))
end

function M.rgb2hsv(src)
   local r, g, b = table.unpack(channels(src))
   local most, _, spread = range_of(r, g, b)
   return stacked(hue_of(r, g, b, most, spread), ratio(spread, most), most)
end

function M.rgb2hsl(src)
   local r, g, b = table.unpack(channels(src))
   local most, least, spread = range_of(r, g, b)
   local light = T.div(T.add(most, least), 2)
   local width = T.rsub(T.abs(T.sub(T.mul(light, 2), 1)), 1)
   return stacked(hue_of(r, g, b, most, spread), ratio(spread, width), light)
end

-- Returns the fraction of the chroma that a channel gets at given hues: 1 near the channel's own
-- hue, 0 far from it.
local function share(hue, n)
   local k = T.remainder(T.add(T.mul(hue, 6), n), 6)
   return T.clamp(T.minimum(k, T.rsub(k, 4)), 0, 1)
end

function M.hsv2rgb(src)
   local h, s, v = table.unpack(channels(src))
   local function channel(n) return T.sub(v, T.mul(T.mul(v, s), share(h, n))) end
   return stacked(channel(5), channel(3), channel(1))
end

function M.hsl2rgb(src)
   local h, s, l = table.unpack(channels(src))
   local chroma = T.mul(T.rsub(T.abs(T.sub(T.mul(l, 2), 1)), 1), s)
   local most = T.add(l, T.div(chroma, 2))
   local function channel(n) return T.sub(most, T.mul(chroma, share(h, n))) end
   return stacked(channel(5), channel(3), channel(1))
end

--- Divides each channel by the sum of the pixel's channels.
function M.rgb2nrgb(src)
   local r, g, b = table.unpack(channels(src))
   local sum = T.add(T.add(T.add(r, g), b), 1e-6)
   return stacked(T.div(r, sum), T.div(g, sum), T.div(b, sum))
end

-- matrices for conversion to CIE L*a*b* with white point D65, and back
local to_xyz = {{0.412453, 0.357580, 0.180423}, {0.212671, 0.715160, 0.072169},
   {0.019334, 0.119193, 0.950227}}
local white = {0.950456, 1.0, 1.088754}

local function times(rows, list)
   local made = {}
   for i, row in ipairs(rows) do
      made[i] = T.add(T.add(T.mul(list[1], row[1]), T.mul(list[2], row[2])), T.mul(list[3], row[3]))
   end
   return made
end

function M.rgb2lab(src)
   local list = channels(src)
   for i, c in ipairs(list) do
      list[i] = T.where(T.gt(c, 0.04045), T.pow(T.div(T.add(c, 0.055), 1.055), 2.4),
         T.div(c, 12.92))
   end
   local xyz = times(to_xyz, list)
   for i, c in ipairs(xyz) do
      c = T.div(c, white[i])
      xyz[i] = T.where(T.gt(c, 0.008856), T.pow(T.clamp(c, 0.008856), 1 / 3),
         T.add(T.mul(c, 7.787), 16 / 116))
   end
   return stacked(T.sub(T.mul(xyz[2], 116), 16), T.mul(T.sub(xyz[1], xyz[2]), 500),
      T.mul(T.sub(xyz[2], xyz[3]), 200))
end

function M.lab2rgb(src)
   local l, a, b = table.unpack(channels(src))
   local y = T.div(T.add(l, 16), 116)
   local xyz = {T.add(y, T.div(a, 500)), y, T.sub(y, T.div(b, 200))}
   for i, c in ipairs(xyz) do
      xyz[i] = T.mul(T.where(T.gt(c, 0.206893), T.pow(c, 3), T.div(T.sub(c, 16 / 116), 7.787)),
         white[i])
   end
   local back = methods.tolist(T.inverse(T.tensor(to_xyz, {dtype = "float64"})))
   local rgb = times(back, xyz)
   for i, c in ipairs(rgb) do
      rgb[i] = T.where(T.gt(c, 0.0031308), T.sub(T.mul(T.pow(T.clamp(c, 1e-12), 1 / 2.4), 1.055),
         0.055), T.mul(c, 12.92))
   end
   return stacked(table.unpack(rgb))
end

-- Filters
-- ------------------------------------------------------------------------------------------------

--- Convolves each channel with a kernel (height, width). The mode is "valid" (the default), "full"
--- or "same".
function M.convolve(src, kernel, mode)
   local x = types.untag(src)
   local k = methods.to(T.detach(kernel), field(x, "dtype"))
   local size = shape(k)
   local planes = #shape(x) == 2 and T.unsqueeze(x, 1) or x
   local padding = mode == "full" and {size[1] - 1, size[2] - 1} or {0, 0}
   if mode == "same" then
      local top, left = size[1] // 2, size[2] // 2
      planes = F.pad(planes, {left, size[2] - 1 - left, top, size[1] - 1 - top})
   end
   k = T.flip(k, {1, 2})
   local y = F.conv2d(T.unsqueeze(planes, 2), T.reshape(k, {1, 1, size[1], size[2]}), nil, 1,
      padding)
   y = T.squeeze(y, 2)
   return tag(#shape(x) == 2 and T.squeeze(y, 1) or y)
end

local function option(args, i, name, default)
   local first = args[1]
   local value
   if type(first) == "table" then value = first[name] else value = args[i] end
   if value == nil then return default end
   return value
end

--- Returns a Gaussian kernel (height, width). The arguments are (size [, sigma [, amplitude [,
--- normalize]]]), or a table with these fields.
function M.gaussian(...)
   local args = {...}
   local n, sigma = option(args, 1, "size", 3), option(args, 2, "sigma", 0.25)
   local amplitude, normal = option(args, 3, "amplitude", 1), option(args, 4, "normalize", false)
   local h, w = option({type(args[1]) == "table" and args[1] or nil}, 5, "height", n), n
   w = type(args[1]) == "table" and args[1].width or w
   local rows, columns = mesh(h, w)
   local function part(at, size)
      return T.square(T.div(T.sub(T.add(at, 1), 0.5 * size + 0.5), sigma * size))
   end
   local g = T.mul(T.exp(T.mul(T.add(part(rows, h), part(columns, w)), -0.5)), amplitude)
   if normal then g = T.div(g, T.sum(g)) end
   return tag(g)
end

function M.gaussian1D(...)
   local args = {...}
   local n, sigma = option(args, 1, "size", 3), option(args, 2, "sigma", 0.25)
   local amplitude, normal = option(args, 3, "amplitude", 1), option(args, 4, "normalize", false)
   local at = T.arange(1, n + 1, {dtype = "float64"})
   local g = T.mul(T.exp(T.mul(T.square(T.div(T.sub(at, 0.5 * n + 0.5), sigma * n)), -0.5)),
      amplitude)
   if normal then g = T.div(g, T.sum(g)) end
   return tag(g)
end

--- Returns a kernel (size, size), the Laplacian of a Gaussian.
function M.laplacian(...)
   local args = {...}
   local n, sigma = option(args, 1, "size", 9),
      option(args, 2, "sigma", 0.25) * option(args, 1, "size", 9)
   local rows, columns = mesh(n, n)
   local centre = (n - 1) / 2
   local r = T.div(T.add(T.square(T.sub(rows, centre)), T.square(T.sub(columns, centre))),
      2 * sigma * sigma)
   return tag(T.mul(T.mul(T.sub(r, 1), T.exp(T.neg(r))), 1 / (math.pi * sigma ^ 4)))
end

--- Clamps and scales a tensor to 0 to 1: {tensor, min, max}; the defaults are the extremes.
function M.minmax(args)
   local x = args.tensor
   local low, high = args.min or x:min(), args.max or x:max()
   local made = x:clone():clamp(low, high):add(-low)
   if high > low then made:div(high - low) end
   return made
end

--- Puts images side by side: {input = (n, channels, height, width) or a table, nrow, padding}.
function M.toDisplayTensor(args)
   if types.is_tensor(args) then args = {input = args} end
   local list = args.input or args[1]
   if types.is_tensor(list) then
      if #shape(list) < 4 then return list end
      list = T.unbind(list, 1)
   end
   local nrow, pad = math.min(args.nrow or 6, #list), args.padding or 0
   local c, h, w = table.unpack(shape(list[1]))
   local rows = math.ceil(#list / nrow)
   local made = torch.zeros(c, rows * (h + pad) - pad, nrow * (w + pad) - pad)
   for i, picture in ipairs(list) do
      local y, x = (i - 1) // nrow * (h + pad), (i - 1) % nrow * (w + pad)
      made:narrow(2, y + 1, h):narrow(3, x + 1, w):copy(tag(T.detach(picture)))
   end
   return M.minmax {tensor = made, min = args.min, max = args.max}
end

--- Writes images to a file, `file` or image.png, and returns the file's name.
function M.display(args)
   if types.is_tensor(args) then args = {image = args} end
   local picture = M.toDisplayTensor {input = args.image or args[1], nrow = args.nrow,
      padding = args.padding}
   local path = args.file or "image.png"
   M.save(path, picture)
   return path
end

return M
