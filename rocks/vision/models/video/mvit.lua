-- mvit.lua - multiscale vision transformers v1 and v2. Queries, keys and values are pooled, so that
-- the resolution decreases from stage to stage while the number of channels grows (Fan et al.,
-- 2021; Li et al., 2021).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.vision.models.define"
local layers = require "tlua.vision.ops.layers"

local nn = torch.nn
local F = nn.functional

local function norm(channels) return nn.LayerNorm(channels, {eps = 1e-6}) end

-- Pools tokens (N, heads, 1 + frames * rows * columns, channels). The first token is the class
-- token, which is not pooled.
local Pool = class.class("vision.models.video.Pool", nn.Module)

function Pool:__init(pool, channels)
   self.pool = pool
   if channels then self.norm_act = nn.Sequential(norm(channels)) end
end

function Pool:forward(tokens, size)
   local n, heads, count, channels = table.unpack(tokens.shape)
   local first, rest = tokens:narrow(3, 1, 1), tokens:narrow(3, 2, count - 1)
   local maps = self.pool(rest:transpose(3, 4):reshape(n * heads, channels, table.unpack(size)))
   local pooled = maps:reshape(n, heads, channels, -1):transpose(3, 4)
   local output = torch.cat({first, pooled}, 3)
   if self.norm_act then output = self.norm_act(output) end
   return output, {maps:size(3), maps:size(4), maps:size(5)}
end

local function product(list)
   local result = 1
   for _, value in ipairs(list) do result = result * value end
   return result
end

