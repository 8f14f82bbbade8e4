-- distilbert.lua - DistilBERT (Sanh et al., 2019): BERT with half of the layers and without token
-- types.

local torch = require "tlua"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"

local nn, F = torch.nn, torch.nn.functional

local family = define.family {
   model_type = "distilbert", name = "DistilBert", prefix = "distilbert",
   main = "DistilBertForMaskedLM",
   defaults = {
      vocab_size = 30522, max_position_embeddings = 512, n_layers = 6, n_heads = 12, dim = 768,
      hidden_dim = 3072, dropout = 0.1, attention_dropout = 0.1, activation = "gelu",
      qa_dropout = 0.1, seq_classif_dropout = 0.2, pad_token_id = 0,
   },
   finish = function(config)
      configs.check_multiple("text.DistilBert", config, "dim", "n_heads")
   end,
   width = function(config) return config.dim end,
}

local function norm(config) return nn.LayerNorm(config.dim, {eps = 1e-12}) end

local Embeddings = class.class("text.models.DistilBertEmbeddings", nn.Module)

function Embeddings:__init(config)
   self.word_embeddings = nn.Embedding(config.vocab_size, config.dim,
      {padding_idx = config.pad_token_id and config.pad_token_id + 1})
   self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.dim)
   self.LayerNorm, self.dropout = norm(config), nn.Dropout(config.dropout)
end

function Embeddings:forward(a)
   local x = a.inputs_embeds or self.word_embeddings(a.input_ids)
   if not a.position_ids and x:size(2) > self.position_embeddings.num_embeddings then
      torch.raise(("text.DistilBert: input_ids: expected at most %d tokens "
         .. "(max_position_embeddings), got %d"):format(self.position_embeddings.num_embeddings,
         x:size(2)))
   end
   local places = a.position_ids
      or torch.arange(1, x:size(2) + 1, {dtype = "int64", device = x.device})
   return self.dropout(self.LayerNorm(x + self.position_embeddings(places)))
end

local Attention = class.class("text.models.DistilBertAttention", nn.Module)

function Attention:__init(config)
   local size = config.dim
   self.heads, self.p = config.n_heads, config.attention_dropout
   self.q_lin, self.k_lin, self.v_lin = nn.Linear(size, size), nn.Linear(size, size),
      nn.Linear(size, size)
   self.out_lin = nn.Linear(size, size)
end

function Attention:forward(x, mask)
   local n = self.heads
   local y = F.scaled_dot_product_attention(layers.split_heads(self.q_lin(x), n),
      layers.split_heads(self.k_lin(x), n), layers.split_heads(self.v_lin(x), n), mask,
      self.training and self.p or 0.0)
   return self.out_lin(layers.join_heads(y))
end

local Network = class.class("text.models.DistilBertNetwork", nn.Module)

function Network:__init(config)
   self.lin1, self.lin2 = nn.Linear(config.dim, config.hidden_dim),
      nn.Linear(config.hidden_dim, config.dim)
   self.dropout, self.act = nn.Dropout(config.dropout), config.activation
end

function Network:forward(x)
   return self.dropout(self.lin2(layers.activated(self.lin1, x, self.act)))
end

local Layer = class.class("text.models.DistilBertLayer", nn.Module)

function Layer:__init(config)
   self.attention, self.sa_layer_norm = Attention(config), norm(config)
   self.ffn, self.output_layer_norm = Network(config), norm(config)
end

function Layer:forward(x, mask)
   x = self.sa_layer_norm(self.attention(x, mask) + x)
   return self.output_layer_norm(self.ffn(x) + x)
end

local Layers = class.class("text.models.DistilBertLayers", nn.Module)

function Layers:__init(config)
   self.layer = layers.list(config.n_layers, function() return Layer(config) end)
end

local Model = family:class "Model"

function Model:build(config)
   self.embeddings, self.transformer = Embeddings(config), Layers(config)
end

function Model:compute(a)
   local x = self.embeddings(a)
   local padding = masks.padding(torch.type(self), a.attention_mask, x:size(1), x:size(2))
   local mask, states = masks.encoder(padding), a.output_hidden_states and {x} or nil
   for _, layer in ipairs(self.transformer.layer) do
      x = layer(x, mask)
      if states then states[#states + 1] = x end
   end
   return {last_hidden_state = x, hidden_states = states}
end

local MaskedLM = family:class "ForMaskedLM"
MaskedLM.labels = "tokens"

function MaskedLM:build(config)
   self.distilbert = Model(config)
   self.vocab_transform = nn.Linear(config.dim, config.dim)
   self.vocab_layer_norm = norm(config)
   self.vocab_projector = nn.Linear(config.dim, config.vocab_size)
end

function MaskedLM:tied_weights()
   if not self.config.tie_word_embeddings then return {} end
   return {{"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"}}
end

function MaskedLM:compute(a)
   local results = self.distilbert(a)
   local x = layers.activated(self.vocab_transform, results.last_hidden_state,
      self.config.activation)
   local logits = self.vocab_projector(self.vocab_layer_norm(x))
   return define.with(results, {
      logits = logits, loss = a.labels and define.token_loss(logits, a.labels),
   })
end

local Classification = family:class "ForSequenceClassification"

function Classification:build(config)
   self.distilbert = Model(config)
   self.pre_classifier = nn.Linear(config.dim, config.dim)
   self.dropout = nn.Dropout(config.seq_classif_dropout)
   self.classifier = nn.Linear(config.dim, config.num_labels)
end

function Classification:compute(a)
   local results = self.distilbert(a)
   local x = F.relu(self.pre_classifier(results.last_hidden_state:select(2, 1)))
   local logits = self.classifier(self.dropout(x))
   return define.with(results, {
      logits = logits, loss = a.labels and define.class_loss(self.config, logits, a.labels),
   })
end

define.token_classification(family, Model, "dropout")
define.question_answering(family, Model)

return define.by_type(family)
