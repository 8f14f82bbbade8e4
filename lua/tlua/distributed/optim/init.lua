-- init.lua - torch.distributed.optim: optimizers whose state is shared out over ranks.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   ZeroRedundancyOptimizer = "tlua.distributed.optim.ZeroRedundancyOptimizer",
})
