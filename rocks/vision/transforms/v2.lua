-- v2.lua - torch.vision.transforms.v2: transforms of images as objects; its field `functional` has
-- them as functions.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.vision.transforms", {
   classes = [[Compose Resize CenterCrop RandomCrop RandomResizedCrop RandomHorizontalFlip
      RandomVerticalFlip Normalize ToDtype ColorJitter]],
   functional = "functional",
}))
