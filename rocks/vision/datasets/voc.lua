-- voc.lua - the datasets of Pascal VOC with boxes (VOCDetection) and with masks (VOCSegmentation).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local files = require "tlua.vision.datasets.files"

local M = {}

local Dataset <const> = files.Dataset

-- XML ---------------------------------------------------------------------------------------------

local entities <const> = {amp = "&", lt = "<", gt = ">", quot = '"', apos = "'"}

local function text_of(text)
   return (text:match "^%s*(.-)%s*$":gsub("&(%a+);", entities))
end

-- Stores the value of a child element in its parent's table. Several children with the same name
-- become a list.
local function add(node, name, value)
   node.counts[name] = (node.counts[name] or 0) + 1
   local n = node.counts[name]
   if n == 2 then node.children[name] = {node.children[name]} end
   if n == 1 then node.children[name] = value else node.children[name][n] = value end
end

local function new_node(name) return {name = name, children = {}, counts = {}, text = ""} end

-- Parses XML elements into nested tables. Attributes are ignored. Returns nil and a message if the
-- ends of elements do not fit their beginnings.
local function parse(source)
   local stack = {new_node()}
   source = source:gsub("<%?.-%?>", ""):gsub("<!%-%-.-%-%->", "")
   local at = 1
   while true do
      local first, last, close, name, empty = source:find("<(/?)([%w_:.-]+)[^>]-(/?)>", at)
      local node = stack[#stack]
      node.text = node.text .. source:sub(at, (first or #source + 1) - 1)
      if not first then break end
      at = last + 1
      if close == "" and empty == "" then
         stack[#stack + 1] = new_node(name)
      elseif close == "" then
         add(node, name, "")
      else
         if node.name ~= name then return nil, ("</%s> does not end <%s>"):format(name,
            tostring(node.name)) end
         stack[#stack] = nil
         local has_children = next(node.children) ~= nil
         local value = has_children and node.children or text_of(node.text)
         if name == "annotation" and has_children and node.counts.object == 1 then
            value.object = {value.object}
         end
         add(stack[#stack], name, value)
      end
   end
   if #stack > 1 then return nil, ("<%s> has no end"):format(stack[#stack].name) end
   return stack[1].children
end

-- Datasets ----------------------------------------------------------------------------------------

-- Sets the field `root` of a dataset, and the fields `images` and `targets`, which are lists of
-- paths.
local function open(self, title, a, sets, folder, ending)
   Dataset.__init(self)
   files.choose(title, "year", a.year, {"2007", "2008", "2009", "2010", "2011", "2012"})
   local names = {"train", "trainval", "val"}
   if a.year == "2007" then names[4] = "test" end
   files.choose(title, "image_set", a.image_set, names)
   self.root, self.year, self.image_set = a.root, a.year, a.image_set
   self.transform, self.target_transform = a.transform, a.target_transform
   self.transforms = a.transforms
   if a.transforms and (a.transform or a.target_transform) then
      torch.raise(title .. ": give transforms, or transform and target_transform")
   end
   local base = ("%s/%sVOCdevkit/VOC%s"):format(a.root, a.year == "2011" and "TrainVal/" or "",
      a.year)
   local list = files.lines(title, ("%s/ImageSets/%s/%s.txt"):format(base, sets, a.image_set))
   self.images, self.targets = {}, {}
   for i, line in ipairs(list) do
      local name = line:match "^%s*(%S+)"
      self.images[i] = ("%s/JPEGImages/%s.jpg"):format(base, name)
      self.targets[i] = ("%s/%s/%s%s"):format(base, folder, name, ending)
   end
end

local parameters <const> = [[(root: string, year: string = '2012', image_set: string = 'train',
   transform: callable?, target_transform: callable?, transforms: callable?)]]
local take_detection = args.signature("vision.datasets.VOCDetection" .. parameters)
local take_segmentation = args.signature("vision.datasets.VOCSegmentation" .. parameters)

--- Images with boxes from Pascal VOC. They are in the folder VOCdevkit/VOC2012 of `root`, or in the
--- corresponding folder if the option `year` names another year, from "2007" to "2012". `image_set`
--- is "train", "trainval", "val" or, for 2007, "test". An item is an image (3, H, W) uint8 and the
--- annotation's XML as nested tables of strings: `target.annotation.object` is the list of objects.
--- `transforms` is called with both values of an item, `transform` with the image,
--- `target_transform` with the target.
---
---     local VOC = torch.vision.datasets.VOCDetection
---     local message = select(2, pcall(VOC, "nowhere"))
---     print(message:match "VOC2012/ImageSets/Main/train.txt")
---     --> VOC2012/ImageSets/Main/train.txt
---@class vision.datasets.VOCDetection: data.Dataset
---@field root string  the folder
---@field year string  the year of the challenge
---@field image_set string  the part of the dataset
---@field images string[]  the paths of the images
---@field targets string[]  the paths of the annotations
---@overload fun(root: string, options?: table): data.Dataset
local VOCDetection = class.class("vision.datasets.VOCDetection", Dataset)
M.VOCDetection = VOCDetection

function VOCDetection:__init(...)
   open(self, "vision.datasets.VOCDetection", take_detection(...), "Main", "Annotations", ".xml")
end

function VOCDetection:__len() return #self.images end

function VOCDetection:load(i)
   local title, path = "vision.datasets.VOCDetection", self.targets[i]
   local target, message = parse(files.read(title, path))
   if not target or type(target.annotation) ~= "table" then
      files.fail(title, path, "%s", message or "expected an element <annotation>")
   end
   target.annotation.object = target.annotation.object or {}
   return files.image(self.images[i]), target
end

--- Images with masks of Pascal VOC. `year`, `image_set`, `transform`, `target_transform` and
--- `transforms` are as in VOCDetection. An item is an image (3, H, W) uint8 and a mask (H, W)
--- uint8. As in torchvision, the mask has the numbers of the file's palette: 0 for the background,
--- 1 to 20 for classes, 255 for borders.
---
---     local VOC = torch.vision.datasets.VOCSegmentation
---     local message = select(2, pcall(VOC, "nowhere"))
---     print(message:match "ImageSets/Segmentation/train.txt")
---     --> ImageSets/Segmentation/train.txt
---@class vision.datasets.VOCSegmentation: data.Dataset
---@field root string  the folder
---@field year string  the year of the challenge
---@field image_set string  the part of the dataset
---@field images string[]  the paths of the images
---@field targets string[]  the paths of the masks
---@overload fun(root: string, options?: table): data.Dataset
local VOCSegmentation = class.class("vision.datasets.VOCSegmentation", Dataset)
M.VOCSegmentation = VOCSegmentation

function VOCSegmentation:__init(...)
   open(self, "vision.datasets.VOCSegmentation", take_segmentation(...), "Segmentation",
      "SegmentationClass", ".png")
end

function VOCSegmentation:__len() return #self.images end

-- Converts colours (3, H, W) to their numbers in VOC's palette. Bits 0, 1 and 2 of a number are the
-- highest bits of red, green and blue. Bits 3, 4 and 5 are the second-highest bits, and bits 6 and
-- 7 are the third-highest bits of red and green.
local function numbers_of(title, path, colours)
   local image = colours:int()
   local number = torch.zeros(image:size(2), image:size(3), {dtype = "int32"})
   local rest = image:clone()
   for bit = 0, 2 do
      for channel = 1, 3 do
         local shift = 3 * bit + channel - 1
         if shift < 8 then
            local set = image[channel]:bitwise_right_shift(7 - bit):bitwise_and(1)
            number:add_(set:bitwise_left_shift(shift))
            rest[channel]:sub_(set:bitwise_left_shift(7 - bit))
         end
      end
   end
   if rest:ne(0):any():item() then
      files.fail(title, path, "it has colours that are not in VOC's palette")
   end
   return number:to "uint8"
end

function VOCSegmentation:load(i)
   local title, path = "vision.datasets.VOCSegmentation", self.targets[i]
   local mask = torch.load(path)
   mask = mask:size(1) >= 3 and numbers_of(title, path, mask:narrow(1, 1, 3)) or mask[1]
   return files.image(self.images[i]), mask
end

return M
