-- s3d.lua - S3D: Inception blocks for videos, with convolutions that are split into one over space
-- and one over time (Xie et al., 2017).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn

-- Returns a convolution over space, followed by a convolution over time.
local function split(inputs, outputs, kernel, stride, norm)
   local padding = kernel // 2
   return nn.Sequential(
      layers.Conv3dNormActivation(inputs, outputs, {kernel_size = {1, kernel, kernel},
         stride = {1, stride, stride}, padding = {0, padding, padding}, norm_layer = norm}),
      layers.Conv3dNormActivation(outputs, outputs, {kernel_size = {kernel, 1, 1},
         stride = {stride, 1, 1}, padding = {padding, 0, 0}, norm_layer = norm}))
end

local function point(inputs, outputs, norm)
   return layers.Conv3dNormActivation(inputs, outputs, {kernel_size = 1, norm_layer = norm})
end

-- A block of four parallel branches. `c` lists numbers of channels: the outputs of branch 1, the
-- inner channels and the outputs of branch 2, those of branch 3, and the outputs of branch 4.
local Inception = class.class("vision.models.video.SepInceptionBlock3D", nn.Module)

function Inception:__init(inputs, c, norm)
   self.branch0 = point(inputs, c[1], norm)
   self.branch1 = nn.Sequential(point(inputs, c[2], norm), split(c[2], c[3], 3, 1, norm))
   self.branch2 = nn.Sequential(point(inputs, c[4], norm), split(c[4], c[5], 3, 1, norm))
   self.branch3 = nn.Sequential(nn.MaxPool3d(3, {stride = 1, padding = 1}),
      point(inputs, c[6], norm))
end

function Inception:forward(input)
   return torch.cat({self.branch0(input), self.branch1(input), self.branch2(input),
      self.branch3(input)}, 2)
end

-- The numbers of channels, as in Inception, of the blocks in three stages.
local blocks <const> = {
   {{64, 96, 128, 16, 32, 32}, {128, 128, 192, 32, 96, 64}},
   {{192, 96, 208, 16, 48, 64}, {160, 112, 224, 24, 64, 64}, {128, 128, 256, 24, 64, 64},
      {112, 144, 288, 32, 64, 64}, {256, 160, 320, 32, 128, 128}},
   {{256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128}},
}

local S3D = class.class("vision.models.video.S3D", nn.Module)

function S3D:__init(options)
   local norm = options.norm_layer
      or function(channels) return nn.BatchNorm3d(channels, {eps = 0.001, momentum = 0.001}) end
   local function pool()
      return nn.MaxPool3d({1, 3, 3}, {stride = {1, 2, 2}, padding = {0, 1, 1}})
   end
   self.features = nn.Sequential(split(3, 64, 7, 2, norm), pool(), point(64, 64, norm),
      split(64, 192, 3, 1, norm), pool())
   local inputs = 192
   for stage, list in ipairs(blocks) do
      if stage == 2 then self.features:add(nn.MaxPool3d(3, {stride = 2, padding = 1})) end
      if stage == 3 then self.features:add(nn.MaxPool3d(2, {stride = 2})) end
      for _, c in ipairs(list) do
         self.features:add(Inception(inputs, c, norm))
         inputs = c[1] + c[3] + c[5] + c[6]
      end
   end
   self.avgpool = nn.AvgPool3d({2, 7, 7}, {stride = 1})
   self.classifier = nn.Sequential(nn.Dropout(options.dropout),
      nn.Conv3d(inputs, options.num_classes, 1))
end

function S3D:forward(input)
   return self.classifier(self.avgpool(self.features(input))):mean {3, 4, 5}
end

--- S3D, from "Rethinking Spatiotemporal Feature Learning: Speed-Accuracy Trade-offs in Video
--- Classification". Input (N, 3, frames, H, W), at least 13 frames of 209 x 209 pixels; output (N,
--- num_classes).
---@names vision.models.video.s3d
---@param options? {num_classes: integer, dropout: number, norm_layer: function, weights:
--- string|table}  num_classes: 400 by default; dropout: 0.2 by default; norm_layer: makes the
--- normalisations; weights: a state dict or its file
---@return nn.Module
return define.builders({num_classes = 400, dropout = 0.2}, {s3d = {}}, S3D, true)
