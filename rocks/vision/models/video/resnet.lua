-- resnet.lua - ResNets for videos. Their 3x3 convolutions cover three frames or only one frame, or
-- are split into a convolution over space and a convolution over time (Tran et al., 2017).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

-- The kinds of convolutions, by name. `make` creates a convolution, and `time_stride` tells whether
-- the stride of a block applies to time too.
local kinds = {}

kinds.full = {time_stride = true, make = function(inputs, outputs, _, stride)
   return nn.Conv3d(inputs, outputs, 3, {stride = stride, padding = 1, bias = false})
end}

kinds.still = {time_stride = false, make = function(inputs, outputs, _, stride)
   return nn.Conv3d(inputs, outputs, {1, 3, 3}, {stride = {1, stride, stride}, padding = {0, 1, 1},
      bias = false})
end}

kinds.split = {time_stride = true, make = function(inputs, outputs, middle, stride)
   return nn.Sequential(
      nn.Conv3d(inputs, middle, {1, 3, 3}, {stride = {1, stride, stride}, padding = {0, 1, 1},
         bias = false}),
      nn.BatchNorm3d(middle), nn.ReLU {inplace = true},
      nn.Conv3d(middle, outputs, {3, 1, 1}, {stride = {stride, 1, 1}, padding = {1, 0, 0},
         bias = false}))
end}

local Block = class.class("vision.models.video.BasicBlock", nn.Module)

function Block:__init(inputs, outputs, kind, stride)
   -- The number of channels between the two parts of a split convolution. With this number, a split
   -- convolution has as many parameters as a full one.
   local middle = inputs * outputs * 27 // (inputs * 9 + 3 * outputs)
   self.conv1 = nn.Sequential(kind.make(inputs, outputs, middle, stride), nn.BatchNorm3d(outputs),
      nn.ReLU {inplace = true})
   self.conv2 = nn.Sequential(kind.make(outputs, outputs, middle, 1), nn.BatchNorm3d(outputs))
   self.relu = nn.ReLU {inplace = true}
   if stride > 1 or inputs ~= outputs then
      self.downsample = nn.Sequential(nn.Conv3d(inputs, outputs, 1, {bias = false,
         stride = {kind.time_stride and stride or 1, stride, stride}}), nn.BatchNorm3d(outputs))
   end
end

function Block:forward(input)
   local output = self.conv2(self.conv1(input))
   return self.relu(output:add_(self.downsample and self.downsample(input) or input))
end

-- Returns the first layers of the network. If `middle` is given, their convolution is split into
-- one over space and one over time, with `middle` channels between them.
local function stem(middle)
   local first = nn.Sequential(nn.Conv3d(3, middle or 64, {middle and 1 or 3, 7, 7},
      {stride = {1, 2, 2}, padding = {middle and 0 or 1, 3, 3}, bias = false}),
      nn.BatchNorm3d(middle or 64), nn.ReLU {inplace = true})
   if middle then
      first:add(nn.Conv3d(middle, 64, {3, 1, 1}, {padding = {1, 0, 0}, bias = false}))
         :add(nn.BatchNorm3d(64)):add(nn.ReLU {inplace = true})
   end
   return first
end

local VideoResNet = class.class("vision.models.video.VideoResNet", nn.Module)

function VideoResNet:__init(options, row)
   self.stem = stem(row.middle)
   local inputs = 64
   for stage = 1, 4 do
      local outputs, kind = 32 << stage, kinds[row[stage]]
      self["layer" .. stage] = nn.Sequential(Block(inputs, outputs, kind, stage > 1 and 2 or 1),
         Block(outputs, outputs, kind, 1))
      inputs = outputs
   end
   self.avgpool = nn.AdaptiveAvgPool3d(1)
   self.fc = nn.Linear(inputs, options.num_classes)
   define.initialize(self, {conv = define.kaiming_fan_out, linear = define.normal(0.01)})
end

function VideoResNet:forward(input)
   local x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(input)))))
   return self.fc(self.avgpool(x):flatten(2))
end

--- ResNets for videos, from "A Closer Look at Spatiotemporal Convolutions for Action Recognition".
--- r3d convolves over space and time, mc3 does so only in its first stage, and r2plus1d splits each
--- convolution into one over space and one over time. Input (N, 3, frames, H, W); output (N,
--- num_classes).
---
---     local model = torch.vision.models.video.mc3_18 {num_classes = 5}
---     print(table.unpack(model(torch.zeros(1, 3, 4, 16, 16)).shape))
---     --> 1	5
---@names vision.models.video.r3d_18 vision.models.video.mc3_18 vision.models.video.r2plus1d_18
---@param options? {num_classes: integer, weights: string|table}  num_classes: 400 by default;
--- weights: a state dict or its file
---@return nn.Module
return define.builders({num_classes = 400}, {
   r3d_18 = {"full", "full", "full", "full"}, mc3_18 = {"full", "still", "still", "still"},
   r2plus1d_18 = {"split", "split", "split", "split", middle = 45},
}, VideoResNet)
