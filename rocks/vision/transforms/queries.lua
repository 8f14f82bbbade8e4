-- queries.lua - functions of transforms.v2 that tell which values a list contains. They are for
-- users who write transforms of their own. The file also has torchvision's names of options.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local kinds = require "tlua.vision.transforms.kinds"
local values = require "tlua.vision.transforms.values"

local M = {}

local prefix <const> = "vision.transforms.v2."

--- torchvision's names of interpolation modes. The values of these names are the strings that
--- transforms accept.
---
---     local T = torch.vision.transforms.v2
---     local resize = T.Resize(8, {interpolation = T.InterpolationMode.NEAREST})
---     print(resize(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 8, 12])
---@names vision.transforms.InterpolationMode
---@enum vision.transforms.v2.InterpolationMode
M.InterpolationMode = {
   NEAREST = "nearest",
   NEAREST_EXACT = "nearest-exact",
   BILINEAR = "bilinear",
   BICUBIC = "bicubic",
   LANCZOS = "lanczos",
}

--- torchvision's names of the policies for AutoAugment.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)
---     print(transform(torch.zeros(3, 4, 6)).shape)
---     --> torch.Size([3, 4, 6])
---@names vision.transforms.AutoAugmentPolicy
---@enum vision.transforms.v2.AutoAugmentPolicy
M.AutoAugmentPolicy = {IMAGENET = "imagenet", CIFAR10 = "cifar10", SVHN = "svhn"}

-- Raises an error if flat_inputs is not a list of values, or if one of the other arguments is
-- neither a class nor a function.
local function check_list(title, flat_inputs, ...)
   if type(flat_inputs) ~= "table" or getmetatable(flat_inputs) then
      args.refuse(title, "flat_inputs", "a list of values", flat_inputs)
   end
   for i = 1, select("#", ...) do
      local wanted = select(i, ...)
      if type(wanted) ~= "function" and not pcall(class.isinstance, nil, wanted) then
         args.refuse(title, "types_or_checks #" .. i, "a class or a function", wanted)
      end
   end
end

local function is(value, wanted)
   if type(wanted) == "function" then return not not wanted(value) end
   return class.isinstance(value, wanted)
end

local function contains(flat_inputs, wanted)
   for i = 1, flat_inputs.n or #flat_inputs do
      if is(flat_inputs[i], wanted) then return true end
   end
   return false
end

--- Returns whether a list contains a value that has one of the given classes, or for which one of
--- the given functions returns true.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local values = {tv.Image(torch.zeros(3, 4, 6)), 7}
---     print(T.has_any(values, tv.Image, tv.Video))
---     print(T.has_any(values, torch.Tensor))
---     --> true
---     --> false
---@param flat_inputs any[]  values, as make_params of a transform receives them
---@param ... table|fun(value: any): boolean  classes, such as tv_tensors.Image or torch.Tensor, and
--- functions
---@return boolean
function M.has_any(flat_inputs, ...)
   check_list(prefix .. "has_any", flat_inputs, ...)
   for _, wanted in ipairs {...} do
      if contains(flat_inputs, wanted) then return true end
   end
   return false
end

--- Returns whether, for each of the given classes and functions, a list contains a value that has
--- this class or for which this function returns true.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local values = {tv.Image(torch.zeros(3, 4, 6)), 7}
---     print(T.has_all(values, tv.Image, math.type))
---     print(T.has_all(values, tv.Image, tv.Mask))
---     --> true
---     --> false
---@param flat_inputs any[]  values, as make_params of a transform receives them
---@param ... table|fun(value: any): boolean  classes, such as tv_tensors.Image or torch.Tensor, and
--- functions
---@return boolean
function M.has_all(flat_inputs, ...)
   check_list(prefix .. "has_all", flat_inputs, ...)
   for _, wanted in ipairs {...} do
      if not contains(flat_inputs, wanted) then return false end
   end
   return true
end

