-- init.lua - torch.nn.parallel: wrappers that train one module on many devices or processes.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   DataParallel = "tlua.nn.parallel.DataParallel",
   data_parallel = "tlua.nn.parallel.data_parallel",
   DistributedDataParallel = "tlua.distributed.DistributedDataParallel",
})
