-- Transformer.lua - the encoder and decoder of "Attention is all you need" and their layers.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Dropout = require "tlua.nn.modules.Dropout".Dropout
local LayerNorm = require "tlua.nn.modules.LayerNorm"
local Linear = require "tlua.nn.modules.Linear"
local Module = require "tlua.nn.modules.Module"
local ModuleList = require "tlua.nn.modules.ModuleList"
local MultiheadAttention = require "tlua.nn.modules.MultiheadAttention"

local layer_options <const> = [[dim_feedforward: count = 2048, dropout: number = 0.1,
   activation: string|function = 'relu', layer_norm_eps: number = 1e-5,
   batch_first: boolean = false, norm_first: boolean = false, bias: boolean = true,
   device: device?, dtype: string?]]

local function activation_of(name, activation)
   if type(activation) == "function" then return activation end
   if activation ~= "relu" and activation ~= "gelu" then
      args.refuse(name, "activation", "relu, gelu or a function", activation)
   end
   return F[activation]
end

-- The base class of encoder and decoder layers, with the feed-forward part. Each sublayer (an
-- attention or the feed-forward part) has a norm and a dropout.
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

-- Makes an attention module for a layer.
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

-- Adds the output of sublayer i to x. With norm_first the norm is applied to the sublayer's input,
-- otherwise to the sum.
function Layer:residual(i, x, sublayer)
   local norm, dropout = self["norm" .. i], self["dropout" .. i]
   if self.norm_first then return x + dropout(sublayer(norm(x))) end
   return norm(x + dropout(sublayer(x)))
end

local take_encoder_layer = args.signature(
   "nn.TransformerEncoderLayer(d_model: count, nhead: count, " .. layer_options .. ")")

--- A layer of a Transformer's encoder: attention of the sequence to itself, then a feed-forward
--- network, each with a residual connection and layer normalisation ("Attention Is All You Need",
--- Vaswani et al., 2017). Sequences are (S, N, d_model), with batch_first (N, S, d_model), or
--- (S, d_model).
---
---     local layer = torch.nn.TransformerEncoderLayer(8, 2, {batch_first = true})
---     print(table.unpack(layer(torch.zeros(3, 5, 8)).shape))
---     --> 3	5	8
---@class nn.TransformerEncoderLayer: nn.Module
---@field self_attn nn.MultiheadAttention  the attention among the tokens of a sequence
---@field linear1 nn.Linear  (dim_feedforward, d_model)
---@field linear2 nn.Linear  (d_model, dim_feedforward)
---@field norm1 nn.LayerNorm  the norm of the attention
---@field norm2 nn.LayerNorm  the norm of the feed-forward part
---@field dropout1 nn.Dropout  the dropout of the attention
---@field dropout2 nn.Dropout  the dropout of the feed-forward part
---@overload fun(d_model: integer, nhead: integer, options?): nn.TransformerEncoderLayer
local EncoderLayer = class.class("nn.TransformerEncoderLayer", Layer)

function EncoderLayer:__init(...)
   local a = take_encoder_layer(...)
   self.self_attn = self:make_attention(a)
   Layer.__init(self, "nn.TransformerEncoderLayer", 2, a)
end

local take_encoder_layer_call = args.signature [[nn.TransformerEncoderLayer.forward(src: tensor,
   src_mask: tensor?, src_key_padding_mask: tensor?, is_causal: boolean = false)]]

--- Computes the layer. The masks, by position or by name, are MultiheadAttention's attn_mask and
--- key_padding_mask.
---@param src Tensor  (S, N, d_model), or (N, S, d_model) with `batch_first`
---@param src_mask? Tensor
---@param src_key_padding_mask? Tensor
---@param is_causal? boolean  false by default
---@return Tensor  the result, of the shape of src
function EncoderLayer:forward(...)
   local a = take_encoder_layer_call(...)
   local x = self:residual(1, a.src, function(y)
      return (self.self_attn(y, y, y, {attn_mask = a.src_mask, need_weights = false,
         key_padding_mask = a.src_key_padding_mask, is_causal = a.is_causal}))
   end)
   return self:residual(2, x, function(y) return self:feed_forward(y) end)
