-- dense.lua - converts edges and nodes to dense matrices and back, computes Laplacians, and splits
-- batches.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.graphs.checks"
local edges = require "tlua.graphs.utils.edges"

local M = {}

-- Checks a batch vector, which has the number of each node's graph. Returns the vector and the
-- number of graphs. Without a vector, all nodes belong to one graph.
local function batch_of(title, batch, n, size, device)
   if batch == nil then
      return torch.ones(n, {dtype = "int64", device = device}), size or 1
   end
   checks.batch(title, batch, n, size)
   if not size then size = batch:numel() > 0 and batch:max():item() or 0 end
   return batch, size
end

-- Returns two vectors: the number of nodes of each graph, and the number of nodes in all graphs
-- before it.
local function counts_of(batch, size)
   local counts = batch:numel() > 0 and torch.bincount(batch, {minlength = size})
      or torch.zeros(size, {dtype = "int64", device = batch.device})
   return counts, counts:cumsum(1) - counts
end

local function check_sorted(title, batch)
   if batch:numel() > 1 and batch[{{2, -1}}]:lt(batch[{{1, -2}}]):any():item() then
      torch.raise(title .. ": batch: expected ascending numbers of graphs, got an unsorted vector")
   end
end

local take_adj = args.signature [[graphs.utils.to_dense_adj(edge_index: tensor, batch: tensor?,
   edge_attr: tensor?, max_num_nodes: count?, batch_size: count?)]]

--- Returns the adjacency matrix of each graph of a batch, (graphs, nodes, nodes, ...). The values
--- of duplicate edges are summed.
---
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(torch.graphs.utils.to_dense_adj(edges)[1][1])
---     --> tensor([0., 1.])
---@param edge_index Tensor
---@param batch? Tensor  the graph of each node, ascending
---@param edge_attr? Tensor
---@param max_num_nodes? integer  the matrices' size; edges of nodes beyond it are left out
---@param batch_size? integer  the number of graphs
---@return Tensor
function M.to_dense_adj(...)
   local title <const> = "graphs.utils.to_dense_adj"
   local a = take_adj(...)
   local edge_index = checks.edges(title, a.edge_index)
   checks.edge_attr(title, edge_index, a.edge_attr)
   local n = a.batch and a.batch:numel() or checks.num_nodes(title, edge_index)
   if not a.batch and a.max_num_nodes then n = math.max(n, a.max_num_nodes) end
   local batch, size = batch_of(title, a.batch, n, a.batch_size, edge_index.device)
   checks.range(title, "edge_index", edge_index, n)
   check_sorted(title, batch)
   local counts, before = counts_of(batch, size)
   local width = a.max_num_nodes or counts:numel() > 0 and counts:max():item() or 0
   local attr = a.edge_attr or torch.ones(edge_index:size(2), {device = edge_index.device})
   local sizes = {size * width * width, table.unpack(attr.shape, 2)}
   local graph = batch:index_select(1, edge_index[1])
   local row = edge_index[1] - before:index_select(1, graph)
   local col = edge_index[2] - before:index_select(1, batch:index_select(1, edge_index[2]))
   local inside = row:le(width) & col:le(width)
   if not inside:all():item() then
      graph, row, col, attr = graph[inside], row[inside], col[inside], attr[inside]
   end
   local place = ((graph - 1) * width + row - 1) * width + col
   local flat = attr:new_zeros(sizes):index_add(1, place, attr)
   return flat:view({size, width, width, table.unpack(attr.shape, 2)})
end

local take_batch = args.signature [[graphs.utils.to_dense_batch(x: tensor, batch: tensor?,
   fill_value: number = 0, max_num_nodes: count?, batch_size: count?)]]

