-- decoder.lua - the decoder of LLaMA and similar models. Its layers have attention with rotary
-- positions and a gated feed-forward network, each after a norm. The file of a model family passes
-- the differences of its models from LLaMA to `M.family`.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Cache = require "tlua.text.models.cache"
local CacheBatch = require "tlua.text.models.cache_batch"
local Rotary = require "tlua.text.models.rotary"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"

local nn = torch.nn

local M = {}

-- Attention -------------------------------------------------------------------------------------

--- Attention in which several query heads may share one key head. `traits` lists differences from
--- LLaMA: qkv_bias, o_bias, qk_norm ("head": a norm of each head, "all": one norm of all heads
--- together), fused (one linear layer for queries, keys and values) and scale (a function of config
--- that returns the factor of the scores).
---@class text.models.Attention: nn.Module
local Attention = class.class("text.models.Attention", nn.Module)
M.Attention = Attention
layers.returns_new(Attention)

---@param config table
---@param index integer  the layer's number, from 1
---@param traits table
function Attention:__init(config, index, traits)
   local heads, groups, size = config.num_attention_heads, config.num_key_value_heads,
      config.head_dim
   self.index, self.heads, self.groups, self.traits = index, heads, groups, traits
   self.interleaved = false
   self.options = {
      scale = traits.scale and traits.scale(config), softcap = config.attn_logit_softcapping,
      dropout = 0.0,
   }
   self.dropout, self.clip = config.attention_dropout or 0, config.clip_qkv
   local bias = {bias = traits.qkv_bias and traits.qkv_bias(config) or false}
   local width = config.hidden_size
   if traits.fused then
      self.qkv_proj = nn.Linear(width, (heads + 2 * groups) * size, bias)
   else
      self.q_proj = nn.Linear(width, heads * size, bias)
      self.k_proj = nn.Linear(width, groups * size, bias)
      self.v_proj = nn.Linear(width, groups * size, bias)
   end
   self.o_proj = nn.Linear(heads * size, width,
      {bias = traits.o_bias and traits.o_bias(config) or false})
   if traits.qk_norm then
      local each = traits.qk_norm == "head"
      self.q_norm = traits.norm(config, each and size or heads * size)
      self.k_norm = traits.norm(config, each and size or groups * size)
   end
end

-- Returns queries, keys and values (B, heads, S, D), and a list of the linear layers' results,
-- which `forward` may release.
local function project(self, x)
   local q, k, v, results
   local heads, groups = self.heads, self.groups
   if self.traits.fused then
      local qkv = self.qkv_proj(x)
      local size = qkv:size(3) // (heads + 2 * groups)
      q, k, v = table.unpack(qkv:split({heads * size, groups * size, groups * size}, 3))
      results = {qkv, q, k, v}
   else
      q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
      results = {q, k, v}
   end
   local norm, clip = self.traits.qk_norm, self.clip
   if norm == "all" then q, k = self.q_norm(q), self.k_norm(k) end
   if clip then q, k, v = q:clamp(-clip, clip), k:clamp(-clip, clip), v:clamp(-clip, clip) end
   q, k, v = layers.split_heads(q, heads), layers.split_heads(k, groups),
      layers.split_heads(v, groups)
   if norm == "head" then q, k = self.q_norm(q), self.k_norm(k) end
   return q, k, v, results
end

-- Returns whether `forward` may release its intermediate tensors: no hook, gradient or unknown kind
-- of cache can hold them.
function Attention:owns(state)
   local cache = state.cache
   local is_known = not cache or class.isinstance(cache, CacheBatch)
      or cache.update == Cache.update and cache.attend == Cache.attend
   if self.qkv_proj then return is_known and layers.owns(self, self.qkv_proj, self.o_proj) end
   return is_known and layers.owns(self, self.q_proj, self.k_proj, self.v_proj, self.o_proj)
end

---@param x Tensor  (B, S, hidden_size)
---@param state table  the state that the layers share: cos, sin, mask, is_causal, cache, window
---@return Tensor
function Attention:forward(x, state)
   local q, k, v, results = project(self, x)
   local turned = Rotary.rotate(q, state.cos, state.sin, self.interleaved)
   local keys = Rotary.rotate(k, state.cos, state.sin, self.interleaved)
   self.options.dropout = self.training and self.dropout or 0.0
   local heads = layers.attend_cached(self.index, turned, keys, v, state, self.options)
   local joined = layers.join_heads(heads)
   local y = self.o_proj(joined)
   if layers.is_large(x) and self:owns(state) then
      layers.release(results)
      layers.release {q, k, v, turned, keys, heads, joined}
   end
   return y