end

local take_decoder_layer = args.signature(
   "nn.TransformerDecoderLayer(d_model: count, nhead: count, " .. layer_options .. ")")

--- A layer of a Transformer's decoder: attention of the target to itself, attention to the
--- encoder's result, then a feed-forward network. Shapes are those of nn.TransformerEncoderLayer.
---
---     local layer = torch.nn.TransformerDecoderLayer(8, 2, {batch_first = true})
---     local target, memory = torch.zeros(3, 4, 8), torch.zeros(3, 5, 8)
---     print(table.unpack(layer(target, memory).shape))
---     --> 3	4	8
---@class nn.TransformerDecoderLayer: nn.Module
---@field self_attn nn.MultiheadAttention  the attention among the tokens of a sequence
---@field multihead_attn nn.MultiheadAttention  the attention of the target to the memory
---@field linear1 nn.Linear  (dim_feedforward, d_model)
---@field linear2 nn.Linear  (d_model, dim_feedforward)
---@field norm1 nn.LayerNorm  the norm of the attention among tokens
---@field norm2 nn.LayerNorm  the norm of the attention to the memory
---@field norm3 nn.LayerNorm  the norm of the feed-forward part
---@field dropout1 nn.Dropout  the dropout of the attention among tokens
---@field dropout2 nn.Dropout  the dropout of the attention to the memory
---@field dropout3 nn.Dropout  the dropout of the feed-forward part
---@overload fun(d_model: integer, nhead: integer, options?): nn.TransformerDecoderLayer
local DecoderLayer = class.class("nn.TransformerDecoderLayer", Layer)

function DecoderLayer:__init(...)
   local a = take_decoder_layer(...)
   self.self_attn = self:make_attention(a)
   self.multihead_attn = self:make_attention(a)
   Layer.__init(self, "nn.TransformerDecoderLayer", 3, a)
end

local decoder_call <const> = [[(tgt: tensor, memory: tensor, tgt_mask: tensor?,
   memory_mask: tensor?, tgt_key_padding_mask: tensor?, memory_key_padding_mask: tensor?,
   tgt_is_causal: boolean = false, memory_is_causal: boolean = false)]]
local take_decoder_layer_call = args.signature("nn.TransformerDecoderLayer.forward" .. decoder_call)

--- Computes the layer. The masks, by position or by name, are MultiheadAttention's attn_mask and
--- key_padding_mask.
---@param tgt Tensor  (T, N, d_model), or (N, T, d_model) with `batch_first`
---@param memory Tensor  the encoder's result
---@param ... any  tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
---   tgt_is_causal, memory_is_causal
---@return Tensor  the result, of the shape of tgt
function DecoderLayer:forward(...)
   local a = take_decoder_layer_call(...)
   local memory = a.memory
   local x = self:residual(1, a.tgt, function(y)
      return (self.self_attn(y, y, y, {attn_mask = a.tgt_mask, need_weights = false,
         key_padding_mask = a.tgt_key_padding_mask, is_causal = a.tgt_is_causal}))
   end)
   x = self:residual(2, x, function(y)
      return (self.multihead_attn(y, memory, memory, {attn_mask = a.memory_mask,
         need_weights = false, key_padding_mask = a.memory_key_padding_mask,
         is_causal = a.memory_is_causal}))
   end)
   return self:residual(3, x, function(y) return self:feed_forward(y) end)
end

-- Makes a stack of copies of a layer, with an optional norm after the last copy.
local function stack(name, self, layer, a)
   module.__init(self)
   if not class.isinstance(layer, Module) then args.refuse(name, "layer", "a module", layer) end
   if a.norm and not class.isinstance(a.norm, Module) then
      args.refuse(name, "norm", "a module", a.norm)
   end
   self.layers = ModuleList()
   for _ = 1, a.num_layers do self.layers:append(layer:clone()) end
   self.num_layers, self.norm = a.num_layers, a.norm
end

