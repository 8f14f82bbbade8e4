-- conformer.lua - Conformer (Gulati et al., 2020). Each layer applies a feed-forward network,
-- attention, a convolution, and a second feed-forward network. The outputs of the two networks are
-- halved before they are added.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local class = require "tlua.class"

local nn = torch.nn

local Convolution = class.class("audio.models.ConformerConvolution", nn.Module)

function Convolution:__init(a)
   local dim, size = a.input_dim, a.depthwise_conv_kernel_size
   self.layer_norm = nn.LayerNorm(dim)
   self.sequential = nn.Sequential(nn.Conv1d(dim, 2 * dim, 1), nn.GLU(2),
      nn.Conv1d(dim, dim, size, {padding = (size - 1) // 2, groups = dim}),
      a.use_group_norm and nn.GroupNorm(1, dim) or nn.BatchNorm1d(dim), nn.SiLU(),
      nn.Conv1d(dim, dim, 1), nn.Dropout(a.dropout))
end

-- The shape of x is (time, batch, features).
function Convolution:forward(x)
   return self.sequential(self.layer_norm(x):permute {2, 3, 1}):permute {3, 1, 2}
end

local Dense = class.class("audio.models.ConformerDense", nn.Module)

function Dense:__init(a)
   self.sequential = nn.Sequential(nn.LayerNorm(a.input_dim), nn.Linear(a.input_dim, a.ffn_dim),
      nn.SiLU(), nn.Dropout(a.dropout), nn.Linear(a.ffn_dim, a.input_dim), nn.Dropout(a.dropout))
end

function Dense:forward(x) return self.sequential(x) end

local Layer = class.class("audio.models.ConformerLayer", nn.Module)

function Layer:__init(a)
   self.ffn1 = Dense(a)
   self.self_attn_layer_norm = nn.LayerNorm(a.input_dim)
   self.self_attn = nn.MultiheadAttention(a.input_dim, a.num_heads, {dropout = a.dropout})
   self.self_attn_dropout = nn.Dropout(a.dropout)
   self.conv_module = Convolution(a)
   self.ffn2 = Dense(a)
   self.final_layer_norm = nn.LayerNorm(a.input_dim)
   self.convolution_first = a.convolution_first
end

function Layer:forward(x, mask)
   x = self.ffn1(x) * 0.5 + x
   if self.convolution_first then x = self.conv_module(x) + x end
   local normed = self.self_attn_layer_norm(x)
   local seen = self.self_attn(normed, normed, normed,
      {key_padding_mask = mask, need_weights = false})
   x = self.self_attn_dropout(seen) + x
   if not self.convolution_first then x = self.conv_module(x) + x end
   return self.final_layer_norm(self.ffn2(x) * 0.5 + x)
end

--- Encodes features. A call takes features (batch, time, features) and lengths (batch), and returns
--- the encoded features and the lengths.
---
---     local model = torch.audio.models.Conformer(16, 2, 32, 1, 3)
---     print((model(torch.randn(2, 10, 16), torch.tensor {10, 7})).shape)
---     --> torch.Size([2, 10, 16])
---@class audio.models.Conformer: nn.Module
---@field conformer_layers nn.Module  the layers
---@overload fun(input_dim: integer, num_heads: integer, options?: table): nn.Module
local Conformer = class.class("audio.models.Conformer", nn.Module)

local take = args.signature [[audio.models.Conformer(input_dim: count, num_heads: count,
   ffn_dim: count, num_layers: layers, depthwise_conv_kernel_size: count, dropout: number = 0,
   use_group_norm: boolean = false, convolution_first: boolean = false)]]

function Conformer:__init(...)
   local a = take(...)
   if a.depthwise_conv_kernel_size % 2 == 0 then
      args.refuse("audio.models.Conformer", "depthwise_conv_kernel_size", "an odd number",
         a.depthwise_conv_kernel_size)
   end
   self.input_dim = a.input_dim
   local list = {}
   for i = 1, a.num_layers do list[i] = Layer(a) end
   self.conformer_layers = nn.ModuleList(list)
end

function Conformer:forward(input, lengths)
   local title <const> = "audio.models.Conformer"
   if not torch.is_tensor(input) or input:dim() ~= 3 or input:size(2) == 0
         or input:size(3) ~= self.input_dim then
      args.refuse(title, "input", ("a tensor of shape (batch, at least 1, %d)"):format(
         self.input_dim), input)
   end
   checks.lengths(title, lengths, input:size(1), input:size(2))
   local steps = torch.arange(input:size(2), {device = input.device})
   local mask = steps:ge(lengths:unsqueeze(2))
   local x = input:transpose(1, 2)
   for _, layer in ipairs(self.conformer_layers) do x = layer(x, mask) end
   return x:transpose(1, 2), lengths
end

return Conformer
