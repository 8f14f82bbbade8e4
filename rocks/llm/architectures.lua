-- architectures.lua - the supported architectures of GGUF files. This file translates a GGUF file's
-- metadata to the fields of Hugging Face's config.json, and the names of tensors to the paths of
-- modules in torch.text's models.

local M = {}

-- The class of objects that read the metadata whose names begin with the architecture's name, such
-- as "llama.block_count".
local Fields = {}
Fields.__index = Fields

function Fields:refuse(name, expected, got)
   error({file = ("%s.%s: expected %s, got %s"):format(self.architecture, name, expected,
      tostring(got))}, 0)
end

-- Returns the number in the field `name`, or `default` if the field is missing. Raises an error if
-- the field is missing and there is no default.
function Fields:number(name, default)
   local value = self.metadata[self.architecture .. "." .. name]
   if value == nil then value = default end
   if type(value) == "table" then
      -- Some files have one number for each layer. They are supported only if all numbers are
      -- equal.
      for _, item in ipairs(value) do
         if item ~= value[1] then self:refuse(name, "one number for all layers", "several") end
      end
      value = value[1]
   end
   if type(value) ~= "number" or value ~= value then self:refuse(name, "a number", value) end
   return value
end

-- Returns a field's value, which must be a finite number greater than `above` (0 by default).
function Fields:real(name, default, above)
   local value = self:number(name, default)
   if value <= (above or 0) or value == math.huge then
      self:refuse(name, above and "a finite number of at least 0" or "a positive, finite number",
         value)
   end
   return value
end

-- Returns a field's value, which must be an integer from 1 to 2^24.
function Fields:size(name, default)
   local value = math.tointeger(self:number(name, default))
   if not value or value < 1 or value > 1 << 24 then
      self:refuse(name, "a positive integer", value or self:number(name, default))
   end
   return value
end

local function text_of(self, name)
   local value = self.metadata[self.architecture .. "." .. name]
   return type(value) == "string" and value or nil
end

-- Returns the parameters of rotary position embeddings. Their scaling is described in the metadata.
-- If the file has tensors with factors, these factors are used instead.
local function rotation(self, config, factors)
   local theta = self:real("rope.freq_base", 10000.0)
   local rope = {rope_type = "default", rope_theta = theta}
   local kind = text_of(self, "rope.scaling.type")
   local factor = self:number("rope.scaling.factor", self:number("rope.scale_linear", 0))
   local before = self:number("rope.scaling.original_context_length",
      config.max_position_embeddings)
   if factors.long then
      rope.rope_type, rope.short_factor, rope.long_factor = "longrope", factors.short, factors.long
      rope.original_max_position_embeddings = before
      local own = self:number("rope.scaling.attn_factor", 0)
      if own > 0 then rope.attention_factor = own end
   elseif factors.all then
      rope.rope_type, rope.short_factor, rope.long_factor = "longrope", factors.all, factors.all
      rope.original_max_position_embeddings, rope.attention_factor = before, 1.0
   elseif kind == "yarn" and factor > 0 then
      rope.rope_type, rope.factor, rope.original_max_position_embeddings = "yarn", factor, before
   elseif (kind == "linear" or kind == nil) and factor > 0 and factor ~= 1 then
      rope.rope_type, rope.factor = "linear", factor
   elseif kind ~= nil and kind ~= "none" and kind ~= "linear" and kind ~= "longrope" then
      self:refuse("rope.scaling.type", "none, linear, yarn or longrope", kind)
   end
   return rope
end

local function sliding(self, config)
   local given = self:number("attention.sliding_window", 0)
   local window = math.tointeger(given)
   if not window or window < 0 or window > 1 << 32 then
      self:refuse("attention.sliding_window", "an integer from 0 to 2^32", given)
   end
   if window > 0 then config.sliding_window = window end
end

-- Sets the factor that scales attention scores. The largest model of a family uses hidden_size /
-- heads, and the other models use the size of a head. The largest model is recognised by its number
-- of layers, `layers_of_largest`.
local function query_scalar(self, config, layers_of_largest)
   local large = config.num_hidden_layers == layers_of_largest
   config.query_pre_attn_scalar = large and config.hidden_size / config.num_attention_heads
      or config.head_dim
   local given = self:number("attention.scale", 0)
   if given > 0 then config.query_pre_attn_scalar = given ^ -2 end
