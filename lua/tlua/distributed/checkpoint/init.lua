-- init.lua - torch.distributed.checkpoint: what many ranks save together, and any number of ranks
-- loads.

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.distributed.checkpoint", {
   save = "save async_save",
   load = "load",
   state_dict = [[get_model_state_dict set_model_state_dict get_optimizer_state_dict
      set_optimizer_state_dict get_state_dict set_state_dict StateDictOptions]],
})
modules.state_dict = "tlua.distributed.checkpoint.state_dict" -- the same names, as PyTorch has them
modules._boxes = "tlua.distributed.checkpoint.boxes" -- for its spec

return lazy.load({}, modules)
