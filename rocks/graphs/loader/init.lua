-- init.lua - torch.graphs.loader: loaders that make batches of graphs, or batches of parts of a
-- large graph.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.graphs.loader", {
   DataLoader = "DataLoader",
   NeighborLoader = "NeighborLoader",
   HGTLoader = "HGTLoader",
   Cluster = "ClusterData ClusterLoader",
}))
