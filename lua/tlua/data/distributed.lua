-- distributed.lua - torch.data.distributed, a second path of DistributedSampler, as in PyTorch.

local lazy = require "tlua.lazy"

return lazy.load({}, {DistributedSampler = "tlua.data.DistributedSampler"})
