-- init.lua - torch.utils.tensorboard: curves, images and more, in files that TensorBoard reads.

require "tlua" -- makes the modules of the core known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.tensorboard", {
   SummaryWriter = "SummaryWriter", reader = "read follow", top = "_top",
}))
