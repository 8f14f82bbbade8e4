-- boxes.lua - functions of boxes, which are rows of a tensor (n, 4) with the corners x1, y1, x2,
-- y2. They compute areas and overlaps, convert formats, and choose the best of overlapping boxes.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Raises an error unless a value is a tensor of shape (n, columns).
local function check_rows(title, name, value, columns)
   if not torch.is_tensor(value) or value:dim() ~= 2 or value:size(2) ~= columns then
      args.refuse(title, name, ("a tensor of shape (n, %d)"):format(columns), value)
   end
   return value
end

local function column(boxes, i) return boxes:select(2, i) end

-- Converts a tensor to a dtype in which products of coordinates are exact enough: half precision
-- becomes float32, and small integers become int32.
local function widened(x)
   if x:is_floating_point() then
      return (x.dtype == "float32" or x.dtype == "float64") and x or x:float()
   end
   return (x.dtype == "int32" or x.dtype == "int64") and x or x:int()
end

local formats <const> = '"xyxy", "xywh" or "cxcywh"'
local is_format <const> = {xyxy = true, xywh = true, cxcywh = true}

local function check_format(title, name, format)
   if not is_format[format] then args.refuse(title, name, formats, format) end
end

local function area_of(boxes)
   boxes = widened(boxes)
   return (column(boxes, 3) - column(boxes, 1)) * (column(boxes, 4) - column(boxes, 2))
end

local take_area = args.signature "vision.ops.box_area(boxes: tensor, fmt: string = 'xyxy')"

--- Returns the areas of boxes.
---
---     print(torch.vision.ops.box_area(torch.tensor {{0.0, 0, 2, 3}}))
---     --> tensor([6.])
---@param boxes Tensor  (n, 4)
---@param fmt? string  the format of boxes as in box_convert, "xyxy" by default
---@return Tensor  (n)
function M.box_area(...)
   local title, a = "vision.ops.box_area", take_area(...)
   local boxes = check_rows(title, "boxes", a.boxes, 4)
   check_format(title, "fmt", a.fmt)
   if a.fmt == "xyxy" then return area_of(boxes) end
   boxes = widened(boxes)
   return column(boxes, 3) * column(boxes, 4)
end

-- Returns the common area of each of n boxes `a` with each of m boxes `b`, and the area of the
-- union of the two boxes, as tensors (n, m).
local function overlaps(a, b)
   local low = torch.maximum(a:unsqueeze(2):narrow(3, 1, 2), b:unsqueeze(1):narrow(3, 1, 2))
   local high = torch.minimum(a:unsqueeze(2):narrow(3, 3, 2), b:unsqueeze(1):narrow(3, 3, 2))
   local sides = widened(high - low):clamp_min(0)
   local common = sides:select(3, 1) * sides:select(3, 2)
   return common, area_of(a):unsqueeze(2) + area_of(b):unsqueeze(1) - common
end

-- Returns the width and height of the smallest box around each pair of boxes.
local function hulls(a, b)
   local low = torch.minimum(a:unsqueeze(2):narrow(3, 1, 2), b:unsqueeze(1):narrow(3, 1, 2))
   local high = torch.maximum(a:unsqueeze(2):narrow(3, 3, 2), b:unsqueeze(1):narrow(3, 3, 2))
   return widened(high - low):clamp_min(0)
end

local function squared_distances(a, b)
   local function centres(boxes) return (boxes:narrow(2, 1, 2) + boxes:narrow(2, 3, 2)) / 2 end
   return (centres(a):unsqueeze(2) - centres(b):unsqueeze(1)):square():sum(3)
end

local eps <const> = 1e-7

local function distance_terms(a, b)
   local common, union = overlaps(a, b)
   local iou = common / union
   local diagonals = hulls(a, b):square():sum(3) + eps
   return iou - squared_distances(a, b) / diagonals, iou
end

