-- listed.lua - datasets of image files with one class each, whose samples are folders or lines of
-- text files: EuroSAT, Country211, RenderedSST2, Food101, DTD and FGVCAircraft.

local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"

local files = require "tlua.vision.datasets.files"

local M = {}

local Dataset <const> = files.Dataset

-- Fills a class as files.fill does, and adds it to this module.
local function fill(Class, parameters, choices, list)
   M[Class.__name:match "[^.]+$"] = Class
   files.fill(Class, parameters, choices, list)
end

-- Returns a map from names to their positions.
local function positions(names)
   local map = {}
   for i, name in ipairs(names) do map[name] = i end
   return map
end

--- Satellite images of 10 kinds of land use, in the folder eurosat/2750 of `root`. An item is an
--- image (3, H, W) uint8 and its class. `transform` and `target_transform` are called with the two
--- values of an item.
---
---     torch.io.make_folder "eurosat/2750/Forest"
---     local image = torch.zeros(3, 64, 64, {dtype = "uint8"})
---     torch.save(image, "eurosat/2750/Forest/Forest_1.jpg")
---     local set = torch.vision.datasets.EuroSAT "."
---     print(#set, set.classes[1])
---     --> 1	Forest
---@class vision.datasets.EuroSAT: data.Dataset
---@field root string  the folder
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, options?: table): data.Dataset
local EuroSAT = class.class("vision.datasets.EuroSAT", Dataset)

fill(EuroSAT, "", {}, function(title, a)
   return files.in_folders(title, a.root .. "/eurosat/2750")
end)

