-- encoder.lua - BERT's encoder and its heads, which RoBERTa and ELECTRA share. A layer consists of
-- attention and a feed-forward network. The output of each is added to its input, and the sum is
-- normalised.

local torch = require "tlua"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"
local masks = require "tlua.text.models.masks"

local nn, F = torch.nn, torch.nn.functional

local M = {}

--- The defaults of BERT's config.json.
M.defaults = {
   vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
   intermediate_size = 3072, hidden_act = "gelu", hidden_dropout_prob = 0.1,
   attention_probs_dropout_prob = 0.1, max_position_embeddings = 512, type_vocab_size = 2,
   layer_norm_eps = 1e-12, pad_token_id = 0,
}

--- Checks the fields of an encoder's configuration.
---@param config table
function M.check(config)
   configs.check_multiple("text." .. tostring(config.model_type), config, "hidden_size",
      "num_attention_heads")
end

local function norm(size, config) return nn.LayerNorm(size, {eps = config.layer_norm_eps}) end
M.norm = norm

-- Layers ----------------------------------------------------------------------------------------

local SelfAttention = class.class("text.models.SelfAttention", nn.Module)

function SelfAttention:__init(config)
   local size = config.hidden_size
   self.heads, self.p = config.num_attention_heads, config.attention_probs_dropout_prob
   self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size),
      nn.Linear(size, size)
end

function SelfAttention:forward(x, mask)
   local n = self.heads
   local q, k, v = layers.split_heads(self.query(x), n), layers.split_heads(self.key(x), n),
      layers.split_heads(self.value(x), n)
   return layers.join_heads(F.scaled_dot_product_attention(q, k, v, mask,
      self.training and self.p or 0.0))
end

-- Applies a linear layer, adds the residual input, and normalises the sum.
local AddNorm = class.class("text.models.AddNorm", nn.Module)
M.AddNorm = AddNorm

function AddNorm:__init(config, inputs)
   self.dense = nn.Linear(inputs, config.hidden_size)
   self.LayerNorm = norm(config.hidden_size, config)
   self.dropout = nn.Dropout(config.hidden_dropout_prob)
end

function AddNorm:forward(x, residual)
   return self.LayerNorm(self.dropout(self.dense(x)) + residual)
end

local Attention = class.class("text.models.EncoderAttention", nn.Module)

function Attention:__init(config, make)
   self["self"] = (make or SelfAttention)(config)
   self.output = AddNorm(config, config.hidden_size)
end

function Attention:forward(x, ...) return self.output(self["self"](x, ...), x) end

local Intermediate = class.class("text.models.Intermediate", nn.Module)

function Intermediate:__init(config)
   self.dense, self.act = nn.Linear(config.hidden_size, config.intermediate_size),
      config.hidden_act
   layers.activation(config.hidden_act)
end

function Intermediate:forward(x) return layers.activated(self.dense, x, self.act) end

--- A layer of the encoder. It computes y = norm(x + attention(x)) and then norm(y + network(y)).
---@class text.models.EncoderLayer: nn.Module
local Layer = class.class("text.models.EncoderLayer", nn.Module)
M.Layer, M.Attention, M.Intermediate = Layer, Attention, Intermediate

function Layer:__init(config, make)
   self.attention = Attention(config, make)
   self.intermediate = Intermediate(config)
   self.output = AddNorm(config, config.intermediate_size)
end

function Layer:forward(x, ...)
   x = self.attention(x, ...)
   return self.output(self.intermediate(x), x)
end

local Encoder = class.class("text.models.Encoder", nn.Module)
M.Encoder = Encoder

function Encoder:__init(config)
   self.layer = layers.list(config.num_hidden_layers, function() return Layer(config) end)
end

