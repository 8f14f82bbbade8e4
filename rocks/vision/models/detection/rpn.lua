-- rpn.lua - the region proposal network (Ren et al., 2015). It computes how likely each anchor
-- contains an object, and returns the most likely anchors, moved by predicted offsets, as
-- proposals.

local torch = require "tlua"
local args = require "tlua.args"
local boxes = require "tlua.vision.ops.boxes"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"
local matching = require "tlua.vision.models.detection.matching"
local old_names = require "tlua.vision.old_names"

local nn = torch.nn
local F = nn.functional

local M = {}

local take_head = args.signature [[vision.models.detection.RPNHead(in_channels: count,
   num_anchors: count, conv_depth: layers = 1)]]

--- The layers of a region proposal network. After `conv_depth` 3x3 convolutions, they compute a
--- score and four offsets for each of the `num_anchors` anchors at each position. The call takes a
--- list of maps of `in_channels` channels, and returns the lists of scores and of offsets.
---
---     local head = torch.vision.models.detection.RPNHead(8, 3)
---     local scores, offsets = head {torch.zeros(1, 8, 4, 4)}
---     print(scores[1]:size(2), offsets[1]:size(2))
---     --> 3	12
---@class vision.models.detection.RPNHead: nn.Module
---@field conv nn.Sequential  the 3x3 convolutions
---@field cls_logits nn.Conv2d  computes the scores
---@field bbox_pred nn.Conv2d  computes the offsets
---@overload fun(in_channels: integer, num_anchors: integer, conv_depth?: integer): nn.Module
local RPNHead = class.class("vision.models.detection.RPNHead", nn.Module)
M.RPNHead = RPNHead

function RPNHead:__init(...)
   local a = take_head(...)
   self.conv = nn.Sequential()
   for _ = 1, a.conv_depth do
      self.conv:add(layers.Conv2dNormActivation(a.in_channels, a.in_channels, {norm_layer = false}))
   end
   self.cls_logits = nn.Conv2d(a.in_channels, a.num_anchors, 1)
   self.bbox_pred = nn.Conv2d(a.in_channels, a.num_anchors * 4, 1)
   define.initialize(self, {conv = define.normal(0.01)})
   old_names(self, {["conv.weight"] = "conv.0.0.weight", ["conv.bias"] = "conv.0.0.bias"})
end

function RPNHead:forward(maps)
   local scores, offsets = {}, {}
   for i, map in ipairs(maps) do
      local hidden = self.conv(map)
      scores[i], offsets[i] = self.cls_logits(hidden), self.bbox_pred(hidden)
   end
   return scores, offsets
end

--- Returns the predictions of a map, with a row for each anchor of each position.
---@param map Tensor  (N, anchors * columns, H, W)
---@param columns integer
---@return Tensor  (N, H * W * anchors, columns)
function M.rows(map, columns)
   local n, height, width = map:size(1), map:size(3), map:size(4)
   return map:view(n, -1, columns, height, width):permute {1, 4, 5, 2, 3}:reshape(n, -1, columns)
end

local take_network = args.signature [[vision.models.detection.RegionProposalNetwork(
   anchor_generator: object, head: object, fg_iou_thresh: number, bg_iou_thresh: number,
   batch_size_per_image: count, positive_fraction: number, pre_nms_top_n: table,
   post_nms_top_n: table, nms_thresh: number, score_thresh: number = 0)]]

