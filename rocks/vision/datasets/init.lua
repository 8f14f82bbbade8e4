-- init.lua - torch.vision.datasets: datasets of images, which are read from the same files as
-- torchvision's. Nothing is downloaded; the files must already be in the folder. Classes count from
-- 1.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"

local files = require "tlua.vision.datasets.files"

local M = {}

local Dataset <const> = files.Dataset

M.VisionDataset = files.Dataset
M.ImageFolder, M.DatasetFolder = torch.data.ImageFolder, torch.data.DatasetFolder

local read <const> = files.read

-- MNIST and its relatives -------------------------------------------------------------------------

-- The pages that have the files of datasets.
local pages <const> = {
   ["vision.datasets.MNIST"] = "https://ossci-datasets.s3.amazonaws.com/mnist",
   ["vision.datasets.FashionMNIST"] = "https://github.com/zalandoresearch/fashion-mnist",
   ["vision.datasets.KMNIST"] = "https://github.com/rois-codh/kmnist",
}

-- Returns the path of a file or, if it does not exist, of its compressed form.
local function find(title, path)
   for _, ending in ipairs {"", ".gz"} do
      local file = io.open(path .. ending, "rb")
      if file then
         file:close()
         return path .. ending
      end
   end
   torch.raise(("%s: there is no file %s, with or without .gz%s"):format(title, path,
      pages[title] and "; nothing is downloaded: get the files from " .. pages[title] or ""))
end

local digits <const> = {"0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five",
   "6 - six", "7 - seven", "8 - eight", "9 - nine"}
local clothes <const> = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
   "Sneaker", "Bag", "Ankle boot"}
local kana <const> = {"o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"}

-- Reads the images and the labels of a dataset from its IDX files.
local function read_idx(self, title, prefix)
   self.data = torch.load(find(title, prefix .. "images-idx3-ubyte"))
   self.targets = torch.load(find(title, prefix .. "labels-idx1-ubyte")):long() + 1
   if self.data:dim() ~= 3 or self.targets:dim() ~= 1
         or self.data:size(1) ~= self.targets:size(1) then
      torch.raise(("%s: %s: expected as many images as labels, got images of shape %s and "
         .. "labels of shape %s"):format(title, prefix, self.data.shape, self.targets.shape))
   end
   local classes = #self.classes
   local largest = self.targets:numel() > 0 and self.targets:max():item() or 1
   if largest > classes then
      torch.raise(("%s: %slabels-idx1-ubyte: expected labels from 0 to %d, got %d"):format(title,
         prefix, classes - 1, largest - 1))
   end
end

-- Defines the methods of a dataset class whose images and labels are in IDX files.
local function define_idx(Class, name, classes)
   local title = "vision.datasets." .. name
   local take = args.signature(title .. [[(root: string, train: boolean = true,
      transform: callable?, target_transform: callable?, download: boolean = false)]])

   function Class:__init(...)
      Dataset.__init(self)
      local a = take(...)
      self.transform, self.target_transform = a.transform, a.target_transform
      self.root, self.train, self.classes = a.root, a.train, classes
      read_idx(self, title,
         ("%s/%s/raw/%s-"):format(a.root, name, a.train and "train" or "t10k"))
   end

   function Class:__len() return self.data:size(1) end

   function Class:load(i)
      return self.data[i]:unsqueeze(1), self.targets[i]:item()
   end

   M[name] = Class
end

