-- mistral.lua - Mistral: LLaMA's decoder with a sliding window (Jiang et al., 2023).

local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"
local configs = require "tlua.text.models.config"

return define.by_type(decoder.family {
   model_type = "mistral", name = "Mistral",
   defaults = {
      intermediate_size = 14336, num_key_value_heads = 8, max_position_embeddings = 131072,
      sliding_window = configs.none,
   },
})
