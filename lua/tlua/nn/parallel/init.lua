-- init.lua - torch.nn.parallel: modules that are trained by many processes at once.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   DataParallel = "tlua.nn.parallel.DataParallel",
   DistributedDataParallel = "tlua.distributed.DistributedDataParallel",
})
