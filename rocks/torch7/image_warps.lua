-- image_warps.lua - the package image's functions that sample an image at positions: warp,
-- affinetransform, rotate, polar and logpolar.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.image_base"

local T, F, M = tlua, tlua.nn.functional, base.image
local methods, shape, as_batch = types.methods, base.shape, base.as_batch

local modes = {simple = "nearest", bilinear = "bilinear", bicubic = "bicubic", lanczos = "lanczos"}

local function check_mode(name, mode, default)
   mode = mode or default
   if not modes[mode] then
      tlua.raise(("image.%s: mode: expected 'simple', 'bilinear', 'bicubic' or 'lanczos', got %s")
         :format(name, tostring(mode)))
   end
   return mode
end

-- Returns the pixels (1, channels, n) at n integer rows and columns, which are clamped to the
-- image.
local function pixels(x, rows, columns)
   local size = shape(x)
   local at = T.add(T.mul(T.clamp(rows, 0, size[3] - 1), size[4]),
      T.clamp(columns, 0, size[4] - 1))
   return T.index_select(T.reshape(x, {1, size[2], -1}), 3, T.add(at, 1))
end

-- Returns the weight that Lanczos's kernel with three lobes has at the distance d.
local function lanczos_weight(d)
   return T.where(T.lt(T.abs(d), 3), T.mul(T.sinc(d), T.sinc(T.div(d, 3))), T.zeros_like(d))
end

local function lanczos(x, rows, columns)
   local size = shape(rows)
   rows, columns = T.flatten(rows), T.flatten(columns)
   local y0, x0 = T.floor(rows), T.floor(columns)
   local sum, total
   for dy = -2, 3 do
      local wy = lanczos_weight(T.sub(rows, T.add(y0, dy)))
      for dx = -2, 3 do
         local w = T.mul(wy, lanczos_weight(T.sub(columns, T.add(x0, dx))))
         local part = T.mul(pixels(x, methods.to(T.add(y0, dy), "int64"),
            methods.to(T.add(x0, dx), "int64")), w)
         sum, total = sum and T.add(sum, part) or part, total and T.add(total, w) or w
      end
   end
   return T.reshape(T.div(sum, total), {1, shape(x)[2], size[1], size[2]})
end

-- Samples an image at rows and columns (height, width), counted from 0. Positions outside the image
-- get the value `pad` if it is given, and otherwise the value at the border.
local function sample(x, rows, columns, mode, pad)
   local size = shape(x)
   local made
   if mode == "lanczos" then
      made = lanczos(x, rows, columns)
   else
      local function scaled(positions, n)
         return T.sub(T.mul(positions, 2 / math.max(n - 1, 1)), 1)
      end
      local grid = T.stack({scaled(columns, size[4]), scaled(rows, size[3])}, 3)
      made = F.grid_sample(x, T.unsqueeze(grid, 1),
         {mode = modes[mode], padding_mode = "border", align_corners = true})
   end
   if not pad then return made end
   -- Rounding may have moved a position slightly off the image. Such a position still counts as
   -- inside.
   local slack = mode == "simple" and 0.5 or 1e-9
   local function outside(at, n)
      return T.logical_or(T.lt(at, -slack), T.gt(at, n - 1 + slack))
   end
   return T.masked_fill(made, T.logical_or(outside(rows, size[3]), outside(columns, size[4])), pad)
end

local function mesh(h, w, like)
   local place = {dtype = "float64", device = types.field(like, "device")}
   local rows = methods.expand(T.reshape(T.arange(0, h, place), {h, 1}), {h, w})
   return rows, methods.expand(T.reshape(T.arange(0, w, place), {1, w}), {h, w})
end
base.mesh = mesh

-- Returns the value that positions outside the image get. Returns nil if `clamp` is "clamp", which
-- moves these positions to the border.
local function padding(name, clamp, pad)
   clamp = clamp or "clamp"
   if clamp ~= "clamp" and clamp ~= "pad" then
      tlua.raise(("image.%s: clamp_mode: expected 'clamp' or 'pad', got %s"):format(name,
         tostring(clamp)))
   end
   if clamp == "clamp" and pad ~= nil then
      tlua.raise(("image.%s: pad_val: expected no value with clamp_mode 'clamp', got %s"):format(
         name, tostring(pad)))
   end
   return clamp == "pad" and (pad or 0) or nil
end

