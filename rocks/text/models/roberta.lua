-- roberta.lua - RoBERTa (Liu et al., 2019) and XLM-RoBERTa: BERT with position numbers that count
-- only the tokens that are not padding.

local torch = require "tlua"
local class = require "tlua.class"
local define = require "tlua.text.models.define"
local encoder = require "tlua.text.models.encoder"

local nn, F = torch.nn, torch.nn.functional

local Head = class.class("text.models.RobertaLMHead", nn.Module)

function Head:__init(config)
   local size = config.hidden_size
   self.bias = nn.Parameter(torch.zeros(config.vocab_size))
   self.dense, self.layer_norm = nn.Linear(size, size), encoder.norm(size, config)
   self.decoder = nn.Linear(size, config.vocab_size)
end

function Head:forward(x) return self.decoder(self.layer_norm(F.gelu(self.dense(x)))) end

local function declare(model_type, name)
   local defaults = {}
   for key, value in pairs(encoder.defaults) do defaults[key] = value end
   defaults.vocab_size, defaults.pad_token_id, defaults.max_position_embeddings = 50265, 1, 514
   defaults.type_vocab_size, defaults.layer_norm_eps = 1, 1e-5
   local family = define.family {
      model_type = model_type, name = name, prefix = "roberta", defaults = defaults,
      has_types = true,
      finish = encoder.check,
      width = function(config) return config.hidden_size end,
      ignore = {"%.pooler%."},
   }
   local Model = encoder.model(family, {pools = true, after_padding = true})
   encoder.masked_lm(family, Model, {
      attach = function(self, config) self.lm_head = Head(config) end,
      score = function(self, x) return self.lm_head(x) end,
      ties = {
         {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
         {"lm_head.decoder.bias", "lm_head.bias"},
      },
   })
   encoder.classification(family, Model, "tanh")
   encoder.token_heads(family, Model)
   return family
end

return define.by_type(declare("roberta", "Roberta"), declare("xlm-roberta", "XLMRoberta"))
