-- segment.lua - trains a small U-Net (Ronneberger et al., 2015) to find the pixels of discs,
-- squares and triangles in random drawings. Prints the intersection over union (IoU) of each class
-- on drawings that the training has not seen.
--
--    tlua rocks/vision/examples/segment.lua [steps] [folder]
--
-- The program writes found.png to the folder, a picture of drawings and of the classes that the
-- model has found.

local torch = require "tlua"

local nn, optim = torch.nn, torch.optim
local F = nn.functional
local ops, utils = torch.vision.ops, torch.vision.utils
local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors

local steps, folder = tonumber(arg[1]) or 200, arg[2] or "."
local side <const> = 64
local names <const> = {"background", "disc", "square", "triangle"}

torch.manual_seed(1)
math.randomseed(1)

-- Data --------------------------------------------------------------------------------------------

local x = torch.arange(side):view(1, side):expand(side, side) + 0.5
local y = torch.arange(side):view(side, 1):expand(side, side) + 0.5

-- Returns which pixels belong to a shape whose centre is (cx, cy). The sides of the shape's box
-- have length 2r.
local function shape(class, cx, cy, r)
   local dx, dy = x - cx, y - cy
   if class == 2 then return (dx * dx + dy * dy):le(r * r) end
   local inside = dx:abs():le(r):logical_and(dy:abs():le(r))
   if class == 3 then return inside end
   return inside:logical_and(dx:abs():le((dy + r) / 2))
end

-- Draws one to three shapes, where a later shape covers earlier ones. Returns the image, in uint8,
-- and the mask with the class of each pixel.
local function draw()
   local image = torch.rand(3, side, side) * 60 + torch.rand(3, 1, 1) * 60
   local mask = torch.ones(side, side, {dtype = "int64"})
   for _ = 1, math.random(3) do
      local r, class = 8 + math.random() * 10, math.random(2, #names)
      local cx, cy = r + math.random() * (side - 2 * r), r + math.random() * (side - 2 * r)
      local pixels = shape(class, cx, cy, r)
      for c = 1, 3 do image[c]:masked_fill_(pixels, 100 + 155 * math.random()) end
      mask:masked_fill_(pixels, class)
   end
   return image:to "uint8", mask
end

-- This transform changes the image and the mask in the same way.
local augment = T.Compose {
   T.RandomResizedCrop(side, {scale = {0.6, 1.0}}), T.RandomHorizontalFlip(),
}
local normalize = T.Compose {T.ToDtype("float32", true), T.Normalize({0.3}, {0.25})}

-- Returns images (n, 3, side, side) and masks (n, side, side).
local function batch(n, is_training)
   local images, masks = {}, {}
   for i = 1, n do
      local image, mask = draw()
      if is_training then
         image, mask = augment(image, tv.Mask(mask))
         mask = mask.data
      end
      images[i], masks[i] = image, mask
   end
   return torch.stack(images), torch.stack(masks)
end

-- The model ---------------------------------------------------------------------------------------

local function conv(inputs, outputs, stride)
   return ops.Conv2dNormActivation(inputs, outputs, {stride = stride})
end

-- the channels of the maps, the largest map first; the sides of each map are half of those of the
-- map before
local widths <const> = {12, 24, 48, 64}

local UNet = torch.class("UNet", nn.Module)

function UNet:__init(classes)
   self.down, self.up = nn.ModuleList(), nn.ModuleList()
   local inputs = 3
   for i, width in ipairs(widths) do
      self.down:append(conv(inputs, width, i > 1 and 2 or 1))
      inputs = width
   end
   self.middle = conv(inputs, inputs)
   for i = #widths - 1, 1, -1 do self.up:append(conv(widths[i + 1] + widths[i], widths[i])) end
   self.classifier = nn.Conv2d(widths[1], classes, 1)
end

function UNet:forward(image)
   local maps, map = {}, image
   for i, layer in ipairs(self.down) do
      map = layer(map)
      maps[i] = map
   end
   map = self.middle(map)
   for i, layer in ipairs(self.up) do
      local larger = maps[#maps - i]
      map = layer(torch.cat({F.interpolate(map, {scale_factor = 2}), larger}, 2))
   end
   return self.classifier(map)
end

-- Training ----------------------------------------------------------------------------------------

local model = UNet(#names)
local optimizer = optim.AdamW(model:parameters())
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, {max_lr = 1e-2, total_steps = steps})

for step = 1, steps do
   local images, masks = batch(8, true)
   local loss = F.cross_entropy(model(normalize(images)), masks)
   optimizer:zero_grad()
   loss:backward()
   optimizer:step()
   schedule:step()
   if step % 50 == 0 then print(("step %d  loss %.3f"):format(step, loss:item())) end
end

-- Evaluation --------------------------------------------------------------------------------------

model:eval()
local images, masks = batch(64, false)
local found = torch.no_grad(function() return model(normalize(images)):argmax(2) end)

local sum = 0
for class, name in ipairs(names) do
   local a, b = found:eq(class), masks:eq(class)
   local iou = a:logical_and(b):sum():item() / math.max(1, a:logical_or(b):sum():item())
   sum = sum + iou
   print(("%-10s IoU %.3f"):format(name, iou))
end
print(("mean IoU %.3f"):format(sum / #names))

local pictures = {}
for i = 1, 8 do
   local layers = {}
   for class = 2, #names do layers[class - 1] = found[i]:eq(class) end
   pictures[i] = utils.draw_segmentation_masks(images[i], torch.stack(layers),
      {alpha = 0.6, colors = {"red", "lime", "yellow"}}):float() / 255
end
utils.save_image(pictures, folder .. "/found.png", {nrow = 4})
