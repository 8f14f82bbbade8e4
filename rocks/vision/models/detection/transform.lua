-- transform.lua - makes a batch of images of different sizes for a detector, and scales the
-- detector's results back to the original sizes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local masks = require "tlua.vision.models.detection.masks"

local nn = torch.nn
local F = nn.functional

local M = {}

local take = args.signature [[vision.models.detection.GeneralizedRCNNTransform(min_size: integers,
   max_size: integer, image_mean: numbers, image_std: numbers, size_divisible: integer = 32,
   fixed_size: integers?)]]

--- Prepares a batch. Normalises images by `image_mean` and `image_std`. Resizes them so that the
--- shorter side has `min_size` pixels, unless the longer side would have more than `max_size`. Puts
--- them into a batch whose sides are multiples of `size_divisible`. If `min_size` is a list, one
--- size is drawn in training, and otherwise the last one is used. `fixed_size` {width, height}
--- replaces these sizes. The call takes a list of images and, in training, a list of targets. It
--- returns a table with the batch `tensors` and the images' `sizes`, and the resized targets.
---
---     local detection = torch.vision.models.detection
---     local make = detection.GeneralizedRCNNTransform
---     local transform = make(64, 100, {0, 0, 0}, {1, 1, 1})
---     local batch = transform {torch.zeros(3, 32, 40), torch.zeros(3, 40, 32)}
---     print(table.unpack(batch.tensors.shape))
---     --> 2	3	96	96
---@class vision.models.detection.GeneralizedRCNNTransform: nn.Module
---@field min_size integer[]  the number of pixels of the shorter side
---@field max_size integer  the largest number of pixels of the longer side
---@field image_mean number[]  the numbers that are subtracted from the channels
---@field image_std number[]  the numbers by which the channels are divided
---@field size_divisible integer  a number of which the batch's sides are multiples
---@field fixed_size? integer[]  the images' width and height
---@overload fun(...): nn.Module
local GeneralizedRCNNTransform = class.class("vision.models.detection.GeneralizedRCNNTransform",
   nn.Module)
M.GeneralizedRCNNTransform = GeneralizedRCNNTransform

function GeneralizedRCNNTransform:__init(...)
   for key, value in pairs(take(...)) do self[key] = value end
   if type(self.min_size) == "number" then self.min_size = {self.min_size} end
   if self.fixed_size ~= nil and #self.fixed_size ~= 2 then
      args.refuse("vision.models.detection.GeneralizedRCNNTransform", "fixed_size",
         "a width and a height", self.fixed_size)
   end
end

function GeneralizedRCNNTransform:extra_repr()
   return ("min_size=%s, max_size=%d"):format(table.concat(self.min_size, " "), self.max_size)
end

local function normalized(image, mean, std)
   if #mean ~= image:size(1) then
      torch.raise(("vision.models.detection.GeneralizedRCNNTransform: images: expected %d "
         .. "channels, one for each number of image_mean, got %d"):format(#mean, image:size(1)))
   end
   local options = {dtype = image.dtype, device = image.device}
   return (image - torch.tensor(mean, options):view(-1, 1, 1))
      / torch.tensor(std, options):view(-1, 1, 1)
end

-- Scales boxes or points as their image was scaled, from the size `from` to the size `to`. Their
-- coordinates have the order x, y, x, y, ...
local function scaled(points, from, to)
   local options = {dtype = points.dtype, device = points.device}
   local x, y = to[2] / from[2], to[1] / from[1]
   local factors = {x, y, x, y}
   if points:dim() == 3 then factors = {x, y, 1} end
   return points * torch.tensor(factors, options)
end

-- Resizes an image (C, H, W) and its target.
function GeneralizedRCNNTransform:_resize(image, target)
   local height, width = image:size(2), image:size(3)
   local how = {}
   if self.fixed_size then
      how.size = {self.fixed_size[2], self.fixed_size[1]}
   else
      local which = #self.min_size
      if self.training and which > 1 then which = math.floor(torch.rand(1):item() * which) + 1 end
      how.scale_factor = math.min(self.min_size[which] / math.min(height, width),
         self.max_size / math.max(height, width))
      how.recompute_scale_factor = true
   end
   local function resized(x, mode)
      return F.interpolate(x, {size = how.size, scale_factor = how.scale_factor,
         recompute_scale_factor = how.recompute_scale_factor, mode = mode})
   end
   image = resized(image:unsqueeze(1), "bilinear"):squeeze(1)
   if not target then return image end
   local old, new, copy = {height, width}, {image:size(2), image:size(3)}, {}
   for key, value in pairs(target) do copy[key] = value end
   copy.boxes = scaled(target.boxes, old, new)
   if target.keypoints then copy.keypoints = scaled(target.keypoints, old, new) end
   if target.masks then
      copy.masks = resized(target.masks:unsqueeze(2):float(), "nearest"):select(2, 1):to "uint8"
   end
   return image, copy
end

-- Puts images into one batch, whose sides are multiples of `divisor`. Smaller images are padded
-- with zeros at the right and at the bottom.
local function batch_of(images, divisor)
   local height, width = 0, 0
   for _, image in ipairs(images) do
      height, width = math.max(height, image:size(2)), math.max(width, image:size(3))
   end
   local function up(size) return (size + divisor - 1) // divisor * divisor end
   local batch = images[1]:new_zeros {#images, images[1]:size(1), up(height), up(width)}
   for i, image in ipairs(images) do
      batch[i]:narrow(2, 1, image:size(2)):narrow(3, 1, image:size(3)):copy_(image)
   end
   return batch
end

function GeneralizedRCNNTransform:forward(images, targets)
   local resized, sizes, new = {}, {}, targets and {}
   for i, image in ipairs(images) do
      local target
      image, target = self:_resize(normalized(image, self.image_mean, self.image_std),
         targets and targets[i])
      resized[i], sizes[i] = image, {image:size(2), image:size(3)}
      if new then new[i] = target end
   end
   return {tensors = batch_of(resized, self.size_divisible), sizes = sizes}, new
end

--- Scales detections back to the original sizes of the images.
---@param detections table[]  one for each image
---@param sizes integer[][]  {height, width} of the resized images
---@param originals integer[][]  {height, width} of the original images
---@return table[]  the same tables
function GeneralizedRCNNTransform:postprocess(detections, sizes, originals)
   for i, detection in ipairs(detections) do
      detection.boxes = scaled(detection.boxes, sizes[i], originals[i])
      if detection.masks then
         detection.masks = masks.paste(detection.masks, detection.boxes, originals[i])
      end
      if detection.keypoints then
         detection.keypoints = scaled(detection.keypoints, sizes[i], originals[i])
      end
   end
   return detections
end

return M
