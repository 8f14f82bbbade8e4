-- functional.lua - transforms of images (..., C, H, W), which have uint8 values or floating numbers
-- from 0 to 1. The arithmetic follows torchvision's step by step, so that uint8 results are equal.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"

local kinds = require "tlua.vision.transforms.kinds"

local pair <const>, check <const>, as_batch <const> = kinds._pair, kinds.check_real, kinds.as_batch

local F = torch.nn.functional

local M = {}

local prefix <const> = "vision.transforms.v2.functional."

local function check_channels(title, image)
   local channels = image:size(-3)
   if channels ~= 1 and channels ~= 3 then
      args.refuse(title, "inpt", "1 or 3 channels", image)
   end
   return channels
end

local largest <const> = {uint8 = 255, int8 = 127, int16 = 32767, uint16 = 65535,
   int32 = 2147483647, int64 = math.maxinteger, bool = 1}

-- the dtypes from and to which to_dtype cannot scale values
local unscaled <const> = {uint32 = true, uint64 = true, complex64 = true, complex128 = true}

local function bound_of(image) return largest[image.dtype] or 1 end

-- Colours -----------------------------------------------------------------------------------------

-- Returns the brightness of each pixel as floating numbers (..., 1, H, W).
local function brightness_of(image)
   local r, g, b = image:select(-3, 1), image:select(-3, 2), image:select(-3, 3)
   return r:mul(0.2989):add_(g, {alpha = 0.587}):add_(b, {alpha = 0.114}):unsqueeze(-3)
end

local take_gray = args.signature(prefix .. [[rgb_to_grayscale(inpt: tensor,
   num_output_channels: integer = 1)]])

--- Converts images to greyscale, with 1 channel or with 3 equal channels.
---
---     local image = torch.full({3, 1, 1}, 100, {dtype = "uint8"})
---     local gray = torch.vision.transforms.v2.functional.rgb_to_grayscale
---     print(gray(image).shape)
---     --> torch.Size([1, 1, 1])
---@names vision.transforms.functional.rgb_to_grayscale
---@param inpt Tensor  (..., 3, H, W), or with 1 channel
---@param num_output_channels? integer  1 by default, or 3
---@return Tensor
function M.rgb_to_grayscale(...)
   local title, a = prefix .. "rgb_to_grayscale", take_gray(...)
   local image, count = check(title, a.inpt), a.num_output_channels
   if count ~= 1 and count ~= 3 then args.refuse(title, "num_output_channels", "1 or 3", count) end
   local gray = image
   if check_channels(title, image) == 3 then gray = brightness_of(image):to(image.dtype) end
   if count == 1 then return gray:clone() end
   return torch.cat({gray, gray, gray}, -3)
end

local function finish(output, image)
   output = output:clamp(0, bound_of(image))
   return image:is_floating_point() and output or output:to(image.dtype)
end

local minus_ones = torch.full({33}, -1.0, {dtype = "float32", device = "cpu"})
local above_one = torch.full({33}, 1 + 2^-12, {dtype = "float32", device = "cpu"})

-- Returns whether the CPU adds a multiple of a tensor by a fused multiply-add, which rounds only
-- once. The answer depends on the processor and on torch.use_deterministic_algorithms.
local function rounds_once(image)
   if image.device.type ~= "cpu" or torch._tracing() then return false end
   local sum = torch.add(minus_ones, above_one, {alpha = 1 + 2^-12})
   return sum:eq(2^-11 + 2^-24):all():item()
end

local function blend(image, other, ratio)
   local own = image:mul(ratio + 0.0)
   if image:is_floating_point() or rounds_once(image) then
      return finish(own:add_(other, {alpha = 1.0 - ratio}), image)
   end
   -- On this processor, add_ would round the product before the addition. In double precision the
   -- product of a byte and a weight is exact, so the sum is the same as on processors that round
   -- only once.
   local weight = torch.tensor(1.0 - ratio, {dtype = "float32"}):item()
   return finish(own:double():add_(other:double(), {alpha = weight}):float(), image)
