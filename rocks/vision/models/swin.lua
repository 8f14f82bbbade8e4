-- swin.lua - Swin transformers v1 and v2: attention inside windows. In every second block, the
-- windows are shifted by half a window (Liu et al., 2021).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"
local windows = require "tlua.vision.models.windows"

local nn = torch.nn
local F = nn.functional

-- Concatenates the channels of each square of four pixels to one pixel, and halves the number of
-- channels by a linear map. Version 1 normalises before the linear map, and version 2 after it.
local PatchMerging = class.class("vision.models.PatchMerging", nn.Module)

function PatchMerging:__init(channels, is_v2)
   self.is_v2 = is_v2
   self.reduction = nn.Linear(4 * channels, 2 * channels, {bias = false})
   self.norm = nn.LayerNorm(is_v2 and 2 * channels or 4 * channels)
end

function PatchMerging:forward(input)
   local height, width = input:size(2), input:size(3)
   local x = input
   if height % 2 == 1 or width % 2 == 1 then x = F.pad(x, {0, 0, 0, width % 2, 0, height % 2}) end
   local function part(i, j) return x[{{}, {i, -1, 2}, {j, -1, 2}, {}}] end
   x = torch.cat({part(1, 1), part(2, 1), part(1, 2), part(2, 2)}, 4)
   if self.is_v2 then return self.norm(self.reduction(x)) end
   return self.reduction(self.norm(x))
end

-- Attention inside windows, with biases for the relative positions of pixels. Version 1 learns a
-- table of biases. In version 2 a small network computes them, and cosines of the angles between
-- queries and keys replace the dot products.
local WindowAttention = class.class("vision.models.WindowAttention", nn.Module)

function WindowAttention:__init(channels, size, shift, heads, options, is_v2)
   self.size, self.shift, self.heads, self.is_v2 = size, shift, heads, is_v2
   self.attention_dropout, self.dropout = options.attention_dropout, options.dropout
   self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
   self:register_buffer("relative_position_index", windows.relative_positions(size, size):flatten())
   if is_v2 then
      self:register_buffer("relative_coords_table", self.coordinates(size))
      self.logit_scale = nn.Parameter(torch.full({heads, 1, 1}, math.log(10)))
      self.cpb_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU {inplace = true},
         nn.Linear(512, heads, {bias = false}))
   else
      self.relative_position_bias_table = nn.Parameter(torch.empty((2 * size - 1) * (2 * size - 1),
         heads))
      nn.init.trunc_normal_(self.relative_position_bias_table, 0, 0.02)
   end
end

-- Returns the relative positions of pixels in a window on a logarithmic scale, with their signs, as
-- a tensor (1, 2 size - 1, 2 size - 1, 2).
function WindowAttention.coordinates(size)
   local n = 2 * size - 1
   local line = torch.arange(0, n, {dtype = "float32"}):sub(size - 1) / (size - 1) * 8
   line = line:sign() * (line:abs() + 1):log2() / 3
   return torch.stack({line:view(n, 1):expand(n, n), line:view(1, n):expand(n, n)}, 3):unsqueeze(1)
end

function WindowAttention:biases()
   local values, n = self.relative_position_bias_table, self.size * self.size
   if self.is_v2 then values = self.cpb_mlp(self.relative_coords_table):view(-1, self.heads) end
   local biases = windows.biases(values, self.relative_position_index, n)
   return self.is_v2 and biases:sigmoid() * 16 or biases
end

