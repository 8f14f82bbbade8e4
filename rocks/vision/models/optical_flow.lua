-- optical_flow.lua - torch.vision.models.optical_flow: RAFT (Teed and Deng, 2020). It refines the
-- flow between two images step by step. Each step compares pixels by the dot products of their
-- features.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local published = require "tlua.vision.models.weights"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn
local F = nn.functional

-- Returns a convolution with bias, followed by normalisation and an activation, which is ReLU by
-- default.
local function conv(inputs, outputs, kernel, norm, stride, activation)
   return layers.Conv2dNormActivation(inputs, outputs, {kernel_size = kernel, stride = stride or 1,
      bias = true, norm_layer = norm or false, activation_layer = activation})
end

-- Encoders ----------------------------------------------------------------------------------------

-- A residual block of two convolutions, or of three if it has a bottleneck.
local Block = class.class("vision.models.optical_flow.Block", nn.Module)

function Block:__init(inputs, outputs, norm, stride, is_bottleneck)
   if is_bottleneck then
      local inner = outputs // 4
      self.convnormrelu1 = conv(inputs, inner, 1, norm)
      self.convnormrelu2 = conv(inner, inner, 3, norm, stride)
      self.convnormrelu3 = conv(inner, outputs, 1, norm)
   else
      self.convnormrelu1 = conv(inputs, outputs, 3, norm, stride)
      self.convnormrelu2 = conv(outputs, outputs, 3, norm)
   end
   if stride > 1 then self.downsample = conv(inputs, outputs, 1, norm, stride, false) end
end

function Block:forward(input)
   local x = self.convnormrelu2(self.convnormrelu1(input))
   if self.convnormrelu3 then x = self.convnormrelu3(x) end
   return (x + (self.downsample and self.downsample(input) or input)):relu()
end

-- Computes features whose height and width are an eighth of the image's.
local Encoder = class.class("vision.models.optical_flow.FeatureEncoder", nn.Module)

function Encoder:__init(channels, norm, is_bottleneck)
   self.convnormrelu = conv(3, channels[1], 7, norm, 2)
   for i = 1, 3 do
      local inputs, outputs = channels[i], channels[i + 1]
      self["layer" .. i] = nn.Sequential(
         Block(inputs, outputs, norm, i > 1 and 2 or 1, is_bottleneck),
         Block(outputs, outputs, norm, 1, is_bottleneck))
   end
   self.conv = nn.Conv2d(channels[4], channels[5], 1)
   define.initialize(self, {conv = define.kaiming_fan_out, bias = "keep"})
end

function Encoder:forward(image)
   return self.conv(self.layer3(self.layer2(self.layer1(self.convnormrelu(image)))))
end

-- Correlations ------------------------------------------------------------------------------------

-- Returns the dot products of all pairs of pixels of two maps (N, C, h, w), as images (N * h * w,
-- 1, h, w) in four resolutions.
local function correlations(a, b)
   local n, channels, h, w = table.unpack(a.shape)
   local all = a:flatten(3):transpose(2, 3):matmul(b:flatten(3)):view(n * h * w, 1, h, w)
      / math.sqrt(channels)
   local list = {all}
   for i = 2, 4 do list[i] = F.avg_pool2d(list[i - 1], 2, {stride = 2}) end
   return list
end

-- Returns the dot products of each pixel with the pixels around its place in the other image, as
-- maps (N, C, h, w). `places` (N, 2, h, w) has the x and y of these places, counted from 0.
local function around(pyramid, places, radius)
   local n, _, h, w = table.unpack(places.shape)
   local line = torch.arange(-radius, radius + 1, {dtype = places.dtype, device = places.device})
   local side = 2 * radius + 1
   -- The pixels around a place come in the order of the paper's code, which steps along x first.
   local rows, columns = line:view(-1, 1):expand(side, side), line:view(1, -1):expand(side, side)
   local steps = torch.stack({rows, columns}, 3):unsqueeze(1)
   local centres = places:permute({1, 3, 4, 2}):reshape(n * h * w, 1, 1, 2)
   local list = {}
   for i, map in ipairs(pyramid) do
      local at = centres / (1 << (i - 1)) + steps
      local x = at:select(4, 1) * (2 / (map:size(4) - 1)) - 1
      local y = map:size(3) > 1 and at:select(4, 2) * (2 / (map:size(3) - 1)) - 1 or at:select(4, 2)
      list[i] = F.grid_sample(map, torch.stack({x, y}, 4), {align_corners = true}):view(n, h, w, -1)
   end
   return torch.cat(list, 4):permute {1, 4, 2, 3}