-- Defines a function that compares each box of one set with each box of another. `parameters` is
-- the part of the function's signature after the two sets.
local function define_pairwise(name, parameters, fn)
   local title = "vision.ops." .. name
   local take = args.signature(("%s(boxes1: tensor, boxes2: tensor%s)"):format(title, parameters))
   M[name] = function(...)
      local a = take(...)
      check_rows(title, "boxes1", a.boxes1, 4)
      check_rows(title, "boxes2", a.boxes2, 4)
      if not a.fmt or a.fmt == "xyxy" then return fn(a.boxes1, a.boxes2) end
      check_format(title, "fmt", a.fmt)
      return fn(M.box_convert(a.boxes1, a.fmt, "xyxy"), M.box_convert(a.boxes2, a.fmt, "xyxy"))
   end
end

--- Returns the overlap of each box of one set with each box of another: the common area divided by
--- the area of the union.
---
---     local ops = torch.vision.ops
---     local a = torch.tensor {{0.0, 0, 2, 2}}
---     local b = torch.tensor {{1.0, 0, 3, 2}, {4.0, 4, 5, 5}}
---     print(ops.box_iou(a, b))
---     --> tensor([[0.3333, 0.0000]])
---@names vision.ops.box_iou
---@param boxes1 Tensor  (n, 4)
---@param boxes2 Tensor  (m, 4)
---@param fmt? string  the format of boxes as in box_convert, "xyxy" by default
---@return Tensor  (n, m)

define_pairwise("box_iou", ", fmt: string = 'xyxy'", function(a, b)
   local common, union = overlaps(a, b)
   return common / union
end)

--- Returns the overlap of each box of one set with each box of another, as box_iou does, minus a
--- term: generalized_box_iou subtracts the part, between 0 and 1, of the smallest box around both
--- boxes that neither box covers; distance_box_iou subtracts the squared distance of the centres,
--- divided by the squared diagonal of this smallest box; complete_box_iou also subtracts a term for
--- different ratios of width and height.
---
---     local ops = torch.vision.ops
---     local a = torch.tensor {{0.0, 0, 2, 2}}
---     local b = torch.tensor {{1.0, 0, 3, 2}, {4.0, 4, 5, 5}}
---     print(ops.generalized_box_iou(a, b))
---     --> tensor([[ 0.3333, -0.8000]])
---@names vision.ops.generalized_box_iou vision.ops.distance_box_iou vision.ops.complete_box_iou
---@param boxes1 Tensor  (n, 4) x1, y1, x2, y2
---@param boxes2 Tensor  (m, 4)
---@return Tensor  (n, m)

define_pairwise("generalized_box_iou", "", function(a, b)
   local common, union = overlaps(a, b)
   local sides = hulls(a, b)
   local hull = sides:select(3, 1) * sides:select(3, 2)
   return common / union - (hull - union) / hull
end)

define_pairwise("distance_box_iou", "", function(a, b)
   return (distance_terms(a, b))
end)

define_pairwise("complete_box_iou", "", function(a, b)
   local diou, iou = distance_terms(a, b)
   local function angles(boxes)
      return ((column(boxes, 3) - column(boxes, 1)) / (column(boxes, 4) - column(boxes, 2))):atan()
   end
   local v = (angles(a):unsqueeze(2) - angles(b):unsqueeze(1)):square() * (4 / math.pi ^ 2)
   local alpha = torch.no_grad(function() return v / (1 - iou + v + eps) end)
   return diou - alpha * v
end)

-- Conversions -------------------------------------------------------------------------------------

local take_convert = args.signature [[vision.ops.box_convert(boxes: tensor, in_fmt: string,
   out_fmt: string)]]

local to_corners <const>, from_corners <const> = {}, {}

function to_corners.xyxy(b) return b end

function to_corners.xywh(b)
   return torch.cat({b:narrow(2, 1, 2), b:narrow(2, 1, 2) + b:narrow(2, 3, 2)}, 2)
end

function to_corners.cxcywh(b)
   local half = b:narrow(2, 3, 2) * 0.5
   return torch.cat({b:narrow(2, 1, 2) - half, b:narrow(2, 1, 2) + half}, 2)
end

function from_corners.xyxy(b) return b end

