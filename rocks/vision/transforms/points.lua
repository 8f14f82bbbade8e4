-- points.lua - arithmetic of boxes (n, 4) and keypoints (..., 2) for geometric transforms, and the
-- functions of transforms.v2.functional that take boxes or keypoints.

local torch = require "tlua"
local args = require "tlua.args"

local kinds = require "tlua.vision.transforms.kinds"
local tv_tensors = require "tlua.vision.tv_tensors"

local M = {}

local prefix <const> = "vision.transforms.v2.functional."

-- Formats -----------------------------------------------------------------------------------------

local function halved(x)
   return x:is_floating_point() and x / 2 or x:div(2, {rounding_mode = "floor"})
end

-- Splits each row (x, y, a, b) of boxes into (x, y) and (a, b).
local function parts(boxes) return boxes:narrow(-1, 1, 2), boxes:narrow(-1, 3, 2) end

local function join(a, b) return torch.cat({a, b}, -1) end

-- For each old format and each new format, a function that converts boxes. Each pair of formats has
-- its own formula, so that integers are rounded down as in torchvision.
local conversions <const> = {XYXY = {}, XYWH = {}, CXCYWH = {}}

function conversions.XYXY.XYWH(boxes)
   local low, high = parts(boxes)
   return join(low, high - low)
end

function conversions.XYXY.CXCYWH(boxes)
   local low, high = parts(boxes)
   local size = high - low
   return join(halved(low * 2 + size), size)
end

function conversions.XYWH.XYXY(boxes)
   local low, size = parts(boxes)
   return join(low, low + size)
end

function conversions.XYWH.CXCYWH(boxes)
   local low, size = parts(boxes)
   return join(low + halved(size), size)
end

function conversions.CXCYWH.XYXY(boxes)
   local dtype = boxes.dtype
   local centre, size = parts(boxes:is_floating_point() and boxes or boxes:float())
   local low = centre - size / 2
   return join(low, size + low):to(dtype)
end

function conversions.CXCYWH.XYWH(boxes)
   if not boxes:is_floating_point() then
      return conversions.XYXY.XYWH(conversions.CXCYWH.XYXY(boxes))
   end
   local centre, size = parts(boxes)
   return join(centre - size / 2, size)
end

--- Converts boxes between the formats "XYXY", "XYWH" and "CXCYWH".
---@param boxes Tensor
---@param from string
---@param to string
---@return Tensor
function M.convert(boxes, from, to)
   if from == to then return boxes end
   return conversions[from][to](boxes)
end

--- Clamps boxes to an image.
---@param boxes Tensor
---@param format string
---@param size integer[]  height and width
---@param mode string|boolean  false leaves the boxes unchanged
---@return Tensor
function M.clamp(boxes, format, size, mode)
   if not mode then return boxes:clone() end
   local real = boxes:is_floating_point() and boxes or boxes:float()
   local corners = M.convert(real, format, "XYXY"):clone()
   corners[{"...", {1, 4, 2}}]:clamp_(0, size[2])
   corners[{"...", {2, 4, 2}}]:clamp_(0, size[1])
   return M.convert(corners, "XYXY", format):to(boxes.dtype)
end

-- Moves -------------------------------------------------------------------------------------------

-- Returns a tensor of numbers with the dtype and device of another tensor.
local function numbers(list, like)
   return torch.tensor(list, {dtype = like.dtype, device = like.device})
end

--- Moves boxes or keypoints by {x, y}.
---@param data Tensor
---@param x number
---@param y number
---@param format? string  the format, if `data` are boxes
---@return Tensor
function M.shift(data, x, y, format)
   if not format then return data + numbers({x, y}, data) end
   return data + numbers(format == "XYXY" and {x, y, x, y} or {x, y, 0, 0}, data)
end

--- Multiplies the coordinates of boxes or keypoints by the factors x and y.
---@param data Tensor
---@param x number
---@param y number
---@param is_box boolean
---@return Tensor
function M.scale(data, x, y, is_box)
   local ratios = torch.tensor(is_box and {x, y, x, y} or {x, y},
      {dtype = "float32", device = data.device})
   return data:mul(ratios):to(data.dtype)
