-- init.lua - torch.data.datapipes: data that flows from one step to the next, read on demand.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.data.datapipes", {iter = "iter", map = "map"}))
