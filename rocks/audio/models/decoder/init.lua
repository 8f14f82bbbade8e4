-- init.lua - torch.audio.models.decoder: finds words from the scores of tokens.

require "tlua" -- lets `require` find the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.audio.models.decoder", {
   CTCDecoder = "ctc_decoder",
}))
