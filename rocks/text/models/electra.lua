-- electra.lua - ELECTRA (Clark et al., 2020): BERT's encoder as a discriminator, which detects
-- replaced tokens, and as a small generator, which replaces them.

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.text.models.define"
local encoder = require "tlua.text.models.encoder"
local layers = require "tlua.text.models.layers"

local nn, F = torch.nn, torch.nn.functional

local defaults = {embedding_size = 128}
for key, value in pairs(encoder.defaults) do defaults[key] = value end
defaults.hidden_size, defaults.num_attention_heads, defaults.intermediate_size = 256, 4, 1024

local family = define.family {
   model_type = "electra", name = "Electra", prefix = "electra", defaults = defaults,
   has_types = true,
   finish = encoder.check,
   width = function(config) return config.hidden_size end,
}

local Model = encoder.model(family, {project = true})

local Predictions = class.class("text.models.ElectraPredictions", nn.Module)

function Predictions:__init(config)
   self.dense = nn.Linear(config.hidden_size, config.embedding_size)
   self.LayerNorm = encoder.norm(config.embedding_size, config)
end

function Predictions:forward(x) return self.LayerNorm(F.gelu(self.dense(x))) end

encoder.masked_lm(family, Model, {
   attach = function(self, config)
      self.generator_predictions = Predictions(config)
      self.generator_lm_head = nn.Linear(config.embedding_size, config.vocab_size)
   end,
   score = function(self, x) return self.generator_lm_head(self.generator_predictions(x)) end,
   ties = {{"generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"}},
})
encoder.classification(family, Model, "gelu")
encoder.token_heads(family, Model)

local Detector = class.class("text.models.ElectraDetector", nn.Module)

function Detector:__init(config)
   self.dense = nn.Linear(config.hidden_size, config.hidden_size)
   self.dense_prediction, self.act = nn.Linear(config.hidden_size, 1), config.hidden_act
end

function Detector:forward(x)
   return self.dense_prediction(layers.activated(self.dense, x, self.act)):squeeze(-1)
end

-- The discriminator, which returns a logit for each token. Labels are 1 for replaced tokens and 0
-- for other tokens.
local PreTraining = family:class "ForPreTraining"

function PreTraining:build(config)
   self.electra = Model(config)
   self.discriminator_predictions = Detector(config)
end

function PreTraining:compute(a)
   local results = self.electra(a)
   local logits, loss = self.discriminator_predictions(results.last_hidden_state), nil
   if a.labels then
      local labels = a.labels:to(logits.dtype)
      if a.attention_mask then
         local mask = a.attention_mask:ne(0)
         loss = F.binary_cross_entropy_with_logits(logits[mask], labels[mask])
      else
         loss = F.binary_cross_entropy_with_logits(logits, labels)
      end
   end
   return define.with(results, {logits = logits, loss = loss})
end

return define.by_type(family)
