-- resnet.lua - ResNet, ResNeXt and Wide ResNet: networks of blocks that add their input to their
-- output (He et al., 2015).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

local function conv3x3(inputs, outputs, stride, groups, dilation)
   return nn.Conv2d(inputs, outputs, 3, {
      stride = stride, padding = dilation, groups = groups, dilation = dilation, bias = false,
   })
end

local function conv1x1(inputs, outputs, stride)
   return nn.Conv2d(inputs, outputs, 1, {stride = stride, bias = false})
end

-- A residual block of two 3x3 convolutions.
local BasicBlock = class.class("vision.models.BasicBlock", nn.Module)
BasicBlock.expansion = 1

function BasicBlock:__init(inputs, planes, o)
   self.conv1, self.bn1 = conv3x3(inputs, planes, o.stride, 1, 1), o.norm(planes)
   self.relu = nn.ReLU {inplace = true}
   self.conv2, self.bn2 = conv3x3(planes, planes, 1, 1, 1), o.norm(planes)
   self.downsample = o.downsample
end

function BasicBlock:forward(input)
   local output = self.relu(self.bn1(self.conv1(input)))
   output = self.bn2(self.conv2(output))
   return self.relu(output:add_(self.downsample and self.downsample(input) or input))
end

-- A residual block with a 3x3 convolution between two 1x1 convolutions. If the block has a stride,
-- it is the stride of the 3x3 convolution.
local Bottleneck = class.class("vision.models.Bottleneck", nn.Module)
Bottleneck.expansion = 4

function Bottleneck:__init(inputs, planes, o)
   local width = planes * o.width_per_group // 64 * o.groups
   self.conv1, self.bn1 = conv1x1(inputs, width, 1), o.norm(width)
   self.conv2, self.bn2 = conv3x3(width, width, o.stride, o.groups, o.dilation), o.norm(width)
   self.conv3, self.bn3 = conv1x1(width, planes * 4, 1), o.norm(planes * 4)
   self.relu = nn.ReLU {inplace = true}
   self.downsample = o.downsample
end

function Bottleneck:forward(input)
   local output = self.relu(self.bn1(self.conv1(input)))
   output = self.relu(self.bn2(self.conv2(output)))
   output = self.bn3(self.conv3(output))
   return self.relu(output:add_(self.downsample and self.downsample(input) or input))
end

local ResNet = class.class("vision.models.ResNet", nn.Module)

function ResNet:__init(options, row, title)
   local dilated = options.replace_stride_with_dilation
   if #dilated ~= 3 then
      args.refuse(title, "replace_stride_with_dilation", "three booleans", dilated)
   end
   if row.block == BasicBlock and (options.groups ~= 1 or options.width_per_group ~= 64) then
      torch.raise(title .. ": groups and width_per_group: expected 1 and 64 for its blocks")
   end
   local norm = options.norm_layer or nn.BatchNorm2d
   local inputs, dilation = 64, 1
   self.conv1 = nn.Conv2d(3, 64, 7, {stride = 2, padding = 3, bias = false})
   self.bn1, self.relu = norm(64), nn.ReLU {inplace = true}
   self.maxpool = nn.MaxPool2d(3, {stride = 2, padding = 1})
   for stage, count in ipairs(row.layers) do
      local planes, stride = 64 << (stage - 1), stage == 1 and 1 or 2
      local before, outputs = dilation, planes * row.block.expansion
      if dilated[stage - 1] then dilation, stride = dilation * stride, 1 end
      local layer = nn.Sequential()
      for i = 1, count do
         local downsample
         if i == 1 and (stride ~= 1 or inputs ~= outputs) then
            downsample = nn.Sequential(conv1x1(inputs, outputs, stride), norm(outputs))
         end
         layer:add(row.block(inputs, planes, {
            stride = i == 1 and stride or 1, dilation = i == 1 and before or dilation,
            groups = options.groups, width_per_group = options.width_per_group, norm = norm,
            downsample = downsample,
         }))
         inputs = outputs
      end
      self["layer" .. stage] = layer
   end
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.fc = nn.Linear(inputs, options.num_classes)
   define.initialize(self, {conv = define.kaiming_fan_out})
   if options.zero_init_residual then self:silence_blocks() end
end

-- Sets the scale of the last normalisation of each block to 0, so that at first the block returns
-- its input.
function ResNet:silence_blocks()
   for _, block in ipairs(self:modules()) do
      local is_block = class.isinstance(block, Bottleneck) or class.isinstance(block, BasicBlock)
      if is_block then nn.init.zeros_((block.bn3 or block.bn2).weight) end
   end
end

function ResNet:forward(input)
   local x = self.maxpool(self.relu(self.bn1(self.conv1(input))))
   x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
   return self.fc(self.avgpool(x):flatten(2))
end

local small, large = {3, 4, 6, 3}, {3, 4, 23, 3}

--- ResNet with 18 to 152 layers, from "Deep Residual Learning for Image Recognition"; ResNeXt
--- (resnext), whose 3x3 convolutions have groups; and Wide ResNet (wide_resnet), whose 3x3
--- convolutions have twice the channels. Input (N, 3, H, W); output (N, num_classes).
---
---     local model = torch.vision.models.resnet18 {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.resnet18 vision.models.resnet34 vision.models.resnet50
---@names vision.models.resnet101 vision.models.resnet152 vision.models.resnext50_32x4d
---@names vision.models.resnext101_32x8d vision.models.resnext101_64x4d
---@names vision.models.wide_resnet50_2 vision.models.wide_resnet101_2
---@param options? {num_classes: integer, zero_init_residual: boolean, groups: integer,
--- width_per_group: integer, replace_stride_with_dilation: boolean[], norm_layer: function,
--- weights: string|table}  num_classes: 1000 by default; zero_init_residual: whether each block
--- begins as the identity; groups: the number of groups of the 3x3 convolutions; width_per_group:
--- the number of channels in a group in the first stage; replace_stride_with_dilation: whether each
--- of stages 2 to 4 keeps the size; norm_layer: makes the normalisations; weights: a state dict or
--- its file
---@return nn.Module
return define.builders({
   zero_init_residual = false, groups = 1, width_per_group = 64,
   replace_stride_with_dilation = {false, false, false},
}, {
   resnet18 = {block = BasicBlock, layers = {2, 2, 2, 2}},
   resnet34 = {block = BasicBlock, layers = small},
   resnet50 = {block = Bottleneck, layers = small},
   resnet101 = {block = Bottleneck, layers = large},
   resnet152 = {block = Bottleneck, layers = {3, 8, 36, 3}},
   resnext50_32x4d = {block = Bottleneck, layers = small,
      defaults = {groups = 32, width_per_group = 4}},
   resnext101_32x8d = {block = Bottleneck, layers = large,
      defaults = {groups = 32, width_per_group = 8}},
   resnext101_64x4d = {block = Bottleneck, layers = large,
      defaults = {groups = 64, width_per_group = 4}},
   wide_resnet50_2 = {block = Bottleneck, layers = small, defaults = {width_per_group = 128}},
   wide_resnet101_2 = {block = Bottleneck, layers = large, defaults = {width_per_group = 128}},
}, ResNet, true)
