-- transforms.lua - measures the processor time of transforms and operators on one thread, as transforms.py does for
-- torchvision. Prints a line for each: its name, and the milliseconds of the fastest of five rounds.
--
--    tlua rocks/vision/spec/bench/transforms.lua > ours.txt
--    python rocks/vision/spec/bench/transforms.py ours.txt     # prints both beside one another

local torch = require "tlua"

local T = torch.vision.transforms.v2
local f, ops = T.functional, torch.vision.ops

torch.set_num_threads(1)
torch.manual_seed(0)

local function measure(name, fn, n)
   fn()
   local best = math.huge
   for _ = 1, 5 do
      local start = os.clock()
      for _ = 1, n or 20 do fn() end
      best = math.min(best, (os.clock() - start) / (n or 20))
   end
   print(("%s\t%.4f"):format(name, best * 1e3))
end

-- A picture of smooth colours with noise, of 375 x 500 pixels like many pictures of ImageNet.
local small = torch.rand(1, 3, 24, 32)
local smooth = torch.nn.functional.interpolate(small, {size = {375, 500}, mode = "bicubic", align_corners = false})[1]
local picture = (smooth:clamp(0, 1) * 255 + torch.randn(3, 375, 500) * 6):clamp(0, 255):to "uint8"
local bytes = torch.frombuffer(torch.io.encode_jpeg(picture, 90), {dtype = "uint8"})
local image = torch.io.decode_image(bytes)
local square = f.resize(image, {224, 224})
local real = f.to_dtype(square, "float32", true)

local mean, std = {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}
local pipeline = T.Compose {
   T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToDtype("float32", true), T.Normalize(mean, std),
}

measure("decode", function() torch.io.decode_image(bytes) end)
measure("resize 224", function() f.resize(image, {224, 224}) end)
measure("resized_crop 224", function() f.resized_crop(image, 40, 60, 250, 300, {224, 224}) end)
measure("resize 224, bicubic", function() f.resize(image, {224, 224}, {interpolation = "bicubic"}) end)
measure("flip", function() f.horizontal_flip(square) end)
measure("to float32", function() f.to_dtype(square, "float32", true) end)
measure("normalize", function() f.normalize(real, mean, std) end)
measure("decode, crop, flip, normalise", function() pipeline(torch.io.decode_image(bytes)) end)
measure("brightness", function() f.adjust_brightness(square, 1.3) end)
measure("contrast", function() f.adjust_contrast(square, 1.3) end)
measure("saturation", function() f.adjust_saturation(square, 1.3) end)
measure("hue", function() f.adjust_hue(square, 0.1) end)
measure("sharpness", function() f.adjust_sharpness(square, 1.5) end)
measure("equalize", function() f.equalize(square) end)
measure("autocontrast", function() f.autocontrast(square) end)
measure("posterize", function() f.posterize(square, 4) end)
measure("blur 5", function() f.gaussian_blur(square, 5, 1.2) end)
measure("rotate", function() f.rotate(square, 20) end)
measure("rotate, bilinear", function() f.rotate(square, 20, {interpolation = "bilinear", fill = 0}) end)
measure("perspective", function()
   f.perspective(square, {{0, 0}, {223, 0}, {223, 223}, {0, 223}}, {{9, 5}, {211, 8}, {220, 215}, {4, 219}}, {fill = 0})
end)
measure("RandAugment", function()
   torch.manual_seed(1)
   for _ = 1, 10 do T.RandAugment()(square) end
end, 2)

for _, n in ipairs {100, 1000, 3000} do
   local corner = torch.rand(n, 2) * 400
   local boxes, scores = torch.cat({corner, corner + torch.rand(n, 2) * 40 + 1}, 2), torch.rand(n)
   measure("nms " .. n, function() ops.nms(boxes, scores, 0.5) end, 3)
end
local features = torch.rand(1, 64, 50, 50)
local corner = torch.rand(100, 2) * 30
local boxes = {torch.cat({corner, corner + torch.rand(100, 2) * 18 + 1}, 2)}
measure("roi_align 100", function() ops.roi_align(features, boxes, 7, {sampling_ratio = 2}) end, 3)
measure("roi_pool 100", function() ops.roi_pool(features, boxes, 7) end, 3)
local groups = torch.rand(1, 98, 50, 50)
measure("ps_roi_align 100", function() ops.ps_roi_align(groups, boxes, 7, {sampling_ratio = 2}) end, 3)
measure("ps_roi_pool 100", function() ops.ps_roi_pool(groups, boxes, 7) end, 3)
local offset, weight = torch.randn(1, 18, 50, 50), torch.randn(64, 64, 3, 3)
measure("deform_conv2d", function() ops.deform_conv2d(features, offset, weight, nil, {padding = 1}) end, 3)
