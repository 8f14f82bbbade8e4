-- bart.lua - BART (Lewis et al., 2019): an encoder like BERT's and a decoder, with learnt
-- positions. The first two rows of the table of positions are unused, as in the original model.

local torch = require "tlua"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"
local seq2seq = require "tlua.text.models.seq2seq"

local nn, F = torch.nn, torch.nn.functional

local family = define.family {
   model_type = "bart", name = "Bart", prefix = "model",
   defaults = {
      vocab_size = 50265, max_position_embeddings = 1024, d_model = 1024, encoder_layers = 12,
      encoder_ffn_dim = 4096, encoder_attention_heads = 16, decoder_layers = 12,
      decoder_ffn_dim = 4096, decoder_attention_heads = 16, activation_function = "gelu",
      dropout = 0.1, attention_dropout = 0.0, activation_dropout = 0.0, scale_embedding = false,
      pad_token_id = 1, bos_token_id = 0, eos_token_id = 2, decoder_start_token_id = 2,
      forced_eos_token_id = configs.none,
   },
   finish = function(config)
      configs.check_multiple("text.Bart", config, "d_model", "encoder_attention_heads")
      configs.check_multiple("text.Bart", config, "d_model", "decoder_attention_heads")
   end,
   width = function(config) return config.d_model end,
}

local Attention = class.class("text.models.BartAttention", nn.Module)

function Attention:__init(config, heads)
   local size = config.d_model
   self.heads, self.options, self.p = heads, {dropout = 0.0}, config.attention_dropout
   self.k_proj, self.v_proj = nn.Linear(size, size), nn.Linear(size, size)
   self.q_proj, self.out_proj = nn.Linear(size, size), nn.Linear(size, size)
end

-- Computes the attention of x over the encoder's output `encoded`. If `encoded` is nil, computes
-- the attention of x over itself and over the earlier tokens in `cache`.
function Attention:forward(x, state, cache, index, encoded)
   local q = layers.split_heads(self.q_proj(x), self.heads)
   local function of(source)
      return layers.split_heads(self.k_proj(source), self.heads),
         layers.split_heads(self.v_proj(source), self.heads)
   end
   local k, v = seq2seq.keys_and_values(x, cache, index, encoded, of)
   self.options.dropout = self.training and self.p or 0.0
   return self.out_proj(layers.join_heads(layers.attend(q, k, v, state, self.options)))
end

-- A layer of the encoder or decoder. Each attention and the feed-forward network f compute norm(x +
-- dropout(f(x))).
local Layer = class.class("text.models.BartLayer", nn.Module)

function Layer:__init(config, index, is_decoder)
   local heads = is_decoder and config.decoder_attention_heads or config.encoder_attention_heads
   local inner = is_decoder and config.decoder_ffn_dim or config.encoder_ffn_dim
   local size = config.d_model
   self.index, self.act = index, config.activation_function
   self.p, self.inner_p = config.dropout, config.activation_dropout
   self.self_attn, self.self_attn_layer_norm = Attention(config, heads), nn.LayerNorm(size)
   if is_decoder then
      self.encoder_attn, self.encoder_attn_layer_norm = Attention(config, heads),
         nn.LayerNorm(size)
   end
   self.fc1, self.fc2 = nn.Linear(size, inner), nn.Linear(inner, size)
   self.final_layer_norm = nn.LayerNorm(size)
end

function Layer:forward(x, state)
   local function add(y) return x + F.dropout(y, self.p, self.training) end
   x = self.self_attn_layer_norm(add(self.self_attn(x, state, state.cache, self.index)))
   if state.encoded then
      local y = self.encoder_attn(x, {mask = state.encoder_mask}, state.cache, self.index,
         state.encoded)
      x = self.encoder_attn_layer_norm(add(y))
   end
   local y = F.dropout(layers.activated(self.fc1, x, self.act), self.inner_p, self.training)
   return self.final_layer_norm(add(self.fc2(y)))
end

local Stack = class.class("text.models.BartStack", nn.Module)

function Stack:__init(config, shared, count, is_decoder)
   self.embed_tokens, self.most = shared, config.max_position_embeddings
   self.embed_positions = nn.Embedding(config.max_position_embeddings + 2, config.d_model)
   self.layers = layers.list(count, function(i) return Layer(config, i, is_decoder) end)
   self.layernorm_embedding = nn.LayerNorm(config.d_model)
   self.scale, self.p = config.scale_embedding and config.d_model ^ 0.5 or 1, config.dropout
end

function Stack:run(x, state)
   local past, count = state.past or 0, x:size(2)
   if past + count > self.most then
      torch.raise(("text.Bart: expected at most max_position_embeddings = %d tokens, got %d")
         :format(self.most, past + count))
   end
   x = x * self.scale + self.embed_positions.weight:narrow(1, past + 3, count)
   x = F.dropout(self.layernorm_embedding(x), self.p, self.training)
   for _, layer in ipairs(self.layers) do x = layer(x, state) end
   return x
end

local Encoder = class.class("text.models.BartEncoder", Stack)

function Encoder:forward(a, padding)
   return self:run(a.inputs_embeds or self.embed_tokens(a.input_ids),
      {mask = masks.encoder(padding)})
end

local Decoder = class.class("text.models.BartDecoder", Stack)

function Decoder:forward(ids, state) return self:run(self.embed_tokens(ids), state) end

local Model = family:class "Model"
Model.inputs, Model.compute = "seq2seq", seq2seq.compute

function Model:build(config)
   self.shared = nn.Embedding(config.vocab_size, config.d_model,
      {padding_idx = config.pad_token_id + 1})
   self.encoder = Encoder(config, self.shared, config.encoder_layers, false)
   self.decoder = Decoder(config, self.shared, config.decoder_layers, true)
end

local function ties_below(prefix)
   return {
      {prefix .. "encoder.embed_tokens.weight", prefix .. "shared.weight"},
      {prefix .. "decoder.embed_tokens.weight", prefix .. "shared.weight"},
   }
end

function Model:tied_weights() return ties_below "" end

local Conditional = seq2seq.conditional(family, function(self, config)
   self.model = Model(config)
   self:register_buffer("final_logits_bias", torch.zeros(1, config.vocab_size))
   self.lm_head = nn.Linear(config.d_model, config.vocab_size, {bias = false})
end, function(self) return self.model end, function(self, x)
   return self.lm_head(x) + self.final_logits_bias
end)

function Conditional:tied_weights()
   local list = ties_below "model."
   if self.config.tie_word_embeddings then
      list[3] = {"lm_head.weight", "model.shared.weight"}
   end
   return list
end

return define.by_type(family)
