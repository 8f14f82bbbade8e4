-- Tests transforms as objects. With the random numbers that torchvision has drawn, results must equal those that
-- fixtures/augment.py has written. Our own random numbers must be in their ranges, and samples must keep their
-- structure.

local torch = require "tlua"
local device = require "spec.support.device"

local v2 = torch.vision.transforms.v2
local tv = torch.vision.tv_tensors
local saved = torch.load "rocks/vision/spec/fixtures/augment.pt"

local function place(x) return x:to(device.name or "cpu") end

local image <const> = place(saved.image)
local boxes <const> = tv.BoundingBoxes(place(saved.boxes), {format = "XYXY", canvas_size = {18, 22}})

local function largest(expected, actual, what)
   actual = torch.is_tensor(actual) and actual or actual.data
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)}, what)
   assert.equal(expected.dtype, actual.dtype, what)
   return (expected:double() - actual:cpu():double()):abs():max():item()
end

-- Draws n times. Returns the largest magnitude of each operation, and how often each operation was drawn.
local function draws(transform, n)
   local most, counts = {}, {}
   for _ = 1, n do
      for _, operation in ipairs(transform:make_params {image}) do
         local name, magnitude = table.unpack(operation)
         most[name] = math.max(most[name] or 0, math.abs(magnitude))
         counts[name] = (counts[name] or 0) + 1
      end
   end
   return most, counts
end

