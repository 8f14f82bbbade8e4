-- init.lua - torch.vision.transforms: transforms of images. The field v2 contains all of them. They
-- are fields of torch.vision.transforms as well, where torchvision has their first versions.

local lazy = require "tlua.lazy"

local fields = {v2 = "tlua.vision.transforms.v2"}
for name, module in next, lazy.fields(require "tlua.vision.transforms.v2") do
   fields[name] = module
end

return lazy.load({}, fields)