--- Images of handwritten digits. The IDX files, which may be compressed (.gz), are in the folder
--- MNIST/raw of `root`. An item is an image (1, 28, 28) uint8 and its class: the digit plus 1.
--- `transform` and `target_transform` are called with the two values of an item. Nothing is
--- downloaded: `download = true`, which PyTorch's programs have, needs the files, too.
---
---     local raw = "MNIST/raw/"
---     torch.io.make_folder(raw)
---     local file = assert(io.open(raw .. "train-images-idx3-ubyte", "wb"))
---     local head = string.pack(">I4I4I4I4", 2051, 1, 28, 28)
---     file:write(head, ("\0"):rep(784)):close()
---     file = assert(io.open(raw .. "train-labels-idx1-ubyte", "wb"))
---     file:write(string.pack(">I4I4B", 2049, 1, 7)):close()
---     local set = torch.vision.datasets.MNIST "."
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([1, 28, 28])	7 - seven
---@class vision.datasets.MNIST: data.Dataset
---@field root string  the folder
---@field train boolean  whether these are the images for training
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 28, 28) uint8
---@field targets Tensor  (n) the classes, from 1
---@overload fun(root: string, train?: boolean, options?: table): data.Dataset
local MNIST = class.class("vision.datasets.MNIST", Dataset)
define_idx(MNIST, "MNIST", digits)

--- Images of clothes in ten classes. The files, in MNIST's format, are in the folder
--- FashionMNIST/raw of `root`. Items, `transform`, `target_transform` and `download` are those of
--- MNIST.
---
---     local raw = "FashionMNIST/raw/"
---     torch.io.make_folder(raw)
---     local file = assert(io.open(raw .. "train-images-idx3-ubyte", "wb"))
---     local head = string.pack(">I4I4I4I4", 2051, 1, 28, 28)
---     file:write(head, ("\0"):rep(784)):close()
---     file = assert(io.open(raw .. "train-labels-idx1-ubyte", "wb"))
---     file:write(string.pack(">I4I4B", 2049, 1, 9)):close()
---     local set = torch.vision.datasets.FashionMNIST "."
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([1, 28, 28])	Ankle boot
---@class vision.datasets.FashionMNIST: data.Dataset
---@field root string  the folder
---@field train boolean  whether these are the images for training
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 28, 28) uint8
---@field targets Tensor  (n) the classes, from 1
---@overload fun(root: string, train?: boolean, options?: table): data.Dataset
local FashionMNIST = class.class("vision.datasets.FashionMNIST", Dataset)
define_idx(FashionMNIST, "FashionMNIST", clothes)

--- Images of Japanese syllables in ten classes: the files of MNIST's format in the folder
--- KMNIST/raw of `root`. Items, `transform`, `target_transform` and `download` are those of MNIST.
---
---     local raw = "KMNIST/raw/"
---     torch.io.make_folder(raw)
---     local file = assert(io.open(raw .. "train-images-idx3-ubyte", "wb"))
---     local head = string.pack(">I4I4I4I4", 2051, 1, 28, 28)
---     file:write(head, ("\0"):rep(784)):close()
---     file = assert(io.open(raw .. "train-labels-idx1-ubyte", "wb"))
---     file:write(string.pack(">I4I4B", 2049, 1, 1)):close()
---     local set = torch.vision.datasets.KMNIST "."
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([1, 28, 28])	ki
---@class vision.datasets.KMNIST: data.Dataset
---@field root string  the folder
---@field train boolean  whether these are the images for training
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 28, 28) uint8
---@field targets Tensor  (n) the classes, from 1
---@overload fun(root: string, train?: boolean, options?: table): data.Dataset
local KMNIST = class.class("vision.datasets.KMNIST", Dataset)
define_idx(KMNIST, "KMNIST", kana)

local take_qmnist = args.signature [[vision.datasets.QMNIST(root: string, what: string?,
   compat: boolean = true, train: boolean = true, transform: callable?,
   target_transform: callable?)]]

-- Maps a part of QMNIST to the names of its files, its first item and its number of items.
local qmnist <const> = {train = {"qmnist-train"}, test = {"qmnist-test"}, nist = {"xnist"},
   test10k = {"qmnist-test", 1, 10000}, test50k = {"qmnist-test", 10001}}