end

-- Maps the name of each architecture to its properties. `model_type` is the model type in
-- config.json. `configure` sets further fields of config.json. `interleaved`: rotary embeddings
-- rotate pairs of neighbouring features. `plus_one`: the model's norms multiply by 1 + weight, and
-- the file stores 1 + weight. `fused`: mlp.gate and mlp.up are one tensor. `four_norms`: a layer
-- has four norms. `experts` tells how a layer mixes experts, with three fields. `renormalize`: the
-- weights of the chosen experts are divided by their sum. `shared`: there is a further network,
-- which all tokens use. `always`: each file of this architecture has experts.
local known = {
   llama = {model_type = "llama", interleaved = true, experts = {renormalize = true}},
   qwen2 = {model_type = "qwen2"},
   qwen3 = {model_type = "qwen3"},
   qwen2moe = {model_type = "qwen2", experts = {shared = true, always = true}},
   qwen3moe = {model_type = "qwen3", experts = {renormalize = true, always = true}},
   phi3 = {model_type = "phi3", fused = true, configure = sliding},
   gemma = {model_type = "gemma", plus_one = true},
   gemma2 = {model_type = "gemma2", plus_one = true, four_norms = true,
      configure = function(self, config)
         sliding(self, config)
         query_scalar(self, config, 46)
         config.attn_logit_softcapping = self:real("attn_logit_softcapping", 50.0)
         config.final_logit_softcapping = self:real("final_logit_softcapping", 30.0)
      end},
   gemma3 = {model_type = "gemma3_text", plus_one = true, four_norms = true,
      configure = function(self, config)
         sliding(self, config)
         query_scalar(self, config, 62)
         config.rope_local_base_freq = self:real("rope.freq_base_swa", 10000.0)
      end},
}

