-- classes.lua - transforms as objects, which datasets and programs call with images. Random ones
-- draw their values anew at each call, from the generator of torch.manual_seed.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local functional = require "tlua.vision.transforms.functional"

local nn = torch.nn

local M = {}

local prefix <const> = "vision.transforms.v2."

local function uniform(low, high) return low + (high - low) * torch.rand(1):item() end

local function chance(p) return torch.rand(1):item() < p end

-- Returns an integer from 0 to n - 1.
local function below(n) return torch.randint(0, n, {1}):item() end

-- Defines a class with a signature; `check` may refuse its arguments.
local function define(name, parameters, call, check)
   local title = prefix .. name
   local take = args.signature(title .. "(" .. parameters .. ")")
   local Class = M[name]

   function Class:__init(...)
      local a = take(...)
      if check then check(title, a) end
      for key, value in pairs(a) do self[key] = value end
   end

   -- Other values beside the image, such as its label, are passed through, as torchvision does.
   function Class:forward(image, ...) return call(self, image), ... end
end

local function check_p(title, a)
   if not (a.p >= 0 and a.p <= 1) then args.refuse(title, "p", "a number from 0 to 1", a.p) end
end

--- Calls transforms one after the other.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.Compose {T.Resize(8), T.CenterCrop(6)}
---     print(transform(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 6, 6])
---@class vision.transforms.v2.Compose: nn.Module
---@field transforms function[]  the transforms
---@overload fun(transforms: function[]): nn.Module
M.Compose = class.class(prefix .. "Compose", nn.Module)

define("Compose", "transforms: table", nil, function(title, a)
   for i, transform in ipairs(a.transforms) do
      if not args.is_callable(transform) then
         args.refuse(title, ("transforms[%d]"):format(i), "a transform", transform)
      end
   end
end)

function M.Compose:forward(...)
   local values = table.pack(...)
   for i, transform in ipairs(self.transforms) do
      values = table.pack(transform(table.unpack(values, 1, values.n)))
      if values[1] == nil then
         torch.raise(("%sCompose: transforms[%d] returned nothing"):format(prefix, i))
      end
   end
   return table.unpack(values, 1, values.n)
end

--- Resizes images, as functional.resize does, with its `size`, `interpolation`, `max_size` and
--- `antialias`.
---
---     local resize = torch.vision.transforms.v2.Resize {8, 6}
---     print(resize(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 8, 6])
---@class vision.transforms.v2.Resize: nn.Module
---@overload fun(size: integer|integer[], options?: table): nn.Module
M.Resize = class.class(prefix .. "Resize", nn.Module)

define("Resize", [[size: integers, interpolation: string = 'bilinear', max_size: integer?,
   antialias: boolean = true]], function(self, image)
   return functional.resize(image, self.size, {interpolation = self.interpolation,
      max_size = self.max_size, antialias = self.antialias})
end)

--- Cuts the middle of the given `size` out of images.
---
---     local crop = torch.vision.transforms.v2.CenterCrop(4)
---     print(crop(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 4, 4])
---@class vision.transforms.v2.CenterCrop: nn.Module
---@overload fun(size: integer|integer[]): nn.Module
M.CenterCrop = class.class(prefix .. "CenterCrop", nn.Module)

define("CenterCrop", "size: integers", function(self, image)
   return functional.center_crop(image, self.size)
end)

--- Cuts a random part of the given `size` out of images, after adding `padding` zeros around them.
---
---     local crop = torch.vision.transforms.v2.RandomCrop(4, {padding = 1})
---     print(crop(torch.zeros(3, 4, 4)).shape)
---     --> torch.Size([3, 4, 4])
---@class vision.transforms.v2.RandomCrop: nn.Module
---@overload fun(size: integer|integer[], options?: table): nn.Module
M.RandomCrop = class.class(prefix .. "RandomCrop", nn.Module)

define("RandomCrop", "size: integers, padding: integers?", function(self, image)
   if self.padding then image = functional.pad(image, self.padding) end
   local height, width = table.unpack(args.expand(prefix .. "RandomCrop", "size", self.size, 2))
   local rows, columns = image:size(-2) - height, image:size(-1) - width
   if rows < 0 or columns < 0 then
      args.refuse(prefix .. "RandomCrop", "image",
         ("at least %d x %d pixels"):format(height, width), image)
   end
   return functional.crop(image, below(rows + 1), below(columns + 1), height, width)
end)

