-- init.lua - torch.distributed.tensor: layers whose matrices and activations are split over ranks.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   Shard = "tlua.distributed.tensor.layouts",
   Replicate = "tlua.distributed.tensor.layouts",
   parallel = "tlua.distributed.tensor.parallel",
   experimental = "tlua.distributed.tensor.experimental",
})
