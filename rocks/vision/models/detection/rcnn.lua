-- rcnn.lua - Faster R-CNN (Ren et al., 2015), Mask R-CNN and Keypoint R-CNN (He et al., 2017).
-- These detectors first propose regions and then classify the features of each region.

local torch = require "tlua"
local anchors = require "tlua.vision.models.detection.anchors"
local args = require "tlua.args"
local backbones = require "tlua.vision.models.backbones"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"
local matching = require "tlua.vision.models.detection.matching"
local old_names = require "tlua.vision.old_names"
local published = require "tlua.vision.models.weights"
local pyramid = require "tlua.vision.ops.pyramid"
local roi_heads = require "tlua.vision.models.detection.roi_heads"
local rpn = require "tlua.vision.models.detection.rpn"
local transform = require "tlua.vision.models.detection.transform"

local nn = torch.nn

local M = {}

-- Any detector of two stages ----------------------------------------------------------------------

local take_parts = args.signature [[vision.models.detection.GeneralizedRCNN(backbone: object,
   rpn: object, roi_heads: object, transform: object)]]

--- A detector with four parts: `transform` makes a batch of the images, `backbone` computes feature
--- maps, `rpn` proposes regions, and `roi_heads` computes the detections. It is called like
--- FasterRCNN.
---
---     local detection = torch.vision.models.detection
---     local model = detection.fasterrcnn_mobilenet_v3_large_fpn()
---     print(torch.type(model.rpn.head))
---     --> vision.models.detection.RPNHead
---@class vision.models.detection.GeneralizedRCNN: nn.Module
---@field transform vision.models.detection.GeneralizedRCNNTransform  makes batches
---@field backbone nn.Module  returns a list of maps, or one
---@field rpn vision.models.detection.RegionProposalNetwork  proposes regions
---@field roi_heads vision.models.detection.RoIHeads  classifies them
---@overload fun(...): nn.Module
local GeneralizedRCNN = class.class("vision.models.detection.GeneralizedRCNN", nn.Module)
M.GeneralizedRCNN = GeneralizedRCNN

function GeneralizedRCNN:__init(...)
   local a = take_parts(...)
   self.transform, self.backbone = a.transform, a.backbone
   self.rpn, self.roi_heads = a.rpn, a.roi_heads
end

