-- arrays.lua - datasets that store all their images in a few files of arrays: CIFAR10, CIFAR100 and
-- SVHN.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local files = require "tlua.vision.datasets.files"
local mat = require "tlua.vision.datasets.mat"
local pickles = require "tlua.vision.datasets.pickles"

local M = {}

local Dataset <const> = files.Dataset

-- CIFAR -------------------------------------------------------------------------------------------

local pixels <const> = 3 * 32 * 32

-- Reads a file that Python's pickle has written. It must contain a dictionary that has a list or an
-- array under each of the given names.
local function read_pickle(title, path, ...)
   local content, message = pickles.read(files.read(title, path))
   if type(content) ~= "table" then
      files.fail(title, path, "%s", message or "expected a dictionary")
   end
   for _, key in ipairs {...} do
      if type(content[key]) ~= "table" then files.fail(title, path, "it has no %s", key) end
   end
   return content
end

-- Reads a file of CIFAR's version for Python. Returns the images and the list of labels, which are
-- integers from 0.
local function from_pickle(title, path, key)
   local content = read_pickle(title, path, "data", key)
   local data, labels = content.data, content[key]
   if not data.bytes or data.shape[2] ~= pixels or data.shape[1] ~= #labels then
      files.fail(title, path, "expected an array of %d rows of %d bytes", #labels, pixels)
   end
   for i = 1, #labels do
      if math.type(labels[i]) ~= "integer" then
         files.fail(title, path, "label %d is no integer", i)
      end
   end
   return files.tensor(title, path, data.bytes, #labels, 3, 32, 32), labels
end

-- Reads a file of CIFAR's binary version. Returns the images and the list of labels, which are
-- integers from 0. Each row has `extra` labels, of which only the last is used, and then the
-- pixels.
local function from_binary(title, path, extra)
   local bytes = files.read(title, path)
   local row = extra + pixels
   if #bytes == 0 or #bytes % row ~= 0 then
      files.fail(title, path, "expected a multiple of %d bytes, got %d", row, #bytes)
   end
   local rows = torch.frombuffer(bytes, {dtype = "uint8"}):view(-1, row)
   return rows:narrow(2, extra + 1, pixels):contiguous():view(-1, 3, 32, 32),
      rows:select(2, extra):tolist()
end

-- Reads a dataset of the CIFAR family into the fields of `self`. `own` has the names of the
-- dataset's folder and files.
local function read_cifar(self, title, own, root, is_train)
   local list, labels, images = is_train and own.train or own.test, {}, {}
   local folder = ("%s/%s"):format(root, own.folder)
   local is_pickle = files.exists(("%s/%s"):format(folder, list[1]))
   if not is_pickle then
      folder = ("%s/%s"):format(root, own.binary)
      if not files.exists(("%s/%s.bin"):format(folder, list[1])) then
         torch.raise(("%s: %s: expected the folder %s or %s with the file %s; nothing is "
            .. "downloaded: get the files from https://www.cs.toronto.edu/~kriz/cifar.html")
            :format(title, root, own.folder, own.binary, list[1]))
      end
   end
   if is_pickle then
      self.classes = read_pickle(title, folder .. "/" .. own.meta, own.names)[own.names]
   else
      self.classes = files.lines(title, folder .. "/" .. own.text)
   end
   for i, name in ipairs(list) do
      local path = ("%s/%s%s"):format(folder, name, is_pickle and "" or ".bin")
      local read = is_pickle and from_pickle or from_binary
      local data, found = read(title, path, is_pickle and own.key or own.extra)
      images[i] = data
      for _, label in ipairs(found) do
         if label < 0 or label >= #self.classes then
            files.fail(title, path, "expected labels from 0 to %d, got %d", #self.classes - 1,
               label)
         end
         labels[#labels + 1] = label + 1
      end
   end
   self.data, self.targets = torch.cat(images), torch.tensor(labels, {dtype = "int64"})
end

local function define_cifar(Class, name, own)
   local title = "vision.datasets." .. name
   local take = args.signature(title .. [[(root: string, train: boolean = true,
      transform: callable?, target_transform: callable?, download: boolean = false)]])

   function Class:__init(...)
      Dataset.__init(self)
      local a = take(...)
      self.root, self.train = a.root, a.train
      self.transform, self.target_transform = a.transform, a.target_transform
      read_cifar(self, title, own, a.root, a.train)
   end

   function Class:__len() return self.data:size(1) end

   function Class:load(i)
      return self.data[i], self.targets[i]:item()
   end

   M[name] = Class
end

--- Small images in ten classes. The files are in `root`, in the folder cifar-10-batches-py (the
--- version for Python) or cifar-10-batches-bin (the binary version). An item is an image (3, 32,
--- 32) uint8 and its class. `transform` and `target_transform` are called with the two values of an
--- item. Nothing is downloaded: `download = true` needs the files, too.
---
---     torch.io.make_folder "cifar-10-batches-bin"
---     local function write(name, bytes)
---        local path = "cifar-10-batches-bin/" .. name
---        assert(io.open(path, "wb")):write(bytes):close()
---     end
---     write("batches.meta.txt", "airplane\nautomobile\nbird\n")
---     write("test_batch.bin", "\2" .. ("\0"):rep(3 * 32 * 32))
---     local set = torch.vision.datasets.CIFAR10(".", false)
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([3, 32, 32])	bird
---@class vision.datasets.CIFAR10: data.Dataset
---@field root string  the folder
---@field train boolean  whether these are the images for training
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 3, 32, 32) uint8
---@field targets Tensor  (n) the classes, from 1
---@overload fun(root: string, train?: boolean, options?: table): data.Dataset
local CIFAR10 = class.class("vision.datasets.CIFAR10", Dataset)
define_cifar(CIFAR10, "CIFAR10", {folder = "cifar-10-batches-py", binary = "cifar-10-batches-bin",
   train = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
   test = {"test_batch"}, key = "labels", meta = "batches.meta", names = "label_names",
   text = "batches.meta.txt", extra = 1})

--- Small images in a hundred classes. The files are in the folder cifar-100-python or
--- cifar-100-binary of `root`. Items, `transform`, `target_transform` and `download` are as in
--- CIFAR10.
---
---     torch.io.make_folder "cifar-100-binary"
---     local function write(name, bytes)
---        local path = "cifar-100-binary/" .. name
---        assert(io.open(path, "wb")):write(bytes):close()
---     end
---     write("fine_label_names.txt", "apple\naquarium_fish\n")
---     write("test.bin", "\4\1" .. ("\0"):rep(3 * 32 * 32))
---     local set = torch.vision.datasets.CIFAR100(".", false)
---     local image, label = set:get(1)
---     print(image.shape, set.classes[label])
---     --> torch.Size([3, 32, 32])	aquarium_fish
---@class vision.datasets.CIFAR100: data.Dataset
---@field root string  the folder
---@field train boolean  whether these are the images for training
---@field classes string[]  the names of the classes
---@field data Tensor  (n, 3, 32, 32) uint8
---@field targets Tensor  (n) the classes, from 1
---@overload fun(root: string, train?: boolean, options?: table): data.Dataset
local CIFAR100 = class.class("vision.datasets.CIFAR100", Dataset)
define_cifar(CIFAR100, "CIFAR100", {folder = "cifar-100-python", binary = "cifar-100-binary",
   train = {"train"}, test = {"test"}, key = "fine_labels", meta = "meta",
   names = "fine_label_names", text = "fine_label_names.txt", extra = 2})

-- SVHN --------------------------------------------------------------------------------------------

local take_svhn = args.signature [[vision.datasets.SVHN(root: string, split: string = 'train',
   transform: callable?, target_transform: callable?)]]

--- Digits of house numbers. The files, such as train_32x32.mat, are in `root`. `split` is "train",
--- "test" or "extra". An item is an image (3, 32, 32) uint8 and its class: the digit plus 1.
--- `transform` and `target_transform` are called with the two values of an item.
---
---     local SVHN = torch.vision.datasets.SVHN
---     print(select(2, pcall(SVHN, "nowhere")):match "nowhere/train_32x32.mat")
---     --> nowhere/train_32x32.mat
---@class vision.datasets.SVHN: data.Dataset
---@field root string  the folder
---@field split string  "train", "test" or "extra"
---@field classes string[]  the digits
---@field data Tensor  (n, 3, 32, 32) uint8
---@field labels Tensor  (n) the classes, from 1
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local SVHN = class.class("vision.datasets.SVHN", Dataset)
M.SVHN = SVHN

function SVHN:__init(...)
   local title, a = "vision.datasets.SVHN", take_svhn(...)
   Dataset.__init(self)
   files.choose(title, "split", a.split, {"train", "test", "extra"})
   self.root, self.split, self.transform = a.root, a.split, a.transform
   self.target_transform = a.target_transform
   self.classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
   local path = ("%s/%s_32x32.mat"):format(a.root, a.split)
   local arrays, message = mat.read(files.read(title, path))
   if not arrays then files.fail(title, path, "%s", message) end
   local x, y = arrays.X, arrays.y
   if x and x:dim() == 3 then x = x:unsqueeze(4) end -- MATLAB omits a last dimension of size 1
   if not (x and y and x:dim() == 4 and x.dtype == "uint8" and x:size(1) == 32 and x:size(2) == 32
         and x:size(3) == 3 and y:numel() == x:size(4)) then
      files.fail(title, path, "expected an array X of shape (32, 32, 3, n) and n labels y")
   end
   self.data = x:permute({4, 3, 1, 2}):contiguous()
   local labels = y:long():flatten()
   if labels:numel() > 0 and (labels:min():item() < 0 or labels:max():item() > 10) then
      files.fail(title, path, "expected labels from 1 to 10")
   end
   self.labels = labels % 10 + 1
end

function SVHN:__len() return self.data:size(1) end

function SVHN:load(i)
   return self.data[i], self.labels[i]:item()
end

return M
