-- swin.lua - Swin transformers for videos: attention inside windows, which extend over frames, rows
-- and columns. In every second block, the windows are shifted by half a window (Liu et al., 2021).

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"
local windows = require "tlua.vision.models.windows"

local nn = torch.nn
local F = nn.functional

-- In this file, videos are tensors (N, frames, rows, columns, channels).

-- Pads a video with zeros at its ends, so that its numbers of frames, rows and columns are
-- multiples of the given sizes.
local function padded(video, sizes)
   local pad = {0, 0}
   for i = 3, 1, -1 do
      pad[#pad + 1], pad[#pad + 2] = 0, -video:size(i + 1) % sizes[i]
   end
   return (pad[4] + pad[6] + pad[8] > 0) and F.pad(video, pad) or video
end

local PatchMerging = class.class("vision.models.video.PatchMerging", nn.Module)

function PatchMerging:__init(channels)
   self.reduction = nn.Linear(4 * channels, 2 * channels, {bias = false})
   self.norm = nn.LayerNorm(4 * channels)
end

function PatchMerging:forward(input)
   local x = padded(input, {1, 2, 2})
   local function part(i, j) return x[{{}, {}, {i, -1, 2}, {j, -1, 2}, {}}] end
   return self.reduction(self.norm(torch.cat({part(1, 1), part(2, 1), part(1, 2), part(2, 2)}, 5)))
end

-- Returns the number, counted from 0, of the relative position of each pair of positions in a
-- window.
local function relative_positions(size)
   local place, counts = {device = "cpu"}, {}
   for i = 1, 3 do
      local shape = {1, 1, 1}
      shape[i] = size[i]
      local line = torch.arange(0, size[i], place):view(shape):expand(size):flatten()
      counts[i] = line:unsqueeze(2) - line:unsqueeze(1) + (size[i] - 1)
   end
   return ((counts[1] * (2 * size[2] - 1) + counts[2]) * (2 * size[3] - 1) + counts[3]):long()
      :to(torch.get_default_device())
end

-- Divides a video into windows. Returns a tensor (N * windows, positions in a window, channels).
local function divide(video, size)
   local n, t, h, w, channels = table.unpack(video.shape)
   return video:reshape(n, t // size[1], size[1], h // size[2], size[2], w // size[3], size[3],
      channels):permute({1, 2, 4, 6, 3, 5, 7, 8}):reshape(-1, size[1] * size[2] * size[3], channels)
end

local function join(parts, size, shape)
   local n, t, h, w, channels = table.unpack(shape)
   return parts:reshape(n, t // size[1], h // size[2], w // size[3], size[1], size[2], size[3],
      channels):permute({1, 2, 5, 3, 6, 4, 7, 8}):reshape(n, t, h, w, channels)
end

-- Returns the attention mask (windows, 1, positions, positions) for shifted windows. It is -100 for
-- two positions that share a window only because the shift wraps around, and 0 for all other pairs.
local function shift_mask(like, size, shift)
   local regions = 0
   for i = 1, 3 do
      local shape = {1, 1, 1}
      shape[i] = like:size(i + 1)
      local line = torch.zeros(shape[i], {device = like.device})
      if shift[i] > 0 then
         line[{{-size[i], -shift[i] - 1}}] = 1
         line[{{-shift[i], -1}}] = 2
      end
      regions = regions * 3 + line:view(shape)
   end
   local parts = divide(regions:unsqueeze(1):unsqueeze(5), size):squeeze(3)
   local different = parts:unsqueeze(2):ne(parts:unsqueeze(3))
   return (different:to(like.dtype) * -100):unsqueeze(2)
end

local Attention = class.class("vision.models.video.ShiftedWindowAttention3d", nn.Module)

function Attention:__init(channels, size, shift, heads, options)
   self.size, self.shift, self.heads = size, shift, heads
   self.attention_dropout, self.dropout = options.attention_dropout, options.dropout
   self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
   self.relative_position_bias_table = nn.Parameter(torch.empty(
      (2 * size[1] - 1) * (2 * size[2] - 1) * (2 * size[3] - 1), heads))
   nn.init.trunc_normal_(self.relative_position_bias_table, 0, 0.02)
   self:register_buffer("relative_position_index", relative_positions(size))
end

function Attention:forward(input)
   local size, shift, is_shifted = {}, {}, false
   for i = 1, 3 do
      local fits = input:size(i + 1) > self.size[i]
      size[i] = fits and self.size[i] or input:size(i + 1)
      shift[i] = fits and self.shift[i] or 0
      is_shifted = is_shifted or shift[i] > 0
   end
   local x = padded(input, size)
   local shape, heads, channels = x.shape, self.heads, input:size(5)
   if is_shifted then x = x:roll({-shift[1], -shift[2], -shift[3]}, {2, 3, 4}) end
   local mask = is_shifted and shift_mask(x, size, shift)
   local parts = divide(x, size)
   local count, n = parts:size(1), parts:size(2)
   local qkv = self.qkv(parts):view(count, n, 3, heads, channels // heads):permute {3, 1, 4, 2, 5}
   local weights = (qkv[1] * (channels // heads) ^ -0.5):matmul(qkv[2]:transpose(-2, -1))
   local places = self.relative_position_index:narrow(1, 1, n):narrow(2, 1, n)
   weights = weights + windows.biases(self.relative_position_bias_table, places, n)
   if mask then
      weights = (weights:view(-1, mask:size(1), heads, n, n) + mask):view(-1, heads, n, n)
   end
   weights = F.dropout(weights:softmax(-1), self.attention_dropout, self.training)
   parts = self.proj(weights:matmul(qkv[3]):transpose(2, 3):reshape(count, n, channels))
   x = join(F.dropout(parts, self.dropout, self.training), size, shape)
   if is_shifted then x = x:roll(shift, {2, 3, 4}) end
   return x[{{}, {1, input:size(2)}, {1, input:size(3)}, {1, input:size(4)}, {}}]
end

local Block = class.class("vision.models.video.SwinTransformerBlock", nn.Module)

function Block:__init(channels, heads, shift, options, drop)
   self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
   self.attn = Attention(channels, {8, 7, 7}, shift, heads, options)
   self.stochastic_depth = layers.StochasticDepth(drop, "row")
   self.mlp = layers.MLP(channels, {4 * channels, channels},
      {activation_layer = nn.GELU, dropout = options.dropout})
end

function Block:forward(input)
   local x = input + self.stochastic_depth(self.attn(self.norm1(input)))
   return x + self.stochastic_depth(self.mlp(self.norm2(x)))
end

-- Cuts videos (N, 3, frames, H, W) into patches of 2 frames x 4 rows x 4 columns, and computes an
-- embedding of each patch.
local PatchEmbed = class.class("vision.models.video.PatchEmbed3d", nn.Module)

function PatchEmbed:__init(channels)
   self.proj = nn.Conv3d(3, channels, {2, 4, 4}, {stride = {2, 4, 4}})
   self.norm = nn.LayerNorm(channels)
end

function PatchEmbed:forward(input)
   local x = padded(input:permute {1, 3, 4, 5, 2}, {2, 4, 4}):permute {1, 5, 2, 3, 4}
   return self.norm(self.proj(x):permute {1, 3, 4, 5, 2})
end

local Swin = class.class("vision.models.video.SwinTransformer3d", nn.Module)

function Swin:__init(options, row)
   local channels, depths = row.channels, {2, 2, row.depth, 2}
   local total, done = row.depth + 6, 0
   self.patch_embed, self.pos_drop = PatchEmbed(channels), nn.Dropout(options.dropout)
   self.features = nn.Sequential()
   for i, count in ipairs(depths) do
      if i > 1 then
         self.features:add(PatchMerging(channels))
         channels = 2 * channels
      end
      local stage = nn.Sequential()
      for j = 1, count do
         stage:add(Block(channels, channels // 32, j % 2 == 0 and {4, 3, 3} or {0, 0, 0}, options,
            options.stochastic_depth_prob * done / (total - 1)))
         done = done + 1
      end
      self.features:add(stage)
   end
   self.norm, self.avgpool = nn.LayerNorm(channels), nn.AdaptiveAvgPool3d(1)
   self.head = nn.Linear(channels, options.num_classes)
   define.initialize(self, {linear = define.truncated(0.02)})
end

function Swin:forward(input)
   local x = self.norm(self.features(self.pos_drop(self.patch_embed(input))))
   return self.head(self.avgpool(x:permute {1, 5, 2, 3, 4}):flatten(2))
end

--- Swin transformers for videos, from "Video Swin Transformer". Input (N, 3, frames, H, W); output
--- (N, num_classes).
---
---     local model = torch.vision.models.video.swin3d_t {num_classes = 5}
---     print(table.unpack(model(torch.zeros(1, 3, 4, 32, 32)).shape))
---     --> 1	5
---@names vision.models.video.swin3d_t vision.models.video.swin3d_s vision.models.video.swin3d_b
---@param options? {num_classes: integer, dropout: number, attention_dropout: number,
--- stochastic_depth_prob: number, weights: string|table}  num_classes: 400 by default; dropout: 0
--- by default; attention_dropout: 0 by default; stochastic_depth_prob: the value up to which the
--- probability of dropping a block grows, 0.1 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({
   num_classes = 400, dropout = 0.0, attention_dropout = 0.0, stochastic_depth_prob = 0.1,
}, {
   swin3d_t = {channels = 96, depth = 6}, swin3d_s = {channels = 96, depth = 18},
   swin3d_b = {channels = 128, depth = 18},
}, Swin)
