-- wav2vec2.lua - wav2vec 2.0 (Baevski et al., 2020) and HuBERT (Hsu et al., 2021): convolutions
-- compute features of waveforms, and a transformer encodes the features.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local class = require "tlua.class"

local nn = torch.nn
local F = nn.functional

local M = {}

-- Features ----------------------------------------------------------------------------------------

-- Normalises the channels at each time of a tensor (batch, channel, time).
local ChannelNorm = class.class("audio.models.ChannelNorm", nn.LayerNorm)

function ChannelNorm:forward(x)
   return nn.LayerNorm.forward(self, x:transpose(-2, -1)):transpose(-2, -1)
end

local Block = class.class("audio.models.Wav2Vec2Block", nn.Module)

function Block:__init(inputs, outputs, size, stride, bias, norm)
   self.kernel_size, self.stride = size, stride
   if norm then self.layer_norm = norm end
   self.has_norm = norm ~= nil
   self.conv = nn.Conv1d(inputs, outputs, size, {stride = stride, bias = bias})
end

function Block:forward(x, lengths)
   x = self.conv(x)
   if self.has_norm then x = self.layer_norm(x) end
   if lengths then
      lengths = (torch.div(lengths - self.kernel_size, self.stride, {rounding_mode = "floor"}) + 1)
         :clamp(0)
   end
   return F.gelu(x), lengths
end

local Extractor = class.class("audio.models.Wav2Vec2Extractor", nn.Module)

function Extractor:__init(mode, shapes, bias)
   local list, inputs = {}, 1
   for i, shape in ipairs(shapes) do
      local norm
      if mode == "layer_norm" then
         norm = ChannelNorm(shape[1])
      elseif i == 1 then
         norm = nn.GroupNorm(shape[1], shape[1])
      end
      list[i] = Block(inputs, shape[1], shape[2], shape[3], bias, norm)
      inputs = shape[1]
   end
   self.conv_layers = nn.ModuleList(list)
end

function Extractor:forward(x, lengths)
   x = x:unsqueeze(2)
   for _, layer in ipairs(self.conv_layers) do x, lengths = layer(x, lengths) end
   return x:transpose(2, 3), lengths
end

-- Transformer -------------------------------------------------------------------------------------

local Projection = class.class("audio.models.Wav2Vec2Projection", nn.Module)

function Projection:__init(inputs, outputs, dropout)
   self.layer_norm = nn.LayerNorm(inputs)
   self.projection = nn.Linear(inputs, outputs)
   self.dropout = nn.Dropout(dropout)
end

function Projection:forward(x) return self.dropout(self.projection(self.layer_norm(x))) end

local Positions = class.class("audio.models.Wav2Vec2Positions", nn.Module)

