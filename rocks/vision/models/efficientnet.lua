-- efficientnet.lua - EfficientNet v1 and v2, which consist of inverted residual blocks. Larger
-- variants have a larger width, depth and resolution (Tan and Le, 2019 and 2021).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn
local conv <const> = layers.Conv2dNormActivation

-- An inverted residual block. A fused block has one convolution in place of a 1x1 and a depthwise
-- convolution, and has no channel attention.
local MBConv = class.class("vision.models.MBConv", nn.Module)

function MBConv:__init(o)
   local function add(inputs, outputs, kernel, options)
      options.kernel_size, options.norm_layer = kernel, o.norm
      if options.activation_layer == nil then options.activation_layer = nn.SiLU end
      self.block:add(conv(inputs, outputs, options))
   end
   local inputs, outputs = o.inputs, o.outputs
   local hidden = define.divisible(inputs * o.expansion, 8)
   self.is_added = o.stride == 1 and inputs == outputs
   self.block = nn.Sequential()
   if o.is_fused then
      local is_expanded = hidden ~= inputs
      add(inputs, is_expanded and hidden or outputs, o.kernel, {stride = o.stride})
      if is_expanded then add(hidden, outputs, 1, {activation_layer = false}) end
   else
      if hidden ~= inputs then add(inputs, hidden, 1, {}) end
      add(hidden, hidden, o.kernel, {stride = o.stride, groups = hidden})
      self.block:add(layers.SqueezeExcitation(hidden, math.max(1, inputs // 4),
         {activation = nn.SiLU}))
      add(hidden, outputs, 1, {activation_layer = false})
   end
   self.stochastic_depth = layers.StochasticDepth(o.drop, "row")
end

function MBConv:forward(input)
   local output = self.block(input)
   return self.is_added and self.stochastic_depth(output):add_(input) or output
end

local EfficientNet = class.class("vision.models.EfficientNet", nn.Module)

local F <const>, M <const> = true, false -- F: a fused block; M: a block that is not fused

-- Each row describes a stage: whether its blocks are fused, the expansion, the kernel size, the
-- stride, the numbers of input and output channels, and the number of blocks.
local v1 <const> = {{M, 1, 3, 1, 32, 16, 1}, {M, 6, 3, 2, 16, 24, 2}, {M, 6, 5, 2, 24, 40, 2},
   {M, 6, 3, 2, 40, 80, 3}, {M, 6, 5, 1, 80, 112, 3}, {M, 6, 5, 2, 112, 192, 4},
   {M, 6, 3, 1, 192, 320, 1}}
local small <const> = {{F, 1, 3, 1, 24, 24, 2}, {F, 4, 3, 2, 24, 48, 4}, {F, 4, 3, 2, 48, 64, 4},
   {M, 4, 3, 2, 64, 128, 6}, {M, 6, 3, 1, 128, 160, 9}, {M, 6, 3, 2, 160, 256, 15}}
local medium <const> = {{F, 1, 3, 1, 24, 24, 3}, {F, 4, 3, 2, 24, 48, 5}, {F, 4, 3, 2, 48, 80, 5},
   {M, 4, 3, 2, 80, 160, 7}, {M, 6, 3, 1, 160, 176, 14}, {M, 6, 3, 2, 176, 304, 18},
   {M, 6, 3, 1, 304, 512, 5}}
local large <const> = {{F, 1, 3, 1, 32, 32, 4}, {F, 4, 3, 2, 32, 64, 7}, {F, 4, 3, 2, 64, 96, 7},
   {M, 4, 3, 2, 96, 192, 10}, {M, 6, 3, 1, 192, 224, 19}, {M, 6, 3, 2, 224, 384, 25},
   {M, 6, 3, 1, 384, 640, 7}}

function EfficientNet:__init(options, row)
   local norm = options.norm_layer or row.norm or nn.BatchNorm2d
   local function channels(n) return row.width and define.divisible(n * row.width, 8) or n end
   local function depth(n) return math.ceil(n * (row.depth or 1)) end
   local total, done = 0, 0
   for _, stage in ipairs(row.stages) do total = total + depth(stage[7]) end
   local inputs = channels(row.stages[1][5])
   self.features = nn.Sequential(conv(3, inputs,
      {stride = 2, norm_layer = norm, activation_layer = nn.SiLU}))
   for _, stage in ipairs(row.stages) do
      local blocks, outputs = nn.Sequential(), channels(stage[6])
      for i = 1, depth(stage[7]) do
         blocks:add(MBConv {
            is_fused = stage[1], expansion = stage[2], kernel = stage[3],
            stride = i == 1 and stage[4] or 1, inputs = inputs, outputs = outputs, norm = norm,
            drop = options.stochastic_depth_prob * done / total,
         })
         inputs, done = outputs, done + 1
      end
      self.features:add(blocks)
   end
   local last = row.last or 4 * inputs
   self.features:add(conv(inputs, last,
      {kernel_size = 1, norm_layer = norm, activation_layer = nn.SiLU}))
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.classifier = nn.Sequential(nn.Dropout(options.dropout, {inplace = true}),
      nn.Linear(last, options.num_classes))
   define.initialize(self, {conv = define.kaiming_fan_out, linear = function(weight, layer)
      local bound = layer.out_features ^ -0.5
      nn.init.uniform_(weight, -bound, bound)
   end})
end

EfficientNet.forward = define.classify

local rows, late = {}, define.batch_norm {eps = 0.001, momentum = 0.01}
for i, row in ipairs {{1.0, 1.0, 0.2}, {1.0, 1.1, 0.2}, {1.1, 1.2, 0.3}, {1.2, 1.4, 0.3},
   {1.4, 1.8, 0.4}, {1.6, 2.2, 0.4}, {1.8, 2.6, 0.5}, {2.0, 3.1, 0.5}} do
   rows["efficientnet_b" .. i - 1] = {stages = v1, width = row[1], depth = row[2],
      norm = i > 5 and late or nil, defaults = {dropout = row[3]}}
end
local slow = define.batch_norm {eps = 0.001}
rows.efficientnet_v2_s = {stages = small, last = 1280, norm = slow, defaults = {dropout = 0.2}}
rows.efficientnet_v2_m = {stages = medium, last = 1280, norm = slow, defaults = {dropout = 0.3}}
rows.efficientnet_v2_l = {stages = large, last = 1280, norm = slow, defaults = {dropout = 0.4}}

--- EfficientNet v1, from "EfficientNet: Rethinking Model Scaling for Convolutional Neural
--- Networks", and v2, from "EfficientNetV2: Smaller Models and Faster Training". Input (N, 3, H,
--- W); output (N, num_classes).
---
---     local model = torch.vision.models.efficientnet_b0 {num_classes = 10}
---     print(table.unpack(model(torch.zeros(2, 3, 64, 64)).shape))
---     --> 2	10
---@names vision.models.efficientnet_b0 vision.models.efficientnet_b1 vision.models.efficientnet_b2
---@names vision.models.efficientnet_b3 vision.models.efficientnet_b4 vision.models.efficientnet_b5
---@names vision.models.efficientnet_b6 vision.models.efficientnet_b7
---@names vision.models.efficientnet_v2_s vision.models.efficientnet_v2_m
---@names vision.models.efficientnet_v2_l
---@param options? {num_classes: integer, dropout: number, stochastic_depth_prob: number,
--- norm_layer: function, weights: string|table}  num_classes: 1000 by default; dropout: the dropout
--- before the classifier, 0.2 to 0.5 by default; stochastic_depth_prob: the value up to which the
--- probability of dropping a block grows, 0.2 by default; norm_layer: makes the normalisations;
--- weights: a state dict or its file
---@return nn.Module
return define.builders({stochastic_depth_prob = 0.2}, rows, EfficientNet, true)