--- Returns whether a value belongs to at least one of the classes, or one of the functions returns
--- true for it.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     print(T.check_type(7, {tv.Image, math.type}))
---     --> true
---@param obj any
---@param types_or_checks (table|fun(value: any): boolean)[]  classes and functions as in has_any
---@return boolean
function M.check_type(obj, types_or_checks)
   local title = prefix .. "check_type"
   if type(types_or_checks) ~= "table" or getmetatable(types_or_checks) then
      args.refuse(title, "types_or_checks", "a list of classes and functions", types_or_checks)
   end
   check_list(title, {}, table.unpack(types_or_checks))
   for _, wanted in ipairs(types_or_checks) do
      if is(obj, wanted) then return true end
   end
   return false
end

-- Returns the first value of the given kind in a list. Raises an error if there is none.
local function first_of(title, flat_inputs, kind, expected)
   check_list(title, flat_inputs)
   for i = 1, flat_inputs.n or #flat_inputs do
      if kinds.of(flat_inputs[i]) == kind then return flat_inputs[i] end
   end
   torch.raise(("%s: flat_inputs: expected %s among the values"):format(title, expected))
end

--- Returns the first bounding boxes in a list.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local boxes = tv.BoundingBoxes({{1, 2, 3, 4}},
---        {format = "XYXY", canvas_size = {9, 9}})
---     print(T.get_bounding_boxes({7, boxes}).data)
---     --> tensor([[1, 2, 3, 4]])
---@param flat_inputs any[]  values, as make_params of a transform receives them
---@return vision.tv_tensors.BoundingBoxes
function M.get_bounding_boxes(flat_inputs)
   return first_of(prefix .. "get_bounding_boxes", flat_inputs, "boxes", "bounding boxes")
end

--- Returns the first keypoints in a list.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local points = tv.KeyPoints({{1, 2}}, {canvas_size = {9, 9}})
---     print(T.get_keypoints({7, points}).data)
---     --> tensor([[1, 2]])
---@param flat_inputs any[]  values, as make_params of a transform receives them
---@return vision.tv_tensors.KeyPoints
function M.get_keypoints(flat_inputs)
   return first_of(prefix .. "get_keypoints", flat_inputs, "keypoints", "keypoints")
end

-- Returns the size that `get` returns for all values of the kinds in `wanted`. Raises an error, in
-- which `expected` names these kinds, if two values have different sizes or if there is no such
-- value.
local function common_size(title, flat_inputs, wanted, expected, get)
   check_list(title, flat_inputs)
   local size
   for i = 1, flat_inputs.n or #flat_inputs do
      local value = flat_inputs[i]
      if wanted[kinds.of(value)] then
         local own = get(value)
         if size and table.concat(own, " ") ~= table.concat(size, " ") then
            torch.raise(("%s: flat_inputs: expected values of one size, got %s and %s")
               :format(title, table.concat(size, " x "), table.concat(own, " x ")))
         end
         size = own
      end
   end
   if not size then torch.raise(("%s: flat_inputs: expected %s"):format(title, expected)) end
   return size
end

--- Returns the common height and width of the images, videos, masks, boxes and keypoints in a list.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     print(table.unpack(T.query_size {tv.Image(torch.zeros(3, 4, 6)), "label"}))
---     --> 4	6
---@param flat_inputs any[]  values, as make_params of a transform receives them
---@return integer[]
function M.query_size(flat_inputs)
   return common_size(prefix .. "query_size", flat_inputs,
      {image = true, video = true, mask = true, boxes = true, keypoints = true},
      "an image, a video, a mask, boxes or keypoints", values.get_size)
end

--- Returns the common number of channels, height and width of the images and videos in a list.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     print(table.unpack(T.query_chw {tv.Image(torch.zeros(3, 4, 6)), "label"}))
---     --> 3	4	6
---@param flat_inputs any[]  values, as make_params of a transform receives them
---@return integer[]
function M.query_chw(flat_inputs)
   return common_size(prefix .. "query_chw", flat_inputs, {image = true, video = true},
      "an image or a video", values.get_dimensions)
end

return M
