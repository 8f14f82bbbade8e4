-- t5.lua - T5 (Raffel et al., 2020): an encoder and a decoder with biases for relative positions,
-- and norms that do not subtract the mean.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"
local seq2seq = require "tlua.text.models.seq2seq"

local nn = torch.nn

local family = define.family {
   model_type = "t5", name = "T5", prefix = "transformer",
   defaults = {
      vocab_size = 32128, d_model = 512, d_kv = 64, d_ff = 2048, num_layers = 6, num_heads = 8,
      relative_attention_num_buckets = 32, relative_attention_max_distance = 128,
      dropout_rate = 0.1, layer_norm_epsilon = 1e-6, feed_forward_proj = "relu", pad_token_id = 0,
      eos_token_id = 1, decoder_start_token_id = 0, scale_decoder_outputs = configs.none,
   },
   finish = function(config)
      config.num_decoder_layers = config.num_decoder_layers or config.num_layers
      if config.num_layers < 1 then
         args.refuse("text.T5", "num_layers", "an integer of at least 1", config.num_layers)
      end
      local gate, act = config.feed_forward_proj:match "^(gated)%-(.*)$"
      config.is_gated_act, config.dense_act_fn = gate ~= nil, act or config.feed_forward_proj
      if config.feed_forward_proj == "gated-gelu" then config.dense_act_fn = "gelu_new" end
      -- The decoder's outputs are scaled if the head shares its weight with the embedding, so
      -- tie_word_embeddings is the default of scale_decoder_outputs.
      if config.scale_decoder_outputs == nil then
         config.scale_decoder_outputs = config.tie_word_embeddings
      end
   end,
   width = function(config) return config.d_model end,
   ignore = {"%.EncDecAttention%.relative_attention_bias%."},
}

local function norm(config) return nn.RMSNorm(config.d_model, {eps = config.layer_norm_epsilon}) end

-- Returns the bucket, counted from 1, of each distance, which is the key's position minus the
-- query's position.
local function bucket_of(distance, config, is_decoder)
   local count, most = config.relative_attention_num_buckets,
      config.relative_attention_max_distance
   local first = torch.ones_like(distance)
   if is_decoder then
      distance = distance:neg():clamp {min = 0}
   else
      count = count // 2
      first = first + distance:gt(0):long() * count
      distance = distance:abs()
   end
   local exact = count // 2
   local far = (distance:float():clamp {min = 1} / exact):log()
      * ((count - exact) / math.log(most / exact))
   far = (far:trunc():long() + exact):clamp {max = count - 1}
   return first + torch.where(distance:lt(exact), distance, far)
end

local Attention = class.class("text.models.T5Attention", nn.Module)

function Attention:__init(config, has_bias, is_decoder)
   local inner, plain = config.num_heads * config.d_kv, {bias = false}
   self.heads, self.p, self.is_decoder = config.num_heads, config.dropout_rate, is_decoder
   self.config = config
   self.q, self.k = nn.Linear(config.d_model, inner, plain), nn.Linear(config.d_model, inner, plain)
   self.v, self.o = nn.Linear(config.d_model, inner, plain), nn.Linear(inner, config.d_model, plain)
   if has_bias then
      self.relative_attention_bias = nn.Embedding(config.relative_attention_num_buckets,
         config.num_heads)
   end
   self.options = {scale = 1.0, dropout = 0.0}
end

-- Returns the bias (1, heads, queries, keys) for relative positions. It is minus infinity for keys
-- that the mask excludes.
function Attention:bias(past, count, keys, mask)
   local like = {dtype = "int64", device = self.q.weight.device}
   local query = torch.arange(past + 1, past + count + 1, like):unsqueeze(2)
   local distance = torch.arange(1, keys + 1, like):unsqueeze(1) - query
   local buckets = bucket_of(distance, self.config, self.is_decoder)
   local bias = self.relative_attention_bias(buckets):permute(3, 1, 2):unsqueeze(1)
   if mask then bias = bias:masked_fill(mask:logical_not(), -math.huge) end
   return bias
end

-- Computes the attention of x over the encoder's output `encoded`. If `encoded` is nil, computes
-- the attention of x over itself and over the earlier tokens in `cache`.
function Attention:forward(x, mask, cache, index, encoded)
   local q = layers.split_heads(self.q(x), self.heads)
   local function of(source)
      return layers.split_heads(self.k(source), self.heads),
         layers.split_heads(self.v(source), self.heads)
   end
   local k, v = seq2seq.keys_and_values(x, cache, index, encoded, of)
   self.options.dropout = self.training and self.p or 0.0
   return self.o(layers.join_heads(layers.attend(q, k, v, {mask = mask}, self.options)))
