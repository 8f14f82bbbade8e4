-- mobilenet.lua - MobileNet v2 and v3: inverted residual blocks, which have many channels inside
-- the block and few at its ends, where the input is added (Sandler et al., 2018; Howard et al.,
-- 2019).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn
local conv <const> = layers.Conv2dNormActivation

-- MobileNet v2 ------------------------------------------------------------------------------------

local InvertedResidual = class.class("vision.models.InvertedResidual", nn.Module)

function InvertedResidual:__init(inputs, outputs, stride, expansion, norm)
   local hidden = math.floor(inputs * expansion + 0.5)
   self.is_added = stride == 1 and inputs == outputs
   self.conv = nn.Sequential()
   if expansion ~= 1 then
      self.conv:add(conv(inputs, hidden,
         {kernel_size = 1, norm_layer = norm, activation_layer = nn.ReLU6}))
   end
   self.conv:add(conv(hidden, hidden,
      {stride = stride, groups = hidden, norm_layer = norm, activation_layer = nn.ReLU6}))
   self.conv:add(nn.Conv2d(hidden, outputs, 1, {bias = false})):add(norm(outputs))
end

function InvertedResidual:forward(input)
   local output = self.conv(input)
   return self.is_added and input + output or output
end

local MobileNetV2 = class.class("vision.models.MobileNetV2", nn.Module)

-- For each stage: the expansion, the channels, the number of blocks and the stride.
local stages_v2 <const> = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2},
   {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}

function MobileNetV2:__init(options)
   local norm, multiple = options.norm_layer or nn.BatchNorm2d, options.round_nearest
   local width = options.width_mult
   local inputs = define.divisible(32 * width, multiple)
   local last = define.divisible(1280 * math.max(1, width), multiple)
   self.features = nn.Sequential(conv(3, inputs,
      {stride = 2, norm_layer = norm, activation_layer = nn.ReLU6}))
   for _, stage in ipairs(stages_v2) do
      local expansion, channels, count, stride = table.unpack(stage)
      local outputs = define.divisible(channels * width, multiple)
      for i = 1, count do
         local step = i == 1 and stride or 1
         self.features:add(InvertedResidual(inputs, outputs, step, expansion, norm))
         inputs = outputs
      end
   end
   self.features:add(conv(inputs, last,
      {kernel_size = 1, norm_layer = norm, activation_layer = nn.ReLU6}))
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.classifier = nn.Sequential(nn.Dropout(options.dropout),
      nn.Linear(last, options.num_classes))
   define.initialize(self, {conv = define.kaiming_fan_out, linear = define.normal(0.01)})
end

MobileNetV2.forward = define.classify

-- MobileNet v3 ------------------------------------------------------------------------------------

local Block = class.class("vision.models.MobileNetV3Block", nn.Module)

