-- folders.lua - datasets of image files with lists of labels: ImageNet, CelebA, Caltech101,
-- Flowers102 and OxfordIIITPet.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local files = require "tlua.vision.datasets.files"
local mat = require "tlua.vision.datasets.mat"

local M = {}

local Dataset <const> = files.Dataset

local function as_list(value) return type(value) == "string" and {value} or value end

-- Raises an error if a type of target is not among `names`. Returns the types as a list.
local function types_of(title, value, names)
   local list = as_list(value)
   for _, name in ipairs(list) do files.choose(title, "target_type", name, names) end
   return list
end

local function keep(self, a)
   self.root, self.transform, self.target_transform = a.root, a.transform, a.target_transform
end

-- Returns the array `name` of a MATLAB file.
local function array_of(title, path, name)
   local arrays, message = mat.read(files.read(title, path))
   if not arrays then files.fail(title, path, "%s", message) end
   if not arrays[name] then files.fail(title, path, "it has no array %s", name) end
   return arrays[name]
end

-- ImageNet ----------------------------------------------------------------------------------------

local take_imagenet = args.signature [[vision.datasets.ImageNet(root: string,
   split: string = 'train', transform: callable?, target_transform: callable?)]]

--- ImageNet as torchvision unpacks it. In `root` are the folders train and val, in which each class
--- has a folder, and the file meta.bin with the names of the classes. Without this file, the names
--- are WordNet identifiers. `split` is "train" or "val". An item is an image (3, H, W) uint8 and
--- its class. `transform` and `target_transform` are called with the two values of an item.
---
---     torch.io.make_folder "val/n01440764"
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, "val/n01440764/a.png")
---     local set = torch.vision.datasets.ImageNet(".", "val")
---     print(#set, set.wnids[1])
---     --> 1	n01440764
---@class vision.datasets.ImageNet: data.Dataset
---@field root string  the folder
---@field split string  "train" or "val"
---@field wnids string[]  the classes' WordNet identifiers
---@field classes any[]  the names of the classes, a list for each
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local ImageNet = class.class("vision.datasets.ImageNet", Dataset)
M.ImageNet = ImageNet

function ImageNet:__init(...)
   local title, a = "vision.datasets.ImageNet", take_imagenet(...)
   Dataset.__init(self)
   files.choose(title, "split", a.split, {"train", "val"})
   keep(self, a)
   self.split = a.split
   local folder = torch.data.ImageFolder(("%s/%s"):format(a.root, a.split))
   self.wnids, self.samples, self.classes = folder.classes, folder.samples, {}
   local path, names = a.root .. "/meta.bin", {}
   if files.exists(path) then
      local meta = torch.load(path)
      if type(meta) ~= "table" or type(meta[1]) ~= "table" then
         files.fail(title, path, "expected a pair: the classes' names, and a list of identifiers")
      end
      names = meta[1]
   end
   for i, wnid in ipairs(self.wnids) do self.classes[i] = names[wnid] or {wnid} end
end

function ImageNet:__len() return #self.samples end

function ImageNet:load(i)
   local path, label = table.unpack(self.samples[i])
   return files.image(path), label
end

-- CelebA ------------------------------------------------------------------------------------------

local take_celeba = args.signature [[vision.datasets.CelebA(root: string, split: string = 'train',
   target_type: string|names = 'attr', transform: callable?, target_transform: callable?)]]

-- Reads one of CelebA's lists. Returns a table that maps the name of an image file to its row of
-- integers, and the names of the columns if the list has a header.
local function celeba_list(title, path, columns, has_header)
   local lines, rows, names = files.lines(title, path), {}, nil
   local first = 1
   if has_header then
      first, names = 3, {}
      for name in (lines[2] or ""):gmatch "%S+" do names[#names + 1] = name end
   end
   for i = first, #lines do
      local values, name = {}, nil
      for word in lines[i]:gmatch "%S+" do
         if not name then name = word else values[#values + 1] = math.tointeger(tonumber(word)) end
      end
      if not name or #values ~= columns then
         files.fail(title, path, "line %d: expected a name and %d integers, got %q", i, columns,
            lines[i])
      end
      rows[name] = values
   end
   return rows, names
end

local splits <const> = {train = 0, valid = 1, test = 2}

--- Faces of celebrities. The folder celeba of `root` contains the folder img_align_celeba and the
--- lists. `split` is "train", "valid", "test" or "all". An item is an image (3, H, W) uint8 and a
--- target, or a list of targets for a list of `target_type`: "attr", 40 attributes 0 or 1;
--- "identity", from 1; "bbox", x, y, width and height; "landmarks", 5 pairs of x and y. `transform`
--- and `target_transform` are called with the two values of an item.
---
---     local CelebA = torch.vision.datasets.CelebA
---     local message = select(2, pcall(CelebA, "nowhere"))
---     print(message:match "celeba/list_eval_partition.txt")
---     --> celeba/list_eval_partition.txt
---@class vision.datasets.CelebA: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field target_type string[]  the kinds of targets
---@field filename string[]  the images' names
---@field attr_names string[]  the attributes' names, if they are targets
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local CelebA = class.class("vision.datasets.CelebA", Dataset)
M.CelebA = CelebA

function CelebA:__init(...)
   local title, a = "vision.datasets.CelebA", take_celeba(...)
   Dataset.__init(self)
   files.choose(title, "split", a.split, {"train", "valid", "test", "all"})
   keep(self, a)
   self.split = a.split
   self.target_type = types_of(title, a.target_type, {"attr", "identity", "bbox", "landmarks"})
   local base = a.root .. "/celeba/"
   local parts = celeba_list(title, base .. "list_eval_partition.txt", 1, false)
   self.filename = {}
   for name, part in pairs(parts) do
      if a.split == "all" or part[1] == splits[a.split] then
         self.filename[#self.filename + 1] = name
      end
   end
   table.sort(self.filename)
   local sources = {attr = {"list_attr_celeba.txt", 40, true},
      identity = {"identity_CelebA.txt", 1, false}, bbox = {"list_bbox_celeba.txt", 4, true},
      landmarks = {"list_landmarks_align_celeba.txt", 10, true}}
   local rows = {}
   for _, kind in ipairs(self.target_type) do
      local path = base .. sources[kind][1]
      local list, names = celeba_list(title, path, sources[kind][2], sources[kind][3])
      for _, name in ipairs(self.filename) do
         if not list[name] then files.fail(title, path, "it has no line for %s", name) end
      end
      rows[kind] = list
      if kind == "attr" then self.attr_names = names end
   end
   rawset(self, "_rows", rows)
end

function CelebA:__len() return #self.filename end

function CelebA:load(i)
   local name = self.filename[i]
   local of = {}
   for _, kind in ipairs(self.target_type) do
      of[kind] = function()
         local values = self._rows[kind][name]
         if kind == "identity" then return values[1] end
         local row = torch.tensor(values, {dtype = "int64"})
         return kind == "attr" and (row + 1):div(2, {rounding_mode = "floor"}) or row
      end
   end
   local image = files.image(("%s/celeba/img_align_celeba/%s"):format(self.root, name))
   return image, files.targets(of, self.target_type, i)
end

-- Caltech 101 -------------------------------------------------------------------------------------

local take_caltech = args.signature [[vision.datasets.Caltech101(root: string,
   target_type: string|names = 'category', transform: callable?, target_transform: callable?)]]

local annotation_folders <const> = {Faces = "Faces_2", Faces_easy = "Faces_3",
   Motorbikes = "Motorbikes_16", airplanes = "Airplanes_Side_2"}

--- Images in 101 categories. The folder caltech101 of `root` contains the folder
--- 101_ObjectCategories and, for contours, Annotations. An item is an image (3, H, W) uint8 and a
--- target, or a list of targets for a list of `target_type`: "category", from 1; "annotation", a
--- contour (2, n). `transform` and `target_transform` are called with the two values of an item.
---
---     local folder = "caltech101/101_ObjectCategories/"
---     for _, name in ipairs {"BACKGROUND_Google", "ant"} do
---        torch.io.make_folder(folder .. name)
---        local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---        torch.save(image, folder .. name .. "/image_0001.jpg")
---     end
---     local set = torch.vision.datasets.Caltech101 "."
---     print(#set, set.categories[1])
---     --> 1	ant
---@class vision.datasets.Caltech101: data.Dataset
---@field root string  the folder
---@field categories string[]  the names of the categories
---@field target_type string[]  the kinds of targets
---@overload fun(root: string, target_type?: string|string[], options?: table): data.Dataset
local Caltech101 = class.class("vision.datasets.Caltech101", Dataset)
M.Caltech101 = Caltech101

function Caltech101:__init(...)
   local title, a = "vision.datasets.Caltech101", take_caltech(...)
   Dataset.__init(self)
   keep(self, a)
   self.target_type = types_of(title, a.target_type, {"category", "annotation"})
   local base = a.root .. "/caltech101/101_ObjectCategories"
   self.categories = {}
   local samples = {}
   for _, name in ipairs((files.list(title, base))) do
      if name ~= "BACKGROUND_Google" then
         self.categories[#self.categories + 1] = name
         local _, images = files.list(title, base .. "/" .. name)
         for _, image in ipairs(images) do
            local number = image:match "^image_(%d+)%.jpg$"
            if number then samples[#samples + 1] = {#self.categories, number} end
         end
      end
   end
   if #samples == 0 then files.fail(title, base, "expected folders with images, got none") end
   rawset(self, "_samples", samples)
end

function Caltech101:__len() return #self._samples end

function Caltech101:load(i)
   local title, base = "vision.datasets.Caltech101", self.root .. "/caltech101"
   local label, number = table.unpack(self._samples[i])
   local name = self.categories[label]
   local of = {}
   function of.category() return label end
   function of.annotation()
      local path = ("%s/Annotations/%s/annotation_%s.mat"):format(base,
         annotation_folders[name] or name, number)
      return array_of(title, path, "obj_contour")
   end
   local image = files.image(("%s/101_ObjectCategories/%s/image_%s.jpg"):format(base, name, number))
   return image, files.targets(of, self.target_type, i)
end

-- Flowers -----------------------------------------------------------------------------------------

local take_flowers = args.signature [[vision.datasets.Flowers102(root: string,
   split: string = 'train', transform: callable?, target_transform: callable?)]]

--- Flowers in 102 classes. The folder flowers-102 of `root` contains the folder jpg and the files
--- imagelabels.mat and setid.mat. `split` is "train", "val" or "test". An item is an image (3, H,
--- W) uint8 and its class. `transform` and `target_transform` are called with the two values of an
--- item.
---
---     local Flowers102 = torch.vision.datasets.Flowers102
---     local message = select(2, pcall(Flowers102, "nowhere"))
---     print(message:match "flowers%-102/setid.mat")
---     --> flowers-102/setid.mat
---@class vision.datasets.Flowers102: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local Flowers102 = class.class("vision.datasets.Flowers102", Dataset)
M.Flowers102 = Flowers102

function Flowers102:__init(...)
   local title, a = "vision.datasets.Flowers102", take_flowers(...)
   Dataset.__init(self)
   local keys = {train = "trnid", val = "valid", test = "tstid"}
   files.choose(title, "split", a.split, {"train", "val", "test"})
   keep(self, a)
   self.split = a.split
   local base = a.root .. "/flowers-102/"
   local ids = array_of(title, base .. "setid.mat", keys[a.split]):flatten():tolist()
   local labels = array_of(title, base .. "imagelabels.mat", "labels"):flatten():tolist()
   self.samples = {}
   for i, id in ipairs(ids) do
      id = math.tointeger(id)
      local label = id and math.tointeger(labels[id])
      if not label or label < 1 then
         files.fail(title, base .. "imagelabels.mat", "it has no label for image %s",
            tostring(ids[i]))
      end
      self.samples[i] = {("%sjpg/image_%05d.jpg"):format(base, id), label}
   end
end

function Flowers102:__len() return #self.samples end

function Flowers102:load(i)
   local path, label = table.unpack(self.samples[i])
   return files.image(path), label
end

-- Pets --------------------------------------------------------------------------------------------

local take_pets = args.signature [[vision.datasets.OxfordIIITPet(root: string,
   split: string = 'trainval', target_types: string|names = 'category', transform: callable?,
   target_transform: callable?, transforms: callable?)]]

--- Cats and dogs of 37 breeds. The folder oxford-iiit-pet of `root` contains the folders images and
--- annotations. `split` is "trainval" or "test". An item is an image (3, H, W) uint8 and a target,
--- or a list of targets for a list of `target_types`: "category", the breed from 1;
--- "binary-category", 1 for a cat, 2 for a dog; "segmentation", (H, W) with 1 for the pet, 2 for
--- the background, 3 for the border. `transforms` is called with both values of an item,
--- `transform` with the image, `target_transform` with the target.
---
---     local folder = "oxford-iiit-pet/annotations"
---     torch.io.make_folder(folder)
---     local file = assert(io.open(folder .. "/trainval.txt", "w"))
---     file:write("Abyssinian_100 1 1 1\n"):close()
---     local set = torch.vision.datasets.OxfordIIITPet "."
---     print(#set, set.classes[1])
---     --> 1	Abyssinian
---@class vision.datasets.OxfordIIITPet: data.Dataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field target_types string[]  the kinds of targets
---@field classes string[]  the names of the breeds
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local OxfordIIITPet = class.class("vision.datasets.OxfordIIITPet", Dataset)
M.OxfordIIITPet = OxfordIIITPet

function OxfordIIITPet:__init(...)
   local title, a = "vision.datasets.OxfordIIITPet", take_pets(...)
   Dataset.__init(self)
   files.choose(title, "split", a.split, {"trainval", "test"})
   keep(self, a)
   self.split, self.transforms = a.split, a.transforms
   self.target_types = as_list(a.target_types)
   for _, name in ipairs(self.target_types) do
      files.choose(title, "target_types", name, {"category", "binary-category", "segmentation"})
   end
   local path = ("%s/oxford-iiit-pet/annotations/%s.txt"):format(a.root, a.split)
   local samples, names, most = {}, {}, 0
   for i, line in ipairs(files.lines(title, path)) do
      if line:sub(1, 1) ~= "#" then
         local image, label, kind = line:match "^(%S+) (%d+) (%d+) %d+"
         if not image then
            files.fail(title, path, "line %d: expected a name and three integers, got %q", i, line)
         end
         label, kind = math.tointeger(tonumber(label)), math.tointeger(tonumber(kind))
         samples[#samples + 1] = {image, label, kind}
         names[label], most = image:match "^(.*)_%d+$" or image, math.max(most, label)
      end
   end
   self.classes = {}
   for label = 1, most do
      local words = (names[label] or "?"):gsub("_", " "):gsub("%f[%a]%a", string.upper)
      self.classes[label] = words
   end
   rawset(self, "_samples", samples)
end

function OxfordIIITPet:__len() return #self._samples end

function OxfordIIITPet:load(i)
   local base = self.root .. "/oxford-iiit-pet"
   local name, label, kind = table.unpack(self._samples[i])
   local of = {
      category = function() return label end, ["binary-category"] = function() return kind end,
      segmentation = function()
         return torch.load(("%s/annotations/trimaps/%s.png"):format(base, name))[1]
      end,
   }
   local image = files.image(("%s/images/%s.jpg"):format(base, name))
   return image, files.targets(of, self.target_types, i)
end

return M