--- Cuts a random part out of images and resizes it to `size`. Its area is a part of the image's
--- from `scale`, and its width divided by its height is from `ratio`; `interpolation` and
--- `antialias` are those of functional.resize.
---
---     local crop = torch.vision.transforms.v2.RandomResizedCrop(8)
---     print(crop(torch.zeros(3, 20, 30)).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.RandomResizedCrop: nn.Module
---@overload fun(size: integer|integer[], options?: table): nn.Module
M.RandomResizedCrop = class.class(prefix .. "RandomResizedCrop", nn.Module)

-- Returns the top, left, height and width of a random part.
local function random_part(height, width, scale, ratio)
   for _ = 1, 10 do
      local area = height * width * uniform(scale[1], scale[2])
      local aspect = math.exp(uniform(math.log(ratio[1]), math.log(ratio[2])))
      local w = math.floor(math.sqrt(area * aspect) + 0.5)
      local h = math.floor(math.sqrt(area / aspect) + 0.5)
      if w > 0 and h > 0 and w <= width and h <= height then
         return below(height - h + 1), below(width - w + 1), h, w
      end
   end
   local h, w = height, width
   if width / height < ratio[1] then
      h = math.floor(width / ratio[1] + 0.5)
   elseif width / height > ratio[2] then
      w = math.floor(height * ratio[2] + 0.5)
   end
   return (height - h) // 2, (width - w) // 2, h, w
end

local function check_range(title, name, value)
   if #value ~= 2 or not (value[1] > 0 and value[1] <= value[2]) then
      args.refuse(title, name, "two increasing numbers above 0", value)
   end
end

define("RandomResizedCrop", [[size: integers, scale: numbers?, ratio: numbers?,
   interpolation: string = 'bilinear', antialias: boolean = true]], function(self, image)
   local size = args.expand(prefix .. "RandomResizedCrop", "size", self.size, 2)
   local top, left, height, width = random_part(image:size(-2), image:size(-1), self.scale,
      self.ratio)
   return functional.resized_crop(image, top, left, height, width, size,
      {interpolation = self.interpolation, antialias = self.antialias})
end, function(title, a)
   a.scale, a.ratio = a.scale or {0.08, 1.0}, a.ratio or {3 / 4, 4 / 3}
   check_range(title, "scale", a.scale)
   check_range(title, "ratio", a.ratio)
end)

--- Mirrors images with probability p: left and right change places.
---
---     local flip = torch.vision.transforms.v2.RandomHorizontalFlip(1.0)
---     print(flip(torch.tensor {{{1, 2}}}))
---     --> tensor([[[2, 1]]])
---@class vision.transforms.v2.RandomHorizontalFlip: nn.Module
---@overload fun(p?: number): nn.Module
M.RandomHorizontalFlip = class.class(prefix .. "RandomHorizontalFlip", nn.Module)

define("RandomHorizontalFlip", "p: number = 0.5", function(self, image)
   return chance(self.p) and functional.horizontal_flip(image) or image
end, check_p)

--- Mirrors images with probability p: above and below change places.
---
---     local flip = torch.vision.transforms.v2.RandomVerticalFlip(1.0)
---     print(flip(torch.tensor {{{1}, {2}}}):flatten())
---     --> tensor([2, 1])
---@class vision.transforms.v2.RandomVerticalFlip: nn.Module
---@overload fun(p?: number): nn.Module
M.RandomVerticalFlip = class.class(prefix .. "RandomVerticalFlip", nn.Module)

define("RandomVerticalFlip", "p: number = 0.5", function(self, image)
   return chance(self.p) and functional.vertical_flip(image) or image
end, check_p)

--- Subtracts a `mean` from each channel and divides by a standard deviation, `std`.
---
---     local normalize = torch.vision.transforms.v2.Normalize({0.5}, {0.25})
---     print(normalize(torch.ones(1, 1, 1)))
---     --> tensor([[[2.]]])
---@class vision.transforms.v2.Normalize: nn.Module
---@overload fun(mean: number[], std: number[]): nn.Module
M.Normalize = class.class(prefix .. "Normalize", nn.Module)

define("Normalize", "mean: numbers, std: numbers", function(self, image)
   return functional.normalize(image, self.mean, self.std)
end)

--- Converts images to a `dtype`; with `scale` the range of values follows.
---
---     local convert = torch.vision.transforms.v2.ToDtype("float32", true)
---     print(convert(torch.full({1, 1, 1}, 255, {dtype = "uint8"})))
---     --> tensor([[[1.]]])
---@class vision.transforms.v2.ToDtype: nn.Module
---@overload fun(dtype: string, scale?: boolean): nn.Module
M.ToDtype = class.class(prefix .. "ToDtype", nn.Module)

define("ToDtype", "dtype: string, scale: boolean = false", function(self, image)
   return functional.to_dtype(image, self.dtype, self.scale)
end)

--- Changes `brightness`, `contrast`, `saturation` and `hue` at random and in random order. Each is
--- a range of factors {low, high}, or a number d for factors from 1 - d to 1 + d; the hue's from -d
--- to d.
---
---     local jitter = torch.vision.transforms.v2.ColorJitter {brightness = 0.2}
---     print(jitter(torch.zeros(3, 2, 2)).shape)
---     --> torch.Size([3, 2, 2])
---@class vision.transforms.v2.ColorJitter: nn.Module
---@overload fun(options?: table): nn.Module
M.ColorJitter = class.class(prefix .. "ColorJitter", nn.Module)

local changes <const> = {"brightness", "contrast", "saturation", "hue"}

define("ColorJitter", [[brightness: number|numbers?, contrast: number|numbers?,
   saturation: number|numbers?, hue: number|numbers?]], function(self, image)
   for place in torch.randperm(#changes):iter() do
      local name = changes[place:item() % #changes + 1]
      local range = self[name]
      if range then image = functional["adjust_" .. name](image, uniform(range[1], range[2])) end
   end
   return image
end, function(title, a)
   for _, name in ipairs(changes) do
      local value, centre = a[name], name == "hue" and 0 or 1
      if type(value) == "number" then
         if value < 0 then args.refuse(title, name, "a number of at least 0", value) end
         a[name] = {centre - value, centre + value}
         if centre == 1 then a[name][1] = math.max(a[name][1], 0) end
      end
      local low, high = name == "hue" and -0.5 or 0, name == "hue" and 0.5 or math.huge
      local range = a[name]
      if range and not (#range == 2 and low <= range[1] and range[1] <= range[2]
            and range[2] <= high) then
         args.refuse(title, name, ("increasing numbers from %g to %g"):format(low, high), value)
      end
   end
end)

return M
