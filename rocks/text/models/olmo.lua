-- olmo.lua - OLMo (Groeneveld et al., 2024) and OLMo 2. The norms of OLMo have no weights. OLMo 2
-- has norms after attention and the feed-forward network, and norms of queries and keys.

local torch = require "tlua"
local class = require "tlua.class"
local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"

local nn = torch.nn

local function plain_norm(_, size)
   return nn.LayerNorm(size, {eps = 1e-5, elementwise_affine = false})
end

local Layer = class.class("text.models.Olmo2Layer", nn.Module)

function Layer:__init(config, index, traits)
   self.self_attn = decoder.Attention(config, index, traits)
   self.mlp = traits.mlp(config)
   self.post_attention_layernorm = traits.norm(config, config.hidden_size)
   self.post_feedforward_layernorm = traits.norm(config, config.hidden_size)
end

function Layer:forward(x, state)
   x = x + self.post_attention_layernorm(self.self_attn(x, state))
   return x + self.post_feedforward_layernorm(self.mlp(x))
end

local function has_bias(config) return config.attention_bias end

local defaults = {vocab_size = 50304, pad_token_id = 1, eos_token_id = 50279, rms_norm_eps = 1e-5}

return define.by_type(
   decoder.family {
      model_type = "olmo", name = "Olmo", defaults = defaults,
      traits = {norm = plain_norm, qkv_bias = has_bias, o_bias = has_bias},
   },
   decoder.family {
      model_type = "olmo2", name = "Olmo2", defaults = defaults,
      traits = {layer = Layer, qk_norm = "all", qkv_bias = has_bias, o_bias = has_bias},
   })
