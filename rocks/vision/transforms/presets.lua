-- presets.lua - the transforms that prepare images for torchvision's weights. A weights' field
-- `transforms` makes one.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local functional = require "tlua.vision.transforms.functional"

local M = {}

local imagenet <const> = {mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225}}
local kinetics <const> = {mean = {0.43216, 0.394666, 0.37645}, std = {0.22803, 0.22145, 0.216989}}
local halves <const> = {mean = {0.5, 0.5, 0.5}, std = {0.5, 0.5, 0.5}}

local function text_of(list) return "[" .. table.concat(list, ", ") .. "]" end

-- Defines a class whose objects have the options as fields. An option without a value has the value
-- of `defaults`.
local function preset(name, parameters, defaults)
   local Class = class.class("vision.transforms." .. name, torch.nn.Module)
   local take = args.signature(("vision.transforms.%s(%s)"):format(name, parameters))

   function Class:__init(options)
      for key, value in pairs(take(options or {})) do
         self[key] = key:find "_size$" and type(value) == "number" and {value} or value
      end
      for key, value in pairs(defaults) do
         if self[key] == nil then self[key] = value end
      end
   end

   function Class:extra_repr()
      local parts = {}
      for _, key in ipairs {"crop_size", "resize_size", "mean", "std", "interpolation"} do
         local value = self[key]
         if value ~= nil then
            parts[#parts + 1] = key .. "=" .. (type(value) == "table" and text_of(value) or value)
         end
      end
      return table.concat(parts, ", ")
   end

   M[name] = Class
   return Class
end

-- Resizes an image. As in torchvision, images of uint8 are resized in float32 and then rounded,
-- whereas functional.resize computes in integers.
local function resize(self, image, antialias)
   local is_uint8 = image.dtype == "uint8"
   local resized = functional.resize(is_uint8 and image:float() or image, self.resize_size,
      {interpolation = self.interpolation, antialias = antialias})
   return is_uint8 and resized:clamp(0, 255):round():to "uint8" or resized
end

-- Resizes an image, cuts out its centre, scales it to the interval from 0 to 1, and normalises it.
-- A step is left out if its option was not given.
local function prepare(self, image, antialias)
   if not torch.is_tensor(image) then
      args.refuse(torch.type(self), "image", "a tensor (..., C, H, W)", image)
   end
   if self.resize_size then image = resize(self, image, antialias) end
   if self.crop_size then image = functional.center_crop(image, self.crop_size) end
   image = functional.to_dtype(image, "float32", true)
   return self.mean and functional.normalize(image, self.mean, self.std) or image
end

local sizes <const> = [[resize_size: integers?, mean: numbers?, std: numbers?,
   interpolation: string = 'bilinear']]

local Classification = preset("ImageClassification",
   "crop_size: integers, antialias: boolean = true, " .. sizes,
   {resize_size = {256}, mean = imagenet.mean, std = imagenet.std})
function Classification:forward(image) return prepare(self, image, self.antialias) end

local Segmentation = preset("SemanticSegmentation", "antialias: boolean = true, " .. sizes,
   imagenet)
function Segmentation:forward(image) return prepare(self, image, self.antialias) end

local Detection = preset("ObjectDetection", "", {})
Detection.forward = prepare

-- Takes videos (..., T, C, H, W). Returns them as (..., C, T, H, W).
local Video = preset("VideoClassification", "crop_size: integers, " .. sizes, kinetics)
function Video:forward(video) return prepare(self, video, false):transpose(-4, -3) end

-- Takes two images, and returns both with values from -1 to 1.
local Flow = preset("OpticalFlow", "", halves)
function Flow:forward(image1, image2) return prepare(self, image1), prepare(self, image2) end

return M