--- MNIST's digits with the origin of each image. The IDX files, which may be compressed (.gz), are
--- in the folder QMNIST/raw of `root`. `what` is "train", "test", "test10k", "test50k" or "nist";
--- without it, `train` decides. An item is an image (1, 28, 28) uint8 and its class: the digit plus
--- 1. If `compat` is false, the target is a tensor of 8 integers, of which the class is the first.
--- `transform` and `target_transform` are called with the two values of an item.
---
---     local raw = "QMNIST/raw/qmnist-test-"
---     torch.io.make_folder "QMNIST/raw"
---     local file = assert(io.open(raw .. "images-idx3-ubyte", "wb"))
---     local head = string.pack(">I4I4I4I4", 2051, 1, 28, 28)
---     file:write(head, ("\0"):rep(784)):close()
---     file = assert(io.open(raw .. "labels-idx2-int", "wb"))
---     file:write(string.pack(">I4I4I4", 0xC02, 1, 8))
---     file:write(string.pack(">I4I4I4I4I4I4I4I4", 5, 1, 2, 3, 4, 6, 7, 8)):close()
---     local set = torch.vision.datasets.QMNIST(".", "test")
---     print(set.classes[select(2, set:get(1))])
---     --> 5 - five
---@class vision.datasets.QMNIST: vision.datasets.VisionDataset
---@field root string  the folder
---@field what string  the part of the dataset
---@field compat boolean  whether targets are only classes
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 28, 28) uint8
---@field targets Tensor  (n, 8) the class, from 1, and the origin of each image
---@overload fun(root: string, what?: string, options?: table): data.Dataset
local QMNIST = class.class("vision.datasets.QMNIST", Dataset)
M.QMNIST = QMNIST

function QMNIST:__init(...)
   local title, a = "vision.datasets.QMNIST", take_qmnist(...)
   Dataset.__init(self)
   local what = a.what or a.train and "train" or "test"
   files.choose(title, "what", what, {"train", "test", "test10k", "test50k", "nist"})
   self.root, self.what, self.compat, self.classes = a.root, what, a.compat, digits
   self.transform, self.target_transform = a.transform, a.target_transform
   local name, first, count = table.unpack(qmnist[what], 1, 3)
   local prefix = ("%s/QMNIST/raw/%s-"):format(a.root, name)
   local path = find(title, prefix .. "labels-idx2-int")
   local data, targets = torch.load(find(title, prefix .. "images-idx3-ubyte")), torch.load(path)
   if data:dim() ~= 3 or targets:dim() ~= 2 or targets:size(2) ~= 8
         or data:size(1) ~= targets:size(1) then
      files.fail(title, path, "expected 8 integers for each of %d images, got shape %s",
         data:size(1), targets.shape)
   end
   local from = math.min(first or 1, data:size(1) + 1)
   local n = math.min(count or math.huge, data:size(1) - from + 1)
   self.data, self.targets = data:narrow(1, from, n), targets:narrow(1, from, n):long()
   self.targets:select(2, 1):add_(1)
   local labels = self.targets:select(2, 1)
   if n > 0 and (labels:min():item() < 1 or labels:max():item() > 10) then
      files.fail(title, path, "expected digits from 0 to 9")
   end
end

function QMNIST:__len() return self.data:size(1) end

function QMNIST:load(i)
   local target = self.targets[i]
   return self.data[i]:unsqueeze(1), self.compat and target[1]:item() or target
end

local take_emnist = args.signature [[vision.datasets.EMNIST(root: string, split: string,
   train: boolean = true, transform: callable?, target_transform: callable?)]]

local letters <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