function from_corners.xywh(b)
   return torch.cat({b:narrow(2, 1, 2), b:narrow(2, 3, 2) - b:narrow(2, 1, 2)}, 2)
end

function from_corners.cxcywh(b)
   local low, high = b:narrow(2, 1, 2), b:narrow(2, 3, 2)
   return torch.cat({(low + high) / 2, high - low}, 2)
end

--- Converts boxes between three formats: "xyxy" (two corners), "xywh" (a corner and a size) and
--- "cxcywh" (the centre and a size).
---
---     local boxes = torch.tensor {{1.0, 1, 3, 5}}
---     print(torch.vision.ops.box_convert(boxes, "xyxy", "cxcywh"))
---     --> tensor([[2., 3., 2., 4.]])
---@param boxes Tensor  (n, 4)
---@param in_fmt string  the format of boxes
---@param out_fmt string  the format of the result
---@return Tensor  (n, 4)
function M.box_convert(...)
   local title, a = "vision.ops.box_convert", take_convert(...)
   for _, name in ipairs {"in_fmt", "out_fmt"} do check_format(title, name, a[name]) end
   check_rows(title, "boxes", a.boxes, 4)
   if a.in_fmt == a.out_fmt then return a.boxes:clone() end
   return from_corners[a.out_fmt](to_corners[a.in_fmt](a.boxes))
end

local take_clip = args.signature "vision.ops.clip_boxes_to_image(boxes: tensor, size: table)"

--- Moves corners that lie outside of an image to its edge.
---
---     local boxes = torch.tensor {{-2.0, 1, 9, 5}}
---     print(torch.vision.ops.clip_boxes_to_image(boxes, {4, 6}))
---     --> tensor([[0., 1., 6., 4.]])
---@param boxes Tensor  (..., 4) x1, y1, x2, y2
---@param size integer[]  the image's height and width
---@return Tensor
function M.clip_boxes_to_image(...)
   local title, a = "vision.ops.clip_boxes_to_image", take_clip(...)
   local boxes, size = a.boxes, a.size
   if boxes:dim() < 1 or boxes:size(-1) ~= 4 then
      args.refuse(title, "boxes", "a tensor of shape (..., 4)", boxes)
   end
   if #size ~= 2 or type(size[1]) ~= "number" or type(size[2]) ~= "number" then
      args.refuse(title, "size", "a height and a width", size)
   end
   local parts = {}
   for i = 1, 4 do parts[i] = boxes:select(-1, i):clamp(0, i % 2 == 1 and size[2] or size[1]) end
   return torch.stack(parts, -1)
end

local take_small = args.signature [[vision.ops.remove_small_boxes(boxes: tensor,
   min_size: number)]]

--- Returns the positions of the boxes whose sides are all at least `min_size`.
---
---     local boxes = torch.tensor {{0.0, 0, 5, 5}, {0.0, 0, 1, 9}}
---     print(torch.vision.ops.remove_small_boxes(boxes, 2))
---     --> tensor([1])
---@param boxes Tensor  (n, 4) x1, y1, x2, y2
---@param min_size number  the smallest side
---@return Tensor  int64
function M.remove_small_boxes(...)
   local a = take_small(...)
   local boxes = check_rows("vision.ops.remove_small_boxes", "boxes", a.boxes, 4)
   local sides = boxes:narrow(2, 3, 2) - boxes:narrow(2, 1, 2)
   return sides:ge(a.min_size):all(2):nonzero():squeeze(2)
end

local take_masks = args.signature "vision.ops.masks_to_boxes(masks: tensor)"

