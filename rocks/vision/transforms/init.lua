-- init.lua - torch.vision.transforms: transforms of images. Its only field, v2, contains all of
-- them.

local lazy = require "tlua.lazy"

return lazy.load({}, {v2 = "tlua.vision.transforms.v2"})
