-- tones.lua - functions of transforms.v2.functional that change the values of pixels.

local torch = require "tlua"
local args = require "tlua.args"
local functional = require "tlua.vision.transforms.functional"
local kinds = require "tlua.vision.transforms.kinds"

local F = torch.nn.functional

local M = {}

local prefix <const> = "vision.transforms.v2.functional."

-- Raises an error if a tensor is not an image of uint8 or floating-point numbers. Returns whether
-- its numbers are floating-point numbers.
local function check(title, image, channels)
   if image:dim() < 3 or image.dtype ~= "uint8" and not image:is_floating_point()
         or channels and image:size(-3) ~= 1 and image:size(-3) ~= 3 then
      args.refuse(title, "inpt", ("uint8 or floating numbers of shape (..., %s, H, W)"):format(
         channels and "1 or 3" or "C"), image)
   end
   return image:is_floating_point()
end

local take_posterize = args.signature(prefix .. "posterize(inpt: tensor, bits: integer)")

--- Keeps only the highest bits of each value.
---
---     local image = torch.tensor({{{200, 100}}}, {dtype = "uint8"})
---     local posterize = torch.vision.transforms.v2.functional.posterize
---     print(posterize(image, 2):flatten())
---     --> tensor([192,  64], dtype=torch.uint8)
---@names vision.transforms.functional.posterize
---@param inpt Tensor  (..., C, H, W)
---@param bits integer  the number of bits to keep, from 0 to 8
---@return Tensor
function M.posterize(...)
   local title, a = prefix .. "posterize", take_posterize(...)
   local is_real = check(title, a.inpt)
   if a.bits < 0 or a.bits > 8 then args.refuse(title, "bits", "an integer from 0 to 8", a.bits) end
   local levels = 1 << a.bits
   if is_real then return (a.inpt * levels):floor():clamp(0, levels - 1) * (1 / levels) end
   return a.inpt:bitwise_and((levels - 1) << (8 - a.bits))
end

local take_solarize = args.signature(prefix .. "solarize(inpt: tensor, threshold: number)")

--- Inverts all values that are at least a threshold.
---
---     local image = torch.tensor({{{200, 100}}}, {dtype = "uint8"})
---     local solarize = torch.vision.transforms.v2.functional.solarize
---     print(solarize(image, 150):flatten())
---     --> tensor([ 55, 100], dtype=torch.uint8)
---@names vision.transforms.functional.solarize
---@param inpt Tensor  (..., C, H, W)
---@param threshold number  the threshold, at most 255, or 1 for floating numbers
---@return Tensor
function M.solarize(...)
   local title, a = prefix .. "solarize", take_solarize(...)
   local bound = check(title, a.inpt) and 1 or 255
   if a.threshold > bound or a.threshold ~= a.threshold then
      args.refuse(title, "threshold", "at most " .. bound, a.threshold)
   end
   return torch.where(a.inpt:ge(a.threshold), functional.invert(a.inpt), a.inpt)
end

local take_contrast = args.signature(prefix .. "autocontrast(inpt: tensor)")

--- Stretches the values of each channel to the full range.
---
---     local image = torch.tensor({{{50, 100, 150}}}, {dtype = "uint8"})
---     local stretch = torch.vision.transforms.v2.functional.autocontrast
---     print(stretch(image):flatten())
---     --> tensor([  0, 127, 254], dtype=torch.uint8)
---@names vision.transforms.functional.autocontrast
---@param inpt Tensor  (..., 1 or 3, H, W)
---@return Tensor
function M.autocontrast(...)
   local title, image = prefix .. "autocontrast", take_contrast(...).inpt
   local bound = check(title, image, true) and 1 or 255
   if image:numel() == 0 then return image end
   local real = image.dtype == "uint8" and image:float() or image
   local low, high = real:amin({-2, -1}, true), real:amax({-2, -1}, true)
   local is_flat = low:eq(high)
   local scale = ((high - low) * (1 / bound)):masked_fill(is_flat, 1)
   return ((real - low:masked_fill(is_flat, 0)) / scale):clamp(0, bound):to(image.dtype)
end

local take_sharpness = args.signature(prefix .. [[adjust_sharpness(inpt: tensor,
   sharpness_factor: number)]])

