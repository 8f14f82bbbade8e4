-- init.lua - torch.text: converts text to the numbers of tokens and back.

require "tlua" -- defines the core's modules for `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.text", {BPE = "BPE"}))
