-- phi3.lua - Phi-3 (Abdin et al., 2024): LLaMA's decoder with fused linear layers, and with
-- longrope scaling for long texts.

local torch = require "tlua"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"

local nn = torch.nn

local MLP = class.class("text.models.Phi3MLP", nn.Module)

function MLP:__init(config)
   local size, inner = config.hidden_size, config.intermediate_size
   self.gate_up_proj = nn.Linear(size, 2 * inner, {bias = false})
   self.down_proj = nn.Linear(inner, size, {bias = false})
   self.act = layers.activation(config.hidden_act)
end

function MLP:forward(x)
   local gate, up = table.unpack(self.gate_up_proj(x):chunk(2, 3))
   return self.down_proj(up * self.act(gate))
end

local Layer = class.class("text.models.Phi3Layer", decoder.Layer)

function Layer:__init(config, index, traits)
   decoder.Layer.__init(self, config, index, traits)
   self.resid_attn_dropout = nn.Dropout(config.resid_pdrop)
   self.resid_mlp_dropout = nn.Dropout(config.resid_pdrop)
end

function Layer:forward(x, state)
   x = x + self.resid_attn_dropout(self.self_attn(self.input_layernorm(x), state))
   return x + self.resid_mlp_dropout(self.mlp(self.post_attention_layernorm(x)))
end

return define.by_type(decoder.family {
   model_type = "phi3", name = "Phi3",
   defaults = {
      vocab_size = 32064, hidden_size = 3072, intermediate_size = 8192, rms_norm_eps = 1e-5,
      max_position_embeddings = 4096, original_max_position_embeddings = 4096, resid_pdrop = 0.0,
      pad_token_id = 32000, sliding_window = configs.none,
   },
   traits = {fused = true, layer = Layer, mlp = MLP},
})
