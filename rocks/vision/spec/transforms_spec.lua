-- Tests torch.vision.transforms.v2. Results must equal those that fixtures/transforms.py has written with torchvision,
-- and for uint8 they must be equal to the last bit.

local torch = require "tlua"
local device = require "spec.support.device"

local v2 = torch.vision.transforms.v2
local f = v2.functional
local saved = torch.load "rocks/vision/spec/fixtures/transforms.pt"

local calls <const> = {
   resize = function(x) return f.resize(x, {11, 40}) end,
   resize_short = function(x) return f.resize(x, 10) end,
   resize_max = function(x) return f.resize(x, 20, {max_size = 25}) end,
   resize_plain = function(x) return f.resize(x, {11, 40}, {antialias = false}) end,
   resize_cubic = function(x) return f.resize(x, {12, 17}, {interpolation = "bicubic"}) end,
   resize_nearest = function(x) return f.resize(x, {12, 40}, {interpolation = "nearest"}) end,
   crop = function(x) return f.crop(x, -2, 5, 30, 10) end,
   center = function(x) return f.center_crop(x, {10, 36}) end,
   resized_crop = function(x) return f.resized_crop(x, 2, 3, 15, 20, {12, 12}) end,
   pad = function(x) return f.pad(x, {1, 2, 3, 4}, {fill = 5}) end,
   pad_edge = function(x) return f.pad(x, {1, 2}, {padding_mode = "edge"}) end,
   pad_reflect = function(x) return f.pad(x, 3, {padding_mode = "reflect"}) end,
   gray = function(x) return f.rgb_to_grayscale(x, 3) end,
   brightness = function(x) return f.adjust_brightness(x, 1.37) end,
   saturation = function(x) return f.adjust_saturation(x, 1.7) end,
   contrast = function(x) return f.adjust_contrast(x, 0.61) end,
   hue = function(x) return f.adjust_hue(x, 0.23) end,
   hue_back = function(x) return f.adjust_hue(x, -0.4) end,
   blur = function(x) return f.gaussian_blur(x, {5, 3}) end,
   blur_sigma = function(x) return f.gaussian_blur(x, 7, 1.3) end,
   invert = function(x) return f.invert(x) end,
   posterize = function(x) return f.posterize(x, 3) end,
   solarize = function(x) return f.solarize(x, x.dtype == "uint8" and 100 or 0.4) end,
   autocontrast = function(x)
      return f.autocontrast(x.dtype == "uint8" and x:floor_divide(2) + 20 or x / 2 + 0.1)
   end,
   sharpness = function(x) return f.adjust_sharpness(x, 1.8) end,
   soft = function(x) return f.adjust_sharpness(x, 0.3) end,
   gamma = function(x) return f.adjust_gamma(x, 1.7, 0.9) end,
}

local function place(x) return x:to(device.name or "cpu") end

local function largest(expected, actual)
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)})
   assert.equal(expected.dtype, actual.dtype)
   return (expected:double() - actual:cpu():double()):abs():max():item()
end

describe("transforms of images", function()
   for key, fn in pairs(calls) do
      it("are those of torchvision: " .. key, function()
         -- without antialiasing, the core's kernel rounds only once, so results may differ by 1
         local most = key == "resize_plain" and 1 or 0
         assert.is_true(largest(saved[key], fn(place(saved.image))) <= most, "uint8")
         assert.is_true(largest(saved[key .. "_real"], fn(place(saved.real))) < 2e-6, "float32")
      end)
   end

   it("invert booleans as booleans", function()
      local inverse = f.invert(torch.tensor {{{true, false}}})
      assert.equal("bool", inverse.dtype)
      assert.same({false, true}, inverse:flatten():tolist())
   end)

   it("convert and normalise", function()
      assert.equal(0, largest(saved.to_float, f.to_dtype(place(saved.image), "float32", true)))
      assert.equal(0, largest(saved.to_uint8, f.to_dtype(place(saved.real), "uint8", true)))
      assert.is_true(largest(saved.normalized,
         f.normalize(place(saved.real), {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})) < 1e-6)
   end)

   it("take batches and leave their input unchanged", function()
      local image = place(saved.image)
      local batch = torch.stack {image, image:flip {3}}
      local copy = batch:clone()
      for key, fn in pairs(calls) do
         assert.is_true(torch.equal(fn(image), fn(batch)[1]), key)
         assert.is_true(torch.equal(copy, batch), key)
      end
   end)
end)

describe("random transforms", function()
   it("draw the same values after the same seed", function()
      local transform = v2.Compose {
         v2.RandomResizedCrop(12), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(),
         v2.ColorJitter {brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1},
         v2.ToDtype("float32", true), v2.Normalize({0.5, 0.5, 0.5}, {0.2, 0.2, 0.2}),
      }
      torch.manual_seed(4)
      local first = transform(place(saved.image))
      local second = transform(place(saved.image))
      torch.manual_seed(4)
      assert.is_true(torch.equal(first, transform(place(saved.image))))
      assert.is_false(torch.equal(first, second))
      assert.same({3, 12, 12}, {table.unpack(first.shape)})
   end)

   it("reach every place of a crop", function()
      local seen, x = {}, torch.arange(0, 5, {dtype = "float32"}):view(1, 1, 5)
      for _ = 1, 100 do seen[v2.RandomCrop({1, 3})(x)[{1, 1, 1}]:item()] = true end
      assert.same({[0.0] = true, [1.0] = true, [2.0] = true}, seen)
   end)
end)