end

-- Updates -----------------------------------------------------------------------------------------

local Motion = class.class("vision.models.optical_flow.MotionEncoder", nn.Module)

function Motion:__init(inputs, corr, flow, outputs)
   self.convcorr1 = conv(inputs, corr[1], 1)
   if corr[2] then self.convcorr2 = conv(corr[1], corr[2], 3) end
   self.convflow1, self.convflow2 = conv(2, flow[1], 7), conv(flow[1], flow[2], 3)
   self.conv = conv(corr[#corr] + flow[2], outputs - 2, 3)
end

function Motion:forward(flow, corr)
   corr = self.convcorr1(corr)
   if self.convcorr2 then corr = self.convcorr2(corr) end
   local both = torch.cat({corr, self.convflow2(self.convflow1(flow))}, 2)
   return torch.cat({self.conv(both), flow}, 2)
end

local GRU = class.class("vision.models.optical_flow.ConvGRU", nn.Module)

function GRU:__init(inputs, hidden, kernel)
   local padding = type(kernel) == "table" and {kernel[1] // 2, kernel[2] // 2} or kernel // 2
   for _, gate in ipairs {"convz", "convr", "convq"} do
      self[gate] = nn.Conv2d(hidden + inputs, hidden, kernel, {padding = padding})
   end
end

function GRU:forward(h, x)
   local both = torch.cat({h, x}, 2)
   local z, r = self.convz(both):sigmoid(), self.convr(both):sigmoid()
   local q = self.convq(torch.cat({r * h, x}, 2)):tanh()
   return (1 - z) * h + z * q
end

-- A recurrent unit, or two units that are called one after the other.
local Recurrent = class.class("vision.models.optical_flow.RecurrentBlock", nn.Module)

function Recurrent:__init(inputs, hidden, kernels)
   for i, kernel in ipairs(kernels) do self["convgru" .. i] = GRU(inputs, hidden, kernel) end
end

function Recurrent:forward(h, x)
   h = self.convgru1(h, x)
   return self.convgru2 and self.convgru2(h, x) or h
end

local FlowHead = class.class("vision.models.optical_flow.FlowHead", nn.Module)

function FlowHead:__init(inputs, hidden)
   self.conv1 = nn.Conv2d(inputs, hidden, 3, {padding = 1})
   self.conv2 = nn.Conv2d(hidden, 2, 3, {padding = 1})
end

function FlowHead:forward(x) return self.conv2(self.conv1(x):relu()) end

local Update = class.class("vision.models.optical_flow.UpdateBlock", nn.Module)

function Update:__init(row)
   local hidden = row.hidden
   local side = 2 * row.radius + 1
   self.motion_encoder = Motion(4 * side * side, row.corr, row.flow, row.motion)
   self.recurrent_block = Recurrent(row.motion + row.context[5] - hidden, hidden, row.kernels)
   self.flow_head = FlowHead(hidden, row.head)
end

function Update:forward(hidden, context, corr, flow)
   local x = torch.cat({context, self.motion_encoder(flow, corr)}, 2)
   hidden = self.recurrent_block(hidden, x)
   return hidden, self.flow_head(hidden)
end

-- Computes the weights with which `enlarged` interpolates a flow: nine weights, one for each pixel
-- of a 3 x 3 neighbourhood, for each of the 8 x 8 parts into which a pixel is divided.
local Mask = class.class("vision.models.optical_flow.MaskPredictor", nn.Module)

function Mask:__init(inputs)
   self.convrelu, self.conv = conv(inputs, 256, 3), nn.Conv2d(256, 8 * 8 * 9, 1)
end

function Mask:forward(x) return self.conv(self.convrelu(x)) * 0.25 end

-- Returns the flow in the size of the image. It is interpolated linearly or, if a mask is given, as
-- sums of neighbours with the weights of the mask.
local function enlarged(flow, mask)
   local n, _, h, w = table.unpack(flow.shape)
   if not mask then
      local how = {size = {8 * h, 8 * w}, mode = "bilinear", align_corners = true}
      return F.interpolate(flow, how) * 8
   end
   local weights = mask:view(n, 1, 9, 8, 8, h, w):softmax(3)
   local around_each = F.unfold(flow * 8, 3, {padding = 1}):view(n, 2, 9, 1, 1, h, w)
   return (weights * around_each):sum(3):permute({1, 2, 5, 3, 6, 4}):reshape(n, 2, 8 * h, 8 * w)
end

-- The model ---------------------------------------------------------------------------------------

local RAFT = class.class("vision.models.optical_flow.RAFT", nn.Module)

function RAFT:__init(_, row)
   self.radius, self.hidden = row.radius, row.hidden
   self.feature_encoder = Encoder(row.features, nn.InstanceNorm2d, row.is_small)
   self.context_encoder = Encoder(row.context, not row.is_small and nn.BatchNorm2d,
      row.is_small)
   self.update_block = Update(row)
   if not row.is_small then self.mask_predictor = Mask(row.hidden) end
end

local function check(first, second, updates)
   local title = "vision.models.optical_flow.RAFT"
   for i, image in ipairs {first or false, second or false} do
      local is_tensor = torch.is_tensor(image) and image:dim() == 4 and image:size(2) == 3
      local height, width = 0, 0
      if is_tensor then height, width = image:size(3), image:size(4) end
      if height % 8 ~= 0 or width % 8 ~= 0 or height < 128 or width < 128
            or image:size() ~= first:size() then
         args.refuse(title, "image" .. i, "images (N, 3, H, W) of one size, whose sides are "
            .. "multiples of 8 and at least 128", image)
      end
   end
   if math.type(updates) ~= "integer" or updates < 1 then
      args.refuse(title, "num_flow_updates", "an integer of at least 1", updates)
   end
end

function RAFT:forward(first, second, updates)
   updates = updates or 12
   check(first, second, updates)
   local n, h, w = first:size(1), first:size(3) // 8, first:size(4) // 8
   local maps = self.feature_encoder(torch.cat {first, second})
   local pyramid = correlations(maps:narrow(1, 1, n), maps:narrow(1, n + 1, n))
   local context = self.context_encoder(first)
   local hidden = context:narrow(2, 1, self.hidden):tanh()
   context = context:narrow(2, self.hidden + 1, context:size(2) - self.hidden):relu()
   local options = {dtype = first.dtype, device = first.device}
   local start = torch.stack({torch.arange(0, w, options):view(1, -1):expand(h, w),
      torch.arange(0, h, options):view(-1, 1):expand(h, w)}):unsqueeze(1):expand(n, 2, h, w)
   local places, flows = start, {}
   for i = 1, updates do
      -- Gradients pass only through the hidden state, not through the places.
      places = places:detach()
      local step
      hidden, step = self.update_block(hidden, context, around(pyramid, places, self.radius),
         places - start)
      places = places + step
      flows[i] = enlarged(places - start, self.mask_predictor and self.mask_predictor(hidden))
   end
   return flows
end

--- RAFT, from "RAFT: Recurrent All Pairs Field Transforms for Optical Flow". The call model(image1,
--- image2, num_flow_updates) takes images (N, 3, H, W) with values from -1 to 1, whose sides are
--- multiples of 8 and at least 128, and the number of steps, 12 by default; it returns a list of
--- the flows (N, 2, H, W) after each step. A flow says by how many pixels each pixel moves to the
--- right and down.
---
---     local model = torch.vision.models.optical_flow.raft_small()
---     local image = torch.rand(1, 3, 128, 128)
---     local flows = torch.no_grad(function() return model(image, image, 2) end)
---     print(#flows, table.unpack(flows[2].shape))
---     --> 2	1	2	128	128
---@names vision.models.optical_flow.raft_large vision.models.optical_flow.raft_small
---@param options? {weights: string|table}  weights: a state dict or its file
---@return nn.Module
local builders = define.builders({num_classes = false}, {
   raft_large = {
      features = {64, 64, 96, 128, 256}, context = {64, 64, 96, 128, 256}, radius = 4,
      corr = {256, 192}, flow = {128, 64}, motion = 128, hidden = 128, kernels = {{1, 5}, {5, 1}},
      head = 256,
   },
   raft_small = {
      features = {32, 32, 64, 96, 128}, context = {32, 32, 64, 96, 160}, radius = 3, corr = {96},
      flow = {64, 32}, motion = 82, hidden = 96, kernels = {3}, head = 128, is_small = true,
   },
}, RAFT)
for _, name in ipairs(published.names "optical_flow") do builders[name] = published[name] end

return builders
