-- gpt_neox.lua - GPT-NeoX (Black et al., 2022): a decoder with rotary positions for a part of each
-- head. Attention and the feed-forward network may run in parallel, on the same input.

local torch = require "tlua"
local class = require "tlua.class"
local Rotary = require "tlua.text.models.rotary"
local configs = require "tlua.text.models.config"
local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"

local nn = torch.nn

local family = define.family {
   model_type = "gpt_neox", name = "GPTNeoX", prefix = "gpt_neox",
   defaults = {
      vocab_size = 50432, hidden_size = 6144, num_hidden_layers = 44, num_attention_heads = 64,
      intermediate_size = 24576, hidden_act = "gelu", rotary_pct = 0.25, attention_dropout = 0,
      hidden_dropout = 0, max_position_embeddings = 2048, layer_norm_eps = 1e-5,
      use_parallel_residual = true, attention_bias = true, tie_word_embeddings = false,
   },
   finish = function(config)
      configs.check_multiple("text.GPTNeoX", config, "hidden_size", "num_attention_heads")
      config.rope_theta = config.rope_theta or config.rotary_emb_base
   end,
   width = function(config) return config.hidden_size end,
   -- Older files store causal masks under these names.
   ignore = {"%.attention%.bias$", "%.attention%.masked_bias$"},
}

local Attention = class.class("text.models.GPTNeoXAttention", nn.Module)

function Attention:__init(config, index)
   local size, bias = config.hidden_size, {bias = config.attention_bias}
   self.index, self.heads, self.p = index, config.num_attention_heads, config.attention_dropout
   self.query_key_value = nn.Linear(size, 3 * size, bias)
   self.dense = nn.Linear(size, size, bias)
   self.options = {dropout = 0.0}
end

function Attention:forward(x, state)
   local heads = layers.split_heads(self.query_key_value(x), self.heads) -- (B, heads, S, 3 * D)
   local q, k, v = table.unpack(heads:chunk(3, -1))
   q, k = Rotary.rotate(q, state.cos, state.sin), Rotary.rotate(k, state.cos, state.sin)
   self.options.dropout = self.training and self.p or 0.0
   local y = layers.attend_cached(self.index, q, k, v, state, self.options)
   return self.dense(layers.join_heads(y))
end

local MLP = class.class("text.models.GPTNeoXMLP", nn.Module)

function MLP:__init(config)
   self.dense_h_to_4h = nn.Linear(config.hidden_size, config.intermediate_size)
   self.dense_4h_to_h = nn.Linear(config.intermediate_size, config.hidden_size)
   self.act = config.hidden_act
end

function MLP:forward(x)
   return self.dense_4h_to_h(layers.activated(self.dense_h_to_4h, x, self.act))
end

local Layer = class.class("text.models.GPTNeoXLayer", nn.Module)

function Layer:__init(config, index)
   local norm = {eps = config.layer_norm_eps}
   self.is_parallel = config.use_parallel_residual
   self.input_layernorm = nn.LayerNorm(config.hidden_size, norm)
   self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, norm)
   self.post_attention_dropout = nn.Dropout(config.hidden_dropout)
   self.post_mlp_dropout = nn.Dropout(config.hidden_dropout)
   self.attention, self.mlp = Attention(config, index), MLP(config)
end

function Layer:forward(x, state)
   local y = self.post_attention_dropout(self.attention(self.input_layernorm(x), state))
   if self.is_parallel then
      return self.post_mlp_dropout(self.mlp(self.post_attention_layernorm(x))) + y + x
   end
   y = y + x
   return self.post_mlp_dropout(self.mlp(self.post_attention_layernorm(y))) + y
end

local Model = family:class "Model"

function Model:build(config)
   self.embed_in = nn.Embedding(config.vocab_size, config.hidden_size)
   self.emb_dropout = nn.Dropout(config.hidden_dropout)
   self.layers = layers.list(config.num_hidden_layers, function(i) return Layer(config, i) end)
   self.final_layer_norm = nn.LayerNorm(config.hidden_size, {eps = config.layer_norm_eps})
   local head = config.hidden_size // config.num_attention_heads
   self.rotary = {full_attention = Rotary(config, head, nil, config.rotary_pct)}
end

function Model:compute(a)
   local x = self.emb_dropout(a.inputs_embeds or self.embed_in(a.input_ids))
   local results
   x, results = decoder.run(self, self.layers, x, a)
   return decoder.finish(results, self.final_layer_norm(x))
end

define.causal_lm(family, Model, {head = "embed_out", embedding = "embed_in"})
define.last_token_classification(family, Model)
define.token_classification(family, Model, "hidden_dropout")

return define.by_type(family)
