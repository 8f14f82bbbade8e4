-- init.lua - torch.amp: mixed precision. torch.autocast itself is in C (src/lua/autocast.c).

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.amp", {
   custom = "autocast custom_fwd custom_bwd is_autocast_available",
   GradScaler = "GradScaler",
}))
