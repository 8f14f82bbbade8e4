-- init.lua - torch.data.datapipes: pipes for loading data. Each step reads from the previous step
-- on demand.

require "tlua" -- lets `require` find the core's modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.datapipes", {iter = "iter", map = "map"}))
