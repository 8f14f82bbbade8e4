-- init.lua - torch.graphs.nn: layers and models for graphs.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.graphs.nn", {
   MessagePassing = "MessagePassing",
   Linear = "Linear",
   ["conv.gcn"] = "GCNConv gcn_norm",
   ["conv.attention"] = "GATConv GATv2Conv TransformerConv",
   ["conv.sums"] = [[SAGEConv GraphConv GINConv GINEConv EdgeConv ChebConv APPNP SGConv
      GatedGraphConv]],
   ["conv.relations"] = "PNAConv RGCNConv",
   ["conv.hgt"] = "HGTConv",
   pool = "global_add_pool global_mean_pool global_max_pool TopKPooling SAGPooling",
   norm = "BatchNorm GraphNorm",
   neighbors = "knn_graph radius_graph random_walk Node2Vec",
   hetero = "HeteroConv",
   models = "MLP JumpingKnowledge GCN GraphSAGE GIN GAT",
}))