--- Photographs from 211 countries, in the folder country211 of `root`. `split` is "train", "valid"
--- or "test". Items, `transform` and `target_transform` are as in EuroSAT.
---
---     torch.io.make_folder "country211/test/AD"
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, "country211/test/AD/1.jpg")
---     local set = torch.vision.datasets.Country211(".", "test")
---     print(#set, set.classes[1])
---     --> 1	AD
---@class vision.datasets.Country211: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local Country211 = class.class("vision.datasets.Country211", Dataset)

fill(Country211, "split: string = 'train', ", {split = {"train", "valid", "test"}},
   function(title, a)
      return files.in_folders(title, ("%s/country211/%s"):format(a.root, a.split))
   end)

--- Pictures of sentences from film reviews, in the folder rendered-sst2 of `root`. `split` is
--- "train", "val" or "test". The classes are negative and positive. Items, `transform` and
--- `target_transform` are as in EuroSAT.
---
---     torch.io.make_folder "rendered-sst2/dev/negative"
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, "rendered-sst2/dev/negative/1.png")
---     local set = torch.vision.datasets.RenderedSST2(".", "val")
---     print(#set, set.classes[1])
---     --> 1	negative
---@class vision.datasets.RenderedSST2: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local RenderedSST2 = class.class("vision.datasets.RenderedSST2", Dataset)

fill(RenderedSST2, "split: string = 'train', ", {split = {"train", "val", "test"}},
   function(title, a)
      local folder = a.split == "val" and "dev" or a.split
      return files.in_folders(title, ("%s/rendered-sst2/%s"):format(a.root, folder))
   end)

--- Photographs of 101 dishes, in the folder food-101 of `root`. `split` is "train" or "test".
--- Items, `transform` and `target_transform` are as in EuroSAT. The items are in the order of the
--- classes; torchvision's are in the order of the file.
---
---     local Food101 = torch.vision.datasets.Food101
---     local message = select(2, pcall(Food101, "nowhere"))
---     print(message:match "food%-101/meta/train.json")
---     --> food-101/meta/train.json
---@class vision.datasets.Food101: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local Food101 = class.class("vision.datasets.Food101", Dataset)

fill(Food101, "split: string = 'train', ", {split = {"train", "test"}}, function(title, a)
   local base = a.root .. "/food-101/"
   local path = ("%smeta/%s.json"):format(base, a.split)
   local ok, content = pcall(json.decode, files.read(title, path))
   if not ok or type(content) ~= "table" then
      files.fail(title, path, "expected an object with a list of images for each class")
   end
   local classes, samples = {}, {}
   for name in pairs(content) do classes[#classes + 1] = name end
   table.sort(classes)
   for label, name in ipairs(classes) do
      if type(name) ~= "string" or type(content[name]) ~= "table" then
         files.fail(title, path, "expected a list of images for %s", tostring(name))
      end
      for _, image in ipairs(content[name]) do
         if type(image) ~= "string" then
            files.fail(title, path, "%s: expected names of images, got %s", name, tostring(image))
         end
         samples[#samples + 1] = {("%simages/%s.jpg"):format(base, image), label}
      end
   end
   return samples, classes
end)

--- Textures of 47 kinds, in the folder dtd/dtd of `root`. `split` is "train", "val" or "test", and
--- `partition` one of the ten ways to divide the images, 1 by default. Items, `transform` and
--- `target_transform` are as in EuroSAT.
---
---     torch.io.make_folder "dtd/dtd/labels"
---     local file = assert(io.open("dtd/dtd/labels/val1.txt", "w"))
---     file:write("banded/banded_0002.jpg\n"):close()
---     local set = torch.vision.datasets.DTD(".", "val")
---     print(#set, set.classes[1])
---     --> 1	banded
---@class vision.datasets.DTD: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field partition integer  the way in which the images are divided
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, partition?: integer, options?: table): data.Dataset
local DTD = class.class("vision.datasets.DTD", Dataset)

fill(DTD, "split: string = 'train', partition: integer = 1, ",
   {split = {"train", "val", "test"}}, function(title, a)
      if a.partition < 1 or a.partition > 10 then
         args.refuse(title, "partition", "an integer from 1 to 10", a.partition)
      end
      local base = a.root .. "/dtd/dtd/"
      local path = ("%slabels/%s%d.txt"):format(base, a.split, a.partition)
      local lines, classes, seen, samples = files.lines(title, path), {}, {}, {}
      for i, line in ipairs(lines) do
         local name = line:match "^([^/]+)/[^/]+$"
         if not name then
            files.fail(title, path, "line %d: expected a class and an image, got %q", i, line)
         end
         if not seen[name] then classes[#classes + 1], seen[name] = name, true end
      end
      table.sort(classes)
      local labels = positions(classes)
      for i, line in ipairs(lines) do
         samples[i] = {base .. "images/" .. line, labels[line:match "^[^/]+"]}
      end
      return samples, classes
   end)

local levels <const> = {variant = "variants", family = "families", manufacturer = "manufacturers"}

--- Aircraft, in the folder fgvc-aircraft-2013b of `root`. `split` is "train", "val", "trainval" or
--- "test", and `annotation_level` is "variant", "family" or "manufacturer". Items, `transform` and
--- `target_transform` are as in EuroSAT.
---
---     local FGVCAircraft = torch.vision.datasets.FGVCAircraft
---     local message = select(2, pcall(FGVCAircraft, "nowhere"))
---     print(message:match "data/variants.txt")
---     --> data/variants.txt
---@class vision.datasets.FGVCAircraft: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field annotation_level string  the kind of classes
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, level?: string, options?: table): data.Dataset
local FGVCAircraft = class.class("vision.datasets.FGVCAircraft", Dataset)

fill(FGVCAircraft, "split: string = 'trainval', annotation_level: string = 'variant', ", {
   split = {"train", "val", "trainval", "test"},
   annotation_level = {"variant", "family", "manufacturer"},
}, function(title, a)
   local base = a.root .. "/fgvc-aircraft-2013b/data/"
   local classes = files.lines(title, ("%s%s.txt"):format(base, levels[a.annotation_level]))
   for i, name in ipairs(classes) do classes[i] = name:match "^%s*(.-)%s*$" end
   local path = ("%simages_%s_%s.txt"):format(base, a.annotation_level, a.split)
   local labels, samples = positions(classes), {}
   for i, line in ipairs(files.lines(title, path)) do
      local image, name = line:match "^%s*(%S+) (.-)%s*$"
      if not labels[name] then
         files.fail(title, path, "line %d: expected an image and a class, got %q", i, line)
      end
      samples[i] = {("%simages/%s.jpg"):format(base, image), labels[name]}
   end
   return samples, classes
end)

return M
