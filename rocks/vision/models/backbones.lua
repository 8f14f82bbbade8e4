-- backbones.lua - parts of models for classification that compute feature maps for models for
-- segmentation and detection, and pyramids of these maps.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local pyramid = require "tlua.vision.ops.pyramid"

local nn = torch.nn

local M = {}

local take_getter = args.signature [[vision.models.IntermediateLayerGetter(model: object,
   return_layers: table)]]

--- Calls the first layers of a model one after another, and returns a table with the outputs of
--- some of them. `return_layers` maps the names of these layers, or their positions in a
--- Sequential, to the keys of the table. The layers after the last one in `return_layers` are left
--- out. The weights of the layers keep their names.
---
---     local models = torch.vision.models
---     local get = models.IntermediateLayerGetter
---     local body = get(models.resnet18(), {layer1 = 1, layer3 = 2})
---     local maps = body(torch.zeros(1, 3, 64, 64))
---     print(table.unpack(maps[2].shape))
---     --> 1	256	4	4
---@class vision.models.IntermediateLayerGetter: nn.Module
---@overload fun(model: nn.Module, return_layers: table): nn.Module
local IntermediateLayerGetter = class.class("vision.models.IntermediateLayerGetter", nn.Module)
M.IntermediateLayerGetter = IntermediateLayerGetter

