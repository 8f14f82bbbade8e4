-- maxvit.lua - MaxViT: each layer has a convolution, then attention inside windows, and then
-- attention along a grid (Tu et al., 2022).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"
local windows = require "tlua.vision.models.windows"

local nn = torch.nn
local conv <const> = layers.Conv2dNormActivation

local head_size <const>, partition <const> = 32, 7

local MBConv = class.class("vision.models.MaxVitConv", nn.Module)

function MBConv:__init(inputs, outputs, stride, norm, drop)
   local hidden = 4 * outputs
   local function unit(before, kernel, step, groups)
      return conv(before, hidden, {kernel_size = kernel, stride = step, groups = groups,
         norm_layer = norm, activation_layer = nn.GELU})
   end
   self.proj = nn.Identity()
   if stride ~= 1 or inputs ~= outputs then
      self.proj = nn.Sequential()
      if stride == 2 then self.proj:add(nn.AvgPool2d(3, {stride = 2, padding = 1})) end
      self.proj:add(nn.Conv2d(inputs, outputs, 1))
   end
   self.stochastic_depth = layers.StochasticDepth(drop, "row")
   self.layers = nn.Sequential {
      {"pre_norm", norm(inputs)}, {"conv_a", unit(inputs, 1, 1, 1)},
      {"conv_b", unit(hidden, 3, stride, hidden)},
      {"squeeze_excitation", layers.SqueezeExcitation(hidden, outputs // 4,
         {activation = nn.SiLU})},
      {"conv_c", nn.Conv2d(hidden, outputs, 1)},
   }
end

function MBConv:forward(input)
   return self.proj(input) + self.stochastic_depth(self.layers(input))
end

-- Attention between the pixels of a group, for an input (batch, groups, pixels, channels).
local Attention = class.class("vision.models.RelativeAttention", nn.Module)

function Attention:__init(channels)
   local side = 2 * partition - 1
   self.heads = channels // head_size
   self.to_qkv, self.merge = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
   self.relative_position_bias_table = nn.Parameter(torch.empty(side * side, self.heads))
   self:register_buffer("relative_position_index",
      windows.relative_positions(partition, partition))
   nn.init.trunc_normal_(self.relative_position_bias_table, 0, 0.02)
end

function Attention:forward(input)
   local batch, groups, n, channels = table.unpack(input.shape)
   local qkv = self.to_qkv(input):view(batch * groups, n, 3, self.heads, head_size)
      :permute {3, 1, 4, 2, 5}
   local weights = qkv[1]:matmul((qkv[2] * channels ^ -0.5):transpose(-2, -1))
   weights = (weights + windows.biases(self.relative_position_bias_table,
      self.relative_position_index, n)):softmax(-1)
   return self.merge(weights:matmul(qkv[3]):transpose(2, 3):reshape(batch, groups, n, channels))
end

-- Attention and a perceptron over groups of pixels. A group is a window. If is_grid is true, a
-- group is a grid of pixels spread over the whole image instead.
local Partition = class.class("vision.models.PartitionAttention", nn.Module)

function Partition:__init(channels, is_grid, drop)
   self.is_grid = is_grid
   self.attn_layer = nn.Sequential(nn.LayerNorm(channels), Attention(channels), nn.Dropout(0))
   self.mlp_layer = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 4 * channels),
      nn.GELU(), nn.Linear(4 * channels, channels), nn.Dropout(0))
   self.stochastic_dropout = layers.StochasticDepth(drop, "row")
end

function Partition:forward(input)
   local batch, channels, height, width = table.unpack(input.shape)
   local p = self.is_grid and height // partition or partition
   local q = self.is_grid and width // partition or partition
   local rows, columns = height // p, width // q
   local x = input:reshape(batch, channels, rows, p, columns, q):permute({1, 3, 5, 4, 6, 2})
      :reshape(batch, rows * columns, p * q, channels)
   if self.is_grid then x = x:transpose(2, 3) end
   x = x + self.stochastic_dropout(self.attn_layer(x))
   x = x + self.stochastic_dropout(self.mlp_layer(x))
   if self.is_grid then x = x:transpose(2, 3) end
   return x:reshape(batch, rows, columns, p, q, channels):permute({1, 6, 2, 4, 3, 5})
      :reshape(batch, channels, height, width)
