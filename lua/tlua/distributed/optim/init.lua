-- init.lua - torch.distributed.optim: optimizers that work over many ranks.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   ZeroRedundancyOptimizer = "tlua.distributed.optim.ZeroRedundancyOptimizer",
   PostLocalSGDOptimizer = "tlua.distributed.optim.PostLocalSGDOptimizer",
})
