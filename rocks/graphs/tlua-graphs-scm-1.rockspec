-- cd rocks/graphs && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-graphs"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Neural networks on graphs, by PyTorch Geometric's names",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.graphs.adjacency"] = "adjacency.lua",
      ["tlua.graphs.checks"] = "checks.lua",
      ["tlua.graphs.data.Batch"] = "data/Batch.lua",
      ["tlua.graphs.data.Data"] = "data/Data.lua",
      ["tlua.graphs.data.HeteroData"] = "data/HeteroData.lua",
      ["tlua.graphs.data"] = "data/init.lua",
      ["tlua.graphs.datasets"] = "datasets.lua",
      ["tlua.graphs"] = "init.lua",
      ["tlua.graphs.loader.Cluster"] = "loader/Cluster.lua",
      ["tlua.graphs.loader.DataLoader"] = "loader/DataLoader.lua",
      ["tlua.graphs.loader.HGTLoader"] = "loader/HGTLoader.lua",
      ["tlua.graphs.loader.NeighborLoader"] = "loader/NeighborLoader.lua",
      ["tlua.graphs.loader"] = "loader/init.lua",
      ["tlua.graphs.loader.parts"] = "loader/parts.lua",
      ["tlua.graphs.loader.sampling"] = "loader/sampling.lua",
      ["tlua.graphs.matrix"] = "matrix.lua",
      ["tlua.graphs.nn.Linear"] = "nn/Linear.lua",
      ["tlua.graphs.nn.MessagePassing"] = "nn/MessagePassing.lua",
      ["tlua.graphs.nn.conv.attention"] = "nn/conv/attention.lua",
      ["tlua.graphs.nn.conv.gcn"] = "nn/conv/gcn.lua",
      ["tlua.graphs.nn.conv.hgt"] = "nn/conv/hgt.lua",
      ["tlua.graphs.nn.conv.relations"] = "nn/conv/relations.lua",
      ["tlua.graphs.nn.conv.sums"] = "nn/conv/sums.lua",
      ["tlua.graphs.nn.hetero"] = "nn/hetero.lua",
      ["tlua.graphs.nn"] = "nn/init.lua",
      ["tlua.graphs.nn.inits"] = "nn/inits.lua",
      ["tlua.graphs.nn.models"] = "nn/models.lua",
      ["tlua.graphs.nn.neighbors"] = "nn/neighbors.lua",
      ["tlua.graphs.nn.norm"] = "nn/norm.lua",
      ["tlua.graphs.nn.pool"] = "nn/pool.lua",
      ["tlua.graphs.pickle"] = "pickle.lua",
      ["tlua.graphs.transforms"] = "transforms.lua",
      ["tlua.graphs.utils.dense"] = "utils/dense.lua",
      ["tlua.graphs.utils.edges"] = "utils/edges.lua",
      ["tlua.graphs.utils"] = "utils/init.lua",
      ["tlua.graphs.utils.random"] = "utils/random.lua",
      ["tlua.graphs.utils.scatter"] = "utils/scatter.lua",
      ["tlua.graphs.utils.subgraphs"] = "utils/subgraphs.lua",
      ["tlua.graphs.vocabulary"] = "vocabulary.lua",
   },
}
