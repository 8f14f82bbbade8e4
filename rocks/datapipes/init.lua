-- init.lua - torch.data.datapipes: pipes for loading data. Each step reads from the previous step
-- on demand.

require "tlua" -- this call makes the core's modules known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.datapipes", {iter = "iter", map = "map"}))
