-- vocabulary.lua - the meaning of parameters in torch.graphs, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
add_self_loops: whether each node gets an edge to itself
adj: the adjacency matrix
adjacency: the edges as a sparse matrix
aggr: how messages are reduced, such as "sum", "mean" or "max"
attributes: attributes by name
batch: the graph of each node, from 1
bias: whether there is a bias
cached: whether the first graph's normalised edges are used for all calls
data_list: the graphs
dim_size: the number of groups
edge_attr: the features of edges, a row each
edge_index: the sources and targets of edges, (2, edges) int64
edge_weight: the weight of each edge
flow: the direction of messages
in_channels: the number of features of a node
index: the group of each row, from 1
inputs: the aggregated messages
key: the attribute's name
max_num_nodes: the greatest number of nodes of a graph
name: the attribute's name
node_dim: the dimension of nodes
num_nodes: the number of nodes; by default the greatest position
out_channels: the number of features of a node in the result
p: the probability
ptr: the first row of each group, and the number of rows plus 1
reduce: how values are reduced: "sum", "mean", "max", "min" or "mul"
relabel_nodes: whether the nodes of the result are numbered from 1
sort_by_row: whether edges are sorted by their sources
src: the values
subset: nodes, or a mask of nodes
x: the features of nodes
x_j: the features of the source of each edge
]]
