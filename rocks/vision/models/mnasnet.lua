-- mnasnet.lua - MNASNet: a network of inverted residual blocks. A search for networks that are fast
-- on phones has found it (Tan et al., 2018).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

local momentum <const> = {momentum = 1 - 0.9997}

-- Appends a convolution without bias and its normalisation to `layers`, and a ReLU if is_linear is
-- not true.
local function add(layers, inputs, outputs, kernel, options, is_linear)
   options.bias, options.padding = false, kernel // 2
   layers:add(nn.Conv2d(inputs, outputs, kernel, options)):add(nn.BatchNorm2d(outputs, momentum))
   if not is_linear then layers:add(nn.ReLU {inplace = true}) end
end

local Residual = class.class("vision.models.MNASNetBlock", nn.Module)

function Residual:__init(inputs, outputs, kernel, stride, expansion)
   local hidden = inputs * expansion
   self.is_added = inputs == outputs and stride == 1
   self.layers = nn.Sequential()
   add(self.layers, inputs, hidden, 1, {})
   add(self.layers, hidden, hidden, kernel, {stride = stride, groups = hidden})
   add(self.layers, hidden, outputs, 1, {}, true)
end

function Residual:forward(input)
   local output = self.layers(input)
   return self.is_added and output + input or output
end

local MNASNet = class.class("vision.models.MNASNet", nn.Module)

-- For each stage: the channels, the kernel size, the stride, the expansion and the number of
-- blocks.
local stages <const> = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3}, {80, 5, 2, 6, 3}, {96, 3, 1, 6, 2},
   {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}}

function MNASNet:__init(options, row)
   local function scaled(channels) return define.divisible(channels * row.alpha, 8) end
   local first, inputs = scaled(32), scaled(16)
   self.layers = nn.Sequential()
   add(self.layers, 3, first, 3, {stride = 2})
   add(self.layers, first, first, 3, {groups = first})
   add(self.layers, first, inputs, 1, {}, true)
   for _, stage in ipairs(stages) do
      local channels, kernel, stride, expansion, count = table.unpack(stage)
      local outputs, blocks = scaled(channels), nn.Sequential()
      for i = 1, count do
         blocks:add(Residual(inputs, outputs, kernel, i == 1 and stride or 1, expansion))
         inputs = outputs
      end
      self.layers:add(blocks)
   end
   add(self.layers, inputs, 1280, 1, {})
   self.classifier = nn.Sequential(nn.Dropout(options.dropout, {inplace = true}),
      nn.Linear(1280, options.num_classes))
   define.initialize(self, {conv = define.kaiming_fan_out, linear = function(weight)
      nn.init.kaiming_uniform_(weight, {mode = "fan_out", nonlinearity = "sigmoid"})
   end})
end

function MNASNet:forward(input)
   return self.classifier(self.layers(input):mean({3, 4}))
end

--- MNASNet with 0.5 to 1.3 times the channels, from "MnasNet: Platform-Aware Neural Architecture
--- Search for Mobile". Input (N, 3, H, W); output (N, num_classes).
---
---     local model = torch.vision.models.mnasnet0_5 {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.mnasnet0_5 vision.models.mnasnet0_75
---@names vision.models.mnasnet1_0 vision.models.mnasnet1_3
---@param options? {num_classes: integer, dropout: number, weights: string|table}  num_classes: 1000
--- by default; dropout: 0.2 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({dropout = 0.2}, {
   mnasnet0_5 = {alpha = 0.5}, mnasnet0_75 = {alpha = 0.75},
   mnasnet1_0 = {alpha = 1.0}, mnasnet1_3 = {alpha = 1.3},
}, MNASNet)
