-- keypoints.lua - the keypoint branch of Keypoint R-CNN. In training, keypoints are converted to
-- cells of heat maps. Predicted heat maps are converted to points.

local torch = require "tlua"

local F = torch.nn.functional

local M = {}

-- Returns the numbers (n, points) of the cells in which keypoints (n, points, 3) lie, in the heat
-- maps of their boxes. Cells are counted row by row from 1. Also returns whether each keypoint is
-- visible and inside its box.
local function cells(keypoints, boxes, side)
   local x1, y1, x2, y2 = table.unpack(boxes:unsqueeze(2):unbind(3))
   local x, y = keypoints:select(3, 1), keypoints:select(3, 2)
   local column = ((x - x1) * (side / (x2 - x1))):floor():masked_fill(x:eq(x2), side - 1)
   local row = ((y - y1) * (side / (y2 - y1))):floor():masked_fill(y:eq(y2), side - 1)
   local is_inside = column:ge(0):logical_and(row:ge(0)):logical_and(column:lt(side))
      :logical_and(row:lt(side))
   return (row * side + column + 1):long(), is_inside:logical_and(keypoints:select(3, 3):gt(0))
end

--- Returns the loss of predicted heat maps: the cross-entropy for the cells of the targets'
--- keypoints.
---@param logits Tensor  (n, points, side, side), for all boxes of all images
---@param boxes Tensor[]  (k, 4) for each image
---@param targets table[]  the target of each image, with the field keypoints
---@param matches Tensor[]  (k) the position of each box's target
---@return Tensor
function M.loss(logits, boxes, targets, matches)
   local all, marks = {}, {}
   for i, target in ipairs(targets) do
      local own = target.keypoints:to(logits.dtype):index_select(1, matches[i])
      if own:size(1) > 0 and own:size(2) ~= logits:size(2) then
         torch.raise(("vision.models.detection.KeypointRCNN: targets[%d].keypoints: expected %d "
            .. "points, got %d"):format(i, logits:size(2), own:size(2)))
      end
      if own:size(1) > 0 then
         local cell, is_valid = cells(own, boxes[i], logits:size(3))
         all[#all + 1], marks[#marks + 1] = cell:flatten(), is_valid:flatten()
      end
   end
   local valid = #all > 0 and torch.cat(marks):nonzero():squeeze(2)
   if not valid or valid:numel() == 0 then return logits:sum() * 0 end
   return F.cross_entropy(logits:flatten(1, 2):flatten(2):index_select(1, valid),
      torch.cat(all):index_select(1, valid))
end

--- Returns the points that heat maps predict. A point is the pixel with the highest value, after
--- the map has been resized to the size of its box.
---@param maps Tensor  (n, points, side, side)
---@param boxes Tensor  (n, 4)
---@return Tensor points, Tensor scores  (n, points, 3): x, y and 1; (n, points): the highest values
function M.points(maps, boxes)
   local n, count = maps:size(1), maps:size(2)
   local points, scores = maps:new_ones {n, count, 3}, maps:new_zeros {n, count}
   local sizes = (boxes:narrow(2, 3, 2) - boxes:narrow(2, 1, 2)):clamp_min(1)
   local corners = torch.cat({boxes:narrow(2, 1, 2), sizes}, 2):cpu():tolist()
   for i = 1, n do
      local x1, y1, width, height = table.unpack(corners[i])
      local columns, rows = math.ceil(width), math.ceil(height)
      local map = F.interpolate(maps[i]:unsqueeze(2), {size = {rows, columns}, mode = "bicubic"})
      local best, where = map:view(count, rows * columns):max(2)
      local position = where - 1
      local row = position:div(columns, {rounding_mode = "floor"})
      local column = position - row * columns
      points[i]:select(2, 1):copy_((column:to(maps.dtype) + 0.5) * (width / columns) + x1)
      points[i]:select(2, 2):copy_((row:to(maps.dtype) + 0.5) * (height / rows) + y1)
      scores[i]:copy_(best)
   end
   return points, scores
end

return M
