-- retinanet.lua - RetinaNet (Lin et al., 2017): a one-stage detector that learns from all anchors,
-- with the focal loss.

local torch = require "tlua"
local anchors = require "tlua.vision.models.detection.anchors"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local dense = require "tlua.vision.models.detection.dense"
local layers = require "tlua.vision.ops.layers"
local losses = require "tlua.vision.ops.losses"
local matching = require "tlua.vision.models.detection.matching"
local old_names = require "tlua.vision.old_names"
local pyramid = require "tlua.vision.ops.pyramid"
local rcnn = require "tlua.vision.models.detection.rcnn"
local transform = require "tlua.vision.models.detection.transform"

local nn = torch.nn
local F = nn.functional

local M = {}

-- Heads -------------------------------------------------------------------------------------------

-- Returns the four 3x3 convolutions of a head.
local function body(model, channels, norm)
   local conv, names = nn.Sequential(), {}
   for i = 0, 3 do
      conv:add(layers.Conv2dNormActivation(channels, channels, {norm_layer = norm or false}))
      for _, kind in ipairs {"weight", "bias"} do
         names[("conv.%d.%s"):format(2 * i, kind)] = ("conv.%d.0.%s"):format(i, kind)
      end
   end
   if not norm then old_names(model, names) end
   return conv
end

-- With this bias, the initial probability of an object is 0.01.
local unlikely <const> = -math.log(99)

local Classes = class.class("vision.models.detection.RetinaNetClassificationHead", nn.Module)

function Classes:__init(channels, count, classes, norm)
   self.conv = body(self, channels, norm)
   self.cls_logits = nn.Conv2d(channels, count * classes, 3, {padding = 1})
   define.initialize(self, {conv = define.normal(0.01)})
   nn.init.constant_(self.cls_logits.bias, unlikely)
   self.num_classes = classes
end

function Classes:forward(maps)
   return dense.rows(maps, self.num_classes, function(map)
      return self.cls_logits(self.conv(map))
   end)
end

local Offsets = class.class("vision.models.detection.RetinaNetRegressionHead", nn.Module)

function Offsets:__init(channels, count, norm)
   self.conv = body(self, channels, norm)
   self.bbox_reg = nn.Conv2d(channels, count * 4, 3, {padding = 1})
   define.initialize(self, {conv = define.normal(0.01)})
end

function Offsets:forward(maps)
   return dense.rows(maps, 4, function(map) return self.bbox_reg(self.conv(map)) end)
end

local Head = class.class("vision.models.detection.RetinaNetHead", nn.Module)

function Head:__init(channels, count, classes, norm)
   self.classification_head = Classes(channels, count, classes, norm)
   self.regression_head = Offsets(channels, count, norm)
end

function Head:forward(maps)
   return {cls_logits = self.classification_head(maps),
      bbox_regression = self.regression_head(maps)}
end

-- The model ---------------------------------------------------------------------------------------

local defaults <const> = {
   max_size = 1333, image_mean = {0.485, 0.456, 0.406}, image_std = {0.229, 0.224, 0.225},
   score_thresh = 0.05, nms_thresh = 0.5, detections_per_img = 300, fg_iou_thresh = 0.5,
   bg_iou_thresh = 0.4, topk_candidates = 1000,
}
local further <const> = {min_size = true, anchor_generator = true, head = true}

