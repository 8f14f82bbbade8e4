-- init.lua - torch.audio.models.decoder: a search that finds the most probable words for the scores
-- of tokens.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.audio.models.decoder", {
   CTCDecoder = "ctc_decoder",
}))
