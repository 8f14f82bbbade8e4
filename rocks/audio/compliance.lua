-- compliance.lua - torch.audio.compliance: features of sound with the numbers that other programs
-- compute.

local lazy = require "tlua.lazy"

return lazy.load({}, {kaldi = "tlua.audio.kaldi"})