-- `row` has the kernel size, the number of channels inside the block, the number of its output
-- channels, whether channels are scaled (SqueezeExcitation), the activation, the stride and the
-- dilation.
function Block:__init(inputs, row, norm)
   local kernel, hidden, outputs, is_scaled, activation, stride, dilation = table.unpack(row, 1, 7)
   self.is_added = stride == 1 and inputs == outputs
   self.out_channels, self.is_strided = outputs, stride > 1
   self.block = nn.Sequential()
   if hidden ~= inputs then
      self.block:add(conv(inputs, hidden,
         {kernel_size = 1, norm_layer = norm, activation_layer = activation}))
   end
   self.block:add(conv(hidden, hidden, {
      kernel_size = kernel, stride = dilation > 1 and 1 or stride, dilation = dilation,
      groups = hidden, norm_layer = norm, activation_layer = activation,
   }))
   if is_scaled then
      self.block:add(layers.SqueezeExcitation(hidden, define.divisible(hidden // 4, 8),
         {scale_activation = nn.Hardsigmoid}))
   end
   self.block:add(conv(hidden, outputs,
      {kernel_size = 1, norm_layer = norm, activation_layer = false}))
end

function Block:forward(input)
   local output = self.block(input)
   return self.is_added and output:add_(input) or output
end

-- Returns the rows of the blocks of a variant, and the number of the classifier's channels. The
-- numbers of channels are not yet multiplied by width_mult.
local function rows_v3(is_large, tail, dilation)
   local relu, swish, t = nn.ReLU, nn.Hardswish, 1 / tail
   if is_large then
      return {
         {3, 16, 16, false, relu, 1, 1}, {3, 64, 24, false, relu, 2, 1},
         {3, 72, 24, false, relu, 1, 1}, {5, 72, 40, true, relu, 2, 1},
         {5, 120, 40, true, relu, 1, 1}, {5, 120, 40, true, relu, 1, 1},
         {3, 240, 80, false, swish, 2, 1}, {3, 200, 80, false, swish, 1, 1},
         {3, 184, 80, false, swish, 1, 1}, {3, 184, 80, false, swish, 1, 1},
         {3, 480, 112, true, swish, 1, 1}, {3, 672, 112, true, swish, 1, 1},
         {5, 672, 160 * t, true, swish, 2, dilation},
         {5, 960 * t, 160 * t, true, swish, 1, dilation},
         {5, 960 * t, 160 * t, true, swish, 1, dilation},
      }, 1280 * t
   end
   return {
      {3, 16, 16, true, relu, 2, 1}, {3, 72, 24, false, relu, 2, 1}, {3, 88, 24, false, relu, 1, 1},
      {5, 96, 40, true, swish, 2, 1}, {5, 240, 40, true, swish, 1, 1},
      {5, 240, 40, true, swish, 1, 1}, {5, 120, 48, true, swish, 1, 1},
      {5, 144, 48, true, swish, 1, 1}, {5, 288, 96 * t, true, swish, 2, dilation},
      {5, 576 * t, 96 * t, true, swish, 1, dilation},
      {5, 576 * t, 96 * t, true, swish, 1, dilation},
   }, 1024 * t
end

local MobileNetV3 = class.class("vision.models.MobileNetV3", nn.Module)

function MobileNetV3:__init(options, variant)
   local norm = options.norm_layer or define.batch_norm {eps = 0.001, momentum = 0.01}
   local width = options.width_mult
   local rows, last = rows_v3(variant.is_large, options.reduced_tail and 2 or 1,
      options.dilated and 2 or 1)
   local inputs = define.divisible(16 * width, 8)
   self.features = nn.Sequential(conv(3, inputs,
      {stride = 2, norm_layer = norm, activation_layer = nn.Hardswish}))
   for _, row in ipairs(rows) do
      row[2], row[3] = define.divisible(row[2] * width, 8), define.divisible(row[3] * width, 8)
      self.features:add(Block(inputs, row, norm))
      inputs = row[3]
   end
   self.features:add(conv(inputs, 6 * inputs,
      {kernel_size = 1, norm_layer = norm, activation_layer = nn.Hardswish}))
   last = define.divisible(last * width, 8)
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.classifier = nn.Sequential(nn.Linear(6 * inputs, last), nn.Hardswish {inplace = true},
      nn.Dropout(options.dropout, {inplace = true}), nn.Linear(last, options.num_classes))
   define.initialize(self, {conv = define.kaiming_fan_out, linear = define.normal(0.01)})
end

MobileNetV3.forward = define.classify

local v3 <const> = {reduced_tail = false, dilated = false}

--- MobileNet v2, from "MobileNetV2: Inverted Residuals and Linear Bottlenecks". Input (N, 3, H, W);
--- output (N, num_classes).
---
---     local model = torch.vision.models.mobilenet_v2 {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.mobilenet_v2
---@param options? {num_classes: integer, width_mult: number, dropout: number, round_nearest:
--- integer, norm_layer: function, weights: string|table}  num_classes: 1000 by default; width_mult:
--- multiplies the numbers of channels; dropout: 0.2 by default; round_nearest: numbers of channels
--- are rounded to multiples of this number, 8 by default; norm_layer: makes the normalisations;
--- weights: a state dict or its file
---@return nn.Module

--- MobileNet v3, from "Searching for MobileNetV3". Input (N, 3, H, W); output (N, num_classes).
---
---     local model = torch.vision.models.mobilenet_v3_small {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.mobilenet_v3_large vision.models.mobilenet_v3_small
---@param options? {num_classes: integer, width_mult: number, dropout: number, reduced_tail:
--- boolean, dilated: boolean, norm_layer: function, weights: string|table}  num_classes: 1000 by
--- default; width_mult: multiplies the numbers of channels; dropout: 0.2 by default; reduced_tail:
--- whether the last layers have only half as many channels; dilated: whether the last stage keeps
--- the size; norm_layer: makes the normalisations; weights: a state dict or its file
---@return nn.Module
return define.builders({width_mult = 1.0, dropout = 0.2}, {
   mobilenet_v2 = {make = MobileNetV2, defaults = {round_nearest = 8}},
   mobilenet_v3_large = {make = MobileNetV3, is_large = true, defaults = v3},
   mobilenet_v3_small = {make = MobileNetV3, defaults = v3},
}, function(options, row) return row.make(options, row) end, true)