--- Returns a block with the rows of each graph, (graphs, nodes, ...), and a mask that is false for
--- padding rows.
---
---     local U = torch.graphs.utils
---     local x = torch.tensor {{1.0}, {2.0}, {3.0}}
---     local dense, mask = U.to_dense_batch(x, torch.tensor {1, 1, 2})
---     print(dense:squeeze(3)[2], mask[2])
---     --> tensor([3., 0.])	tensor([ True, False])
---@param x Tensor
---@param batch? Tensor  the graph of each node, ascending
---@param fill_value? number  the value of padding rows
---@param max_num_nodes? integer  the size of blocks; further rows are left out
---@param batch_size? integer  the number of graphs
---@return Tensor dense
---@return Tensor mask  (graphs, nodes) bool
function M.to_dense_batch(...)
   local title <const> = "graphs.utils.to_dense_batch"
   local a = take_batch(...)
   local x = a.x
   if x:dim() == 0 then args.refuse(title, "x", "a tensor with a row for each node", x) end
   local batch, size = batch_of(title, a.batch, x:size(1), a.batch_size, x.device)
   check_sorted(title, batch)
   local counts, before = counts_of(batch, size)
   local width = a.max_num_nodes or counts:numel() > 0 and counts:max():item() or 0
   local inner = torch.arange(1, x:size(1) + 1, {device = x.device}) - before:index_select(1, batch)
   local kept = inner:le(width)
   if not kept:all():item() then batch, inner, x = batch[kept], inner[kept], x[kept] end
   local place = (batch - 1) * width + inner
   local sizes = {size * width, table.unpack(x.shape, 2)}
   local dense = x:new_full(sizes, a.fill_value):index_copy(1, place, x)
   local mask = torch.zeros(size * width, {dtype = "bool", device = x.device})
   if place:numel() > 0 then mask:index_fill_(1, place, true) end
   return dense:view({size, width, table.unpack(x.shape, 2)}), mask:view(size, width)
end

local take_sparse = args.signature [[graphs.utils.dense_to_sparse(adj: tensor, mask: tensor?)]]

--- Returns the edges and weights of the nonzero elements of adjacency matrices.
---
---     local adj = torch.tensor {{0.0, 2.0}, {0.0, 1.0}}
---     local edges, weight = torch.graphs.utils.dense_to_sparse(adj)
---     print(edges[1], edges[2], weight)
---     --> tensor([1, 2])	tensor([2, 2])	tensor([2., 1.])
---@param adj Tensor  (nodes, nodes) or (graphs, nodes, nodes)
---@param mask? Tensor  (graphs, nodes) bool: false for padding nodes
---@return Tensor edge_index
---@return Tensor edge_weight
function M.dense_to_sparse(...)
   local title <const> = "graphs.utils.dense_to_sparse"
   local a = take_sparse(...)
   local adj = a.adj
   local rank = adj:dim()
   if rank ~= 2 and rank ~= 3 or adj:size(rank) ~= adj:size(rank - 1) then
      args.refuse(title, "adj", "(nodes, nodes) or (graphs, nodes, nodes)", adj)
   end
   if rank == 2 then
      local places = adj:detach():nonzero()
      local row, col = places:select(2, 1), places:select(2, 2)
      return torch.stack {row, col}, adj[{row, col}]
   end
   local graphs, n = adj:size(1), adj:size(2)
   local mask = a.mask or torch.ones(graphs, n, {dtype = "bool", device = adj.device})
   if mask.dtype ~= "bool" or mask:dim() ~= 2 or mask:size(1) ~= graphs or mask:size(2) ~= n then
      args.refuse(title, "mask", ("a bool tensor of shape (%d, %d)"):format(graphs, n), mask)
   end
   local numbers = mask:view(-1):cumsum(1):view(graphs, n)
   local there = adj:detach():ne(0) & mask:unsqueeze(2) & mask:unsqueeze(3)
   local places = there:nonzero()
   local graph, row, col = places:select(2, 1), places:select(2, 2), places:select(2, 3)
   return torch.stack {numbers[{graph, row}], numbers[{graph, col}]}, adj[{graph, row, col}]
end

local take_unbatch = args.signature [[graphs.utils.unbatch(src: tensor, batch: tensor,
   dim: dim = 1, batch_size: count?)]]

--- Splits rows into one tensor for each graph.
---
---     local U = torch.graphs.utils
---     local parts = U.unbatch(torch.arange(3), torch.tensor {1, 2, 2})
---     print(parts[1], parts[2])
---     --> tensor([0])	tensor([1, 2])
---@param src Tensor
---@param batch Tensor  the graph of each row, ascending
---@param dim? integer
---@param batch_size? integer  the number of graphs
---@return Tensor[]
function M.unbatch(...)
   local title <const> = "graphs.utils.unbatch"
   local a = take_unbatch(...)
   local batch, size = batch_of(title, a.batch, a.src:size(a.dim), a.batch_size)
   check_sorted(title, batch)
   return a.src:split(counts_of(batch, size):tolist(), a.dim)
