-- Tests transforms that move images, masks, boxes and keypoints. Results must equal those that fixtures/geometry.py has
-- written with torchvision, and integers must be equal to the last bit.

local torch = require "tlua"
local device = require "spec.support.device"

local f = torch.vision.transforms.v2.functional
local resample = require "tlua.vision.transforms.resample"
local tv = torch.vision.tv_tensors
local saved = torch.load "rocks/vision/spec/fixtures/geometry.pt"

local function place(x) return x:to(device.name or "cpu") end

local from <const>, to <const> = {{0, 0}, {25, 0}, {25, 19}, {0, 19}}, {{3, 1}, {22, 4}, {24, 17}, {1, 15}}
local coefficients <const> = {1.1, 0.1, -2, 0.05, 0.9, 1, 0.002, -0.003}

local calls <const> = {
   affine = function(x) return f.affine(x, 17.5, {2, -3}, 1.2, {5, -8}) end,
   affine_linear = function(x)
      return f.affine(x, -31.0, {1, 4}, 0.8, {12.0}, {interpolation = "bilinear", fill = 7, center = {4, 9}})
   end,
   rotate = function(x) return f.rotate(x, 33) end,
   rotate_expand = function(x) return f.rotate(x, 33, {expand = true, interpolation = "bilinear"}) end,
   rotate_fill = function(x) return f.rotate(x, -12.5, {center = {3, 4}, fill = 3}) end,
   rotate_90 = function(x) return f.rotate(x, 90) end,
   rotate_90_expand = function(x) return f.rotate(x, 90, {expand = true}) end,
   rotate_180 = function(x) return f.rotate(x, -180) end,
   rotate_270 = function(x) return f.rotate(x, 270, {expand = true}) end,
   perspective = function(x) return f.perspective(x, from, to) end,
   perspective_nearest = function(x) return f.perspective(x, from, to, {interpolation = "nearest", fill = 9}) end,
   coefficients = function(x) return f.perspective(x, {coefficients = coefficients}) end,
   elastic = function(x) return f.elastic(x, saved.displacement) end,
   elastic_nearest = function(x) return f.elastic(x, saved.displacement, {interpolation = "nearest", fill = 1}) end,
   hflip = function(x) return f.hflip(x) end,
   vflip = function(x) return f.vertical_flip(x) end,
   resize = function(x) return f.resize(x, {11, 40}) end,
   resize_short = function(x) return f.resize(x, 9, {max_size = 11}) end,
   resize_long = function(x) return f.resize(x, {max_size = 17}) end,
   crop = function(x) return f.crop(x, -2, 5, 12, 30) end,
   crop_outside = function(x) return f.crop(x, 25, 30, 4, 5) end,
   center = function(x) return f.center_crop(x, {10, 33}) end,
   resized_crop = function(x) return f.resized_crop(x, 2, 3, 15, 20, {12, 9}) end,
   pad = function(x) return f.pad(x, {1, 2, 3, 4}, {fill = 5}) end,
}

local size <const> = {20, 26}
local values <const> = {
   image = place(saved.image), real = place(saved.real), square = place(saved.square),
   mask = tv.Mask(place(saved.mask)),
   points = tv.KeyPoints(place(saved.points), {canvas_size = size}),
   long = tv.KeyPoints(place(saved.points):long(), {canvas_size = size}),
   free = tv.BoundingBoxes(place(saved.xyxy), {format = "xyxy", canvas_size = size, clamping_mode = false}),
}
for _, name in ipairs {"XYXY", "XYWH", "CXCYWH"} do
   for _, prefix in ipairs {"", "int"} do
      values[prefix .. name] = tv.BoundingBoxes(place(saved["in_" .. prefix .. name]),
         {format = name, canvas_size = size})
   end
end

local function largest(expected, actual, what)
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)}, what)
   assert.equal(expected.dtype, actual.dtype, what)
   if expected:numel() == 0 then return 0 end
   return (expected:double() - actual:cpu():double()):abs():max():item()
end

