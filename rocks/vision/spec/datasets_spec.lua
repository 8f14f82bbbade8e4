-- Tests torch.vision.datasets on small files.

local torch = require "tlua"
local shell = require "spec.support.shell"

local datasets = torch.vision.datasets

local function message_of(fn, ...) return select(2, pcall(fn, ...)) end

describe("torch.vision.datasets", function()
   it("reads MNIST's files", shell.in_folder(function(folder)
      shell.ok("mkdir -p " .. folder .. "/MNIST/raw")
      local raw = folder .. "/MNIST/raw/t10k-"
      shell.write(raw .. "images-idx3-ubyte", string.pack(">I4I4I4I4", 2051, 2, 2, 2) .. "\1\2\3\4\5\6\7\8")
      shell.write(raw .. "labels-idx1-ubyte", string.pack(">I4I4BB", 2049, 2, 0, 9))
      local set = datasets.MNIST(folder, false, {target_transform = function(label) return -label end})
      local image, label = set:get(2)
      assert.same({{{5, 6}, {7, 8}}}, image:tolist())
      assert.equal(-10, label)
      assert.equal(2, #set)
      assert.matches("vision.datasets.MNIST: there is no file .*MNIST/raw/train%-images%-idx3%-ubyte, with or without "
         .. ".gz", message_of(datasets.MNIST, folder))
      shell.write(raw .. "labels-idx1-ubyte", string.pack(">I4I4B", 2049, 1, 0))
      assert.matches("expected as many images as labels", message_of(datasets.MNIST, folder, false))
   end))

   it("reads STL10's files, whose pixels are stored by columns", shell.in_folder(function(folder)
      shell.ok("mkdir " .. folder .. "/stl10_binary")
      local prefix = folder .. "/stl10_binary/train_"
      shell.write(prefix .. "X.bin", "\0\7" .. ("\0"):rep(3 * 96 * 96 - 2))
      shell.write(prefix .. "y.bin", "\3")
      local set = datasets.STL10(folder)
      local image, label = set:get(1)
      assert.equal(7, image[{1, 2, 1}]:item())
      assert.equal("car", set.classes[label])
      shell.write(prefix .. "X.bin", "\0\7")
      assert.matches("train_X.bin: expected a multiple of 27648 bytes, got 2", message_of(datasets.STL10, folder))
      assert.matches('split: expected "train", "test" or "unlabeled", got "all"',
         message_of(datasets.STL10, folder, "all"))
   end))

   it("reads annotations of COCO", shell.in_folder(function(folder)
      torch.save(torch.full({3, 2, 2}, 9, {dtype = "uint8"}), folder .. "/b.png")
      shell.write(folder .. "/a.json", [[{"images": [{"id": 7, "file_name": "b.png"}, {"id": 3, "file_name": "c.png"}],
         "annotations": [{"image_id": 7, "category_id": 2}], "categories": [{"id": 2, "name": "cat"}]}]])
      local set = datasets.CocoDetection(folder, folder .. "/a.json")
      assert.same({3, 7}, set.ids)
      local image, list = set:get(2)
      assert.equal(9, image[{1, 1, 1}]:item())
      assert.equal(2, list[1].category_id)
      shell.write(folder .. "/a.json", [[{"images": [], "annotations": [{"image_id": 7}]}]])
      assert.matches("annotation 1 is of the image 7, which is not in the file",
         message_of(datasets.CocoDetection, folder, folder .. "/a.json"))
      shell.write(folder .. "/a.json", "[1")
      assert.matches("vision.datasets.CocoDetection: .*a.json: ",
         message_of(datasets.CocoDetection, folder, folder .. "/a.json"))
   end))

   it("makes the same random images each time", function()
      local set = datasets.FakeData(5, {1, 4, 4}, {num_classes = 3})
      local image, label = set:get(4)
      local again, same = set:get(4)
      assert.is_true(torch.equal(image, again) and label == same and label >= 1 and label <= 3)
      assert.is_false(torch.equal(image, (set:get(5))))
      assert.has_error(function() set:get(6) end,
         "vision.datasets.FakeData: expected a position from 1 to 5, got 6")
      assert.equal(torch.data.ImageFolder, datasets.ImageFolder)
   end)
end)
