-- segmentation.lua - torch.vision.models.segmentation: models that compute scores of classes for
-- each pixel. They are FCN (Long et al., 2014), DeepLabV3 (Chen et al., 2017) and LR-ASPP (Howard
-- et al., 2019).

local torch = require "tlua"
local backbones = require "tlua.vision.models.backbones"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local published = require "tlua.vision.models.weights"

local nn = torch.nn
local F = nn.functional

local function resize(map, like)
   return F.interpolate(map, {size = {like:size(3), like:size(4)}, mode = "bilinear"})
end

-- Returns a list of layers: a convolution without bias, a normalisation and a ReLU.
local function convolution(inputs, outputs, kernel, dilation)
   local padding = kernel == 3 and dilation or 0
   return nn.Conv2d(inputs, outputs, kernel, {padding = padding, dilation = dilation,
      bias = false}), nn.BatchNorm2d(outputs), nn.ReLU()
end

-- Heads -------------------------------------------------------------------------------------------

local FCNHead = class.class("vision.models.segmentation.FCNHead", nn.Sequential)

function FCNHead:__init(inputs, classes)
   local conv, norm, relu = convolution(inputs, inputs // 4, 3, 1)
   nn.Sequential.__init(self, conv, norm, relu, nn.Dropout(0.1),
      nn.Conv2d(inputs // 4, classes, 1))
end

-- Computes the means of a map's channels, and expands them to the size of the map.
local Pooling = class.class("vision.models.segmentation.ASPPPooling", nn.Sequential)

function Pooling:__init(inputs, outputs)
   nn.Sequential.__init(self, nn.AdaptiveAvgPool2d(1), convolution(inputs, outputs, 1, 1))
end

function Pooling:forward(input)
   return resize(nn.Sequential.forward(self, input), input)
end

-- Concatenates the outputs of convolutions with several dilations.
local ASPP = class.class("vision.models.segmentation.ASPP", nn.Module)

function ASPP:__init(inputs, outputs, rates)
   self.convs = nn.ModuleList {nn.Sequential(convolution(inputs, outputs, 1, 1))}
   for _, rate in ipairs(rates) do
      self.convs:append(nn.Sequential(convolution(inputs, outputs, 3, rate)))
   end
   self.convs:append(Pooling(inputs, outputs))
   self.project = nn.Sequential(convolution(#self.convs * outputs, outputs, 1, 1))
   self.project:add(nn.Dropout(0.5))
end

function ASPP:forward(input)
   local maps = {}
   for i, conv in ipairs(self.convs) do maps[i] = conv(input) end
   return self.project(torch.cat(maps, 2))
end

local DeepLabHead = class.class("vision.models.segmentation.DeepLabHead", nn.Sequential)

function DeepLabHead:__init(inputs, classes)
   nn.Sequential.__init(self, ASPP(inputs, 256, {12, 24, 36}), convolution(256, 256, 3, 1))
   self:add(nn.Conv2d(256, classes, 1))
end

-- Computes scores from a map of high and a map of low resolution, and returns their sum.
local LRASPPHead = class.class("vision.models.segmentation.LRASPPHead", nn.Module)

function LRASPPHead:__init(low, high, classes)
   self.cbr = nn.Sequential(convolution(high, 128, 1, 1))
   self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(high, 128, 1, {bias = false}),
      nn.Sigmoid())
   self.low_classifier = nn.Conv2d(low, classes, 1)
   self.high_classifier = nn.Conv2d(128, classes, 1)
end

function LRASPPHead:forward(maps)
   local x = self.cbr(maps.high) * self.scale(maps.high)
   return self.low_classifier(maps.low) + self.high_classifier(resize(x, maps.low))
end

-- Models ------------------------------------------------------------------------------------------

-- Returns whether the model has an auxiliary classifier: the option aux_loss if it is given, or
-- else whether weights are given.
local function has_aux(options)
   if options.aux_loss ~= nil then return options.aux_loss end
   return options.weights ~= nil
end

local function resnet_body(row, aux)
   local resnet = require "tlua.vision.models.resnet"[row.body] {
      num_classes = 1, replace_stride_with_dilation = {false, true, true},
   }
   return backbones.IntermediateLayerGetter(resnet, {layer4 = "out",
      layer3 = aux and "aux" or nil}), 2048, 1024
end

local function mobilenet_body(row, aux)
   local features = require "tlua.vision.models.mobilenet".mobilenet_v3_large {
      num_classes = 1, dilated = true,
   }.features
   local stages = backbones.stages(features)
   local last, middle = stages[#stages], stages[#stages - 3]
   local keys = {[last] = row.is_lite and "high" or "out"}
   if row.is_lite or aux then keys[middle] = row.is_lite and "low" or "aux" end
   return backbones.IntermediateLayerGetter(features, keys), features[last].out_channels,
      features[middle].out_channels
end

local Segmentation = class.class("vision.models.segmentation.SegmentationModel", nn.Module)

function Segmentation:__init(options, row)
   local aux = not row.is_lite and has_aux(options)
   local body, outputs, middle = row.make_body(row, aux)
   self.backbone = body
   if row.is_lite then
      self.classifier = LRASPPHead(middle, outputs, options.num_classes)
   else
      self.classifier = row.head(outputs, options.num_classes)
      if aux then self.aux_classifier = FCNHead(middle, options.num_classes) end
   end
end

function Segmentation:forward(input)
   local maps = self.backbone(input)
   local out = self.classifier(self.classifier.low_classifier and maps or maps.out)
   local result = {out = resize(out, input)}
   if self.aux_classifier then result.aux = resize(self.aux_classifier(maps.aux), input) end
   return result
end

--- Models for semantic segmentation, on the bodies of ResNets and MobileNet v3: FCN, from "Fully
--- Convolutional Networks for Semantic Segmentation"; DeepLabV3, from "Rethinking Atrous
--- Convolution for Semantic Image Segmentation"; and LR-ASPP, from "Searching for MobileNetV3".
--- Input (N, 3, H, W); output a table with the scores `out` (N, num_classes, H, W). With
--- `aux_loss`, it also has `aux`, scores of the same shape from a layer in the middle.
---
---     local models = torch.vision.models.segmentation
---     local model = models.lraspp_mobilenet_v3_large {num_classes = 3}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 48)).out.shape))
---     --> 2	3	64	48
---@names vision.models.segmentation.fcn_resnet50 vision.models.segmentation.fcn_resnet101
---@names vision.models.segmentation.deeplabv3_resnet50
---@names vision.models.segmentation.deeplabv3_resnet101
---@names vision.models.segmentation.deeplabv3_mobilenet_v3_large
---@names vision.models.segmentation.lraspp_mobilenet_v3_large
---@param options? {num_classes: integer, aux_loss: boolean, weights: string|table}  num_classes:
--- 21 by default; aux_loss: whether there is a second classifier, by default true with weights and
--- false without; lraspp has none; weights: a state dict or its file
---@return nn.Module
local builders = define.builders({num_classes = 21}, {
   fcn_resnet50 = {make_body = resnet_body, body = "resnet50", head = FCNHead},
   fcn_resnet101 = {make_body = resnet_body, body = "resnet101", head = FCNHead},
   deeplabv3_resnet50 = {make_body = resnet_body, body = "resnet50", head = DeepLabHead},
   deeplabv3_resnet101 = {make_body = resnet_body, body = "resnet101", head = DeepLabHead},
   deeplabv3_mobilenet_v3_large = {make_body = mobilenet_body, head = DeepLabHead},
   lraspp_mobilenet_v3_large = {make_body = mobilenet_body, is_lite = true},
}, Segmentation, {aux_loss = true})
for _, name in ipairs(published.names "segmentation") do builders[name] = published[name] end

return builders
