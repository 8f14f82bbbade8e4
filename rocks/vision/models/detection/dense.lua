-- dense.lua - the common parts of one-stage detectors, which predict a class and offsets for each
-- anchor.

local torch = require "tlua"
local args = require "tlua.args"
local boxes = require "tlua.vision.ops.boxes"
local class = require "tlua.class"
local matching = require "tlua.vision.models.detection.matching"
local rpn = require "tlua.vision.models.detection.rpn"

local nn = torch.nn

local M = {}

--- The base class of one-stage detectors, which consist of a transform, a backbone, an
--- anchor_generator and a head. A derived class defines _compute_loss(outputs, anchors, targets,
--- counts) and _detections(outputs, anchors, counts, size). `outputs` is the head's table of
--- tensors (N, anchors, columns), and `counts` has the number of anchors of each map.
local Dense = class.class("vision.models.detection.Dense", nn.Module)
M.Dense = Dense

function Dense:forward(images, targets)
   local first, last = self:_labels()
   matching.check(torch.type(self), images, targets, self.training, first, last)
   local originals = {}
   for i, image in ipairs(images) do originals[i] = {image:size(2), image:size(3)} end
   local batch, resized = self.transform(images, self.training and targets or nil)
   local maps = self.backbone(batch.tensors)
   if torch.is_tensor(maps) then maps = {maps} end
   local outputs = self.head(maps)
   local anchors = self.anchor_generator(batch, maps)
   local counts, per_place = {}, self.anchor_generator:num_anchors_per_location()
   for i, map in ipairs(maps) do counts[i] = map:size(3) * map:size(4) * per_place[i] end
   if self.training then return self:_compute_loss(outputs, anchors, resized, counts) end
   local detections = {}
   for i, size in ipairs(batch.sizes) do
      local own = {}
      for name, output in pairs(outputs) do own[name] = output[i] end
      detections[i] = self:_detections(own, anchors[i], counts, size)
   end
   return self.transform:postprocess(detections, batch.sizes, originals)
end

--- Raises an error if a backbone or a number of classes is wrong.
---@param title string
---@param backbone any
---@param num_classes any
---@param is_list? boolean  whether the field out_channels is a list
function M.check(title, backbone, num_classes, is_list)
   local is_module = class.isinstance(backbone, nn.Module)
   local channels = is_module and backbone.out_channels
   if not (is_list and type(channels) == "table" or math.type(channels) == "integer") then
      args.refuse(title, "backbone", "a model with the field out_channels", backbone)
   end
   if math.type(num_classes) ~= "integer" or num_classes < 1 then
      args.refuse(title, "num_classes", "an integer of at least 1", num_classes)
   end
end

--- Returns the set of those options of a builder that have no default: the options that all
--- builders have, and those of the model's class.
---@param further table<string, boolean>  the options of the model's class
---@return table<string, boolean>
function M.options(further)
   local all = {weights_backbone = true, norm_layer = true, trainable_backbone_layers = true}
   for key in pairs(further) do all[key] = true end
   return all
end

--- Calls `layers` with each map. Returns the predictions for the anchors of all maps, one row for
--- each anchor.
---@param maps Tensor[]
---@param columns integer
---@param layers fun(map: Tensor): Tensor
---@return Tensor  (N, anchors, columns)
function M.rows(maps, columns, layers)
   local list = {}
   for i, map in ipairs(maps) do list[i] = rpn.rows(layers(map), columns) end
   return torch.cat(list, 2)
end

--- Matches the anchors of an image with its true boxes by their overlaps. Returns, for each anchor,
--- what matching.match returns.
---@param anchors Tensor
---@param target table
---@param high number
---@param low number
---@param keeps_best boolean
---@return Tensor
function M.match(anchors, target, high, low, keeps_best)
   if target.boxes:size(1) == 0 then
      return torch.full({anchors:size(1)}, matching.BACKGROUND,
         {dtype = "int64", device = anchors.device})
   end
   return matching.match(boxes.box_iou(target.boxes, anchors), high, low, keeps_best)
end

--- Returns a tensor like `logits` that is 1 at the class of each matched anchor, and otherwise 0.
---@param logits Tensor  (n, classes)
---@param rows Tensor  positions of anchors
---@param labels Tensor  the classes of these anchors
---@return Tensor  (n, classes)
function M.one_hot(logits, rows, labels)
   local result = torch.zeros_like(logits)
   result:view(-1):index_fill_(1, (rows - 1) * logits:size(2) + labels, 1)
   return result
end

--- Returns the detections of an image. The probability of a class is independent of those of other
--- classes.
---@param model nn.Module  has score_thresh, topk_candidates, nms_thresh and detections_per_img
---@param scores Tensor  (anchors, classes)
---@param counts integer[]  the number of anchors of each map
---@param size integer[]  the image's height and width
---@param decode fun(rows: Tensor): Tensor  returns the boxes of some anchors
---@return table
function M.best_of_levels(model, scores, counts, size, decode)
   local classes, rows, labels, own, first = scores:size(2), {}, {}, {}, 0
   for level, count in ipairs(counts) do
      local flat = scores:narrow(1, first + 1, count):flatten()
      local good = flat:gt(model.score_thresh):nonzero():squeeze(2)
      local best, order = flat:index_select(1, good)
         :topk(math.min(model.topk_candidates, good:numel()))
      good = good:index_select(1, order) - 1
      local row = good:div(classes, {rounding_mode = "floor"})
      rows[level], labels[level], own[level] = row + first + 1, good - row * classes + 1, best
      first = first + count
   end
   rows, labels, own = torch.cat(rows), torch.cat(labels), torch.cat(own)
   return M.without_overlaps(model, boxes.clip_boxes_to_image(decode(rows), size), own, labels)
end

--- Removes boxes that overlap with better boxes of the same class. Returns the detections that
--- remain.
---@param model nn.Module  has nms_thresh and detections_per_img
---@param all Tensor  (n, 4)
---@param scores Tensor  (n)
---@param labels Tensor  (n)
---@return table
function M.without_overlaps(model, all, scores, labels)
   local kept = boxes.batched_nms(all, scores, labels, model.nms_thresh)
   kept = kept:narrow(1, 1, math.min(model.detections_per_img, kept:numel()))
   return {boxes = all:index_select(1, kept), scores = scores:index_select(1, kept),
      labels = labels:index_select(1, kept)}
end

return M
