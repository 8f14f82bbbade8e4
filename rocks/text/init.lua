-- init.lua - torch.text: from text to numbers and back.

require "tlua" -- makes the modules of the core known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.text", {BPE = "BPE"}))
