-- gpt2.lua - GPT-2 (Radford et al., 2019): a decoder with learnt positions, and with norms before
-- attention and the feed-forward network.

local torch = require "tlua"
local class = require "tlua.class"
local CacheBatch = require "tlua.text.models.cache_batch"
local configs = require "tlua.text.models.config"
local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"

local nn = torch.nn

local family = define.family {
   model_type = "gpt2", name = "GPT2", prefix = "transformer",
   has_types = true,
   defaults = {
      vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12,
      activation_function = "gelu_new", resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1,
      layer_norm_epsilon = 1e-5, scale_attn_weights = true,
      scale_attn_by_inverse_layer_idx = false,
   },
   finish = function(config) configs.check_multiple("text.GPT2", config, "n_embd", "n_head") end,
   width = function(config) return config.n_embd end,
   -- Older files store causal masks under these names.
   ignore = {"%.attn%.bias$", "%.attn%.masked_bias$"},
}

local Attention = class.class("text.models.GPT2Attention", nn.Module)

function Attention:__init(config, index)
   local size = config.n_embd
   self.index, self.heads = index, config.n_head
   self.c_attn = layers.Conv1D(3 * size, size)
   self.c_proj = layers.Conv1D(size, size)
   self.resid_dropout = nn.Dropout(config.resid_pdrop)
   local scale = config.scale_attn_weights and (size // config.n_head) ^ -0.5 or 1
   if config.scale_attn_by_inverse_layer_idx then scale = scale / index end
   self.options, self.dropout = {scale = scale, dropout = 0.0}, config.attn_pdrop
end

function Attention:forward(x, state)
   local q, k, v = table.unpack(self.c_attn(x):chunk(3, 3))
   q, k, v = layers.split_heads(q, self.heads), layers.split_heads(k, self.heads),
      layers.split_heads(v, self.heads)
   self.options.dropout = self.training and self.dropout or 0.0
   local y = layers.join_heads(layers.attend_cached(self.index, q, k, v, state, self.options))
   return self.resid_dropout(self.c_proj(y))
end

local MLP = class.class("text.models.GPT2MLP", nn.Module)

function MLP:__init(config)
   local size = config.n_embd
   local inner = config.n_inner or 4 * size
   self.c_fc, self.c_proj = layers.Conv1D(inner, size), layers.Conv1D(size, inner)
   self.act = layers.activation(config.activation_function)
   self.dropout = nn.Dropout(config.resid_pdrop)
end

function MLP:forward(x) return self.dropout(self.c_proj(self.act(self.c_fc(x)))) end

local Block = class.class("text.models.GPT2Block", nn.Module)

function Block:__init(config, index)
   local norm = {eps = config.layer_norm_epsilon}
   self.ln_1 = nn.LayerNorm(config.n_embd, norm)
   self.attn = Attention(config, index)
   self.ln_2 = nn.LayerNorm(config.n_embd, norm)
   self.mlp = MLP(config)
end

function Block:forward(x, state)
   x = x + self.attn(self.ln_1(x), state)
   return x + self.mlp(self.ln_2(x))
end

local Model = family:class "Model"

function Model:build(config)
   self.wte = nn.Embedding(config.vocab_size, config.n_embd)
   self.wpe = nn.Embedding(config.n_positions, config.n_embd)
   self.drop = nn.Dropout(config.embd_pdrop)
   self.h = layers.list(config.n_layer, function(i) return Block(config, i) end)
   self.ln_f = nn.LayerNorm(config.n_embd, {eps = config.layer_norm_epsilon})
end

function Model:compute(a)
   local x = a.inputs_embeds or self.wte(a.input_ids)
   local cache = a.past_key_values
   local past = cache and cache.length or 0
   local is_batch = class.isinstance(cache, CacheBatch)
   local places = a.position_ids or is_batch and cache:positions(x.device)
      or torch.arange(past + 1, past + x:size(2) + 1, {dtype = "int64", device = x.device})
   if not a.position_ids and not is_batch and past + x:size(2) > self.config.n_positions then
      torch.raise(("text.GPT2Model: input_ids: expected at most n_positions = %d tokens, got %d")
         :format(self.config.n_positions, past + x:size(2)))
   end
   x = x + self.wpe(places)
   if a.token_type_ids then x = x + self.wte(a.token_type_ids) end
   local results
   x, results = decoder.run(self, self.h, self.drop(x), a)
   return decoder.finish(results, self.ln_f(x))
end

define.causal_lm(family, Model, {ending = "LMHeadModel", embedding = "wte"})
define.last_token_classification(family, Model)
define.token_classification(family, Model, "resid_pdrop")

return define.by_type(family)
