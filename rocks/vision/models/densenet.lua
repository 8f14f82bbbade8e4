-- densenet.lua - DenseNet: each layer gets the outputs of all layers before it in its block
-- (Huang et al., 2016).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local old_names = require "tlua.vision.old_names"

local nn = torch.nn
local F = nn.functional

-- The names of a layer's parameters in the files of torchvision, mapped to their present names.
local names = {}
for kind in ("norm conv"):gmatch "%S+" do
   for i = 1, 2 do
      for field in ("weight bias running_mean running_var num_batches_tracked"):gmatch "%S+" do
         names[("%s.%d.%s"):format(kind, i, field)] = ("%s%d.%s"):format(kind, i, field)
      end
   end
end

local DenseLayer = class.class("vision.models.DenseLayer", nn.Module)

function DenseLayer:__init(inputs, growth, options)
   local middle = options.bn_size * growth
   self.norm1, self.relu1 = nn.BatchNorm2d(inputs), nn.ReLU {inplace = true}
   self.conv1 = nn.Conv2d(inputs, middle, 1, {bias = false})
   self.norm2, self.relu2 = nn.BatchNorm2d(middle), nn.ReLU {inplace = true}
   self.conv2 = nn.Conv2d(middle, growth, 3, {padding = 1, bias = false})
   self.drop_rate = options.drop_rate
   old_names(self, names)
end

function DenseLayer:forward(input)
   local x = self.conv1(self.relu1(self.norm1(input)))
   x = self.conv2(self.relu2(self.norm2(x)))
   if self.drop_rate > 0 then x = F.dropout(x, self.drop_rate, self.training) end
   return x
end

local DenseBlock = class.class("vision.models.DenseBlock", nn.Module)

function DenseBlock:__init(count, inputs, growth, options)
   self.count = count
   for i = 1, count do
      self["denselayer" .. i] = DenseLayer(inputs + (i - 1) * growth, growth, options)
   end
end

function DenseBlock:forward(input)
   local outputs = {input}
   for i = 1, self.count do
      outputs[i + 1] = self["denselayer" .. i](i == 1 and input or torch.cat(outputs, 2))
   end
   return torch.cat(outputs, 2)
end

local DenseNet = class.class("vision.models.DenseNet", nn.Module)

function DenseNet:__init(options, row)
   local channels, growth = row.first, row.growth
   self.features = nn.Sequential {
      {"conv0", nn.Conv2d(3, channels, 7, {stride = 2, padding = 3, bias = false})},
      {"norm0", nn.BatchNorm2d(channels)},
      {"relu0", nn.ReLU {inplace = true}},
      {"pool0", nn.MaxPool2d(3, {stride = 2, padding = 1})},
   }
   for i, count in ipairs(row.blocks) do
      self.features:add_module("denseblock" .. i, DenseBlock(count, channels, growth, options))
      channels = channels + count * growth
      if i < #row.blocks then
         self.features:add_module("transition" .. i, nn.Sequential {
            {"norm", nn.BatchNorm2d(channels)}, {"relu", nn.ReLU {inplace = true}},
            {"conv", nn.Conv2d(channels, channels // 2, 1, {bias = false})},
            {"pool", nn.AvgPool2d(2, {stride = 2})},
         })
         channels = channels // 2
      end
   end
   self.features:add_module("norm5", nn.BatchNorm2d(channels))
   self.classifier = nn.Linear(channels, options.num_classes)
   define.initialize(self, {
      conv = function(weight) nn.init.kaiming_normal_(weight) end, linear = function() end,
   })
end

function DenseNet:forward(input)
   local x = F.relu(self.features(input))
   return self.classifier(F.adaptive_avg_pool2d(x, 1):flatten(2))
end

--- DenseNet with 121 to 201 layers, from "Densely Connected Convolutional Networks". Input (N, 3,
--- H, W), at least 29 pixels a side; output (N, num_classes).
---
---     local model = torch.vision.models.densenet121 {num_classes = 10}
---     model:eval()
---     print(table.unpack(model(torch.zeros(1, 3, 32, 32)).shape))
---     --> 1	10
---@names vision.models.densenet121 vision.models.densenet161
---@names vision.models.densenet169 vision.models.densenet201
---@param options? {num_classes: integer, bn_size: integer, drop_rate: number, weights:
--- string|table}  num_classes: 1000 by default; bn_size: the number of channels inside a layer as a
--- multiple of its outputs, 4 by default; drop_rate: the dropout after each layer, 0 by default;
--- weights: a state dict or its file
---@return nn.Module
return define.builders({bn_size = 4, drop_rate = 0}, {
   densenet121 = {growth = 32, blocks = {6, 12, 24, 16}, first = 64},
   densenet161 = {growth = 48, blocks = {6, 12, 36, 24}, first = 96},
   densenet169 = {growth = 32, blocks = {6, 12, 32, 32}, first = 64},
   densenet201 = {growth = 32, blocks = {6, 12, 48, 32}, first = 64},
}, DenseNet)
