-- tv_tensors.lua - torch.vision.tv_tensors: tensors that know their kind, so that transforms can
-- change images, videos, masks, bounding boxes and keypoints together. A value of these classes is
-- an object that has the tensor in its field `data`. Methods of tensors can be called on it; all of
-- them except `to`, `clone` and `detach` return plain tensors.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

local prefix <const> = "vision.tv_tensors."

local TVTensor = class.class(prefix .. "TVTensor")

-- A field that the object does not have is looked up in the object's class, and then in its tensor.
-- Methods of tensors are called with the tensor instead of the object.
class.index_by(TVTensor, function(cls)
   return function(self, key)
      local value = cls[key]
      if value ~= nil then return value end
      local data = rawget(self, "data")
      if data == nil then return nil end
      value = data[key]
      if type(value) ~= "function" then return value end
      return function(object, ...) return value(object == self and data or object, ...) end
   end
end)

-- only boxes have a format; false keeps other classes from finding a field of the tensor
TVTensor.format = false

local function to_tensor(title, data)
   if type(data) == "table" and not getmetatable(data) then return torch.tensor(data) end
   if not torch.is_tensor(data) then args.refuse(title, "data", "a tensor or a table", data) end
   return data
end

-- Returns an object of the same class with another tensor and with the fields in `changes`. Other
-- fields are copied.
local function like(object, data, changes)
   local copy = setmetatable({}, getmetatable(object))
   for key, value in next, object do copy[key] = value end
   for key, value in next, changes or {} do copy[key] = value end
   copy.data = data
   return copy
end

for _, name in ipairs {"to", "clone", "detach"} do
   TVTensor[name] = function(self, ...) return like(self, self.data[name](self.data, ...)) end
end

function TVTensor:__len() return #self.data end

