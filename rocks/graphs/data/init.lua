-- init.lua - torch.graphs.data: graphs, and batches of graphs.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.graphs.data", {
   Data = "Data",
   Batch = "Batch",
   HeteroData = "HeteroData",
}))
