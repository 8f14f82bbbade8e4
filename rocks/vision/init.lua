-- init.lua - torch.vision: models, operators, transforms and pictures, with torchvision's names.

require "tlua" -- after this, `require` finds the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, {
   datasets = "tlua.vision.datasets",
   io = "tlua.vision.io",
   models = "tlua.vision.models",
   ops = "tlua.vision.ops",
   transforms = "tlua.vision.transforms",
   tv_tensors = "tlua.vision.tv_tensors",
   utils = "tlua.vision.utils",
})
