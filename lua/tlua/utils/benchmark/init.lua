-- init.lua - torch.utils.benchmark: measures how long statements take. Each part of the module is
-- loaded on first use.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.utils.benchmark", {
   Timer = "Timer", Measurement = "Measurement", Compare = "Compare",
}))
