-- alexnet.lua - AlexNet: five convolutions and three linear layers (Krizhevsky, 2014).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"

local nn = torch.nn

local AlexNet = class.class("vision.models.AlexNet", nn.Module)

function AlexNet:__init(options)
   local function relu() return nn.ReLU {inplace = true} end
   local function pool() return nn.MaxPool2d(3, {stride = 2}) end
   self.features = nn.Sequential(
      nn.Conv2d(3, 64, 11, {stride = 4, padding = 2}), relu(), pool(),
      nn.Conv2d(64, 192, 5, {padding = 2}), relu(), pool(),
      nn.Conv2d(192, 384, 3, {padding = 1}), relu(),
      nn.Conv2d(384, 256, 3, {padding = 1}), relu(),
      nn.Conv2d(256, 256, 3, {padding = 1}), relu(), pool())
   self.avgpool = nn.AdaptiveAvgPool2d {6, 6}
   self.classifier = nn.Sequential(
      nn.Dropout(options.dropout), nn.Linear(256 * 6 * 6, 4096), relu(),
      nn.Dropout(options.dropout), nn.Linear(4096, 4096), relu(),
      nn.Linear(4096, options.num_classes))
end

AlexNet.forward = define.classify

--- AlexNet, from "One weird trick for parallelizing convolutional neural networks". Input (N, 3, H,
--- W), at least 63 pixels a side; output (N, num_classes).
---
---     local model = torch.vision.models.alexnet {num_classes = 10}
---     model:eval()
---     print(table.unpack(model(torch.zeros(1, 3, 64, 64)).shape))
---     --> 1	10
---@names vision.models.alexnet
---@param options? {num_classes: integer, dropout: number, weights: string|table}  num_classes: 1000
--- by default; dropout: 0.5 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({dropout = 0.5}, {alexnet = {}}, AlexNet)
