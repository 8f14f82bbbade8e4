-- values.lua - functions of transforms.v2.functional that add noise, permute channels, compress
-- images and select frames, and functions that return sizes.

local torch = require "tlua"
local args = require "tlua.args"

local functional = require "tlua.vision.transforms.functional"
local kinds = require "tlua.vision.transforms.kinds"
local tv_tensors = require "tlua.vision.tv_tensors"

local check = kinds.check

local M = {}

local prefix <const> = "vision.transforms.v2.functional."

local take_noise = args.signature(prefix .. [[gaussian_noise(inpt: tensor, mean: number = 0,
   sigma: number = 0.1, clip: boolean = true)]])

--- Adds normally distributed noise to images: `mean` and `sigma` are fractions of the range of
--- values.
---
---     local noise = torch.vision.transforms.v2.functional.gaussian_noise
---     print(noise(torch.zeros(1, 1, 2), 2.0))
---     --> tensor([[[1., 1.]]])
---@names vision.transforms.functional.gaussian_noise
---@param inpt Tensor  (..., C, H, W), uint8 or floating numbers
---@param mean? number  0 by default
---@param sigma? number  the standard deviation, at least 0; 0.1 by default
---@param clip? boolean  whether results are clamped to the range of values, true by default; if
--- false, uint8 results wrap around
---@return Tensor
function M.gaussian_noise(...)
   local title, a = prefix .. "gaussian_noise", take_noise(...)
   local image = check(title, a.inpt)
   if not (a.sigma >= 0 and a.sigma < math.huge) then
      args.refuse(title, "sigma", "a number of at least 0", a.sigma)
   end
   if a.mean ~= a.mean then args.refuse(title, "mean", "a number", a.mean) end
   if image:is_floating_point() then
      local result = image + (torch.randn_like(image) * a.sigma + a.mean)
      return a.clip and result:clamp(0, 1) or result
   end
   if image.dtype ~= "uint8" then
      args.refuse(title, "inpt", "uint8 or floating numbers", image)
   end
   local noise = torch.randn(image.shape, {device = image.device}) * (a.sigma * 255) + a.mean * 255
   local result = image:to("int16") + noise:to("int16")
   return (a.clip and result:clamp(0, 255) or result):to("uint8")
end

local take_permute = args.signature(prefix .. [[permute_channels(inpt: tensor,
   permutation: any)]])

