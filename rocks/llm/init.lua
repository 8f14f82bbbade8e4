-- init.lua - torch.llm: runs language models from GGUF files, with llama-cpp-python's names:
--
--    local llm = torch.llm.load "model.gguf"
--    print(llm("Once upon a time", {max_tokens = 32}).choices[1].text)
--
-- Token numbers count from 1.

require "tlua" -- this call makes the core's modules known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.llm", {
   Model = "Model load",
   Batch = "Batch Sequence",
   tokenizer = "Tokenizer",
   layers = "Linear Embedding",
   grammar = "Grammar",
   command = "_chat",
}))