end

-- Defines a function of an image and a factor, which must be at least 0. `parameter` is the name of
-- the factor.
local function define_adjust(name, parameter, fn)
   local title = prefix .. name
   local take = args.signature(("%s(inpt: tensor, %s: number)"):format(title, parameter))
   M[name] = function(...)
      local a = take(...)
      local image, factor = check(title, a.inpt), a[parameter]
      if factor < 0 or factor ~= factor or factor == math.huge then
         args.refuse(title, parameter, "a number of at least 0", factor)
      end
      return fn(image, factor, check_channels(title, image))
   end
end

--- Multiplies the brightness of images by a factor.
---
---     local image = torch.full({3, 1, 1}, 100, {dtype = "uint8"})
---     local adjust = torch.vision.transforms.v2.functional.adjust_brightness
---     print(adjust(image, 1.5):flatten())
---     --> tensor([150, 150, 150], dtype=torch.uint8)
---@names vision.transforms.functional.adjust_brightness
---@param inpt Tensor  (..., 1 or 3, H, W)
---@param brightness_factor number  1 changes nothing
---@return Tensor
define_adjust("adjust_brightness", "brightness_factor", function(image, factor)
   return finish(image:mul(factor + 0.0), image)
end)

--- Blends images with their greyscale version: a factor of 0 removes colours, and 2 doubles the
--- saturation.
---@names vision.transforms.functional.adjust_saturation
---@param inpt Tensor  (..., 1 or 3, H, W)
---@param saturation_factor number  1 changes nothing
---@return Tensor
define_adjust("adjust_saturation", "saturation_factor", function(image, factor, channels)
   if channels == 1 then return image end
   local gray = brightness_of(image)
   return blend(image, image:is_floating_point() and gray or gray:floor_(), factor)
end)

--- Blends images with their mean brightness: a factor of 0 leaves a uniform grey, and 2 doubles the
--- contrast.
---@names vision.transforms.functional.adjust_contrast
---@param inpt Tensor  (..., 1 or 3, H, W)
---@param contrast_factor number  1 changes nothing
---@return Tensor
define_adjust("adjust_contrast", "contrast_factor", function(image, factor, channels)
   local is_float = image:is_floating_point()
   local gray = channels == 3 and brightness_of(image) or is_float and image or image:float()
   if channels == 3 and not is_float then gray = gray:floor_() end
   return blend(image, gray:mean({-3, -2, -1}, true), factor)
end)

local take_hue = args.signature(prefix .. "adjust_hue(inpt: tensor, hue_factor: number)")

-- Returns three tensors: the hue, the saturation and the value of each pixel.
local function to_hsv(image)
   local r, g, b = image:select(-3, 1), image:select(-3, 2), image:select(-3, 3)
   local low, high = image:amin(-3), image:amax(-3)
   local is_gray, range = high:eq(low), high - low
   local ones = torch.ones_like(high)
   local s = range / torch.where(is_gray, ones, high)
   local divisor = torch.where(is_gray, ones, range)
   local rc, gc, bc = (high - r) / divisor, (high - g) / divisor, (high - b) / divisor
   local not_r, is_g = high:ne(r), high:eq(g)
   local dtype = image.dtype
   local h = (bc - gc) * not_r:logical_not():to(dtype)
      + (rc + 2 - bc) * is_g:logical_and(not_r):to(dtype)
      + (gc + 4 - rc) * not_r:logical_and(is_g:logical_not()):to(dtype)
   return (h * (1 / 6) + 1):fmod(1), s, high
end

