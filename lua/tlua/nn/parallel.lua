-- parallel.lua - torch.nn.parallel.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   DistributedDataParallel = "tlua.distributed.DistributedDataParallel",
})
