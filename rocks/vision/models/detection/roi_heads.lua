-- roi_heads.lua - the second stage of the R-CNN family. It classifies proposals and refines their
-- boxes. Optional branches predict the masks and keypoints of the boxes.

local torch = require "tlua"
local args = require "tlua.args"
local boxes = require "tlua.vision.ops.boxes"
local class = require "tlua.class"
local keypoints = require "tlua.vision.models.detection.keypoints"
local masks = require "tlua.vision.models.detection.masks"
local matching = require "tlua.vision.models.detection.matching"

local nn = torch.nn
local F = nn.functional

local M = {}

-- Layers ------------------------------------------------------------------------------------------

local take_mlp = args.signature [[vision.models.detection.TwoMLPHead(in_channels: count,
   representation_size: count)]]

--- Two linear layers with ReLU. They compute `representation_size` features of a region from its
--- cells, which are flattened to `in_channels` numbers.
---
---     local head = torch.vision.models.detection.TwoMLPHead(8 * 7 * 7, 16)
---     print(table.unpack(head(torch.zeros(2, 8, 7, 7)).shape))
---     --> 2	16
---@class vision.models.detection.TwoMLPHead: nn.Module
---@field fc6 nn.Linear  the first layer
---@field fc7 nn.Linear  the second layer
---@overload fun(in_channels: integer, representation_size: integer): nn.Module
local TwoMLPHead = class.class("vision.models.detection.TwoMLPHead", nn.Module)
M.TwoMLPHead = TwoMLPHead

function TwoMLPHead:__init(...)
   local a = take_mlp(...)
   self.fc6 = nn.Linear(a.in_channels, a.representation_size)
   self.fc7 = nn.Linear(a.representation_size, a.representation_size)
end

function TwoMLPHead:forward(regions)
   return self.fc7(self.fc6(regions:flatten(2)):relu()):relu()
end

local take_predictor = args.signature [[vision.models.detection.FastRCNNPredictor(
   in_channels: count, num_classes: count)]]

--- Two linear layers. From the `in_channels` features of a region they compute the scores of
--- `num_classes` classes, of which the first is the background, and four offsets for each class. To
--- use a model for other classes, replace this part:
---
---     local detection = torch.vision.models.detection
---     local predictor = detection.FastRCNNPredictor(16, 3)
---     local scores, offsets = predictor(torch.zeros(2, 16))
---     print(scores:size(2), offsets:size(2))
---     --> 3	12
---@class vision.models.detection.FastRCNNPredictor: nn.Module
---@field cls_score nn.Linear  computes the scores
---@field bbox_pred nn.Linear  computes the offsets
---@overload fun(in_channels: integer, num_classes: integer): nn.Module
local FastRCNNPredictor = class.class("vision.models.detection.FastRCNNPredictor", nn.Module)
M.FastRCNNPredictor = FastRCNNPredictor

function FastRCNNPredictor:__init(...)
   local a = take_predictor(...)
   self.cls_score = nn.Linear(a.in_channels, a.num_classes)
   self.bbox_pred = nn.Linear(a.in_channels, a.num_classes * 4)
end

function FastRCNNPredictor:forward(features)
   features = features:flatten(2)
   return self.cls_score(features), self.bbox_pred(features)
end

-- Heads -------------------------------------------------------------------------------------------

local take_heads = args.signature [[vision.models.detection.RoIHeads(box_roi_pool: object,
   box_head: object, box_predictor: object, fg_iou_thresh: number, bg_iou_thresh: number,
   batch_size_per_image: count, positive_fraction: number, bbox_reg_weights: numbers?,
   score_thresh: number = 0.05, nms_thresh: number = 0.5, detections_per_img: count = 100)]]

