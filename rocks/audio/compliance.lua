-- compliance.lua - torch.audio.compliance: features as other programs compute them.

local lazy = require "tlua.lazy"

return lazy.load({}, {kaldi = "tlua.audio.kaldi"})
