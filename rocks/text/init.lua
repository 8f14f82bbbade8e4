-- init.lua - torch.text: converts text to token numbers and back.

require "tlua" -- defines the core's modules for `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.text", {
   BPE = "BPE", Encoding = "Encoding", Tokenizer = "Tokenizer",
}))