--- Cuts proposals out of feature maps by `box_roi_pool`, computes their features by `box_head`, and
--- their classes and boxes by `box_predictor`. Of the boxes that have a probability above
--- `score_thresh` and overlap by at most `nms_thresh`, the best `detections_per_img` are returned.
--- In training, a proposal whose overlap with a true box is at least `fg_iou_thresh` has the box's
--- class, and proposals with an overlap below `bg_iou_thresh` are background. The losses use
--- `batch_size_per_image` proposals, of which at most the fraction `positive_fraction` are objects.
--- `bbox_reg_weights` multiply the offsets of the centre (two) and of the size (two). The fields
--- mask_roi_pool, mask_head and mask_predictor, or the corresponding fields with keypoint_, add a
--- branch. The call takes feature maps, the proposals, the sizes of the images and the targets. It
--- returns the detections of each image and a table of losses.
---
---     local detection = torch.vision.models.detection
---     local pool = torch.vision.ops.MultiScaleRoIAlign({1}, 2, 2)
---     local heads = detection.RoIHeads(pool, detection.TwoMLPHead(16, 8),
---        detection.FastRCNNPredictor(8, 3), 0.5, 0.5, 512, 0.25)
---     heads:eval()
---     local boxes = {torch.tensor {{0.0, 0, 16, 16}}}
---     local found = heads({torch.rand(1, 4, 4, 4)}, boxes, {{32, 32}})
---     print(#found, found[1].boxes:size(2))
---     --> 1	4
---@class vision.models.detection.RoIHeads: nn.Module
---@field box_roi_pool nn.Module  cuts regions out of the maps
---@field box_head nn.Module  computes the features of regions
---@field box_predictor nn.Module  computes scores and offsets
---@field fg_iou_thresh number  the least overlap of a proposal that is an object
---@field bg_iou_thresh number  proposals with a lower overlap are background
---@field batch_size_per_image integer  the number of proposals in the losses of an image
---@field positive_fraction number  the largest fraction of objects among these
---@field bbox_reg_weights number[]  the weights of the offsets
---@field score_thresh number  the probability that detections must exceed
---@field nms_thresh number  the largest overlap of two detections
---@field detections_per_img integer  the largest number of detections in an image
---@overload fun(...): nn.Module
local RoIHeads = class.class("vision.models.detection.RoIHeads", nn.Module)
M.RoIHeads = RoIHeads

function RoIHeads:__init(...)
   for key, value in pairs(take_heads(...)) do self[key] = value end
   self.bbox_reg_weights = self.bbox_reg_weights or {10, 10, 5, 5}
   if #self.bbox_reg_weights ~= 4 then
      args.refuse("vision.models.detection.RoIHeads", "bbox_reg_weights", "four numbers",
         self.bbox_reg_weights)
   end
end

-- Chooses the proposals for the losses of an image. Returns the proposals, their labels, the
-- positions of the true boxes that they match, and the offsets of these boxes from the proposals.
-- Label 1 is the background.
function RoIHeads:_samples(proposals, target)
   local true_boxes = target.boxes:to(proposals.dtype)
   proposals = torch.cat {proposals, true_boxes}
   local matches, labels
   if true_boxes:size(1) > 0 then
      matches = matching.match(boxes.box_iou(true_boxes, proposals), self.fg_iou_thresh,
         self.bg_iou_thresh)
      labels = target.labels:index_select(1, matches:clamp_min(1))
         :masked_fill(matches:eq(matching.BACKGROUND), 1)
   else
      matches = torch.zeros(proposals:size(1), {dtype = "int64", device = proposals.device})
      labels = matches + 1
      true_boxes = proposals:new_zeros {1, 4}
   end
   local positive, negative = matching.sample(matches:gt(0), matches:eq(matching.BACKGROUND),
      self.batch_size_per_image, self.positive_fraction)
   local chosen = torch.cat {positive, negative}:sort()
   local function rows(x) return x:index_select(1, chosen) end
   proposals, labels, matches = rows(proposals), rows(labels), rows(matches):clamp_min(1)
   return proposals, labels, matches, matching.encode(true_boxes:index_select(1, matches),
      proposals, self.bbox_reg_weights)
end

-- Returns a table of the losses of classes and of boxes, computed over the proposals of all images.
local function losses_of(scores, offsets, labels, truths)
   local n, classes = scores:size(1), scores:size(2)
   local positive = labels:gt(1):nonzero():squeeze(2)
   local rows = (positive - 1) * classes + labels:index_select(1, positive)
   return {
      loss_classifier = F.cross_entropy(scores, labels),
      loss_box_reg = F.smooth_l1_loss(offsets:view(n * classes, 4):index_select(1, rows),
         truths:index_select(1, positive), {beta = 1 / 9, reduction = "sum"}) / n,
   }
end

-- Returns the detections in one image, given `scores` (n, classes) and `offsets` (n, classes, 4) of
-- its proposals.
function RoIHeads:_detections(scores, offsets, proposals, size)
   local n, classes = scores:size(1), scores:size(2)
   local all = matching.decode(offsets, proposals:unsqueeze(2), self.bbox_reg_weights)
   all = boxes.clip_boxes_to_image(all, size):narrow(2, 2, classes - 1):reshape(-1, 4)
   local labels = torch.arange(2, classes + 1, {device = scores.device, dtype = "int64"})
      :unsqueeze(1):expand(n, classes - 1):flatten()
   scores = scores:narrow(2, 2, classes - 1):flatten()
   local is_large = (all:narrow(2, 3, 2) - all:narrow(2, 1, 2)):ge(1e-2):all(2)
   local good = scores:gt(self.score_thresh):logical_and(is_large):nonzero():squeeze(2)
   local function choose(positions)
      all, scores = all:index_select(1, positions), scores:index_select(1, positions)
      labels = labels:index_select(1, positions)
   end
   choose(good)
   local best = boxes.batched_nms(all, scores, labels, self.nms_thresh)
   choose(best:narrow(1, 1, math.min(self.detections_per_img, best:numel())))
   return {boxes = all, labels = labels, scores = scores}
end

-- Runs the branch `name` ("mask" or "keypoint") on all boxes of all images. Returns its output and
-- a table with the list `boxes`, and in training the list `matches`. In training, the boxes are the
-- proposals that are objects; otherwise they are the detections.
function RoIHeads:_branch(name, maps, sizes, samples, detections)
   local own = {boxes = {}, matches = {}}
   for i = 1, #sizes do
      if self.training then
         local positive = samples.labels[i]:gt(1):nonzero():squeeze(2)
         own.boxes[i] = samples.proposals[i]:index_select(1, positive)
         own.matches[i] = samples.matches[i]:index_select(1, positive)
      else
         own.boxes[i] = detections[i].boxes
      end
   end
   local regions = self[name .. "_roi_pool"](maps, own.boxes, sizes)
   return self[name .. "_predictor"](self[name .. "_head"](regions)), own
end

-- Calls visit(detection, first, count) for each detection. Its boxes have the rows first to first +
-- count - 1 in a tensor with the rows of all detections.
local function each(detections, visit)
   local first = 1
   for _, detection in ipairs(detections) do
      local count = detection.boxes:size(1)
      visit(detection, first, count)
      first = first + count
   end
end

function RoIHeads:_masks(maps, sizes, samples, detections, targets, losses)
   local logits, own = self:_branch("mask", maps, sizes, samples, detections)
   if self.training then
      losses.loss_mask = masks.loss(logits, own.boxes, targets, own.matches)
      return
   end
   local probabilities = logits:sigmoid()
   each(detections, function(detection, first, count)
      detection.masks = masks.of_labels(probabilities:narrow(1, first, count), detection.labels)
         :unsqueeze(2)
   end)
end

function RoIHeads:_keypoints(maps, sizes, samples, detections, targets, losses)
   local logits, own = self:_branch("keypoint", maps, sizes, samples, detections)
   if self.training then
      losses.loss_keypoint = keypoints.loss(logits, own.boxes, targets, own.matches)
      return
   end
   each(detections, function(detection, first, count)
      detection.keypoints, detection.keypoints_scores =
         keypoints.points(logits:narrow(1, first, count), detection.boxes)
   end)
end

function RoIHeads:forward(maps, proposals, sizes, targets)
   local samples, truths = {proposals = {}, labels = {}, matches = {}}, {}
   if self.training then
      for i, own in ipairs(proposals) do
         samples.proposals[i], samples.labels[i], samples.matches[i], truths[i] =
            self:_samples(own, targets[i])
      end
      proposals = samples.proposals
   end
   local scores, offsets = self.box_predictor(self.box_head(self.box_roi_pool(maps, proposals,
      sizes)))
   local losses, detections = {}, {}
   if self.training then
      losses = losses_of(scores, offsets, torch.cat(samples.labels), torch.cat(truths))
   else
      local first, classes = 1, scores:size(2)
      scores, offsets = scores:softmax(2), offsets:view(-1, classes, 4)
      for i, own in ipairs(proposals) do
         local count = own:size(1)
         detections[i] = self:_detections(scores:narrow(1, first, count),
            offsets:narrow(1, first, count), own, sizes[i])
         first = first + count
      end
   end
   if self.mask_head then self:_masks(maps, sizes, samples, detections, targets, losses) end
   if self.keypoint_head then self:_keypoints(maps, sizes, samples, detections, targets, losses) end
   return detections, losses
end

return M
