-- image_colours.lua - the package image's conversions between colour spaces, and its colour maps.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.image_base"

local T, M = tlua, base.image
local field, methods, shape, tag = types.field, types.methods, base.shape, base.tag

-- Defines a function that converts colours by the linear map with the matrix `rows`.
local function linear(name, rows)
   M[name] = function(src)
      local x = T.detach(src)
      local size = shape(x)
      if #size ~= 3 or size[1] ~= 3 then
         tlua.raise(("image.%s: expected (3, height, width)"):format(name))
      end
      local matrix = T.tensor(rows, {dtype = field(x, "dtype"), device = field(x, "device")})
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

-- Returns how much of the chroma a channel gets at each of the given hues: from 1 near the
-- channel's own hue to 0 far from it.
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

-- the matrices for the conversions to CIE L*a*b* with white point D65, and back
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
   local back = methods.tolist(T.inverse(T.tensor(to_xyz, {dtype = "float64", device = "cpu"})))
   local rgb = times(back, xyz)
   for i, c in ipairs(rgb) do
      rgb[i] = T.where(T.gt(c, 0.0031308), T.sub(T.mul(T.pow(T.clamp(c, 1e-12), 1 / 2.4), 1.055),
         0.055), T.mul(c, 12.92))
   end
   return stacked(table.unpack(rgb))
end

-- Maps of colours ---------------------------------------------------------------------------------

local function check_count(name, n)
   if math.type(math.tointeger(n)) ~= "integer" or n < 1 then
      tlua.raise(("image.%s: nColor: expected a count of colours, got %s"):format(name,
         tostring(n)))
   end
   return math.tointeger(n)
end

--- Returns a tensor (n, 3) of n colours around the wheel of hues.
function M.colormap(n)
   n = check_count("colormap", n)
   local hue = T.div(T.arange(0, n, {dtype = "float64", device = "cpu"}), n)
   local ones = T.ones_like(hue)
   local rgb = M.hsv2rgb(tag(T.reshape(T.stack({hue, ones, ones}, 1), {3, 1, n})))
   return tag(methods.contiguous(T.transpose(T.reshape(rgb, {3, n}), 1, 2)))
end

--- Returns a tensor (n, 3) of n colours from blue to red.
function M.jetColormap(n)
   n = check_count("jetColormap", n)
   local at = T.linspace(0, 4, n, {dtype = "float64", device = "cpu"})
   local list = {}
   for i, peak in ipairs {3, 2, 1} do
      list[i] = T.clamp(T.rsub(T.abs(T.sub(at, peak)), 1.5), 0, 1)
   end
   return tag(T.stack(list, 2))
end

--- Colours a grey image by jetColormap. The image's levels are integers, the lowest of which is 1.
function M.y2jet(src)
   local levels = methods.to(T.detach(src), "int64")
   local size = shape(levels)
   if #size == 3 and size[1] == 1 then
      levels, size = T.select(levels, 1, 1), {size[2], size[3]}
   elseif #size == 1 then
      levels, size = T.unsqueeze(levels, 1), {1, size[1]}
   elseif #size ~= 2 then
      tlua.raise(("image.y2jet: expected a grey image, got %d dimensions"):format(#size))
   end
   local least, most = methods.item(T.min(levels)), methods.item(T.max(levels))
   if least < 1 then
      tlua.raise(("image.y2jet: expected levels from 1, got %d"):format(least))
   end
   local map = T.transpose(M.jetColormap(most), 1, 2)
   local made = T.reshape(T.index_select(map, 2, T.flatten(levels)), {3, size[1], size[2]})
   return tag(methods.to(made, field(src, "dtype")))
end

for _, name in ipairs {"rgb2y", "rgb2yuv", "yuv2rgb", "rgb2hsv", "hsv2rgb", "rgb2hsl", "hsl2rgb",
   "rgb2lab", "lab2rgb", "rgb2nrgb", "y2jet"} do
   base.take_result(name, 1)
end

return M
