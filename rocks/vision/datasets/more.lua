-- more.lua - datasets of image files and of tables of pixels: SUN397, Caltech256, Imagenette,
-- Places365, CLEVRClassification, GTSRB, Omniglot, SBU, Flickr30k, SEMEION and FER2013.

local torch = require "tlua"
local class = require "tlua.class"
local json = require "tlua.utils.json"

local files = require "tlua.vision.datasets.files"

local M = {}

local Dataset <const> = files.Dataset

local function fill(Class, ...)
   M[Class.__name:match "[^.]+$"] = Class
   files.fill(Class, ...)
end

--- Photographs of 397 kinds of scenes, in the folder SUN397 of `root`, which contains the file
--- ClassName.txt. An item is an image (3, H, W) uint8 and its class, and the items are in the order
--- of the classes. `transform` and `target_transform` are called with the two values of an item.
---
---     torch.io.make_folder "SUN397/a/abbey"
---     local file = assert(io.open("SUN397/ClassName.txt", "w"))
---     file:write("/a/abbey\n"):close()
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, "SUN397/a/abbey/sun_a.jpg")
---     local set = torch.vision.datasets.SUN397 "."
---     print(#set, set.classes[1])
---     --> 1	abbey
---@class vision.datasets.SUN397: vision.datasets.VisionDataset
---@field root string  the folder
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, options?: table): data.Dataset
local SUN397 = class.class("vision.datasets.SUN397", Dataset)

fill(SUN397, "", {}, function(title, a)
   local base = a.root .. "/SUN397"
   local path, samples, classes = base .. "/ClassName.txt", {}, {}
   for label, line in ipairs(files.lines(title, path)) do
      local folder, name = line:match "^%s*(/[^/]+/(.-))%s*$"
      if not folder then
         files.fail(title, path, "line %d: expected a class such as /a/abbey, got %q", label, line)
      end
      classes[label] = name
      for _, image in ipairs(select(2, files.list(title, base .. folder))) do
         if image:find "^sun_.*%.jpg$" then
            samples[#samples + 1] = {("%s%s/%s"):format(base, folder, image), label}
         end
      end
   end
   return samples, classes
end)

--- Photographs in 257 categories, in the folder caltech256/256_ObjectCategories of `root`. Items,
--- `transform` and `target_transform` are as in SUN397.
---
---     local folder = "caltech256/256_ObjectCategories/001.ak47"
---     torch.io.make_folder(folder)
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, folder .. "/001_0001.jpg")
---     local set = torch.vision.datasets.Caltech256 "."
---     print(#set, set.classes[1])
---     --> 1	001.ak47
---@class vision.datasets.Caltech256: vision.datasets.VisionDataset
---@field root string  the folder
---@field classes string[]  the names of the categories
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, options?: table): data.Dataset
local Caltech256 = class.class("vision.datasets.Caltech256", Dataset)

fill(Caltech256, "", {}, function(title, a)
   return files.in_folders(title, a.root .. "/caltech256/256_ObjectCategories")
end)

local imagenette <const> = {
   n01440764 = {"tench", "Tinca tinca"}, n02979186 = {"cassette player"},
   n02102040 = {"English springer", "English springer spaniel"},
   n03000684 = {"chain saw", "chainsaw"}, n03028079 = {"church", "church building"},
   n03394916 = {"French horn", "horn"}, n03417042 = {"garbage truck", "dustcart"},
   n03425413 = {"gas pump", "gasoline pump", "petrol pump", "island dispenser"},
   n03445777 = {"golf ball"}, n03888257 = {"parachute", "chute"},
}

