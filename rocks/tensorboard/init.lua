-- init.lua - torch.utils.tensorboard: logs curves, images and more in files that TensorBoard reads.

require "tlua" -- this call loads the core, so that `require` finds its modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.tensorboard", {
   SummaryWriter = "SummaryWriter", reader = "read follow", top = "_top",
}))
