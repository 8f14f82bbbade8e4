-- init.lua - torch.utils.benchmark: how long statements take. Each part is loaded on first use.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.utils.benchmark", {
   Timer = "Timer", Measurement = "Measurement", Compare = "Compare",
}))
