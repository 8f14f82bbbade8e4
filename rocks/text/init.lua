-- init.lua - torch.text: from text to numbers and back.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.text", {BPE = "BPE"}))
