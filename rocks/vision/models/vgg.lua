-- vgg.lua - VGG: stacks of 3x3 convolutions (Simonyan and Zisserman, 2014).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

-- The numbers of convolutions in the five stages, whose channels are 64, 128, 256, 512 and 512.
local depths <const> = {
   vgg11 = {1, 1, 2, 2, 2}, vgg13 = {2, 2, 2, 2, 2}, vgg16 = {2, 2, 3, 3, 3},
   vgg19 = {2, 2, 4, 4, 4},
}

local function features(depth, norm)
   local layers, before = nn.Sequential(), 3
   for stage, count in ipairs(depth) do
      local channels = math.min(64 << (stage - 1), 512)
      for _ = 1, count do
         layers:add(nn.Conv2d(before, channels, 3, {padding = 1}))
         if norm then layers:add(norm(channels)) end
         layers:add(nn.ReLU {inplace = true})
         before = channels
      end
      layers:add(nn.MaxPool2d(2, {stride = 2}))
   end
   return layers
end

local VGG = class.class("vision.models.VGG", nn.Module)

function VGG:__init(options, row)
   self.features = features(row.depth, row.norm and (options.norm_layer or nn.BatchNorm2d))
   self.avgpool = nn.AdaptiveAvgPool2d {7, 7}
   self.classifier = nn.Sequential(
      nn.Linear(512 * 7 * 7, 4096), nn.ReLU {inplace = true}, nn.Dropout(options.dropout),
      nn.Linear(4096, 4096), nn.ReLU {inplace = true}, nn.Dropout(options.dropout),
      nn.Linear(4096, options.num_classes))
   if options.init_weights then
      define.initialize(self, {conv = define.kaiming_fan_out, linear = define.normal(0.01)})
   end
end

VGG.forward = define.classify

local rows = {}
for name, depth in pairs(depths) do
   rows[name] = {depth = depth}
   rows[name .. "_bn"] = {depth = depth, norm = true}
end

--- VGG with 11, 13, 16 or 19 layers, from "Very Deep Convolutional Networks for Large-Scale Image
--- Recognition". Variants _bn have batch normalisation. Input (N, 3, H, W), at least 32 pixels a
--- side; output (N, num_classes).
---
---     local models = torch.vision.models
---     local model = models.vgg11 {num_classes = 2, init_weights = false}
---     print(torch.type(model), #model.features)
---     --> vision.models.VGG	21
---@names vision.models.vgg11 vision.models.vgg13 vision.models.vgg16 vision.models.vgg19
---@names vision.models.vgg11_bn vision.models.vgg13_bn vision.models.vgg16_bn
---@names vision.models.vgg19_bn
---@param options? {num_classes: integer, dropout: number, init_weights: boolean, norm_layer:
--- function, weights: string|table}  num_classes: 1000 by default; dropout: 0.5 by default;
--- init_weights: whether to draw initial values, true by default; norm_layer: makes the
--- normalisations; weights: a state dict or its file
---@return nn.Module
return define.builders({dropout = 0.5, init_weights = true}, rows, VGG, true)