end

--- Calls move(points) with the corners of boxes as points (4 n, 2), and returns the bounding boxes
--- of the results, clamped to the image. `when` determines after which steps integers are rounded.
---@param data Tensor
---@param value table  the BoundingBoxes
---@param size integer[]  the height and width of the resulting image
---@param move fun(points: Tensor): Tensor
---@param when? string  nil rounds integers only at the end, "before" also after the conversion to
--- corners, and "always" after each step
---@return Tensor
function M.around(data, value, size, move, when)
   if data:numel() == 0 then return data end
   local real = (when or data:is_floating_point()) and data or data:float()
   local order = torch.tensor({1, 2, 3, 2, 3, 4, 1, 4}, {device = data.device})
   local points = M.convert(real, value.format, "XYXY"):index_select(2, order):view(-1, 2)
   local moved = move(points:is_floating_point() and points or points:float()):view(-1, 4, 2)
   local boxes = join(moved:amin(2), moved:amax(2))
   if when == "always" then boxes = boxes:to(data.dtype) end
   boxes = M.clamp(boxes, "XYXY", size, value.clamping_mode)
   return M.convert(boxes, "XYXY", value.format):to(data.dtype)
end

--- Calls move(points) with keypoints as a tensor (n, 2) of floating numbers.
---@param data Tensor
---@param move fun(points: Tensor): Tensor
---@return Tensor
function M.moved(data, move)
   if data:numel() == 0 then return data end
   local real = data:is_floating_point() and data or data:float()
   return move(real:reshape(-1, 2)):to(data.dtype):view(data.shape)
end

-- Functions of boxes and keypoints ----------------------------------------------------------------

-- Returns the tensor of boxes, their format, the size of the image and the clamping mode. The boxes
-- are a BoundingBoxes object, or a plain tensor, for which the other values are arguments.
local function boxes_of(title, a, format, needs_size)
   local value = a.inpt
   local kind = kinds.of(value)
   if kind == "boxes" then
      if format or a.canvas_size then
         torch.raise(title .. ": BoundingBoxes have a format and a canvas_size; give them only "
            .. "with plain tensors")
      end
      return value.data, value.format, value.canvas_size, value.clamping_mode
   end
   if kind ~= "image" or value:dim() < 1 or value:size(-1) ~= 4 then
      args.refuse(title, "inpt", "BoundingBoxes or a tensor of shape (..., 4)", value)
   end
   if not format or needs_size and not a.canvas_size then
      torch.raise(("%s: a plain tensor needs its format%s"):format(title,
         needs_size and " and its canvas_size" or ""))
   end
   return value, tv_tensors._check_format(title, "format", format),
      a.canvas_size and tv_tensors._canvas_size(title, a.canvas_size)
end

local take_convert = args.signature(prefix .. [[convert_bounding_box_format(inpt: any,
   old_format: string?, new_format: string?)]])

--- Converts boxes to another format: "XYXY" (two corners), "XYWH" (a corner and a size) or "CXCYWH"
--- (the centre and a size). Integers are rounded down.
---
---     local f = torch.vision.transforms.v2.functional
---     local boxes = torch.tensor {{1, 1, 4, 5}}
---     print(f.convert_bounding_box_format(boxes, "XYXY", "CXCYWH"))
---     --> tensor([[2, 3, 3, 4]])
---@param inpt Tensor|vision.tv_tensors.BoundingBoxes  (..., 4)
---@param old_format? string  the format of boxes in a plain tensor
---@param new_format? string  the format of the result, which must be given
---@return Tensor|vision.tv_tensors.BoundingBoxes
function M.convert_bounding_box_format(...)
   local title, a = prefix .. "convert_bounding_box_format", take_convert(...)
   if not a.new_format then torch.raise(title .. ": new_format: expected a string, got nil") end
   local new = tv_tensors._check_format(title, "new_format", a.new_format)
   local data, old = boxes_of(title, a, a.old_format, false)
   local result = M.convert(data, old, new)
   if result == data then result = data:clone() end
   return torch.is_tensor(a.inpt) and result
      or tv_tensors._like(a.inpt, result, {format = new})
