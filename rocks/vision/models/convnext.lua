-- convnext.lua - ConvNeXt: a convolutional network whose sizes and layers are modelled on those of
-- transformers (Liu et al., 2022).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn

-- Normalises the channels of each pixel separately.
local LayerNorm2d = class.class("vision.models.LayerNorm2d", nn.LayerNorm)

function LayerNorm2d:forward(input)
   return nn.LayerNorm.forward(self, input:permute {1, 3, 4, 2}):permute {1, 4, 2, 3}
end

local function norm2d(channels) return LayerNorm2d(channels, {eps = 1e-6}) end

local Block = class.class("vision.models.ConvNeXtBlock", nn.Module)

function Block:__init(channels, scale, drop)
   self.block = nn.Sequential(
      nn.Conv2d(channels, channels, 7, {padding = 3, groups = channels}),
      layers.Permute {1, 3, 4, 2}, nn.LayerNorm(channels, {eps = 1e-6}),
      nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels),
      layers.Permute {1, 4, 2, 3})
   self.layer_scale = nn.Parameter(torch.full({channels, 1, 1}, scale))
   self.stochastic_depth = layers.StochasticDepth(drop, "row")
end

function Block:forward(input)
   return self.stochastic_depth(self.layer_scale * self.block(input)):add_(input)
end

local ConvNeXt = class.class("vision.models.ConvNeXt", nn.Module)

function ConvNeXt:__init(options, row)
   local channels, total, done = row.channels, 0, 0
   for _, count in ipairs(row.depths) do total = total + count end
   self.features = nn.Sequential(nn.Sequential(
      nn.Conv2d(3, channels, 4, {stride = 4}), norm2d(channels)))
   for i, count in ipairs(row.depths) do
      if i > 1 then
         self.features:add(nn.Sequential(norm2d(channels),
            nn.Conv2d(channels, 2 * channels, 2, {stride = 2})))
         channels = 2 * channels
      end
      local stage = nn.Sequential()
      for _ = 1, count do
         stage:add(Block(channels, options.layer_scale,
            options.stochastic_depth_prob * done / (total - 1)))
         done = done + 1
      end
      self.features:add(stage)
   end
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.classifier = nn.Sequential(norm2d(channels), nn.Flatten(2),
      nn.Linear(channels, options.num_classes))
   local fill = define.truncated(0.02)
   define.initialize(self, {conv = fill, linear = fill})
end

function ConvNeXt:forward(input)
   return self.classifier(self.avgpool(self.features(input)))
end

--- ConvNeXt, from "A ConvNet for the 2020s". Input (N, 3, H, W), at least 32 pixels a side; output
--- (N, num_classes).
---
---     local model = torch.vision.models.convnext_tiny {num_classes = 10}
---     print(table.unpack(model(torch.zeros(1, 3, 32, 32)).shape))
---     --> 1	10
---@names vision.models.convnext_tiny vision.models.convnext_small
---@names vision.models.convnext_base vision.models.convnext_large
---@param options? {num_classes: integer, layer_scale: number, stochastic_depth_prob: number,
--- weights: string|table}  num_classes: 1000 by default; layer_scale: the initial scale of each
--- block's output, 1e-6 by default; stochastic_depth_prob: the value up to which the probability of
--- dropping a block grows, 0.1 to 0.5 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({layer_scale = 1e-6}, {
   convnext_tiny = {channels = 96, depths = {3, 3, 9, 3}, defaults = {stochastic_depth_prob = 0.1}},
   convnext_small = {channels = 96, depths = {3, 3, 27, 3},
      defaults = {stochastic_depth_prob = 0.4}},
   convnext_base = {channels = 128, depths = {3, 3, 27, 3},
      defaults = {stochastic_depth_prob = 0.5}},
   convnext_large = {channels = 192, depths = {3, 3, 27, 3},
      defaults = {stochastic_depth_prob = 0.5}},
}, ConvNeXt)