describe("automatic augmentation", function()
   it("applies operations as torchvision does", function()
      for name, magnitudes in pairs(saved.ops) do
         for i, magnitude in ipairs(magnitudes) do
            for _, mode in ipairs {"nearest", "bilinear"} do
               for _, fill in ipairs {"none", "fill"} do
                  local transform = v2.RandAugment {interpolation = mode, fill = fill == "fill" and 9}
                  local key = ("op_%s_%d_%s_%s"):format(name, i - 1, mode, fill)
                  local result = transform:transform(image, {{name, magnitude}})
                  assert.equal(0, largest(saved[key], result, key), key)
               end
            end
         end
      end
   end)

   it("has torchvision's policies", function()
      for _, name in ipairs {"imagenet", "cifar10", "svhn"} do
         local list = v2.AutoAugment(name):_policies()
         assert.equal(25, #list)
         for i, pair in ipairs(saved[name]) do
            for k = 1, 2 do
               for field = 1, 3 do assert.equal(pair[k][field], list[i][k][field], name .. i) end
            end
         end
      end
   end)

   it("draws torchvision's operations and magnitudes", function()
      torch.manual_seed(3)
      for class, options in pairs {RandAugment = {num_ops = 4, num_magnitude_bins = 10}, TrivialAugmentWide = {
         num_magnitude_bins = 10,
      }} do
         local most, counts = draws(v2[class](options), 1500)
         for _, name in ipairs(saved[class .. "_names"]) do
            local values = saved[class .. "_" .. name]
            local n = (class == "RandAugment" and 6000 or 1500) / #saved[class .. "_names"]
            assert.is_true(math.abs(counts[name] - n) < 5 * math.sqrt(n), name)
            if values then
               local expected = class == "RandAugment" and values[10]:item() or values:abs():max():item()
               assert.is_true(math.abs(most[name] - expected) < 1e-5, class .. " " .. name)
            end
         end
      end
      local most = draws(v2.AutoAugment "svhn", 1000)
      assert.is_true(math.abs(most.ShearY - saved.AutoAugment_ShearY[9]:item()) < 1e-6)
      assert.is_true(math.abs(most.TranslateY - saved.AutoAugment_TranslateY[8]:item()) < 1e-5)
   end)

   it("mixes images as torchvision's AugMix does", function()
      local count = 0
      for i = 0, 3 do
         local drawn = saved["augmix" .. i]
         if drawn then
            count = count + 1
            local result = v2.AugMix():transform(image, drawn)
            -- The weighted sums are computed in float32, so a sum near an integer may be truncated to this integer or
            -- to the one below.
            assert.is_true(largest(drawn.result, result, "augmix") <= 1)
            assert.is_true((drawn.result:int() - result:cpu():int()):ne(0):sum():item() <= 2)
         end
      end
      assert.is_true(count >= 2)
      local params = v2.AugMix {severity = 2, mixture_width = 5}:make_params {image}
      assert.equal(5, #params.chains)
      assert.is_true(math.abs(params.mix:sum():item() + params.keep:item() - 1) < 1e-6)
      for _, chain in ipairs(params.chains) do assert.is_true(#chain >= 1 and #chain <= 3) end
   end)

   it("accepts only one image and no boxes", function()
      assert.raises("vision.transforms.v2.RandAugment: expected a sample without bounding boxes",
         function() v2.RandAugment()(image, boxes) end)
      assert.raises("vision.transforms.v2.AugMix: expected one image or video in the sample, got 0",
         function() v2.AugMix()("label") end)
      assert.raises('vision.transforms.v2.AutoAugment: policy: expected "imagenet", "cifar10" or "svhn", got "x"',
         function() v2.AutoAugment "x" end)
   end)
end)

describe("random transforms", function()
   local names <const> = {contrast_factor = "contrast", brightness_factor = "brightness", hue_factor = "hue",
      saturation_factor = "saturation"}
   local classes <const> = {
      erase = v2.RandomErasing(), erase_random = v2.RandomErasing(), distort = v2.RandomPhotometricDistort(),
      jitter = v2.ColorJitter(), zoom = v2.RandomZoomOut(5), iou = v2.RandomIoUCrop(), affine = v2.RandomAffine(30),
      perspective = v2.RandomPerspective(), elastic = v2.ElasticTransform(), crop = v2.RandomResizedCrop(9),
      blur = v2.GaussianBlur(5), rotation = v2.RandomRotation(70, {expand = true, fill = 3}),
      shortest = v2.RandomShortestSize {9, 14},
   }

   for key, transform in pairs(classes) do
      it("return torchvision's results for the same random numbers: " .. key, function()
         local params = {}
         for name, value in pairs(saved[key].params) do params[names[name] or name] = value end
         params.inside = params.is_within_crop_area
         for old, new in pairs {fn_idx = "order", channel_permutation = "permutation"} do
            if params[old] then
               params[new] = {}
               for i, place_from_0 in ipairs(params[old]) do params[new][i] = place_from_0 + 1 end
            end
         end
         if params.inside then params.inside = place(params.inside) end
         assert.equal(0, largest(saved[key].image, transform:transform(image, params), key))
         assert.is_true(largest(saved[key].boxes, transform:transform(boxes, params), key) < 1e-5)
      end)
   end

   it("mix batches and labels as torchvision does", function()
      for key, class in pairs {mixup = v2.MixUp, cutmix = v2.CutMix} do
         local own = saved[key].params
         local transform = class {num_classes = 5}
         transform.make_params = function() return {part = own.lam or own.lam_adjusted, box = own.box} end
         local images, labels = transform(place(saved.batch), place(saved.labels + 1))
         assert.is_true(largest(saved[key].images, images) < 1e-6)
         assert.is_true(largest(saved[key].labels, labels) < 1e-6)
         local rows = class()(place(saved.batch), place(torch.eye(5):narrow(1, 1, 4)))
         assert.same({4, 3, 6, 7}, {table.unpack(rows.shape)})
      end
      assert.raises("vision.transforms.v2.MixUp: labels_getter: expected classes from 1 to 5, got 0",
         function() v2.MixUp {num_classes = 5}(saved.batch, saved.labels) end)
      assert.raises("num_classes: expected an integer for labels of shape (n), got nil",
         function() v2.CutMix()(saved.batch, saved.labels + 1) end)
      assert.matches("images: expected a batch of 3 with 4 dimensions, as the labels have, got a float32 tensor",
         select(2, pcall(v2.MixUp {num_classes = 5}, saved.batch, torch.tensor {1, 2, 3})))
   end)

   it("draw numbers from their ranges", function()
      torch.manual_seed(5)
      local sums, n = {}, 400
      for _ = 1, n do
         local p = v2.RandomAffine(30, {translate = {0.5, 0}, scale = {0.5, 1}, shear = {0, 10}}):make_params {image}
         assert.is_true(p.angle >= -30 and p.angle <= 30 and math.abs(p.translate[1]) <= 11 and p.translate[2] == 0)
         assert.is_true(p.scale >= 0.5 and p.scale <= 1 and p.shear[1] >= 0 and p.shear[1] <= 10 and p.shear[2] == 0)
         local c = v2.RandomResizedCrop(4):make_params {image}
         assert.is_true(c.top >= 0 and c.top + c.height <= 18 and c.left >= 0 and c.left + c.width <= 22)
         local e = v2.RandomErasing():make_params {image}
         if e.v then
            local area = e.h * e.w / (18 * 22)
            assert.is_true(area > 0.005 and area < 0.4 and e.i + e.h <= 18 and e.j + e.w <= 22)
         end
         local m = v2.CutMix {num_classes = 2}:make_params {saved.batch}
         assert.is_true(m.part >= 0 and m.part <= 1)
         for key, x in pairs {angle = p.angle, cut = m.part, mix = v2.MixUp():make_params().part} do
            sums[key] = (sums[key] or 0) + x
         end
      end
      assert.is_true(math.abs(sums.angle / n) < 5 * 30 / math.sqrt(3 * n)) -- the limits are five standard errors
      assert.is_true(math.abs(sums.mix / n - 0.5) < 5 * math.sqrt(1 / (12 * n)))
   end)

   it("are applied with their probability", function()
      torch.manual_seed(6)
      local x, changed = torch.tensor {{{1, 2}}}, {flip = 0, apply = 0, choice = 0}
      local flip = v2.RandomHorizontalFlip(1.0)
      local transforms = {
         flip = v2.RandomHorizontalFlip(0.3), apply = v2.RandomApply({flip}, 0.3),
         choice = v2.RandomChoice({flip, v2.Identity()}, {3, 7}),
      }
      for _ = 1, 1000 do
         for name, transform in pairs(transforms) do
            changed[name] = changed[name] + (transform(x)[{1, 1, 1}]:item() == 2 and 1 or 0)
         end
      end
      for name, count in pairs(changed) do assert.is_true(math.abs(count - 300) < 75, name) end
      local seen = {}
      for _ = 1, 60 do
         seen[v2.RandomOrder {
            function(v) return v .. "a" end, function(v) return v .. "b" end, function(v) return v .. "c" end,
         } ""] = true
      end
      local orders = 0
      for _ in pairs(seen) do orders = orders + 1 end
      assert.equal(6, orders)
   end)
end)

describe("samples", function()
   it("are changed together and keep their form", function()
      local mask = tv.Mask(torch.arange(0, 18 * 22):view(1, 18, 22))
      local picture = torch.arange(0, 18 * 22):view(1, 18, 22):float()
      local extra = torch.zeros(2)
      local transform = v2.Compose {
         v2.RandomHorizontalFlip(1.0), v2.RandomCrop({8, 9}), v2.ColorJitter {brightness = {1, 1}},
         v2.ToDtype {[torch.Tensor] = "float64", others = false},
      }
      local first, target = transform(picture, {boxes = boxes, masks = {mask}, id = 7, extra = extra})
      assert.equal("float64", first.dtype)
      assert.is_true(torch.equal(first:clamp(0, 1), target.masks[1].data:double():clamp(0, 1)))
      assert.equal(7, target.id)
      assert.is_true(rawequal(extra, target.extra))
      assert.same({8, 9}, target.boxes.canvas_size)
   end)

   it("with an Image leave plain tensors unchanged", function()
      local plain = torch.zeros(3, 8, 8)
      local first, second = v2.CenterCrop(4)(plain, tv.Image(torch.zeros(3, 8, 8)))
      assert.same({3, 8, 8}, {table.unpack(first.shape)})
      assert.same({3, 4, 4}, {table.unpack(second.shape)})
      assert.is_true(torch.is_tensor(v2.ToPureTensor()(second)))
   end)

   it("must have values of one size", function()
      assert.raises("vision.transforms.v2.RandomCrop: expected values of one size in a sample, got 8 x 8 and 18 x 22",
         function() v2.RandomCrop(4)(torch.zeros(3, 8, 8), boxes) end)
   end)

   it("lose small boxes with their labels and masks", function()
      local own = tv.BoundingBoxes({{0, 0, 5, 5}, {3, 3, 3, 9}, {1, 1, 4, 4}}, {format = "XYXY", canvas_size = {9, 9}})
      local labels, masks = torch.tensor {4, 5, 6}, tv.Mask(torch.zeros(3, 9, 9))
      local _, rest = v2.SanitizeBoundingBoxes()(torch.zeros(3, 9, 9), {boxes = own, labels = labels, masks = masks})
      assert.same({4, 6}, rest.labels:tolist())
      assert.same({{0, 0, 5, 5}, {1, 1, 4, 4}}, rest.boxes.data:tolist())
      assert.equal(2, rest.masks.data:size(1))
      assert.raises("labels_getter: expected labels for 3 boxes, got",
         function() v2.SanitizeBoundingBoxes()(own, {labels = torch.zeros(2)}) end)
      assert.raises("labels_getter: no field of the sample has labels",
         function() v2.SanitizeBoundingBoxes()(own, {other = 1}) end)
      assert.equal(2, #v2.SanitizeBoundingBoxes {labels_getter = false}(own))
      assert.raises("expected bounding boxes in the sample",
         function() v2.SanitizeBoundingBoxes {labels_getter = false}(torch.zeros(3, 4, 4)) end)
   end)

   it("pass through transforms of the user's own classes", function()
      local Double = torch.class("Double", v2.Transform)
      function Double:transform(value) return torch.is_tensor(value) and value * 2 or value end
      local x, kept = Double()(torch.ones(1, 1, 1), boxes)
      assert.equal(2, x:item())
      assert.equal("XYXY", kept.format)
   end)
end)

describe("errors of transforms as objects", function()
   it("name the class and the argument", function()
      for expected, fn in pairs {
         ["RandomRotation: degrees: expected a number of at least 0, got %-1"] = function() v2.RandomRotation(-1) end,
         ["RandomRotation: degrees: expected a number or a list of 2, got 3"] = function()
            v2.RandomRotation {1, 2, 3}
         end,
         ["RandomAffine: translate: expected two numbers from 0 to 1"] = function()
            v2.RandomAffine(1, {translate = {2, 0}})
         end,
         ["RandomErasing: scale: expected two increasing numbers from 0 to 1, got"] = function()
            v2.RandomErasing(0.5, {scale = {0.5, 2}})
         end,
         ["RandomGrayscale: p: expected a number from 0 to 1, got 2"] = function() v2.RandomGrayscale(2) end,
         ["RandomPerspective: p: expected a number from 0 to 1, got .*nan"] = function()
            v2.RandomPerspective(0.5, 0 / 0)
         end,
         ["GaussianBlur: kernel_size: expected odd sizes, got 4"] = function() v2.GaussianBlur(4) end,
         ["Compose: transforms: expected at least one transform, got"] = function() v2.Compose {} end,
         ["RandomChoice: p: expected a probability for each of 1 transforms"] = function()
            v2.RandomChoice({v2.Identity()}, {0.5, 0.5})
         end,
         ["RandomIoUCrop: expected bounding boxes in the sample"] = function() v2.RandomIoUCrop()(image) end,
         ["Resize: size: expected an integer, or a max_size"] = function() v2.Resize() end,
         ["JPEG: quality: expected two increasing numbers from 1 to 100"] = function() v2.JPEG(0) end,
         ["LinearTransformation: expected images of 4 numbers, got"] = function()
            v2.LinearTransformation(torch.eye(4), torch.zeros(4))(torch.zeros(3, 4, 4))
         end,
         ["uniform_temporal_subsample: inpt: expected a video"] = function()
            v2.UniformTemporalSubsample(2)(torch.zeros(3, 4, 4))
         end,
      } do
         assert.matches(expected, select(2, pcall(fn)))
      end
   end)
end)