end

local take_clamp = args.signature(prefix .. [[clamp_bounding_boxes(inpt: any, format: string?,
   canvas_size: names?, clamping_mode: string|boolean = 'auto')]])

--- Clamps boxes to an image.
---
---     local f = torch.vision.transforms.v2.functional
---     local boxes = torch.tensor {{-2.0, 1, 9, 5}}
---     local options = {format = "XYXY", canvas_size = {4, 6}}
---     print(f.clamp_bounding_boxes(boxes, options))
---     --> tensor([[0., 1., 6., 4.]])
---@param inpt Tensor|vision.tv_tensors.BoundingBoxes  (..., 4)
---@param options? {format: string, canvas_size: integer[], clamping_mode: string|boolean}  format:
--- the format of boxes in a plain tensor; canvas_size: the image's height and width, for a plain
--- tensor; clamping_mode: "auto" (the default, the mode of the boxes), "soft", "hard", or false for
--- no clamping
---@return Tensor|vision.tv_tensors.BoundingBoxes
function M.clamp_bounding_boxes(...)
   local title, a = prefix .. "clamp_bounding_boxes", take_clamp(...)
   local mode = a.clamping_mode
   if mode ~= "auto" and mode ~= "soft" and mode ~= "hard" and mode ~= false then
      args.refuse(title, "clamping_mode", '"auto", "soft", "hard" or false', mode)
   end
   local data, format, size, own = boxes_of(title, a, a.format, true)
   if mode == "auto" then
      if own == nil then mode = "soft" else mode = own end
   end
   local result = M.clamp(data, format, size, mode)
   return torch.is_tensor(a.inpt) and result or tv_tensors._like(a.inpt, result)
end

-- Returns a mask that is true for the boxes that lie inside the image and are large enough.
function M._valid_boxes(boxes, format, size, min_size, min_area)
   boxes = M.convert(boxes, format, "XYXY")
   local x1, y1, x2, y2 = table.unpack(boxes:unbind(-1))
   local w, h = x2 - x1, y2 - y1
   local valid = w:ge(min_size):logical_and(h:ge(min_size)):logical_and(boxes:ge(0):all(-1))
      :logical_and((w * h):ge(min_area))
   for _, x in ipairs {x1, x2} do valid = valid:logical_and(x:le(size[2])) end
   for _, y in ipairs {y1, y2} do valid = valid:logical_and(y:le(size[1])) end
   return valid
end

-- Returns the rows of a tensor at which a mask is true.
function M._rows(data, valid) return data:index_select(1, valid:nonzero():squeeze(2)) end

local take_sanitize = args.signature(prefix .. [[sanitize_bounding_boxes(inpt: any, format: string?,
   canvas_size: names?, min_size: number = 1, min_area: number = 1)]])

--- Removes boxes that are too small or partly outside the image.
---
---     local f = torch.vision.transforms.v2.functional
---     local boxes = torch.tensor {{0.0, 0, 3, 3}, {2.0, 2, 2, 5}}
---     local options = {format = "XYXY", canvas_size = {6, 6}}
---     print(f.sanitize_bounding_boxes(boxes, options))
---     --> tensor([[0., 0., 3., 3.]])	tensor([ True, False])
---@param inpt Tensor|vision.tv_tensors.BoundingBoxes  (n, 4)
---@param options? {format: string, canvas_size: integer[], min_size: number, min_area: number}
--- format: the format of boxes in a plain tensor; canvas_size: the image's height and width, for a
--- plain tensor; min_size: the smallest side, 1 by default; min_area: the smallest area, 1 by
--- default
---@return Tensor|vision.tv_tensors.BoundingBoxes boxes  the boxes that remain
---@return Tensor valid  (n) bool: true for the boxes that remain
function M.sanitize_bounding_boxes(...)
   local title, a = prefix .. "sanitize_bounding_boxes", take_sanitize(...)
   local data, format, size = boxes_of(title, a, a.format, true)
   if data:dim() ~= 2 then args.refuse(title, "inpt", "a tensor of shape (n, 4)", data) end
   local valid = M._valid_boxes(data, format, size, a.min_size, a.min_area)
   local rest = M._rows(data, valid)
   return torch.is_tensor(a.inpt) and rest or tv_tensors._like(a.inpt, rest), valid
