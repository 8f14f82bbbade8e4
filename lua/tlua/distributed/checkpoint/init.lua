-- init.lua - torch.distributed.checkpoint: checkpoints that many ranks save together and that any
-- number of ranks can load.

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.distributed.checkpoint", {
   save = "save async_save",
   load = "load",
   state_dict = [[get_model_state_dict set_model_state_dict get_optimizer_state_dict
      set_optimizer_state_dict get_state_dict set_state_dict StateDictOptions]],
})
-- the functions of state_dict.lua under a second path that PyTorch also has
modules.state_dict = "tlua.distributed.checkpoint.state_dict"
modules._boxes = "tlua.distributed.checkpoint.boxes" -- Only a spec uses this field.

return lazy.load({}, modules)