-- Returns the image with the given hue, saturation and value.
local function from_hsv(h, s, v)
   local h6 = h * 6
   local i = h6:floor()
   local f = h6 - i
   local sf, rest = s * f, 1 - s
   local q, t = ((1 - sf) * v):clamp(0, 1), ((sf + rest) * v):clamp(0, 1)
   local p = (rest * v):clamp(0, 1)
   local choice = torch.stack({v, p, q, t}, -3)
   local sector = i:long():remainder(6) + 1
   local rows = {{1, 3, 2, 2, 4, 1}, {4, 1, 1, 3, 2, 2}, {2, 2, 4, 1, 1, 3}}
   local planes = {}
   for c, row in ipairs(rows) do
      planes[c] = torch.tensor(row, {device = h.device}):index_select(1, sector:flatten())
         :view(sector.shape)
   end
   return choice:gather(-3, torch.stack(planes, -3))
end

--- Rotates the hues of images by a fraction of the colour circle.
---
---     local red = torch.tensor({1.0, 0, 0}):view(3, 1, 1)
---     local adjust = torch.vision.transforms.v2.functional.adjust_hue
---     print(adjust(red, 0.5):flatten())
---     --> tensor([0., 1., 1.])
---@names vision.transforms.functional.adjust_hue
---@param inpt Tensor  (..., 1 or 3, H, W)
---@param hue_factor number  a fraction from -0.5 to 0.5; 0 changes nothing
---@return Tensor
function M.adjust_hue(...)
   local title, a = prefix .. "adjust_hue", take_hue(...)
   local image = check(title, a.inpt)
   if not (a.hue_factor >= -0.5 and a.hue_factor <= 0.5) then
      args.refuse(title, "hue_factor", "a number from -0.5 to 0.5", a.hue_factor)
   end
   if check_channels(title, image) == 1 or image:numel() == 0 then return image end
   local h, s, v = to_hsv(M.to_dtype(image, "float32", true))
   return M.to_dtype(from_hsv((h + a.hue_factor):remainder(1), s, v), image.dtype, true)
end

local take_invert = args.signature(prefix .. "invert(inpt: tensor)")

--- Returns the negative of images.
---
---     local image = torch.tensor({{{0, 200}}}, {dtype = "uint8"})
---     print(torch.vision.transforms.v2.functional.invert(image):flatten())
---     --> tensor([255,  55], dtype=torch.uint8)
---@names vision.transforms.functional.invert
---@param inpt Tensor  (..., C, H, W)
---@return Tensor
function M.invert(...)
   local image = check(prefix .. "invert", take_invert(...).inpt)
   if image:is_floating_point() then return 1 - image end
   if image.dtype == "uint8" or image.dtype == "bool" then return image:bitwise_not() end
   return image:bitwise_xor(bound_of(image))
end

-- Values ------------------------------------------------------------------------------------------

local take_normalize = args.signature(prefix .. [[normalize(inpt: tensor, mean: numbers,
   std: numbers)]])