end

local function points_of(title, a)
   local value = a.inpt
   local kind = kinds.of(value)
   if kind == "keypoints" then
      if a.canvas_size then
         torch.raise(title .. ": KeyPoints have a canvas_size; give it only with plain tensors")
      end
      return value.data, value.canvas_size
   end
   if kind ~= "image" or value:dim() < 2 or value:size(-1) ~= 2 then
      args.refuse(title, "inpt", "KeyPoints or a tensor of shape (..., 2)", value)
   end
   if not a.canvas_size then torch.raise(title .. ": a plain tensor needs its canvas_size") end
   return value, tv_tensors._canvas_size(title, a.canvas_size)
end

local take_clamp_points = args.signature(prefix .. [[clamp_keypoints(inpt: any,
   canvas_size: names?)]])

--- Clamps keypoints to an image: points outside move to the nearest pixel.
---
---     local f = torch.vision.transforms.v2.functional
---     local points = torch.tensor {{-2.0, 9}}
---     print(f.clamp_keypoints(points, {canvas_size = {4, 6}}))
---     --> tensor([[0., 3.]])
---@param inpt Tensor|vision.tv_tensors.KeyPoints  (..., 2)
---@param options? {canvas_size: integer[]}  canvas_size: the image's height and width, for a plain
--- tensor
---@return Tensor|vision.tv_tensors.KeyPoints
function M.clamp_keypoints(...)
   local a = take_clamp_points(...)
   local data, size = points_of(prefix .. "clamp_keypoints", a)
   local limits = data:is_floating_point() and data or data:float()
   local result = torch.stack({limits:select(-1, 1):clamp(0, size[2] - 1),
      limits:select(-1, 2):clamp(0, size[1] - 1)}, -1):to(data.dtype)
   return torch.is_tensor(a.inpt) and result or tv_tensors._like(a.inpt, result)
end

-- Returns a mask (n) for keypoints (n, ..., 2). It is true where all points of a row lie inside the
-- image.
function M._valid_points(points, size)
   local x, y = points:select(-1, 1), points:select(-1, 2)
   local valid = x:ge(0):logical_and(x:lt(size[2])):logical_and(y:ge(0))
      :logical_and(y:lt(size[1]))
   return valid:dim() > 1 and valid:flatten(2):all(2) or valid
end

local take_sanitize_points = args.signature(prefix .. [[sanitize_keypoints(inpt: any,
   canvas_size: names?)]])

--- Removes keypoints outside the image. In keypoints (n, m, 2), a group of m points is removed if
--- any of them is outside.
---
---     local f = torch.vision.transforms.v2.functional
---     local points = torch.tensor {{1, 2}, {7, 1}}
---     print(f.sanitize_keypoints(points, {canvas_size = {4, 6}}))
---     --> tensor([[1, 2]])	tensor([ True, False])
---@param inpt Tensor|vision.tv_tensors.KeyPoints  (n, ..., 2)
---@param options? {canvas_size: integer[]}  canvas_size: the image's height and width, for a plain
--- tensor
---@return Tensor|vision.tv_tensors.KeyPoints points  the keypoints that remain
---@return Tensor valid  (n) bool: true for the keypoints that remain
function M.sanitize_keypoints(...)
   local a = take_sanitize_points(...)
   local data, size = points_of(prefix .. "sanitize_keypoints", a)
   local valid = M._valid_points(data, size)
   local rest = M._rows(data, valid)
   return torch.is_tensor(a.inpt) and rest or tv_tensors._like(a.inpt, rest), valid
end

return M
