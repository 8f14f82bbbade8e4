-- init.lua - torch.data.datapipes: pipes for loading data. Each step reads from the previous step
-- on demand.

require "tlua" -- defines the core's modules for `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.datapipes", {iter = "iter", map = "map"}))
