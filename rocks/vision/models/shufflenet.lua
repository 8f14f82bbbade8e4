-- shufflenet.lua - ShuffleNet v2: half of the channels pass through a block unchanged, and then the
-- channels are shuffled (Ma et al., 2018).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

-- Appends a convolution without bias and its normalisation to a list of layers.
local function add(layers, inputs, outputs, kernel, options)
   options.bias, options.padding = false, kernel // 2
   layers[#layers + 1] = nn.Conv2d(inputs, outputs, kernel, options)
   layers[#layers + 1] = nn.BatchNorm2d(outputs)
end

local function add_relu(layers) layers[#layers + 1] = nn.ReLU {inplace = true} end

local Unit = class.class("vision.models.ShuffleUnit", nn.Module)

function Unit:__init(inputs, outputs, stride)
   local half = outputs // 2
   self.stride = stride
   local first, second = {}, {}
   if stride > 1 then
      add(first, inputs, inputs, 3, {stride = stride, groups = inputs})
      add(first, inputs, half, 1, {})
      add_relu(first)
   end
   add(second, stride > 1 and inputs or half, half, 1, {})
   add_relu(second)
   add(second, half, half, 3, {stride = stride, groups = half})
   add(second, half, half, 1, {})
   add_relu(second)
   self.branch1, self.branch2 = nn.Sequential(first), nn.Sequential(second)
end

function Unit:forward(input)
   local first, second
   if self.stride == 1 then
      first, second = table.unpack(input:chunk(2, 2))
   else
      first, second = self.branch1(input), input
   end
   return nn.functional.channel_shuffle(torch.cat({first, self.branch2(second)}, 2), 2)
end

local ShuffleNetV2 = class.class("vision.models.ShuffleNetV2", nn.Module)

local function head(inputs, outputs, kernel, stride)
   local layers = {}
   add(layers, inputs, outputs, kernel, {stride = stride})
   add_relu(layers)
   return nn.Sequential(layers)
end

function ShuffleNetV2:__init(options, row)
   local channels = row.channels
   self.conv1, self.maxpool = head(3, 24, 3, 2), nn.MaxPool2d(3, {stride = 2, padding = 1})
   local inputs = 24
   for i, count in ipairs {4, 8, 4} do
      local stage = nn.Sequential(Unit(inputs, channels[i], 2))
      inputs = channels[i]
      for _ = 2, count do stage:add(Unit(inputs, inputs, 1)) end
      self["stage" .. i + 1] = stage
   end
   self.conv5 = head(inputs, channels[4], 1, 1)
   self.fc = nn.Linear(channels[4], options.num_classes)
end

function ShuffleNetV2:forward(input)
   local x = self.maxpool(self.conv1(input))
   x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
   return self.fc(x:mean({3, 4}))
end

--- ShuffleNet v2 with 0.5 to 2 times the channels, from "ShuffleNet V2: Practical Guidelines for
--- Efficient CNN Architecture Design". Input (N, 3, H, W); output (N, num_classes).
---
---     local model = torch.vision.models.shufflenet_v2_x0_5 {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.shufflenet_v2_x0_5 vision.models.shufflenet_v2_x1_0
---@names vision.models.shufflenet_v2_x1_5 vision.models.shufflenet_v2_x2_0
---@param options? {num_classes: integer, weights: string|table}  num_classes: 1000 by default;
--- weights: a state dict or its file
---@return nn.Module
return define.builders({}, {
   shufflenet_v2_x0_5 = {channels = {48, 96, 192, 1024}},
   shufflenet_v2_x1_0 = {channels = {116, 232, 464, 1024}},
   shufflenet_v2_x1_5 = {channels = {176, 352, 704, 1024}},
   shufflenet_v2_x2_0 = {channels = {244, 488, 976, 2048}},
}, ShuffleNetV2)