-- Returns a mask (windows, 1, n, n). It is -100 for each pair of pixels that are in the same window
-- only because of the shift, and 0 for all other pairs.
local function shift_mask(like, height, width, size, shift_y, shift_x)
   local function regions(length, shift)
      local line = torch.zeros(length, {device = like.device})
      if shift > 0 then
         line[{{-size, -shift - 1}}] = 1
         line[{{-shift, -1}}] = 2
      end
      return line
   end
   local rows, columns = regions(height, shift_y), regions(width, shift_x)
   local map = rows:view(-1, 1) * 3 + columns:view(1, -1)
   map = map:view(height // size, size, width // size, size):permute({1, 3, 2, 4})
      :reshape(-1, size * size)
   local different = map:unsqueeze(2):ne(map:unsqueeze(3))
   return (different:to(like.dtype) * -100):unsqueeze(2)
end

function WindowAttention:forward(input)
   local size, heads = self.size, self.heads
   local batch, height, width, channels = table.unpack(input.shape)
   local pad_y, pad_x = -height % size, -width % size
   local x = input
   if pad_y > 0 or pad_x > 0 then x = F.pad(x, {0, 0, 0, pad_x, 0, pad_y}) end
   local full_y, full_x = height + pad_y, width + pad_x
   local shift_y = size < full_y and self.shift or 0
   local shift_x = size < full_x and self.shift or 0
   local is_shifted = shift_y + shift_x > 0
   if is_shifted then x = x:roll({-shift_y, -shift_x}, {2, 3}) end
   local count_y, count_x, n = full_y // size, full_x // size, size * size
   local count = count_y * count_x
   x = x:reshape(batch, count_y, size, count_x, size, channels):permute({1, 2, 4, 3, 5, 6})
      :reshape(batch * count, n, channels)

   local bias = self.qkv.bias
   if self.is_v2 then
      bias = torch.cat {bias:narrow(1, 1, channels), torch.zeros_like(bias:narrow(1, 1, channels)),
         bias:narrow(1, 2 * channels + 1, channels)}
   end
   local qkv = F.linear(x, self.qkv.weight, bias)
      :view(batch * count, n, 3, heads, channels // heads):permute {3, 1, 4, 2, 5}
   local q, k, v = qkv[1], qkv[2], qkv[3]
   local weights
   if self.is_v2 then
      weights = F.normalize(q, {dim = -1}):matmul(F.normalize(k, {dim = -1}):transpose(-2, -1))
         * self.logit_scale:clamp_max(math.log(100)):exp()
   else
      weights = (q * (channels // heads) ^ -0.5):matmul(k:transpose(-2, -1))
   end
   weights = weights + self:biases()
   if is_shifted then
      local mask = shift_mask(x, full_y, full_x, size, shift_y, shift_x)
      weights = (weights:view(batch, count, heads, n, n) + mask):view(-1, heads, n, n)
   end
   weights = F.dropout(weights:softmax(-1), self.attention_dropout, self.training)
   x = self.proj(weights:matmul(v):transpose(2, 3):reshape(batch * count, n, channels))
   x = F.dropout(x, self.dropout, self.training)
   x = x:view(batch, count_y, count_x, size, size, channels):permute({1, 2, 4, 3, 5, 6})
      :reshape(batch, full_y, full_x, channels)
   if is_shifted then x = x:roll({shift_y, shift_x}, {2, 3}) end
   if pad_y > 0 or pad_x > 0 then x = x[{{}, {1, height}, {1, width}, {}}] end
   return x
end

local Block = class.class("vision.models.SwinTransformerBlock", nn.Module)

function Block:__init(channels, heads, size, shift, options, is_v2, drop)
   self.is_v2 = is_v2
   self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
   self.attn = WindowAttention(channels, size, shift, heads, options, is_v2)
   self.stochastic_depth = layers.StochasticDepth(drop, "row")
   self.mlp = layers.MLP(channels, {4 * channels, channels},
      {activation_layer = nn.GELU, dropout = options.dropout})
end

function Block:forward(input)
   local drop = self.stochastic_depth
   if self.is_v2 then
      local x = input + drop(self.norm1(self.attn(input)))
      return x + drop(self.norm2(self.mlp(x)))
   end
   local x = input + drop(self.attn(self.norm1(input)))
   return x + drop(self.mlp(self.norm2(x)))
end

local SwinTransformer = class.class("vision.models.SwinTransformer", nn.Module)

function SwinTransformer:__init(options, row)
   local channels, total, done = row.channels, 0, 0
   for _, count in ipairs(row.depths) do total = total + count end
   self.features = nn.Sequential(nn.Sequential(nn.Conv2d(3, channels, 4, {stride = 4}),
      layers.Permute {1, 3, 4, 2}, nn.LayerNorm(channels)))
   for i, count in ipairs(row.depths) do
      if i > 1 then
         self.features:add(PatchMerging(channels, row.is_v2))
         channels = 2 * channels
      end
      local stage = nn.Sequential()
      for j = 1, count do
         stage:add(Block(channels, channels // 32, row.window, j % 2 == 0 and row.window // 2 or 0,
            options, row.is_v2, options.stochastic_depth_prob * done / (total - 1)))
         done = done + 1
      end
      self.features:add(stage)
   end
   self.norm, self.permute = nn.LayerNorm(channels), layers.Permute {1, 4, 2, 3}
   self.avgpool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten(2)
   self.head = nn.Linear(channels, options.num_classes)
   define.initialize(self, {linear = define.truncated(0.02)})
end

function SwinTransformer:forward(input)
   local x = self.permute(self.norm(self.features(input)))
   return self.head(self.flatten(self.avgpool(x)))
end

local rows = {}
for name, row in pairs {t = {96, 6, 0.2}, s = {96, 18, 0.3}, b = {128, 18, 0.5}} do
   for version, window in pairs {[""] = 7, v2_ = 8} do
      rows["swin_" .. version .. name] = {
         channels = row[1], depths = {2, 2, row[2], 2}, window = window, is_v2 = version ~= "",
         defaults = {stochastic_depth_prob = row[3]},
      }
   end
end

--- Swin transformers v1, from "Swin Transformer: Hierarchical Vision Transformer using Shifted
--- Windows", and v2, from "Swin Transformer V2: Scaling Up Capacity and Resolution". Input (N, 3,
--- H, W); output (N, num_classes).
---
---     local model = torch.vision.models.swin_t {num_classes = 10}
---     print(table.unpack(model(torch.zeros(1, 3, 64, 64)).shape))
---     --> 1	10
---@names vision.models.swin_t vision.models.swin_s vision.models.swin_b
---@names vision.models.swin_v2_t vision.models.swin_v2_s vision.models.swin_v2_b
---@param options? {num_classes: integer, dropout: number, attention_dropout: number,
--- stochastic_depth_prob: number, weights: string|table}  num_classes: 1000 by default; dropout: 0
--- by default; attention_dropout: 0 by default; stochastic_depth_prob: the value up to which the
--- probability of dropping a block grows, 0.2 to 0.5 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({dropout = 0.0, attention_dropout = 0.0}, rows, SwinTransformer)
