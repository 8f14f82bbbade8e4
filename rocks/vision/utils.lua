-- utils.lua - torch.vision.utils: arranges batches of images in one picture, and draws into images.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"

local M = {}

local grid_parameters <const> = [[nrow: integer = 8, padding: count = 2,
   normalize: boolean = false, value_range: numbers?, scale_each: boolean = false,
   pad_value: number = 0]]

-- Maps the values of images from the range {low, high} to the range from 0 to 1.
local function stretch(images, range)
   local low = range and range[1] or images:min():item()
   local high = range and range[2] or images:max():item()
   return images:clamp(low, high):sub(low):div(math.max(high - low, 1e-5))
end

-- Returns a tensor or a list of images as one batch (N, C, H, W). Images of one channel are
-- repeated to three channels.
local function batch_of(title, images)
   if type(images) == "table" and not torch.is_tensor(images) then
      if #images == 0 then args.refuse(title, "tensor", "at least one image", images) end
      for i = 1, #images do
         local image = images[i]
         if not torch.is_tensor(image) or image:size() ~= images[1]:size() then
            args.refuse(title, "tensor", "images of one shape", image)
         end
      end
      images = torch.stack(images)
   end
   local is_tensor = torch.is_tensor(images)
   if not is_tensor or images:dim() < 2 or images:dim() > 4 or images:numel() == 0 then
      args.refuse(title, "tensor", "images of shape (N, C, H, W), or a list of them", images)
   end
   if images:dim() == 2 then images = images:unsqueeze(1) end
   if images:dim() == 3 then images = images:unsqueeze(1) end
   return images:size(2) == 1 and torch.cat({images, images, images}, 2) or images
end

local function grid_of(title, a)
   if a.nrow < 1 then args.refuse(title, "nrow", "at least 1", a.nrow) end
   if a.value_range and #a.value_range ~= 2 then
      args.refuse(title, "value_range", "two numbers", a.value_range)
   end
   local images = batch_of(title, a.tensor)
   if a.normalize then
      if a.scale_each then
         local list = {}
         for i = 1, images:size(1) do list[i] = stretch(images[i], a.value_range) end
         images = torch.stack(list)
      else
         images = stretch(images, a.value_range)
      end
   end
   local count, channels, height, width = table.unpack(images.shape)
   if count == 1 then return images[1] end
   local columns = math.min(a.nrow, count)
   local rows, gap = (count + columns - 1) // columns, a.padding
   local shape = {channels, (height + gap) * rows + gap, (width + gap) * columns + gap}
   local grid = images:new_full(shape, a.pad_value)
   for i = 0, count - 1 do
      local top, left = (height + gap) * (i // columns) + gap, (width + gap) * (i % columns) + gap
      grid:narrow(2, top + 1, height):narrow(3, left + 1, width):copy_(images[i + 1])
   end
   return grid
end

local take_grid = args.signature("vision.utils.make_grid(tensor: any, " .. grid_parameters .. ")")

--- Arranges a batch of images in rows, side by side, and returns them as one picture. Images of one
--- channel are repeated to three channels. A batch of one image is returned without padding.
---
---     local grid = torch.vision.utils.make_grid(torch.zeros(6, 3, 4, 4), 3)
---     print(grid.shape)
---     --> torch.Size([3, 14, 20])
---@param tensor Tensor|Tensor[]  (N, C, H, W), one image (C, H, W) or (H, W), or a list of images
--- (C, H, W)
---@param nrow? integer  the number of images in a row, 8 by default
---@param options? {padding: integer, normalize: boolean, value_range: number[], scale_each:
--- boolean, pad_value: number}  padding: pixels between images, 2 by default; normalize: whether
--- values are mapped to the range from 0 to 1; value_range: the values that become 0 and 1;
--- scale_each: whether each image has its own range; pad_value: the value between images, 0 by
--- default
---@return Tensor  (C, height, width)
function M.make_grid(...)
   return grid_of("vision.utils.make_grid", take_grid(...))
end

local take_save = args.signature("vision.utils.save_image(tensor: any, fp: string, "
   .. grid_parameters .. ")")

--- Saves a batch of images as one picture, as make_grid returns it. The file's extension determines
--- the format. Values from 0 to 1 become bytes
--- from 0 to 255; values outside this range are clamped.
---
---     torch.vision.utils.save_image(torch.rand(4, 3, 8, 8), "images.png")
---     print(torch.load("images.png").shape)
---     --> torch.Size([3, 12, 42])
---@param tensor Tensor|Tensor[]  (N, C, H, W), one image (C, H, W) or (H, W), or a list of images
--- (C, H, W)
---@param fp string  the file's path
---@param options? {nrow: integer, padding: integer, normalize: boolean, value_range: number[],
--- scale_each: boolean, pad_value: number}  nrow: the number of images in a row, 8 by default;
--- padding: pixels between images, 2 by default; normalize: whether values are mapped to the range
--- from 0 to 1; value_range: the values that become 0 and 1; scale_each: whether each image has its
--- own range; pad_value: the value between images, 0 by default
function M.save_image(...)
   local a = take_save(...)
   local grid = grid_of("vision.utils.save_image", a)
   torch.save(grid:mul(255):add(0.5):clamp(0, 255):to "uint8", a.fp)
end

return lazy.load(M, lazy.modules("tlua.vision", {
   draw = "draw_bounding_boxes draw_segmentation_masks draw_keypoints flow_to_image",
}))