--- Subtracts a mean from each channel and divides by a standard deviation.
---
---     local image = torch.ones(1, 1, 2)
---     print(torch.vision.transforms.v2.functional.normalize(image, {0.5}, {0.25}))
---     --> tensor([[[2., 2.]]])
---@names vision.transforms.functional.normalize
---@param inpt Tensor  (..., C, H, W) of floating numbers
---@param mean number[]  the mean of each channel
---@param std number[]  the standard deviation of each channel
---@return Tensor
function M.normalize(...)
   local title, a = prefix .. "normalize", take_normalize(...)
   local image = check(title, a.inpt)
   if not image:is_floating_point() then
      args.refuse(title, "inpt", "floating numbers (to_dtype makes them)", image)
   end
   for _, name in ipairs {"mean", "std"} do
      if #a[name] ~= 1 and #a[name] ~= image:size(-3) then
         args.refuse(title, name, ("1 or %d numbers"):format(image:size(-3)), #a[name])
      end
   end
   for _, value in ipairs(a.std) do
      if value == 0 then args.refuse(title, "std", "numbers other than 0", value) end
   end
   local place = {dtype = image.dtype, device = image.device}
   return image:sub(torch.tensor(a.mean, place):view(-1, 1, 1))
      :div_(torch.tensor(a.std, place):view(-1, 1, 1))
end

local take_dtype = args.signature(prefix .. [[to_dtype(inpt: tensor, dtype: string = 'float32',
   scale: boolean = false)]])

--- Converts images to another dtype. With `scale`, values are scaled to the new dtype's range: from
--- 0 to 1 for floating numbers, and from 0 to the largest integer for integers. It is an error to
--- scale values from or to uint32, uint64 and complex numbers, or between bool and integers.
---
---     local image = torch.full({1, 1, 1}, 255, {dtype = "uint8"})
---     local to_dtype = torch.vision.transforms.v2.functional.to_dtype
---     print(to_dtype(image, "float32", true))
---     --> tensor([[[1.]]])
---@names vision.transforms.functional.to_dtype
---@param inpt Tensor  an image
---@param dtype? string  "float32" by default
---@param scale? boolean  false by default
---@return Tensor
function M.to_dtype(...)
   local title, a = prefix .. "to_dtype", take_dtype(...)
   local image, dtype = a.inpt, a.dtype
   if image.dtype == dtype then return image end
   if not a.scale then return image:to(dtype) end
   local is_float, to_integer = image:is_floating_point(), largest[dtype]
   local with_bool = image.dtype == "bool" and to_integer or dtype == "bool" and not is_float
   if unscaled[image.dtype] or unscaled[dtype] or with_bool then
      torch.raise(("%s: %s cannot be scaled to %s"):format(title, image.dtype, dtype))
   end
   if is_float and not to_integer then return image:to(dtype) end
   if is_float then
      if dtype == "int64" or dtype == "int32" and image.dtype ~= "float64" then
         torch.raise(("%s: %s cannot hold the values of %s"):format(title, image.dtype, dtype))
      end
      local wide = image:element_size() < 4 and image:float() or image
      local scaled = wide:mul(to_integer + 1.0 - 1e-3)
      -- In float32, the factor for uint16 is rounded up to 65536, so the result may be 65536, which
      -- is clamped.
      if dtype == "uint16" then scaled = scaled:clamp_max(to_integer) end
      return scaled:to(dtype)
   end
   if not to_integer then return image:to(dtype):mul_(1.0 / bound_of(image)) end
   local bits = math.log((to_integer + 1.0) / (bound_of(image) + 1.0), 2)
   local shift = math.floor(bits + 0.5)
   if shift < 0 then
      -- uint16 has no shifts, so int32 is used instead.
      if image.dtype == "uint16" then image = image:int() end
      return image:bitwise_right_shift(-shift):to(dtype)
   end
   local wide = dtype == "uint16" and "int32" or dtype
   return image:to(wide):bitwise_left_shift(shift):to(dtype)
end

local take_blur = args.signature(prefix .. [[gaussian_blur(inpt: tensor, kernel_size: integers,
   sigma: number|numbers?)]])

--- Blurs images with a Gaussian kernel. Its width and height `kernel_size` must be odd; its
--- standard deviation `sigma` is 0.15 * kernel_size + 0.35 by default.
---
---     local image = torch.zeros(1, 3, 3)
---     image[{1, 2, 2}] = 1
---     print(torch.vision.transforms.v2.functional.gaussian_blur(image, 3):sum())
---     --> tensor(2.1844)
---@names vision.transforms.functional.gaussian_blur
---@param inpt Tensor  (..., C, H, W)
---@param kernel_size integer|integer[]
---@param sigma? number|number[]
---@return Tensor
function M.gaussian_blur(...)
   local title, a = prefix .. "gaussian_blur", take_blur(...)
   local image, curves = check(title, a.inpt), {}
   local kernels = {pair(title, "kernel_size", a.kernel_size)}
   local sigma = a.sigma and (type(a.sigma) == "number" and {a.sigma, a.sigma} or a.sigma)
   if sigma and #sigma == 1 then sigma = {sigma[1], sigma[1]} end
   if sigma and #sigma ~= 2 then args.refuse(title, "sigma", "1 or 2 numbers", #sigma) end
   local is_float = image:is_floating_point()
   local place = {dtype = is_float and image.dtype or "float32", device = image.device}
   for i, size in ipairs(kernels) do
      if size % 2 == 0 then args.refuse(title, "kernel_size", "odd sizes", size) end
      local s = sigma and sigma[i] or size * 0.15 + 0.35
      if s <= 0 or s ~= s then args.refuse(title, "sigma", "numbers above 0", s) end
      local limit = (size - 1) / (2 * math.sqrt(2))
      curves[i] = torch.linspace(-limit, limit, size, place):div(s):pow(2):neg():softmax(1)
   end
   if image:numel() == 0 then return image end
   local height, width = image:size(-2), image:size(-1)
   if kernels[1] // 2 >= width or kernels[2] // 2 >= height then
      torch.raise(("%s: kernel_size: expected less than twice the image's %d x %d pixels, "
         .. "got %d x %d"):format(title, height, width, kernels[2], kernels[1]))
   end
   return as_batch(image, function(batch)
      local channels = batch:size(2)
      local kernel = (curves[2]:unsqueeze(2) * curves[1])
         :expand(channels, 1, kernels[2], kernels[1]):contiguous()
      local x, y = kernels[1] // 2, kernels[2] // 2
      local padded = F.pad(is_float and batch or batch:float(), {x, x, y, y}, "reflect")
      local result = F.conv2d(padded, kernel, nil, 1, 0, 1, channels)
      return is_float and result or result:round():to(batch.dtype)
   end)
end

local take_erase = args.signature(prefix .. [[erase(inpt: tensor, i: integer, j: integer,
   h: integer, w: integer, v: tensor)]])

--- Returns images in which a rectangle is filled with the values `v`.
---@names vision.transforms.functional.erase
---@param inpt Tensor  (..., C, H, W)
---@param i integer  the number of rows above the rectangle
---@param j integer  the number of columns to the left of the rectangle
---@param h integer  the height of the rectangle
---@param w integer  the width of the rectangle
---@param v Tensor  values, broadcast to the rectangle
---@return Tensor
function M.erase(...)
   local title, a = prefix .. "erase", take_erase(...)
   local image = check(title, a.inpt)
   if a.i < 0 or a.j < 0 or a.h < 1 or a.w < 1 or a.i + a.h > image:size(-2)
         or a.j + a.w > image:size(-1) then
      torch.raise(("%s: the rectangle of %d x %d pixels at (%d, %d) is not inside of the image, %s")
         :format(title, a.h, a.w, a.i, a.j, args.describe(image)))
   end
   local result = image:clone()
   result:narrow(-2, a.i + 1, a.h):narrow(-1, a.j + 1, a.w):copy_(a.v)
   return result
end

kinds.lift(M, [[rgb_to_grayscale adjust_brightness adjust_saturation adjust_contrast adjust_hue
   invert normalize gaussian_blur erase to_dtype]])

return lazy.load(M, lazy.modules("tlua.vision.transforms", {
   geometry = [[resize pad crop center_crop resized_crop five_crop ten_crop horizontal_flip
      vertical_flip hflip vflip]],
   points = [[convert_bounding_box_format clamp_bounding_boxes sanitize_bounding_boxes
      clamp_keypoints sanitize_keypoints]],
   queries = "InterpolationMode",
   tones = "posterize solarize autocontrast adjust_sharpness adjust_gamma equalize",
   values = [[gaussian_noise permute_channels grayscale_to_rgb to_grayscale jpeg to_image
      uniform_temporal_subsample get_size get_dimensions get_num_channels get_num_frames
      get_image_num_channels get_image_size convert_image_dtype is_pure_tensor to_tensor
      to_pil_image pil_to_tensor]],
   warp = "affine rotate perspective elastic elastic_transform",
}))
