-- Transformer.lua - the encoder and decoder of "Attention is all you need" and their layers.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Dropout = require "tlua.nn.Dropout".Dropout
local LayerNorm = require "tlua.nn.LayerNorm"
local Linear = require "tlua.nn.Linear"
local Module = require "tlua.nn.Module"
local ModuleList = require "tlua.nn.ModuleList"
local MultiheadAttention = require "tlua.nn.MultiheadAttention"

local layer_options <const> = [[dim_feedforward: count = 2048, dropout: number = 0.1,
   activation: string|function = 'relu', layer_norm_eps: number = 1e-5,
   batch_first: boolean = false, norm_first: boolean = false, bias: boolean = true,
   device: string?, dtype: string?]]

local function activation_of(name, activation)
   if type(activation) == "function" then return activation end
   if activation ~= "relu" and activation ~= "gelu" then
      args.refuse(name, "activation", "relu, gelu or a function", activation)
   end
   return F[activation]
end

-- What encoder and decoder layers share: the feed-forward part and one norm and dropout for each
-- of their sublayers.
local Layer, module = class.class("nn.TransformerLayer", Module)

function Layer:__init(name, sublayers, a)
   module.__init(self)
   local place = {bias = a.bias, device = a.device, dtype = a.dtype}
   self.activation, self.norm_first = activation_of(name, a.activation), a.norm_first
   self.linear1 = Linear(a.d_model, a.dim_feedforward, place)
   self.dropout = Dropout(a.dropout)
   self.linear2 = Linear(a.dim_feedforward, a.d_model, place)
   for i = 1, sublayers do
      self["norm" .. i] = LayerNorm(a.d_model, {eps = a.layer_norm_eps, bias = a.bias,
         device = a.device, dtype = a.dtype})
      self["dropout" .. i] = Dropout(a.dropout)
   end
end

-- Attention as these layers use it.
function Layer:make_attention(a)
   return MultiheadAttention(a.d_model, a.nhead, {dropout = a.dropout, bias = a.bias,
      batch_first = a.batch_first, device = a.device, dtype = a.dtype})
end

local names = {[F.relu] = "relu", [F.gelu] = "gelu"}

function Layer:feed_forward(x)
   local linear, activation = self.linear1, self.activation
   local name = names[activation]
   if name and Linear.takes_activation(linear) then
      x = linear(x, name)
   else
      x = activation(linear(x))
   end
   return self.linear2(self.dropout(x))
end

-- x plus what sublayer number i makes of it, with the norm before or after.
function Layer:residual(i, x, sublayer)
   local norm, dropout = self["norm" .. i], self["dropout" .. i]
   if self.norm_first then return x + dropout(sublayer(norm(x))) end
   return norm(x + dropout(sublayer(x)))
end

local take_encoder_layer = args.signature(
   "nn.TransformerEncoderLayer(d_model: count, nhead: count, " .. layer_options .. ")")

---@class nn.TransformerEncoderLayer: nn.Module
---@overload fun(d_model: integer, nhead: integer, options?): nn.TransformerEncoderLayer
local EncoderLayer = class.class("nn.TransformerEncoderLayer", Layer)

function EncoderLayer:__init(...)
   local a = take_encoder_layer(...)
   self.self_attn = self:make_attention(a)
   Layer.__init(self, "nn.TransformerEncoderLayer", 2, a)
end

--- Options are src_mask, src_key_padding_mask and is_causal, as MultiheadAttention's.
---@param src Tensor  (S, N, d_model), or (N, S, d_model) with `batch_first`
---@param options? table
---@return Tensor  as src
function EncoderLayer:forward(src, options)
   local o = options or {}
   local x = self:residual(1, src, function(y)
      return (self.self_attn(y, y, y, {attn_mask = o.src_mask, need_weights = false,
         key_padding_mask = o.src_key_padding_mask, is_causal = o.is_causal or false}))
   end)
   return self:residual(2, x, function(y) return self:feed_forward(y) end)
end

local take_decoder_layer = args.signature(
   "nn.TransformerDecoderLayer(d_model: count, nhead: count, " .. layer_options .. ")")

---@class nn.TransformerDecoderLayer: nn.Module
---@overload fun(d_model: integer, nhead: integer, options?): nn.TransformerDecoderLayer
local DecoderLayer = class.class("nn.TransformerDecoderLayer", Layer)

function DecoderLayer:__init(...)
   local a = take_decoder_layer(...)
   self.self_attn = self:make_attention(a)
   self.multihead_attn = self:make_attention(a)
   Layer.__init(self, "nn.TransformerDecoderLayer", 3, a)
end