--- Ten classes of ImageNet, in the folder imagenette2, imagenette2-320 or imagenette2-160 of `root`
--- for the `size` "full", "320px" or "160px". `split` is "train" or "val". Items, `transform` and
--- `target_transform` are as in SUN397.
---
---     torch.io.make_folder "imagenette2-160/val/n03445777"
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, "imagenette2-160/val/n03445777/a.jpg")
---     local set = torch.vision.datasets.Imagenette(".", "val", "160px")
---     print(#set, set.classes[1][1])
---     --> 1	golf ball
---@class vision.datasets.Imagenette: vision.datasets.VisionDataset
---@field root string  the folder
---@field split string  "train" or "val"
---@field size string  "full", "320px" or "160px"
---@field classes string[][]  the names of the classes, a list for each
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, size?: string, options?: table): data.Dataset
local Imagenette = class.class("vision.datasets.Imagenette", Dataset)

fill(Imagenette, "split: string = 'train', size: string = 'full', ",
   {split = {"train", "val"}, size = {"full", "320px", "160px"}}, function(title, a)
      local ending = a.size == "full" and "" or "-" .. a.size:match "%d+"
      local path = ("%s/imagenette2%s/%s"):format(a.root, ending, a.split)
      local samples, wnids = files.in_folders(title, path)
      local classes = {}
      for i, wnid in ipairs(wnids) do
         classes[i] = imagenette[wnid]
            or files.fail(title, path, "expected folders of Imagenette's classes, got %s", wnid)
      end
      return samples, classes
   end)

local places <const> = {["train-standard"] = "train_standard",
   ["train-challenge"] = "train_challenge", val = "val", test = "test"}

--- Photographs of 365 kinds of places. `root` contains categories_places365.txt, a list such as
--- places365_val.txt, and a folder of images such as val_large, or val_256 if `small` is true.
--- `split` is "train-standard", "train-challenge", "val" or "test", whose items have the target
--- nil. Items, `transform` and `target_transform` are as in SUN397, in the order of the list.
---
---     local function write(name, text)
---        assert(io.open(name, "w")):write(text):close()
---     end
---     write("categories_places365.txt", "/a/airfield 0\n/a/alley 1\n")
---     write("places365_val.txt", "Places365_val_00000001.jpg 1\n")
---     local set = torch.vision.datasets.Places365(".", "val")
---     print(set.samples[1][1], set.classes[set.samples[1][2]])
---     --> ./val_large/Places365_val_00000001.jpg	/a/alley
---@class vision.datasets.Places365: vision.datasets.VisionDataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field classes string[]  the names of the classes
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, small?: boolean, options?: table): data.Dataset
local Places365 = class.class("vision.datasets.Places365", Dataset)