--- Scores the anchors of `anchor_generator` by `head`, and returns the best anchors as proposals.
--- First, the `pre_nms_top_n` anchors with the highest scores are taken from each map. Then anchors
--- that have a probability below `score_thresh`, or overlap with a better anchor by more than
--- `nms_thresh`, are removed. The best `post_nms_top_n` remain. `pre_nms_top_n` and
--- `post_nms_top_n` are tables with the fields `training` and `testing`. In training, an anchor
--- whose overlap with a true box is at least `fg_iou_thresh` is an object, and anchors with an
--- overlap below `bg_iou_thresh` are background. The losses use `batch_size_per_image` anchors, of
--- which at most the fraction `positive_fraction` are objects. The call takes the batch of
--- GeneralizedRCNNTransform, a list of maps and the targets. It returns the proposals (n, 4) of
--- each image and a table of losses.
---
---     local detection = torch.vision.models.detection
---     local anchors = detection.AnchorGenerator({{16}}, {1})
---     local count = {training = 9, testing = 3}
---     local rpn = detection.RegionProposalNetwork(anchors,
---        detection.RPNHead(4, 1), 0.7, 0.3, 256, 0.5, count, count, 0.7)
---     rpn:eval()
---     local batch = {tensors = torch.zeros(1, 3, 32, 32), sizes = {{32, 32}}}
---     local proposals = rpn(batch, {torch.rand(1, 4, 4, 4)})
---     print(#proposals, proposals[1]:size(2))
---     --> 1	4
---@class vision.models.detection.RegionProposalNetwork: nn.Module
---@field anchor_generator nn.Module  makes the anchors
---@field head nn.Module  scores the anchors
---@field fg_iou_thresh number  the least overlap of an anchor that is an object
---@field bg_iou_thresh number  anchors with a lower overlap are background
---@field batch_size_per_image integer  the number of anchors in the losses of an image
---@field positive_fraction number  the largest fraction of objects among these
---@field pre_nms_top_n table  the number of proposals before overlapping ones are removed
---@field post_nms_top_n table  the number of proposals after overlapping ones are removed
---@field nms_thresh number  the largest overlap of two proposals
---@field score_thresh number  the least probability of a proposal
---@overload fun(...): nn.Module
local RegionProposalNetwork = class.class("vision.models.detection.RegionProposalNetwork",
   nn.Module)
M.RegionProposalNetwork = RegionProposalNetwork

function RegionProposalNetwork:__init(...)
   for key, value in pairs(take_network(...)) do self[key] = value end
end

local plain <const> = {1, 1, 1, 1}

-- Returns the best proposals in an image, in decreasing order of score. `scores` (n) and the boxes
-- `all` (n, 4) belong to the anchors of all maps. `counts` has the number of anchors of each map.
function RegionProposalNetwork:_best(scores, all, counts, size)
   local mode = self.training and "training" or "testing"
   local kept, levels, first = {}, {}, 0
   for level, count in ipairs(counts) do
      local own = scores:narrow(1, first + 1, count)
      local best = select(2, own:topk(math.min(self.pre_nms_top_n[mode], count)))
      kept[level], levels[level] = best + first, torch.full_like(best, level)
      first = first + count
   end
   kept, levels = torch.cat(kept), torch.cat(levels)
   scores = scores:index_select(1, kept):sigmoid()
   all = boxes.clip_boxes_to_image(all:index_select(1, kept), size)
   local is_large = (all:narrow(2, 3, 2) - all:narrow(2, 1, 2)):ge(1e-3):all(2)
   local good = is_large:logical_and(scores:ge(self.score_thresh)):nonzero():squeeze(2)
   all, scores = all:index_select(1, good), scores:index_select(1, good)
   local best = boxes.batched_nms(all, scores, levels:index_select(1, good), self.nms_thresh)
   best = best:narrow(1, 1, math.min(self.post_nms_top_n[mode], best:numel()))
   return all:index_select(1, best)
end

-- Chooses the anchors for the losses of an image. Returns their positions, the number of anchors
-- that are objects, and the offsets of the true boxes from these anchors.
function RegionProposalNetwork:_samples(anchors, true_boxes)
   local matches
   if true_boxes:size(1) > 0 then
      matches = matching.match(boxes.box_iou(true_boxes, anchors), self.fg_iou_thresh,
         self.bg_iou_thresh, true)
   else
      matches = torch.full({anchors:size(1)}, matching.BACKGROUND,
         {dtype = "int64", device = anchors.device})
   end
   local positive, negative = matching.sample(matches:gt(0), matches:eq(matching.BACKGROUND),
      self.batch_size_per_image, self.positive_fraction)
   local offsets
   if positive:numel() > 0 then
      local truths = true_boxes:to(anchors.dtype):index_select(1, matches:index_select(1, positive))
      offsets = matching.encode(truths, anchors:index_select(1, positive), plain)
   else
      offsets = anchors:new_zeros {0, 4}
   end
   return positive, negative, offsets
end

function RegionProposalNetwork:_losses(scores, offsets, anchors, targets)
   local positives, negatives, truths = {}, {}, {}
   local count = scores:size(2)
   for i, target in ipairs(targets) do
      local positive, negative, own = self:_samples(anchors[i], target.boxes)
      local shift = (i - 1) * count
      positives[i], negatives[i], truths[i] = positive + shift, negative + shift, own
   end
   local positive, negative = torch.cat(positives), torch.cat(negatives)
   local chosen = torch.cat {positive, negative}
   scores, offsets = scores:flatten():index_select(1, chosen), offsets:view(-1, 4)
   local labels = torch.zeros_like(scores)
   labels:narrow(1, 1, positive:numel()):fill_(1)
   return {
      loss_objectness = F.binary_cross_entropy_with_logits(scores, labels),
      loss_rpn_box_reg = F.smooth_l1_loss(offsets:index_select(1, positive), torch.cat(truths),
         {beta = 1 / 9, reduction = "sum"}) / chosen:numel(),
   }
end

function RegionProposalNetwork:forward(images, maps, targets)
   local scores, offsets = self.head(maps)
   local anchors = self.anchor_generator(images, maps)
   local counts = {}
   for i, map in ipairs(scores) do
      counts[i] = map:size(2) * map:size(3) * map:size(4)
      scores[i], offsets[i] = M.rows(map, 1):squeeze(3), M.rows(offsets[i], 4)
   end
   scores, offsets = torch.cat(scores, 2), torch.cat(offsets, 2)
   local proposals = {}
   torch.no_grad(function()
      for i, own in ipairs(anchors) do
         proposals[i] = self:_best(scores[i], matching.decode(offsets[i], own, plain), counts,
            images.sizes[i])
      end
   end)
   return proposals, self.training and self:_losses(scores, offsets, anchors, targets) or {}
end

return M