function Positions:__init(dim, size, groups)
   self.kernel_size = size
   self.conv = nn.utils.parametrizations.weight_norm(
      nn.Conv1d(dim, dim, size, {padding = size // 2, groups = groups}), {name = "weight", dim = 3})
end

function Positions:forward(x)
   local y = self.conv(x:transpose(2, 3))
   if self.kernel_size % 2 == 0 then y = y:narrow(3, 1, y:size(3) - 1) end
   return F.gelu(y):transpose(2, 3)
end

local Attention = class.class("audio.models.Wav2Vec2Attention", nn.Module)

function Attention:__init(dim, heads, dropout)
   self.num_heads, self.dropout = heads, dropout
   self.k_proj, self.v_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
   self.q_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
end

function Attention:forward(x, mask)
   local batch, length, dim = table.unpack(x.shape)
   local function split(y) return y:view(batch, length, self.num_heads, -1):transpose(2, 3) end
   local y = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(x)),
      split(self.v_proj(x)), {attn_mask = mask, dropout_p = self.training and self.dropout or 0})
   return self.out_proj(y:transpose(2, 3):reshape(batch, length, dim))
end

local Dense = class.class("audio.models.Wav2Vec2Dense", nn.Module)

function Dense:__init(dim, hidden, inner, outer)
   self.intermediate_dense = nn.Linear(dim, hidden)
   self.intermediate_dropout = nn.Dropout(inner)
   self.output_dense = nn.Linear(hidden, dim)
   self.output_dropout = nn.Dropout(outer)
end

function Dense:forward(x)
   x = self.intermediate_dropout(F.gelu(self.intermediate_dense(x)))
   return self.output_dropout(self.output_dense(x))
end

local Layer = class.class("audio.models.Wav2Vec2Layer", nn.Module)

function Layer:__init(a)
   local dim = a.encoder_embed_dim
   self.attention = Attention(dim, a.encoder_num_heads, a.encoder_attention_dropout)
   self.dropout = nn.Dropout(a.encoder_dropout)
   self.layer_norm = nn.LayerNorm(dim)
   self.feed_forward = Dense(dim, a.encoder_ff_interm_features, a.encoder_ff_interm_dropout,
      a.encoder_dropout)
   self.final_layer_norm = nn.LayerNorm(dim)
   self.layer_norm_first = a.encoder_layer_norm_first
end

function Layer:forward(x, mask)
   local y = self.layer_norm_first and self.layer_norm(x) or x
   x = x + self.dropout(self.attention(y, mask))
   if self.layer_norm_first then return x + self.feed_forward(self.final_layer_norm(x)) end
   x = self.layer_norm(x)
   return self.final_layer_norm(x + self.feed_forward(x))
end

local Transformer = class.class("audio.models.Wav2Vec2Transformer", nn.Module)

function Transformer:__init(a)
   local dim = a.encoder_embed_dim
   self.pos_conv_embed = Positions(dim, a.encoder_pos_conv_kernel, a.encoder_pos_conv_groups)
   self.layer_norm = nn.LayerNorm(dim)
   self.layer_norm_first = a.encoder_layer_norm_first
   self.layer_drop = a.encoder_layer_drop
   self.dropout = nn.Dropout(a.encoder_dropout)
   local list = {}
   for i = 1, a.encoder_num_layers do list[i] = Layer(a) end
   self.layers = nn.ModuleList(list)
end

-- Returns the result, and a list of the outputs of the first `most` layers. If `most` is nil, all
-- layers are computed.
function Transformer:forward(x, mask, most)
   x = x + self.pos_conv_embed(x)
   -- If each layer normalises its own inputs (layer_norm_first), this norm comes after the last
   -- layer; otherwise this norm comes before the first layer.
   if not self.layer_norm_first then x = self.layer_norm(x) end
   x = self.dropout(x)
   local outputs = {}
   for i, layer in ipairs(self.layers) do
      if most and i > most then break end
      local is_dropped = not most and self.training and self.layer_drop > 0
         and torch.rand(1):item() <= self.layer_drop
      if not is_dropped then x = layer(x, mask) end
      outputs[i] = x
   end
   return self.layer_norm_first and self.layer_norm(x) or x, outputs
end

local Encoder = class.class("audio.models.Wav2Vec2Encoder", nn.Module)

function Encoder:__init(a, inputs)
   self.feature_projection = Projection(inputs, a.encoder_embed_dim, a.encoder_projection_dropout)
   self.transformer = Transformer(a)
end

function Encoder:forward(features, lengths, most)
   local x, mask = self.feature_projection(features), nil
   if lengths then
      local length = x:size(2)
      local padding = torch.arange(length, {device = x.device}):ge(lengths:unsqueeze(2))
      x = x:masked_fill(padding:unsqueeze(3), 0)
      mask = (padding:to(x.dtype) * -10000):view(-1, 1, 1, length)
         :expand(x:size(1), 1, length, length)
   end
   return self.transformer(x, mask, most)
end

-- Models ------------------------------------------------------------------------------------------

--- Encodes waveforms (batch, time). A call returns (batch, frames, features), to which the last
--- layer `aux` is applied if there is one, and the valid lengths if lengths are given.
---
---     local model = torch.audio.models.wav2vec2_model {encoder_embed_dim = 16,
---        extractor_conv_layer_config = {{8, 10, 5}, {8, 3, 2}}, aux_num_out = 5,
---        encoder_num_layers = 1, encoder_num_heads = 2,
---        encoder_ff_interm_features = 16, encoder_pos_conv_groups = 2}
---     print((model(torch.randn(1, 400))).shape)
---     --> torch.Size([1, 39, 5])
---@class audio.models.Wav2Vec2Model: nn.Module
---@field feature_extractor nn.Module  the convolutions
---@field encoder nn.Module  the transformer
---@field aux? nn.Module  the last layer
---@overload fun(feature_extractor: nn.Module, encoder: nn.Module, aux?: nn.Module): nn.Module
M.Wav2Vec2Model = class.class("audio.models.Wav2Vec2Model", nn.Module)

function M.Wav2Vec2Model:__init(feature_extractor, encoder, aux)
   self.feature_extractor, self.encoder, self.has_aux = feature_extractor, encoder, aux ~= nil
   if aux then self.aux = aux end
end

local function check(name, waveforms, lengths)
   local title = "audio.models.Wav2Vec2Model" .. name
   if not torch.is_tensor(waveforms) or waveforms:dim() ~= 2
         or not waveforms:is_floating_point() then
      args.refuse(title, "waveforms", "floating-point numbers of shape (batch, time)", waveforms)
   end
   if lengths ~= nil then
      checks.lengths(title, lengths, waveforms:size(1), waveforms:size(2))
   end
end

--- Returns the outputs of the transformer's first num_layers layers (by default of all), and the
--- valid lengths if lengths are given.
---@param waveforms Tensor  (batch, time)
---@param lengths? Tensor  (batch)
---@param num_layers? integer  the number of layers
---@return Tensor[] features
---@return Tensor? lengths
function M.Wav2Vec2Model:extract_features(waveforms, lengths, num_layers)
   check(":extract_features", waveforms, lengths)
   local most = #self.encoder.transformer.layers
   local fits = num_layers == nil or math.type(num_layers) == "integer" and num_layers >= 1
      and num_layers <= most
   if not fits then
      args.refuse("audio.models.Wav2Vec2Model:extract_features", "num_layers",
         ("an integer from 1 to %d"):format(most), num_layers)
   end
   local x, valid = self.feature_extractor(waveforms, lengths)
   local _, outputs = self.encoder(x, valid, num_layers or most)
   return outputs, valid
end

function M.Wav2Vec2Model:forward(waveforms, lengths)
   check("", waveforms, lengths)
   local x, valid = self.feature_extractor(waveforms, lengths)
   x = self.encoder(x, valid)
   return self.has_aux and self.aux(x) or x, valid
end

local take = args.signature [[audio.models.wav2vec2_model(extractor_mode: string = 'group_norm',
   extractor_conv_layer_config: table?, extractor_conv_bias: boolean = false,
   encoder_embed_dim: count = 768, encoder_projection_dropout: number = 0.1,
   encoder_pos_conv_kernel: count = 128, encoder_pos_conv_groups: count = 16,
   encoder_num_layers: layers = 12, encoder_num_heads: count = 12,
   encoder_attention_dropout: number = 0.1, encoder_ff_interm_features: count = 3072,
   encoder_ff_interm_dropout: number = 0.1, encoder_dropout: number = 0.1,
   encoder_layer_norm_first: boolean = false, encoder_layer_drop: number = 0.1,
   aux_num_out: count?)]]

local usual <const> = {{512, 10, 5}, {512, 3, 2}, {512, 3, 2}, {512, 3, 2}, {512, 3, 2},
   {512, 2, 2}, {512, 2, 2}}

--- Returns a wav2vec 2.0 model. Missing options have the values of wav2vec2_base.
---@param extractor_mode? string  "group_norm" (the default) or "layer_norm"
---@param options? table  extractor_conv_layer_config: a list of {channels, kernel, stride};
--- extractor_conv_bias, encoder_embed_dim, encoder_num_layers ... as torchaudio names them
---@return audio.models.Wav2Vec2Model
function M.wav2vec2_model(...)
   local a = take(...)
   local title = "audio.models.wav2vec2_model"
   if a.extractor_mode ~= "group_norm" and a.extractor_mode ~= "layer_norm" then
      args.refuse(title, "extractor_mode", '"group_norm" or "layer_norm"', a.extractor_mode)
   end
   if a.encoder_num_heads < 1 or a.encoder_embed_dim % a.encoder_num_heads ~= 0 then
      args.refuse(title, "encoder_num_heads", ("a divisor of encoder_embed_dim, %d"):format(
         a.encoder_embed_dim), a.encoder_num_heads)
   end
   local shapes = a.extractor_conv_layer_config or usual
   if getmetatable(shapes) or #shapes == 0 then
      args.refuse(title, "extractor_conv_layer_config", "a list of {channels, kernel, stride}",
         shapes)
   end
   for i, shape in ipairs(shapes) do
      local fits = type(shape) == "table" and #shape == 3
      for k = 1, fits and 3 or 0 do
         fits = fits and math.type(shape[k]) and math.tointeger(shape[k]) and shape[k] >= 1
      end
      if not fits then
         args.refuse(title, ("extractor_conv_layer_config[%d]"):format(i),
            "{channels, kernel, stride}, three integers of at least 1", shape)
      end
   end
   if not (a.encoder_layer_drop >= 0 and a.encoder_layer_drop <= 1) then
      args.refuse(title, "encoder_layer_drop", "a probability from 0 to 1", a.encoder_layer_drop)
   end
   return M.Wav2Vec2Model(Extractor(a.extractor_mode, shapes, a.extractor_conv_bias),
      Encoder(a, shapes[#shapes][1]),
      a.aux_num_out and nn.Linear(a.encoder_embed_dim, a.aux_num_out) or nil)
end

-- Defines a function M[name] that creates a model. `defaults` has the options in which the model
-- differs from wav2vec2_base.
local function define(name, defaults)
   M[name] = function(options)
      args.check_options("audio.models." .. name, options, "encoder_projection_dropout",
         "encoder_attention_dropout", "encoder_ff_interm_dropout", "encoder_dropout",
         "encoder_layer_drop", "aux_num_out")
      local all = {}
      for key, value in pairs(defaults) do all[key] = value end
      for key, value in pairs(options or {}) do all[key] = value end
      return M.wav2vec2_model(all)
   end
end

local function large(dim, layers, heads, hidden, dropout, more)
   local t = {encoder_embed_dim = dim, encoder_num_layers = layers, encoder_num_heads = heads,
      encoder_ff_interm_features = hidden, encoder_projection_dropout = dropout,
      encoder_attention_dropout = dropout, encoder_ff_interm_dropout = dropout,
      encoder_dropout = dropout, encoder_layer_drop = dropout}
   for key, value in pairs(more or {}) do t[key] = value end
   return t
end

--- Returns a model of wav2vec 2.0 or HuBERT, with the sizes of the torchaudio function of the same
--- name.
---@names audio.models.wav2vec2_base audio.models.wav2vec2_large audio.models.wav2vec2_large_lv60k
---@names audio.models.wav2vec2_xlsr_300m audio.models.wav2vec2_xlsr_1b
---@names audio.models.wav2vec2_xlsr_2b
---@names audio.models.hubert_base audio.models.hubert_large audio.models.hubert_xlarge
---@param options? {encoder_projection_dropout: number, encoder_attention_dropout: number,
---encoder_ff_interm_dropout: number, encoder_dropout: number, encoder_layer_drop: number,
---aux_num_out: integer}  the probabilities of dropout and of skipping a layer, and the number of
--- outputs of the last layer, which is left out by default
---@return audio.models.Wav2Vec2Model

define("wav2vec2_base", {})
define("wav2vec2_large", large(1024, 24, 16, 4096, 0.1))
define("wav2vec2_large_lv60k", large(1024, 24, 16, 4096, 0.1, {extractor_mode = "layer_norm",
   extractor_conv_bias = true, encoder_attention_dropout = 0.0, encoder_dropout = 0.0,
   encoder_layer_norm_first = true}))
for name, sizes in next, {xlsr_300m = {1024, 24, 16, 4096}, xlsr_1b = {1280, 48, 16, 5120},
   xlsr_2b = {1920, 48, 16, 7680}} do
   local dim, layers, heads, hidden = table.unpack(sizes)
   define("wav2vec2_" .. name, large(dim, layers, heads, hidden, 0.0, {
      extractor_mode = "layer_norm", extractor_conv_bias = true, encoder_layer_norm_first = true,
   }))
end
define("hubert_base", {encoder_ff_interm_dropout = 0.0, encoder_layer_drop = 0.05})
define("hubert_large", large(1024, 24, 16, 4096, 0.0, {extractor_mode = "layer_norm",
   encoder_layer_norm_first = true}))
define("hubert_xlarge", large(1280, 48, 16, 5120, 0.0, {extractor_mode = "layer_norm",
   encoder_layer_norm_first = true}))

return M
