-- init.lua - torch.audio: sound files, functions, transforms and models, with torchaudio's names.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, {
   compliance = "tlua.audio.compliance",
   functional = "tlua.audio.functional",
   models = "tlua.audio.models",
   transforms = "tlua.audio.transforms",
   load = "tlua.audio.files",
   save = "tlua.audio.files",
   info = "tlua.audio.files",
   stream = "tlua.audio.files",
})
