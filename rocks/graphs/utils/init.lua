-- init.lua - torch.graphs.utils: functions on edges, and on the values of nodes and edges.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.graphs.utils", {
   scatter = "scatter segment softmax",
   edges = [[degree coalesce sort_edge_index contains_self_loops remove_self_loops add_self_loops
      add_remaining_self_loops segregate_self_loops is_undirected to_undirected
      contains_isolated_nodes remove_isolated_nodes]],
   subgraphs = "subgraph k_hop_subgraph mask_to_index index_to_mask",
   random = [[negative_sampling dropout_edge dropout_node erdos_renyi_graph
      barabasi_albert_graph stochastic_blockmodel_graph]],
   dense = [[to_dense_adj to_dense_batch dense_to_sparse unbatch unbatch_edge_index
      get_laplacian]],
}))
