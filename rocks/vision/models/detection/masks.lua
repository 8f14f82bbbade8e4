-- masks.lua - the mask branch of Mask R-CNN. In training, the parts of true masks inside boxes are
-- cut out. Predicted masks are pasted into images.

local torch = require "tlua"
local roi = require "tlua.vision.ops.roi"

local F = torch.nn.functional

local M = {}

--- Returns the loss of predicted masks: the binary cross-entropy with the targets' masks.
---@param logits Tensor  (n, classes, m, m), for all boxes of all images
---@param boxes Tensor[]  (k, 4) for each image
---@param targets table[]  the target of each image, with the fields masks and labels
---@param matches Tensor[]  (k) the position of each box's target
---@return Tensor
function M.loss(logits, boxes, targets, matches)
   local side, labels, truths = logits:size(3), {}, {}
   for i, target in ipairs(targets) do
      labels[i] = target.labels:index_select(1, matches[i])
      local rows = torch.cat({matches[i]:to(boxes[i].dtype):unsqueeze(2), boxes[i]}, 2)
      if rows:size(1) > 0 then
         truths[#truths + 1] = roi.roi_align(target.masks:to(logits.dtype):unsqueeze(2), rows,
            side):select(2, 1)
      end
   end
   if #truths == 0 then return logits:sum() * 0 end
   return F.binary_cross_entropy_with_logits(M.of_labels(logits, torch.cat(labels)),
      torch.cat(truths))
end

--- Returns, for each box, the map of the box's class.
---@param maps Tensor  (n, classes, m, m)
---@param labels Tensor  (n) positions of classes
---@return Tensor  (n, m, m)
function M.of_labels(maps, labels)
   local n, classes = maps:size(1), maps:size(2)
   local rows = torch.arange(0, n, {device = labels.device, dtype = "int64"}) * classes + labels
   return maps:flatten(1, 2):index_select(1, rows)
end

-- Adds a margin of one pixel with value 0 to masks, and enlarges their boxes in proportion.
-- Interpolated masks then fall smoothly to zero at their edges.
local function with_margin(masks, boxes)
   local side = masks:size(3)
   local x1, y1, x2, y2 = table.unpack(boxes:unbind(2))
   local scale = (side + 2) / side
   local half_width, half_height = (x2 - x1) * 0.5 * scale, (y2 - y1) * 0.5 * scale
   local x, y = (x1 + x2) * 0.5, (y1 + y2) * 0.5
   return F.pad(masks, {1, 1, 1, 1}), torch.stack({x - half_width, y - half_height, x + half_width,
      y + half_height}, 2):long():cpu():tolist()
end

--- Pastes masks of boxes into empty masks of the size of the image.
---@param masks Tensor  (n, 1, m, m) probabilities
---@param boxes Tensor  (n, 4)
---@param size integer[]  the image's height and width
---@return Tensor  (n, 1, height, width)
function M.paste(masks, boxes, size)
   local n, height, width = masks:size(1), size[1], size[2]
   local result = masks:new_zeros {n, 1, height, width}
   local padded, corners = with_margin(masks, boxes)
   for i = 1, n do
      local x1, y1, x2, y2 = table.unpack(corners[i])
      local w, h = math.max(x2 - x1 + 1, 1), math.max(y2 - y1 + 1, 1)
      local own = F.interpolate(padded:narrow(1, i, 1), {size = {h, w}, mode = "bilinear"})
      local left, right = math.max(x1, 0), math.min(x2 + 1, width)
      local top, bottom = math.max(y1, 0), math.min(y2 + 1, height)
      if right > left and bottom > top then
         local h_in, w_in = bottom - top, right - left
         result:narrow(1, i, 1):narrow(3, top + 1, h_in):narrow(4, left + 1, w_in)
            :copy_(own:narrow(3, top - y1 + 1, h_in):narrow(4, left - x1 + 1, w_in))
      end
   end
   return result
end

return M