-- Appends the characters of a text to a list, and returns the list.
local function characters(text, list)
   for character in text:gmatch "." do list[#list + 1] = character end
   return list
end

local emnist_classes <const> = {
   byclass = "0123456789" .. letters .. letters:lower(),
   bymerge = "0123456789" .. letters .. "abdefghnqrt", balanced = "0123456789" .. letters
      .. "abdefghnqrt", letters = "abcdefghijklmnopqrstuvwxyz", digits = "0123456789",
   mnist = "0123456789",
}

--- Images of handwritten letters and digits. The IDX files, which may be compressed (.gz), are in
--- the folder EMNIST/raw of `root`. `split` is "byclass", "bymerge", "balanced", "letters",
--- "digits" or "mnist". Items, `transform` and `target_transform` are as in MNIST. As in
--- torchvision, images are mirrored at the diagonal, and class 1 of "letters" is "N/A".
---
---     local raw = "EMNIST/raw/emnist-letters-train-"
---     torch.io.make_folder "EMNIST/raw"
---     local file = assert(io.open(raw .. "images-idx3-ubyte", "wb"))
---     local head = string.pack(">I4I4I4I4", 2051, 1, 28, 28)
---     file:write(head, ("\0"):rep(784)):close()
---     file = assert(io.open(raw .. "labels-idx1-ubyte", "wb"))
---     file:write(string.pack(">I4I4B", 2049, 1, 3)):close()
---     local set = torch.vision.datasets.EMNIST(".", "letters")
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([1, 28, 28])	c
---@class vision.datasets.EMNIST: data.Dataset
---@field root string  the folder
---@field split string  the name of one of the six sets
---@field train boolean  whether these are the images for training
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 28, 28) uint8
---@field targets Tensor  (n) the classes, from 1
---@overload fun(root: string, split: string, options?: table): data.Dataset
local EMNIST = class.class("vision.datasets.EMNIST", Dataset)
M.EMNIST = EMNIST

function EMNIST:__init(...)
   local title, a = "vision.datasets.EMNIST", take_emnist(...)
   Dataset.__init(self)
   files.choose(title, "split", a.split,
      {"byclass", "bymerge", "balanced", "letters", "digits", "mnist"})
   self.root, self.split, self.train = a.root, a.split, a.train
   self.transform, self.target_transform = a.transform, a.target_transform
   self.classes = characters(emnist_classes[a.split], a.split == "letters" and {"N/A"} or {})
   read_idx(self, title, ("%s/EMNIST/raw/emnist-%s-%s-"):format(a.root, a.split,
      a.train and "train" or "test"))
end

function EMNIST:__len() return self.data:size(1) end

function EMNIST:load(i)
   return self.data[i]:unsqueeze(1), self.targets[i]:item()
end

-- STL10 -------------------------------------------------------------------------------------------

local take_stl = args.signature [[vision.datasets.STL10(root: string, split: string = 'train',
   transform: callable?, target_transform: callable?)]]

--- Images of animals and vehicles in ten classes. The files, such as train_X.bin, are in the folder
--- stl10_binary of `root`. `split` is "train", "test" or "unlabeled". An item is an image (3, 96,
--- 96) uint8 and its class from 1; without labels the class is 0. `transform` and
--- `target_transform` are called with the two values of an item.
---
---     torch.io.make_folder "stl10_binary"
---     local file = assert(io.open("stl10_binary/test_X.bin", "wb"))
---     file:write(("\0"):rep(3 * 96 * 96)):close()
---     file = assert(io.open("stl10_binary/test_y.bin", "wb"))
---     file:write("\2"):close()
---     local set = torch.vision.datasets.STL10(".", "test")
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([3, 96, 96])	bird
---@class vision.datasets.STL10: data.Dataset
---@field root string  the folder
---@field split string  "train", "test" or "unlabeled"
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 3, 96, 96) uint8
---@field labels Tensor  (n) the classes, from 1
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local STL10 = class.class("vision.datasets.STL10", Dataset)
M.STL10 = STL10