--- Returns the names of the architectures, sorted.
---@return string[]
function M.names()
   local list = {}
   for name in pairs(known) do list[#list + 1] = name end
   table.sort(list)
   return list
end

--- Returns the architecture of a file.
---@param metadata table<string, any>
---@return table
function M.of(metadata)
   local name = metadata["general.architecture"]
   if type(name) ~= "string" or not known[name] then
      error({file = ("general.architecture: expected one of %s, got %s"):format(
         table.concat(M.names(), ", "), type(name) == "string" and name or type(name))}, 0)
   end
   return known[name]
end

-- Returns a table that describes the experts in each layer. Returns nil if each layer has a single
-- feed-forward network.
local function experts_of(self, own, config)
   local kind = own.experts
   local count = self:number("expert_count", 0)
   if count == 0 and not (kind and kind.always) then return nil end
   if not kind then self:refuse("expert_count", "0 for this architecture", count) end
   local experts = {count = self:size "expert_count", used = self:size "expert_used_count",
      hidden_size = config.hidden_size, renormalize = kind.renormalize or false,
      inner = self:size("expert_feed_forward_length", config.intermediate_size)}
   if experts.count > 4096 then self:refuse("expert_count", "at most 4096", experts.count) end
   if experts.used > experts.count then
      self:refuse("expert_used_count", "at most " .. experts.count, experts.used)
   end
   if kind.shared then
      experts.shared = self:size("expert_shared_feed_forward_length", config.intermediate_size)
   end
   return experts
end

--- Returns the fields of config.json for a GGUF file. If the model has experts, the field `experts`
--- describes them.
---@param metadata table<string, any>
---@param vocab_size integer
---@param factors {all: number[]?, long: number[]?, short: number[]?}  factors of rotary embeddings
---@return table<string, any>
function M.config(metadata, vocab_size, factors)
   local own = M.of(metadata)
   local self = setmetatable({metadata = metadata,
      architecture = metadata["general.architecture"]}, Fields)
   local heads = self:size "attention.head_count"
   local config = {
      model_type = own.model_type, vocab_size = vocab_size,
      hidden_size = self:size "embedding_length",
      num_hidden_layers = self:size "block_count", num_attention_heads = heads,
      num_key_value_heads = self:size("attention.head_count_kv", heads),
      intermediate_size = self:size("feed_forward_length", own.experts and own.experts.always
         and self:size "expert_feed_forward_length" or nil),
      max_position_embeddings = self:size "context_length",
      rms_norm_eps = self:real("attention.layer_norm_rms_epsilon", nil, -0x1p-1074),
      tie_word_embeddings = false, pad_token_id = -1, attention_bias = false,
      attention_dropout = 0.0,
   }
   config.head_dim = self:size("attention.key_length",
      math.max(1, config.hidden_size // config.num_attention_heads))
   if self:size("attention.value_length", config.head_dim) ~= config.head_dim then
      self:refuse("attention.value_length", tostring(config.head_dim),
         self:number "attention.value_length")
   end
   local rotated = self:size("rope.dimension_count", config.head_dim)
   if rotated > config.head_dim or rotated % 2 ~= 0 then
      self:refuse("rope.dimension_count", "an even number, at most that of a head", rotated)
   end
   for _, name in ipairs {"num_attention_heads", "num_hidden_layers"} do
      if config[name] > 4096 then self:refuse(name, "at most 4096", config[name]) end
   end
   if heads % config.num_key_value_heads ~= 0 then
      self:refuse("attention.head_count_kv", "a divisor of " .. heads, config.num_key_value_heads)
   end
   config.rope_parameters = rotation(self, config, factors)
   config.rope_parameters.partial_rotary_factor = rotated / config.head_dim
   config.experts = experts_of(self, own, config)
   if own.configure then own.configure(self, config) end
   if own.model_type == "gemma3_text" then
      local partial = rotated / config.head_dim
      config.rope_parameters = {full_attention = config.rope_parameters, sliding_attention = {
         rope_type = "default", rope_theta = config.rope_local_base_freq,
         partial_rotary_factor = partial}}
      config.rope_parameters.full_attention.partial_rotary_factor = partial
   end
   return config
end

-- Maps names of tensors in a layer to the paths of their modules.
local modules <const> = {
   attn_q = "self_attn.q_proj", attn_k = "self_attn.k_proj", attn_v = "self_attn.v_proj",
   attn_qkv = "self_attn.qkv_proj", attn_output = "self_attn.o_proj", ffn_gate = "mlp.gate_proj",
   ffn_up = "mlp.up_proj", ffn_down = "mlp.down_proj", attn_norm = "input_layernorm",
   attn_q_norm = "self_attn.q_norm", attn_k_norm = "self_attn.k_norm",
   ffn_norm = "post_attention_layernorm",
}
local of_experts <const> = {
   ffn_gate_inp = "mlp.router", ffn_gate_exps = "mlp.gate", ffn_up_exps = "mlp.up",
   ffn_down_exps = "mlp.down", ffn_gate_inp_shexp = "mlp.shared_gate",
   ffn_gate_shexp = "mlp.shared.gate_proj", ffn_up_shexp = "mlp.shared.up_proj",
   ffn_down_shexp = "mlp.shared.down_proj",
}
local four_norms <const> = {
   ffn_norm = "pre_feedforward_layernorm", post_attention_norm = "post_attention_layernorm",
   post_ffw_norm = "post_feedforward_layernorm",
}

--- Returns the path of a tensor's module in a model, and whether the tensor is a weight or a bias.
--- Returns nil if the architecture has no such tensor.
---@param own table  the architecture
---@param name string  the tensor's name, such as "blk.0.attn_q.weight"
---@return string? path
---@return string? field
function M.place(own, name)
   if name == "token_embd.weight" then return "model.embed_tokens", "weight" end
   if name == "output_norm.weight" then return "model.norm", "weight" end
   if name == "output.weight" then return "lm_head", "weight" end
   local layer, short, field = name:match "^blk%.(%d%d?%d?%d?)%.([%w_]+)%.(%a+)$"
   if not layer or field ~= "weight" and field ~= "bias" then return nil end
   local path = own.four_norms and four_norms[short] or own.experts and of_experts[short]
      or modules[short]
   if own.fused and short == "ffn_up" then path = "mlp.gate_up_proj" end
   if not path then return nil end
   return ("model.layers.%d.%s"):format(layer + 1, path), field
end

return M
