-- ssd.lua - SSD (Liu et al., 2015) and its smaller variant SSDlite (Sandler et al., 2018):
-- one-stage detectors for images of a fixed size.

local torch = require "tlua"
local anchors = require "tlua.vision.models.detection.anchors"
local args = require "tlua.args"
local backbones = require "tlua.vision.models.backbones"
local boxes = require "tlua.vision.ops.boxes"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local dense = require "tlua.vision.models.detection.dense"
local layers = require "tlua.vision.ops.layers"
local matching = require "tlua.vision.models.detection.matching"
local rpn = require "tlua.vision.models.detection.rpn"
local transform = require "tlua.vision.models.detection.transform"

local nn = torch.nn
local F = nn.functional
local conv <const> = layers.Conv2dNormActivation

local M = {}

-- Heads -------------------------------------------------------------------------------------------

-- Predicts `columns` numbers for each anchor. It has one layer for each map; the list `counts` has
-- the number of anchors at a position of each map.
local Scores = class.class("vision.models.detection.SSDScoringHead", nn.Module)

function Scores:__init(channels, counts, columns, make)
   self.module_list, self.num_columns = nn.ModuleList(), columns
   for i, inputs in ipairs(channels) do
      self.module_list:append(make(inputs, counts[i] * columns))
   end
end

function Scores:forward(maps)
   local list = {}
   for i, map in ipairs(maps) do list[i] = rpn.rows(self.module_list[i](map), self.num_columns) end
   return torch.cat(list, 2)
end

local Head = class.class("vision.models.detection.SSDHead", nn.Module)

function Head:__init(channels, counts, classes, make)
   self.classification_head = Scores(channels, counts, classes, make)
   self.regression_head = Scores(channels, counts, 4, make)
end

function Head:forward(maps)
   return {cls_logits = self.classification_head(maps),
      bbox_regression = self.regression_head(maps)}
end

-- Backbones ---------------------------------------------------------------------------------------

local function xavier(model)
   define.initialize(model, {conv = function(weight) nn.init.xavier_uniform_(weight) end})
   return model
end

local function normal(model)
   define.initialize(model, {conv = define.normal(0.03)})
   return model
end

