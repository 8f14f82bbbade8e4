-- init.lua - torch.utils.tensorboard: curves, images and more, in files that TensorBoard reads.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.utils.tensorboard", {
   SummaryWriter = "SummaryWriter", reader = "read follow", top = "_top",
}))
