-- init.lua - torch.amp: mixed precision. torch.autocast itself is written in C
-- (src/lua/modes/autocast.c).

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.amp", {
   custom = "autocast custom_fwd custom_bwd is_autocast_available",
   GradScaler = "GradScaler",
})

-- Modules under PyTorch's paths, such as torch.amp.grad_scaler.GradScaler.
modules.autocast_mode, modules.grad_scaler = "tlua.amp", "tlua.amp"

return lazy.load({}, modules)