--- Returns the boxes around the pixels of masks that are not 0. The corners are coordinates of
--- pixels, which count from 0, as in all boxes. A mask without such pixels has a box of zeros.
---
---     local mask = torch.zeros(1, 4, 5, {dtype = "bool"})
---     mask[{1, {2, 3}, {1, 4}}] = true
---     print(torch.vision.ops.masks_to_boxes(mask))
---     --> tensor([[0., 1., 3., 2.]])
---@param masks Tensor  (n, H, W)
---@return Tensor  (n, 4) float32
function M.masks_to_boxes(...)
   local title, masks = "vision.ops.masks_to_boxes", take_masks(...).masks
   if masks:dim() ~= 3 then args.refuse(title, "masks", "a tensor of shape (n, H, W)", masks) end
   local n = masks:size(1)
   if masks:numel() == 0 then return torch.zeros(n, 4, {device = masks.device}) end
   masks = masks:ne(0)
   local function ends(dim)
      local line = masks:any(dim)
      local first = line:int():argmax(2) - 1
      local last = line:size(2) - line:flip({2}):int():argmax(2)
      return first:float(), last:float()
   end
   local x1, x2 = ends(2)
   local y1, y2 = ends(3)
   return torch.stack({x1, y1, x2, y2}, 2) * masks:flatten(2):any(2):unsqueeze(2)
end

-- Choosing among overlapping boxes ----------------------------------------------------------------

local take_nms = args.signature [[vision.ops.nms(boxes: tensor, scores: tensor,
   iou_threshold: number)]]
local take_batched = args.signature [[vision.ops.batched_nms(boxes: tensor, scores: tensor,
   idxs: tensor, iou_threshold: number)]]

local function check_scores(title, a)
   check_rows(title, "boxes", a.boxes, 4)
   local n = a.boxes:size(1)
   if a.scores:dim() ~= 1 or a.scores:size(1) ~= n then
      args.refuse(title, "scores", ("a tensor of shape (%d)"):format(n), a.scores)
   end
   if a.iou_threshold ~= a.iou_threshold then
      args.refuse(title, "iou_threshold", "a number", a.iou_threshold)
   end
end

-- Suppresses overlapping boxes, for nms and batched_nms. If `groups` is given, only boxes of the
-- same group suppress one another. Returns the positions of the boxes that are kept, in decreasing
-- order of score.
local function suppress(a, groups)
   local boxes, scores = a.boxes, a.scores
   if not boxes:is_floating_point() then boxes = boxes:float() end
   if not scores:is_floating_point() then scores = scores:float() end
   local order = select(2, scores:sort(1, true, {stable = true}))
   return torch._nms(boxes, order, a.iou_threshold, groups)
end

--- Returns the positions of the boxes that are kept, in decreasing order of score. A box is removed
--- if its overlap (box_iou) with a kept box of a higher score is above `iou_threshold`.
---
---     local boxes = torch.tensor {{0.0, 0, 4, 4}, {0.0, 0, 4, 5}, {6.0, 6, 9, 9}}
---     print(torch.vision.ops.nms(boxes, torch.tensor {0.5, 0.9, 0.3}, 0.5))
---     --> tensor([2, 3])
---@param boxes Tensor  (n, 4) x1, y1, x2, y2
---@param scores Tensor  (n)
---@param iou_threshold number  the largest overlap of two boxes that are kept
---@return Tensor  int64
function M.nms(...)
   local a = take_nms(...)
   check_scores("vision.ops.nms", a)
   return suppress(a)
end

--- Chooses boxes of several classes in one call, as nms does. Only boxes of the same class remove
--- one another.
---
---     local boxes = torch.tensor {{0.0, 0, 4, 4}, {0.0, 0, 4, 5}}
---     local scores, classes = torch.tensor {0.5, 0.9}, torch.tensor {1, 2}
---     print(torch.vision.ops.batched_nms(boxes, scores, classes, 0.5))
---     --> tensor([2, 1])
---@param boxes Tensor  (n, 4) x1, y1, x2, y2
---@param scores Tensor  (n)
---@param idxs Tensor  (n) the classes
---@param iou_threshold number  the largest overlap of two boxes that are kept
---@return Tensor  int64
function M.batched_nms(...)
   local title, a = "vision.ops.batched_nms", take_batched(...)
   check_scores(title, a)
   local n = a.boxes:size(1)
   if a.idxs:dim() ~= 1 or a.idxs:size(1) ~= n then
      args.refuse(title, "idxs", ("a tensor of shape (%d)"):format(n), a.idxs)
   end
   return suppress(a, a.idxs)
end

return M