--- Returns images with their channels in another order.
---
---     local f = torch.vision.transforms.v2.functional
---     local image = torch.tensor({1, 2, 3}):view(3, 1, 1)
---     print(f.permute_channels(image, {3, 1, 2}):flatten())
---     --> tensor([3, 1, 2])
---@names vision.transforms.functional.permute_channels
---@param inpt Tensor  (..., C, H, W)
---@param permutation integer[]|Tensor  the old channel, from 1, of each new channel
---@return Tensor
function M.permute_channels(...)
   local title, a = prefix .. "permute_channels", take_permute(...)
   local image, order = check(title, a.inpt), a.permutation
   if torch.is_tensor(order) then order = order:tolist() end
   local n, seen = image:size(-3), {}
   if type(order) ~= "table" or #order ~= n then
      args.refuse(title, "permutation", ("the numbers from 1 to %d"):format(n),
         type(order) == "table" and #order .. " numbers" or order)
   end
   for _, channel in ipairs(order) do
      local i = math.tointeger(channel)
      if not i or i < 1 or i > n or seen[i] then
         args.refuse(title, "permutation", ("each number from 1 to %d once"):format(n), channel)
      end
      seen[i] = true
   end
   if n == 0 then return image end
   return image:index_select(-3, torch.tensor(order, {dtype = "int64", device = image.device}))
end

local take_rgb = args.signature(prefix .. "grayscale_to_rgb(inpt: tensor)")

--- Converts images with 1 channel to images with 3 equal channels. Images with 3 or more channels
--- are unchanged.
---
---     local f = torch.vision.transforms.v2.functional
---     print(f.grayscale_to_rgb(torch.zeros(1, 2, 2)).shape)
---     --> torch.Size([3, 2, 2])
---@names vision.transforms.functional.grayscale_to_rgb
---@param inpt Tensor  (..., C, H, W)
---@return Tensor
function M.grayscale_to_rgb(...)
   local title, a = prefix .. "grayscale_to_rgb", take_rgb(...)
   local image = check(title, a.inpt)
   if image:size(-3) >= 3 then return image end
   return functional.rgb_to_grayscale(image, 3)
end

local take_jpeg = args.signature(prefix .. "jpeg(inpt: tensor, quality: integer)")

--- Encodes images as JPEG and decodes them. This needs libturbojpeg.
---@names vision.transforms.functional.jpeg
---@param inpt Tensor  (..., 1 or 3, H, W) uint8
---@param quality integer  the quality from 1 to 100
---@return Tensor
function M.jpeg(...)
   local title, a = prefix .. "jpeg", take_jpeg(...)
   local image = check(title, a.inpt)
   local channels = image:size(-3)
   if image.dtype ~= "uint8" or channels ~= 1 and channels ~= 3 then
      args.refuse(title, "inpt", "uint8 numbers of shape (..., 1 or 3, H, W)", image)
   end
   if a.quality < 1 or a.quality > 100 then
      args.refuse(title, "quality", "an integer from 1 to 100", a.quality)
   end
   if image:numel() == 0 then return image:clone() end
   local results = {}
   local flat = image:reshape(-1, channels, image:size(-2), image:size(-1)):cpu()
   for i = 1, flat:size(1) do
      local bytes = torch.io.encode_jpeg(flat[i]:contiguous(), a.quality)
      results[i] = torch.io.decode_image(bytes)
   end
   return torch.stack(results):view(image.shape):to(image.device)
end

local take_image = args.signature(prefix .. "to_image(inpt: any)")

--- Returns a tensor as a torch.vision.tv_tensors.Image; a tensor (H, W) becomes (1, H, W).
---
---     local f = torch.vision.transforms.v2.functional
---     local image = f.to_image(torch.zeros(4, 6))
---     print(torch.type(image), image.shape)
---     --> vision.tv_tensors.Image	torch.Size([1, 4, 6])
---@param inpt Tensor|vision.tv_tensors.Image  (..., C, H, W) or (H, W)
---@return vision.tv_tensors.Image
function M.to_image(...)
   local value = take_image(...).inpt
   local kind = kinds.of(value)
   if kind ~= "image" then
      args.refuse(prefix .. "to_image", "inpt", "a tensor or an Image", value)
   end
   return torch.is_tensor(value) and tv_tensors.Image(value) or value
end

local function subsample(video, a, title)
   if video:dim() < 4 or video:size(-4) == 0 then
      args.refuse(title, "inpt", "a video of shape (..., T, C, H, W) with frames", video)
   end
   if a.num_samples < 1 then args.refuse(title, "num_samples", "at least 1", a.num_samples) end
   local frames = torch.linspace(0, video:size(-4) - 1, a.num_samples, {device = video.device})
   return video:index_select(-4, frames:long() + 1)
end

--- Selects `num_samples` frames of videos at equal distances from the first to the last.
---
---     local video = torch.arange(0, 5):view(5, 1, 1, 1)
---     local f = torch.vision.transforms.v2.functional
---     print(f.uniform_temporal_subsample(video, 3):flatten())
---     --> tensor([0, 2, 4])
---@names vision.transforms.functional.uniform_temporal_subsample
---@param inpt any  a video (..., T, C, H, W)
---@param num_samples integer
---@return any
kinds.define(M, "uniform_temporal_subsample", "num_samples: integer",
   {image = subsample, video = subsample})

-- Sizes -------------------------------------------------------------------------------------------

-- Returns the tensor of an image or video, or raises an error for other values.
local function image_of(title, value, name)
   local kind = kinds.of(value)
   if kind ~= "image" and kind ~= "video" then
      args.refuse(title, name or "inpt", "an image or a video", value)
   end
   return check(title, torch.is_tensor(value) and value or value.data)
end

-- Returns the height and width of an image, a video or a mask, or of the image to which boxes or
-- keypoints belong.
local function size_of(title, value)
   local kind = kinds.of(value)
   if kind == "boxes" or kind == "keypoints" then return table.unpack(value.canvas_size) end
   local data = kind == "mask" and value.data or image_of(title, value)
   return data:size(-2), data:size(-1)
end

local take_size = args.signature(prefix .. "get_size(inpt: any)")
local take_image_size = args.signature(prefix .. "get_image_size(inpt: any)")

--- Returns the height and width of images, videos and masks, or of the image to which boxes or
--- keypoints belong.
---
---     local f = torch.vision.transforms.v2.functional
---     print(table.unpack(f.get_size(torch.zeros(3, 4, 6))))
---     --> 4	6
---@param inpt any  an image, a video, or another value that has a height and a width
---@return integer[]  height and width
function M.get_size(...)
   return {size_of(prefix .. "get_size", take_size(...).inpt)}
end

local take_dimensions = args.signature(prefix .. "get_dimensions(inpt: any)")

--- Returns the number of channels, the height and the width of images and videos.
---
---     local f = torch.vision.transforms.v2.functional
---     print(table.unpack(f.get_dimensions(torch.zeros(3, 4, 6))))
---     --> 3	4	6
---@param inpt any  an image, a video, or another value that has channels
---@return integer[]
function M.get_dimensions(...)
   local data = image_of(prefix .. "get_dimensions", take_dimensions(...).inpt)
   return {data:size(-3), data:size(-2), data:size(-1)}
end

local take_channels = args.signature(prefix .. "get_num_channels(inpt: any)")

--- Returns the number of channels of images and videos.
---
---     local f = torch.vision.transforms.v2.functional
---     print(f.get_num_channels(torch.zeros(3, 4, 6)))
---     --> 3
---@param inpt any  an image, a video, or another value that has channels
---@return integer
function M.get_num_channels(...)
   return image_of(prefix .. "get_num_channels", take_channels(...).inpt):size(-3)
end

local take_frames = args.signature(prefix .. "get_num_frames(inpt: any)")

--- Returns the number of frames of videos.
---
---     local f = torch.vision.transforms.v2.functional
---     print(f.get_num_frames(torch.zeros(5, 3, 4, 6)))
---     --> 5
---@param inpt any  (..., T, C, H, W)
---@return integer
function M.get_num_frames(...)
   local title, value = prefix .. "get_num_frames", take_frames(...).inpt
   local data = image_of(title, value)
   if data:dim() < 4 then args.refuse(title, "inpt", "a video of shape (..., T, C, H, W)", data) end
   return data:size(-4)
end

kinds.lift(M, "gaussian_noise permute_channels grayscale_to_rgb jpeg")

--- Another name of rgb_to_grayscale.
---@names vision.transforms.functional.to_grayscale
---@param inpt Tensor  (..., 3, H, W), or with 1 channel
---@param num_output_channels? integer  1 by default, or 3
---@return Tensor
M.to_grayscale = functional.rgb_to_grayscale

--- Another name of get_num_channels.
---@names vision.transforms.functional.get_image_num_channels
---@param inpt any  an image, a video, or another value that has channels
---@return integer
M.get_image_num_channels = M.get_num_channels

--- Returns the width and height of images. This is the order of torchvision's first version.
---
---     local f = torch.vision.transforms.functional
---     print(table.unpack(f.get_image_size(torch.zeros(3, 4, 6))))
---     --> 6	4
---@param inpt any  a value as in get_size
---@return integer[]  width and height
function M.get_image_size(...)
   local height, width = size_of(prefix .. "get_image_size", take_image_size(...).inpt)
   return {width, height}
end

local has_channels <const> = {[1] = true, [3] = true, [4] = true}

-- Converts images of uint8 to numbers from 0 to 1, and adds a channel dimension to images (H, W).
local function to_tensor(image, _, title)
   if image:dim() == 2 then image = image:unsqueeze(1) end
   check(title, image)
   if image:size(-3) > 4 and has_channels[image:size(-1)] then
      args.refuse(title, "inpt", "an image of shape (C, H, W), which x:permute(3, 1, 2) makes",
         image)
   end
   return image.dtype == "uint8" and image:to("float32"):true_divide_(255) or image
end

--- Converts images of uint8 to float32 from 0 to 1. Other images stay as they are. An image (H, W)
--- becomes (1, H, W). Images are tensors (C, H, W), as torch.load and the datasets return them;
--- torchvision takes pictures of PIL instead.
---
---     local f = torch.vision.transforms.functional
---     print(f.to_tensor(torch.full({1, 1, 1}, 255, {dtype = "uint8"})))
---     --> tensor([[[1.]]])
---@names vision.transforms.functional.to_tensor
---@param inpt any  an image or a video
---@return any
kinds.define(M, "to_tensor", "", {image = to_tensor})

local modes <const> = {"L", "LA", "RGB", "RGBA"} -- Pillow's names for images with 1 to 4 channels

-- Checks that an image has 1 to 4 channels, and returns it as (C, H, W).
local function picture(title, image)
   local planes = image:dim() == 2 and image:unsqueeze(1) or image
   if planes:dim() ~= 3 or not modes[planes:size(1)] then
      args.refuse(title, "inpt", "an image of 1 to 4 channels (C, H, W), or (H, W)", image)
   end
   return planes
end

local function to_pil_image(image, a, title)
   local planes = picture(title, image)
   local mode = modes[planes:size(1)]
   if a.mode and a.mode ~= mode then
      args.refuse(title, "mode", ("%q for %d channels"):format(mode, planes:size(1)), a.mode)
   end
   if planes:is_floating_point() then return planes:mul(255):to "uint8" end
   if planes.dtype ~= "uint8" then
      args.refuse(title, "inpt", "uint8 or floating numbers", image)
   end
   return planes
end

--- Returns an image as uint8 (C, H, W), which torch.save and vision.io.write_png write: floating
--- numbers from 0 to 1 are multiplied by 255 and cut to integers, as in torchvision. Tensors of
--- uint8 take the place of PIL's images.
---
---     local f = torch.vision.transforms.functional
---     print(f.to_pil_image(torch.full({1, 1, 1}, 0.5)))
---     --> tensor([[[127]]], dtype=torch.uint8)
---@names vision.transforms.functional.to_pil_image
---@param inpt any  an image (C, H, W) or (H, W)
---@param mode? string  "L", "LA", "RGB" or "RGBA", which must fit the number of channels
---@return any
kinds.define(M, "to_pil_image", "mode: string?", {image = to_pil_image})

--- Returns an image as a tensor (C, H, W) without scaling its values. torchvision does so for
--- images of PIL, whose place tensors of uint8 take here.
---
---     local f = torch.vision.transforms.functional
---     print(f.pil_to_tensor(torch.ones(2, 2, {dtype = "uint8"})).shape)
---     --> torch.Size([1, 2, 2])
---@names vision.transforms.functional.pil_to_tensor
---@param inpt any  an image (C, H, W) or (H, W)
---@return any
kinds.define(M, "pil_to_tensor", "", {image = function(image, _, title)
   return picture(title, image)
end})

--- Returns whether a value is a plain tensor and not an object of torch.vision.tv_tensors.
---
---     local f = torch.vision.transforms.v2.functional
---     print(f.is_pure_tensor(torch.zeros(3, 4, 6)))
---     --> true
---@names vision.transforms.functional.is_pure_tensor
---@param inpt any
---@return boolean
M.is_pure_tensor = torch.is_tensor

local take_dtype = args.signature(prefix .. [[convert_image_dtype(image: any,
   dtype: string = 'float32')]])

--- Converts images to another dtype and scales their values to its range, as to_dtype does with
--- `scale`.
---
---     local f = torch.vision.transforms.v2.functional
---     print(f.convert_image_dtype(torch.full({1, 1, 1}, 255, {dtype = "uint8"})))
---     --> tensor([[[1.]]])
---@names vision.transforms.functional.convert_image_dtype
---@param image any  an image or a video
---@param dtype? string  "float32" by default
---@return any
function M.convert_image_dtype(...)
   local a = take_dtype(...)
   image_of(prefix .. "convert_image_dtype", a.image, "image")
   return functional.to_dtype(a.image, a.dtype, true)
end

return M