-- Returns a module that pools by convolving each channel separately. Returns nil if it would not
-- change the size.
local function convolution_pool(channels, kernel, stride)
   if product(kernel) * product(stride) == 1 then return nil end
   return Pool(nn.Conv3d(channels, channels, kernel, {stride = stride, groups = channels,
      padding = {kernel[1] // 2, kernel[2] // 2, kernel[3] // 2}, bias = false}), channels)
end

-- Relative positions ------------------------------------------------------------------------------

-- Selects a row of a table of relative positions for each pair of `nq` queries and `nk` keys along
-- one side. Returns the rows as (nq, nk, channels).
local function positions(rows, nq, nk)
   local count = 2 * math.max(nq, nk) - 1
   if rows:size(1) ~= count then
      rows = F.interpolate(rows:t():unsqueeze(1), {size = {count}, mode = "linear"}):squeeze(1):t()
   end
   local place = {device = rows.device, dtype = "float32"}
   local q = torch.arange(0, nq, place):unsqueeze(2) * math.max(nk / nq, 1)
   local k = (torch.arange(0, nk, place):unsqueeze(1) + (1 - nk)) * math.max(nq / nk, 1)
   return rows:index_select(1, (q - k):long():flatten() + 1):view(nq, nk, -1)
end

-- Returns the terms for relative positions, (N, heads, 1 + queries, 1 + keys), which are added to
-- the attention scores.
local function relative(attention, q, q_size, k_size)
   local n, heads, _, channels = table.unpack(q.shape)
   local qt, qh, qw = table.unpack(q_size)
   local kt, kh, kw = table.unpack(k_size)
   local own = q:narrow(3, 2, qt * qh * qw):reshape(n, heads, qt, qh, qw, channels)
   local h = torch.einsum("bythwc,hkc->bythwk", own, positions(attention.rel_pos_h, qh, kh))
   local w = torch.einsum("bythwc,wkc->bythwk", own, positions(attention.rel_pos_w, qw, kw))
   local t = torch.einsum("bythwc,tkc->bythwk", own, positions(attention.rel_pos_t, qt, kt))
   local sum = t:view(n, heads, qt, qh, qw, kt, 1, 1) + h:view(n, heads, qt, qh, qw, 1, kh, 1)
      + w:view(n, heads, qt, qh, qw, 1, 1, kw)
   return F.pad(sum:view(n, heads, qt * qh * qw, kt * kh * kw), {1, 0, 1, 0})
end

-- Blocks ------------------------------------------------------------------------------------------

local Attention = class.class("vision.models.video.MultiscaleAttention", nn.Module)

-- `size` has the numbers of frames, rows and columns of the input, and `o` is the description of
-- the block by block_rows.
function Attention:__init(inputs, outputs, size, o, is_v2, dropout)
   local channels = outputs // o.heads
   self.heads, self.is_v2 = o.heads, is_v2
   self.qkv = nn.Linear(inputs, 3 * outputs)
   self.project = nn.Sequential(nn.Linear(outputs, outputs))
   if dropout > 0 then self.project:add(nn.Dropout(dropout, {inplace = true})) end
   self.pool_q = convolution_pool(channels, o.kernel_q, o.stride_q)
   self.pool_k = convolution_pool(channels, {3, 3, 3}, o.stride_kv)
   self.pool_v = convolution_pool(channels, {3, 3, 3}, o.stride_kv)
   if is_v2 then
      local side = math.max(size[2], size[3])
      local space = 2 * math.max(side // o.stride_q[2], side // o.stride_kv[2]) - 1
      for _, name in ipairs {"rel_pos_h", "rel_pos_w", "rel_pos_t"} do
         local count = name == "rel_pos_t" and 2 * size[1] - 1 or space
         self[name] = nn.Parameter(torch.empty(count, channels))
         nn.init.trunc_normal_(self[name], 0, 0.02)
      end
   end
end

function Attention:forward(input, size)
   local n, count = input:size(1), input:size(2)
   local q, k, v = table.unpack(self.qkv(input):view(n, count, 3, self.heads, -1):transpose(2, 4)
      :unbind(3))
   local k_size = size
   if self.pool_k then k, k_size = self.pool_k(k, size) end
   if self.pool_v then v = self.pool_v(v, size) end
   if self.pool_q then q, size = self.pool_q(q, size) end
   local attention = (q * q:size(4) ^ -0.5):matmul(k:transpose(3, 4))
   if self.is_v2 then attention = attention + relative(self, q, size, k_size) end
   local x = attention:softmax(-1):matmul(v)
   if self.is_v2 then -- the queries are added to all outputs except that of the class token
      x = torch.cat({x:narrow(3, 1, 1), x:narrow(3, 2, x:size(3) - 1)
         + q:narrow(3, 2, q:size(3) - 1)}, 3)
   end
   return self.project(x:transpose(2, 3):flatten(3)), size
end

local Block = class.class("vision.models.video.MultiscaleBlock", nn.Module)

function Block:__init(size, o, is_v2, options, drop)
   local inner = is_v2 and o.outputs or o.inputs
   self.is_v2 = is_v2
   if product(o.stride_q) > 1 then
      local kernel, padding = {}, {}
      for i, stride in ipairs(o.stride_q) do
         kernel[i] = stride > 1 and stride + 1 or stride
         padding[i] = kernel[i] // 2
      end
      self.pool_skip = Pool(nn.MaxPool3d(kernel, {stride = o.stride_q, padding = padding}))
   end
   self.norm1, self.norm2 = norm(o.inputs), norm(inner)
   self.attn = Attention(o.inputs, inner, size, o, is_v2, options.attention_dropout)
   self.mlp = layers.MLP(inner, {4 * inner, o.outputs},
      {activation_layer = nn.GELU, dropout = options.attention_dropout})
   self.stochastic_depth = layers.StochasticDepth(drop, "row")
   if o.inputs ~= o.outputs then self.project = nn.Linear(o.inputs, o.outputs) end
end

function Block:forward(input, size)
   local normed = self.norm1(input)
   local attended, new_size = self.attn(normed, size)
   local x = self.project and self.is_v2 and self.project(normed) or input
   if self.pool_skip then x = self.pool_skip(x:unsqueeze(2), size):squeeze(2) end
   x = x + self.stochastic_depth(attended)
   normed = self.norm2(x)
   if self.project and not self.is_v2 then x = self.project(normed) end
   return x + self.stochastic_depth(self.mlp(normed)), new_size
end

-- The model ---------------------------------------------------------------------------------------

-- Adds the class token to the tokens and, in version 1, the embeddings of positions.
local Encoding = class.class("vision.models.video.PositionalEncoding", nn.Module)

function Encoding:__init(channels, size, is_v2)
   self.class_token = nn.Parameter(torch.empty(channels))
   if not is_v2 then
      self.spatial_pos = nn.Parameter(torch.empty(size[2] * size[3], channels))
      self.temporal_pos = nn.Parameter(torch.empty(size[1], channels))
      self.class_pos = nn.Parameter(torch.empty(channels))
   end
   for _, parameter in ipairs(self:parameters()) do nn.init.trunc_normal_(parameter, 0, 0.02) end
end

function Encoding:forward(input)
   local token = self.class_token:expand(input:size(1), 1, -1)
   local x = torch.cat({token, input}, 2)
   if not self.spatial_pos then return x end
   local places = (self.temporal_pos:unsqueeze(2) + self.spatial_pos:unsqueeze(1)):flatten(1, 2)
   return x + torch.cat {self.class_pos:unsqueeze(1), places}
end

-- Returns a list with a table for each of the 16 blocks. Queries are pooled in the first block of a
-- stage. The number of channels grows in this block (version 2), or in the block before it (version
-- 1).
local function block_rows(is_v2)
   local stage_of, rows = {1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4}, {}
   local kv = {8, 4, 2, 1}
   for i, stage in ipairs(stage_of) do
      local before, after = stage_of[i - 1] or 1, stage_of[i + 1] or 4
      local is_first = stage > before
      local stride = is_first and {1, 2, 2} or is_v2 and {1, 1, 1} or {}
      rows[i] = {
         heads = 1 << (stage - 1), stride_q = stride, stride_kv = {1, kv[stage], kv[stage]},
         kernel_q = #stride > 0 and {3, 3, 3} or {},
         inputs = 96 << ((is_v2 and before or stage) - 1),
         outputs = 96 << ((is_v2 and stage or after) - 1),
      }
   end
   return rows
end

local MViT = class.class("vision.models.video.MViT", nn.Module)

function MViT:__init(options, row, title)
   local image, frames = options.spatial_size, options.temporal_size
   if #image ~= 2 then args.refuse(title, "spatial_size", "a height and a width", image) end
   self.spatial_size, self.temporal_size = image, frames
   self.conv_proj = nn.Conv3d(3, 96, {3, 7, 7}, {stride = {2, 4, 4}, padding = {1, 3, 3}})
   local size = {frames // 2, image[1] // 4, image[2] // 4}
   self.pos_encoding = Encoding(96, size, row.is_v2)
   self.size = size
   self.blocks = nn.ModuleList()
   local rows = block_rows(row.is_v2)
   for i, o in ipairs(rows) do
      local drop = options.stochastic_depth_prob * (i - 1) / (#rows - 1)
      self.blocks:append(Block(size, o, row.is_v2, options, drop))
      if #o.stride_q > 0 then
         size = {size[1], size[2] // o.stride_q[2], size[3] // o.stride_q[3]}
      end
   end
   self.norm = norm(768)
   self.head = nn.Sequential(nn.Dropout(options.dropout, {inplace = true}),
      nn.Linear(768, options.num_classes))
   define.initialize(self, {linear = define.truncated(0.02)})
end

function MViT:forward(input)
   local x, size = self.conv_proj(input), self.size
   for i = 1, 3 do
      if x:size(i + 2) ~= size[i] then
         torch.raise(("vision.models.video.MViT: input: expected %d frames of %d x %d pixels, got "
            .. "%s"):format(self.temporal_size, self.spatial_size[1], self.spatial_size[2],
               args.describe(input)))
      end
   end
   x = self.pos_encoding(x:flatten(3):transpose(2, 3))
   for _, block in ipairs(self.blocks) do x, size = block(x, size) end
   return self.head(self.norm(x):select(2, 1))
end

--- Multiscale vision transformers v1, from "Multiscale Vision Transformers", and v2, from "MViTv2:
--- Improved Multiscale Vision Transformers for Classification and Detection". Input (N, 3, frames,
--- H, W); output (N, num_classes).
---@names vision.models.video.mvit_v1_b vision.models.video.mvit_v2_s
---@param options? {num_classes: integer, spatial_size: integer[], temporal_size: integer, dropout:
--- number, attention_dropout: number, stochastic_depth_prob: number, weights: string|table}
--- num_classes: 400 by default; spatial_size: the image's height and width, {224, 224} by default;
--- temporal_size: the number of frames, 16 by default; dropout: 0.5 by default; attention_dropout:
--- 0 by default; stochastic_depth_prob: the value up to which the probability of dropping a block
--- grows, 0.2 by default; weights: a state dict or its file
---@return nn.Module
return define.builders({
   num_classes = 400, spatial_size = {224, 224}, temporal_size = 16, dropout = 0.5,
   attention_dropout = 0.0, stochastic_depth_prob = 0.2,
}, {mvit_v1_b = {is_v2 = false}, mvit_v2_s = {is_v2 = true}}, MViT)
