-- init.lua - torch.distributed.tensor: tensors and layers that are split over ranks.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   Shard = "tlua.distributed.tensor.layouts",
   Replicate = "tlua.distributed.tensor.layouts",
   Partial = "tlua.distributed.tensor.layouts",
   Placement = "tlua.distributed.tensor.layouts",
   DTensor = "tlua.distributed.tensor.DTensor",
   distribute_tensor = "tlua.distributed.tensor.DTensor",
   zeros = "tlua.distributed.tensor.DTensor",
   ones = "tlua.distributed.tensor.DTensor",
   full = "tlua.distributed.tensor.DTensor",
   DeviceMesh = "tlua.distributed.device_mesh",
   init_device_mesh = "tlua.distributed.device_mesh",
   parallel = "tlua.distributed.tensor.parallel",
   experimental = "tlua.distributed.tensor.experimental",
})
