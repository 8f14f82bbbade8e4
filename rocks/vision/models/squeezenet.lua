-- squeezenet.lua - SqueezeNet: in each block, a 1x1 convolution reduces the number of channels
-- before larger convolutions (Iandola et al., 2016).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

local Fire = class.class("vision.models.Fire", nn.Module)

function Fire:__init(inputs, squeezed, expanded)
   self.squeeze = nn.Conv2d(inputs, squeezed, 1)
   self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
   self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, {padding = 1})
   self.relu = nn.ReLU {inplace = true}
end

function Fire:forward(input)
   local x = self.relu(self.squeeze(input))
   return torch.cat({self.relu(self.expand1x1(x)), self.relu(self.expand3x3(x))}, 2)
end

local SqueezeNet = class.class("vision.models.SqueezeNet", nn.Module)

-- The numbers of channels to which the first layers of the eight Fire modules reduce their input. A
-- module has eight times as many output channels.
local squeezed <const> = {16, 16, 32, 32, 48, 48, 64, 64}

function SqueezeNet:__init(options, row)
   local channels = row.channels
   self.features = nn.Sequential(nn.Conv2d(3, channels, row.kernel, {stride = 2}),
      nn.ReLU {inplace = true}, nn.MaxPool2d(3, {stride = 2, ceil_mode = true}))
   for i, size in ipairs(squeezed) do
      self.features:add(Fire(channels, size, 4 * size))
      channels = 8 * size
      if row.pools[i] then self.features:add(nn.MaxPool2d(3, {stride = 2, ceil_mode = true})) end
   end
   local last = nn.Conv2d(512, options.num_classes, 1)
   self.classifier = nn.Sequential(nn.Dropout(options.dropout), last, nn.ReLU {inplace = true},
      nn.AdaptiveAvgPool2d(1))
   define.initialize(self, {conv = function(weight) nn.init.kaiming_uniform_(weight) end})
   nn.init.normal_(last.weight, 0, 0.01)
end

function SqueezeNet:forward(input)
   return self.classifier(self.features(input)):flatten(2)
end

--- SqueezeNet 1.0 and 1.1, from "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters".
--- Input (N, 3, H, W), at least 21 pixels a side, or 17 for version 1.1; output (N, num_classes).
---
---     local model = torch.vision.models.squeezenet1_1 {num_classes = 10}
---     print(table.unpack(model(torch.zeros(1, 3, 32, 32)).shape))
---     --> 1	10
---@names vision.models.squeezenet1_0 vision.models.squeezenet1_1
---@param options? {num_classes: integer, dropout: number, weights: string|table}  num_classes: 1000
--- by default; dropout: 0.5 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({dropout = 0.5}, {
   squeezenet1_0 = {channels = 96, kernel = 7, pools = {[3] = true, [7] = true}},
   squeezenet1_1 = {channels = 64, kernel = 3, pools = {[2] = true, [4] = true}},
}, SqueezeNet)
