-- ImageFolder.lua - a dataset of images in folders named after their classes. Modelled on
-- torchvision.datasets.ImageFolder.

local args = require "tlua.args"
local class = require "tlua.class"
local DatasetFolder = require "tlua.data.DatasetFolder"

local signature = args.signature [[data.ImageFolder(root: string, transform: callable?,
   target_transform: callable?, loader: callable?, is_valid_file: callable?,
   allow_empty: boolean = false)]]

local extensions <const> = {".jpg", ".jpeg", ".png", ".webp"}

-- Loads an image with three channels: a gray channel is repeated, and an opacity channel is
-- dropped.
local function load_rgb(path)
   local image = require "tlua".load(path)
   local channels = image:size(1)
   if channels == 4 or channels == 2 then image = image:narrow(1, 1, channels - 1) end
   return (image:size(1) == 1 and image:expand(3, -1, -1) or image):contiguous()
end

---     local image = torch.zeros(3, 2, 2, {dtype = "uint8"})
---     for _, class in ipairs {"cat", "dog"} do
---        torch.io.make_folder("pictures/" .. class)
---        torch.save(image, "pictures/" .. class .. "/a.png")
---     end
---     local set = torch.data.ImageFolder "pictures"
---     local picture, class = set:get(2)
---     print(picture.shape, set.classes[class])
---     --> torch.Size([3, 2, 2])	dog
---@class data.ImageFolder: data.DatasetFolder
---@overload fun(root: string, options?: table): data.ImageFolder
local ImageFolder, parent = class.class("data.ImageFolder", DatasetFolder)

--- Makes the dataset. An item consists of an image and its class. The image is a uint8 tensor (3,
--- height, width) unless `loader` or `transform` make something else; the class is an integer,
--- counted from 1. The fields `samples`, `classes` and `class_to_idx` describe the dataset. PNG,
--- JPEG and WebP files are read. Options: transform, target_transform, loader(path),
--- is_valid_file(path), allow_empty.
---@param root string
---@param options? table
function ImageFolder:__init(...)
   local a = signature(...)
   local valid = a.is_valid_file
   parent.__init(self, a.root, a.loader or load_rgb, {extensions = not valid and extensions or nil,
      is_valid_file = valid, transform = a.transform, target_transform = a.target_transform,
      allow_empty = a.allow_empty})
   self.imgs = self.samples
end

return ImageFolder