function STL10:__init(...)
   local title, a = "vision.datasets.STL10", take_stl(...)
   Dataset.__init(self)
   files.choose(title, "split", a.split, {"train", "test", "unlabeled"})
   self.root, self.split, self.transform = a.root, a.split, a.transform
   self.target_transform = a.target_transform
   self.classes = {"airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship",
      "truck"}
   local prefix = ("%s/stl10_binary/%s_"):format(a.root, a.split)
   local bytes, size = read(title, prefix .. "X.bin"), 3 * 96 * 96
   if #bytes == 0 or #bytes % size ~= 0 then
      files.fail(title, prefix .. "X.bin", "expected a multiple of %d bytes, got %d", size, #bytes)
   end
   -- The pixels of each channel are stored column by column.
   self.data = torch.frombuffer(bytes, {dtype = "uint8"}):view(-1, 3, 96, 96):transpose(3, 4)
      :contiguous()
   local count = self.data:size(1)
   if a.split == "unlabeled" then
      self.labels = torch.zeros(count, {dtype = "int64"})
   else
      self.labels = torch.frombuffer(read(title, prefix .. "y.bin"), {dtype = "uint8"}):long()
   end
   if self.labels:size(1) ~= count then
      files.fail(title, prefix .. "y.bin", "expected %d labels, got %d", count,
         self.labels:size(1))
   end
end

function STL10:__len() return self.data:size(1) end

function STL10:load(i)
   return self.data[i], self.labels[i]:item()
end

-- COCO --------------------------------------------------------------------------------------------

-- Maps the name of each class to its signature.
local take_coco = {}
for _, class_name in ipairs {"vision.datasets.CocoDetection", "vision.datasets.CocoCaptions"} do
   take_coco[class_name] = args.signature(class_name .. [[(root: string, annFile: string,
      transform: callable?, target_transform: callable?)]])
end

--- Images with annotations in COCO's format. `root` is the folder of the images, and `annFile` is
--- the JSON file. An item is an image (C, H, W) uint8 and the list of its annotations, which are
--- tables as in the file, such as {bbox = {x, y, width, height}, category_id = 1}. `transform` and
--- `target_transform` are called with the two values of an item.
---
---     torch.save(torch.zeros(3, 8, 8, {dtype = "uint8"}), "a.png")
---     local file = assert(io.open("a.json", "w"))
---     file:write [[{"images": [{"id": 5, "file_name": "a.png"}],
---        "annotations": [{"image_id": 5, "bbox": [1, 2, 4, 4],
---        "category_id": 1}]}]]
---     file:close()
---     local set = torch.vision.datasets.CocoDetection(".", "a.json")
---     local image, found = set:get(1)
---     print(image.shape, found[1].bbox[2])
---     --> torch.Size([3, 8, 8])	2
---@class vision.datasets.CocoDetection: data.Dataset
---@field root string  the folder of the images
---@field ids any[]  the images' identifiers, in increasing order
---@field categories table[]  the categories of the file
---@overload fun(root: string, annFile: string, options?: table): data.Dataset
local CocoDetection = class.class("vision.datasets.CocoDetection", Dataset)
M.CocoDetection = CocoDetection

function CocoDetection:__init(...)
   local title = take_coco[torch.type(self)] and torch.type(self) or "vision.datasets.CocoDetection"
   local a = take_coco[title](...)
   Dataset.__init(self)
   self.root, self.transform, self.target_transform = a.root, a.transform, a.target_transform
   local content, message = torch.utils.json.decode(read(title, a.annFile))
   if content == nil then torch.raise(("%s: %s: %s"):format(title, a.annFile, message)) end
   if type(content) ~= "table" or type(content.images) ~= "table"
         or type(content.annotations) ~= "table" then
      torch.raise(("%s: %s: expected an object with images and annotations"):format(title,
         a.annFile))
   end
   self.ids, self.categories = {}, content.categories or {}
   local names, lists = {}, {}
   local kind
   for i, image in ipairs(content.images) do
      local id = type(image) == "table" and image.id
      kind = kind or math.type(id) and "number" or type(id)
      if type(id) ~= kind or kind ~= "number" and kind ~= "string"
            or type(image.file_name) ~= "string" or lists[id] then
         torch.raise(("%s: %s: image %d: expected an id of its own and a file_name"):format(title,
            a.annFile, i))
      end
      self.ids[i], names[image.id], lists[image.id] = image.id, image.file_name, {}
   end
   for i, own in ipairs(content.annotations) do
      if type(own) ~= "table" or own.image_id == nil then
         torch.raise(("%s: %s: annotation %d: expected an object with image_id"):format(title,
            a.annFile, i))
      elseif not lists[own.image_id] then
         torch.raise(("%s: %s: annotation %d is of the image %s, which is not in the file"):format(
            title, a.annFile, i, own.image_id))
      end
      table.insert(lists[own.image_id], own)
   end
   table.sort(self.ids)
   rawset(self, "_names", names)
   rawset(self, "_lists", lists)
end

function CocoDetection:__len() return #self.ids end

function CocoDetection:load(i)
   local id = self.ids[i]
   return torch.load(self.root .. "/" .. self._names[id]), self._lists[id]
end

--- Images with captions in COCO's format. `root` is the folder of the images, and `annFile` is the
--- JSON file. An item is an image (C, H, W) uint8 and the list of its captions. `transform` and
--- `target_transform` are called with the two values of an item.
---
---     torch.save(torch.zeros(3, 8, 8, {dtype = "uint8"}), "a.png")
---     local file = assert(io.open("a.json", "w"))
---     file:write [[{"images": [{"id": 5, "file_name": "a.png"}],
---        "annotations": [{"image_id": 5, "caption": "A dark square."}]}]]
---     file:close()
---     local set = torch.vision.datasets.CocoCaptions(".", "a.json")
---     print(select(2, set:get(1))[1])
---     --> A dark square.
---@class vision.datasets.CocoCaptions: vision.datasets.CocoDetection
---@overload fun(root: string, annFile: string, options?: table): data.Dataset
local CocoCaptions, detection = class.class("vision.datasets.CocoCaptions", CocoDetection)
M.CocoCaptions = CocoCaptions

function CocoCaptions:load(i)
   local image, list = detection.load(self, i)
   local captions = {}
   for k, own in ipairs(list) do
      if type(own.caption) ~= "string" then
         torch.raise(("vision.datasets.CocoCaptions: %s: expected a caption in each annotation")
            :format(self._names[self.ids[i]]))
      end
      captions[k] = own.caption
   end
   return image, captions
end

-- Random images -----------------------------------------------------------------------------------

local take_fake = args.signature [[vision.datasets.FakeData(size: count = 1000,
   image_size: integers?, num_classes: count = 10, transform: callable?,
   target_transform: callable?, random_offset: integer = 0)]]

--- Random images for trying out programs. There are `size` images of `image_size` ({3, 224, 224} by
--- default) with classes from 1 to `num_classes`. An item is an image (uint8) and its class. Each
--- access to an item gives the same values; another `random_offset` gives other images. `transform`
--- and `target_transform` are called with the two values of an item.
---
---     local set = torch.vision.datasets.FakeData(20, {3, 8, 8})
---     local image, label = set:get(2)
---     print(#set, image.shape, label >= 1 and label <= 10)
---     --> 20	torch.Size([3, 8, 8])	true
---@class vision.datasets.FakeData: data.Dataset
---@field size integer  the number of images
---@field image_size integer[]  the shape of an image
---@field num_classes integer  the number of classes
---@field random_offset integer  a number that is added to the seed
---@overload fun(size?: integer, image_size?: integer[], options?: table): data.Dataset
local FakeData = class.class("vision.datasets.FakeData", Dataset)
M.FakeData = FakeData

function FakeData:__init(...)
   Dataset.__init(self)
   for key, value in pairs(take_fake(...)) do self[key] = value end
   self.image_size = self.image_size or {3, 224, 224}
   if self.num_classes < 1 then
      args.refuse("vision.datasets.FakeData", "num_classes", "at least 1", self.num_classes)
   end
end

function FakeData:__len() return self.size end

function FakeData:load(i)
   local generator = torch.Generator():manual_seed(i + self.random_offset)
   local image = (torch.rand(self.image_size, {generator = generator}) * 256):to "uint8"
   local label = math.floor(torch.rand(1, {generator = generator}):item() * self.num_classes) + 1
   return image, label
end

return lazy.load(M, lazy.modules("tlua.vision.datasets", {
   arrays = "CIFAR10 CIFAR100 SVHN",
   folders = "ImageNet Caltech101 Flowers102 OxfordIIITPet CelebA",
   listed = "EuroSAT Country211 RenderedSST2 Food101 DTD FGVCAircraft",
   more = "SUN397 Caltech256 Imagenette Places365 CLEVRClassification GTSRB Omniglot SEMEION "
      .. "FER2013 SBU Flickr30k",
   voc = "VOCDetection VOCSegmentation",
}))
