-- init.lua - torch.data.datapipes: data that flows from one step to the next, read on demand.

require "tlua" -- makes the modules of the core known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.datapipes", {iter = "iter", map = "map"}))