--- Blends images with a blurred copy: a factor of 0 blurs, and 2 sharpens. Pixels at the edges are
--- unchanged.
---
---     local image = torch.zeros(1, 3, 3)
---     image[{1, 2, 2}] = 1
---     local adjust = torch.vision.transforms.v2.functional.adjust_sharpness
---     print(adjust(image, 0)[{1, 2}])
---     --> tensor([0.0000, 0.3846, 0.0000])
---@names vision.transforms.functional.adjust_sharpness
---@param inpt Tensor  (..., 1 or 3, H, W)
---@param sharpness_factor number  a factor of at least 0; 1 changes nothing
---@return Tensor
function M.adjust_sharpness(...)
   local title, a = prefix .. "adjust_sharpness", take_sharpness(...)
   local image, factor = a.inpt, a.sharpness_factor
   local is_real = check(title, image, true)
   if not (factor >= 0 and factor < math.huge) then
      args.refuse(title, "sharpness_factor", "a number of at least 0", factor)
   end
   local height, width, channels = image:size(-2), image:size(-1), image:size(-3)
   if height <= 2 or width <= 2 or image:numel() == 0 then return image end
   local real = (is_real and image:clone() or image:float()):reshape(-1, channels, height, width)
   local kernel = real:new_full({channels, 1, 3, 3}, 1 / 13)
   kernel[{{}, 1, 2, 2}] = 5 / 13
   local blurred = F.conv2d(real, kernel, nil, {groups = channels})
   if not is_real then blurred:round_() end
   local inner = real:narrow(3, 2, height - 2):narrow(4, 2, width - 2)
   blurred:sub_(inner)
   if is_real then
      inner:add_(blurred, {alpha = 1.0 - factor})
   else -- rounds only once, as a fused multiply-add does, so all processors give the same bytes
      local weight = torch.tensor(1.0 - factor, {dtype = "float32"}):double()
      inner:copy_(inner:double() + blurred:double() * weight)
   end
   return real:clamp(0, is_real and 1 or 255):to(image.dtype):reshape(image.shape)
end

local take_gamma = args.signature(prefix .. [[adjust_gamma(inpt: tensor, gamma: number,
   gain: number = 1)]])

--- Applies gamma correction: raises values, scaled to 0 to 1, to the power `gamma`, and multiplies
--- them by `gain`.
---
---     local image = torch.tensor {{{0.5}}}
---     print(torch.vision.transforms.v2.functional.adjust_gamma(image, 2))
---     --> tensor([[[0.2500]]])
---@names vision.transforms.functional.adjust_gamma
---@param inpt Tensor  (..., C, H, W)
---@param gamma number  a power of at least 0; powers above 1 make shadows darker
---@param gain? number  1 by default
---@return Tensor
function M.adjust_gamma(...)
   local title, a = prefix .. "adjust_gamma", take_gamma(...)
   local is_real = check(title, a.inpt)
   if a.gamma < 0 or a.gamma ~= a.gamma then
      args.refuse(title, "gamma", "a number of at least 0", a.gamma)
   end
   local real = is_real and a.inpt or functional.to_dtype(a.inpt, "float32", true)
   local result = real ^ a.gamma
   if a.gain ~= 1 then result = (result * a.gain):clamp(0, 1) end
   return is_real and result or functional.to_dtype(result, "uint8", true)
end

local take_equalize = args.signature(prefix .. "equalize(inpt: tensor)")

--- Equalizes the histogram of each channel, so that all values are about equally frequent. Floating
--- numbers are first rounded to bytes.
---
---     local image = torch.arange(0, 256):to("uint8"):view(1, 16, 16)
---     local equalize = torch.vision.transforms.v2.functional.equalize
---     print(torch.equal(equalize(image), image))
---     --> true
---@names vision.transforms.functional.equalize
---@param inpt Tensor  (..., C, H, W)
---@return Tensor
function M.equalize(...)
   local title, image = prefix .. "equalize", take_equalize(...).inpt
   local is_real = check(title, image)
   if image:numel() == 0 then return image end
   local bytes = functional.to_dtype(image, "uint8", true)
   local pixels = bytes:size(-2) * bytes:size(-1)
   local values = bytes:reshape(-1, pixels):long()
   local counts = values:new_zeros(values:size(1), 256)
      :scatter_add(2, values + 1, values:new_ones(1, 1):expand(values.shape))
   local sums = counts:cumsum(2)
   local last = counts:gather(2, sums:eq(pixels):int():argmax(2):unsqueeze(2))
   local step = (pixels - last):div(255, {rounding_mode = "floor"})
   local divisor = step:clamp_min(1)
   local before = torch.cat({sums:new_zeros(sums:size(1), 1), sums:narrow(2, 1, 255)}, 2)
   local lut = (before + step:div(2, {rounding_mode = "floor"}))
      :div(divisor, {rounding_mode = "floor"}):clamp(0, 255)
   lut[{{}, 1}] = 0
   local result = torch.where(step:eq(0), values, lut:gather(2, values + 1)):to("uint8")
      :view(bytes.shape)
   return is_real and functional.to_dtype(result, image.dtype, true) or result
end

kinds.lift(M, "posterize solarize autocontrast adjust_sharpness adjust_gamma equalize")

return M
