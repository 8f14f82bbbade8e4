-- distributed.lua - torch.data.distributed, which has DistributedSampler under a second path, as in
-- PyTorch.

local lazy = require "tlua.lazy"

return lazy.load({}, {DistributedSampler = "tlua.data.DistributedSampler"})