function Encoder:forward(x, mask, states)
   for _, layer in ipairs(self.layer) do
      x = layer(x, mask)
      if states then states[#states + 1] = x end
   end
   return x
end

-- Embeddings ------------------------------------------------------------------------------------

--- Computes the normalised sum of the embeddings of tokens, positions and types.
---@class text.models.Embeddings: nn.Module
local Embeddings = class.class("text.models.Embeddings", nn.Module)
M.Embeddings = Embeddings

---@param config table
---@param size integer
---@param after_padding? boolean  whether only non-padding tokens are numbered, starting one above
--- the padding token's id, as in RoBERTa
function Embeddings:__init(config, size, after_padding)
   local pad = config.pad_token_id and config.pad_token_id + 1
   local padding = {padding_idx = pad}
   self.pad, self.after_padding = pad, after_padding
   self.word_embeddings = nn.Embedding(config.vocab_size, size, padding)
   self.position_embeddings = nn.Embedding(config.max_position_embeddings, size,
      after_padding and padding or nil)
   self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
   self.LayerNorm, self.dropout = norm(size, config), nn.Dropout(config.hidden_dropout_prob)
   self.most = config.max_position_embeddings
end

local function positions_of(self, a, x)
   if a.position_ids then return a.position_ids end
   local like = {dtype = "int64", device = x.device}
   if self.after_padding and a.input_ids then
      local real = a.input_ids:ne(self.pad):long()
      return real:cumsum(2) * real + self.pad
   end
   local first = self.after_padding and self.pad + 1 or 1
   return torch.arange(first, first + x:size(2), like)
end

function Embeddings:forward(a)
   local x = a.inputs_embeds or self.word_embeddings(a.input_ids)
   local most = self.after_padding and self.most - self.pad or self.most
   if x:size(2) > most and not a.position_ids then
      torch.raise(("text.models.Embeddings: input_ids: expected at most %d tokens "
         .. "(max_position_embeddings), got %d"):format(most, x:size(2)))
   end
   local types = a.token_type_ids
   local kinds = types and self.token_type_embeddings(types)
      or self.token_type_embeddings.weight[1]
   x = x + kinds + self.position_embeddings(positions_of(self, a, x))
   return self.dropout(self.LayerNorm(x))
end

-- The model -------------------------------------------------------------------------------------

local Pooler = class.class("text.models.Pooler", nn.Module)
M.Pooler = Pooler

function Pooler:__init(config) self.dense = nn.Linear(config.hidden_size, config.hidden_size) end

function Pooler:forward(x) return self.dense(x:select(2, 1)):tanh() end

--- Declares a family's base model. The options are after_padding (as in Embeddings), project
--- (whether the size of embeddings differs from hidden_size) and pools (whether models without a
--- head have a pooler).
---@param family table
---@param options table
---@return table
function M.model(family, options)
   local Model = family:class "Model"
   function Model:build(config, own)
      local size = options.project and config.embedding_size or config.hidden_size
      self.embeddings = Embeddings(config, size, options.after_padding)
      if size ~= config.hidden_size then
         self.embeddings_project = nn.Linear(size, config.hidden_size)
      end
      self.encoder = Encoder(config)
      if options.pools and own.add_pooling_layer ~= false then self.pooler = Pooler(config) end
   end
   function Model:compute(a)
      local x = self.embeddings(a)
      if rawget(self, "embeddings_project") then x = self.embeddings_project(x) end
      local padding = masks.padding(torch.type(self), a.attention_mask, x:size(1), x:size(2))
      local states = a.output_hidden_states and {x} or nil
      x = self.encoder(x, masks.encoder(padding), states)
      return {
         last_hidden_state = x, hidden_states = states,
         pooler_output = rawget(self, "pooler") and self.pooler(x) or nil,
      }
   end
   return Model
end

--- Returns a function that makes a base model without a pooler, for models with a head.
---@param Model table
---@return fun(config: table): nn.Module
function M.without_pooler(Model)
   return function(config) return Model(config, {add_pooling_layer = false}) end
end

-- Heads -----------------------------------------------------------------------------------------

--- Computes the scores of a text from the hidden state of its first token, for a model without a
--- pooler. A linear layer with an activation and a second linear layer follow each other, each
--- after dropout.
---@class text.models.FirstTokenHead: nn.Module
local FirstToken = class.class("text.models.FirstTokenHead", nn.Module)
M.FirstToken = FirstToken

function FirstToken:__init(config, act)
   self.dense = nn.Linear(config.hidden_size, config.hidden_size)
   self.dropout = nn.Dropout(config.classifier_dropout or config.hidden_dropout_prob)
   self.out_proj, self.act = nn.Linear(config.hidden_size, config.num_labels),
      layers.activation(act)
end

function FirstToken:forward(x)
   x = self.dropout(x:select(2, 1))
   return self.out_proj(self.dropout(self.act(self.dense(x))))
end

-- Transforms hidden states for BERT's masked language model. It is a separate module so that its
-- weights have the nested names of Hugging Face's files.
local Transform = class.class("text.models.BertTransform", nn.Module)

function Transform:__init(config)
   self.dense = nn.Linear(config.hidden_size, config.hidden_size)
   self.LayerNorm, self.act = norm(config.hidden_size, config), config.hidden_act
end

function Transform:forward(x) return self.LayerNorm(layers.activated(self.dense, x, self.act)) end

local Predictions = class.class("text.models.BertPredictions", nn.Module)

function Predictions:__init(config)
   self.bias = nn.Parameter(torch.zeros(config.vocab_size))
   self.transform = Transform(config)
   self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
end

function Predictions:forward(x) return self.decoder(self.transform(x)) end

--- The head of BERT's masked language model. Its part `predictions` computes the logits.
---@class text.models.BertHeads: nn.Module
local Heads = class.class("text.models.BertHeads", nn.Module)
M.Heads = Heads

function Heads:__init(config) self.predictions = Predictions(config) end

--- Declares the class for text classification, whose name ends in ForSequenceClassification. `act`
--- is the activation of FirstTokenHead. If it is nil, the scores are computed from the pooled
--- output instead.
---@param family table
---@param Model table
---@param act? string
function M.classification(family, Model, act)
   local cls = family:class "ForSequenceClassification"
   function cls:build(config)
      if act then
         self[family.prefix] = M.without_pooler(Model)(config)
         self.classifier = FirstToken(config, act)
      else
         self[family.prefix] = Model(config)
         self.dropout = nn.Dropout(config.classifier_dropout or config.classifier_dropout_prob
            or config.hidden_dropout_prob)
         self.classifier = nn.Linear(config.hidden_size, config.num_labels)
      end
   end
   function cls:compute(a)
      local results = self[family.prefix](a)
      local x = act and results.last_hidden_state or self.dropout(results.pooler_output)
      local logits = self.classifier(x)
      return define.with(results, {
         logits = logits, loss = a.labels and define.class_loss(self.config, logits, a.labels),
      })
   end
end

--- Declares the class of the masked language model, whose name ends in ForMaskedLM. `attach(self,
--- config)` creates the head, and `score(self, x)` computes its logits. `ties` lists pairs of
--- paths. The two biases of a pair are shared, and its two weights are shared if
--- config.tie_word_embeddings is true.
---@param family table
---@param Model table
---@param options {attach: function, score: function, ties: {[1]: string, [2]: string}[]}
function M.masked_lm(family, Model, options)
   local cls = family:class "ForMaskedLM"
   cls.labels, family.main = "tokens", family.name .. "ForMaskedLM"
   function cls:build(config)
      self[family.prefix] = M.without_pooler(Model)(config)
      options.attach(self, config)
   end
   function cls:tied_weights()
      local ties = {}
      for _, pair in ipairs(options.ties) do
         if self.config.tie_word_embeddings or pair[1]:find "bias$" then ties[#ties + 1] = pair end
      end
      return ties
   end
   function cls:compute(a)
      local results = self[family.prefix](a)
      local logits = options.score(self, results.last_hidden_state)
      return define.with(results, {
         logits = logits, loss = a.labels and define.token_loss(logits, a.labels),
      })
   end
end

--- Declares the classes for token classification and for question answering, which all encoders
--- have.
---@param family table
---@param Model table
function M.token_heads(family, Model)
   local base = M.without_pooler(Model)
   define.token_classification(family, base, "hidden_dropout_prob")
   define.question_answering(family, base)
end

return M