end

-- A part of a block. It computes x + dropout(f(norm(x))), where f is attention or a feed-forward
-- network. f is stored in the field of the part that has its name in files.
local Part = class.class("text.models.T5Part", nn.Module)

function Part:__init(config, name, f)
   self.name = name
   self[name], self.layer_norm = f, norm(config)
   self.dropout = nn.Dropout(config.dropout_rate)
end

function Part:forward(x, ...) return x + self.dropout(self[self.name](self.layer_norm(x), ...)) end

local Network = class.class("text.models.T5Network", nn.Module)

function Network:__init(config)
   local plain = {bias = false}
   self.act, self.dropout = layers.activation(config.dense_act_fn), nn.Dropout(config.dropout_rate)
   if config.is_gated_act then
      self.wi_0 = nn.Linear(config.d_model, config.d_ff, plain)
      self.wi_1 = nn.Linear(config.d_model, config.d_ff, plain)
   else
      self.wi = nn.Linear(config.d_model, config.d_ff, plain)
   end
   self.wo = nn.Linear(config.d_ff, config.d_model, plain)
end

function Network:forward(x)
   local y
   if rawget(self, "wi") then
      y = self.act(self.wi(x))
   else
      y = self.act(self.wi_0(x)) * self.wi_1(x)
   end
   return self.wo(self.dropout(y))
end

local Block = class.class("text.models.T5Block", nn.Module)

function Block:__init(config, index, is_decoder)
   self.index, self.layer = index, nn.ModuleList()
   self.layer:append(Part(config, "SelfAttention", Attention(config, index == 1, is_decoder)))
   if is_decoder then
      self.layer:append(Part(config, "EncDecAttention", Attention(config, false, true)))
   end
   self.layer:append(Part(config, "DenseReluDense", Network(config)))
end

function Block:forward(x, bias, state)
   x = self.layer[1](x, bias, state.cache, self.index)
   if state.encoded then
      x = self.layer[2](x, state.encoder_mask, state.cache, self.index, state.encoded)
   end
   return self.layer[#self.layer](x)
end

local Stack = class.class("text.models.T5Stack", nn.Module)

function Stack:__init(config, shared, count, is_decoder)
   self.embed_tokens = shared
   self.block = layers.list(count, function(i) return Block(config, i, is_decoder) end)
   self.final_layer_norm, self.dropout = norm(config), nn.Dropout(config.dropout_rate)
end

function Stack:run(x, state)
   x = self.dropout(x)
   local past, count = state.past or 0, x:size(2)
   local attention = self.block[1].layer[1].SelfAttention
   local mask = state.mask
   if state.is_causal then
      mask = torch.ones(count, count, {dtype = "bool", device = x.device}):tril()
   end
   local bias = attention:bias(past, count, past + count, mask)
   for _, block in ipairs(self.block) do x = block(x, bias, state) end
   return self.dropout(self.final_layer_norm(x))
end

local Encoder = class.class("text.models.T5Encoder", Stack)

function Encoder:forward(a, padding)
   local x = a.inputs_embeds or self.embed_tokens(a.input_ids)
   return self:run(x, {mask = masks.encoder(padding)})
end

local Decoder = class.class("text.models.T5Decoder", Stack)

function Decoder:forward(ids, state) return self:run(self.embed_tokens(ids), state) end

local function build(self, config)
   self.shared = nn.Embedding(config.vocab_size, config.d_model)
   self.encoder = Encoder(config, self.shared, config.num_layers, false)
   self.decoder = Decoder(config, self.shared, config.num_decoder_layers, true)
end

local ties = {
   {"encoder.embed_tokens.weight", "shared.weight"},
   {"decoder.embed_tokens.weight", "shared.weight"},
}

local Model = family:class "Model"
Model.inputs, Model.build, Model.compute = "seq2seq", build, seq2seq.compute

function Model:tied_weights() return ties end

local Conditional = seq2seq.conditional(family, function(self, config)
   build(self, config)
   self.lm_head = nn.Linear(config.d_model, config.vocab_size, {bias = false})
end, function(self) return self end, function(self, x)
   if self.config.scale_decoder_outputs then x = x * self.config.d_model ^ -0.5 end
   return self.lm_head(x)
end)

function Conditional:tied_weights()
   local list = {table.unpack(ties)}
   if self.config.tie_word_embeddings then
      list[3] = {"lm_head.weight", "shared.weight"}
   end
   return list
end

return define.by_type(family)
