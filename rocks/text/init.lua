-- init.lua - torch.text: converts text to token numbers and back, and provides language models.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.text", {
   BPE = "BPE", Encoding = "Encoding", Template = "Template", Tokenizer = "Tokenizer",
   models = "from_pretrained from_config list_models",
   nf4 = "nf4", peft = "peft", preference = "preference",
   trainers = "trainers",
   ["models.cache"] = "Cache", ["models.PreTrainedModel"] = "PreTrainedModel",
}))