--- RetinaNet on any `backbone` with the field `out_channels`, which returns one map or a list of
--- maps. The options are those of retinanet_resnet50_fpn and the parts anchor_generator and head.
---
---     local detection = torch.vision.models.detection
---     local body = detection.mobilenet_backbone("mobilenet_v3_small")
---     local anchors = detection.AnchorGenerator({{16}, {32}, {64}}, {1})
---     local model = detection.RetinaNet(body, 3,
---        {min_size = 64, anchor_generator = anchors})
---     model:eval()
---     print(#model {torch.rand(3, 64, 64), torch.rand(3, 50, 70)})
---     --> 2
---@class vision.models.detection.RetinaNet: nn.Module
---@overload fun(backbone: nn.Module, num_classes: integer, options?: table): nn.Module
local RetinaNet = class.class("vision.models.detection.RetinaNet", dense.Dense)
M.RetinaNet = RetinaNet

-- Returns a generator with anchors of three sizes at each level.
local function default_anchors()
   local sizes = {}
   for i = 1, 5 do
      local size = 16 << i
      sizes[i] = {size, math.floor(size * 2 ^ (1 / 3)), math.floor(size * 2 ^ (2 / 3))}
   end
   return anchors.AnchorGenerator(sizes, {0.5, 1, 2})
end

function RetinaNet:__init(backbone, num_classes, options)
   local title = "vision.models.detection.RetinaNet"
   local o = args.over_defaults(title, options or {}, defaults, {}, further)
   dense.check(title, backbone, num_classes)
   self.backbone = backbone
   self.anchor_generator = o.anchor_generator or default_anchors()
   self.head = o.head or Head(backbone.out_channels,
      self.anchor_generator:num_anchors_per_location()[1], num_classes)
   self.transform = transform.GeneralizedRCNNTransform(o.min_size or 800, o.max_size, o.image_mean,
      o.image_std)
   for _, name in ipairs {"score_thresh", "nms_thresh", "detections_per_img", "fg_iou_thresh",
         "bg_iou_thresh", "topk_candidates"} do
      self[name] = o[name]
   end
end

function RetinaNet:_labels() return 1, self.head.classification_head.num_classes end

local plain <const> = {1, 1, 1, 1}

-- Returns the loss of the predicted boxes of matched anchors.
function RetinaNet:_box_loss(codes, boxes, from)
   if self.loss_type == "giou" then
      return losses.generalized_box_iou_loss(matching.decode(codes, from, plain), boxes,
         {reduction = "sum"})
   end
   return F.l1_loss(codes, matching.encode(boxes, from, plain), {reduction = "sum"})
end

function RetinaNet:_compute_loss(outputs, all, targets)
   local scores, offsets, n = 0, 0, #targets
   for i, target in ipairs(targets) do
      local logits, codes = outputs.cls_logits[i], outputs.bbox_regression[i]
      local matches = dense.match(all[i], target, self.fg_iou_thresh, self.bg_iou_thresh, true)
      local rows = matches:gt(0):nonzero():squeeze(2)
      local truths = matches:index_select(1, rows)
      local count = math.max(rows:numel(), 1)
      local classes = dense.one_hot(logits, rows, target.labels:index_select(1, truths))
      local used = matches:ne(matching.BETWEEN):nonzero():squeeze(2)
      scores = scores + losses.sigmoid_focal_loss(logits:index_select(1, used),
         classes:index_select(1, used), {reduction = "sum"}) / count
      offsets = offsets + self:_box_loss(codes:index_select(1, rows),
         target.boxes:index_select(1, truths), all[i]:index_select(1, rows)) / count
   end
   return {classification = scores / n, bbox_regression = offsets / n}
end

function RetinaNet:_detections(outputs, all, counts, size)
   return dense.best_of_levels(self, outputs.cls_logits:sigmoid(), counts, size, function(rows)
      return matching.decode(outputs.bbox_regression:index_select(1, rows),
         all:index_select(1, rows), plain)
   end)
end

-- Builders ----------------------------------------------------------------------------------------

local function make(options, row, title)
   local backbone = rcnn.backbone(options, row, title, {returned = {2, 3, 4},
      extra = pyramid.LastLevelP6P7(row.is_v2 and 2048 or 256, 256)})
   local o = {}
   for key, value in pairs(options) do
      if not rcnn.own_options[key] then o[key] = value end
   end
   if row.is_v2 then
      o.anchor_generator = o.anchor_generator or default_anchors()
      o.head = o.head or Head(256, o.anchor_generator:num_anchors_per_location()[1],
         options.num_classes, function(channels) return nn.GroupNorm(32, channels) end)
   end
   local model = RetinaNet(backbone, options.num_classes, o)
   model.loss_type = row.is_v2 and "giou" or "l1"
   return model
end

--- RetinaNet with a pyramid on ResNet-50, from "Focal Loss for Dense Object Detection". The variant
--- _v2 has group normalisation in the heads, and its loss depends on the overlaps of boxes. It is
--- called like fasterrcnn_resnet50_fpn, but has no background class: labels are from 1 to
--- num_classes. In torchvision's weights for COCO, class 1 is unused and objects have labels from 2
--- on.
---@names vision.models.detection.retinanet_resnet50_fpn
---@names vision.models.detection.retinanet_resnet50_fpn_v2
---@param options? {num_classes: integer, min_size: integer|integer[], max_size: integer,
--- image_mean: number[], image_std: number[], score_thresh: number, nms_thresh: number,
--- detections_per_img: integer, topk_candidates: integer, fg_iou_thresh: number, bg_iou_thresh:
--- number, anchor_generator: nn.Module, head: nn.Module, weights: string|table, weights_backbone:
--- string|table, trainable_backbone_layers: integer, norm_layer: function} num_classes: 91 by
--- default; min_size, max_size: the pixels of an image's shorter and longer side, 800 and 1333 by
--- default; image_mean, image_std: normalise the channels; score_thresh, nms_thresh: the least
--- probability of detections, 0.05 by default, and their largest overlap, 0.5 by default;
--- detections_per_img: 300 by default; topk_candidates: how many detections of a level are
--- compared, 1000 by default; fg_iou_thresh, bg_iou_thresh: the overlaps of matched and of
--- background anchors, 0.5 and 0.4 by default; anchor_generator, head: modules that replace these
--- parts; weights, weights_backbone, trainable_backbone_layers, norm_layer: those of
--- fasterrcnn_resnet50_fpn
---@return vision.models.detection.RetinaNet
local all = {num_classes = 91}
for key, value in pairs(defaults) do all[key] = value end
for name, builder in pairs(define.builders(all, {
   retinanet_resnet50_fpn = {}, retinanet_resnet50_fpn_v2 = {is_v2 = true},
}, make, dense.options(further))) do
   M[name] = builder
end

return M
