-- fcos.lua - FCOS (Tian et al., 2019): each position of a map that lies in a box predicts the
-- distances to the four sides of the box.

local torch = require "tlua"
local anchors = require "tlua.vision.models.detection.anchors"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local dense = require "tlua.vision.models.detection.dense"
local losses = require "tlua.vision.ops.losses"
local pyramid = require "tlua.vision.ops.pyramid"
local rcnn = require "tlua.vision.models.detection.rcnn"
local transform = require "tlua.vision.models.detection.transform"

local nn = torch.nn
local F = nn.functional

local M = {}

-- Heads -------------------------------------------------------------------------------------------

local function body(channels)
   local conv = nn.Sequential()
   for _ = 1, 4 do
      conv:add(nn.Conv2d(channels, channels, 3, {padding = 1})):add(nn.GroupNorm(32, channels))
         :add(nn.ReLU())
   end
   return conv
end

local Classes = class.class("vision.models.detection.FCOSClassificationHead", nn.Module)

function Classes:__init(channels, classes)
   self.conv = body(channels)
   self.cls_logits = nn.Conv2d(channels, classes, 3, {padding = 1})
   define.initialize(self, {conv = define.normal(0.01)})
   -- with this bias, the initial probability is 0.01
   nn.init.constant_(self.cls_logits.bias, -math.log(99))
   self.num_classes = classes
end

function Classes:forward(maps)
   return dense.rows(maps, self.num_classes, function(map)
      return self.cls_logits(self.conv(map))
   end)
end

local Sides = class.class("vision.models.detection.FCOSRegressionHead", nn.Module)

function Sides:__init(channels)
   self.conv = body(channels)
   self.bbox_reg = nn.Conv2d(channels, 4, 3, {padding = 1})
   self.bbox_ctrness = nn.Conv2d(channels, 1, 3, {padding = 1})
   define.initialize(self, {conv = define.normal(0.01)})
end

function Sides:forward(maps)
   local hidden = {}
   for i, map in ipairs(maps) do hidden[i] = self.conv(map) end
   return dense.rows(hidden, 4, function(map) return self.bbox_reg(map):relu() end),
      dense.rows(hidden, 1, function(map) return self.bbox_ctrness(map) end)
end

local Head = class.class("vision.models.detection.FCOSHead", nn.Module)

function Head:__init(channels, classes)
   self.classification_head = Classes(channels, classes)
   self.regression_head = Sides(channels)
end

function Head:forward(maps)
   local sides, centreness = self.regression_head(maps)
   return {cls_logits = self.classification_head(maps), bbox_regression = sides,
      bbox_ctrness = centreness}
end

-- Geometry ----------------------------------------------------------------------------------------

-- Returns the centres of boxes (..., 4) as x, y, x, y, and their sizes as width, height, width,
-- height.
local function centres(boxes)
   local low, high = boxes:narrow(-1, 1, 2), boxes:narrow(-1, 3, 2)
   local centre, size = (low + high) * 0.5, high - low
   return torch.cat({centre, centre}, -1), torch.cat({size, size}, -1)
end

local function signs(like)
   return torch.tensor({-1, -1, 1, 1}, {dtype = like.dtype, device = like.device})
end

-- Converts distances (..., 4) to boxes. The distances go from the centre of an anchor to the left,
-- top, right and bottom side of a box, and are relative to the anchor's size.
local function decode(distances, from)
   local centre, size = centres(from)
   return centre + distances * size * signs(distances)
end

-- Returns the distances from the centres of anchors to the left, top, right and bottom sides of
-- boxes, relative to the sizes of the anchors.
local function encode(boxes, from)
   local centre, size = centres(from)
   return (boxes - centre) * signs(boxes) / size
end

-- The model ---------------------------------------------------------------------------------------

