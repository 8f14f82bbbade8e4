-- init.lua - torch.graphs: neural networks on graphs, with PyTorch Geometric's names:
--
--    local graphs = torch.graphs
--    local data = graphs.datasets.KarateClub():get(1)
--    local conv = graphs.nn.GCNConv(data.num_features, 4)
--    print(conv(data.x, data.edge_index).shape)
--
-- Nodes, edges, graphs of a batch and classes count from 1, as all positions do.

require "tlua" -- this call makes the core's modules known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, {
   data = "tlua.graphs.data",
   datasets = "tlua.graphs.datasets",
   loader = "tlua.graphs.loader",
   nn = "tlua.graphs.nn",
   transforms = "tlua.graphs.transforms",
   utils = "tlua.graphs.utils",
})
