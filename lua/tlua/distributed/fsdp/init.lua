-- init.lua - torch.distributed.fsdp: models whose parameters are sharded over ranks.

local lazy = require "tlua.lazy"

return lazy.entitle(lazy.load({}, lazy.modules("tlua.distributed.fsdp", {
   fully_shard = "fully_shard full_tensor register_fsdp_forward_method",
   policies = "MixedPrecisionPolicy CPUOffloadPolicy",
})), "torch.distributed.fsdp", "tlua.distributed.unsupported")