--- Options are tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
--- tgt_is_causal and memory_is_causal, as MultiheadAttention's.
---@param tgt Tensor  (T, N, d_model), or (N, T, d_model) with `batch_first`
---@param memory Tensor  what the encoder gave
---@param options? table
---@return Tensor  as tgt
function DecoderLayer:forward(tgt, memory, options)
   local o = options or {}
   local x = self:residual(1, tgt, function(y)
      return (self.self_attn(y, y, y, {attn_mask = o.tgt_mask, need_weights = false,
         key_padding_mask = o.tgt_key_padding_mask, is_causal = o.tgt_is_causal or false}))
   end)
   x = self:residual(2, x, function(y)
      return (self.multihead_attn(y, memory, memory, {attn_mask = o.memory_mask,
         need_weights = false, key_padding_mask = o.memory_key_padding_mask,
         is_causal = o.memory_is_causal or false}))
   end)
   return self:residual(3, x, function(y) return self:feed_forward(y) end)
end

-- A stack of copies of a layer, and a norm at its end or none.
local function stack(name, self, layer, num_layers, norm)
   module.__init(self)
   if not class.isinstance(layer, Module) then args.refuse(name, "layer", "a module", layer) end
   if math.type(num_layers) ~= "integer" or num_layers < 0 then
      args.refuse(name, "num_layers", "an integer of at least 0", num_layers)
   end
   self.layers = ModuleList()
   for _ = 1, num_layers do self.layers:append(layer:clone()) end
   self.norm = norm
end

---@class nn.TransformerEncoder: nn.Module
---@overload fun(layer: nn.Module, num_layers: integer, norm?): nn.TransformerEncoder
local Encoder = class.class("nn.TransformerEncoder", Module)

---@param layer nn.Module  copied for each layer, first weights included
---@param num_layers integer
---@param norm? nn.Module
function Encoder:__init(layer, num_layers, norm)
   stack("nn.TransformerEncoder", self, layer, num_layers, norm)
end

---@param src Tensor
---@param options? table  as TransformerEncoderLayer's
---@return Tensor
function Encoder:forward(src, options)
   for _, layer in ipairs(self.layers) do src = layer(src, options) end
   return self.norm and self.norm(src) or src
end

---@class nn.TransformerDecoder: nn.Module
---@overload fun(layer: nn.Module, num_layers: integer, norm?): nn.TransformerDecoder
local Decoder = class.class("nn.TransformerDecoder", Module)

---@param layer nn.Module  copied for each layer, first weights included
---@param num_layers integer
---@param norm? nn.Module
function Decoder:__init(layer, num_layers, norm)
   stack("nn.TransformerDecoder", self, layer, num_layers, norm)
end

---@param tgt Tensor
---@param memory Tensor
---@param options? table  as TransformerDecoderLayer's
---@return Tensor
function Decoder:forward(tgt, memory, options)
   for _, layer in ipairs(self.layers) do tgt = layer(tgt, memory, options) end
   return self.norm and self.norm(tgt) or tgt
end

local take_transformer = args.signature([[nn.Transformer(d_model: count = 512, nhead: count = 8,
   num_encoder_layers: count = 6, num_decoder_layers: count = 6, ]] .. layer_options .. ")")

---@class nn.Transformer: nn.Module
---@overload fun(d_model?: integer, nhead?: integer, options?: table): nn.Transformer
local Transformer = class.class("nn.Transformer", Module)

function Transformer:__init(...)
   module.__init(self)
   local a = take_transformer(...)
   local place = {eps = a.layer_norm_eps, bias = a.bias, device = a.device, dtype = a.dtype}
   local function layer(Class)
      return Class(a.d_model, a.nhead, {dim_feedforward = a.dim_feedforward,
         dropout = a.dropout, activation = a.activation, layer_norm_eps = a.layer_norm_eps,
         batch_first = a.batch_first, norm_first = a.norm_first, bias = a.bias,
         device = a.device, dtype = a.dtype})
   end
   self.encoder = Encoder(layer(EncoderLayer), a.num_encoder_layers, LayerNorm(a.d_model, place))
   self.decoder = Decoder(layer(DecoderLayer), a.num_decoder_layers, LayerNorm(a.d_model, place))
   for _, parameter in ipairs(self:parameters()) do
      if parameter:dim() > 1 then init.xavier_uniform_(parameter) end
   end
end

--- A mask that hides from each position those after it.
---@param size integer
---@param options? {device: string, dtype: string}
---@return Tensor  (size, size), 0 or -inf
function Transformer.generate_square_subsequent_mask(size, options)
   return torch.full({size, size}, -math.huge, options or {}):triu(1)
end

--- Options are those of both layers' forward.
---@param src Tensor
---@param tgt Tensor
---@param options? table
---@return Tensor  as tgt
function Transformer:forward(src, tgt, options)
   return self.decoder(tgt, self.encoder(src, options), options)
end

return {
   Transformer = Transformer,
   TransformerEncoder = Encoder, TransformerEncoderLayer = EncoderLayer,
   TransformerDecoder = Decoder, TransformerDecoderLayer = DecoderLayer,
}