fill(Places365, "split: string = 'train-standard', small: boolean = false, ",
   {split = {"train-standard", "train-challenge", "val", "test"}}, function(title, a)
      local path, classes, samples = a.root .. "/categories_places365.txt", {}, {}
      for i, line in ipairs(files.lines(title, path)) do
         local name, number = line:match "^%s*(%S+)%s+(%d+)%s*$"
         if not name or tonumber(number) ~= i - 1 then
            files.fail(title, path, "line %d: expected a class and the number %d, got %q", i, i - 1,
               line)
         end
         classes[i] = name
      end
      local size = a.small and "256" or "large"
      local variant = a.split:match "^train%-(.*)$"
      local folder = variant and ("data_%s_%s"):format(size, variant) or a.split .. "_" .. size
      path = ("%s/places365_%s.txt"):format(a.root, places[a.split])
      for i, line in ipairs(files.lines(title, path)) do
         local name, number = line:match "^%s*/?(%S+)%s*(%d*)%s*$"
         local label = number ~= "" and math.tointeger(tonumber(number)) or nil
         if not name or (label or 0) >= #classes or (a.split ~= "test" and not label) then
            files.fail(title, path, "line %d: expected an image and a class below %d, got %q", i,
               #classes, line)
         end
         samples[i] = {("%s/%s/%s"):format(a.root, folder, name), label and label + 1}
      end
      return samples, classes
   end)

--- Pictures of solids, in the folder clevr/CLEVR_v1.0 of `root`. `split` is "train", "val" or
--- "test". An item is an image (3, H, W) uint8 and the number of its objects, which is nil for
--- "test". `transform` and `target_transform` are called with the two values of an item.
---
---     local folder = "clevr/CLEVR_v1.0/"
---     torch.io.make_folder(folder .. "images/val")
---     torch.io.make_folder(folder .. "scenes")
---     local image = torch.zeros(3, 8, 8, {dtype = "uint8"})
---     torch.save(image, folder .. "images/val/a.png")
---     local path = folder .. "scenes/CLEVR_val_scenes.json"
---     local file = assert(io.open(path, "w"))
---     file:write [[{"scenes": [{"image_filename": "a.png",
---        "objects": [{}, {}]}]}]]
---     file:close()
---     local set = torch.vision.datasets.CLEVRClassification(".", "val")
---     print(select(2, set:get(1)))
---     --> 2
---@class vision.datasets.CLEVRClassification: vision.datasets.VisionDataset
---@field root string  the folder
---@field split string  the part of the dataset
---@field samples {[1]: string, [2]: integer}[]  path and number of objects
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local CLEVR = class.class("vision.datasets.CLEVRClassification", Dataset)

fill(CLEVR, "split: string = 'train', ", {split = {"train", "val", "test"}}, function(title, a)
   local base, counts, samples = a.root .. "/clevr/CLEVR_v1.0", {}, {}
   local path = ("%s/scenes/CLEVR_%s_scenes.json"):format(base, a.split)
   if a.split ~= "test" then
      local ok, content = pcall(json.decode, files.read(title, path))
      if not ok or type(content) ~= "table" or type(content.scenes) ~= "table" then
         files.fail(title, path, "expected an object with a list of scenes")
      end
      for i, scene in ipairs(content.scenes) do
         if type(scene) ~= "table" or type(scene.image_filename) ~= "string"
               or type(scene.objects) ~= "table" then
            files.fail(title, path, "scene %d: expected image_filename and objects", i)
         end
         counts[scene.image_filename] = #scene.objects
      end
   end
   local folder = ("%s/images/%s"):format(base, a.split)
   for i, name in ipairs(select(2, files.list(title, folder))) do
      if a.split ~= "test" and not counts[name] then
         files.fail(title, path, "it has no scene for %s", name)
      end
      samples[i] = {folder .. "/" .. name, counts[name]}
   end
   return samples
end)

-- Reads an image of the format PPM with 8 bits (P6). Its header has the width, the height and the
-- largest value, and may have comments.
local function read_ppm(path)
   local title = "vision.datasets.GTSRB"
   local bytes = files.read(title, path)
   local at, numbers = bytes:sub(1, 2) == "P6" and 3 or nil, {}
   while at and #numbers < 3 do
      local number, after = bytes:match("^%s+(%d+)()", at)
      numbers[#numbers + 1] = math.tointeger(tonumber(number))
      at = after or bytes:match("^%s+#[^\n]*()", at)
   end
   if not at or numbers[3] ~= 255 then
      files.fail(title, path, "expected an image of the format P6 with 8 bits")
   end
   return files.tensor(title, path, bytes:sub(at + 1), numbers[2], numbers[1], 3)
      :permute({3, 1, 2}):contiguous()
end

--- German traffic signs of 43 classes, in the folder gtsrb of `root`. `split` is "train" or "test".
--- Items, `transform` and `target_transform` are as in SUN397.
---
---     torch.io.make_folder "gtsrb/GTSRB/Training/00000"
---     local file = assert(io.open("gtsrb/GTSRB/Training/00000/1.ppm", "wb"))
---     file:write "P6 1 1 255\n\1\2\3"
---     file:close()
---     print(torch.vision.datasets.GTSRB("."):get(1):flatten())
---     --> tensor([1, 2, 3], dtype=torch.uint8)
---@class vision.datasets.GTSRB: vision.datasets.VisionDataset
---@field root string  the folder
---@field split string  "train" or "test"
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local GTSRB = class.class("vision.datasets.GTSRB", Dataset)

fill(GTSRB, "split: string = 'train', ", {split = {"train", "test"}}, function(title, a)
   local base = a.root .. "/gtsrb"
   if a.split == "train" then
      local path = base .. "/GTSRB/Training"
      files.list(title, path)
      return torch.data.DatasetFolder(path, read_ppm, {extensions = {".ppm"}}).samples
   end
   local path, samples = base .. "/GT-final_test.csv", {}
   for i, line in ipairs(files.lines(title, path)) do
      local name, label = line:match "^%s*([^;]+%.ppm);.*;%s*(%d+)%s*$"
      if name then
         samples[#samples + 1] = {base .. "/GTSRB/Final_Test/Images/" .. name,
            math.tointeger(tonumber(label)) + 1}
      elseif i > 1 then
         files.fail(title, path, "line %d: expected an image, ..., and a class, got %q", i, line)
      end
   end
   return samples
end, read_ppm)

--- Handwritten characters of 50 alphabets. The folder omniglot-py of `root` contains
--- images_background and images_evaluation, which is read if `background` is false. An item is an
--- image (1, 105, 105) uint8 and the class of its character. `transform` and `target_transform` are
--- called with the two values of an item.
---
---     local folder = "omniglot-py/images_background/Greek/character01"
---     torch.io.make_folder(folder)
---     local image = torch.zeros(1, 105, 105, {dtype = "uint8"})
---     torch.save(image, folder .. "/0001_01.png")
---     local set = torch.vision.datasets.Omniglot "."
---     print(#set, set.classes[1])
---     --> 1	Greek/character01
---@class vision.datasets.Omniglot: vision.datasets.VisionDataset
---@field root string  the folder
---@field classes string[]  the alphabet and the character of each class
---@field samples {[1]: string, [2]: integer}[]  path and class
---@overload fun(root: string, background?: boolean, options?: table): data.Dataset
local Omniglot = class.class("vision.datasets.Omniglot", Dataset)

fill(Omniglot, "background: boolean = true, ", {}, function(title, a)
   local base = ("%s/omniglot-py/images_%s"):format(a.root, a.background and "background"
      or "evaluation")
   local samples, classes = {}, {}
   for _, alphabet in ipairs((files.list(title, base))) do
      for _, character in ipairs((files.list(title, base .. "/" .. alphabet))) do
         local name = alphabet .. "/" .. character
         classes[#classes + 1] = name
         for _, image in ipairs(select(2, files.list(title, base .. "/" .. name))) do
            if image:find "%.png$" then
               samples[#samples + 1] = {("%s/%s/%s"):format(base, name, image), #classes}
            end
         end
      end
   end
   return samples, classes
end, function(path) return torch.load(path):narrow(1, 1, 1):contiguous() end)

-- Captions --------------------------------------------------------------------------------------

--- Photographs with captions. The folder dataset of `root` contains the photographs and the files
--- SBU_captioned_photo_dataset_urls.txt and SBU_captioned_photo_dataset_captions.txt, which have a
--- line for each photograph. An item is an image (3, H, W) uint8 and its caption. Photographs whose
--- file is missing are left out. `transform` and `target_transform` are called with the two values
--- of an item.
---
---     local prefix = "dataset/SBU_captioned_photo_dataset_"
---     torch.io.make_folder "dataset"
---     torch.save(torch.zeros(3, 8, 8, {dtype = "uint8"}), "dataset/1.jpg")
---     local file = assert(io.open(prefix .. "urls.txt", "w"))
---     file:write("http://photos.example/9/1.jpg\n"):close()
---     file = assert(io.open(prefix .. "captions.txt", "w"))
---     file:write("A dark square.\n"):close()
---     print(select(2, torch.vision.datasets.SBU("."):get(1)))
---     --> A dark square.
---@class vision.datasets.SBU: vision.datasets.VisionDataset
---@field root string  the folder
---@field samples {[1]: string, [2]: string}[]  path and caption
---@overload fun(root: string, options?: table): data.Dataset
local SBU = class.class("vision.datasets.SBU", Dataset)

fill(SBU, "", {}, function(title, a)
   local prefix, samples = a.root .. "/dataset/SBU_captioned_photo_dataset_", {}
   local urls = files.lines(title, prefix .. "urls.txt")
   local captions = files.lines(title, prefix .. "captions.txt")
   if #urls ~= #captions then
      files.fail(title, prefix .. "captions.txt", "expected %d lines, one for each URL, got %d",
         #urls, #captions)
   end
   for i, url in ipairs(urls) do
      local path = a.root .. "/dataset/" .. (url:match "([^/%s]+)%s*$" or "")
      if files.exists(path) then samples[#samples + 1] = {path, captions[i]:match "^(.-)%s*$"} end
   end
   return samples
end)

--- Photographs with five captions each. `root` is the folder of the photographs, and `ann_file` is
--- the list of the captions: a line has the name of a photograph, "#" with a digit, a tabulator and
--- a caption. An item is an image (3, H, W) uint8 and the list of its captions. `transform` and
--- `target_transform` are called with the two values of an item.
---
---     torch.save(torch.zeros(3, 8, 8, {dtype = "uint8"}), "7.jpg")
---     local file = assert(io.open("list.token", "w"))
---     file:write("7.jpg#0\tA dark square.\n7.jpg#1\tNight.\n"):close()
---     local set = torch.vision.datasets.Flickr30k(".", "list.token")
---     print(select(2, set:get(1))[2])
---     --> Night.
---@class vision.datasets.Flickr30k: vision.datasets.VisionDataset
---@field root string  the folder of the photographs
---@field samples {[1]: string, [2]: string[]}[]  path and captions
---@overload fun(root: string, ann_file: string, options?: table): data.Dataset
local Flickr30k = class.class("vision.datasets.Flickr30k", Dataset)

fill(Flickr30k, "ann_file: string, ", {}, function(title, a)
   local captions, names, samples = {}, {}, {}
   for i, line in ipairs(files.lines(title, a.ann_file)) do
      local name, caption = line:match "^%s*(.-)#%d\t(.-)%s*$"
      if not name then
         files.fail(title, a.ann_file,
            "line %d: expected a photograph, # with a digit, a tabulator and a caption, got %q", i,
            line)
      end
      if not captions[name] then
         captions[name], names[#names + 1] = {}, name
      end
      table.insert(captions[name], caption)
   end
   table.sort(names)
   for i, name in ipairs(names) do samples[i] = {a.root .. "/" .. name, captions[name]} end
   return samples
end)

-- Tables of pixels --------------------------------------------------------------------------------

-- Fills a class whose images and targets are tensors or lists. read(title, a) returns both.
local function fill_table(Class, parameters, choices, read)
   fill(Class, parameters, choices, function(title, a) return {read(title, a)} end)

   function Class:__len() return #self.samples[1] end

   function Class:load(i) return self.samples[1][i], self.samples[2][i] end
end

--- Handwritten digits, in the file semeion.data of `root`. An item is an image (1, 16, 16) uint8
--- and its class: the digit plus 1. `transform` and `target_transform` are called with the two
--- values of an item.
---
---     local file = assert(io.open("semeion.data", "w"))
---     file:write(("1.0000 "):rep(256), "0 0 1 0 0 0 0 0 0 0\n"):close()
---     local image, label = torch.vision.datasets.SEMEION("."):get(1)
---     print(image[{1, 1, 1}]:item(), label)
---     --> 255	3
---@class vision.datasets.SEMEION: vision.datasets.VisionDataset
---@field root string  the folder
---@field samples {[1]: Tensor[], [2]: integer[]}  the images and the classes
---@overload fun(root: string, options?: table): data.Dataset
local SEMEION = class.class("vision.datasets.SEMEION", Dataset)

fill_table(SEMEION, "", {}, function(title, a)
   local path, images, labels = a.root .. "/semeion.data", {}, {}
   for i, line in ipairs(files.lines(title, path)) do
      local numbers, label = {}, nil
      for word in line:gmatch "%S+" do numbers[#numbers + 1] = tonumber(word) end
      for digit = 1, 10 do
         if numbers[256 + digit] == 1 then label = label and 0 or digit end
      end
      if #numbers ~= 266 or not label or label == 0 then
         files.fail(title, path, "line %d: expected 256 pixels and 10 numbers with a single 1", i)
      end
      local pixels = torch.tensor(table.move(numbers, 1, 256, 1, {}))
      images[i], labels[i] = (pixels * 255):to("uint8"):view(1, 16, 16), label
   end
   return images, labels
end)

--- Faces with one of seven emotions. The folder fer2013 of `root` contains fer2013.csv,
--- icml_face_data.csv, or the files train.csv and test.csv. `split` is "train" or "test". An item
--- is an image (1, 48, 48) uint8 and its class, which is nil in test.csv. `transform` and
--- `target_transform` are called with the two values of an item.
---
---     torch.io.make_folder "fer2013"
---     local file = assert(io.open("fer2013/train.csv", "w"))
---     file:write("emotion,pixels\n3,", ("9 "):rep(48 * 48), "\n"):close()
---     local image, label = torch.vision.datasets.FER2013("."):get(1)
---     print(image.shape, label)
---     --> torch.Size([1, 48, 48])	4
---@class vision.datasets.FER2013: vision.datasets.VisionDataset
---@field root string  the folder
---@field split string  "train" or "test"
---@field samples {[1]: Tensor[], [2]: integer[]}  the images and the classes
---@overload fun(root: string, split?: string, options?: table): data.Dataset
local FER2013 = class.class("vision.datasets.FER2013", Dataset)

-- Returns the fields of a line of a CSV file without spaces and quotation marks at their ends.
local function fields_of(line)
   local list = {}
   for field in (line .. ","):gmatch "([^,]*)," do
      list[#list + 1] = field:match '^[%s"]*(.-)[%s"]*$'
   end
   return list
end

fill_table(FER2013, "split: string = 'train', ", {split = {"train", "test"}}, function(title, a)
   local base, path = a.root .. "/fer2013/", nil
   for _, name in ipairs {"fer2013.csv", "icml_face_data.csv", a.split .. ".csv"} do
      path = base .. name
      if files.exists(path) then break end
   end
   local lines, column, images, labels = files.lines(title, path), {}, {}, {}
   for k, name in ipairs(fields_of(lines[1])) do column[name] = k end
   if not column.pixels then files.fail(title, path, "expected a column named pixels") end
   for i = 2, #lines do
      local row, pixels = fields_of(lines[i]), {}
      local usage = column.Usage and row[column.Usage]
      if not usage or (usage == "Training") == (a.split == "train") then
         for word in (row[column.pixels] or ""):gmatch "%S+" do
            pixels[#pixels + 1] = math.tointeger(tonumber(word))
         end
         local label = column.emotion and math.tointeger(tonumber(row[column.emotion]))
         if #pixels ~= 48 * 48 or (column.emotion and not (label and label >= 0 and label < 7)) then
            files.fail(title, path, "line %d: expected an emotion from 0 to 6 and %d pixels", i,
               48 * 48)
         end
         images[#images + 1] = torch.tensor(pixels, {dtype = "uint8"}):view(1, 48, 48)
         labels[#images] = label and label + 1
      end
   end
   return images, labels
end)

return M