function GeneralizedRCNN:forward(images, targets)
   local heads, further = self.roi_heads, {}
   if heads.mask_head then further[1] = "masks" end
   if heads.keypoint_head then further[#further + 1] = "keypoints" end
   local scores = heads.box_predictor.cls_score
   matching.check(torch.type(self), images, targets, self.training, 2, scores and
      scores.out_features, further)
   local originals = {}
   for i, image in ipairs(images) do originals[i] = {image:size(2), image:size(3)} end
   local batch, resized = self.transform(images, self.training and targets or nil)
   local maps = self.backbone(batch.tensors)
   if torch.is_tensor(maps) then maps = {maps} end
   local proposals, losses = self.rpn(batch, maps, resized)
   local detections, own = heads(maps, proposals, batch.sizes, resized)
   if not self.training then
      return self.transform:postprocess(detections, batch.sizes, originals)
   end
   for name, loss in pairs(own) do losses[name] = loss end
   return losses
end

-- Faster R-CNN ------------------------------------------------------------------------------------

local defaults <const> = {
   max_size = 1333, image_mean = {0.485, 0.456, 0.406}, image_std = {0.229, 0.224, 0.225},
   rpn_pre_nms_top_n_train = 2000, rpn_pre_nms_top_n_test = 1000, rpn_post_nms_top_n_train = 2000,
   rpn_post_nms_top_n_test = 1000, rpn_nms_thresh = 0.7, rpn_fg_iou_thresh = 0.7,
   rpn_bg_iou_thresh = 0.3, rpn_batch_size_per_image = 256, rpn_positive_fraction = 0.5,
   rpn_score_thresh = 0.0, box_score_thresh = 0.05, box_nms_thresh = 0.5,
   box_detections_per_img = 100, box_fg_iou_thresh = 0.5, box_bg_iou_thresh = 0.5,
   box_batch_size_per_image = 512, box_positive_fraction = 0.25,
}

-- The options that have no default value.
local further <const> = {min_size = true, rpn_anchor_generator = true, rpn_head = true,
   box_roi_pool = true, box_head = true, box_predictor = true, bbox_reg_weights = true}

-- Checks the options of a model, and adds defaults. `own` has the defaults of its class, and `more`
-- the names of further options.
local function options_of(title, options, own, more)
   local all = {}
   for _, given in ipairs {defaults, own or {}} do
      for key, value in pairs(given) do all[key] = value end
   end
   return args.over_defaults(title, options or {}, all, {}, further, more or {})
end

-- Returns a layer that cuts regions out of the feature maps of a backbone, and pools each region to
-- `size` x `size` cells.
local function region_pool(title, backbone, size)
   local names = {}
   if math.type(backbone.levels) ~= "integer" then
      args.refuse(title, "backbone", "a model with the fields out_channels and levels, the number "
         .. "of its maps", backbone)
   end
   for i = 1, backbone.levels do names[i] = i end
   return pyramid.MultiScaleRoIAlign(names, size, 2)
end

local function default_anchors()
   return anchors.AnchorGenerator({{32}, {64}, {128}, {256}, {512}}, {0.5, 1, 2})
end

-- Builds the parts of a model. `o` contains all options.
local function build(model, title, backbone, num_classes, o)
   local channels = type(backbone) == "table" and rawget(backbone, "out_channels")
   if math.type(channels) ~= "integer" then
      args.refuse(title, "backbone", "a model with the field out_channels", backbone)
   end
   if not o.box_predictor and (math.type(num_classes) ~= "integer" or num_classes < 2) then
      args.refuse(title, "num_classes", "an integer of at least 2: the background counts",
         num_classes)
   end
   local generator = o.rpn_anchor_generator or default_anchors()
   local head = o.rpn_head or rpn.RPNHead(channels, generator:num_anchors_per_location()[1])
   local proposals = rpn.RegionProposalNetwork(generator, head, o.rpn_fg_iou_thresh,
      o.rpn_bg_iou_thresh, o.rpn_batch_size_per_image, o.rpn_positive_fraction,
      {training = o.rpn_pre_nms_top_n_train, testing = o.rpn_pre_nms_top_n_test},
      {training = o.rpn_post_nms_top_n_train, testing = o.rpn_post_nms_top_n_test},
      o.rpn_nms_thresh, {score_thresh = o.rpn_score_thresh})
   local pool = o.box_roi_pool or region_pool(title, backbone, 7)
   local side = pool.output_size
   if type(side) == "table" then side = side[1] end
   local features = o.box_head or roi_heads.TwoMLPHead(channels * side * side, 1024)
   local heads = roi_heads.RoIHeads(pool, features,
      o.box_predictor or roi_heads.FastRCNNPredictor(1024, num_classes), o.box_fg_iou_thresh,
      o.box_bg_iou_thresh, o.box_batch_size_per_image, o.box_positive_fraction, {
         bbox_reg_weights = o.bbox_reg_weights, score_thresh = o.box_score_thresh,
         nms_thresh = o.box_nms_thresh, detections_per_img = o.box_detections_per_img,
      })
   GeneralizedRCNN.__init(model, backbone, proposals, heads, transform.GeneralizedRCNNTransform(
      o.min_size or 800, o.max_size, o.image_mean, o.image_std))
end

--- Faster R-CNN on any `backbone` with the fields `out_channels` and `levels`, the number of its
--- maps. `num_classes` counts the background, which is class 1. The options are those of
--- fasterrcnn_resnet50_fpn and modules that replace parts of the model: rpn_anchor_generator,
--- rpn_head, box_roi_pool, box_head, box_predictor and bbox_reg_weights.
---
---     local detection = torch.vision.models.detection
---     local body = detection.mobilenet_backbone("mobilenet_v3_small")
---     local make = detection.AnchorGenerator
---     local anchors = make({{16}, {32}, {64}}, {0.5, 1.0, 2.0})
---     local model = detection.FasterRCNN(body, 3,
---        {min_size = 64, rpn_anchor_generator = anchors})
---     model:eval()
---     local found = model {torch.rand(3, 64, 64), torch.rand(3, 50, 70)}
---     print(#found, found[1].boxes:size(2))
---     --> 2	4
---@class vision.models.detection.FasterRCNN: vision.models.detection.GeneralizedRCNN
---@overload fun(backbone: nn.Module, num_classes?: integer, options?: table): nn.Module
local FasterRCNN = class.class("vision.models.detection.FasterRCNN", GeneralizedRCNN)
M.FasterRCNN = FasterRCNN

function FasterRCNN:__init(backbone, num_classes, options)
   local title = "vision.models.detection.FasterRCNN"
   build(self, title, backbone, num_classes, options_of(title, options))
end

-- Mask R-CNN --------------------------------------------------------------------------------------

local function fan_out(model)
   define.initialize(model, {conv = define.kaiming_fan_out})
   return model
end

-- Returns the four convolutions of the mask branch.
local function mask_head(channels, norm)
   local head, names = nn.Sequential(), {}
   for i = 0, 3 do
      head:add(layers.Conv2dNormActivation(channels, 256, {norm_layer = norm or false}))
      channels = 256
      for _, kind in ipairs {"weight", "bias"} do
         names[("mask_fcn%d.%s"):format(i + 1, kind)] = ("%d.0.%s"):format(i, kind)
      end
   end
   old_names(head, names)
   return fan_out(head)
end

local function mask_predictor(classes)
   local predictor = nn.Sequential {
      {"conv5_mask", nn.ConvTranspose2d(256, 256, 2, {stride = 2})},
      {"relu", nn.ReLU {inplace = true}}, {"mask_fcn_logits", nn.Conv2d(256, classes, 1)},
   }
   for name, parameter in predictor:named_parameters() do
      if name:find "weight$" then define.kaiming_fan_out(parameter) end
   end
   return predictor
end

--- Faster R-CNN with a branch that predicts a mask of each detection. The options are those of
--- FasterRCNN, mask_roi_pool, mask_head and mask_predictor. Targets also have `masks` (n, H, W) of
--- 0 and 1. Detections also have `masks` (n, 1, H, W) of probabilities.
---
---     local detection = torch.vision.models.detection
---     local body = detection.mobilenet_backbone("mobilenet_v3_small")
---     local anchors = detection.AnchorGenerator({{8}, {16}, {32}}, {1})
---     local model = detection.MaskRCNN(body, 3, {min_size = 32,
---        rpn_anchor_generator = anchors, box_detections_per_img = 2})
---     model:eval()
---     print(model {torch.rand(3, 32, 32)}[1].masks:dim())
---     --> 4
---@class vision.models.detection.MaskRCNN: vision.models.detection.FasterRCNN
---@overload fun(backbone: nn.Module, num_classes?: integer, options?: table): nn.Module
local MaskRCNN = class.class("vision.models.detection.MaskRCNN", FasterRCNN)
M.MaskRCNN = MaskRCNN

function MaskRCNN:__init(backbone, num_classes, options)
   local title = "vision.models.detection.MaskRCNN"
   local o = options_of(title, options, nil, {mask_roi_pool = true, mask_head = true,
      mask_predictor = true})
   build(self, title, backbone, num_classes, o)
   local heads = self.roi_heads
   heads.mask_roi_pool = o.mask_roi_pool or region_pool(title, backbone, 14)
   heads.mask_head = o.mask_head or mask_head(backbone.out_channels)
   heads.mask_predictor = o.mask_predictor or mask_predictor(num_classes)
end

-- Keypoint R-CNN ----------------------------------------------------------------------------------

local function keypoint_head(channels)
   local head = nn.Sequential()
   for _ = 1, 8 do
      head:add(nn.Conv2d(channels, 512, 3, {padding = 1})):add(nn.ReLU {inplace = true})
      channels = 512
   end
   return fan_out(head)
end

-- Computes heat maps with sides that are four times as long.
local KeypointPredictor = class.class("vision.models.detection.KeypointRCNNPredictor", nn.Module)

function KeypointPredictor:__init(channels, count)
   self.kps_score_lowres = nn.ConvTranspose2d(channels, count, 4, {stride = 2, padding = 1})
   define.kaiming_fan_out(self.kps_score_lowres.weight)
   nn.init.zeros_(self.kps_score_lowres.bias)
end

function KeypointPredictor:forward(features)
   return nn.functional.interpolate(self.kps_score_lowres(features),
      {scale_factor = 2, mode = "bilinear"})
end

--- Faster R-CNN with a branch that predicts keypoints of each detection. The options are those of
--- FasterRCNN, num_keypoints (17 by default), keypoint_roi_pool, keypoint_head and
--- keypoint_predictor. Targets also have `keypoints` (n, num_keypoints, 3): x, y and whether the
--- point is visible (1 or 0); detections also have `keypoints` and `keypoints_scores` (n,
--- num_keypoints).
---
---     local detection = torch.vision.models.detection
---     local body = detection.mobilenet_backbone("mobilenet_v3_small")
---     local anchors = detection.AnchorGenerator({{8}, {16}, {32}}, {1})
---     local model = detection.KeypointRCNN(body, 3, {min_size = 32,
---        rpn_anchor_generator = anchors, box_detections_per_img = 2})
---     model:eval()
---     print(model {torch.rand(3, 32, 32)}[1].keypoints:dim())
---     --> 3
---@class vision.models.detection.KeypointRCNN: vision.models.detection.FasterRCNN
---@overload fun(backbone: nn.Module, num_classes?: integer, options?: table): nn.Module
local KeypointRCNN = class.class("vision.models.detection.KeypointRCNN", FasterRCNN)
M.KeypointRCNN = KeypointRCNN

function KeypointRCNN:__init(backbone, num_classes, options)
   local title = "vision.models.detection.KeypointRCNN"
   local o = options_of(title, options, {num_keypoints = 17}, {keypoint_roi_pool = true,
      keypoint_head = true, keypoint_predictor = true})
   o.min_size = o.min_size or {640, 672, 704, 736, 768, 800}
   build(self, title, backbone, num_classes, o)
   local heads = self.roi_heads
   heads.keypoint_roi_pool = o.keypoint_roi_pool or region_pool(title, backbone, 14)
   heads.keypoint_head = o.keypoint_head or keypoint_head(backbone.out_channels)
   heads.keypoint_predictor = o.keypoint_predictor or KeypointPredictor(512, o.num_keypoints)
end

-- Builders ----------------------------------------------------------------------------------------

local function is_trained(options)
   return options.weights ~= nil or options.weights_backbone ~= nil
end

-- Returns the function that creates the normalisations of the backbone. They are frozen in a model
-- of the first version that gets pretrained weights. If these are weights of the whole model, eps
-- is 0, as in the training of these weights. The exceptions are models with a MobileNet, models
-- whose row has the field keeps_eps and, as in torchvision, the weights COCO_LEGACY.
local function norm_of(options, row)
   if options.norm_layer then return options.norm_layer end
   if row.is_v2 or not is_trained(options) then return nn.BatchNorm2d end
   local weights = options.weights
   local keeps_eps = weights == nil or row.is_mobile or row.keeps_eps
      or published.is_weights(weights) and weights.name == "COCO_LEGACY"
   local eps = keeps_eps and 1e-5 or 0
   return function(channels) return layers.FrozenBatchNorm2d(channels, {eps = eps}) end
end

--- Creates the backbone of a builder's model: a ResNet-50 with a pyramid or, if the row's field
--- is_mobile is true, a MobileNet v3 with a pyramid.
---@param options table
---@param row table
---@param title string
---@param o table  the options of backbones.resnet_pyramid
---@return nn.Module
function M.backbone(options, row, title, o)
   local trainable = options.trainable_backbone_layers
      or is_trained(options) and 3 or row.is_mobile and 6 or 5
   local name = row.is_mobile and "mobilenet_v3_large" or "resnet50"
   local make = require("tlua.vision.models." .. (row.is_mobile and "mobilenet" or "resnet"))[name]
   local own = {weights = options.weights_backbone, norm_layer = norm_of(options, row)}
   o.trainable = trainable
   if row.is_mobile then return backbones.mobilenet_pyramid(make(own).features, title, o) end
   return backbones.resnet_pyramid(make(own), title, o)
end

-- The options of builders that are not options of the models' classes.
M.own_options = {num_classes = true, weights = true, weights_backbone = true, norm_layer = true,
   trainable_backbone_layers = true}

local function make(options, row, title)
   local backbone = M.backbone(options, row, title, {norm = row.is_v2 and nn.BatchNorm2d or nil})
   local o = {}
   for key, value in pairs(options) do
      if not M.own_options[key] then o[key] = value end
   end
   if row.is_mobile then
      local sizes = {32, 64, 128, 256, 512}
      o.rpn_anchor_generator = o.rpn_anchor_generator
         or anchors.AnchorGenerator({sizes, sizes, sizes}, {0.5, 1, 2})
      o.min_size = o.min_size or row.min_size
   end
   if row.is_v2 then
      o.rpn_head = o.rpn_head or rpn.RPNHead(256, 3, 2)
      if not o.box_head then
         local head = nn.Sequential()
         for _ = 1, 4 do head:add(layers.Conv2dNormActivation(256, 256)) end
         head:add(nn.Flatten()):add(nn.Linear(256 * 7 * 7, 1024)):add(nn.ReLU {inplace = true})
         for _, layer in ipairs(head:modules()) do
            if torch.type(layer) == "nn.Conv2d" then define.kaiming_fan_out(layer.weight) end
         end
         o.box_head = head
      end
      if row.class == MaskRCNN then
         o.mask_head = o.mask_head or mask_head(256, nn.BatchNorm2d)
      end
   end
   return row.class(backbone, options.num_classes, o)
end

local function with(more)
   local all = {weights_backbone = true, norm_layer = true, trainable_backbone_layers = true}
   for _, given in ipairs {further, more or {}} do
      for key in pairs(given) do all[key] = true end
   end
   return all
end

local function add_builders(rows, own, more)
   local all = {num_classes = 91}
   for _, given in ipairs {defaults, own or {}} do
      for key, value in pairs(given) do all[key] = value end
   end
   for name, builder in pairs(define.builders(all, rows, make, with(more))) do M[name] = builder end
end

--- Faster R-CNN with a pyramid on ResNet-50 or MobileNet v3; the variant _v2 has normalisations in
--- the pyramid and heads. It is from "Faster R-CNN: Towards Real-Time Object Detection with Region
--- Proposal Networks". The call takes a list of images (3, H, W) of any sizes with values from 0 to
--- 1. In training it also takes a list of targets: tables with `boxes` (n, 4), which are x1, y1,
--- x2, y2 in pixels, and `labels` (n), which are classes from 2 on, since 1 is the background. In
--- training it returns a table of losses; otherwise it returns a list of tables with `boxes`,
--- `labels` and `scores`, in decreasing order of score.
---
---     local detection = torch.vision.models.detection
---     local model = detection.fasterrcnn_mobilenet_v3_large_320_fpn {
---        num_classes = 3, min_size = 96,
---     }
---     local image = torch.rand(3, 96, 96)
---     local target = {boxes = torch.tensor {{8.0, 8, 60, 50}}}
---     target.labels = torch.tensor {2}
---     local total = 0
---     for _, loss in pairs(model({image}, {target})) do total = total + loss end
---     total:backward()
---     model:eval()
---     print(#model {image, image})
---     --> 2
---@names vision.models.detection.fasterrcnn_resnet50_fpn
---@names vision.models.detection.fasterrcnn_resnet50_fpn_v2
---@names vision.models.detection.fasterrcnn_mobilenet_v3_large_fpn
---@names vision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn
---@param options? {num_classes: integer, min_size: integer|integer[], max_size: integer,
--- image_mean: number[], image_std: number[], rpn_anchor_generator: nn.Module, rpn_head: nn.Module,
--- rpn_pre_nms_top_n_train: integer, rpn_pre_nms_top_n_test: integer, rpn_post_nms_top_n_train:
--- integer, rpn_post_nms_top_n_test: integer, rpn_nms_thresh: number, rpn_fg_iou_thresh: number,
--- rpn_bg_iou_thresh: number, rpn_batch_size_per_image: integer, rpn_positive_fraction: number,
--- rpn_score_thresh: number, box_roi_pool: nn.Module, box_head: nn.Module, box_predictor:
--- nn.Module, box_score_thresh: number, box_nms_thresh: number, box_detections_per_img: integer,
--- box_fg_iou_thresh: number, box_bg_iou_thresh: number, box_batch_size_per_image: integer,
--- box_positive_fraction: number, bbox_reg_weights: number[], weights: string|table,
--- weights_backbone: string|table, trainable_backbone_layers: integer, norm_layer: function}
--- num_classes: 91 by default, with the background; min_size: the number of pixels of an image's
--- shorter side, 800 by default (320 for 320_fpn); max_size: the number of pixels of its longer
--- side, 1333 by default (640 for 320_fpn); image_mean: the numbers that are subtracted from the
--- channels; image_std: the numbers by which the channels are divided; rpn_anchor_generator,
--- rpn_head: modules that replace these parts; rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test,
--- rpn_post_nms_top_n_train, rpn_post_nms_top_n_test: numbers of proposals; rpn_nms_thresh,
--- rpn_fg_iou_thresh, rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction,
--- rpn_score_thresh: as in RegionProposalNetwork; box_roi_pool, box_head, box_predictor: modules
--- that replace these parts; box_score_thresh, box_nms_thresh, box_detections_per_img,
--- box_fg_iou_thresh, box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction,
--- bbox_reg_weights: as in RoIHeads; weights: a state dict of the whole model or its file;
--- weights_backbone: a state dict of the ResNet or MobileNet, or its file;
--- trainable_backbone_layers: how many of the backbone's last stages are not frozen: 3 with
--- weights, otherwise all; norm_layer: makes the backbone's normalisations, which are by default
--- BatchNorm2d, or FrozenBatchNorm2d for models other than _v2 that get weights, as in the training
--- of torchvision's models
---@return vision.models.detection.FasterRCNN

add_builders({
   fasterrcnn_resnet50_fpn = {class = FasterRCNN},
   fasterrcnn_resnet50_fpn_v2 = {class = FasterRCNN, is_v2 = true},
   fasterrcnn_mobilenet_v3_large_fpn = {class = FasterRCNN, is_mobile = true},
   fasterrcnn_mobilenet_v3_large_320_fpn = {class = FasterRCNN, is_mobile = true, min_size = 320,
      defaults = {max_size = 640, rpn_pre_nms_top_n_test = 150, rpn_post_nms_top_n_test = 150,
         rpn_score_thresh = 0.05}},
})

--- Mask R-CNN with a pyramid on ResNet-50, from "Mask R-CNN". The variant _v2 has normalisations in
--- the pyramid and heads. It is called like fasterrcnn_resnet50_fpn. Targets also have `masks` (n,
--- H, W) of 0 and 1, and detections have `masks` (n, 1, H, W) of probabilities.
---@names vision.models.detection.maskrcnn_resnet50_fpn
---@names vision.models.detection.maskrcnn_resnet50_fpn_v2
---@param options? {num_classes: integer, min_size: integer|integer[], max_size: integer,
--- image_mean: number[], image_std: number[], rpn_anchor_generator: nn.Module, rpn_head: nn.Module,
--- rpn_pre_nms_top_n_train: integer, rpn_pre_nms_top_n_test: integer, rpn_post_nms_top_n_train:
--- integer, rpn_post_nms_top_n_test: integer, rpn_nms_thresh: number, rpn_fg_iou_thresh: number,
--- rpn_bg_iou_thresh: number, rpn_batch_size_per_image: integer, rpn_positive_fraction: number,
--- rpn_score_thresh: number, box_roi_pool: nn.Module, box_head: nn.Module, box_predictor:
--- nn.Module, box_score_thresh: number, box_nms_thresh: number, box_detections_per_img: integer,
--- box_fg_iou_thresh: number, box_bg_iou_thresh: number, box_batch_size_per_image: integer,
--- box_positive_fraction: number, bbox_reg_weights: number[], mask_roi_pool: nn.Module, mask_head:
--- nn.Module, mask_predictor: nn.Module, weights: string|table, weights_backbone: string|table,
--- trainable_backbone_layers: integer, norm_layer: function} mask_roi_pool, mask_head,
--- mask_predictor: modules that replace these parts; num_classes, min_size, max_size, image_mean,
--- image_std, rpn_anchor_generator, rpn_head, rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test,
--- rpn_post_nms_top_n_train, rpn_post_nms_top_n_test, rpn_nms_thresh, rpn_fg_iou_thresh,
--- rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction, rpn_score_thresh,
--- box_roi_pool, box_head, box_predictor, box_score_thresh, box_nms_thresh, box_detections_per_img,
--- box_fg_iou_thresh, box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction,
--- bbox_reg_weights, weights, weights_backbone, trainable_backbone_layers, norm_layer: those of
--- fasterrcnn_resnet50_fpn
---@return vision.models.detection.MaskRCNN

add_builders({
   maskrcnn_resnet50_fpn = {class = MaskRCNN},
   maskrcnn_resnet50_fpn_v2 = {class = MaskRCNN, is_v2 = true},
}, nil, {mask_roi_pool = true, mask_head = true, mask_predictor = true})

--- Keypoint R-CNN with a pyramid on ResNet-50, from "Mask R-CNN". It is called like
--- fasterrcnn_resnet50_fpn; targets also have `keypoints` (n, num_keypoints, 3): x, y and whether
--- the point is visible, and detections have `keypoints` and `keypoints_scores`.
---@names vision.models.detection.keypointrcnn_resnet50_fpn
---@param options? {num_classes: integer, min_size: integer|integer[], max_size: integer,
--- image_mean: number[], image_std: number[], rpn_anchor_generator: nn.Module, rpn_head: nn.Module,
--- rpn_pre_nms_top_n_train: integer, rpn_pre_nms_top_n_test: integer, rpn_post_nms_top_n_train:
--- integer, rpn_post_nms_top_n_test: integer, rpn_nms_thresh: number, rpn_fg_iou_thresh: number,
--- rpn_bg_iou_thresh: number, rpn_batch_size_per_image: integer, rpn_positive_fraction: number,
--- rpn_score_thresh: number, box_roi_pool: nn.Module, box_head: nn.Module, box_predictor:
--- nn.Module, box_score_thresh: number, box_nms_thresh: number, box_detections_per_img: integer,
--- box_fg_iou_thresh: number, box_bg_iou_thresh: number, box_batch_size_per_image: integer,
--- box_positive_fraction: number, bbox_reg_weights: number[], num_keypoints: integer,
--- keypoint_roi_pool: nn.Module, keypoint_head: nn.Module, keypoint_predictor: nn.Module, weights:
--- string|table, weights_backbone: string|table, trainable_backbone_layers: integer, norm_layer:
--- function} num_classes: 2 by default; min_size: {640, 672, 704, 736, 768, 800} by default;
--- num_keypoints: 17 by default; keypoint_roi_pool, keypoint_head, keypoint_predictor: modules that
--- replace these parts; max_size, image_mean, image_std, rpn_anchor_generator, rpn_head,
--- rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test, rpn_post_nms_top_n_train,
--- rpn_post_nms_top_n_test, rpn_nms_thresh, rpn_fg_iou_thresh, rpn_bg_iou_thresh,
--- rpn_batch_size_per_image, rpn_positive_fraction, rpn_score_thresh, box_roi_pool, box_head,
--- box_predictor, box_score_thresh, box_nms_thresh, box_detections_per_img, box_fg_iou_thresh,
--- box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction, bbox_reg_weights, weights,
--- weights_backbone, trainable_backbone_layers, norm_layer: those of fasterrcnn_resnet50_fpn
---@return vision.models.detection.KeypointRCNN

add_builders({keypointrcnn_resnet50_fpn = {class = KeypointRCNN}},
   {num_classes = 2, num_keypoints = 17},
   {keypoint_roi_pool = true, keypoint_head = true, keypoint_predictor = true})

return M