describe("errors of transforms", function()
   it("name the argument", function()
      local image = torch.zeros(3, 8, 8)
      for expected, fn in pairs {
         ["transforms_spec.lua:%d+: vision.transforms.v2.functional.resize: inpt: expected an image"] = function()
            f.resize(torch.zeros(8, 8), 4)
         end,
         ["resize: inpt: expected an image with pixels"] = function() f.resize(torch.zeros(3, 0, 4), 4) end,
         ["normalize: mean: expected 1 or 3 numbers, got 2"] = function() f.normalize(image, {1, 2}, {1}) end,
         ["normalize: inpt: expected floating numbers"] = function() f.normalize(image:long(), {1}, {1}) end,
         ["adjust_hue: hue_factor: expected a number from %-0.5 to 0.5, got 1"] = function() f.adjust_hue(image, 1) end,
         ["gaussian_blur: kernel_size: expected odd sizes, got 4"] = function() f.gaussian_blur(image, 4) end,
         ["adjust_brightness: inpt: expected 1 or 3 channels"] = function()
            f.adjust_brightness(torch.zeros(2, 4, 4), 1)
         end,
         ["invert: inpt: expected an image of real numbers, got a complex64"] = function()
            f.invert(image:to "complex64")
         end,
         ["rotate: inpt: expected an image of real numbers, got a complex64"] = function()
            f.rotate(image:to "complex64", 30)
         end,
         ["resize: inpt: expected an image of real numbers, got a complex64"] = function()
            f.resize(image:to "complex64", 4)
         end,
         ["RandomCrop: image: expected at least 9 x 9 pixels"] = function() v2.RandomCrop(9)(image) end,
         ["erase: the rectangle of 4 x 4 pixels at %(6, 6%) is not inside"] = function()
            f.erase(image, 6, 6, 4, 4, torch.zeros(1))
         end,
         ["BoundingBoxes: canvas_size: expected a height and a width"] = function()
            torch.vision.tv_tensors.BoundingBoxes({{1, 2, 3, 4}}, {format = "XYXY", canvas_size = {"8", 8}})
         end,
         ["ColorJitter: hue: expected increasing numbers from %-0.5"] = function() v2.ColorJitter {hue = 0.7} end,
      } do
         assert.matches(expected, select(2, pcall(fn)))
      end
   end)
end)

it("transforms pass labels through, and Compose names one that returns nothing", function()
   local image, label = v2.Compose {v2.Resize(8), v2.CenterCrop(6)}(torch.zeros(3, 10, 12), 7)
   assert.same({3, 6, 6}, image.shape)
   assert.equal(7, label)
   assert.raises("transforms[1]: expected a transform, got the class vision.transforms.v2.ToTensor; call it",
      function() v2.Compose {v2.ToTensor} end)
   assert.raises("transforms[2]: expected a transform, got nil",
      function() v2.Compose {v2.Resize(4), nil, v2.CenterCrop(2)} end)
   assert.raises("vision.transforms.v2.Compose: transforms[2] returned nothing",
      function() v2.Compose {v2.Resize(8), function() end}(torch.zeros(3, 10, 12)) end)
end)