describe("transforms of places", function()
   for key, fn in pairs(calls) do
      it("are those of torchvision: " .. key, function()
         local count = 0
         for kind, value in pairs(values) do
            local expected, what = saved[key .. "_" .. kind], key .. " of " .. kind
            if expected then
               count = count + 1
               local result = fn(value)
               local tensor = torch.is_tensor(result) and result or result.data
               local difference = largest(expected, tensor, what)
               -- Coordinates in float32 have rounding errors. At a border, the fill value (7 or 9) multiplies an error.
               local limit = expected:is_floating_point() and 3e-5 or 0
               assert.is_true(difference <= limit, ("%s differs by %g"):format(what, difference))
               local new_size = saved[key .. "_" .. kind .. "_size"]
               if new_size then assert.same(new_size:tolist(), result.canvas_size, what) end
               assert.equal(torch.type(value), torch.type(result))
            end
         end
         assert.is_true(count >= 12)
      end)
   end

   it("resize boolean images as torchvision does", function()
      local x = torch.tensor {{{0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}}}:bool()
      local function resized(new, options) return f.resize(x, new, options):int()[1]:tolist() end
      assert.same({{1, 1, 1}, {1, 1, 0}}, resized({2, 3}))
      assert.same({{0, 0, 1}, {1, 0, 0}}, resized({2, 3}, {antialias = false}))
      assert.same({{0, 0, 1, 1}, {1, 1, 0, 0}, {1, 1, 0, 0}}, resized({3, 4}))
      assert.same({{0, 0, 0, 1}, {0, 0, 0, 0}, {0, 1, 0, 0}}, resized({3, 4}, {interpolation = "nearest"}))
   end)

   -- The expected numbers come from torchvision 0.29.
   it("resize bytes without antialiasing by sums of integers, and nearest pixels in float32", function()
      local x = (torch.arange(12) * 57 % 256):to("uint8"):view(1, 3, 4)
      local function resized(options) return f.resize(x, {4, 7}, options)[1]:tolist() end
      assert.same({{0, 20, 53, 86, 118, 151, 171}, {143, 106, 47, 69, 101, 134, 154},
         {218, 147, 33, 48, 80, 113, 133}, {200, 129, 15, 30, 62, 95, 115}}, resized {antialias = false})
      assert.same({{0, 6, 52, 90, 122, 157, 179}, {162, 109, 46, 56, 105, 140, 162},
         {255, 162, 26, 18, 79, 114, 136}, {218, 127, 8, 4, 62, 97, 119}},
         resized {interpolation = "bicubic", antialias = false})
      local function counts(old, new, mode)
         local row = torch.arange(0, old, {dtype = "uint8"}):view(1, 1, old)
         return torch.bincount(f.resize(row, {1, new}, {interpolation = mode}):flatten():long() + 1):tolist()
      end
      assert.same({42, 41, 40, 41}, counts(4, 164, "nearest"))
      assert.same({21, 20}, counts(2, 41, "nearest-exact"))
      local mask = tv.Mask(torch.arange(0, 3):view(1, 3))
      local options = {interpolation = "nearest-exact"}
      assert.same({{0, 0, 1, 2, 2}}, f.resize(mask, {1, 5}, options).data:tolist())
      assert.same({{0, 0, 1, 1, 2}}, f.resized_crop(mask, 0, 0, 1, 3, {1, 5}, options).data:tolist())
   end)

   it("resize bytes by the same sums of integers in all sizes", function()
      -- The new widths are below, at and above the 16 elements of a vector. The steps between pixels are below, at and
      -- above the longest step that fits in a vector.
      for _, case in ipairs {{1, 40, 16}, {2, 16, 16}, {3, 90, 33}, {5, 75, 16}, {1, 76, 16}, {3, 15, 20}, {7, 100, 15},
         {2, 40, 57}, {9, 333, 100}} do
         for _, mode in ipairs {"bilinear", "bicubic", "lanczos"} do
            local n, old, new = table.unpack(case)
            local x = torch.randint(0, 2, {1, n, 9, old}, {dtype = "uint8"}) * 255
            x = place(torch.cat({x, torch.randint(0, 256, {1, n, 9, old}, {dtype = "uint8"})}, 3))
            local options = {interpolation = mode}
            assert.is_true(torch.equal(resample(x, 18, new, mode, true), f.resize(x, {18, new}, options)),
               ("%s of %d lines from %d to %d"):format(mode, n * 18, old, new))
            x = x.mT:contiguous()
            assert.is_true(torch.equal(resample(x, new, 18, mode, true), f.resize(x, {new, 18}, options)),
               ("%s of %d columns from %d to %d"):format(mode, 18, old, new))
         end
      end
   end)

   it("pad, fill, equalize and resize as torchvision does", function()
      local image, real = values.image, values.real
      local results = {
         pad_symmetric = f.pad(image, {3, 1, 2, 4}, {padding_mode = "symmetric"}),
         pad_colours = f.pad(image, {3, 1, 2, 4}, {fill = {1, 2, 3}}),
         fill_colours = f.rotate(image, 20, {interpolation = "bilinear", fill = {10, 20, 250}}),
         equalize = f.equalize(image:floor_divide(3) + 40), equalize_real = f.equalize(real / 2),
         equalize_flat = f.equalize(place(torch.full({1, 4, 5}, 9, {dtype = "uint8"}))),
         lanczos = f.resize(image, {31, 17}, {interpolation = "lanczos"}),
         nearest_exact = f.resize(image, {31, 17}, {interpolation = "nearest-exact"}),
      }
      for i, part in ipairs(f.ten_crop(image, {7, 8})) do results["ten" .. i - 1] = part end
      for key, result in pairs(results) do assert.equal(0, largest(saved[key], result, key), key) end
      local lanczos = f.resize(real, {31, 17}, {interpolation = "lanczos"})
      assert.is_true(largest(saved.lanczos_real, lanczos) < 2e-6)
   end)

   it("change batches and videos like single images", function()
      local batch = torch.stack {values.image, values.image:flip {2}}
      for key, fn in pairs(calls) do
         if not key:find "^square" then
            local alone = fn(values.image)
            assert.is_true(torch.equal(alone, fn(batch)[1]), key)
            assert.is_true(torch.equal(alone, fn(tv.Video(batch)).data[1]), key)
            assert.is_true(torch.equal(alone, fn(batch:unsqueeze(1))[1][1]), key)
         end
      end
   end)
end)