function IntermediateLayerGetter:__init(...)
   local a = take_getter(...)
   local names, keys, left = {}, {}, 0
   for name, key in pairs(a.return_layers) do
      keys[name] = key
      left = left + 1
   end
   for name, layer in a.model:named_children() do
      if left == 0 then break end
      if math.tointeger(name) then name = math.tointeger(name) end
      self[name] = layer
      names[#names + 1] = name
      if keys[name] ~= nil then left = left - 1 end
   end
   if left > 0 then
      for name in pairs(keys) do
         if self[name] == nil then
            torch.raise(("vision.models.IntermediateLayerGetter: return_layers: there is no layer "
               .. "%s in %s"):format(name, torch.type(a.model)))
         end
      end
   end
   rawset(self, "_order", names)
   rawset(self, "_keys", keys)
end

function IntermediateLayerGetter:forward(input)
   local maps = {}
   for _, name in ipairs(self._order) do
      input = self[name](input)
      local key = self._keys[name]
      if key ~= nil then maps[key] = input end
   end
   return maps
end

-- Pyramids ----------------------------------------------------------------------------------------

local take_backbone = args.signature [[vision.models.detection.BackboneWithFPN(backbone: object,
   return_layers: table, in_channels_list: integers, out_channels: count,
   extra_blocks: callable?, norm_layer: callable?)]]

--- Computes a pyramid of feature maps: an IntermediateLayerGetter takes the outputs of some layers
--- of `backbone`, and a FeaturePyramidNetwork combines them. `return_layers` maps the layers' names
--- to positions in the list of maps, the largest map first. `in_channels_list` has the maps'
--- numbers of channels. `extra_blocks` adds levels (LastLevelMaxPool by default), and `norm_layer`
--- makes the pyramid's normalisations. The call returns a list of maps with `out_channels` channels
--- each.
---
---     local models = torch.vision.models
---     local features = models.squeezenet1_1().features
---     local body = models.detection.BackboneWithFPN(features,
---        {[5] = 1, [8] = 2}, {128, 256}, 16)
---     print(#body(torch.zeros(1, 3, 64, 64)))
---     --> 3
---@class vision.models.detection.BackboneWithFPN: nn.Module
---@field body vision.models.IntermediateLayerGetter  the layers
---@field fpn vision.ops.FeaturePyramidNetwork  the pyramid
---@field out_channels integer  the number of channels of each map
---@field levels integer  the number of maps without those that `extra_blocks` adds
---@overload fun(...): nn.Module
local BackboneWithFPN = class.class("vision.models.detection.BackboneWithFPN", nn.Module)
M.BackboneWithFPN = BackboneWithFPN

function BackboneWithFPN:__init(...)
   local a = take_backbone(...)
   self.body = IntermediateLayerGetter(a.backbone, a.return_layers)
   self.fpn = pyramid.FeaturePyramidNetwork(a.in_channels_list, a.out_channels, {
      extra_blocks = a.extra_blocks or pyramid.LastLevelMaxPool(), norm_layer = a.norm_layer,
   })
   self.out_channels = a.out_channels
   self.levels = type(a.in_channels_list) == "table" and #a.in_channels_list or 1
end

function BackboneWithFPN:forward(input)
   return self.fpn(self.body(input))
end

local function check_layers(title, name, value, first, last)
   local list = type(value) == "table" and value or {value}
   for _, number in ipairs(list) do
      if math.type(number) ~= "integer" or number < first or number > last then
         args.refuse(title, name, ("numbers from %d to %d"):format(first, last), number)
      end
   end
end

--- Creates a feature pyramid on a ResNet, and freezes the first layers of the ResNet.
---@param resnet nn.Module
---@param title string  the function's name, for messages
---@param o {trainable: integer, returned: integer[]?, extra: function?, norm: function?}
---@return nn.Module
function M.resnet_pyramid(resnet, title, o)
   check_layers(title, "trainable_layers", o.trainable, 0, 5)
   local returned = o.returned or {1, 2, 3, 4}
   check_layers(title, "returned_layers", returned, 1, 4)
   local is_learning = {bn1 = o.trainable == 5}
   for i, name in ipairs {"layer4", "layer3", "layer2", "layer1", "conv1"} do
      is_learning[name] = i <= o.trainable
   end
   for name, parameter in resnet:named_parameters() do
      if not is_learning[name:match "^[^.]+"] then parameter:requires_grad_(false) end
   end
   local layers, channels = {}, {}
   for i, k in ipairs(returned) do
      layers["layer" .. k], channels[i] = i, resnet.fc.in_features >> (4 - k)
   end
   return BackboneWithFPN(resnet, layers, channels, 256,
      {extra_blocks = o.extra, norm_layer = o.norm})
end

local take_resnet = args.signature [[vision.models.detection.resnet_fpn_backbone(
   backbone_name: string, weights: string|table?, norm_layer: callable?,
   trainable_layers: count = 3, returned_layers: integers?, extra_blocks: callable?)]]

--- Creates a ResNet with a pyramid of 256 channels.
---
---     local detection = torch.vision.models.detection
---     local body = detection.resnet_fpn_backbone("resnet18")
---     local maps = body(torch.zeros(1, 3, 64, 64))
---     print(#maps, table.unpack(maps[1].shape))
---     --> 5	1	256	16	16
---@param backbone_name string  the name of the ResNet, such as "resnet50"
---@param options? {weights: string|table, norm_layer: function, trainable_layers: integer,
--- returned_layers: integer[], extra_blocks: function}  weights: a state dict of the ResNet, or its
--- file; norm_layer: makes the ResNet's normalisations, FrozenBatchNorm2d by default;
--- trainable_layers: how many of the last stages are not frozen, 3 by default; returned_layers: the
--- stages of the pyramid, all four by default; extra_blocks: adds levels, LastLevelMaxPool by
--- default
---@return vision.models.detection.BackboneWithFPN
function M.resnet_fpn_backbone(...)
   local title, a = "vision.models.detection.resnet_fpn_backbone", take_resnet(...)
   local resnets = require "tlua.vision.models.resnet"
   if not resnets[a.backbone_name] then
      args.refuse(title, "backbone_name", "a ResNet's name such as \"resnet50\"", a.backbone_name)
   end
   local norm = a.norm_layer or require "tlua.vision.ops.layers".FrozenBatchNorm2d
   return M.resnet_pyramid(resnets[a.backbone_name] {weights = a.weights, norm_layer = norm}, title,
      {trainable = a.trainable_layers, returned = a.returned_layers, extra = a.extra_blocks})
end

--- Returns the positions of the layers of a MobileNet at which stages begin or end: the first
--- layer, the layers that reduce the resolution, and the last layer.
---@param features nn.Sequential
---@return integer[]
function M.stages(features)
   local list = {1}
   for i, layer in ipairs(features) do
      if layer.is_strided then list[#list + 1] = i end
   end
   list[#list + 1] = #features
   return list
end

-- Freezes the layers of a MobileNet's features before the last `trainable` stages. Returns the
-- positions that `stages` returns.
function M.freeze_mobilenet(features, title, trainable)
   local stages = M.stages(features)
   check_layers(title, "trainable_layers", trainable, 0, #stages)
   local last = trainable == 0 and #features or stages[#stages - trainable + 1] - 1
   for i = 1, last do
      for _, parameter in ipairs(features[i]:parameters()) do parameter:requires_grad_(false) end
   end
   return stages
end

--- Creates a feature pyramid on the features of a MobileNet, and freezes the first layers of the
--- features.
---@param features nn.Sequential
---@param title string  the function's name, for messages
---@param o {trainable: integer, returned: integer[]?, extra: function?}
---@return nn.Module
function M.mobilenet_pyramid(features, title, o)
   local stages = M.freeze_mobilenet(features, title, o.trainable)
   local returned = o.returned or {#stages - 1, #stages}
   check_layers(title, "returned_layers", returned, 1, #stages)
   local layers, channels = {}, {}
   for i, k in ipairs(returned) do
      layers[stages[k]], channels[i] = i, features[stages[k]].out_channels
   end
   return BackboneWithFPN(features, layers, channels, 256, {extra_blocks = o.extra})
end

local take_mobilenet = args.signature [[vision.models.detection.mobilenet_backbone(
   backbone_name: string, fpn: boolean = true, weights: string|table?, norm_layer: callable?,
   trainable_layers: count = 2, returned_layers: integers?, extra_blocks: callable?)]]

--- Creates a MobileNet with a pyramid of 256 channels. If `fpn` is false, creates it with a single
--- map of 256 channels.
---
---     local detection = torch.vision.models.detection
---     local body = detection.mobilenet_backbone("mobilenet_v3_small")
---     print(#body(torch.zeros(1, 3, 64, 64)))
---     --> 3
---@param backbone_name string  the name of the MobileNet, such as "mobilenet_v3_large"
---@param fpn? boolean  true by default
---@param options? {weights: string|table, norm_layer: function, trainable_layers: integer,
--- returned_layers: integer[], extra_blocks: function}  weights: a state dict of the MobileNet, or
--- its file; norm_layer: makes the normalisations, FrozenBatchNorm2d by default; trainable_layers:
--- how many of the last stages are not frozen, 2 by default; returned_layers: the stages of the
--- pyramid, counted from 1, the last two by default; extra_blocks: adds levels, LastLevelMaxPool by
--- default
---@return nn.Module
function M.mobilenet_backbone(...)
   local title, a = "vision.models.detection.mobilenet_backbone", take_mobilenet(...)
   local mobilenets = require "tlua.vision.models.mobilenet"
   if not mobilenets[a.backbone_name] then
      args.refuse(title, "backbone_name", "a MobileNet's name such as \"mobilenet_v3_large\"",
         a.backbone_name)
   end
   local norm = a.norm_layer or require "tlua.vision.ops.layers".FrozenBatchNorm2d
   local features = mobilenets[a.backbone_name] {weights = a.weights, norm_layer = norm}.features
   if a.fpn then
      return M.mobilenet_pyramid(features, title, {trainable = a.trainable_layers,
         returned = a.returned_layers, extra = a.extra_blocks})
   end
   M.freeze_mobilenet(features, title, a.trainable_layers)
   local model = nn.Sequential(features, nn.Conv2d(features[#features].out_channels, 256, 1))
   model.out_channels, model.levels = 256, 1
   return model
end

return M