function TVTensor:__tostring()
   local fields = {}
   for _, key in ipairs {"format", "canvas_size", "clamping_mode"} do
      local value = rawget(self, key)
      if type(value) == "table" then value = ("(%d, %d)"):format(value[1], value[2]) end
      if value ~= nil then fields[#fields + 1] = (", %s=%s"):format(key, tostring(value)) end
   end
   return ("%s(%s%s)"):format(self.__name:match "[^.]+$", tostring(self.data), table.concat(fields))
end

-- Completes a class of objects whose tensors have at least `dims` dimensions.
local function define(Class, name, kind, dims, shape)
   local title = prefix .. name
   local take = args.signature(title .. "(data: any)")
   Class.kind = kind

   function Class:__init(...)
      local data = to_tensor(title, take(...).data)
      if data:dim() == dims - 1 and dims == 3 then data = data:unsqueeze(1) end
      if data:dim() < dims then args.refuse(title, "data", shape, data) end
      self.data = data
   end
end

--- An image (..., C, H, W). Transforms pass plain tensors through if a sample has an Image or a
--- Video; otherwise they take the first plain tensor for an image.
---
---     local tv = torch.vision.tv_tensors
---     local image = tv.Image(torch.zeros(3, 4, 6))
---     local flip = torch.vision.transforms.v2.functional.horizontal_flip
---     print(torch.type(flip(image)), image.shape)
---     --> vision.tv_tensors.Image	torch.Size([3, 4, 6])
---@class vision.tv_tensors.Image
---@field data Tensor  the tensor; a tensor (H, W) becomes (1, H, W)
---@overload fun(data: Tensor|table): vision.tv_tensors.Image
M.Image = class.class(prefix .. "Image", TVTensor)
define(M.Image, "Image", "image", 3, "a tensor of shape (..., C, H, W)")

--- A video (..., T, C, H, W). Transforms change all frames in the same way.
---
---     local video = torch.vision.tv_tensors.Video(torch.zeros(2, 3, 4, 6))
---     local crop = torch.vision.transforms.v2.functional.center_crop
---     print(crop(video, 2).shape)
---     --> torch.Size([2, 3, 2, 2])
---@class vision.tv_tensors.Video
---@field data Tensor  the tensor
---@overload fun(data: Tensor|table): vision.tv_tensors.Video
M.Video = class.class(prefix .. "Video", TVTensor)
define(M.Video, "Video", "video", 4, "a tensor of shape (..., T, C, H, W)")

--- A mask (..., H, W) of pixels. Geometric transforms move a mask with the image, without
--- interpolation; colour transforms leave it unchanged.
---
---     local mask = torch.vision.tv_tensors.Mask(torch.eye(2):long())
---     print(torch.vision.transforms.v2.functional.vertical_flip(mask).data)
---     --> tensor([[0, 1],
---     -->         [1, 0]])
---@class vision.tv_tensors.Mask
---@field data Tensor  the tensor
---@overload fun(data: Tensor|table): vision.tv_tensors.Mask
M.Mask = class.class(prefix .. "Mask", TVTensor)
define(M.Mask, "Mask", "mask", 2, "a tensor of shape (..., H, W)")

-- Checks the height and width of an image, and returns them.
local function canvas_size(title, size)
   local h, w = size[1], size[2]
   local are_numbers = #size == 2 and math.type(h) and math.type(w)
   if not are_numbers or not (math.tointeger(h) and math.tointeger(w)) or h < 0 or w < 0 then
      args.refuse(title, "canvas_size", "a height and a width", size)
   end
   return {math.tointeger(h), math.tointeger(w)}
end

local formats <const> = {XYXY = true, XYWH = true, CXCYWH = true}

-- Checks the name of a format, and returns it in upper case.
local function check_format(title, name, format)
   local upper = type(format) == "string" and format:upper()
   if not formats[upper] then
      args.refuse(title, name, '"XYXY", "XYWH" or "CXCYWH"', format)
   end
   return upper
end
M._check_format, M._canvas_size = check_format, canvas_size

local function check_mode(title, mode)
   if mode ~= "soft" and mode ~= "hard" and mode ~= false then
      args.refuse(title, "clamping_mode", '"soft", "hard" or false', mode)
   end
end

local take_boxes = args.signature [[vision.tv_tensors.BoundingBoxes(data: any, format: string,
   canvas_size: names, clamping_mode: string|boolean = 'soft')]]

--- Boxes (n, 4) in an image of `canvas_size`, {height, width}. The `format` is "XYXY", two corners;
--- "XYWH", a corner and a size; or "CXCYWH", the centre and a size. Transforms that move boxes
--- beyond the image's edges clamp them, unless `clamping_mode` is false.
---
---     local tv = torch.vision.tv_tensors
---     local options = {format = "XYXY", canvas_size = {10, 20}}
---     local boxes = tv.BoundingBoxes({{1, 2, 5, 6}}, options)
---     local flip = torch.vision.transforms.v2.functional.horizontal_flip
---     print(flip(boxes).data)
---     --> tensor([[15,  2, 19,  6]])
---@class vision.tv_tensors.BoundingBoxes
---@field data Tensor  (n, 4)
---@field format string  "XYXY", "XYWH" or "CXCYWH"
---@field canvas_size integer[]  the height and width of the image
---@field clamping_mode string|boolean  "soft" (the default) and "hard" both clamp boxes to the
--- image; false does not clamp them
---@overload fun(data: Tensor|table, options: table): vision.tv_tensors.BoundingBoxes
M.BoundingBoxes = class.class(prefix .. "BoundingBoxes", TVTensor)
M.BoundingBoxes.kind = "boxes"

function M.BoundingBoxes:__init(...)
   local title, a = prefix .. "BoundingBoxes", take_boxes(...)
   local data = to_tensor(title, a.data)
   if data:dim() == 1 and data:numel() == 0 then data = data:view(0, 4) end
   if data:dim() == 1 then data = data:unsqueeze(1) end
   if data:dim() ~= 2 or data:size(2) ~= 4 then
      args.refuse(title, "data", "a tensor of shape (n, 4)", data)
   end
   check_mode(title, a.clamping_mode)
   self.data, self.format = data, check_format(title, "format", a.format)
   self.canvas_size = canvas_size(title, a.canvas_size)
   self.clamping_mode = a.clamping_mode
end

local take_points = args.signature [[vision.tv_tensors.KeyPoints(data: any, canvas_size: names)]]

--- Points (..., 2), x and y, in an image of `canvas_size`, {height, width}.
---
---     local tv = torch.vision.tv_tensors
---     local points = tv.KeyPoints({{1, 2}}, {canvas_size = {10, 20}})
---     local crop = torch.vision.transforms.v2.functional.crop
---     print(crop(points, 1, 1, 4, 4).data)
---     --> tensor([[0, 1]])
---@class vision.tv_tensors.KeyPoints
---@field data Tensor  (..., 2)
---@field canvas_size integer[]  the height and width of the image
---@overload fun(data: Tensor|table, options: table): vision.tv_tensors.KeyPoints
M.KeyPoints = class.class(prefix .. "KeyPoints", TVTensor)
M.KeyPoints.kind = "keypoints"

function M.KeyPoints:__init(...)
   local title, a = prefix .. "KeyPoints", take_points(...)
   local data = to_tensor(title, a.data)
   if data:dim() == 1 and data:numel() == 0 then data = data:view(0, 2) end
   if data:dim() == 1 then data = data:unsqueeze(1) end
   if data:dim() < 2 or data:size(-1) ~= 2 then
      args.refuse(title, "data", "a tensor of shape (..., 2)", data)
   end
   self.data, self.canvas_size = data, canvas_size(title, a.canvas_size)
end

local take_wrap = args.signature [[vision.tv_tensors.wrap(wrappee: tensor, like: object,
   format: string?, canvas_size: names?, clamping_mode: string|boolean?)]]

--- Returns a tensor as an object with the same class and fields as another object.
---
---     local tv = torch.vision.tv_tensors
---     local points = tv.KeyPoints({{1, 2}}, {canvas_size = {10, 20}})
---     print(tv.wrap(points.data + 1, {like = points}).canvas_size[2])
---     --> 20
---@param wrappee Tensor  the new tensor
---@param like table  an object of torch.vision.tv_tensors
---@param options? {format: string, canvas_size: integer[], clamping_mode: string|boolean}  format:
--- replaces the format of `like`; canvas_size: replaces the image's size in `like`; clamping_mode:
--- replaces the mode of `like`
---@return table
function M.wrap(...)
   local title, a = prefix .. "wrap", take_wrap(...)
   if not class.isinstance(a.like, TVTensor) then
      args.refuse(title, "like", "an object of torch.vision.tv_tensors", a.like)
   end
   if a.clamping_mode ~= nil then check_mode(title, a.clamping_mode) end
   return like(a.like, a.wrappee, {
      format = a.format and check_format(title, "format", a.format),
      canvas_size = a.canvas_size and canvas_size(title, a.canvas_size),
      clamping_mode = a.clamping_mode,
   })
end

--- torchvision's names of the formats of bounding boxes.
---
---     local tv = torch.vision.tv_tensors
---     local options = {format = tv.BoundingBoxFormat.XYWH, canvas_size = {9, 9}}
---     print(tv.BoundingBoxes({{1, 2, 3, 4}}, options).format)
---     --> XYWH
---@names vision.tv_tensors.BoundingBoxFormat
---@enum vision.tv_tensors.BoundingBoxFormat
M.BoundingBoxFormat = {XYXY = "XYXY", XYWH = "XYWH", CXCYWH = "CXCYWH"}

M._TVTensor, M._like = TVTensor, like

return M
