-- init.lua - torch.graphs.nn: layers and models of graphs.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.graphs.nn", {
   MessagePassing = "MessagePassing",
   Linear = "Linear",
   ["conv.gcn"] = "GCNConv gcn_norm",
}))
