-- Tests torch.vision.datasets on small files.

local torch = require "tlua"
local shell = require "spec.support.shell"

local datasets = torch.vision.datasets

local fixtures <const> = "rocks/vision/spec/fixtures/"
local saved = torch.load(fixtures .. "datasets.pt")

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
         .. ".gz; nothing is downloaded: get the files from https://", message_of(datasets.MNIST, folder, true,
         {download = true}))
      assert.equal(2, #datasets.MNIST(folder, {train = false, download = true}))
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
      for images, annotations in pairs {["[{\"file_name\": \"b.png\"}]"] = "[]",
         ["[{\"id\": 1}]"] = "[]", ["[3]"] = "[]",
         ["[{\"id\": 1, \"file_name\": \"b.png\"}, {\"id\": \"x\", \"file_name\": \"b.png\"}]"] = "[]",
         ["[{\"id\": 1, \"file_name\": \"b.png\"}, {\"id\": 1, \"file_name\": \"c.png\"}]"] = "[]"} do
         shell.write(folder .. "/a.json", ('{"images": %s, "annotations": %s}'):format(images, annotations))
         assert.matches("a.json: image %d: expected an id of its own and a file_name",
            message_of(datasets.CocoDetection, folder, folder .. "/a.json"))
      end
      shell.write(folder .. "/a.json", '{"images": [], "annotations": [3]}')
      assert.matches("a.json: annotation 1: expected an object with image_id",
         message_of(datasets.CocoDetection, folder, folder .. "/a.json"))
      shell.write(folder .. "/a.json", "[1")
      assert.matches("vision.datasets.CocoDetection: .*a.json: ",
         message_of(datasets.CocoDetection, folder, folder .. "/a.json"))
   end))

   it("reads CIFAR's files for Python and binary ones", shell.in_folder(function(folder)
      local base = folder .. "/cifar-10-batches-py/"
      shell.ok("mkdir -p " .. base .. " && cp " .. fixtures .. "cifar.pickle " .. base .. "test_batch")
      shell.write(base .. "batches.meta", "\x80\2}q\0(U\11label_names]q\1(U\3catq\2U\3dogq\3eu.")
      local set = datasets.CIFAR10(folder, false)
      local image, label = set:get(1)
      assert.is_true(torch.equal(saved.data[1]:view(3, 32, 32), image))
      assert.same({"dog", 2}, {set.classes[label], #set})
      assert.is_true(torch.equal(saved.data:view(2, 3, 32, 32), set.data))
      assert.matches("CIFAR10: .*cifar%-10%-batches%-py or cifar%-10%-batches%-bin with the file data_batch_1; "
         .. "nothing is downloaded", message_of(datasets.CIFAR10, folder, {download = true}))
      local bytes = shell.read(base .. "test_batch")
      for _, n in ipairs {3, 40, 2000, #bytes - 1} do
         shell.write(base .. "test_batch", bytes:sub(1, n))
         assert.matches("CIFAR10: .*test_batch: the pickle cannot be read: ",
            message_of(datasets.CIFAR10, folder, false))
      end
      shell.write(base .. "test_batch", "cos\nsystem\n(U\2lstR.")
      assert.matches("test_batch: the pickle cannot be read: the class os.system",
         message_of(datasets.CIFAR10, folder, false))
      base = folder .. "/cifar-100-binary/"
      shell.ok("mkdir " .. base)
      shell.write(base .. "fine_label_names.txt", "apple\nbear\n")
      shell.write(base .. "test.bin", "\7\1" .. ("\0"):rep(3071) .. "\9")
      image, label = datasets.CIFAR100(folder, false):get(1)
      assert.same({9, 2}, {image[{3, 32, 32}]:item(), label})
      shell.write(base .. "test.bin", "\7\5" .. ("\0"):rep(3072))
      assert.matches("test.bin: expected labels from 0 to 1, got 5", message_of(datasets.CIFAR100, folder, false))
      shell.write(base .. "test.bin", "\7\1")
      assert.matches("test.bin: expected a multiple of 3074 bytes, got 2", message_of(datasets.CIFAR100, folder, false))
   end))

   it("reads SVHN's MATLAB files", shell.in_folder(function(folder)
      local path = folder .. "/test_32x32.mat"
      shell.ok(("cp %ssvhn.mat %s"):format(fixtures, path))
      local set = datasets.SVHN(folder, "test")
      assert.is_true(torch.equal(saved.x:permute {4, 3, 1, 2}, set.data))
      assert.same({1, 4, 2}, set.labels:tolist())
      assert.equal("0", set.classes[select(2, set:get(1))])
      local bytes = shell.read(path)
      for _, n in ipairs {5, 130, #bytes // 2, #bytes - 9} do
         shell.write(path, bytes:sub(1, n))
         assert.matches("SVHN: .*test_32x32.mat: ", message_of(datasets.SVHN, folder, "test"))
      end
      local place = #bytes - 4 - 8 * 9
      shell.write(path, bytes:sub(1, place) .. "\255" .. bytes:sub(place + 2))
      assert.matches("SVHN: .*test_32x32.mat: ", message_of(datasets.SVHN, folder, "test"))
   end))

   it("reads EMNIST's files", shell.in_folder(function(folder)
      shell.ok("mkdir -p " .. folder .. "/EMNIST/raw")
      local raw = folder .. "/EMNIST/raw/emnist-balanced-test-"
      shell.write(raw .. "images-idx3-ubyte", string.pack(">I4I4I4I4", 2051, 1, 2, 2) .. "\1\2\3\4")
      shell.write(raw .. "labels-idx1-ubyte", string.pack(">I4I4B", 2049, 1, 46))
      local set = datasets.EMNIST(folder, "balanced", false)
      assert.same({47, "t"}, {#set.classes, set.classes[select(2, set:get(1))]})
      shell.write(raw .. "labels-idx1-ubyte", string.pack(">I4I4B", 2049, 1, 47))
      assert.matches("expected labels from 0 to 46, got 47", message_of(datasets.EMNIST, folder, "balanced", false))
      assert.matches('EMNIST: split: expected "byclass", .* or "mnist", got "all"',
         message_of(datasets.EMNIST, folder, "all"))
   end))

   it("reads Pascal VOC's annotations and masks", shell.in_folder(function(folder)
      local base = folder .. "/VOCdevkit/VOC2012/"
      shell.ok(("cd %s && mkdir -p VOCdevkit/VOC2012 && cd VOCdevkit/VOC2012 && mkdir -p ImageSets/Main "
         .. "ImageSets/Segmentation JPEGImages Annotations SegmentationClass"):format(folder))
      for _, name in ipairs {"Main", "Segmentation"} do
         shell.write(base .. "ImageSets/" .. name .. "/val.txt", "a1\n")
      end
      torch.save(torch.full({3, 2, 3}, 9, {dtype = "uint8"}), base .. "JPEGImages/a1.jpg")
      shell.write(base .. "Annotations/a1.xml", [[<?xml version="1.0"?><annotation><folder>VOC2012</folder>
         <object><name>cat &amp; dog</name><bndbox><xmin>1</xmin><ymax> 7 </ymax></bndbox></object></annotation>]])
      local image, target = datasets.VOCDetection(folder, {image_set = "val"}):get(1)
      assert.same({3, 2, 3}, {table.unpack(image.shape)})
      assert.same({folder = "VOC2012", object = {{name = "cat & dog", bndbox = {xmin = "1", ymax = "7"}}}},
         target.annotation)
      shell.write(base .. "Annotations/a1.xml", "<annotation><object></annotation>")
      assert.matches("Annotations/a1.xml: </annotation> does not end <object>",
         message_of(function() datasets.VOCDetection(folder, {image_set = "val"}):get(1) end))
      -- the colours with the numbers 0, 1, 15, 20 and 255 in VOC's palette
      local colours = torch.tensor({{0, 128, 192, 0, 224}, {0, 0, 128, 64, 224}, {0, 0, 128, 128, 192}},
         {dtype = "uint8"})
      torch.save(colours:unsqueeze(2), base .. "SegmentationClass/a1.png")
      local mask = select(2, datasets.VOCSegmentation(folder, {image_set = "val"}):get(1))
      assert.same({{0, 1, 15, 20, 255}}, mask:tolist())
      torch.save(colours:unsqueeze(2) + 1, base .. "SegmentationClass/a1.png")
      assert.matches("SegmentationClass/a1.png: it has colours that are not in VOC's palette",
         message_of(function() datasets.VOCSegmentation(folder, {image_set = "val"}):get(1) end))
   end))

   it("reads ImageNet's layout, Caltech101 and Flowers102", shell.in_folder(function(folder)
      local image = torch.full({3, 4, 4}, 200, {dtype = "uint8"})
      for _, wnid in ipairs {"n02", "n01"} do
         shell.ok(("mkdir -p %s/val/%s"):format(folder, wnid))
         torch.save(image, ("%s/val/%s/x.png"):format(folder, wnid))
      end
      torch.save({{n01 = {"goldfish", "fish"}, n02 = {"shark"}}, {"n01"}}, folder .. "/meta.bin")
      local set = datasets.ImageNet(folder, "val")
      assert.same({{"goldfish", "fish"}, {"shark"}}, set.classes)
      assert.equal(2, select(2, set:get(2)))
      local base = folder .. "/caltech101/"
      shell.ok(("mkdir -p %s101_ObjectCategories/ant %s101_ObjectCategories/BACKGROUND_Google %sAnnotations/ant")
         :format(base, base, base))
      torch.save(image, base .. "101_ObjectCategories/ant/image_0001.jpg")
      shell.ok(("cp %scontour.mat %sAnnotations/ant/annotation_0001.mat"):format(fixtures, base))
      local _, both = datasets.Caltech101(folder, {"category", "annotation"}):get(1)
      assert.equal(1, both[1])
      assert.is_true(torch.equal(saved.contour, both[2]))
      base = folder .. "/flowers-102/"
      shell.ok(("mkdir %s && cp %scontour.mat %simagelabels.mat && cp %scontour.mat %ssetid.mat"):format(base, fixtures,
         base, fixtures, base))
      assert.matches("setid.mat: it has no array trnid", message_of(datasets.Flowers102, folder))
   end))

   it("reads datasets of folders and of lists of images", shell.in_folder(function(folder)
      local image = torch.full({3, 4, 4}, 200, {dtype = "uint8"})
      local function save(path)
         shell.ok(("mkdir -p %s/%s"):format(folder, path:match "^(.*)/"))
         torch.save(image, folder .. "/" .. path)
      end
      for _, path in ipairs {"eurosat/2750/River/River_1.jpg", "country211/valid/ZW/1.jpg",
            "rendered-sst2/dev/positive/1.png", "food-101/images/waffles/7.jpg", "dtd/dtd/images/zigzagged/z_1.jpg",
            "fgvc-aircraft-2013b/data/images/0034309.jpg"} do
         save(path)
      end
      shell.ok(("mkdir -p %s/food-101/meta %s/dtd/dtd/labels %s/eurosat/2750/Forest"):format(folder, folder, folder))
      save "eurosat/2750/Forest/Forest_1.jpg"
      shell.write(folder .. "/food-101/meta/test.json", '{"waffles": ["waffles/7"], "apple_pie": ["apple_pie/1"]}')
      shell.write(folder .. "/dtd/dtd/labels/val3.txt", "zigzagged/z_1.jpg\nbanded/b_2.jpg\n")
      local aircraft = folder .. "/fgvc-aircraft-2013b/data/"
      shell.write(aircraft .. "families.txt", "A300\nBoeing 737 \n")
      shell.write(aircraft .. "images_family_test.txt", "0034309 Boeing 737\n")
      local sets = {
         {datasets.EuroSAT(folder), 2, 2, "River"}, {datasets.Country211(folder, "valid"), 1, 1, "ZW"},
         {datasets.RenderedSST2(folder, "val"), 1, 1, "positive"}, {datasets.Food101(folder, "test"), 2, 2, "waffles"},
         {datasets.DTD(folder, "val", 3), 2, 1, "zigzagged"},
         {datasets.FGVCAircraft(folder, "test", "family"), 1, 1, "Boeing 737"},
      }
      for _, row in ipairs(sets) do
         local set, length, i, name = table.unpack(row)
         local pixels, label = set:get(i)
         assert.same({length, name, {3, 4, 4}}, {#set, set.classes[label], {table.unpack(pixels.shape)}})
      end
      shell.write(aircraft .. "images_family_test.txt", "0034309 Boeing 747\n")
      assert.matches("images_family_test.txt: line 1: expected an image and a class, got \"0034309 Boeing 747\"",
         message_of(datasets.FGVCAircraft, folder, "test", "family"), 1, true)
      assert.matches("vision.datasets.DTD: partition: expected an integer from 1 to 10, got 11",
         message_of(datasets.DTD, folder, "val", 11))
      shell.write(folder .. "/food-101/meta/test.json", "{")
      assert.matches("test.json: expected an object with a list of images",
         message_of(datasets.Food101, folder, "test"))
      shell.write(folder .. "/food-101/meta/test.json", '{"waffles": [3]}')
      assert.matches("test.json: waffles: expected names of images, got 3",
         message_of(datasets.Food101, folder, "test"))
   end))

   it("reads CelebA and OxfordIIITPet", shell.in_folder(function(folder)
      local image = torch.full({3, 4, 4}, 200, {dtype = "uint8"})
      shell.ok(("mkdir -p %s/celeba/img_align_celeba"):format(folder))
      local base = folder .. "/celeba/"
      torch.save(image, base .. "img_align_celeba/000001.jpg")
      shell.write(base .. "list_eval_partition.txt", "000001.jpg 0\n000002.jpg 1\n")
      shell.write(base .. "identity_CelebA.txt", "000001.jpg 2880\n000002.jpg 7\n")
      shell.write(base .. "list_bbox_celeba.txt", "2\nimage_id x_1 y_1 width height\n000001.jpg    95  71 226 313\n"
         .. "000002.jpg 1 2 3 4\n")
      local set = datasets.CelebA(folder, "train", {"identity", "bbox"})
      local _, targets = set:get(1)
      assert.equal(1, #set)
      assert.same({2880, {95, 71, 226, 313}}, {targets[1], targets[2]:tolist()})
      shell.write(base .. "list_attr_celeba.txt", "2\na b\n000001.jpg -1 1\n")
      assert.matches("list_attr_celeba.txt: line 3: expected a name and 40 integers",
         message_of(datasets.CelebA, folder, "train"))
      base = folder .. "/oxford-iiit-pet/"
      shell.ok(("mkdir -p %simages %sannotations/trimaps"):format(base, base))
      torch.save(image, base .. "images/great_pyrenees_100.jpg")
      torch.save(torch.full({1, 4, 4}, 3, {dtype = "uint8"}), base .. "annotations/trimaps/great_pyrenees_100.png")
      shell.write(base .. "annotations/test.txt", "great_pyrenees_100 1 2 5\n")
      set = datasets.OxfordIIITPet(folder, "test", {"category", "binary-category", "segmentation"})
      _, targets = set:get(1)
      assert.same({1, 2, 48}, {targets[1], targets[2], targets[3]:sum():item()})
      assert.equal("Great Pyrenees", set.classes[1])
      shell.write(base .. "annotations/test.txt", "great_pyrenees_100 1\n")
      assert.matches("annotations/test.txt: line 1: expected a name and three integers",
         message_of(datasets.OxfordIIITPet, folder, "test"))
   end))

   it("reads further datasets of folders and lists", shell.in_folder(function(folder)
      local image = torch.full({3, 4, 4}, 200, {dtype = "uint8"})
      local function write(path, text)
         path = folder .. "/" .. path
         torch.io.make_folder(path:match "^(.*)/")
         if text then shell.write(path, text) else torch.save(image, path) end
      end
      write("SUN397/ClassName.txt", "/a/abbey\n/b/bar/outdoor\n")
      write "SUN397/a/abbey/sun_b.jpg"
      write "SUN397/b/bar/outdoor/sun_a.jpg"
      write "caltech256/256_ObjectCategories/002.flag/002_0001.jpg"
      write "imagenette2-320/train/n03028079/a.jpg"
      write("categories_places365.txt", "/a/airfield 0\n/z/zen_garden 1\n")
      write("places365_train_standard.txt", "/z/zen_garden/1.jpg 1\n")
      write("places365_test.txt", "1.jpg\n")
      write "data_256_standard/z/zen_garden/1.jpg"
      write "test_large/1.jpg"
      write "clevr/CLEVR_v1.0/images/train/a.png"
      write("clevr/CLEVR_v1.0/scenes/CLEVR_train_scenes.json",
         '{"scenes": [{"image_filename": "a.png", "objects": [1, 2, 3]}]}')
      write("gtsrb/GTSRB/Training/00000/1.ppm", "P6\n# by hand\n255 1 255\n" .. ("\1\2\3"):rep(255))
      write("gtsrb/GTSRB/Final_Test/Images/7.ppm", "P6 4 4 255\n" .. ("\200"):rep(48))
      write("gtsrb/GT-final_test.csv", "Filename;Width;Height;Roi.X1;ClassId\r\n7.ppm;4;4;1;16\r\n")
      write "omniglot-py/images_evaluation/Greek/character02/0001_01.png"
      local sets = {
         {datasets.SUN397(folder), 2, 2, "bar/outdoor"}, {datasets.Caltech256(folder), 1, 1, "002.flag"},
         {datasets.Places365(folder, {small = true}), 1, 2, "/z/zen_garden"},
         {datasets.Places365(folder, "test"), 1}, {datasets.CLEVRClassification(folder), 1, 3},
         {datasets.GTSRB(folder, "test"), 1, 17},
      }
      for _, row in ipairs(sets) do
         local set, length, target, name = table.unpack(row, 1, 4)
         local pixels, label = set:get(length)
         assert.same({length, {3, 4, 4}}, {#set, {table.unpack(pixels.shape)}})
         assert.equal(target, label)
         assert.equal(name, name and set.classes[label])
         assert.equal(200 * 48, pixels:sum():item())
      end
      assert.same({"church", "church building"}, datasets.Imagenette(folder, "train", "320px").classes[1])
      assert.same({3, 1, 255}, {table.unpack(datasets.GTSRB(folder):get(1).shape)})
      assert.equal("tensor([1, 2, 3], dtype=torch.uint8)", tostring(datasets.GTSRB(folder):get(1)[{{}, 1, 255}]))
      local omniglot = datasets.Omniglot(folder, false)
      assert.same({1, 4, 4}, {table.unpack(omniglot:get(1).shape)})
      assert.equal("Greek/character02", omniglot.classes[1])
      for path, case in pairs {
         ["SUN397/ClassName.txt"] = {"abbey\n", "line 1: expected a class such as /a/abbey, got \"abbey\"",
            datasets.SUN397},
         ["categories_places365.txt"] = {"/a/a 3\n", "line 1: expected a class and the number 0", datasets.Places365},
         ["places365_train_standard.txt"] = {"1.jpg 9\n", "line 1: expected an image and a class below 2",
            datasets.Places365},
         ["clevr/CLEVR_v1.0/scenes/CLEVR_train_scenes.json"] = {"[", "expected an object with a list of scenes",
            datasets.CLEVRClassification},
         ["gtsrb/GTSRB/Training/00000/1.ppm"] = {"P6 9", "expected an image of the format P6",
            function(...) return datasets.GTSRB(...):get(1) end},
      } do
         local before = shell.read(folder .. "/" .. path)
         write(path, case[1])
         local message = message_of(case[3], folder)
         write(path, before)
         assert.is_truthy(message:find(path .. ": " .. case[2], 1, true), message)
      end
      assert.matches("nowhere/caltech256", message_of(datasets.Caltech256, "nowhere"))
   end))

   it("reads tables of pixels, QMNIST and captions", shell.in_folder(function(folder)
      shell.write(folder .. "/semeion.data", ("0.0000 "):rep(255) .. "1.0000 0 0 0 0 0 0 0 0 0 1 \n")
      local image, label = datasets.SEMEION(folder):get(1)
      assert.same({255, 255, 10}, {image[{1, 16, 16}]:item(), image:sum():item(), label})
      shell.write(folder .. "/semeion.data", "1 2\n")
      assert.matches("semeion.data: line 1: expected 256 pixels and 10 numbers", message_of(datasets.SEMEION, folder))
      shell.ok("mkdir -p " .. folder .. "/fer2013 " .. folder .. "/QMNIST/raw")
      local pixels = ("7 "):rep(48 * 48 - 1) .. "9"
      local csv = folder .. "/fer2013/icml_face_data.csv"
      shell.write(csv, ("emotion, Usage, pixels\n6,Training,%s\n2,PublicTest,%s\n0,PrivateTest,%s\n"):format(pixels,
         pixels, pixels))
      local set = datasets.FER2013(folder, "test")
      image, label = set:get(1)
      assert.same({2, 9, 3}, {#set, image[{1, 48, 48}]:item(), label})
      assert.equal(1, #datasets.FER2013(folder))
      shell.write(csv, "emotion,pixels\n7," .. pixels .. "\n")
      assert.matches("icml_face_data.csv: line 2: expected an emotion from 0 to 6",
         message_of(datasets.FER2013, folder))
      local raw = folder .. "/QMNIST/raw/qmnist-test-"
      shell.write(raw .. "images-idx3-ubyte", string.pack(">I4I4I4I4", 2051, 2, 2, 2) .. "\1\2\3\4\5\6\7\8")
      local labels = string.pack(">I4I4I4" .. ("I4"):rep(16), 0xC02, 2, 8, 1, 2, 3, 4, 5, 6, 7, 8,
         9, 1, 1, 1, 1, 1, 1, 1)
      shell.write(raw .. "labels-idx2-int", labels)
      assert.equal(10, select(2, datasets.QMNIST(folder, "test"):get(2)))
      local _, all = datasets.QMNIST(folder, {what = "test10k", compat = false}):get(1)
      assert.same({2, 2, 3, 4, 5, 6, 7, 8}, all:tolist())
      assert.equal(0, #datasets.QMNIST(folder, "test50k"))
      shell.write(raw .. "labels-idx2-int", string.pack(">I4I4I4I4", 0xC02, 1, 1, 1))
      assert.matches("labels%-idx2%-int: expected 8 integers for each of 2 images",
         message_of(datasets.QMNIST, folder, "test"))
      torch.save(torch.zeros(3, 2, 2, {dtype = "uint8"}), folder .. "/b.png")
      shell.write(folder .. "/a.json", [[{"images": [{"id": 7, "file_name": "b.png"}],
         "annotations": [{"image_id": 7, "caption": "one"}, {"image_id": 7, "caption": "two"}]}]])
      local captions = datasets.CocoCaptions(folder, folder .. "/a.json")
      assert.same({"one", "two"}, select(2, captions:get(1)))
      shell.write(folder .. "/list.token", "b.png#0\tA b.\n\na.png#0\tAn a.\nb.png#1\tTwo, three \n")
      local flickr = datasets.Flickr30k(folder, folder .. "/list.token")
      assert.same({{"A b.", "Two, three"}, 2}, {select(2, flickr:get(2)), #flickr})
      shell.write(folder .. "/list.token", "b.png A b.\n")
      assert.matches("list.token: line 1: expected a photograph, # with a digit, .* got \"b.png A b.\"",
         message_of(datasets.Flickr30k, folder, folder .. "/list.token"))
      local prefix = folder .. "/dataset/SBU_captioned_photo_dataset_"
      shell.ok("mkdir " .. folder .. "/dataset && cp " .. folder .. "/b.png " .. folder .. "/dataset/2.png")
      shell.write(prefix .. "urls.txt", "http://x/1.png\nhttp://x/y/2.png\r\n")
      shell.write(prefix .. "captions.txt", "first\nsecond \n")
      local sbu = datasets.SBU(folder)
      assert.same({"second", 1}, {select(2, sbu:get(1)), #sbu})
      shell.write(prefix .. "captions.txt", "first\n")
      assert.matches("captions.txt: expected 2 lines, one for each URL, got 1", message_of(datasets.SBU, folder))
      -- All datasets refuse positions at which they have no item.
      for _, i in ipairs {0, 3, -1, 1.5, 99, "2", 0 / 0} do
         for _, own in ipairs {set, captions} do
            assert.has_error(function() own:get(i) end, ("%s: expected a position from 1 to %d, got %s"):format(
               torch.type(own), #own, tostring(i)))
         end
      end
      assert.has_error(function() datasets.FakeData(2, {1, 2, 2}):get() end,
         "vision.datasets.FakeData: expected a position from 1 to 2, got nil")
      shell.ok("mkdir -p " .. folder .. "/images/cat && cp " .. folder .. "/b.png " .. folder .. "/images/cat")
      assert.has_error(function() datasets.ImageFolder(folder .. "/images"):get(2) end,
         "data.ImageFolder: expected a position from 1 to 1, got 2")
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
