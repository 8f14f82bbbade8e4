-- albert.lua - ALBERT (Lan et al., 2019): BERT's encoder with smaller embeddings, and with layers
-- that share the same weights.

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.text.models.define"
local encoder = require "tlua.text.models.encoder"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"

local nn, F = torch.nn, torch.nn.functional

local defaults = {embedding_size = 128, num_hidden_groups = 1, inner_group_num = 1}
for key, value in pairs(encoder.defaults) do defaults[key] = value end
defaults.vocab_size, defaults.hidden_size, defaults.num_attention_heads = 30000, 4096, 64
defaults.intermediate_size, defaults.hidden_act = 16384, "gelu_new"
defaults.hidden_dropout_prob, defaults.attention_probs_dropout_prob = 0, 0
defaults.classifier_dropout_prob = 0.1

local family = define.family {
   model_type = "albert", name = "Albert", prefix = "albert", defaults = defaults,
   has_types = true,
   finish = function(config)
      encoder.check(config)
      config.classifier_dropout = config.classifier_dropout_prob
   end,
   width = function(config) return config.hidden_size end,
   ignore = {"^sop_classifier%.", "%.pooler%."},
}

local Attention = class.class("text.models.AlbertAttention", nn.Module)

function Attention:__init(config)
   local size = config.hidden_size
   self.heads, self.p = config.num_attention_heads, config.attention_probs_dropout_prob
   self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size),
      nn.Linear(size, size)
   self.dense, self.LayerNorm = nn.Linear(size, size), encoder.norm(size, config)
   self.output_dropout = nn.Dropout(config.hidden_dropout_prob)
end

function Attention:forward(x, mask)
   local n = self.heads
   local y = F.scaled_dot_product_attention(layers.split_heads(self.query(x), n),
      layers.split_heads(self.key(x), n), layers.split_heads(self.value(x), n), mask,
      self.training and self.p or 0.0)
   return self.LayerNorm(x + self.output_dropout(self.dense(layers.join_heads(y))))
end

local Layer = class.class("text.models.AlbertLayer", nn.Module)

function Layer:__init(config)
   self.full_layer_layer_norm = encoder.norm(config.hidden_size, config)
   self.attention = Attention(config)
   self.ffn = nn.Linear(config.hidden_size, config.intermediate_size)
   self.ffn_output = nn.Linear(config.intermediate_size, config.hidden_size)
   self.act = config.hidden_act
end

function Layer:forward(x, mask)
   x = self.attention(x, mask)
   local y = self.ffn_output(layers.activated(self.ffn, x, self.act))
   return self.full_layer_layer_norm(y + x)
end

local Group = class.class("text.models.AlbertGroup", nn.Module)

function Group:__init(config)
   self.albert_layers = layers.list(config.inner_group_num, function() return Layer(config) end)
end

local Encoder = class.class("text.models.AlbertEncoder", nn.Module)

function Encoder:__init(config)
   self.count, self.groups = config.num_hidden_layers, config.num_hidden_groups
   self.embedding_hidden_mapping_in = nn.Linear(config.embedding_size, config.hidden_size)
   self.albert_layer_groups = layers.list(config.num_hidden_groups, function()
      return Group(config)
   end)
end

function Encoder:forward(x, mask, states)
   x = self.embedding_hidden_mapping_in(x)
   if states then states[1] = x end
   for i = 0, self.count - 1 do
      local group = self.albert_layer_groups[i * self.groups // self.count + 1]
      for _, layer in ipairs(group.albert_layers) do x = layer(x, mask) end
      if states then states[#states + 1] = x end
   end
   return x
end

local Model = family:class "Model"

function Model:build(config, own)
   self.embeddings = encoder.Embeddings(config, config.embedding_size)
   self.encoder = Encoder(config)
   if own.add_pooling_layer ~= false then
      self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
   end
end

function Model:compute(a)
   local x = self.embeddings(a)
   local padding = masks.padding(torch.type(self), a.attention_mask, x:size(1), x:size(2))
   local states = a.output_hidden_states and {} or nil
   x = self.encoder(x, masks.encoder(padding), states)
   local pooler = rawget(self, "pooler")
   return {
      last_hidden_state = x, hidden_states = states,
      pooler_output = pooler and pooler(x:select(2, 1)):tanh() or nil,
   }
end

local Predictions = class.class("text.models.AlbertPredictions", nn.Module)

function Predictions:__init(config)
   local size = config.embedding_size
   self.bias = nn.Parameter(torch.zeros(config.vocab_size))
   self.LayerNorm, self.dense = encoder.norm(size, config), nn.Linear(config.hidden_size, size)
   self.decoder, self.act = nn.Linear(size, config.vocab_size), config.hidden_act
end

function Predictions:forward(x)
   return self.decoder(self.LayerNorm(layers.activated(self.dense, x, self.act)))
end

encoder.masked_lm(family, Model, {
   attach = function(self, config) self.predictions = Predictions(config) end,
   score = function(self, x) return self.predictions(x) end,
   ties = {
      {"predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"},
      {"predictions.decoder.bias", "predictions.bias"},
   },
})
encoder.classification(family, Model)
encoder.token_heads(family, Model)

return define.by_type(family)
