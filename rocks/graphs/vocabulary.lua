-- vocabulary.lua - describes the parameters of torch.graphs, for help and the manual. The format is
-- explained in lua/tlua/repl/vocabulary.lua.
return [[
K: the number of steps
act: the activation: a name, a function, or false
act_first: whether the activation comes before the normalisation
add_self_loops: whether each node gets an edge to itself
adj: the adjacency matrix
adjacency: the edges as a sparse matrix
affine: whether there are a weight and a bias
aggr: how messages are reduced, such as "sum", "mean" or "max"
aggregators: names of reductions
alpha: the share of the first features
attn: the features from which scores are computed
attr: the name of the attribute with the values
attributes: attributes by name
batch: the graph of each node, from 1
bias: whether there is a bias
cached: whether the first graph's normalised edges are used for all calls
channel_list: the widths from the input to the output
concat: whether the heads' results are joined, or averaged
data_list: the graphs
deg: the number of nodes with degree 0, 1, 2 and so on
dim_size: the number of groups
drop_last: whether a smaller batch at the end is left out
dropout: the probability with which values are dropped in training
edge_attr: the features of edges, one row for each edge
edge_attr_dict: the features of edges of each type
edge_dim: the number of features of an edge
edge_index: the sources and targets of edges, (2, edges) int64
edge_type: the type of each edge, from 1
edge_weight: the weight of each edge
edge_weight_dict: the weights of edges of each type
eps: a small number
fill_value: the features of self loops, or the name of a reduction over the features of other edges
flow: the direction of messages
heads: the number of heads
hidden_channels: the width of hidden layers
in_channels: the number of features of a node
index: the group of each row, from 1
inputs: the aggregated messages
jk: how the results of layers are joined: "last", "cat", "max" or "lstm"
key: the attribute's name
max_num_nodes: the greatest number of nodes of a graph
momentum: the weight of a batch in the running statistics
name: the attribute's name
negative_slope: the slope of leaky_relu below 0
nn: the network
node_dim: the dimension of nodes
norm: the normalisation: a name, a class, or false
normalization: the normalisation by degrees: "sym", "rw" or none
normalize: whether weights are divided by degrees
num_layers: the number of layers
num_nodes: the number of nodes; by default the greatest position
num_relations: the number of types of edges
num_workers: the number of worker threads
out_channels: the number of features of a node in the result
p: the probability
ptr: the first row of each group, and the number of rows plus 1
reduce: how values are reduced: "sum", "mean", "max", "min" or "mul"
remove_edge_index: whether edge_index is removed
relabel_nodes: whether the nodes of the result are numbered from 1
residual: whether the features of the node are added
return_attention_weights: whether edges and their weights are also returned
root_weight: whether the features of the node itself have a weight
scalers: names of functions of the degree
share_weights: whether sources and targets have the same weights
shuffle: whether the order is random in each epoch
size: the numbers of sources and targets
sort_by_row: whether edges are sorted by their sources
src: the values
subset: nodes, or a mask of nodes
track_running_stats: whether there are running statistics
train_eps: whether eps is learnt
weights: the weight of each edge and head
x: the features of nodes
x_j: the features of the source of each edge
]]
