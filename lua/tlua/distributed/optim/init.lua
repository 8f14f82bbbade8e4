-- init.lua - torch.distributed.optim: optimizers of many ranks.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   ZeroRedundancyOptimizer = "tlua.distributed.optim.ZeroRedundancyOptimizer",
   PostLocalSGDOptimizer = "tlua.distributed.optim.PostLocalSGDOptimizer",
})
