-- llama.lua - LLaMA 2 and 3 (Touvron et al., 2023; Grattafiori et al., 2024).

local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"

local function has_bias(config) return config.attention_bias end

return define.by_type(decoder.family {
   model_type = "llama", name = "Llama", traits = {qkv_bias = has_bias, o_bias = has_bias},
})
