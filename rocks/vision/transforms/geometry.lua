-- geometry.lua - functions of transforms.v2.functional that resize, pad, crop and flip images (...,
-- C, H, W), videos, masks, boxes and keypoints.

local torch = require "tlua"
local args = require "tlua.args"

local kinds = require "tlua.vision.transforms.kinds"
local points = require "tlua.vision.transforms.points"
local resample = require "tlua.vision.transforms.resample"
local tv_tensors = require "tlua.vision.tv_tensors"

local pair <const> = kinds._pair

local F = torch.nn.functional
local as_batch, check, masked = kinds.as_batch, kinds.check, kinds.masked

local M = {}

-- Rounds to the nearest integer, or to the even one of two nearest integers.
local function round_even(x)
   local rounded = math.floor(x + 0.5)
   return x % 1 == 0.5 and rounded % 2 == 1 and rounded - 1 or rounded
end

-- Resize ------------------------------------------------------------------------------------------

-- Returns the new height and width of an image. `size` is a list of both, the size of the smaller
-- side, or nil if only max_size is given.
local function new_size(title, height, width, size, max_size)
   local short, long = math.min(height, width), math.max(height, width)
   if size == nil then
      if not max_size then torch.raise(title .. ": size: expected an integer, or a max_size") end
      if max_size < 1 then args.refuse(title, "max_size", "at least 1", max_size) end
      local new_short = math.max(max_size * short // long, 1)
      if width <= height then return max_size, new_short end
      return new_short, max_size
   end
   if type(size) == "table" and #size == 2 then
      if max_size then
         torch.raise(title .. ": max_size is for one size, that of the smaller side")
      end
      return pair(title, "size", size)
   end
   size = pair(title, "size", size)
   local new_long = math.floor(size * long / short)
   if max_size then
      if max_size <= size then args.refuse(title, "max_size", "more than size", max_size) end
      if new_long > max_size then
         size, new_long = math.max(math.floor(max_size * size / new_long), 1), max_size
      end
   end
   if width <= height then return new_long, size end
   return size, new_long
end

local modes <const> = {nearest = true, ["nearest-exact"] = true, bilinear = true, bicubic = true,
   lanczos = true}
local is_nearest <const> = {nearest = true, ["nearest-exact"] = true}

local function resize_image(image, a, title)
   kinds.check_real(title, image)
   local mode = a.interpolation
   if not modes[mode] then
      args.refuse(title, "interpolation",
         '"nearest", "nearest-exact", "bilinear", "bicubic" or "lanczos"', mode)
   end
   local antialias = a.antialias and not is_nearest[mode]
   if mode == "lanczos" and not antialias then torch.raise(title .. ": lanczos needs antialias") end
   local height, width = image:size(-2), image:size(-1)
   if height == 0 or width == 0 then args.refuse(title, "inpt", "an image with pixels", image) end
   local rows, columns = new_size(title, height, width, a.size, a.max_size)
   if rows == height and columns == width then return image end
   if image:numel() == 0 then
      local shape = {table.unpack(image.shape)}
      shape[#shape - 1], shape[#shape] = rows, columns
      return image:new_empty(shape)
   end
   local options = {size = {rows, columns}, mode = mode}
   if not is_nearest[mode] then options.align_corners, options.antialias = false, antialias end
   local is_byte = image.dtype == "uint8"
   return as_batch(image, function(batch)
      -- PyTorch resizes bytes by sums of integers, except on a GPU without antialiasing.
      -- F.interpolate does so only on the CPU with antialiasing, so `resample` computes the other
      -- cases.
      if is_byte and not is_nearest[mode] and antialias == batch.is_cuda then
         return resample(batch, rows, columns, mode, antialias)
      end
      if image:is_floating_point() or is_byte then return F.interpolate(batch, options) end
      -- As in torchvision, a boolean pixel is true if at least one true pixel contributes to it.
      local resized = F.interpolate(batch:float(), options)
      return image.dtype == "bool" and resized:ne(0) or resized:round():to(image.dtype)
   end)
end

local function resize_mask(mask, a, title)
   local mode = is_nearest[a.interpolation] and a.interpolation or "nearest"
   if not modes[a.interpolation] then mode = a.interpolation end
   return resize_image(mask, {size = a.size, max_size = a.max_size, interpolation = mode}, title)
end

local function resize_points(is_box)
   return function(data, a, title, value)
      local height, width = table.unpack(value.canvas_size)
      if height == 0 or width == 0 then
         args.refuse(title, "inpt", "an image with pixels", ("%d x %d"):format(height, width))
      end
      local rows, columns = new_size(title, height, width, a.size, a.max_size)
      return points.scale(data, columns / width, rows / height, is_box),
         {canvas_size = {rows, columns}}
   end
end

--- Resizes images with their masks, boxes and keypoints. One `size` is the new size of the smaller
--- side; the larger side keeps the proportion and is at most `max_size`. Two sizes are the height
--- and width. Without a size, the larger side becomes `max_size`. Masks take the nearest pixel.
---
---     local image = torch.zeros(3, 20, 30, {dtype = "uint8"})
---     local resize = torch.vision.transforms.v2.functional.resize
---     print(resize(image, 10).shape, resize(image, {8, 9}).shape)
---     --> torch.Size([3, 10, 15])	torch.Size([3, 8, 9])
---@names vision.transforms.functional.resize
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param size? integer|integer[]
---@param options? {interpolation: string, max_size: integer, antialias: boolean}  interpolation:
--- "bilinear" by default, "bicubic", "lanczos", "nearest" or "nearest-exact"; max_size: the limit
--- of the larger side; antialias: whether shrinking averages over all pixels, true by default
---@return any
kinds.define(M, "resize", [[size: integers?, interpolation: string = 'bilinear',
   max_size: integer?, antialias: boolean = true]], {image = resize_image,
   mask = masked(resize_mask), boxes = resize_points(true), keypoints = resize_points(false)})

-- Pad ---------------------------------------------------------------------------------------------

local pad_modes <const> = {constant = "constant", edge = "replicate", reflect = "reflect",
   symmetric = "symmetric"}

-- Returns the positions of the pixels of a side of n pixels that is extended by its mirror image at
-- both ends. The pixel at the edge is repeated.
local function mirrored(n, before, after, device)
   local list = {}
   for i = before, 1, -1 do list[#list + 1] = i end
   for i = 1, n do list[#list + 1] = i end
   for i = n, n - after + 1, -1 do list[#list + 1] = i end
   return torch.tensor(list, {dtype = "int64", device = device})
end

local function pad_symmetric(title, image, left, top, right, bottom)
   local height, width = image:size(-2), image:size(-1)
   if math.max(left, right) > width or math.max(top, bottom) > height then
      torch.raise(("%s: padding: expected at most the image's %d x %d pixels for symmetric padding")
         :format(title, height, width))
   end
   if math.min(left, top, right, bottom) < 0 then
      args.refuse(title, "padding", "numbers of at least 0 for symmetric padding",
         math.min(left, top, right, bottom))
   end
   return image:index_select(-2, mirrored(height, top, bottom, image.device))
      :index_select(-1, mirrored(width, left, right, image.device))
end

local function pad(image, left, top, right, bottom, fill, mode)
   return as_batch(image, function(batch)
      local list = {left, right, top, bottom}
      if mode == "constant" then return F.pad(batch, list, mode, fill) end
      local is_integer = not batch:is_floating_point() and not batch:is_complex()
      local result = F.pad(is_integer and batch:float() or batch, list, mode)
      return is_integer and result:to(batch.dtype) or result
   end)
end

-- Returns how many pixels are added on the left, at the top, on the right and at the bottom, as
-- four numbers.
local function sides(title, padding)
   local p = type(padding) == "number" and {padding} or padding
   local count = #p
   if count ~= 1 and count ~= 2 and count ~= 4 then
      args.refuse(title, "padding", "1, 2 or 4 numbers", padding)
   end
   return p[1], p[2] or p[1], p[3] or p[1], p[4] or p[2] or p[1]
end

-- Checks a fill value, which is a number or a list with one number for each channel, and returns
-- it.
local function fill_of(title, fill, channels)
   if fill == nil or type(fill) == "number" then return fill end
   if type(fill) ~= "table" or #fill ~= 1 and #fill ~= channels then
      args.refuse(title, "fill", ("a number, or one for each of %d channels"):format(channels),
         type(fill) == "table" and #fill or fill)
   end
   for i = 1, #fill do
      if type(fill[i]) ~= "number" then args.refuse(title, "fill", "numbers", fill[i]) end
   end
   return #fill == 1 and fill[1] or fill
end

local function pad_image(image, a, title)
   check(title, image)
   local mode = pad_modes[a.padding_mode]
   if not mode then
      args.refuse(title, "padding_mode", '"constant", "edge", "reflect" or "symmetric"',
         a.padding_mode)
   end
   local left, top, right, bottom = sides(title, a.padding)
   if image:size(-1) + left + right < 1 or image:size(-2) + top + bottom < 1 then
      torch.raise(("%s: padding: no pixels are left of an image of %d x %d"):format(title,
         image:size(-2), image:size(-1)))
   end
   local fill = fill_of(title, a.fill, image:size(-3))
   if type(fill) ~= "table" then
      if mode == "symmetric" then return pad_symmetric(title, image, left, top, right, bottom) end
      return pad(image, left, top, right, bottom, fill or 0, mode)
   end
   if mode ~= "constant" then
      torch.raise(("%s: fill: padding_mode %s takes one number"):format(title, a.padding_mode))
   end
   local result = pad(image, left, top, right, bottom, 0, mode)
   local values = torch.tensor(fill, {device = image.device}):to(image.dtype):view(-1, 1, 1)
   local rows, columns = result:size(-2), result:size(-1)
   if top > 0 then result:narrow(-2, 1, math.min(top, rows)):copy_(values) end
   if left > 0 then result:narrow(-1, 1, math.min(left, columns)):copy_(values) end
   if bottom > 0 then
      local n = math.min(bottom, rows)
      result:narrow(-2, rows - n + 1, n):copy_(values)
   end
   if right > 0 then
      local n = math.min(right, columns)
      result:narrow(-1, columns - n + 1, n):copy_(values)
   end
   return result
end

local function pad_points(data, a, title, value)
   if a.padding_mode ~= "constant" then
      torch.raise(('%s: padding_mode: expected "constant" for boxes and keypoints, got "%s"')
         :format(title, a.padding_mode))
   end
   local left, top, right, bottom = sides(title, a.padding)
   local size = {value.canvas_size[1] + top + bottom, value.canvas_size[2] + left + right}
   data = points.shift(data, left, top, value.format)
   if value.format then data = points.clamp(data, value.format, size, value.clamping_mode) end
   return data, {canvas_size = size}
end

--- Pads images with their masks, boxes and keypoints. `padding` is one number, {horizontal,
--- vertical} or {left, top, right, bottom}.
---
---     local image = torch.ones(1, 2, 2)
---     local pad = torch.vision.transforms.v2.functional.pad
---     print(pad(image, {1, 0})[1])
---     --> tensor([[0., 1., 1., 0.],
---     -->         [0., 1., 1., 0.]])
---@names vision.transforms.functional.pad
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param padding integer|integer[]
---@param options? {fill: number|number[], padding_mode: string}  fill: the value of new pixels, or
--- a list with one value for each channel; 0 by default; padding_mode: "constant" by default,
--- "edge", "reflect" or "symmetric"
---@return any
kinds.define(M, "pad", [[padding: integers, fill: number|numbers?,
   padding_mode: string = 'constant']], {image = pad_image, mask = masked(pad_image),
   boxes = pad_points, keypoints = pad_points})

-- Crops -------------------------------------------------------------------------------------------

local function check_size(title, height, width)
   if height < 1 or width < 1 then
      args.refuse(title, "size", "at least 1 x 1 pixels", ("%d x %d"):format(height, width))
   end
end

local function crop(title, image, top, left, height, width)
   check(title, image)
   check_size(title, height, width)
   local rows, columns = image:size(-2), image:size(-1)
   local from_y, from_x = math.min(math.max(top, 0), rows), math.min(math.max(left, 0), columns)
   local to_y = math.max(math.min(top + height, rows), from_y)
   local to_x = math.max(math.min(left + width, columns), from_x)
   local part = image:narrow(-2, from_y + 1, to_y - from_y):narrow(-1, from_x + 1, to_x - from_x)
   if to_y - from_y == height and to_x - from_x == width then return part end
   local shape = {table.unpack(image.shape)}
   shape[#shape - 1], shape[#shape] = height, width
   local result = image:new_zeros(shape)
   if part:numel() > 0 then
      result:narrow(-2, from_y - top + 1, to_y - from_y)
         :narrow(-1, from_x - left + 1, to_x - from_x):copy_(part)
   end
   return result
end

local function crop_image(image, a, title)
   return crop(title, image, a.top, a.left, a.height, a.width)
end

local function crop_points(data, a, title, value)
   check_size(title, a.height, a.width)
   local size = {a.height, a.width}
   data = points.shift(data, -a.left, -a.top, value.format)
   if value.format then data = points.clamp(data, value.format, size, value.clamping_mode) end
   return data, {canvas_size = size}
end

--- Crops a part out of images with their masks, boxes and keypoints. Pixels outside the image are
--- 0.
---
---     local image = torch.arange(0, 9, {dtype = "float32"}):view(1, 3, 3)
---     local crop = torch.vision.transforms.v2.functional.crop
---     print(crop(image, 1, 1, 2, 2)[1])
---     --> tensor([[4., 5.],
---     -->         [7., 8.]])
---@names vision.transforms.functional.crop
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param top integer  rows above the part
---@param left integer  columns before the part
---@param height integer  the height of the part
---@param width integer  the width of the part
---@return any
kinds.define(M, "crop", "top: integer, left: integer, height: integer, width: integer",
   {image = crop_image, mask = masked(crop_image), boxes = crop_points, keypoints = crop_points})

-- Returns the numbers of rows above and of columns before the central part.
local function middle(rows, columns, height, width)
   return round_even((rows - height) / 2), round_even((columns - width) / 2)
end

local function center_crop(title, image, height, width)
   check(title, image)
   local y, x = math.max(height - image:size(-2), 0), math.max(width - image:size(-1), 0)
   if y > 0 or x > 0 then
      image = crop(title, image, -(y // 2), -(x // 2), image:size(-2) + y, image:size(-1) + x)
   end
   local top, left = middle(image:size(-2), image:size(-1), height, width)
   return crop(title, image, top, left, height, width)
end

local function center_image(image, a, title)
   return center_crop(title, image, pair(title, "output_size", a.output_size))
end

local function center_points(data, a, title, value)
   local height, width = pair(title, "output_size", a.output_size)
   local top, left = middle(value.canvas_size[1], value.canvas_size[2], height, width)
   return crop_points(data, {top = top, left = left, height = height, width = width}, title, value)
end

--- Crops the central part out of images with their masks, boxes and keypoints. A smaller image is
--- first padded with 0.
---
---     local image = torch.zeros(3, 10, 9)
---     local crop = torch.vision.transforms.v2.functional.center_crop
---     print(crop(image, 4).shape)
---     --> torch.Size([3, 4, 4])
---@names vision.transforms.functional.center_crop
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param output_size integer|integer[]  the height and width
---@return any
kinds.define(M, "center_crop", "output_size: integers", {image = center_image,
   mask = masked(center_image), boxes = center_points, keypoints = center_points})

local function resized_crop_image(image, a, title)
   return resize_image(crop_image(image, a, title), a, title)
end

-- In torchvision, resized_crop ignores the interpolation for masks, while resize does not.
local function resized_crop_mask(mask, a, title)
   local part, options = crop_image(mask, a, title), {size = a.size, interpolation = "nearest"}
   return resize_image(part, options, title)
end

local function resized_crop_points(resize)
   return function(data, a, title, value)
      local part, changes = crop_points(data, a, title, value)
      return resize(part, a, title, tv_tensors._like(value, part, changes))
   end
end

--- Crops a part out of images with their masks, boxes and keypoints, as crop does, and resizes it.
---
---     local image = torch.zeros(3, 10, 9)
---     local resized = torch.vision.transforms.v2.functional.resized_crop
---     print(resized(image, 0, 0, 5, 5, {8, 8}).shape)
---     --> torch.Size([3, 8, 8])
---@names vision.transforms.functional.resized_crop
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param top integer  rows above the part
---@param left integer  columns before the part
---@param height integer  the height of the part
---@param width integer  the width of the part
---@param size integer|integer[]  the new size
---@param options? {interpolation: string, antialias: boolean}  interpolation and antialias: as in
--- resize
---@return any
kinds.define(M, "resized_crop", [[top: integer, left: integer, height: integer, width: integer,
   size: integers, interpolation: string = 'bilinear', antialias: boolean = true]],
   {image = resized_crop_image, mask = masked(resized_crop_mask),
   boxes = resized_crop_points(resize_points(true)),
   keypoints = resized_crop_points(resize_points(false))})

local function five(title, image, height, width)
   check(title, image)
   local rows, columns = image:size(-2), image:size(-1)
   if height > rows or width > columns then
      args.refuse(title, "inpt", ("an image of at least %d x %d pixels"):format(height, width),
         image)
   end
   local bottom, right = rows - height, columns - width
   local list = {}
   for i, place in ipairs {{0, 0}, {0, right}, {bottom, 0}, {bottom, right}} do
      list[i] = crop(title, image, place[1], place[2], height, width)
   end
   list[5] = center_crop(title, image, height, width)
   return list
end

-- Defines a function that returns several crops of an image as a list.
local function define_crops(name, parameters, fn)
   local title = "vision.transforms.v2.functional." .. name
   local take = args.signature(title .. "(inpt: any, " .. parameters .. ")")
   M[name] = function(...)
      local a = take(...)
      local kind, value = kinds.of(a.inpt), a.inpt
      if kind ~= "image" and kind ~= "video" then
         args.refuse(title, "inpt", "an image or a video", value)
      end
      local is_plain = torch.is_tensor(value)
      local height, width = pair(title, "size", a.size)
      local list = fn(title, is_plain and value or value.data, height, width, a)
      for i, image in ipairs(list) do
         list[i] = is_plain and image or tv_tensors._like(value, image)
      end
      return list
   end
end

--- Returns five crops of an image: the four corners and the centre.
---
---     local f = torch.vision.transforms.v2.functional
---     local image = torch.zeros(3, 8, 8)
---     print(#f.five_crop(image, 4), #f.ten_crop(image, 4))
---     --> 5	10
---@names vision.transforms.functional.five_crop
---@param inpt any  an image or a video
---@param size integer|integer[]  the height and width
---@return any[]  top left, top right, bottom left, bottom right, centre
define_crops("five_crop", "size: integers", five)

--- Returns the crops of five_crop, and the same crops of the flipped image.
---@names vision.transforms.functional.ten_crop
---@param inpt any  an image or a video
---@param size integer|integer[]  the height and width
---@param vertical_flip? boolean  whether the image is flipped vertically instead of horizontally,
--- false by default
---@return any[]
define_crops("ten_crop", "size: integers, vertical_flip: boolean = false",
   function(title, image, height, width, a)
      local list = five(title, image, height, width)
      local mirrored_image = image:flip {a.vertical_flip and -2 or -1}
      for _, part in ipairs(five(title, mirrored_image, height, width)) do
         list[#list + 1] = part
      end
      return list
   end)

-- Flips -------------------------------------------------------------------------------------------

-- Mirrors boxes in coordinate i (1 for x, 2 for y). `size` is the number of the image's pixels in
-- this dimension.
local function flip_boxes(boxes, format, i, size)
   local result = boxes:clone()
   local low, extent = boxes:select(2, i), boxes:select(2, i + 2)
   if format == "XYXY" then
      result:select(2, i):copy_((extent - size):neg())
      result:select(2, i + 2):copy_((low - size):neg())
   elseif format == "XYWH" then
      result:select(2, i):copy_((low + extent - size):neg())
   else
      result:select(2, i):copy_((low - size):neg())
   end
   return result
end

--- Flips images with their masks, boxes and keypoints horizontally (horizontal_flip or hflip) or
--- vertically (vertical_flip or vflip).
---
---     local image = torch.tensor {{{1, 2, 3}}}
---     print(torch.vision.transforms.v2.functional.horizontal_flip(image))
---     --> tensor([[[3, 2, 1]]])
---@names vision.transforms.functional.horizontal_flip
---@names vision.transforms.functional.vertical_flip
---@names vision.transforms.functional.hflip vision.transforms.functional.vflip
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@return any

for name, i in pairs {horizontal_flip = 1, vertical_flip = 2, hflip = 1, vflip = 2} do
   local function flip(image, _, title) return check(title, image):flip {-i} end
   kinds.define(M, name, "", {image = flip, mask = masked(flip),
      boxes = function(boxes, _, _, value)
         return flip_boxes(boxes, value.format, i, value.canvas_size[3 - i])
      end,
      keypoints = function(data, _, _, value)
         local result = data:clone()
         local own = result:select(-1, i)
         own:copy_((own - (value.canvas_size[3 - i] - 1)):neg())
         return result
      end})
end

M._pair, M._fill_of, M._crop = pair, fill_of, crop

return M