end

-- Layers ----------------------------------------------------------------------------------------

--- A layer of the decoder. It computes y = x + attention(norm(x)) and then y + mlp(norm(y)).
---@class text.models.DecoderLayer: nn.Module
local Layer = class.class("text.models.DecoderLayer", nn.Module)
M.Layer = Layer
layers.returns_new(Layer)

function Layer:__init(config, index, traits)
   self.self_attn = Attention(config, index, traits)
   self.input_layernorm = traits.norm(config, config.hidden_size)
   self.post_attention_layernorm = traits.norm(config, config.hidden_size)
   self[traits.mlp_name or "mlp"] = traits.mlp(config)
   self.network = traits.mlp_name or "mlp"
end

-- Returns whether `forward` may release its intermediate tensors: no hook, gradient or unknown kind
-- of cache can hold them.
function Layer:owns(state)
   local network = self[self.network]
   return layers.owns(self, self.input_layernorm, self.post_attention_layernorm)
      and self.self_attn:owns(state) and network.owns ~= nil and network:owns()
end

function Layer:forward(x, state)
   local normed = self.input_layernorm(x)
   local seen = self.self_attn(normed, state)
   local y = x + seen
   local frees = layers.is_large(x) and self:owns(state)
   if frees then layers.release {normed, seen} end
   normed = self.post_attention_layernorm(y)
   local changed = self[self.network](normed)
   local result = y + changed
   if frees then layers.release {normed, changed, y} end
   return result
end

-- The loop over the layers ----------------------------------------------------------------------

-- Returns the state that all layers of one kind, with or without a sliding window, share: the mask,
-- the cache, the window and the rotation angles.
local function state_of(model, kind, a, x, past, padding)
   local config, cache, count = model.config, a.cache, x:size(2)
   local window = kind == "sliding_attention" and config.sliding_window or nil
   local rotary = model.rotary and (model.rotary[kind] or model.rotary.full_attention)
   if class.isinstance(cache, CacheBatch) then return cache:state(x, window, rotary) end
   local keys = cache and cache:key_length(count, window) or count
   local mask, is_causal = masks.causal(count, keys, padding, window, x.device)
   local state = {mask = mask, is_causal = is_causal, cache = cache, window = window}
   if rotary then
      state.cos, state.sin = rotary:angles(x, past, count, a.position_ids)
   end
   return state
end

--- Runs the layers of a decoder on embeddings. Layers of the same kind, with or without a sliding
--- window, share a mask and rotation angles. Keys and values are cached if `a` has past_key_values
--- or use_cache.
---@param model nn.Module  with the fields config, kinds (a kind for each layer) and rotary (a
--- rotation for each kind)
---@param list nn.ModuleList
---@param x Tensor  (B, S, hidden_size)
---@param a table  the model's arguments
---@return Tensor
---@return table results  past_key_values and hidden_states
function M.run(model, list, x, a)
   local cache = a.past_key_values
   if a.use_cache and not cache then cache = Cache() end
   local past = cache and cache.length or 0
   local title = torch.type(model)
   local padding = masks.padding(title, a.attention_mask, x:size(1), past + x:size(2))
   local states, results = {}, {past_key_values = cache}
   local given = {cache = cache, position_ids = a.position_ids}
   if a.output_hidden_states then results.hidden_states = {x} end
   for i, layer in ipairs(list) do
      local kind = model.kinds and model.kinds[i] or "full_attention"
      states[kind] = states[kind] or state_of(model, kind, given, x, past, padding)
      local y, state = layer(x, states[kind]), states[kind]
      if i > 1 and not a.output_hidden_states and layers.is_large(x) and layer.owns
         and layer:owns(state) and list[i - 1]:owns(state) then
         x:release()
      end
      x = y
      if a.output_hidden_states then results.hidden_states[i + 1] = x end
   end
   if cache then cache:advance(x:size(2)) end
   return x, results
end