-- Adds the option `name` to a table of options. A nil value is left out, so that the layer's own
-- default applies.
local function given(name, value, options)
   if value ~= nil then options[name] = value end
   return options
end

local take_encoder = args.signature [[nn.TransformerEncoder(encoder_layer: any,
   num_layers: layers, norm: any?, enable_nested_tensor: boolean = true,
   mask_check: boolean = true)]]
local take_encoder_call = args.signature [[nn.TransformerEncoder.forward(src: tensor, mask: tensor?,
   src_key_padding_mask: tensor?, is_causal: boolean?)]]

--- A stack of num_layers copies of an encoder layer, followed by `norm` if it is given.
---
---     local layer = torch.nn.TransformerEncoderLayer(8, 2, {batch_first = true})
---     local encoder = torch.nn.TransformerEncoder(layer, 3)
---     print(table.unpack(encoder(torch.zeros(3, 5, 8)).shape))
---     --> 3	5	8
---@class nn.TransformerEncoder: nn.Module
---@overload fun(encoder_layer: nn.Module, num_layers: integer, norm?): nn.TransformerEncoder
local Encoder = class.class("nn.TransformerEncoder", Module)

--- Makes the stack. The options enable_nested_tensor and mask_check are accepted for programs
--- written for PyTorch; results do not depend on them.
---@param encoder_layer nn.Module  copied for each layer, with its present weights
---@param num_layers integer
---@param norm? nn.Module
function Encoder:__init(...)
   local a = take_encoder(...)
   stack("nn.TransformerEncoder", self, a.encoder_layer, a)
end

---@param src Tensor
---@param mask? Tensor  the layers' src_mask
---@param src_key_padding_mask? Tensor
---@param is_causal? boolean
---@return Tensor
function Encoder:forward(...)
   local a = take_encoder_call(...)
   local x = a.src
   for _, layer in ipairs(self.layers) do
      x = layer(x, given("is_causal", a.is_causal,
         {src_mask = a.mask, src_key_padding_mask = a.src_key_padding_mask}))
   end
   return self.norm and self.norm(x) or x
end

local take_decoder = args.signature [[nn.TransformerDecoder(decoder_layer: any, num_layers: layers,
   norm: any?)]]
local take_decoder_call = args.signature("nn.TransformerDecoder.forward"
   .. decoder_call:gsub("boolean = false", "boolean?", 1))

--- A stack of num_layers copies of a decoder layer, followed by `norm` if it is given.
---
---     local layer = torch.nn.TransformerDecoderLayer(8, 2, {batch_first = true})
---     local decoder = torch.nn.TransformerDecoder(layer, 2)
---     local target, memory = torch.zeros(3, 4, 8), torch.zeros(3, 5, 8)
---     print(table.unpack(decoder(target, memory).shape))
---     --> 3	4	8
---@class nn.TransformerDecoder: nn.Module
---@overload fun(decoder_layer: nn.Module, num_layers: integer, norm?): nn.TransformerDecoder
local Decoder = class.class("nn.TransformerDecoder", Module)

---@param decoder_layer nn.Module  copied for each layer, with its present weights
---@param num_layers integer
---@param norm? nn.Module
function Decoder:__init(...)
   local a = take_decoder(...)
   stack("nn.TransformerDecoder", self, a.decoder_layer, a)
end

---@param tgt Tensor
---@param memory Tensor
---@param ... any  the masks that nn.TransformerDecoderLayer takes
---@return Tensor
function Decoder:forward(...)
   local a = take_decoder_call(...)
   local x = a.tgt
   for _, layer in ipairs(self.layers) do
      x = layer(x, a.memory, given("tgt_is_causal", a.tgt_is_causal, {
         tgt_mask = a.tgt_mask, memory_mask = a.memory_mask,
         tgt_key_padding_mask = a.tgt_key_padding_mask,
         memory_key_padding_mask = a.memory_key_padding_mask,
         memory_is_causal = a.memory_is_causal,
      }))
   end
   return self.norm and self.norm(x) or x
end

