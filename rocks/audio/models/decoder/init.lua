-- init.lua - torch.audio.models.decoder: from scores of tokens to words.

require "tlua" -- defines the core's modules for `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.audio.models.decoder", {
   CTCDecoder = "ctc_decoder",
}))
