-- init.lua - torch.vision.transforms: transforms of images, all in its field v2.

local lazy = require "tlua.lazy"

return lazy.load({}, {v2 = "tlua.vision.transforms.v2"})
