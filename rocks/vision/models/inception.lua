-- inception.lua - GoogLeNet and Inception v3. In their blocks, parallel branches of convolutions
-- are concatenated along the channels (Szegedy et al., 2014 and 2015).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn
local F = nn.functional

-- A convolution, followed by normalisation and ReLU.
local BasicConv2d = class.class("vision.models.BasicConv2d", nn.Module)

function BasicConv2d:__init(inputs, outputs, kernel, options)
   options = options or {}
   options.bias = false
   self.conv = nn.Conv2d(inputs, outputs, kernel, options)
   self.bn = nn.BatchNorm2d(outputs, {eps = 0.001})
end

function BasicConv2d:forward(input)
   return F.relu(self.bn(self.conv(input)), {inplace = true})
end

-- Parallel branches of convolutions, whose outputs are concatenated. A branch is a list of names of
-- convolutions, called one after another. The list may begin with "average" or "maximum", which
-- pool. It may end with a list of two names; both of these convolutions get the same input.
local Branches = class.class("vision.models.Branches", nn.Module)

function Branches:__init(convolutions, branches)
   for _, row in ipairs(convolutions) do
      self[row[1]] = BasicConv2d(row[2], row[3], row[4], row[5])
   end
   self.branches = branches
end

function Branches:forward(input)
   local outputs = {}
   for _, branch in ipairs(self.branches) do
      local x = input
      for _, name in ipairs(branch) do
         if name == "average" then
            x = F.avg_pool2d(x, 3, {stride = 1, padding = 1})
         elseif name == "maximum" then
            x = F.max_pool2d(x, 3, {stride = 2})
         elseif type(name) == "table" then
            outputs[#outputs + 1], x = self[name[1]](x), self[name[2]](x)
         else
            x = self[name](x)
         end
      end
      outputs[#outputs + 1] = x
   end
   return torch.cat(outputs, 2)
end

-- Converts an input from one normalisation to another: from ImageNet's channel means and standard
-- deviations to a mean and a standard deviation of 0.5.
local function to_half(input)
   local deviation, mean = {0.229, 0.224, 0.225}, {0.485, 0.456, 0.406}
   local scale, shift = {}, {}
   for i = 1, 3 do scale[i], shift[i] = deviation[i] / 0.5, (mean[i] - 0.5) / 0.5 end
   local place = {dtype = input.dtype, device = input.device}
   return input * torch.tensor(scale, place):view(1, 3, 1, 1)
      + torch.tensor(shift, place):view(1, 3, 1, 1)
end

-- GoogLeNet ---------------------------------------------------------------------------------------

-- A block with four branches: a 1x1 convolution; a 1x1 and a 3x3 convolution, twice with different
-- numbers of channels; and max pooling followed by a 1x1 convolution.
local GoogLeNetBlock = class.class("vision.models.GoogLeNetBlock", nn.Module)

function GoogLeNetBlock:__init(inputs, c1, c3_reduced, c3, c5_reduced, c5, pooled)
   self.branch1 = BasicConv2d(inputs, c1, 1)
   self.branch2 = nn.Sequential(BasicConv2d(inputs, c3_reduced, 1),
      BasicConv2d(c3_reduced, c3, 3, {padding = 1}))
   self.branch3 = nn.Sequential(BasicConv2d(inputs, c5_reduced, 1),
      BasicConv2d(c5_reduced, c5, 3, {padding = 1}))
   self.branch4 = nn.Sequential(nn.MaxPool2d(3, {stride = 1, padding = 1, ceil_mode = true}),
      BasicConv2d(inputs, pooled, 1))
end

function GoogLeNetBlock:forward(input)
   return torch.cat({self.branch1(input), self.branch2(input), self.branch3(input),
      self.branch4(input)}, 2)
end

local GoogLeNetAux = class.class("vision.models.GoogLeNetAux", nn.Module)

function GoogLeNetAux:__init(inputs, options)
   self.conv = BasicConv2d(inputs, 128, 1)
   self.fc1, self.fc2 = nn.Linear(2048, 1024), nn.Linear(1024, options.num_classes)
   self.dropout = nn.Dropout(options.dropout_aux)
end

function GoogLeNetAux:forward(input)
   local x = self.conv(F.adaptive_avg_pool2d(input, {4, 4})):flatten(2)
   return self.fc2(self.dropout(F.relu(self.fc1(x))))
end

local GoogLeNet = class.class("vision.models.GoogLeNet", nn.Module)

local blocks <const> = {
   {"3a", 192, 64, 96, 128, 16, 32, 32}, {"3b", 256, 128, 128, 192, 32, 96, 64},
   {"4a", 480, 192, 96, 208, 16, 48, 64}, {"4b", 512, 160, 112, 224, 24, 64, 64},
   {"4c", 512, 128, 128, 256, 24, 64, 64}, {"4d", 512, 112, 144, 288, 32, 64, 64},
   {"4e", 528, 256, 160, 320, 32, 128, 128}, {"5a", 832, 256, 160, 320, 32, 128, 128},
   {"5b", 832, 384, 192, 384, 48, 128, 128},
}

function GoogLeNet:__init(options)
   self.transform_input, self.aux_logits = options.transform_input, options.aux_logits
   self.conv1 = BasicConv2d(3, 64, 7, {stride = 2, padding = 3})
   self.conv2, self.conv3 = BasicConv2d(64, 64, 1), BasicConv2d(64, 192, 3, {padding = 1})
   for i, kernel in ipairs {3, 3, 3, 2} do
      self["maxpool" .. i] = nn.MaxPool2d(kernel, {stride = 2, ceil_mode = true})
   end
   for _, row in ipairs(blocks) do
      self["inception" .. row[1]] = GoogLeNetBlock(table.unpack(row, 2))
   end
   if options.aux_logits then
      self.aux1, self.aux2 = GoogLeNetAux(512, options), GoogLeNetAux(528, options)
   end
   self.avgpool, self.dropout = nn.AdaptiveAvgPool2d(1), nn.Dropout(options.dropout)
   self.fc = nn.Linear(1024, options.num_classes)
   if options.init_weights then
      local fill = define.truncated(0.01)
      define.initialize(self, {conv = fill, linear = fill, bias = "keep"})
   end
end

function GoogLeNet:forward(input)
   local x = self.transform_input and to_half(input) or input
   local with_aux, aux1, aux2 = self.training and self.aux_logits, nil, nil
   x = self.conv3(self.conv2(self.maxpool1(self.conv1(x))))
   x = self.inception3b(self.inception3a(self.maxpool2(x)))
   x = self.inception4a(self.maxpool3(x))
   if with_aux then aux1 = self.aux1(x) end
   x = self.inception4d(self.inception4c(self.inception4b(x)))
   if with_aux then aux2 = self.aux2(x) end
   x = self.maxpool4(self.inception4e(x))
   x = self.avgpool(self.inception5b(self.inception5a(x))):flatten(2)
   x = self.fc(self.dropout(x))
   if with_aux then return x, aux2, aux1 end
   return x
end

-- Inception v3 ------------------------------------------------------------------------------------

local function same(a, b) return {padding = {a, b}} end
local across <const>, along <const> = {1, 7}, {7, 1}

local function block_a(inputs, pooled)
   return Branches({
      {"branch1x1", inputs, 64, 1},
      {"branch5x5_1", inputs, 48, 1}, {"branch5x5_2", 48, 64, 5, same(2, 2)},
      {"branch3x3dbl_1", inputs, 64, 1}, {"branch3x3dbl_2", 64, 96, 3, same(1, 1)},
      {"branch3x3dbl_3", 96, 96, 3, same(1, 1)},
      {"branch_pool", inputs, pooled, 1},
   }, {
      {"branch1x1"}, {"branch5x5_1", "branch5x5_2"},
      {"branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"}, {"average", "branch_pool"},
   })
end

local function block_b(inputs)
   return Branches({
      {"branch3x3", inputs, 384, 3, {stride = 2}},
      {"branch3x3dbl_1", inputs, 64, 1}, {"branch3x3dbl_2", 64, 96, 3, same(1, 1)},
      {"branch3x3dbl_3", 96, 96, 3, {stride = 2}},
   }, {
      {"branch3x3"}, {"branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"}, {"maximum"},
   })
end

local function block_c(inputs, middle)
   return Branches({
      {"branch1x1", inputs, 192, 1},
      {"branch7x7_1", inputs, middle, 1}, {"branch7x7_2", middle, middle, across, same(0, 3)},
      {"branch7x7_3", middle, 192, along, same(3, 0)},
      {"branch7x7dbl_1", inputs, middle, 1},
      {"branch7x7dbl_2", middle, middle, along, same(3, 0)},
      {"branch7x7dbl_3", middle, middle, across, same(0, 3)},
      {"branch7x7dbl_4", middle, middle, along, same(3, 0)},
      {"branch7x7dbl_5", middle, 192, across, same(0, 3)},
      {"branch_pool", inputs, 192, 1},
   }, {
      {"branch1x1"}, {"branch7x7_1", "branch7x7_2", "branch7x7_3"},
      {"branch7x7dbl_1", "branch7x7dbl_2", "branch7x7dbl_3", "branch7x7dbl_4", "branch7x7dbl_5"},
      {"average", "branch_pool"},
   })
end

local function block_d(inputs)
   return Branches({
      {"branch3x3_1", inputs, 192, 1}, {"branch3x3_2", 192, 320, 3, {stride = 2}},
      {"branch7x7x3_1", inputs, 192, 1}, {"branch7x7x3_2", 192, 192, across, same(0, 3)},
      {"branch7x7x3_3", 192, 192, along, same(3, 0)},
      {"branch7x7x3_4", 192, 192, 3, {stride = 2}},
   }, {
      {"branch3x3_1", "branch3x3_2"},
      {"branch7x7x3_1", "branch7x7x3_2", "branch7x7x3_3", "branch7x7x3_4"}, {"maximum"},
   })
end

local function block_e(inputs)
   return Branches({
      {"branch1x1", inputs, 320, 1},
      {"branch3x3_1", inputs, 384, 1}, {"branch3x3_2a", 384, 384, {1, 3}, same(0, 1)},
      {"branch3x3_2b", 384, 384, {3, 1}, same(1, 0)},
      {"branch3x3dbl_1", inputs, 448, 1}, {"branch3x3dbl_2", 448, 384, 3, same(1, 1)},
      {"branch3x3dbl_3a", 384, 384, {1, 3}, same(0, 1)},
      {"branch3x3dbl_3b", 384, 384, {3, 1}, same(1, 0)},
      {"branch_pool", inputs, 192, 1},
   }, {
      {"branch1x1"}, {"branch3x3_1", {"branch3x3_2a", "branch3x3_2b"}},
      {"branch3x3dbl_1", "branch3x3dbl_2", {"branch3x3dbl_3a", "branch3x3dbl_3b"}},
      {"average", "branch_pool"},
   })
end

local InceptionAux = class.class("vision.models.InceptionAux", nn.Module)

function InceptionAux:__init(inputs, num_classes)
   self.conv0, self.conv1 = BasicConv2d(inputs, 128, 1), BasicConv2d(128, 768, 5)
   self.fc = nn.Linear(768, num_classes)
end

function InceptionAux:forward(input)
   local x = self.conv1(self.conv0(F.avg_pool2d(input, 5, {stride = 3})))
   return self.fc(F.adaptive_avg_pool2d(x, 1):flatten(2))
end

local Inception3 = class.class("vision.models.Inception3", nn.Module)

function Inception3:__init(options)
   self.transform_input, self.aux_logits = options.transform_input, options.aux_logits
   self.Conv2d_1a_3x3 = BasicConv2d(3, 32, 3, {stride = 2})
   self.Conv2d_2a_3x3 = BasicConv2d(32, 32, 3)
   self.Conv2d_2b_3x3 = BasicConv2d(32, 64, 3, same(1, 1))
   self.maxpool1, self.maxpool2 = nn.MaxPool2d(3, {stride = 2}), nn.MaxPool2d(3, {stride = 2})
   self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = BasicConv2d(64, 80, 1), BasicConv2d(80, 192, 3)
   self.Mixed_5b, self.Mixed_5c = block_a(192, 32), block_a(256, 64)
   self.Mixed_5d = block_a(288, 64)
   self.Mixed_6a, self.Mixed_6b = block_b(288), block_c(768, 128)
   self.Mixed_6c, self.Mixed_6d = block_c(768, 160), block_c(768, 160)
   self.Mixed_6e = block_c(768, 192)
   if options.aux_logits then self.AuxLogits = InceptionAux(768, options.num_classes) end
   self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = block_d(768), block_e(1280), block_e(2048)
   self.avgpool, self.dropout = nn.AdaptiveAvgPool2d(1), nn.Dropout(options.dropout)
   self.fc = nn.Linear(2048, options.num_classes)
   if options.init_weights then self:draw_weights() end
end

function Inception3:draw_weights()
   local fill = define.truncated(0.1)
   define.initialize(self, {conv = fill, linear = fill, bias = "keep"})
   if self.AuxLogits then
      define.truncated(0.01)(self.AuxLogits.conv1.conv.weight)
      define.truncated(0.001)(self.AuxLogits.fc.weight)
   end
end

local head <const> = {"Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "maxpool1",
   "Conv2d_3b_1x1", "Conv2d_4a_3x3", "maxpool2", "Mixed_5b", "Mixed_5c", "Mixed_5d", "Mixed_6a",
   "Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"}
local tail <const> = {"Mixed_7a", "Mixed_7b", "Mixed_7c", "avgpool", "dropout"}

function Inception3:forward(input)
   local x = self.transform_input and to_half(input) or input
   for _, name in ipairs(head) do x = self[name](x) end
   local aux = self.training and self.aux_logits and self.AuxLogits(x) or nil
   for _, name in ipairs(tail) do x = self[name](x) end
   x = self.fc(x:flatten(2))
   if aux then return x, aux end
   return x
end

--- GoogLeNet, from "Going Deeper with Convolutions". Input (N, 3, H, W); output (N, num_classes).
--- In training mode with `aux_logits` there are three results: the output, and the outputs of the
--- auxiliary classifiers 2 and 1.
---
---     local models = torch.vision.models
---     local model = models.googlenet {num_classes = 10, init_weights = false}
---     local output, aux2, aux1 = model(torch.zeros(2, 3, 64, 64))
---     print(output:size(2), aux2:size(2), aux1:size(2))
---     --> 10	10	10
---@names vision.models.googlenet
---@param options? {num_classes: integer, aux_logits: boolean, transform_input: boolean,
--- init_weights: boolean, dropout: number, dropout_aux: number, weights: string|table} num_classes:
--- 1000 by default; aux_logits: whether there are auxiliary classifiers, true by default;
--- transform_input: whether the input is normalised by ImageNet's means, false by default;
--- init_weights: whether to draw initial values, true by default; dropout: 0.2 by default;
--- dropout_aux: the dropout in the auxiliary classifiers, 0.7 by default; weights: a state dict or
--- its file
---@return nn.Module

--- Inception v3, from "Rethinking the Inception Architecture for Computer Vision". Input (N, 3, H,
--- W), at least 75 pixels a side; output (N, num_classes). In training mode with `aux_logits` there
--- are two results, the output and the auxiliary classifier's output, and images need 299 pixels a
--- side.
---
---     local models = torch.vision.models
---     local model = models.inception_v3 {num_classes = 10, init_weights = false}
---     print(table.unpack(model:eval()(torch.zeros(1, 3, 75, 75)).shape))
---     --> 1	10
---@names vision.models.inception_v3
---@param options? {num_classes: integer, aux_logits: boolean, transform_input: boolean,
--- init_weights: boolean, dropout: number, weights: string|table}  num_classes: 1000 by default;
--- aux_logits: whether there is an auxiliary classifier, true by default; transform_input: whether
--- the input is normalised by ImageNet's means, false by default; init_weights: whether to draw
--- initial values, true by default; dropout: 0.5 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({aux_logits = true, transform_input = false, init_weights = true}, {
   googlenet = {make = GoogLeNet, defaults = {dropout = 0.2, dropout_aux = 0.7}},
   inception_v3 = {make = Inception3, defaults = {dropout = 0.5}},
}, function(options, row) return row.make(options) end)