-- Calls blocks one after another. Appends the output of each block to `list`, and returns the list.
local function chain(blocks, input, list)
   for _, block in ipairs(blocks) do
      input = block(input)
      list[#list + 1] = input
   end
   return list
end

local VGGBody = class.class("vision.models.detection.SSDFeatureExtractorVGG", nn.Module)
VGGBody.out_channels = {512, 1024, 512, 256, 256, 256}

-- Returns a 1x1 and a 3x3 convolution, each followed by ReLU. The 3x3 convolution shrinks the map:
-- it has stride 2 or no padding.
local function shrinking(inputs, hidden, outputs, stride)
   return nn.Sequential(nn.Conv2d(inputs, hidden, 1), nn.ReLU {inplace = true},
      nn.Conv2d(hidden, outputs, 3, {stride = stride, padding = stride - 1}),
      nn.ReLU {inplace = true})
end

-- `features` are the layers of VGG-16. Layer 24 is the fourth of the five poolings; the first map
-- is computed by the layers before it.
function VGGBody:__init(features)
   self.scale_weight = nn.Parameter(torch.full({512}, 20.0))
   features[17].ceil_mode = true
   self.features = nn.Sequential()
   for i = 1, 23 do self.features:add(features[i]) end
   local fifth = nn.Sequential()
   for i = 24, 30 do fifth:add(features[i]) end
   fifth:add(xavier(nn.Sequential(nn.MaxPool2d(3, {stride = 1, padding = 1}),
      nn.Conv2d(512, 1024, 3, {padding = 6, dilation = 6}), nn.ReLU {inplace = true},
      nn.Conv2d(1024, 1024, 1), nn.ReLU {inplace = true})))
   self.extra = nn.ModuleList {fifth}
   for _, row in ipairs {{1024, 256, 512, 2}, {512, 128, 256, 2}, {256, 128, 256, 1},
         {256, 128, 256, 1}} do
      self.extra:append(xavier(shrinking(table.unpack(row))))
   end
end

function VGGBody:forward(input)
   local map = self.features(input)
   return chain(self.extra, map, {self.scale_weight:view(1, -1, 1, 1) * F.normalize(map, 2, 2)})
end

-- All layers of a block except the first. Their names are their positions in the block.
local Rest = class.class("vision.models.detection.SSDLiteRest", nn.Module)

function Rest:__init(block)
   for i = 2, #block do self[i] = block[i] end
   self.count = #block
end

function Rest:forward(input)
   for i = 2, self.count do input = self[i](input) end
   return input
end

local MobileBody = class.class("vision.models.detection.SSDLiteFeatureExtractorMobileNet",
   nn.Module)

-- Splits the features of a MobileNet. The first map is the output of the first layer of block
-- `middle`.
function MobileBody:__init(features, middle, norm)
   local first, second = nn.Sequential(), nn.Sequential()
   for i = 1, middle - 1 do first:add(features[i]) end
   local block = features[middle].block
   first:add(block[1])
   second:add(Rest(block))
   for i = middle + 1, #features do second:add(features[i]) end
   self.features, self.extra = nn.ModuleList {first, second}, nn.ModuleList()
   local inputs = features[#features].out_channels
   self.out_channels = {block[1].out_channels, inputs}
   for _, outputs in ipairs {512, 256, 256, 128} do
      local hidden, options = outputs // 2, {norm_layer = norm, activation_layer = nn.ReLU6}
      local function layer(from, to, more)
         for key, value in pairs(options) do more[key] = value end
         return conv(from, to, more)
      end
      self.extra:append(normal(nn.Sequential(layer(inputs, hidden, {kernel_size = 1}),
         layer(hidden, hidden, {stride = 2, groups = hidden}),
         layer(hidden, outputs, {kernel_size = 1}))))
      inputs = outputs
      table.insert(self.out_channels, outputs)
   end
end

function MobileBody:forward(input)
   local list = chain(self.features, input, {})
   return chain(self.extra, list[#list], list)
end

-- The model ---------------------------------------------------------------------------------------

local defaults <const> = {
   image_mean = {0.485, 0.456, 0.406}, image_std = {0.229, 0.224, 0.225}, score_thresh = 0.01,
   nms_thresh = 0.45, detections_per_img = 200, iou_thresh = 0.5, topk_candidates = 400,
   positive_fraction = 0.25,
}

--- SSD on any `backbone` that returns a list of maps. The backbone's field `out_channels` is a list
--- with their numbers of channels. `anchor_generator` is a DefaultBoxGenerator, and `size` is the
--- width and height to which images are resized. The options are those of ssd300_vgg16 and `head`,
--- the module that computes scores and offsets from the maps.
---
---     local nn, detection = torch.nn, torch.vision.models.detection
---     local body = nn.Sequential(nn.Conv2d(3, 8, 8, {stride = 8}))
---     body.out_channels = {8}
---     local boxes = detection.DefaultBoxGenerator {{2}}
---     local model = detection.SSD(body, boxes, {64, 64}, 3)
---     model:eval()
---     print(#model {torch.rand(3, 50, 70)})
---     --> 1
---@class vision.models.detection.SSD: nn.Module
---@overload fun(...): nn.Module
local SSD = class.class("vision.models.detection.SSD", dense.Dense)
M.SSD = SSD

function SSD:__init(backbone, anchor_generator, size, num_classes, options)
   local title = "vision.models.detection.SSD"
   local o = args.over_defaults(title, options or {}, defaults, {}, {head = true})
   if type(size) ~= "table" or #size ~= 2 then
      args.refuse(title, "size", "a width and a height", size)
   end
   dense.check(title, backbone, num_classes, true)
   local counts = anchor_generator:num_anchors_per_location()
   if #counts ~= #backbone.out_channels then
      args.refuse(title, "anchor_generator", ("aspect ratios of %d maps"):format(
         #backbone.out_channels), #counts)
   end
   self.backbone, self.anchor_generator = backbone, anchor_generator
   self.head = o.head or xavier(Head(backbone.out_channels, counts, num_classes,
      function(inputs, outputs) return nn.Conv2d(inputs, outputs, 3, {padding = 1}) end))
   self.transform = transform.GeneralizedRCNNTransform(math.min(size[1], size[2]),
      math.max(size[1], size[2]), o.image_mean, o.image_std,
      {size_divisible = 1, fixed_size = size})
   for _, name in ipairs {"score_thresh", "nms_thresh", "detections_per_img", "iou_thresh",
         "topk_candidates"} do
      self[name] = o[name]
   end
   self.negatives = (1 - o.positive_fraction) / o.positive_fraction
end

function SSD:_labels() return 2, self.head.classification_head.num_columns end

local weights <const> = {10, 10, 5, 5}

-- Returns the position of each anchor's true box, or matching.BACKGROUND. The anchor with the
-- largest overlap is matched with a true box even if the overlap is small.
function SSD:_match(all, target)
   local matches = dense.match(all, target, self.iou_thresh, self.iou_thresh, false)
   local n = target.boxes:size(1)
   if n == 0 then return matches end
   local best = select(2, boxes.box_iou(target.boxes, all):max(2)):cpu():tolist()
   for i = 1, n do matches[best[i]] = i end
   return matches
end

-- Returns a mask of the background anchors with the largest losses. Each image has `negatives`
-- times as many of these as anchors that are objects.
function SSD:_hardest(cost, is_object)
   local limit = is_object:sum(2, true):to(cost.dtype) * self.negatives
   local order = select(2, cost:masked_fill(is_object, -math.huge):sort(2, true))
   return select(2, order:sort(2)):le(limit)
end

function SSD:_compute_loss(outputs, all, targets)
   local labels, offsets, total = {}, 0, 0
   for i, target in ipairs(targets) do
      local matches = self:_match(all[i], target)
      local rows = matches:gt(0):nonzero():squeeze(2)
      local truths = matches:index_select(1, rows)
      offsets = offsets + F.smooth_l1_loss(outputs.bbox_regression[i]:index_select(1, rows),
         matching.encode(target.boxes:index_select(1, truths), all[i]:index_select(1, rows),
            weights), {reduction = "sum"})
      labels[i] = torch.ones_like(matches)
      if rows:numel() > 0 then
         labels[i]:index_copy_(1, rows, target.labels:index_select(1, truths))
      end
      total = total + rows:numel()
   end
   labels, total = torch.stack(labels), math.max(total, 1)
   local logits = outputs.cls_logits
   local cost = F.cross_entropy(logits:flatten(1, 2), labels:flatten(), {reduction = "none"})
      :view_as(labels)
   local is_object = labels:gt(1)
   local chosen = is_object:logical_or(self:_hardest(cost:detach(), is_object))
   return {bbox_regression = offsets / total,
      classification = cost:masked_select(chosen):sum() / total}
end

function SSD:_detections(outputs, all, _, size)
   local scores = outputs.cls_logits:softmax(2)
   local decoded = boxes.clip_boxes_to_image(
      matching.decode(outputs.bbox_regression, all, weights), size)
   local rows, labels, own = {}, {}, {}
   for label = 2, scores:size(2) do
      local score = scores:select(2, label)
      local good = score:gt(self.score_thresh):nonzero():squeeze(2)
      local best, order = score:index_select(1, good)
         :topk(math.min(self.topk_candidates, good:numel()))
      rows[label - 1], own[label - 1] = good:index_select(1, order), best
      labels[label - 1] = torch.full_like(order, label)
   end
   return dense.without_overlaps(self, decoded:index_select(1, torch.cat(rows)), torch.cat(own),
      torch.cat(labels))
end

-- Builders ----------------------------------------------------------------------------------------

local function is_trained(options)
   return options.weights ~= nil or options.weights_backbone ~= nil
end

local function class_options(options)
   local o = {}
   for key in pairs(defaults) do o[key] = options[key] end
   return o
end

local function make_vgg(options, _, title)
   local features = require "tlua.vision.models.vgg".vgg16 {
      weights = options.weights_backbone, init_weights = options.weights_backbone == nil,
   }.features
   local trainable = options.trainable_backbone_layers or is_trained(options) and 4 or 5
   if trainable > 5 then args.refuse(title, "trainable_backbone_layers", "at most 5", trainable) end
   local stages = {1, 5, 10, 17, 24}
   local last = trainable == 0 and #features or stages[#stages - trainable + 1] - 1
   for i = 1, last do features[i]:requires_grad_(false) end
   local generator = anchors.DefaultBoxGenerator({{2}, {2, 3}, {2, 3}, {2, 3}, {2}, {2}}, {
      scales = {0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05}, steps = {8, 16, 32, 64, 100, 300},
   })
   return SSD(VGGBody(features), generator, {300, 300}, options.num_classes, class_options(options))
end

local function make_lite(options, _, title)
   local norm = options.norm_layer or define.batch_norm {eps = 0.001, momentum = 0.03}
   local mobile = require "tlua.vision.models.mobilenet".mobilenet_v3_large {
      weights = options.weights_backbone, norm_layer = norm,
      reduced_tail = options.weights_backbone == nil,
   }
   if options.weights_backbone == nil then normal(mobile) end
   local features = mobile.features
   local stages = backbones.freeze_mobilenet(features, title,
      options.trainable_backbone_layers or 6)
   local body = MobileBody(features, stages[#stages - 1], norm)
   local generator = anchors.DefaultBoxGenerator({{2, 3}, {2, 3}, {2, 3}, {2, 3}, {2, 3}, {2, 3}},
      {min_ratio = 0.2, max_ratio = 0.95})
   local o = class_options(options)
   o.head = normal(Head(body.out_channels, generator:num_anchors_per_location(),
      options.num_classes, function(inputs, outputs)
         return nn.Sequential(conv(inputs, inputs, {groups = inputs, norm_layer = norm,
            activation_layer = nn.ReLU6}), nn.Conv2d(inputs, outputs, 1))
      end))
   return SSD(body, generator, {320, 320}, options.num_classes, o)
end

--- SSD on VGG-16 for images of 300 x 300 pixels, from "SSD: Single Shot MultiBox Detector"; and
--- ssdlite on MobileNet v3 for images of 320 x 320 pixels, from "MobileNetV2: Inverted Residuals
--- and Linear Bottlenecks". They are called like fasterrcnn_resnet50_fpn; class 1 is the
--- background.
---
---     local detection = torch.vision.models.detection
---     local model = detection.ssdlite320_mobilenet_v3_large {num_classes = 3}
---     model:eval()
---     print(#model {torch.rand(3, 64, 80)})
---     --> 1
---@names vision.models.detection.ssd300_vgg16 vision.models.detection.ssdlite320_mobilenet_v3_large
---@param options? {num_classes: integer, image_mean: number[], image_std: number[], score_thresh:
--- number, nms_thresh: number, detections_per_img: integer, topk_candidates: integer, iou_thresh:
--- number, positive_fraction: number, weights: string|table, weights_backbone: string|table,
--- trainable_backbone_layers: integer, norm_layer: function} num_classes: 91 by default, with the
--- background; image_mean, image_std: normalise the channels; score_thresh: the least probability
--- of detections, 0.01 by default (0.001 for ssdlite); nms_thresh: their largest overlap, 0.45 by
--- default (0.55 for ssdlite); detections_per_img: the largest number of detections, 200 by default
--- (300 for ssdlite); topk_candidates: how many detections of a class are compared, 400 by default
--- (300 for ssdlite); iou_thresh: the least overlap of matched anchors, 0.5 by default;
--- positive_fraction: the fraction of objects among the anchors in the loss, 0.25 by default;
--- weights: a state dict of the whole model or its file; weights_backbone: that of the VGG or
--- MobileNet; trainable_backbone_layers: how many of the last stages learn; norm_layer: makes the
--- normalisations of ssdlite
---@return vision.models.detection.SSD
local all = {num_classes = 91}
for key, value in pairs(defaults) do all[key] = value end
for name, builder in pairs(define.builders(all, {
   ssd300_vgg16 = {make = make_vgg, defaults = {
      image_mean = {0.48235, 0.45882, 0.40784}, image_std = {1 / 255, 1 / 255, 1 / 255},
   }},
   ssdlite320_mobilenet_v3_large = {make = make_lite, defaults = {
      score_thresh = 0.001, nms_thresh = 0.55, detections_per_img = 300, topk_candidates = 300,
      image_mean = {0.5, 0.5, 0.5}, image_std = {0.5, 0.5, 0.5},
   }},
}, function(options, row, title) return row.make(options, row, title) end, dense.options {})) do
   M[name] = builder
end

return M
