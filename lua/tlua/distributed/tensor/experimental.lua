-- experimental.lua - torch.distributed.tensor.experimental: PyTorch's path to context_parallel.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.distributed.tensor", {
   context = "context_parallel context_parallel_unshard ring_attention",
   MixtureOfExperts = "MixtureOfExperts",
}))
