-- init.lua - torch.distributed.algorithms: hooks and averages for training on many ranks.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   Join = "tlua.distributed.algorithms.Join",
   model_averaging = "tlua.distributed.algorithms.model_averaging",
   ddp_comm_hooks = "tlua.distributed.algorithms.ddp_comm_hooks",
})
