-- init.lua - torch.audio.models.decoder: finds words from the scores of tokens.

require "tlua" -- defines the core's modules for `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.audio.models.decoder", {
   CTCDecoder = "ctc_decoder",
}))