--- Replaces the last of the results' hidden states by `x`, to which the final norm has been
--- applied. Hugging Face's models return this normalised state too.
---@param results table
---@param x Tensor
---@return table
function M.finish(results, x)
   results.last_hidden_state = x
   if results.hidden_states then results.hidden_states[#results.hidden_states] = x end
   return results
end

-- Families --------------------------------------------------------------------------------------

--- The defaults of LLaMA's config.json, which similar families share.
M.defaults = {
   vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008, num_hidden_layers = 32,
   num_attention_heads = 32, hidden_act = "silu", max_position_embeddings = 2048,
   rms_norm_eps = 1e-6, attention_bias = false, attention_dropout = 0, mlp_bias = false,
   tie_word_embeddings = false, rope_theta = configs.none,
}

-- Returns the list of the layers' kinds: "sliding_attention" for a layer with a sliding window, or
-- else "full_attention".
local function kinds_of(config, traits)
   local kinds = {}
   for i = 1, config.num_hidden_layers do
      local slides = config.sliding_window and (not traits.slides or traits.slides(config, i))
      kinds[i] = config.layer_types and config.layer_types[i]
         or slides and "sliding_attention" or "full_attention"
      if kinds[i] ~= "sliding_attention" and kinds[i] ~= "full_attention" then
         torch.raise(("config.json: layer_types: expected full_attention or sliding_attention, got "
            .. "%s"):format(args.describe(kinds[i])))
      end
   end
   return kinds
end

local function check(title, config)
   config.num_key_value_heads = config.num_key_value_heads or config.num_attention_heads
   if not config.head_dim then
      configs.check_multiple(title, config, "hidden_size", "num_attention_heads")
      config.head_dim = config.hidden_size // config.num_attention_heads
   end
   configs.check_multiple(title, config, "num_attention_heads", "num_key_value_heads")
   local window = config.sliding_window
   if window and (math.type(window) ~= "integer" or window < 1) then
      args.refuse(title, "sliding_window", "a positive integer", window)
   end
   if config.layer_types and #config.layer_types ~= config.num_hidden_layers then
      args.refuse(title, "layer_types", ("%d kinds"):format(config.num_hidden_layers),
         #config.layer_types)
   end
end

local function rms_norm(config, size) return nn.RMSNorm(size, {eps = config.rms_norm_eps}) end

local function gated(config)
   return layers.GatedMLP(config.hidden_size, config.intermediate_size,
      config.hidden_activation or config.hidden_act, config.mlp_bias)
end

--- Declares a family: its base model, its language model and its classifiers. The fields are:
--- model_type, name, defaults (which replace LLaMA's), traits, finish(config), embed(x, config)
--- (changes embeddings of tokens), rotary(model, config) (adds rotations for kinds of layers), and
--- ending (the suffix of the base model's name, "Model" by default). The field `traits` is a table
--- with the traits of Attention and with norm(config, size), mlp(config), mlp_name, layer (a class)
--- and slides(config, i) (whether layer i has the sliding window).
---@param fields table
---@return table family
function M.family(fields)
   local traits = fields.traits or {}
   traits.norm, traits.mlp = traits.norm or rms_norm, traits.mlp or gated
   local defaults = {}
   for _, list in ipairs {M.defaults, fields.defaults or {}} do
      for key, value in pairs(list) do defaults[key] = value end
   end
   local title = "text." .. fields.name
   local family = define.family {
      model_type = fields.model_type, name = fields.name, prefix = "model", defaults = defaults,
      finish = function(config)
         if fields.finish then fields.finish(config) end
         check(title, config)
      end,
      width = function(config) return config.hidden_size end,
   }

   local Model = family:class(fields.ending or "Model")
   function Model:build(config)
      local pad = config.pad_token_id
      self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size,
         {padding_idx = pad and pad >= 0 and pad + 1 or nil})
      self.layers = layers.list(config.num_hidden_layers, function(i)
         return (traits.layer or Layer)(config, i, traits)
      end)
      self.norm = traits.norm(config, config.hidden_size)
      self.kinds = kinds_of(config, traits)
      self.rotary = {full_attention = Rotary(config, config.head_dim, "full_attention")}
      if fields.rotary then fields.rotary(self, config) end
   end
   function Model:embed(ids)
      local x = self.embed_tokens(ids)
      return fields.embed and fields.embed(x, self.config) or x
   end
   function Model:compute(a)
      local embedded = a.inputs_embeds or self:embed(a.input_ids)
      local x, results = M.run(self, self.layers, embedded, a)
      local normed = self.norm(x)
      local first, last = self.layers[1], self.layers[#self.layers]
      if not a.inputs_embeds and not a.output_hidden_states and layers.is_large(x)
         and layers.owns(self.embed_tokens, first, first.input_layernorm, last, self.norm) then
         layers.release {embedded, x}
      end
      return M.finish(results, normed)
   end

   define.causal_lm(family, Model, {embedding = "embed_tokens"})
   define.last_token_classification(family, Model)
   define.token_classification(family, Model, nil, "score")
   return family
end

return M
