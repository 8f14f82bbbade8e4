-- regnet.lua - RegNet: the widths of the blocks grow linearly with their number, and are then
-- rounded to a few values (Radosavovic et al., 2020). The y variants also scale channels
-- (SqueezeExcitation).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn
local conv <const> = layers.Conv2dNormActivation

-- Rounds to the nearest integer, or to the even one of two nearest integers.
local function round(x)
   local rounded = math.floor(x + 0.5)
   return x % 1 == 0.5 and rounded % 2 == 1 and rounded - 1 or rounded
end

local Block = class.class("vision.models.RegNetBlock", nn.Module)

function Block:__init(inputs, outputs, stride, row, norm)
   local group = math.min(row.group, outputs)
   if inputs ~= outputs or stride ~= 1 then
      self.proj = conv(inputs, outputs,
         {kernel_size = 1, stride = stride, norm_layer = norm, activation_layer = false})
   end
   self.f = nn.Sequential {
      {"a", conv(inputs, outputs, {kernel_size = 1, norm_layer = norm})},
      {"b", conv(outputs, outputs,
         {stride = stride, groups = outputs // group, norm_layer = norm})},
   }
   if row.is_scaled then
      self.f:add_module("se", layers.SqueezeExcitation(outputs, round(0.25 * inputs)))
   end
   self.f:add_module("c", conv(outputs, outputs,
      {kernel_size = 1, norm_layer = norm, activation_layer = false}))
   self.activation = nn.ReLU {inplace = true}
end

function Block:forward(input)
   local output = self.f(input)
   return self.activation(output:add_(self.proj and self.proj(input) or input))
end

-- Returns the widths of the stages, and the numbers of their blocks.
local function stages(row)
   local widths, depths = {}, {}
   for i = 0, row.depth - 1 do
      local power = round(math.log((i * row.slope + row.first) / row.first)
         / math.log(row.ratio))
      local width = round(row.first * row.ratio ^ power / 8) * 8
      if width ~= widths[#widths] then widths[#widths + 1] = width end
      depths[#widths] = (depths[#widths] or 0) + 1
   end
   for i, width in ipairs(widths) do
      widths[i] = define.divisible(width, math.min(row.group, width))
   end
   return widths, depths
end

local RegNet = class.class("vision.models.RegNet", nn.Module)

function RegNet:__init(options, row)
   local norm = options.norm_layer or nn.BatchNorm2d
   local widths, depths = stages(row)
   local inputs = 32
   self.stem = conv(3, inputs, {stride = 2, norm_layer = norm})
   self.trunk_output = nn.Sequential()
   for i, width in ipairs(widths) do
      local stage = nn.Sequential()
      for j = 1, depths[i] do
         stage:add_module(("block%d-%d"):format(i, j - 1),
            Block(inputs, width, j == 1 and 2 or 1, row, norm))
         inputs = width
      end
      self.trunk_output:add_module("block" .. i, stage)
   end
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.fc = nn.Linear(inputs, options.num_classes)
   define.initialize(self, {linear = define.normal(0.01), bias = "keep", conv = function(w, layer)
      nn.init.normal_(w, 0, (2 / (layer.kernel_size[1] * layer.kernel_size[2]
         * layer.out_channels)) ^ 0.5)
   end})
   nn.init.zeros_(self.fc.bias)
end

function RegNet:forward(input)
   return self.fc(self.avgpool(self.trunk_output(self.stem(input))):flatten(2))
end

-- A row has a variant's number of blocks, initial width, slope, ratio of widths, and number of
-- channels in a group.
local rows = {}
for name, r in pairs {
   y_400mf = {16, 48, 27.89, 2.09, 8}, y_800mf = {14, 56, 38.84, 2.4, 16},
   y_1_6gf = {27, 48, 20.71, 2.65, 24}, y_3_2gf = {21, 80, 42.63, 2.66, 24},
   y_8gf = {17, 192, 76.82, 2.19, 56}, y_16gf = {18, 200, 106.23, 2.48, 112},
   y_32gf = {20, 232, 115.89, 2.53, 232}, y_128gf = {27, 456, 160.83, 2.52, 264},
   x_400mf = {22, 24, 24.48, 2.54, 16}, x_800mf = {16, 56, 35.73, 2.28, 16},
   x_1_6gf = {18, 80, 34.01, 2.25, 24}, x_3_2gf = {25, 88, 26.31, 2.25, 48},
   x_8gf = {23, 80, 49.56, 2.88, 120}, x_16gf = {22, 216, 55.59, 2.1, 128},
   x_32gf = {23, 320, 69.86, 2.0, 168},
} do
   rows["regnet_" .. name] = {depth = r[1], first = r[2], slope = r[3], ratio = r[4], group = r[5],
      is_scaled = name:sub(1, 1) == "y"}
end

--- RegNet x and y with 0.4 to 128 GFLOPs, from "Designing Network Design Spaces". Input (N, 3, H,
--- W); output (N, num_classes).
---
---     local model = torch.vision.models.regnet_y_400mf {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.regnet_y_400mf vision.models.regnet_y_800mf vision.models.regnet_y_1_6gf
---@names vision.models.regnet_y_3_2gf vision.models.regnet_y_8gf vision.models.regnet_y_16gf
---@names vision.models.regnet_y_32gf vision.models.regnet_y_128gf vision.models.regnet_x_400mf
---@names vision.models.regnet_x_800mf vision.models.regnet_x_1_6gf vision.models.regnet_x_3_2gf
---@names vision.models.regnet_x_8gf vision.models.regnet_x_16gf vision.models.regnet_x_32gf
---@param options? {num_classes: integer, norm_layer: function, weights: string|table}  num_classes:
--- 1000 by default; norm_layer: makes the normalisations; weights: a state dict or its file
---@return nn.Module
return define.builders({}, rows, RegNet, true)
