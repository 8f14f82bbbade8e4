-- distributed.lua - torch.data.distributed, the second path of DistributedSampler, as in PyTorch.

local lazy = require "tlua.lazy"

return lazy.load({}, {DistributedSampler = "tlua.data.DistributedSampler"})