describe("transforms of one's own", function()
   local tv = torch.vision.tv_tensors
   local image, boxes = tv.Image(torch.zeros(3, 5, 6)), {{0, 0, 2, 2}}
   boxes = tv.BoundingBoxes(boxes, {format = tv.BoundingBoxFormat.XYXY, canvas_size = {5, 6}})

   it("find out what a sample contains", function()
      local values = {image, nil, boxes, "label", n = 4}
      assert.is_true(v2.has_any(values, tv.Mask, tv.BoundingBoxes))
      assert.is_false(v2.has_any(values, tv.Mask, torch.Tensor))
      assert.is_true(v2.has_all(values, tv.Image, function(x) return x == "label" end))
      assert.is_false(v2.has_all(values, tv.Image, tv.Video))
      assert.same({5, 6}, v2.query_size(values))
      assert.same({3, 5, 6}, v2.query_chw(values))
      assert.equal(boxes, v2.get_bounding_boxes(values))
      assert.raises("get_keypoints", "expected keypoints", function() v2.get_keypoints {image} end)
      assert.is_true(v2.check_type(boxes, {math.type, tv.BoundingBoxes}))
      assert.is_false(v2.check_type(boxes, {math.type, tv.Video}))
   end)

   it("take uint8 tensors for PIL's images", function()
      local v1 = torch.vision.transforms
      -- As in torchvision, the values are truncated to integers, not rounded.
      local pixels = v1.ToPILImage()(torch.tensor {{0.0, 1, 0.5, 0.999}})
      assert.same({{{0, 255, 127, 254}}}, pixels:tolist())
      assert.equal("uint8", pixels.dtype)
      assert.equal(pixels, v1.ToPILImage("L")(pixels))
      assert.equal(pixels, v1.PILToTensor()(pixels))
      assert.raises("mode: expected \"L\" for 1 channels, got \"RGB\"", function() v1.ToPILImage("RGB")(pixels) end)
      assert.raises("expected an image of 1 to 4 channels", function() f.pil_to_tensor(torch.zeros(5, 2, 2)) end)
      assert.raises("expected uint8 or floating numbers", function() f.to_pil_image(pixels:int()) end)
   end)

   it("scale images of uint16", function()
      local deep = torch.tensor({{{0, 1000, 65535}}}, {dtype = "int32"}):to "uint16"
      assert.same({{{0, 3, 255}}}, f.to_dtype(deep, "uint8", true):tolist())
      assert.same({{{0, 500, 32767}}}, f.to_dtype(deep, "int16", true):tolist())
      assert.near(1000 / 65535, f.to_dtype(deep, "float32", true)[{1, 1, 2}]:item(), 1e-8)
      local back = f.to_dtype(torch.tensor {{{0.0, 0.3, 1}}}, "uint16", true)
      assert.same({{{0, 19660, 65535}}}, back:tolist())
      assert.raises("uint8 cannot be scaled to bool", function() f.to_dtype(saved.image, "bool", true) end)
      assert.raises("float32 cannot be scaled to uint32", function() f.to_dtype(saved.real, "uint32", true) end)
   end)

   it("get errors that name what does not fit", function()
      assert.raises("query_size", "5 x 6 and 9 x 6", function() v2.query_size {image, torch.zeros(3, 9, 6)} end)
      assert.raises("query_chw", "expected an image or a video", function() v2.query_chw {boxes} end)
      assert.raises("query_size", "expected an image, a video, a mask, boxes or keypoints",
         function() v2.query_size {} end)
      for _, wrong in ipairs {3, {}, {3}} do
         assert.raises("has_any", "types_or_checks #1", function() v2.has_any({image}, wrong) end)
      end
      assert.raises("has_any", "types_or_checks #1", function() v2.has_any({image}, nil, tv.Image) end)
      assert.raises("has_all", "types_or_checks #2", function() v2.has_all({image}, tv.Image, nil) end)
      assert.raises("has_all", "flat_inputs", function() v2.has_all(image, tv.Image) end)
   end)

   it("have torchvision's names of options", function()
      local nearest = f.resize(saved.image, {12, 40}, {interpolation = v2.InterpolationMode.NEAREST})
      assert.is_true(torch.equal(saved.resize_nearest, nearest))
      assert.is_true(torch.equal(saved.to_float, f.convert_image_dtype(saved.image)))
      assert.equal(25, #v2.AutoAugment(v2.AutoAugmentPolicy.SVHN):_policies())
   end)
end)

describe("torch.vision.transforms", function()
   local T = torch.vision.transforms

   it("has the classes and functions of v2", function()
      assert.equal(T.v2.Resize, T.Resize)
      assert.equal(T.v2.functional, T.functional)
      local transform = T.Compose {T.Resize(8), T.CenterCrop(6), T.ToTensor(), T.Normalize({0.5}, {0.5})}
      local image = torch.full({1, 10, 12}, 255, {dtype = "uint8"})
      assert.close(torch.ones(1, 6, 6), transform(image), 1e-6)
      assert.same({12, 10}, T.functional.get_image_size(image))
   end)

   it("prints transforms with their options", function()
      local transform = T.Compose {
         T.Resize(8), T.RandomApply({T.Normalize({0.5}, {0.25})}, 0.3), function(x) return x end,
      }
      assert.equal([[Compose(
  (1): Resize(size=8, interpolation=bilinear, antialias=true)
  (2): RandomApply(
    p=0.3
    (1): Normalize(mean={0.5}, std={0.25})
  )
  (3): a function
)]], tostring(transform))
      assert.equal("ToTensor()", tostring(T.ToTensor()))
      assert.equal("LinearTransformation()", tostring(T.LinearTransformation(torch.eye(2), torch.ones(2))))
   end)

   it("divides bytes by 255, exactly, and leaves other images as they are", function()
      local bytes = torch.arange(256):to("uint8"):view(1, 16, 16)
      local x = T.ToTensor()(bytes)
      assert.is_true(torch.equal(bytes:float() / 255, x))
      assert.equal(x, T.ToTensor()(x))
      assert.is_true(torch.equal(x, T.functional.to_tensor(bytes[1])))
      local image, label = T.ToTensor()(torch.vision.tv_tensors.Image(bytes), torch.tensor(3))
      assert.is_true(torch.equal(x, image.data))
      assert.equal("int64", label.dtype)
      assert.raises("to_tensor: inpt: expected an image of shape (C, H, W), which x:permute(3, 1, 2) makes",
         function() T.ToTensor()(torch.zeros(20, 30, 3, {dtype = "uint8"})) end)
      assert.raises("to_tensor: inpt: expected an image or a video, got 5", function() T.functional.to_tensor(5) end)
   end)
end)
