-- distributed.lua - torch.data.distributed, where PyTorch has the sampler, too.

local lazy = require "tlua.lazy"

return lazy.load({}, {DistributedSampler = "tlua.data.DistributedSampler"})