local take_transformer = args.signature([[nn.Transformer(d_model: count = 512, nhead: count = 8,
   num_encoder_layers: layers = 6, num_decoder_layers: layers = 6, ]]
   .. layer_options:gsub("layer_norm_eps", "custom_encoder: any?, custom_decoder: any?, %0") .. ")")
local take_transformer_call = args.signature [[nn.Transformer.forward(src: tensor, tgt: tensor,
   src_mask: tensor?, tgt_mask: tensor?, memory_mask: tensor?, src_key_padding_mask: tensor?,
   tgt_key_padding_mask: tensor?, memory_key_padding_mask: tensor?, src_is_causal: boolean?,
   tgt_is_causal: boolean?, memory_is_causal: boolean = false)]]

--- An encoder and a decoder: "Attention Is All You Need" (Vaswani et al., 2017). `forward` takes
--- the source and the target sequence.
---
---     local model = torch.nn.Transformer {
---        d_model = 8, nhead = 2, num_encoder_layers = 1, num_decoder_layers = 1,
---     }
---     local source, target = torch.zeros(5, 3, 8), torch.zeros(4, 3, 8)
---     print(table.unpack(model(source, target).shape))
---     --> 4	3	8
---@class nn.Transformer: nn.Module
---@field encoder nn.Module  an nn.TransformerEncoder, unless custom_encoder is given
---@field decoder nn.Module  an nn.TransformerDecoder, unless custom_decoder is given
---@overload fun(d_model?: integer, nhead?: integer, options?: table): nn.Transformer
local Transformer = class.class("nn.Transformer", Module)

--- Makes the model. custom_encoder and custom_decoder replace the default encoder and decoder. All
--- parameters of at least two dimensions, those of a custom encoder or decoder too, are set by
--- Xavier's rule.
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
   for _, option in ipairs {"custom_encoder", "custom_decoder"} do
      if a[option] and not class.isinstance(a[option], Module) then
         args.refuse("nn.Transformer", option, "a module", a[option])
      end
   end
   self.d_model, self.nhead, self.batch_first = a.d_model, a.nhead, a.batch_first
   self.encoder = a.custom_encoder
      or Encoder(layer(EncoderLayer), a.num_encoder_layers, LayerNorm(a.d_model, place))
   self.decoder = a.custom_decoder
      or Decoder(layer(DecoderLayer), a.num_decoder_layers, LayerNorm(a.d_model, place))
   for _, parameter in ipairs(self:parameters()) do
      if parameter:dim() > 1 then init.xavier_uniform_(parameter) end
   end
end

--- Makes a mask that hides all later positions from each position.
---@param size integer
---@param options? {device: string|torch.device, dtype: string}
---@return Tensor  (size, size), 0 or -inf
function Transformer.generate_square_subsequent_mask(size, options)
   return torch.full({size, size}, -math.huge, options or {}):triu(1)
end

--- Runs the encoder on src, and the decoder on tgt and the encoder's output. The masks of the
--- encoder and the decoder can be passed by position or by name.
---@param src Tensor
---@param tgt Tensor
---@param ... any  src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask,
---   memory_key_padding_mask, src_is_causal, tgt_is_causal, memory_is_causal
---@return Tensor  the result, of the shape of tgt
function Transformer:forward(...)
   local a = take_transformer_call(...)
   local memory = self.encoder(a.src, given("is_causal", a.src_is_causal,
      {mask = a.src_mask, src_key_padding_mask = a.src_key_padding_mask}))
   return self.decoder(a.tgt, memory, given("tgt_is_causal", a.tgt_is_causal, {
      tgt_mask = a.tgt_mask, memory_mask = a.memory_mask,
      tgt_key_padding_mask = a.tgt_key_padding_mask,
      memory_key_padding_mask = a.memory_key_padding_mask, memory_is_causal = a.memory_is_causal,
   }))
end

return {
   Transformer = Transformer,
   TransformerEncoder = Encoder, TransformerEncoderLayer = EncoderLayer,
   TransformerDecoder = Decoder, TransformerDecoderLayer = DecoderLayer,
}