local defaults <const> = {
   max_size = 1333, image_mean = {0.485, 0.456, 0.406}, image_std = {0.229, 0.224, 0.225},
   center_sampling_radius = 1.5, score_thresh = 0.2, nms_thresh = 0.6, detections_per_img = 100,
   topk_candidates = 1000,
}
local further <const> = {min_size = true, anchor_generator = true, head = true}

--- FCOS on any `backbone` with the field `out_channels`, which returns one map or a list of maps.
--- The options are those of fcos_resnet50_fpn, with the parts head and anchor_generator. The
--- anchor_generator makes one anchor at each position, as large as the stride of the map.
---
---     local detection = torch.vision.models.detection
---     local body = detection.mobilenet_backbone("mobilenet_v3_small")
---     local anchors = detection.AnchorGenerator({{16}, {32}, {64}}, {1})
---     local model = detection.FCOS(body, 3,
---        {min_size = 64, anchor_generator = anchors})
---     model:eval()
---     print(#model {torch.rand(3, 64, 64), torch.rand(3, 50, 70)})
---     --> 2
---@class vision.models.detection.FCOS: nn.Module
---@overload fun(backbone: nn.Module, num_classes: integer, options?: table): nn.Module
local FCOS = class.class("vision.models.detection.FCOS", dense.Dense)
M.FCOS = FCOS

function FCOS:__init(backbone, num_classes, options)
   local title = "vision.models.detection.FCOS"
   local o = args.over_defaults(title, options or {}, defaults, {}, further)
   dense.check(title, backbone, num_classes)
   self.backbone = backbone
   self.anchor_generator = o.anchor_generator
      or anchors.AnchorGenerator({{8}, {16}, {32}, {64}, {128}}, {1})
   if self.anchor_generator:num_anchors_per_location()[1] ~= 1 then
      args.refuse(title, "anchor_generator", "one anchor at each place",
         self.anchor_generator:num_anchors_per_location()[1])
   end
   self.head = o.head or Head(backbone.out_channels, num_classes)
   self.transform = transform.GeneralizedRCNNTransform(o.min_size or 800, o.max_size, o.image_mean,
      o.image_std)
   for _, name in ipairs {"center_sampling_radius", "score_thresh", "nms_thresh",
         "detections_per_img", "topk_candidates"} do
      self[name] = o[name]
   end
end

function FCOS:_labels() return 1, self.head.classification_head.num_classes end

-- Returns the position of each anchor's true box, or 0 if it has none. The centre of the anchor
-- must lie in the box and near the centre of the box. The largest distance from there to a side of
-- the box must be in the range of the anchor's level. If several boxes fit, the smallest one is
-- taken.
function FCOS:_match(all, boxes, counts)
   local n = all:size(1)
   if boxes:size(1) == 0 then return torch.zeros({n}, {dtype = "int64", device = all.device}) end
   local centre, size = centres(all)
   local sides = size:select(2, 1)
   local near = (centre:narrow(2, 1, 2):unsqueeze(2) - centres(boxes):narrow(2, 1, 2):unsqueeze(1))
      :abs():amax(3):lt((sides * self.center_sampling_radius):unsqueeze(2))
   local distances = (boxes:unsqueeze(1) - centre:unsqueeze(2)) * signs(boxes)
   local farthest = distances:amax(3)
   local low, high = sides * 4, sides * 8
   low:narrow(1, 1, counts[1]):zero_()
   high:narrow(1, n - counts[#counts] + 1, counts[#counts]):fill_(math.huge)
   local fits = near:logical_and(distances:amin(3):gt(0))
      :logical_and(farthest:gt(low:unsqueeze(2))):logical_and(farthest:lt(high:unsqueeze(2)))
   local extent = boxes:narrow(2, 3, 2) - boxes:narrow(2, 1, 2)
   local area = extent:select(2, 1) * extent:select(2, 2)
   local best, which = (fits:float() * (1e8 - area):unsqueeze(1)):max(2)
   return which:masked_fill(best:lt(1e-5), 0)
end

-- Returns how near a position is to the centre of its box, from 1 at the centre to 0 at the sides.
local function centreness(distances)
   local function ratio(a, b)
      local x, y = distances:select(2, a), distances:select(2, b)
      return torch.minimum(x, y) / torch.maximum(x, y)
   end
   return (ratio(1, 3) * ratio(2, 4)):sqrt()
end

function FCOS:_compute_loss(outputs, all, targets, counts)
   local scores, sides, centred, total = 0, 0, 0, 0
   for i, target in ipairs(targets) do
      local logits = outputs.cls_logits[i]
      local matches = self:_match(all[i], target.boxes, counts)
      local rows = matches:gt(0):nonzero():squeeze(2)
      local truths = matches:index_select(1, rows)
      local classes = dense.one_hot(logits, rows, target.labels:index_select(1, truths))
      scores = scores + losses.sigmoid_focal_loss(logits, classes, {reduction = "sum"})
      local own, boxes = all[i]:index_select(1, rows), target.boxes:index_select(1, truths)
      sides = sides + losses.generalized_box_iou_loss(
         decode(outputs.bbox_regression[i]:index_select(1, rows), own), boxes, {reduction = "sum"})
      centred = centred + F.binary_cross_entropy_with_logits(
         outputs.bbox_ctrness[i]:squeeze(2):index_select(1, rows), centreness(encode(boxes, own)),
         {reduction = "sum"})
      total = total + rows:numel()
   end
   total = math.max(total, 1)
   return {classification = scores / total, bbox_regression = sides / total,
      bbox_ctrness = centred / total}
end

function FCOS:_detections(outputs, all, counts, size)
   local scores = (outputs.cls_logits:sigmoid() * outputs.bbox_ctrness:sigmoid()):sqrt()
   return dense.best_of_levels(self, scores, counts, size, function(rows)
      return decode(outputs.bbox_regression:index_select(1, rows), all:index_select(1, rows))
   end)
end

-- Builders ----------------------------------------------------------------------------------------

local function make(options, row, title)
   local backbone = rcnn.backbone(options, row, title,
      {returned = {2, 3, 4}, extra = pyramid.LastLevelP6P7(256, 256)})
   local o = {}
   for key, value in pairs(options) do
      if not rcnn.own_options[key] then o[key] = value end
   end
   return FCOS(backbone, options.num_classes, o)
end

--- FCOS with a pyramid on ResNet-50, from "FCOS: Fully Convolutional One-Stage Object Detection".
--- It is called like retinanet_resnet50_fpn; labels count from 1 to num_classes.
---@names vision.models.detection.fcos_resnet50_fpn
---@param options? {num_classes: integer, min_size: integer|integer[], max_size: integer,
--- image_mean: number[], image_std: number[], center_sampling_radius: number, score_thresh: number,
--- nms_thresh: number, detections_per_img: integer, topk_candidates: integer, anchor_generator:
--- nn.Module, head: nn.Module, weights: string|table, weights_backbone: string|table,
--- trainable_backbone_layers: integer, norm_layer: function} num_classes: 91 by default; min_size,
--- max_size: the pixels of an image's shorter and longer side, 800 and 1333 by default; image_mean,
--- image_std: normalise the channels; center_sampling_radius: how near to a box's centre its
--- positions must be, in strides, 1.5 by default; score_thresh, nms_thresh: the least probability
--- of detections, 0.2 by default, and their largest overlap, 0.6 by default; detections_per_img:
--- 100 by default; topk_candidates: how many detections of a level are compared, 1000 by default;
--- anchor_generator, head: modules that replace these parts; weights, weights_backbone,
--- trainable_backbone_layers, norm_layer: as in fasterrcnn_resnet50_fpn
---@return vision.models.detection.FCOS
local all = {num_classes = 91}
for key, value in pairs(defaults) do all[key] = value end
M.fcos_resnet50_fpn = define.builders(all, {fcos_resnet50_fpn = {keeps_eps = true}}, make,
   dense.options(further)).fcos_resnet50_fpn

return M
