-- resample.lua - resizes uint8 images with PyTorch's arithmetic: weights are rounded to 16 bits,
-- and the new pixels are sums of integers. First the width is resized, and then the height.

local torch = require "tlua"

local function sinc(x) return x == 0 and 1 or math.sin(math.pi * x) / (math.pi * x) end

-- For each interpolation, the number of pixels that its kernel covers on either side, and the
-- kernel as a function of the distance.
local curves <const> = {
   bilinear = {1, function(x)
      x = math.abs(x)
      return x < 1 and 1 - x or 0
   end},
   bicubic = {2, function(x)
      x = math.abs(x)
      if x < 1 then return (1.5 * x - 2.5) * x * x + 1 end
      return x < 2 and ((-0.5 * x + 2.5) * x - 4) * x + 2 or 0
   end},
   lanczos = {3, function(x) return math.abs(x) < 3 and sinc(x) * sinc(x / 3) or 0 end},
}

-- Returns two values for each new pixel: the first old pixel that contributes to it, counted from
-- 0, and the weights of the old pixels from there on. The kernel becomes wider where the image
-- shrinks. Also returns the largest number of weights and the largest weight.
local function smooth_weights(size, new, interpolation)
   local reach, curve = table.unpack(curves[interpolation])
   local scale = size / new
   local widen = math.max(scale, 1)
   local support = reach * widen
   local first, weights, most, largest = {}, {}, 0, 0
   for i = 1, new do
      local centre = scale * (i - 0.5)
      local low = math.max(math.floor(centre - support + 0.5), 0)
      local count = math.min(math.floor(centre + support + 0.5), size) - low
      local row, total = {}, 0
      for j = 1, count do
         row[j] = curve((j - 1 + low - centre + 0.5) * (1 / widen))
         total = total + row[j]
      end
      for j = 1, count do
         row[j] = row[j] / total
         largest = math.max(largest, row[j])
      end
      first[i], weights[i], most = low, row, math.max(most, count)
   end
   return first, weights, most, largest
end

-- Returns the weights of four adjacent pixels for a place at distance t behind the second one, by
-- Keys' cubic function with a = -3/4.
local function cubic(t)
   local a, weights = -0.75, {}
   for k = 1, 4 do
      local x = math.abs(k - 2 - t)
      weights[k] = x <= 1 and ((a + 2) * x - (a + 3)) * x * x + 1
         or ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
   end
   return weights
end

-- Returns the same values as smooth_weights, for interpolation between the 2 or 4 pixels nearest to
-- each place. The weight of a pixel beyond an edge is added to the weight of the pixel at the edge.
local function plain_weights(size, new, interpolation)
   local scale, is_cubic = size / new, interpolation == "bicubic"
   local first, weights, most, largest = {}, {}, 0, 0
   for i = 1, new do
      local place = scale * (i - 0.5) - 0.5
      if not is_cubic then place = math.max(place, 0) end
      local at = math.min(math.floor(place), size - 1)
      local t = math.min(math.max(place - at, 0), 1)
      local own = is_cubic and cubic(t) or {1 - t, t}
      local begin = is_cubic and at - 1 or at
      local low = math.max(begin, 0)
      local row, count = {}, math.min(begin + #own, size) - low
      for j = 1, count do row[j] = 0 end
      for j, weight in ipairs(own) do
         local k = math.min(math.max(begin + j - low, 1), count)
         row[k] = row[k] + weight
      end
      for j = 1, count do largest = math.max(largest, row[j]) end
      first[i], weights[i], most = low, row, math.max(most, count)
   end
   return first, weights, most, largest
end

-- Returns the largest number of binary digits after the point with which all weights fit into 16
-- bits.
local function digits_of(largest)
   local digits = 0
   while digits < 22 and math.floor(0.5 + largest * (1 << (digits + 1))) < 1 << 15 do
      digits = digits + 1
   end
   return digits
end

-- Resizes the width (dim = 2) or the height (dim = 1) of an image (n, H, W) of int32.
local function resize_side(image, dim, new, interpolation, antialias)
   local size = image:size(dim + 1)
   local weights_of = antialias and smooth_weights or plain_weights
   local first, weights, most, largest = weights_of(size, new, interpolation)
   local digits = digits_of(largest)
   local shape = dim == 2 and {1, 1, new} or {1, new, 1}
   local sum
   for k = 1, most do
      local places, factors = {}, {}
      for i = 1, new do
         local weight = (weights[i][k] or 0) * (1 << digits)
         places[i] = math.min(first[i] + k, size)
         factors[i] = weight < 0 and math.ceil(weight - 0.5) or math.floor(weight + 0.5)
      end
      local place = {device = image.device}
      local part = image:index_select(dim + 1, torch.tensor(places, place))
         :mul_(torch.tensor(factors, {dtype = "int32", device = image.device}):view(shape))
      sum = sum and sum:add_(part) or part:add_(1 << (digits - 1))
   end
   return sum:bitwise_right_shift(digits):clamp_(0, 255)
end

--- Resizes a batch of images.
---@param batch Tensor  (N, C, H, W) uint8
---@param height integer
---@param width integer
---@param interpolation string  "bilinear", "bicubic" or "lanczos"
---@param antialias boolean  false only for "bilinear" and "bicubic"
---@return Tensor
return function(batch, height, width, interpolation, antialias)
   local image = batch:flatten(1, 2):int()
   if width ~= image:size(3) then image = resize_side(image, 2, width, interpolation, antialias) end
   if height ~= image:size(2) then
      image = resize_side(image, 1, height, interpolation, antialias)
   end
   return image:to("uint8"):view(batch:size(1), batch:size(2), height, width)
end
