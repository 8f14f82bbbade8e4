-- losses.lua - losses of detectors: the focal loss of classes, and losses that grow as the overlap
-- of two boxes shrinks.

local torch = require "tlua"
local args = require "tlua.args"

local F = torch.nn.functional

local M = {}

-- Reduces a loss to its mean or sum. Raises an error for an unknown reduction.
local function reduce(title, loss, reduction)
   if reduction == "none" then return loss end
   if reduction == "sum" then return loss:sum() end
   if reduction ~= "mean" then
      args.refuse(title, "reduction", '"none", "mean" or "sum"', reduction)
   end
   return loss:numel() > 0 and loss:mean() or loss:sum() * 0
end

local take_focal = args.signature [[vision.ops.sigmoid_focal_loss(inputs: tensor, targets: tensor,
   alpha: number = 0.25, gamma: number = 2, reduction: string = 'none')]]

--- Returns the binary cross-entropy of logits, with lower weights for easy examples: each loss is
--- multiplied by (1 - p)^gamma, where p is the probability of the target. If alpha is not negative,
--- the losses of targets 1 are multiplied by alpha, and those of targets 0 by 1 - alpha.
---
---     local loss = torch.vision.ops.sigmoid_focal_loss
---     print(loss(torch.tensor {0.0}, torch.tensor {1.0}))
---     --> tensor([0.0433])
---@param inputs Tensor  logits
---@param targets Tensor  0 or 1, of the same shape
---@param options? {alpha: number, gamma: number, reduction: string}  alpha: 0.25 by default; gamma:
--- 2 by default; reduction: "none" by default, "mean" or "sum"
---@return Tensor
function M.sigmoid_focal_loss(...)
   local title, a = "vision.ops.sigmoid_focal_loss", take_focal(...)
   if a.alpha > 1 or a.alpha ~= a.alpha then
      args.refuse(title, "alpha", "a number up to 1", a.alpha)
   end
   local targets = a.targets:to(a.inputs.dtype)
   local p = a.inputs:sigmoid()
   local entropy = F.binary_cross_entropy_with_logits(a.inputs, targets, {reduction = "none"})
   local loss = entropy * (1 - (p * targets + (1 - p) * (1 - targets))) ^ a.gamma
   if a.alpha >= 0 then
      loss = loss * (targets * a.alpha + (1 - targets) * (1 - a.alpha))
   end
   return reduce(title, loss, a.reduction)
end

-- Returns the corners of boxes (..., 4) as four tensors.
local function corners(boxes)
   return boxes:select(-1, 1), boxes:select(-1, 2), boxes:select(-1, 3), boxes:select(-1, 4)
end

-- Returns the common area of the two boxes of each pair, and the area of their union.
local function overlaps(a, b)
   local ax1, ay1, ax2, ay2 = corners(a)
   local bx1, by1, bx2, by2 = corners(b)
   local width = torch.minimum(ax2, bx2) - torch.maximum(ax1, bx1)
   local height = torch.minimum(ay2, by2) - torch.maximum(ay1, by1)
   local common = torch.where(width:gt(0):logical_and(height:gt(0)), width * height,
      torch.zeros_like(width))
   return common, (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - common
end

-- Returns the width and height of the smallest box around the two boxes of each pair.
local function hull(a, b)
   local ax1, ay1, ax2, ay2 = corners(a)
   local bx1, by1, bx2, by2 = corners(b)
   return torch.maximum(ax2, bx2) - torch.minimum(ax1, bx1),
      torch.maximum(ay2, by2) - torch.minimum(ay1, by1)
end

-- Returns the loss that distance_box_iou_loss defines for each pair of boxes, and the overlap of
-- the two boxes.
local function distance(a, b, eps)
   local common, union = overlaps(a, b)
   local iou = common / (union + eps)
   local width, height = hull(a, b)
   local ax1, ay1, ax2, ay2 = corners(a)
   local bx1, by1, bx2, by2 = corners(b)
   local centres = ((ax1 + ax2) / 2 - (bx1 + bx2) / 2):square()
      + ((ay1 + ay2) / 2 - (by1 + by2) / 2):square()
   return 1 - iou + centres / (width:square() + height:square() + eps), iou
end

-- Defines a loss that is a function of pairs of boxes. fn(a, b, eps) returns the loss of each pair.
local function define_loss(name, fn)
   local title = "vision.ops." .. name
   local take = args.signature(title .. [[(boxes1: tensor, boxes2: tensor,
      reduction: string = 'none', eps: number = 1e-7)]])
   M[name] = function(...)
      local a = take(...)
      for _, which in ipairs {"boxes1", "boxes2"} do
         local boxes = a[which]
         if boxes:dim() < 1 or boxes:size(-1) ~= 4 or not boxes:is_floating_point() then
            args.refuse(title, which, "floating numbers of shape (..., 4)", boxes)
         end
      end
      local function wide(x) return x:element_size() >= 4 and x or x:float() end
      return reduce(title, fn(wide(a.boxes1), wide(a.boxes2), a.eps), a.reduction)
   end
end

--- Returns a loss for each pair of boxes: 1 minus the overlap that generalized_box_iou,
--- distance_box_iou or complete_box_iou defines.
---
---     local ops = torch.vision.ops
---     local a, b = torch.tensor {{0.0, 0, 2, 2}}, torch.tensor {{1.0, 0, 3, 2}}
---     print(ops.generalized_box_iou_loss(a, b))
---     --> tensor([0.6667])
---@names vision.ops.generalized_box_iou_loss vision.ops.distance_box_iou_loss
---@names vision.ops.complete_box_iou_loss
---@param boxes1 Tensor  (..., 4) x1, y1, x2, y2
---@param boxes2 Tensor  (..., 4)
---@param options? {reduction: string, eps: number}  reduction: "none" by default, "mean" or "sum";
--- eps: a number that is added to divisors, 1e-7 by default
---@return Tensor

define_loss("generalized_box_iou_loss", function(a, b, eps)
   local common, union = overlaps(a, b)
   local width, height = hull(a, b)
   local area = width * height
   return 1 - (common / (union + eps) - (area - union) / (area + eps))
end)

define_loss("distance_box_iou_loss", function(a, b, eps)
   return (distance(a, b, eps))
end)

define_loss("complete_box_iou_loss", function(a, b, eps)
   local loss, iou = distance(a, b, eps)
   local function angle(boxes)
      local x1, y1, x2, y2 = corners(boxes)
      return ((x2 - x1) / (y2 - y1)):atan()
   end
   local v = (angle(b) - angle(a)):square() * (4 / math.pi ^ 2)
   local alpha = torch.no_grad(function() return v / (1 - iou + v + eps) end)
   return loss + alpha * v
end)

return M
