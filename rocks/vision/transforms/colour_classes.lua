-- colour_classes.lua - classes of transforms that change the values of pixels: colours, noise,
-- blur, erasing and dtypes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local functional = require "tlua.vision.transforms.functional"
local kinds = require "tlua.vision.transforms.kinds"
local random = require "tlua.vision.transforms.random"
local Transform = require "tlua.vision.transforms.Transform"

local M = {}

local prefix <const> = "vision.transforms.v2."
local uniform <const>, chance <const> = random.uniform, random.chance
local call <const> = Transform._call

local function define(...) Transform._define_in(M, ...) end

-- Returns a method that calls the functional transform `name` with a value and further arguments.
-- The names after `name` are the fields of the object that hold these arguments.
local function calls(name, ...)
   local fields = {...}
   return function(self, value)
      local list = {}
      for i, field in ipairs(fields) do list[i] = self[field] end
      return call(name, value, table.unpack(list, 1, #fields))
   end
end

-- Values ------------------------------------------------------------------------------------------

--- Subtracts a `mean` from each channel and divides by a standard deviation, `std`.
---
---     local normalize = torch.vision.transforms.v2.Normalize({0.5}, {0.25})
---     print(normalize(torch.ones(1, 1, 1)))
---     --> tensor([[[2.]]])
---@class vision.transforms.v2.Normalize: nn.Module
---@overload fun(mean: number[], std: number[]): nn.Module
local Normalize = class.class(prefix .. "Normalize", Transform)
define(Normalize, "mean: numbers, std: numbers", calls("normalize", "mean", "std"))

--- Converts images of uint8 to float32 from 0 to 1, as to_tensor does, and leaves other images as
--- they are.
---
---     local transform = torch.vision.transforms.ToTensor()
---     print(transform(torch.full({1, 1, 1}, 255, {dtype = "uint8"})))
---     --> tensor([[[1.]]])
---@class vision.transforms.v2.ToTensor: nn.Module
---@overload fun(): nn.Module
local ToTensor = class.class(prefix .. "ToTensor", Transform)
define(ToTensor, "", calls "to_tensor")

--- Converts images to uint8 (C, H, W), as to_pil_image does. The `mode` is "L", "LA", "RGB" or
--- "RGBA", which must fit the number of channels; nil fits every image.
---
---     local transform = torch.vision.transforms.ToPILImage()
---     print(transform(torch.full({1, 1, 1}, 0.5)))
---     --> tensor([[[127]]], dtype=torch.uint8)
---@class vision.transforms.v2.ToPILImage: nn.Module
---@overload fun(mode?: string): nn.Module
local ToPILImage = class.class(prefix .. "ToPILImage", Transform)
define(ToPILImage, "mode: string?", calls("to_pil_image", "mode"))

--- Returns images as tensors (C, H, W) without scaling their values, as pil_to_tensor does.
---
---     local transform = torch.vision.transforms.PILToTensor()
---     print(transform(torch.ones(2, 2, {dtype = "uint8"})).shape)
---     --> torch.Size([1, 2, 2])
---@class vision.transforms.v2.PILToTensor: nn.Module
---@overload fun(): nn.Module
local PILToTensor = class.class(prefix .. "PILToTensor", Transform)
define(PILToTensor, "", calls "pil_to_tensor")

--- Converts images and videos to a `dtype`; with `scale`, values are scaled to the new dtype's
--- range. `dtype` may also be a table of dtypes whose keys are classes of torch.vision.tv_tensors,
--- torch.Tensor or "others"; false leaves values unchanged.
---
---     local convert = torch.vision.transforms.v2.ToDtype("float32", true)
---     print(convert(torch.full({1, 1, 1}, 255, {dtype = "uint8"})))
---     --> tensor([[[1.]]])
---@class vision.transforms.v2.ToDtype: nn.Module
---@overload fun(dtype: string|table, scale?: boolean): nn.Module
local ToDtype = class.class(prefix .. "ToDtype", Transform)
define(ToDtype, "dtype: string|names, scale: boolean = false", function(self, value)
   local dtype = self.dtype
   if type(dtype) == "table" then
      dtype = dtype[torch.is_tensor(value) and torch.Tensor or getmetatable(value)]
      if dtype == nil then dtype = self.dtype.others end
      if dtype == nil then
         torch.raise(("%sToDtype: dtype: the table has none for %s, and none for others"):format(
            prefix, args.describe(value)))
      end
      if not dtype then return value end
   else
      local kind = kinds.of(value)
      if kind ~= "image" and kind ~= "video" then return value end
   end
   return functional.to_dtype(value, dtype, self.scale)
end)

--- Converts images and videos to a `dtype`, "float32" by default, and scales values to the new
--- dtype's range.
---
---     local convert = torch.vision.transforms.v2.ConvertImageDtype()
---     print(convert(torch.full({1, 1, 1}, 255, {dtype = "uint8"})))
---     --> tensor([[[1.]]])
---@class vision.transforms.v2.ConvertImageDtype: nn.Module
---@overload fun(dtype?: string): nn.Module
local ConvertImageDtype = class.class(prefix .. "ConvertImageDtype", Transform)
define(ConvertImageDtype, "dtype: string = 'float32'", function(self, value)
   local kind = kinds.of(value)
   if kind ~= "image" and kind ~= "video" then return value end
   return functional.to_dtype(value, self.dtype, true)
end)

--- Flattens images, subtracts `mean_vector` (n) and multiplies by `transformation_matrix` (n, n),
--- for example to whiten them.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.LinearTransformation(torch.eye(2) * 2, torch.ones(2))
---     print(transform(torch.tensor {{{1.0, 3.0}}}))
---     --> tensor([[[0., 4.]]])
---@class vision.transforms.v2.LinearTransformation: nn.Module
---@overload fun(transformation_matrix: Tensor, mean_vector: Tensor): nn.Module
local LinearTransformation = class.class(prefix .. "LinearTransformation", Transform)
define(LinearTransformation, "transformation_matrix: tensor, mean_vector: tensor",
   function(self, value)
      local kind = kinds.of(value)
      if kind ~= "image" and kind ~= "video" then return value end
      local title = prefix .. "LinearTransformation"
      local data = kinds.check(title, torch.is_tensor(value) and value or value.data)
      local n = data:size(-1) * data:size(-2) * data:size(-3)
      if n ~= self.transformation_matrix:size(1) then
         torch.raise(("%s: expected images of %d numbers, got %s"):format(title,
            self.transformation_matrix:size(1), args.describe(data)))
      end
      local flat = data:reshape(-1, n) - self.mean_vector
      local result = flat:mm(self.transformation_matrix:to(flat.dtype)):view(data.shape)
      return torch.is_tensor(value) and result or torch.vision.tv_tensors.wrap(result, value)
   end, nil, function(title, a)
      local m = a.transformation_matrix
      if m:dim() ~= 2 or m:size(1) ~= m:size(2) then
         args.refuse(title, "transformation_matrix", "a square matrix", m)
      end
      if a.mean_vector:dim() ~= 1 or a.mean_vector:size(1) ~= m:size(1)
            or a.mean_vector.dtype ~= m.dtype or a.mean_vector.device ~= m.device then
         args.refuse(title, "mean_vector", ("a %s tensor of shape (%d) on %s"):format(m.dtype,
            m:size(1), tostring(m.device)), a.mean_vector)
      end
   end)

--- Blurs images with a Gaussian kernel of `kernel_size` pixels. Its standard deviation is a random
--- number from the range `sigma`, or the number `sigma`.
---
---     local blur = torch.vision.transforms.v2.GaussianBlur(3)
---     print(blur(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.GaussianBlur: nn.Module
---@overload fun(kernel_size: integer|integer[], sigma?: number|number[]): nn.Module
local GaussianBlur = class.class(prefix .. "GaussianBlur", Transform)
define(GaussianBlur, "kernel_size: integers, sigma: number|numbers?", function(self, value, params)
   return call("gaussian_blur", value, self.kernel_size, params.sigma)
end, function(self)
   return {sigma = uniform(self.sigma[1], self.sigma[2])}
end, function(title, a)
   a.sigma = a.sigma or {0.1, 2.0}
   if type(a.sigma) == "number" then a.sigma = {a.sigma, a.sigma} end
   if not (#a.sigma == 2 and a.sigma[1] > 0 and a.sigma[1] <= a.sigma[2]
         and a.sigma[2] < math.huge) then
      args.refuse(title, "sigma", "a number above 0, or two increasing ones", a.sigma)
   end
   local sizes = type(a.kernel_size) == "number" and {a.kernel_size} or a.kernel_size
   for _, size in ipairs(sizes) do
      if size < 1 or size % 2 == 0 then args.refuse(title, "kernel_size", "odd sizes", size) end
   end
end)

--- Adds normally distributed noise to images, with `mean`, `sigma` and `clip` as in
--- functional.gaussian_noise.
---
---     local noise = torch.vision.transforms.v2.GaussianNoise(0, 0.1)
---     print(noise(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.GaussianNoise: nn.Module
---@overload fun(mean?: number, sigma?: number, clip?: boolean): nn.Module
local GaussianNoise = class.class(prefix .. "GaussianNoise", Transform)
define(GaussianNoise, "mean: number = 0, sigma: number = 0.1, clip: boolean = true",
   calls("gaussian_noise", "mean", "sigma", "clip"))

--- Encodes images as JPEG and decodes them again. `quality` is a number, or a range {low, high} for
--- a random quality.
---
---     local jpeg = torch.vision.transforms.v2.JPEG {10, 90}
---     print(jpeg.quality[1], jpeg.quality[2])
---     --> 10	90
---@class vision.transforms.v2.JPEG: nn.Module
---@overload fun(quality: integer|integer[]): nn.Module
local JPEG = class.class(prefix .. "JPEG", Transform)
define(JPEG, "quality: integers", function(_, value, params)
   return call("jpeg", value, params.quality)
end, function(self)
   return {quality = random.between(self.quality[1], self.quality[2])}
end, function(title, a)
   if type(a.quality) == "number" then a.quality = {a.quality, a.quality} end
   random.check_range(title, "quality", a.quality, 1, 100)
end)

--- Fills a random rectangle of images, with probability p, with `value`: a number, a list with one
--- number for each channel, or "random". The area of the rectangle, divided by the image's area, is
--- in the range `scale`, and its height divided by its width is in the range `ratio`.
---
---     local erase = torch.vision.transforms.v2.RandomErasing(1.0, {value = 0})
---     local image = erase(torch.ones(3, 20, 20))
---     print(image:sum():item() < 1200)
---     --> true
---@class vision.transforms.v2.RandomErasing: nn.Module
---@overload fun(p?: number, options?: table): nn.Module
local RandomErasing = class.class(prefix .. "RandomErasing", Transform)
define(RandomErasing, [[p: number = 0.5, scale: numbers?, ratio: numbers?,
   value: number|numbers|string = 0]], function(_, value, p)
   if not p.v then return value end
   return call("erase", value, p.i, p.j, p.h, p.w, p.v)
end, function(self, values)
   local channels, height, width = self:_chw_of(values)
   local value = self.value
   if type(value) == "number" then value = {value} end
   if type(value) == "table" and #value ~= 1 and #value ~= channels then
      args.refuse(prefix .. "RandomErasing", "value",
         ("a number, or one for each of %d channels"):format(channels), #value)
   end
   local part = require "tlua.vision.transforms.classes"._random_part(height, width, self.scale,
      {1 / self.ratio[2], 1 / self.ratio[1]}, false)
   if not part or part.height == 0 or part.width == 0 then return {} end
   local v = value == "random" and torch.randn(channels, part.height, part.width)
      or torch.tensor(value, {dtype = "float32"}):view(-1, 1, 1)
   return {i = part.top, j = part.left, h = part.height, w = part.width, v = v}
end, function(title, a)
   a.scale, a.ratio = a.scale or {0.02, 0.33}, a.ratio or {0.3, 3.3}
   random.check_range(title, "scale", a.scale, 0, 1)
   if #a.ratio ~= 2 or not (a.ratio[1] > 0 and a.ratio[1] <= a.ratio[2]) then
      args.refuse(title, "ratio", "two increasing numbers above 0", a.ratio)
   end
   if type(a.value) == "string" and a.value ~= "random" then
      args.refuse(title, "value", 'a number, a list or "random"', a.value)
   end
end)

-- Colours -----------------------------------------------------------------------------------------

--- Converts images to greyscale with `num_output_channels` equal channels, 1 or 3.
---
---     local gray = torch.vision.transforms.v2.Grayscale(1)
---     print(gray(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([1, 4, 6])
---@class vision.transforms.v2.Grayscale: nn.Module
---@overload fun(num_output_channels?: integer): nn.Module
local Grayscale = class.class(prefix .. "Grayscale", Transform)
define(Grayscale, "num_output_channels: integer = 1",
   calls("rgb_to_grayscale", "num_output_channels"), nil, function(title, a)
      local n = a.num_output_channels
      if n ~= 1 and n ~= 3 then args.refuse(title, "num_output_channels", "1 or 3", n) end
   end)

--- Converts images to greyscale with probability p, and keeps their number of channels.
---
---     local gray = torch.vision.transforms.v2.RandomGrayscale(1.0)
---     print(gray(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RandomGrayscale: nn.Module
---@overload fun(p?: number): nn.Module
local RandomGrayscale = class.class(prefix .. "RandomGrayscale", Transform)
define(RandomGrayscale, "p: number = 0.1", function(_, value, params)
   return call("rgb_to_grayscale", value, params.channels)
end, function(self, values) return {channels = (self:_chw_of(values))} end)

--- Converts images with 1 channel to images with 3 equal channels.
---
---     local rgb = torch.vision.transforms.v2.RGB()
---     print(rgb(torch.zeros(1, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RGB: nn.Module
---@overload fun(): nn.Module
local RGB = class.class(prefix .. "RGB", Transform)
define(RGB, "", calls "grayscale_to_rgb")

--- Changes `brightness`, `contrast`, `saturation` and `hue` at random and in random order. Each is
--- a range of factors {low, high}, or a number d for factors from 1 - d to 1 + d (for the hue, from
--- -d to d).
---
---     local jitter = torch.vision.transforms.v2.ColorJitter {brightness = 0.2}
---     print(jitter(torch.zeros(3, 2, 2)).shape)
---     --> torch.Size([3, 2, 2])
---@class vision.transforms.v2.ColorJitter: nn.Module
---@overload fun(options?: table): nn.Module
local ColorJitter = class.class(prefix .. "ColorJitter", Transform)

local changes <const> = {"brightness", "contrast", "saturation", "hue"}

define(ColorJitter, [[brightness: number|numbers?, contrast: number|numbers?,
   saturation: number|numbers?, hue: number|numbers?]], function(_, value, params)
   for _, place in ipairs(params.order) do
      local name = changes[place]
      local factor = params[name]
      if factor then value = call("adjust_" .. name, value, factor) end
   end
   return value
end, function(self)
   local params = {order = torch.randperm(#changes):tolist()}
   for _, name in ipairs(changes) do
      local range = self[name]
      if range then params[name] = uniform(range[1], range[2]) end
   end
   return params
end, function(title, a)
   for _, name in ipairs(changes) do
      local value, centre = a[name], name == "hue" and 0 or 1
      if type(value) == "number" then
         if value < 0 then args.refuse(title, name, "a number of at least 0", value) end
         a[name] = {centre - value, centre + value}
         if centre == 1 then a[name][1] = math.max(a[name][1], 0) end
      end
      local low, high = name == "hue" and -0.5 or 0, name == "hue" and 0.5 or math.huge
      local range = a[name]
      if range and not (#range == 2 and low <= range[1] and range[1] <= range[2]
            and range[2] <= high) then
         args.refuse(title, name, ("increasing numbers from %g to %g"):format(low, high), value)
      end
   end
end)

--- Puts the channels of images into a random order.
---
---     local permute = torch.vision.transforms.v2.RandomChannelPermutation()
---     print(permute(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RandomChannelPermutation: nn.Module
---@overload fun(): nn.Module
local RandomChannelPermutation = class.class(prefix .. "RandomChannelPermutation", Transform)
define(RandomChannelPermutation, "", function(_, value, params)
   return call("permute_channels", value, params.permutation)
end, function(self, values)
   return {permutation = torch.randperm((self:_chw_of(values))):tolist()}
end)

--- Changes `brightness`, `contrast`, `saturation` and `hue` by random factors from the ranges with
--- these names, and permutes the channels. Each of these changes is made with probability p. The
--- detector SSD is trained with this transform.
---
---     local distort = torch.vision.transforms.v2.RandomPhotometricDistort()
---     print(distort(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RandomPhotometricDistort: nn.Module
---@overload fun(options?: table): nn.Module
local RandomPhotometricDistort = class.class(prefix .. "RandomPhotometricDistort", Transform)
define(RandomPhotometricDistort, [[brightness: numbers?, contrast: numbers?, saturation: numbers?,
   hue: numbers?, p: number = 0.5]], function(_, value, params)
   local list = {"brightness", "contrast", "saturation", "hue"}
   if not params.contrast_before then list = {"brightness", "saturation", "hue", "contrast"} end
   for _, name in ipairs(list) do
      if params[name] then value = call("adjust_" .. name, value, params[name]) end
   end
   if params.permutation then value = call("permute_channels", value, params.permutation) end
   return value
end, function(self, values)
   local params = {}
   for _, name in ipairs(changes) do
      if chance(self.p) then params[name] = uniform(self[name][1], self[name][2]) end
   end
   params.contrast_before = chance(0.5)
   if chance(self.p) then params.permutation = torch.randperm((self:_chw_of(values))):tolist() end
   return params
end, function(title, a)
   local ranges = {brightness = {0.875, 1.125}, contrast = {0.5, 1.5}, saturation = {0.5, 1.5},
      hue = {-0.05, 0.05}}
   for _, name in ipairs(changes) do
      a[name] = a[name] or ranges[name]
      local is_hue = name == "hue"
      random.check_range(title, name, a[name], is_hue and -0.5 or 0, is_hue and 0.5 or math.huge)
   end
end)
-- p is the probability of each single change, so the transform itself always runs.
RandomPhotometricDistort.is_random = false

--- Equalizes the histograms of images with probability p, as functional.equalize does.
---
---     local equalize = torch.vision.transforms.v2.RandomEqualize()
---     print(equalize(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RandomEqualize: nn.Module
---@overload fun(p?: number): nn.Module
local RandomEqualize = class.class(prefix .. "RandomEqualize", Transform)
define(RandomEqualize, "p: number = 0.5", calls "equalize")

--- Replaces images by their negatives, with probability p.
---
---     local invert = torch.vision.transforms.v2.RandomInvert(1.0)
---     print(invert(torch.tensor {{{0.25, 1}}}))
---     --> tensor([[[0.7500, 0.0000]]])
---@class vision.transforms.v2.RandomInvert: nn.Module
---@overload fun(p?: number): nn.Module
local RandomInvert = class.class(prefix .. "RandomInvert", Transform)
define(RandomInvert, "p: number = 0.5", calls "invert")

--- Keeps only the highest `bits` bits of each value, with probability p.
---
---     local posterize = torch.vision.transforms.v2.RandomPosterize(1, 1.0)
---     print(posterize(torch.tensor {{{0.25, 0.75}}}))
---     --> tensor([[[0.0000, 0.5000]]])
---@class vision.transforms.v2.RandomPosterize: nn.Module
---@overload fun(bits: integer, p?: number): nn.Module
local RandomPosterize = class.class(prefix .. "RandomPosterize", Transform)
define(RandomPosterize, "bits: integer, p: number = 0.5", calls("posterize", "bits"), nil,
   function(title, a)
      if a.bits < 0 or a.bits > 8 then
         args.refuse(title, "bits", "an integer from 0 to 8", a.bits)
      end
   end)

--- Inverts all values that are at least `threshold`, with probability p.
---
---     local solarize = torch.vision.transforms.v2.RandomSolarize(0.5, 1.0)
---     print(solarize(torch.tensor {{{0.25, 0.75}}}))
---     --> tensor([[[0.2500, 0.2500]]])
---@class vision.transforms.v2.RandomSolarize: nn.Module
---@overload fun(threshold: number, p?: number): nn.Module
local RandomSolarize = class.class(prefix .. "RandomSolarize", Transform)
define(RandomSolarize, "threshold: number, p: number = 0.5", calls("solarize", "threshold"))

--- Stretches the values of each channel to the full range, with probability p.
---
---     local stretch = torch.vision.transforms.v2.RandomAutocontrast(1.0)
---     print(stretch(torch.tensor {{{0.25, 0.5}}}))
---     --> tensor([[[0., 1.]]])
---@class vision.transforms.v2.RandomAutocontrast: nn.Module
---@overload fun(p?: number): nn.Module
local RandomAutocontrast = class.class(prefix .. "RandomAutocontrast", Transform)
define(RandomAutocontrast, "p: number = 0.5", calls "autocontrast")

--- Sharpens images, or blurs them with a `sharpness_factor` below 1, with probability p, as
--- functional.adjust_sharpness does.
---
---     local sharpen = torch.vision.transforms.v2.RandomAdjustSharpness(2)
---     print(sharpen(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RandomAdjustSharpness: nn.Module
---@overload fun(sharpness_factor: number, p?: number): nn.Module
local RandomAdjustSharpness = class.class(prefix .. "RandomAdjustSharpness", Transform)
define(RandomAdjustSharpness, "sharpness_factor: number, p: number = 0.5",
   calls("adjust_sharpness", "sharpness_factor"), nil, function(title, a)
      if not (a.sharpness_factor >= 0 and a.sharpness_factor < math.huge) then
         args.refuse(title, "sharpness_factor", "a number of at least 0", a.sharpness_factor)
      end
   end)

return M
