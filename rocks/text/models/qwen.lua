-- qwen.lua - Qwen2 and Qwen3. Qwen2 adds biases to queries, keys and values. Qwen3 normalises
-- queries and keys instead. The layers after the first max_window_layers may have a sliding window.

local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"

local defaults = {
   vocab_size = 151936, intermediate_size = 22016, max_position_embeddings = 32768,
   use_sliding_window = false, max_window_layers = 28,
}

local function finish(config)
   if not config.use_sliding_window then config.sliding_window = nil end
end

local function slides(config, i) return i > config.max_window_layers end

local function has_bias(config) return config.attention_bias end

return define.by_type(
   decoder.family {
      model_type = "qwen2", name = "Qwen2", defaults = defaults, finish = finish,
      traits = {qkv_bias = function() return true end, slides = slides},
   },
   decoder.family {
      model_type = "qwen3", name = "Qwen3", defaults = defaults, finish = finish,
      traits = {qkv_bias = has_bias, o_bias = has_bias, qk_norm = "head", slides = slides},
   })