end

local take_unbatch_edges = args.signature [[graphs.utils.unbatch_edge_index(edge_index: tensor,
   batch: tensor, batch_size: count?)]]

--- Splits edges into one tensor for each graph, and numbers the nodes of each graph from 1.
---
---     local U = torch.graphs.utils
---     local edges = torch.tensor {{1, 2, 3}, {2, 1, 3}}
---     local parts = U.unbatch_edge_index(edges, torch.tensor {1, 1, 2})
---     print(parts[1][1], parts[2][1])
---     --> tensor([1, 2])	tensor([1])
---@param edge_index Tensor  edges of the same graph are adjacent
---@param batch Tensor  the graph of each node, ascending
---@param batch_size? integer  the number of graphs
---@return Tensor[]
function M.unbatch_edge_index(...)
   local title <const> = "graphs.utils.unbatch_edge_index"
   local a = take_unbatch_edges(...)
   local edge_index = checks.edges(title, a.edge_index)
   local batch, size = batch_of(title, a.batch, a.batch:numel(), a.batch_size)
   check_sorted(title, batch)
   checks.range(title, "edge_index", edge_index, batch:numel())
   local graph = batch:index_select(1, edge_index[1])
   check_sorted(title, graph)
   local _, before = counts_of(batch, size)
   local inner = edge_index - before:index_select(1, graph)
   return inner:split(counts_of(graph, size):tolist(), 2)
end

local take_laplacian = args.signature [[graphs.utils.get_laplacian(edge_index: tensor,
   edge_weight: tensor?, normalization: string?, dtype: string = 'float32', num_nodes: count?)]]

--- Returns the Laplacian of a graph as edges and weights. It is D - A, or I - D^(-1/2) A D^(-1/2)
--- with the normalisation "sym", or I - A / D with "rw".
---
---     local U = torch.graphs.utils
---     local edges, weight = U.get_laplacian(torch.tensor {{1, 2}, {2, 1}})
---     print(edges[1], weight)
---     --> tensor([1, 2, 1, 2])	tensor([-1., -1.,  1.,  1.])
---@param edge_index Tensor
---@param edge_weight? Tensor
---@param normalization? "sym"|"rw"  the normalisation; nil for D - A
---@param dtype? string  the dtype of the weights if edge_weight is nil
---@param num_nodes? integer
---@return Tensor edge_index
---@return Tensor edge_weight
function M.get_laplacian(...)
   local title <const> = "graphs.utils.get_laplacian"
   local a = take_laplacian(...)
   checks.edges(title, a.edge_index)
   checks.edge_attr(title, a.edge_index, a.edge_weight, "edge_weight")
   local kind = a.normalization
   if kind and kind ~= "sym" and kind ~= "rw" then
      args.refuse(title, "normalization", '"sym", "rw" or nil', kind)
   end
   local n = checks.num_nodes(title, a.edge_index, a.num_nodes)
   local edge_index, weight = edges.remove_self_loops(a.edge_index, a.edge_weight)
   weight = weight
      or torch.ones(edge_index:size(2), {dtype = a.dtype, device = edge_index.device})
   local degree = weight:new_zeros(n):index_add(1, edge_index[1], weight)
   local all = edges.add_self_loops(edge_index, {num_nodes = n})
   if not kind then return all, torch.cat {-weight, degree} end
   if kind == "sym" then
      local root = degree:pow(-0.5)
      root = root:masked_fill(root:eq(math.huge), 0)
      weight = root:index_select(1, edge_index[1]) * weight * root:index_select(1, edge_index[2])
   else
      local inverse = degree:reciprocal()
      inverse = inverse:masked_fill(inverse:eq(math.huge), 0)
      weight = inverse:index_select(1, edge_index[1]) * weight
   end
   return all, torch.cat {-weight, weight:new_ones(n)}
end

return M