describe("boxes and keypoints", function()
   it("are converted between formats with integers rounded as in torchvision", function()
      for _, old in ipairs {"XYXY", "XYWH", "CXCYWH"} do
         for _, new in ipairs {"XYXY", "XYWH", "CXCYWH"} do
            for dtype, boxes in pairs {
               int = torch.tensor {{3, 4, 8, 13}, {0, -3, 5, 2}}, real = torch.tensor {{3.5, 4, 8, 13.25}},
            } do
               local key = ("%s_%s_%s"):format(old, new, dtype)
               local result = f.convert_bounding_box_format(place(boxes), old, new)
               assert.equal(0, largest(saved[key], result, key), key)
            end
         end
      end
   end)

   it("are clamped and removed as in torchvision", function()
      assert.equal(0, largest(saved.clamped, f.clamp_bounding_boxes(values.free, {clamping_mode = "soft"}).data))
      assert.same(saved.xyxy:tolist(), f.clamp_bounding_boxes(values.free).data:cpu():tolist())
      local rest, valid = f.sanitize_bounding_boxes(values.free)
      assert.same(saved.sanitized:tolist(), valid:cpu():tolist())
      assert.equal(saved.sanitized:sum():item(), rest.data:size(1))
      assert.equal(0, largest(saved.clamped_points, f.clamp_keypoints(values.points).data))
      assert.same(saved.sanitized_points:tolist(), select(2, f.sanitize_keypoints(values.points)):cpu():tolist())
   end)

   it("may be empty", function()
      local none = tv.BoundingBoxes(torch.zeros(0, 4), {format = "XYWH", canvas_size = size})
      local nowhere = tv.KeyPoints({}, {canvas_size = size})
      for key, fn in pairs(calls) do
         assert.same({0, 4}, {table.unpack(fn(none).shape)}, key)
         assert.same({0, 2}, {table.unpack(fn(nowhere).shape)}, key)
      end
      assert.same({0, 4}, {table.unpack(f.sanitize_bounding_boxes(none).shape)})
   end)

   it("keep their tensor's methods, and print their kind", function()
      local boxes = values.XYXY
      assert.equal(5, #boxes)
      assert.equal("XYXY", boxes:to("float64").format)
      assert.equal("float64", boxes:to("float64").dtype)
      assert.is_true(torch.is_tensor(boxes:float()))
      assert.matches("^BoundingBoxes%(tensor.*format=XYXY, canvas_size=%(20, 26%), clamping_mode=soft%)$",
         tostring(boxes))
      assert.same({4, 4}, tv.wrap(boxes.data, {like = boxes, canvas_size = {4, 4}}).canvas_size)
   end)
end)

describe("errors of transforms of places", function()
   it("name the function and the argument", function()
      local image = torch.zeros(3, 8, 8)
      for expected, fn in pairs {
         ["geometry_spec.lua:%d+: .*functional.affine: angle: expected finite numbers, got .*nan"] = function()
            f.affine(image, 0 / 0, {0, 0}, 1, 0)
         end,
         ["affine: scale: expected a number above 0, got 0"] = function() f.affine(image, 0, {0, 0}, 0, 0) end,
         ["affine: translate: expected 2 numbers, got 1"] = function() f.affine(image, 0, {0}, 1, 0) end,
         ["affine: interpolation: expected \"nearest\" or \"bilinear\""] = function()
            f.affine(image, 0, {0, 0}, 1, 0, {interpolation = "bicubic"})
         end,
         ["affine: fill: expected a number, or one for each of 3 channels, got 2"] = function()
            f.affine(image, 0, {0, 0}, 1, 0, {fill = {1, 2}})
         end,
         ["rotate: inpt: expected an image with pixels"] = function() f.rotate(torch.zeros(3, 0, 4), 20) end,
         ["perspective: endpoints: expected four corners"] = function()
            f.perspective(image, from, {{0, 0}, {1, 1}, {2, 2}, {3, 3}})
         end,
         ["perspective: coefficients: expected 8 numbers, got 2"] = function()
            f.perspective(image, {coefficients = {1, 2}})
         end,
         ["elastic: displacement: expected a tensor of shape %(1, 8, 8, 2%)"] = function()
            f.elastic(image, torch.zeros(1, 8, 7, 2))
         end,
         ["pad: padding: no pixels are left of an image of 8 x 8"] = function() f.pad(image, -4) end,
         ["pad: padding: expected at most the image's 8 x 8 pixels"] = function()
            f.pad(image, 9, {padding_mode = "symmetric"})
         end,
         ['pad: padding_mode: expected "constant" for boxes and keypoints, got "edge"'] = function()
            f.pad(values.XYXY, 1, {padding_mode = "edge"})
         end,
         ["gaussian_blur: kernel_size: expected less than twice the image's 8 x 8 pixels, got 17 x 3"] = function()
            f.gaussian_blur(image, {3, 17})
         end,
         ["five_crop: inpt: expected an image of at least 9 x 9 pixels"] = function() f.five_crop(image, 9) end,
         ["equalize: inpt: expected uint8 or floating numbers"] = function() f.equalize(image:long()) end,
         ["adjust_brightness: inpt: expected an image or a video, got an instance of .*tv_tensors.Mask"] = function()
            f.adjust_brightness(values.mask, 1)
         end,
         ["resize: inpt: expected an image, a video, a mask, bounding boxes or keypoints, got 3"] = function()
            f.resize(3, 4)
         end,
         ["BoundingBoxes: data: expected a tensor of shape %(n, 4%)"] = function()
            tv.BoundingBoxes(torch.zeros(2, 5), {format = "XYXY", canvas_size = {4, 4}})
         end,
         ['BoundingBoxes: format: expected "XYXY", "XYWH" or "CXCYWH", got "XYWHR"'] = function()
            tv.BoundingBoxes(torch.zeros(2, 4), {format = "XYWHR", canvas_size = {4, 4}})
         end,
         ["KeyPoints: canvas_size: expected a height and a width"] = function()
            tv.KeyPoints(torch.zeros(2, 2), {canvas_size = {4}})
         end,
         ["Mask: data: expected a tensor of shape %(..., H, W%)"] = function() tv.Mask(torch.zeros(2)) end,
         ["clamp_bounding_boxes: a plain tensor needs its format and its canvas_size"] = function()
            f.clamp_bounding_boxes(torch.zeros(2, 4))
         end,
         ["permute_channels: permutation: expected each number from 1 to 3 once, got 0"] = function()
            f.permute_channels(image, {0, 1, 2})
         end,
      } do
         assert.matches(expected, select(2, pcall(fn)))
      end
   end)

   it("are not raised for images without channels", function()
      local image = torch.zeros(0, 8, 9)
      for key, fn in pairs(calls) do
         if not key:find "elastic" then assert.equal(0, fn(image):numel(), key) end
      end
      assert.same({0, 4, 5}, {table.unpack(f.resize(image, {4, 5}).shape)})
   end)
end)