end

local Stage = class.class("vision.models.MaxVitStage", nn.Module)

local MaxVit = class.class("vision.models.MaxVit", nn.Module)

function Stage:__init(inputs, outputs, norm, drops)
   self.layers = nn.ModuleList()
   for i, drop in ipairs(drops) do
      local layer = nn.Module()
      layer.layers = nn.Sequential {
         {"MBconv", MBConv(i == 1 and inputs or outputs, outputs, i == 1 and 2 or 1, norm, drop)},
         {"window_attention", Partition(outputs, false, drop)},
         {"grid_attention", Partition(outputs, true, drop)},
      }
      self.layers:append(layer)
   end
end

function Stage:forward(input)
   local x = input
   for _, layer in ipairs(self.layers) do x = layer.layers(x) end
   return x
end

function MaxVit:__init(options, row, title)
   local size = options.input_size
   if #size ~= 2 or size[1] % 224 ~= 0 or size[2] % 224 ~= 0 or size[1] < 1 or size[2] < 1 then
      args.refuse(title, "input_size", "two multiples of 224", size)
   end
   local norm = options.norm_layer or define.batch_norm {eps = 0.001, momentum = 0.01}
   self.input_size, self.title = size, title
   self.stem = nn.Sequential(
      conv(3, row.stem, {stride = 2, norm_layer = norm, activation_layer = nn.GELU}),
      conv(row.stem, row.stem, {norm_layer = false, activation_layer = false}))
   self.blocks = nn.ModuleList()
   local total, done, inputs = 0, 0, row.stem
   for _, count in ipairs(row.depths) do total = total + count end
   for i, count in ipairs(row.depths) do
      local drops, outputs = {}, row.stem << (i - 1)
      for j = 1, count do
         drops[j] = options.stochastic_depth_prob * done / (total - 1)
         done = done + 1
      end
      self.blocks:append(Stage(inputs, outputs, norm, drops))
      inputs = outputs
   end
   self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(inputs),
      nn.Linear(inputs, inputs), nn.Tanh(), nn.Linear(inputs, options.num_classes, {bias = false}))
   define.initialize(self, {conv = define.normal(0.02), linear = define.normal(0.02)})
end

function MaxVit:forward(input)
   local height, width = table.unpack(self.input_size)
   if input:dim() ~= 4 or input:size(3) ~= height or input:size(4) ~= width then
      args.refuse(self.title, "input", ("images of %d x %d pixels (option input_size)"):format(
         height, width), input)
   end
   local x = self.stem(input)
   for _, block in ipairs(self.blocks) do x = block(x) end
   return self.classifier(x)
end

--- MaxViT, from "MaxViT: Multi-Axis Vision Transformer". Input (N, 3, H, W) of the size
--- `input_size`, multiples of 224; output (N, num_classes).
---
---     local model = torch.vision.models.maxvit_t {num_classes = 10}
---     print(#model.blocks, torch.type(model))
---     --> 4	vision.models.MaxVit
---@names vision.models.maxvit_t
---@param options? {num_classes: integer, input_size: integer[], stochastic_depth_prob: number,
--- norm_layer: function, weights: string|table}  num_classes: 1000 by default; input_size: height
--- and width, {224, 224} by default; stochastic_depth_prob: the value up to which the probability
--- of dropping a block grows, 0.2 by default; norm_layer: makes the normalisations; weights: a
--- state dict or its file
---@return nn.Module
return define.builders({input_size = {224, 224}, stochastic_depth_prob = 0.2},
   {maxvit_t = {stem = 64, depths = {2, 2, 5, 2}}}, MaxVit, true)
