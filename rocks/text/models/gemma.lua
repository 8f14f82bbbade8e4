-- gemma.lua - Gemma (Mesnard et al., 2024), Gemma 2 and Gemma 3 for text. Norms multiply by 1 +
-- weight, and embeddings are multiplied by the square root of their size. Gemma 2 and 3 have norms
-- before and after attention and the feed-forward network, and some of their layers have a sliding
-- window.

local torch = require "tlua"
local class = require "tlua.class"
local Rotary = require "tlua.text.models.rotary"
local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"

local nn, F = torch.nn, torch.nn.functional

local Norm = class.class("text.models.GemmaNorm", nn.Module)

function Norm:__init(size, eps)
   self.weight, self.shape, self.eps = nn.Parameter(torch.zeros(size)), {size}, eps
end

function Norm:forward(x) return F.rms_norm(x, self.shape, self.weight + 1, self.eps) end

local function norm(config, size) return Norm(size, config.rms_norm_eps) end

-- A layer with norms before and after attention and the feed-forward network.
local Layer = class.class("text.models.Gemma2Layer", decoder.Layer)

function Layer:__init(config, index, traits)
   decoder.Layer.__init(self, config, index, traits)
   self.pre_feedforward_layernorm = norm(config, config.hidden_size)
   self.post_feedforward_layernorm = norm(config, config.hidden_size)
end

function Layer:forward(x, state)
   local y = self.self_attn(self.input_layernorm(x), state)
   x = x + self.post_attention_layernorm(y)
   return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
end

local function embed(x, config) return x * config.hidden_size ^ 0.5 end

local function has_bias(config) return config.attention_bias end

local function query_scale(config) return config.query_pre_attn_scalar ^ -0.5 end

local function gemma(changes)
   local defaults = {
      vocab_size = 256000, head_dim = 256, max_position_embeddings = 8192, pad_token_id = 0,
      eos_token_id = 1, bos_token_id = 2, tie_word_embeddings = true,
   }
   for key, value in pairs(changes) do defaults[key] = value end
   return defaults
end

-- The defaults in which Gemma 2 and Gemma 3 differ from Gemma.
local second = {
   hidden_size = 2304, intermediate_size = 9216, num_hidden_layers = 26, num_attention_heads = 8,
   num_key_value_heads = 4, hidden_activation = "gelu_pytorch_tanh", query_pre_attn_scalar = 256,
   sliding_window = 4096,
}

-- Returns the traits of Gemma 2 and Gemma 3.
local function traits(slides, qk_norm)
   return {
      norm = norm, layer = Layer, qkv_bias = has_bias, o_bias = has_bias, scale = query_scale,
      slides = slides, qk_norm = qk_norm,
   }
end

local gemma2 = gemma(second)
gemma2.final_logit_softcapping, gemma2.attn_logit_softcapping = 30.0, 50.0

local gemma3 = gemma(second)
gemma3.vocab_size, gemma3.max_position_embeddings = 262208, 131072
gemma3.sliding_window_pattern, gemma3.rope_local_base_freq = 6, 10000.0

return define.by_type(
   decoder.family {
      model_type = "gemma", name = "Gemma", embed = embed,
      defaults = gemma {
         hidden_size = 3072, intermediate_size = 24576, num_hidden_layers = 28,
         num_attention_heads = 16, num_key_value_heads = 16, hidden_act = "gelu_pytorch_tanh",
      },
      traits = {norm = norm, qkv_bias = has_bias, o_bias = has_bias},
      finish = function(config)
         -- In older files, hidden_act = "gelu" stands for the tanh approximation of GELU.
         config.hidden_activation = config.hidden_activation or "gelu_pytorch_tanh"
      end,
   },
   decoder.family {
      model_type = "gemma2", name = "Gemma2", embed = embed, defaults = gemma2,
      traits = traits(function(_, i) return i % 2 == 1 end),
   },
   decoder.family {
      model_type = "gemma3_text", name = "Gemma3", ending = "TextModel", embed = embed,
      defaults = gemma3,
      traits = traits(function(config, i)
         return i % config.sliding_window_pattern ~= 0
      end, "head"),
      finish = function(config)
         if not config.rope_parameters then config.rope_theta = config.rope_theta or 1e6 end
      end,
      rotary = function(model, config)
         local own = {rope_theta = config.rope_local_base_freq}
         if config.rope_parameters and config.rope_parameters.sliding_attention then
            own = config.rope_parameters.sliding_attention
         end
         local copy = {}
         for key, value in pairs(config) do copy[key] = value end
         copy.rope_parameters, copy.rope_scaling = own, nil
         model.rotary.sliding_attention = Rotary(copy, config.head_dim)
      end,
   })
