-- classes.lua - classes of geometric transforms: they resize, crop, flip, rotate or warp images and
-- videos together with their masks, boxes and keypoints.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local functional = require "tlua.vision.transforms.functional"
local random = require "tlua.vision.transforms.random"
local Transform = require "tlua.vision.transforms.Transform"

local M = {}

local prefix <const> = "vision.transforms.v2."
local uniform <const>, below <const>, between <const> = random.uniform, random.below, random.between

local function define(...) Transform._define_in(M, ...) end

local function check_size(title, name, value)
   for _, n in ipairs(args.expand(title, name, #value == 1 and value[1] or value, 2)) do
      if n < 1 then args.refuse(title, name, "sizes of at least 1", n) end
   end
end

local function as_list(value) return type(value) == "number" and {value} or value end

local function resize_options(self)
   return {interpolation = self.interpolation, antialias = self.antialias}
end

-- Returns a method that calls the functional transform `name` with a value and options. The further
-- arguments are the names of the options, which are fields of the object.
local function calls(name, ...)
   local fields = {...}
   return function(self, value)
      local options = {}
      for _, field in ipairs(fields) do options[field] = self[field] end
      return Transform._call(name, value, options)
   end
end

-- Sizes -------------------------------------------------------------------------------------------

--- Resizes images with their masks, boxes and keypoints. `size`, `interpolation`, `max_size` and
--- `antialias` are as in functional.resize.
---
---     local resize = torch.vision.transforms.v2.Resize {8, 6}
---     print(resize(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 8, 6])
---@class vision.transforms.v2.Resize: nn.Module
---@overload fun(size: integer|integer[], options?: table): nn.Module
local Resize = class.class(prefix .. "Resize", Transform)

define(Resize, [[size: integers?, interpolation: string = 'bilinear', max_size: integer?,
   antialias: boolean = true]], calls("resize", "size", "interpolation", "max_size", "antialias"),
   nil, function(title, a)
      if not a.size and not a.max_size then
         torch.raise(title .. ": size: expected an integer, or a max_size")
      end
      if a.size then check_size(title, "size", as_list(a.size)) end
   end)

--- Resizes so that the smaller side has a random size from `min_size` to `max_size` - 1.
--- `interpolation` and `antialias` are as in functional.resize.
---
---     local resize = torch.vision.transforms.v2.RandomResize(5, 6)
---     print(resize(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 5, 6])
---@class vision.transforms.v2.RandomResize: nn.Module
---@overload fun(min_size: integer, max_size: integer, options?: table): nn.Module
local RandomResize = class.class(prefix .. "RandomResize", Transform)

local function resize_to(self, value, params)
   return Transform._call("resize", value, params.size, resize_options(self))
end

define(RandomResize, [[min_size: integer, max_size: integer, interpolation: string = 'bilinear',
   antialias: boolean = true]], resize_to,
   function(self) return {size = {between(self.min_size, self.max_size - 1)}} end,
   function(title, a)
      if a.min_size < 1 or a.max_size <= a.min_size then
         args.refuse(title, "max_size", "more than min_size, and that at least 1", a.max_size)
      end
   end)

--- Resizes so that the smaller side has a random size from the list `min_size`, and the larger side
--- at most `max_size`. `interpolation` and `antialias` are as in functional.resize.
---
---     local resize = torch.vision.transforms.v2.RandomShortestSize({5}, 10)
---     print(resize(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 5, 6])
---@class vision.transforms.v2.RandomShortestSize: nn.Module
---@overload fun(min_size: integer|integer[], max_size?: integer, options?: table): nn.Module
local RandomShortestSize = class.class(prefix .. "RandomShortestSize", Transform)

define(RandomShortestSize, [[min_size: integers, max_size: integer?,
   interpolation: string = 'bilinear', antialias: boolean = true]], resize_to,
   function(self, values)
      local height, width = self:_size_of(values)
      local ratio = self.min_size[1 + below(#self.min_size)] / math.min(height, width)
      if self.max_size then
         ratio = math.min(ratio, self.max_size / math.max(height, width))
      end
      return {size = {math.max(math.floor(height * ratio), 1),
         math.max(math.floor(width * ratio), 1)}}
   end, function(title, a)
      a.min_size = as_list(a.min_size)
      if #a.min_size == 0 then args.refuse(title, "min_size", "sizes", "none") end
      for _, size in ipairs(a.min_size) do
         if size < 1 then args.refuse(title, "min_size", "sizes of at least 1", size) end
      end
      if a.max_size and a.max_size < 1 then
         args.refuse(title, "max_size", "at least 1", a.max_size)
      end
   end)

--- Resizes to the largest size that fits into `target_size`, times a random factor from
--- `scale_range`. `interpolation` and `antialias` are as in functional.resize.
---
---     local jitter = torch.vision.transforms.v2.ScaleJitter({6, 6}, {1, 1})
---     print(jitter(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 5, 6])
---@class vision.transforms.v2.ScaleJitter: nn.Module
---@overload fun(target_size: integer[], scale_range?: number[], options?: table): nn.Module
local ScaleJitter = class.class(prefix .. "ScaleJitter", Transform)

define(ScaleJitter, [[target_size: names, scale_range: numbers?,
   interpolation: string = 'bilinear', antialias: boolean = true]], resize_to,
   function(self, values)
      local height, width = self:_size_of(values)
      local scale = uniform(self.scale_range[1], self.scale_range[2])
      local ratio = math.min(self.target_size[2] / height, self.target_size[1] / width) * scale
      return {size = {math.max(math.floor(height * ratio), 1),
         math.max(math.floor(width * ratio), 1)}}
   end, function(title, a)
      a.scale_range = a.scale_range or {0.1, 2.0}
      check_size(title, "target_size", a.target_size)
      random.check_range(title, "scale_range", a.scale_range, 0, math.huge)
   end)

-- Crops and padding -------------------------------------------------------------------------------

--- Crops the central part of the given `size` out of images with their masks, boxes and keypoints.
---
---     local crop = torch.vision.transforms.v2.CenterCrop(4)
---     print(crop(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 4, 4])
---@class vision.transforms.v2.CenterCrop: nn.Module
---@overload fun(size: integer|integer[]): nn.Module
local CenterCrop = class.class(prefix .. "CenterCrop", Transform)

define(CenterCrop, "size: integers", function(self, value)
   return Transform._call("center_crop", value, self.size)
end, nil, function(title, a) check_size(title, "size", as_list(a.size)) end)

--- Pads images with their masks, boxes and keypoints. `padding`, `fill` and `padding_mode` are as
--- in functional.pad, but `fill` may also be a table whose keys are classes, such as
--- torch.vision.tv_tensors.Mask, or "others".
---
---     local pad = torch.vision.transforms.v2.Pad({1, 0}, {fill = 9})
---     print(pad(torch.ones(1, 1, 2)))
---     --> tensor([[[9., 1., 1., 9.]]])
---@class vision.transforms.v2.Pad: nn.Module
---@overload fun(padding: integer|integer[], options?: table): nn.Module
local Pad = class.class(prefix .. "Pad", Transform)

define(Pad, "padding: integers, fill: any = 0, padding_mode: string = 'constant'",
   function(self, value)
      return Transform._call("pad", value, self.padding,
         {fill = self._fill_for(self.fill, value), padding_mode = self.padding_mode})
   end)

-- Returns the padding, which may be given as 1, 2 or 4 numbers, as {left, top, right, bottom}.
local function four(title, padding)
   local p = as_list(padding)
   if #p ~= 1 and #p ~= 2 and #p ~= 4 then
      args.refuse(title, "padding", "1, 2 or 4 numbers", padding)
   end
   return {p[1], p[2] or p[1], p[3] or p[1], p[4] or p[2] or p[1]}
end

--- Crops a random part of the given `size` out of images with their masks, boxes and keypoints,
--- after padding them by `padding`. `fill` and `padding_mode` are as in Pad; with `pad_if_needed`,
--- images that are smaller than `size` are padded to `size`.
---
---     local crop = torch.vision.transforms.v2.RandomCrop(4, {padding = 1})
---     print(crop(torch.zeros(3, 4, 4)).shape)
---     --> torch.Size([3, 4, 4])
---@class vision.transforms.v2.RandomCrop: nn.Module
---@overload fun(size: integer|integer[], options?: table): nn.Module
local RandomCrop = class.class(prefix .. "RandomCrop", Transform)

define(RandomCrop, [[size: integers, padding: integers?, pad_if_needed: boolean = false,
   fill: any = 0, padding_mode: string = 'constant']], function(self, value, params)
   if params.padding then
      value = Transform._call("pad", value, params.padding,
         {fill = self._fill_for(self.fill, value), padding_mode = self.padding_mode})
   end
   return Transform._call("crop", value, params.top, params.left, params.height, params.width)
end, function(self, values)
   local title = prefix .. "RandomCrop"
   local rows, columns = self:_size_of(values)
   local height, width = table.unpack(args.expand(title, "size", self.size, 2))
   local p = self.padding and four(title, self.padding) or {0, 0, 0, 0}
   rows, columns = rows + p[2] + p[4], columns + p[1] + p[3]
   if self.pad_if_needed then
      local y, x = math.max(height - rows, 0), math.max(width - columns, 0)
      p = {p[1] + x, p[2] + y, p[3] + x, p[4] + y}
      rows, columns = rows + 2 * y, columns + 2 * x
   end
   if rows < height or columns < width then
      args.refuse(title, "image", ("at least %d x %d pixels"):format(height, width),
         ("%d x %d"):format(rows, columns))
   end
   local is_padded = p[1] ~= 0 or p[2] ~= 0 or p[3] ~= 0 or p[4] ~= 0
   return {top = below(rows - height + 1), left = below(columns - width + 1), height = height,
      width = width, padding = is_padded and p or nil}
end, function(title, a)
   check_size(title, "size", as_list(a.size))
   if a.padding then four(title, a.padding) end
end)

-- Returns the top, left, height and width of a random part of an image, or nil after ten failed
-- attempts. The part may have the same size as the image only if `whole` is true.
local function random_part(height, width, scale, ratio, whole)
   for _ = 1, 10 do
      local area = height * width * uniform(scale[1], scale[2])
      local aspect = math.exp(uniform(math.log(ratio[1]), math.log(ratio[2])))
      local w, h = random.round(math.sqrt(area * aspect)), random.round(math.sqrt(area / aspect))
      if whole and w > 0 and h > 0 and w <= width and h <= height or not whole and w < width
            and h < height then
         return {top = below(height - h + 1), left = below(width - w + 1), height = h, width = w}
      end
   end
end

-- Returns the largest central part whose aspect ratio (width / height) is in the range `ratio`.
local function middle_part(height, width, ratio)
   local h, w = height, width
   if width / height < ratio[1] then
      h = random.round(width / ratio[1])
   elseif width / height > ratio[2] then
      w = random.round(height * ratio[2])
   end
   return {top = (height - h) // 2, left = (width - w) // 2, height = h, width = w}
end

--- Crops a random part out of images with their masks, boxes and keypoints, and resizes it to
--- `size`. The area of the part, divided by the image's area, is in the range `scale`, and its
--- aspect ratio (width / height) is in the range `ratio`. `interpolation` and `antialias` are as in
--- functional.resize.
---
---     local crop = torch.vision.transforms.v2.RandomResizedCrop(8)
---     print(crop(torch.zeros(3, 20, 30)).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.RandomResizedCrop: nn.Module
---@overload fun(size: integer|integer[], options?: table): nn.Module
local RandomResizedCrop = class.class(prefix .. "RandomResizedCrop", Transform)

local function check_positive_range(title, name, value)
   if #value ~= 2 or not (value[1] > 0 and value[1] <= value[2]) then
      args.refuse(title, name, "two increasing numbers above 0", value)
   end
end

define(RandomResizedCrop, [[size: integers, scale: numbers?, ratio: numbers?,
   interpolation: string = 'bilinear', antialias: boolean = true]], function(self, value, p)
   local size = args.expand(prefix .. "RandomResizedCrop", "size", self.size, 2)
   return Transform._call("resized_crop", value, p.top, p.left, p.height, p.width, size,
      resize_options(self))
end, function(self, values)
   local height, width = self:_size_of(values)
   if height == 0 or width == 0 then
      args.refuse(prefix .. "RandomResizedCrop", "image", "an image with pixels",
         ("%d x %d"):format(height, width))
   end
   return random_part(height, width, self.scale, self.ratio, true)
      or middle_part(height, width, self.ratio)
end, function(title, a)
   a.scale, a.ratio = a.scale or {0.08, 1.0}, a.ratio or {3 / 4, 4 / 3}
   check_size(title, "size", as_list(a.size))
   check_positive_range(title, "scale", a.scale)
   check_positive_range(title, "ratio", a.ratio)
end)

local function crops(name, ...)
   local fields = {...}
   return function(self, value)
      local options = {}
      for _, field in ipairs(fields) do options[field] = self[field] end
      return functional[name](value, self.size, options)
   end
end

--- Returns a list of five crops of an image or a video: the four corners and the centre.
---
---     local crop = torch.vision.transforms.v2.FiveCrop(4)
---     print(#crop(torch.zeros(3, 10, 12)))
---     --> 5
---@class vision.transforms.v2.FiveCrop: nn.Module
---@overload fun(size: integer|integer[]): nn.Module
local FiveCrop = class.class(prefix .. "FiveCrop", Transform)
define(FiveCrop, "size: integers", crops "five_crop", nil,
   function(title, a) check_size(title, "size", as_list(a.size)) end)

--- Returns a list of the five crops of FiveCrop and of the five crops of the flipped image. The
--- flip is horizontal, or vertical if `vertical_flip` is true.
---
---     local crop = torch.vision.transforms.v2.TenCrop(4)
---     print(#crop(torch.zeros(3, 10, 12)))
---     --> 10
---@class vision.transforms.v2.TenCrop: nn.Module
---@overload fun(size: integer|integer[], vertical_flip?: boolean): nn.Module
local TenCrop = class.class(prefix .. "TenCrop", Transform)
define(TenCrop, "size: integers, vertical_flip: boolean = false",
   crops("ten_crop", "vertical_flip"), nil,
   function(title, a) check_size(title, "size", as_list(a.size)) end)

--- Puts images with their masks, boxes and keypoints, with probability p, at a random place on a
--- canvas of `fill`. The sides of the canvas are the image's, multiplied by a random factor from
--- `side_range`.
---
---     local zoom = torch.vision.transforms.v2.RandomZoomOut(0, {2, 2}, 1.0)
---     print(zoom(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 20, 24])
---@class vision.transforms.v2.RandomZoomOut: nn.Module
---@overload fun(fill?: any, side_range?: number[], p?: number): nn.Module
local RandomZoomOut = class.class(prefix .. "RandomZoomOut", Transform)

define(RandomZoomOut, "fill: any = 0, side_range: names?, p: number = 0.5",
   function(self, value, params)
      return Transform._call("pad", value, params.padding,
         {fill = self._fill_for(self.fill, value)})
   end, function(self, values)
      local height, width = self:_size_of(values)
      local factor = uniform(self.side_range[1], self.side_range[2])
      local x = math.floor(width * factor) - width
      local y = math.floor(height * factor) - height
      local left, top = math.floor(x * uniform(0, 1)), math.floor(y * uniform(0, 1))
      return {padding = {left, top, x - left, y - top}}
   end, function(title, a)
      a.side_range = a.side_range or {1.0, 4.0}
      random.check_range(title, "side_range", a.side_range, 1, math.huge)
   end)

--- Crops a random part out of an image with bounding boxes. A number is chosen from
--- `sampler_options`. If it is 1 or more, the sample is unchanged. Otherwise at least one box whose
--- centre is in the part must have an IoU of at least this number with the part. The sides of the
--- part are the image's sides multiplied by factors from `min_scale` to `max_scale`, and its aspect
--- ratio (width / height) is from `min_aspect_ratio` to `max_aspect_ratio`. After `trials` failed
--- attempts, another number is chosen. After a hundred numbers, the sample is unchanged. Boxes with
--- centres outside the part become 0, and SanitizeBoundingBoxes can remove them.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local options = {format = "XYXY", canvas_size = {40, 60}}
---     local boxes = tv.BoundingBoxes({{10, 10, 30, 30}}, options)
---     local image, rest = T.RandomIoUCrop()(torch.zeros(3, 40, 60), boxes)
---     print(image.shape[2] == rest.canvas_size[1])
---     --> true
---@class vision.transforms.v2.RandomIoUCrop: nn.Module
---@overload fun(options?: table): nn.Module
local RandomIoUCrop = class.class(prefix .. "RandomIoUCrop", Transform)

-- Draws a random part of an image. Returns the part, and a mask of the boxes whose centres are
-- inside. Returns nil if the part does not fulfil the conditions.
local function try_part(self, boxes, height, width, overlap)
   local w = math.floor(width * uniform(self.min_scale, self.max_scale))
   local h = math.floor(height * uniform(self.min_scale, self.max_scale))
   if w < 1 or h < 1 or w / h < self.min_aspect_ratio or w / h > self.max_aspect_ratio then
      return nil
   end
   local left = math.floor((width - w) * uniform(0, 1))
   local top = math.floor((height - h) * uniform(0, 1))
   local x = (boxes:select(2, 1) + boxes:select(2, 3)) * 0.5
   local y = (boxes:select(2, 2) + boxes:select(2, 4)) * 0.5
   local inside = x:gt(left):logical_and(x:lt(left + w)):logical_and(y:gt(top))
      :logical_and(y:lt(top + h))
   local own = boxes:index_select(1, inside:nonzero():squeeze(2))
   if own:size(1) == 0 then return nil end
   local part = torch.tensor({{left, top, left + w, top + h}},
      {dtype = boxes.dtype, device = boxes.device})
   if torch.vision.ops.box_iou(own, part):max():item() < overlap then return nil end
   return {top = top, left = left, height = h, width = w, inside = inside}
end

function RandomIoUCrop._boxes_in(list)
   for i = 1, list.n or #list do
      local value = list[i]
      if class.isinstance(value, torch.vision.tv_tensors.BoundingBoxes) then return value end
   end
   torch.raise(prefix .. "RandomIoUCrop: expected bounding boxes in the sample")
end

function RandomIoUCrop:_check(list)
   self._boxes_in(list)
   for i = 1, list.n do
      local is_image = class.isinstance(list[i], torch.vision.tv_tensors.Image)
      if torch.is_tensor(list[i]) or is_image then return end
   end
   torch.raise(prefix .. "RandomIoUCrop: expected an image in the sample")
end

define(RandomIoUCrop, [[min_scale: number = 0.3, max_scale: number = 1.0,
   min_aspect_ratio: number = 0.5, max_aspect_ratio: number = 2.0, sampler_options: numbers?,
   trials: count = 40]], function(_, value, p)
   if not p.inside then return value end
   local result = Transform._call("crop", value, p.top, p.left, p.height, p.width)
   if not class.isinstance(result, torch.vision.tv_tensors.BoundingBoxes) then return result end
   local outside = p.inside:logical_not():unsqueeze(2)
   return torch.vision.tv_tensors.wrap(result.data:masked_fill(outside, 0), result)
end, function(self, values)
   local height, width = self:_size_of(values)
   local boxes = functional.convert_bounding_box_format(self._boxes_in(values),
      {new_format = "XYXY"}).data
   for _ = 1, 100 do
      local overlap = self.sampler_options[1 + below(#self.sampler_options)]
      if overlap >= 1 then return {} end
      for _ = 1, self.trials do
         local part = try_part(self, boxes, height, width, overlap)
         if part then return part end
      end
   end
   return {}
end, function(title, a)
   a.sampler_options = a.sampler_options or {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0}
   if #a.sampler_options == 0 then args.refuse(title, "sampler_options", "numbers", "none") end
   if not (a.min_scale > 0 and a.min_scale <= a.max_scale and a.max_scale <= 1) then
      args.refuse(title, "max_scale", "a number from min_scale to 1", a.max_scale)
   end
end)

-- Flips and warps ---------------------------------------------------------------------------------

--- Flips images with their masks, boxes and keypoints horizontally with probability p.
---
---     local flip = torch.vision.transforms.v2.RandomHorizontalFlip(1.0)
---     print(flip(torch.tensor {{{1, 2}}}))
---     --> tensor([[[2, 1]]])
---@class vision.transforms.v2.RandomHorizontalFlip: nn.Module
---@overload fun(p?: number): nn.Module
local RandomHorizontalFlip = class.class(prefix .. "RandomHorizontalFlip", Transform)
define(RandomHorizontalFlip, "p: number = 0.5", calls "horizontal_flip")

--- Flips images with their masks, boxes and keypoints vertically with probability p.
---
---     local flip = torch.vision.transforms.v2.RandomVerticalFlip(1.0)
---     print(flip(torch.tensor {{{1}, {2}}}):flatten())
---     --> tensor([2, 1])
---@class vision.transforms.v2.RandomVerticalFlip: nn.Module
---@overload fun(p?: number): nn.Module
local RandomVerticalFlip = class.class(prefix .. "RandomVerticalFlip", Transform)
define(RandomVerticalFlip, "p: number = 0.5", calls "vertical_flip")

local function check_center(title, a)
   if a.center and #a.center ~= 2 then args.refuse(title, "center", "2 numbers", #a.center) end
end

--- Rotates images with their masks, boxes and keypoints by a random angle from the range `degrees`,
--- {low, high}, or from -degrees to degrees if it is a number. `interpolation`, `expand` and
--- `center` are as in functional.rotate; `fill` is as in Pad, and 0 by default.
---
---     local rotate = torch.vision.transforms.v2.RandomRotation {90, 90}
---     print(rotate(torch.tensor {{{1, 2}, {3, 4}}}))
---     --> tensor([[[2, 4],
---     -->          [1, 3]]])
---@class vision.transforms.v2.RandomRotation: nn.Module
---@overload fun(degrees: number|number[], options?: table): nn.Module
local RandomRotation = class.class(prefix .. "RandomRotation", Transform)

define(RandomRotation, [[degrees: number|numbers, interpolation: string = 'nearest',
   expand: boolean = false, center: numbers?, fill: any = 0]], function(self, value, params)
   return Transform._call("rotate", value, params.angle, {interpolation = self.interpolation,
      expand = self.expand, center = self.center, fill = self._fill_for(self.fill, value)})
end, function(self)
   return {angle = uniform(self.degrees[1], self.degrees[2])}
end, function(title, a)
   a.degrees = random.angles(title, "degrees", a.degrees, 2)
   check_center(title, a)
end)

--- Rotates images with their masks, boxes and keypoints by a random angle from `degrees`, moves
--- them by at most the fractions `translate` of the width and height, scales them by a factor from
--- `scale`, and shears them by degrees from `shear`, which is {low, high} along x, or {low, high,
--- low, high} along x and y. `interpolation` and `center` are as in functional.affine; `fill` is as
--- in RandomRotation.
---
---     local T = torch.vision.transforms.v2
---     local affine = T.RandomAffine(10, {scale = {0.8, 1}})
---     print(affine(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@class vision.transforms.v2.RandomAffine: nn.Module
---@overload fun(degrees: number|number[], options?: table): nn.Module
local RandomAffine = class.class(prefix .. "RandomAffine", Transform)

define(RandomAffine, [[degrees: number|numbers, translate: numbers?, scale: numbers?,
   shear: number|numbers?, interpolation: string = 'nearest', fill: any = 0, center: numbers?]],
   function(self, value, p)
      return Transform._call("affine", value, p.angle, p.translate, p.scale, p.shear,
         {interpolation = self.interpolation, center = self.center,
         fill = self._fill_for(self.fill, value)})
   end, function(self, values)
      local height, width = self:_size_of(values)
      local p = {angle = uniform(self.degrees[1], self.degrees[2]), translate = {0, 0}, scale = 1.0,
         shear = {0.0, 0.0}}
      if self.translate then
         local x, y = self.translate[1] * width, self.translate[2] * height
         p.translate = {random.round(uniform(-x, x)), random.round(uniform(-y, y))}
      end
      if self.scale then p.scale = uniform(self.scale[1], self.scale[2]) end
      local s = self.shear
      if s then p.shear = {uniform(s[1], s[2]), s[3] and uniform(s[3], s[4]) or 0.0} end
      return p
   end, function(title, a)
      a.degrees = random.angles(title, "degrees", a.degrees, 2)
      if a.shear then a.shear = random.angles(title, "shear", a.shear, 2, 4) end
      if a.scale then check_positive_range(title, "scale", a.scale) end
      if a.translate then
         local t = a.translate
         if #t ~= 2 or not (t[1] >= 0 and t[1] <= 1 and t[2] >= 0 and t[2] <= 1) then
            args.refuse(title, "translate", "two numbers from 0 to 1", t)
         end
      end
      check_center(title, a)
   end)

--- Warps images with their masks, boxes and keypoints with probability p: moves the corners inwards
--- by at most `distortion_scale` times half of the sides. `interpolation` is as in
--- functional.perspective; `fill` is as in RandomRotation.
---
---     local warp = torch.vision.transforms.v2.RandomPerspective(0.5, 1.0)
---     print(warp(torch.zeros(3, 8, 8)).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.RandomPerspective: nn.Module
---@overload fun(distortion_scale?: number, p?: number, options?: table): nn.Module
local RandomPerspective = class.class(prefix .. "RandomPerspective", Transform)

define(RandomPerspective, [[distortion_scale: number = 0.5, p: number = 0.5,
   interpolation: string = 'bilinear', fill: any = 0]], function(self, value, params)
   return Transform._call("perspective", value, {coefficients = params.coefficients,
      interpolation = self.interpolation, fill = self._fill_for(self.fill, value)})
end, function(self, values)
   local height, width = self:_size_of(values)
   local y = math.floor(self.distortion_scale * (height // 2)) + 1
   local x = math.floor(self.distortion_scale * (width // 2)) + 1
   local start = {{0, 0}, {width - 1, 0}, {width - 1, height - 1}, {0, height - 1}}
   local finish = {{below(x), below(y)}, {width - 1 - below(x), below(y)},
      {width - 1 - below(x), height - 1 - below(y)}, {below(x), height - 1 - below(y)}}
   local solve = require "tlua.vision.transforms.warp"._solve
   return {coefficients = solve(prefix .. "RandomPerspective", start, finish)}
end, function(title, a)
   if not (a.distortion_scale >= 0 and a.distortion_scale <= 1) then
      args.refuse(title, "distortion_scale", "a number from 0 to 1", a.distortion_scale)
   end
end)

--- Warps images with their masks, boxes and keypoints by a smooth random displacement of each
--- pixel. The displacement's size grows with `alpha`, and its smoothness with `sigma`; each is a
--- number or {for x, for y}. `interpolation` is as in functional.elastic; `fill` is as in
--- RandomRotation.
---
---     local warp = torch.vision.transforms.v2.ElasticTransform(20, {sigma = 1})
---     print(warp(torch.zeros(3, 16, 16)).shape)
---     --> torch.Size([3, 16, 16])
---@class vision.transforms.v2.ElasticTransform: nn.Module
---@overload fun(alpha?: number|number[], options?: table): nn.Module
local ElasticTransform = class.class(prefix .. "ElasticTransform", Transform)

-- Returns random numbers (1, 1, height, width) between -1 and 1, blurred along both dimensions with
-- the standard deviations `sigma`. If `own`, the deviation for this coordinate, is not above 0,
-- they are not blurred.
local function smooth(height, width, sigma, own)
   local x = torch.rand(1, 1, height, width) * 2 - 1
   if own <= 0 then return x end
   local size = math.floor(8 * own + 1)
   return functional.gaussian_blur(x, size + (size + 1) % 2, sigma)
end

define(ElasticTransform, [[alpha: number|numbers = 50, sigma: number|numbers = 5,
   interpolation: string = 'bilinear', fill: any = 0]], function(self, value, params)
   return Transform._call("elastic", value, params.displacement,
      {interpolation = self.interpolation, fill = self._fill_for(self.fill, value)})
end, function(self, values)
   local height, width = self:_size_of(values)
   local dx = smooth(height, width, self.sigma, self.sigma[1]) * (self.alpha[1] / width)
   local dy = smooth(height, width, self.sigma, self.sigma[2]) * (self.alpha[2] / height)
   return {displacement = torch.cat({dx, dy}, 2):permute {1, 3, 4, 2}}
end, function(title, a)
   for _, name in ipairs {"alpha", "sigma"} do
      local value = as_list(a[name])
      if #value ~= 1 and #value ~= 2 then
         args.refuse(title, name, "a number or two", #value)
      end
      a[name] = {value[1], value[2] or value[1]}
      for _, x in ipairs(a[name]) do
         if not (x >= 0 and x < math.huge) then
            args.refuse(title, name, "numbers of at least 0", x)
         end
      end
   end
end)

M._random_part = random_part

return M
