-- bert.lua - BERT (Devlin et al., 2018).

local define = require "tlua.text.models.define"
local encoder = require "tlua.text.models.encoder"

local family = define.family {
   model_type = "bert", name = "Bert", prefix = "bert", defaults = encoder.defaults,
   has_types = true,
   finish = encoder.check,
   width = function(config) return config.hidden_size end,
   ignore = {"^cls%.seq_relationship%.", "%.pooler%."},
}

local Model = encoder.model(family, {pools = true})

encoder.masked_lm(family, Model, {
   attach = function(self, config) self.cls = encoder.Heads(config) end,
   score = function(self, x) return self.cls.predictions(x) end,
   ties = {
      {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias"},
   },
})
encoder.classification(family, Model)
encoder.token_heads(family, Model)

return define.by_type(family)