--- Computes each pixel from the source at the position that `flow` (2, height, width) gives, row
--- first. The position is relative to the pixel, unless `offset` is false.
function M.warp(src, flow, mode, offset, clamp, pad)
   mode = check_mode("warp", mode, "bilinear")
   pad = padding("warp", clamp, pad)
   local size = shape(flow)
   if #size ~= 3 or size[1] ~= 2 then
      tlua.raise(("image.warp: field: expected (2, height, width), got (%s)"):format(
         table.concat(size, ", ")))
   end
   return as_batch(src, function(x)
      local rows, columns = T.select(flow, 1, 1), T.select(flow, 1, 2)
      rows, columns = methods.to(rows, "float64"), methods.to(columns, "float64")
      if offset ~= false then
         local y0, x0 = mesh(size[2], size[3], rows)
         rows, columns = T.add(rows, y0), T.add(columns, x0)
      end
      return sample(x, rows, columns, mode, pad)
   end)
end
base.take_result("warp", 2)

--- Transforms an image by a matrix (2, 2) and a translation. The transform maps the position of a
--- pixel in the result to a position in the source. Positions are rows and columns relative to the
--- centre.
function M.affinetransform(src, matrix, mode, translation, clamp, pad)
   mode = check_mode("affinetransform", mode, "bilinear")
   pad = padding("affinetransform", clamp or "pad", pad)
   local size = shape(src)
   local H, W = size[#size - 1], size[#size]
   local m = methods.tolist(matrix)
   local t = translation and methods.tolist(translation) or {0, 0}
   return as_batch(src, function(x)
      local rows, columns = mesh(H, W, x)
      local cy, cx = (H - 1) / 2, (W - 1) / 2
      rows, columns = T.sub(rows, cy), T.sub(columns, cx)
      local y = T.add(T.add(T.mul(rows, m[1][1]), T.mul(columns, m[1][2])), cy + t[1])
      local z = T.add(T.add(T.mul(rows, m[2][1]), T.mul(columns, m[2][2])), cx + t[2])
      return sample(x, y, z, mode, pad)
   end)
end
base.take_result("affinetransform", 2)

--- Rotates an image about its centre, anticlockwise, by an angle in radians.
function M.rotate(src, angle, mode)
   if type(angle) ~= "number" then
      tlua.raise("image.rotate: theta: expected a number, got " .. type(angle))
   end
   local c, s = math.cos(angle), math.sin(angle)
   return M.affinetransform(src, torch.DoubleTensor {{c, s}, {-s, c}}, mode or "simple")
end
base.take_result("rotate", 1)

-- Defines the function `name`, polar or logpolar. In its result, the row of a pixel stands for an
-- angle in the source, and the column stands for a radius, which radius_of(fraction, longest)
-- computes.
local function define_polar(name, radius_of)
   M[name] = function(...)
      local into, src, interpolation, mode = ...
      if not types.is_tensor(src) then
         into, src, interpolation, mode = nil, ...
      end
      if not types.is_tensor(src) then
         tlua.raise(("image.%s: src: expected an image, got %s"):format(name, type(src)))
      end
      if into ~= nil and not types.is_tensor(into) then
         require "tlua.args".refuse("image." .. name, "dst", "a tensor", into)
      end
      interpolation = check_mode(name, interpolation, "simple")
      mode = mode or "valid"
      if mode ~= "valid" and mode ~= "full" then
         tlua.raise(("image.%s: mode: expected 'valid' or 'full', got %s"):format(name,
            tostring(mode)))
      end
      local size = shape(src)
      local H, W = size[#size - 1], size[#size]
      local longest = mode == "full" and math.sqrt(H * H + W * W) / 2 or math.min(H, W) / 2
      local h, w = math.max(math.floor(longest), 1), math.max(math.floor(longest), 1)
      if into and into:dim() >= 2 then
         h, w = into:size(into:dim() - 1), into:size(into:dim())
      end
      local made = as_batch(src, function(x)
         local i, j = mesh(h, w, x)
         local angle = T.mul(i, 2 * math.pi / h)
         local radius = radius_of(T.div(j, w), longest)
         return sample(x, T.add(T.mul(T.sin(angle), radius), (H - 1) / 2),
            T.add(T.mul(T.cos(angle), radius), (W - 1) / 2), interpolation, 0)
      end)
      return into and into:resize(made:size()):copy(made) or made
   end
end
define_polar("polar", function(fraction, longest) return T.mul(fraction, longest) end)
define_polar("logpolar", function(fraction, longest)
   return T.pow(math.max(longest, 1), fraction)
end)

return M
