-- neighbors.lua - graphs of neighbouring points in space, random walks, and node embeddings that
-- are learnt from random walks.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local nn = torch.nn

local M = {}

-- Calls fn(distances, first) for blocks of rows of the matrix that has the distances between all
-- points. `first` is the number of the block's first row. Points of different graphs have infinite
-- distance. Unless `loop` is set, a point has infinite distance from itself.
local function each_block(x, batch, loop, cosine, fn)
   local n = x:size(1)
   local size = math.max(1, 4194304 // math.max(n, 1))
   if cosine then x = nn.functional.normalize(x, {dim = 2}) end
   for first = 1, n, size do
      local last = math.min(n, first + size - 1)
      local block = x[{{first, last}}]
      local distances = cosine and 1 - block:matmul(x:t()) or torch.cdist(block, x)
      if batch then
         local apart = batch[{{first, last}}]:unsqueeze(2):ne(batch:unsqueeze(1))
         distances = distances:masked_fill(apart, math.huge)
      end
      if not loop then
         local rows = torch.arange(first, last + 1, {device = x.device}):unsqueeze(2)
         local cols = torch.arange(1, n + 1, {device = x.device}):unsqueeze(1)
         distances = distances:masked_fill(rows:eq(cols), math.huge)
      end
      fn(distances, first)
   end
end

-- Returns the edges that end at each point and begin at its nearest points. There are at most k of
-- them, and their distance is at most r.
local function nearest(title, a, k, r)
   local x = a.x:dim() == 1 and a.x:unsqueeze(2) or a.x
   if x:dim() ~= 2 or not x:is_floating_point() then
      args.refuse(title, "x", "a floating tensor of shape (points, dimensions)", a.x)
   end
   if a.flow ~= "source_to_target" and a.flow ~= "target_to_source" then
      args.refuse(title, "flow", '"source_to_target" or "target_to_source"', a.flow)
   end
   checks.batch(title, a.batch, x:size(1))
   local rows, cols = {}, {}
   torch.no_grad(function()
      each_block(x:detach(), a.batch, a.loop, a.cosine, function(distances, first)
         local count = math.min(k, distances:size(2))
         local values, index = distances:topk(count, 2, false)
         local kept = values:le(r) & values:lt(math.huge)
         local centers = torch.arange(first, first + distances:size(1), {device = x.device})
         rows[#rows + 1] = index[kept]
         cols[#cols + 1] = centers:unsqueeze(2):expand_as(index)[kept]
      end)
   end)
   if #rows == 0 then return torch.zeros(2, 0, {dtype = "int64", device = x.device}) end
   local from, to = torch.cat(rows), torch.cat(cols)
   if a.flow == "target_to_source" then from, to = to, from end
   return torch.stack {from, to}
end

local take_knn = args.signature [[graphs.nn.knn_graph(x: tensor, k: count, batch: tensor?,
   loop: boolean = false, flow: string = 'source_to_target', cosine: boolean = false)]]

--- Returns edges to each point from its k nearest points.
---
---     local x = torch.tensor {{0.0}, {1.0}, {5.0}}
---     local edges = torch.graphs.nn.knn_graph(x, 1)
---     print(edges[1], edges[2])
---     --> tensor([2, 1, 2])	tensor([1, 2, 3])
---@param x Tensor  (points, dimensions)
---@param k integer  the number of neighbours
---@param batch? Tensor
---@param loop? boolean  whether a point is its own neighbour
---@param flow? "source_to_target"|"target_to_source"
---@param cosine? boolean  whether the distance is 1 - cosine similarity instead of the Euclidean
--- one
---@return Tensor edge_index
function M.knn_graph(...)
   local a = take_knn(...)
   return nearest("graphs.nn.knn_graph", a, a.k, math.huge)
end

local take_radius = args.signature [[graphs.nn.radius_graph(x: tensor, r: number, batch: tensor?,
   loop: boolean = false, max_num_neighbors: count = 32, flow: string = 'source_to_target')]]

--- Returns edges to each point from its nearest points within distance r. A point gets at most
--- max_num_neighbors edges.
---
---     local x = torch.tensor {{0.0}, {1.0}, {5.0}}
---     local edges = torch.graphs.nn.radius_graph(x, 2)
---     print(edges[1], edges[2])
---     --> tensor([2, 1])	tensor([1, 2])
---@param x Tensor  (points, dimensions)
---@param r number  the radius
---@param batch? Tensor
---@param loop? boolean  whether a point is its own neighbour
---@param max_num_neighbors? integer
---@param flow? "source_to_target"|"target_to_source"
---@return Tensor edge_index
function M.radius_graph(...)
   local a = take_radius(...)
   return nearest("graphs.nn.radius_graph", a, a.max_num_neighbors, a.r)
end

-- Random walks ------------------------------------------------------------------------------------

-- Returns the edges in CSR form, sorted by source. It has the row pointers, the targets, and a key
-- for each edge by which an edge can be searched.
local function by_sources(row, col, n)
   local keys = ((row - 1) * n + col):sort(1)
   local counts = row:numel() > 0 and torch.bincount(row, {minlength = n})
      or torch.zeros(n, {dtype = "int64", device = row.device})
   return {first = counts:cumsum(1) - counts + 1, degree = counts, keys = keys, n = n,
      targets = (keys - 1):remainder(n) + 1}
end

-- Returns a random neighbour of each node, or the node itself if it has no neighbours.
local function step(graph, node)
   if graph.targets:numel() == 0 then return node end
   local degree = graph.degree:index_select(1, node)
   local random = torch.rand(node:numel(), {dtype = "float64", device = node.device})
   local pick = (random * degree):floor():long():minimum((degree - 1):clamp_min(0))
   local place = (graph.first:index_select(1, node) + pick):clamp_max(graph.targets:numel())
   return torch.where(degree:gt(0), graph.targets:index_select(1, place), node)
end

-- Returns the next nodes of biased walks. A step back to the previous node has the weight 1/p, a
-- step to a neighbour of the previous node has the weight 1, and any other step has the weight 1/q.
local function biased_step(graph, before, node, p, q)
   local most = math.max(1, 1 / p, 1 / q)
   local result = step(graph, node)
   local open = torch.arange(1, node:numel() + 1, {device = node.device})
   while open:numel() > 0 do
      local from, to = before:index_select(1, open), result:index_select(1, open)
      local key = (from - 1) * graph.n + to
      local place = torch.searchsorted(graph.keys, key):clamp_max(graph.keys:numel())
      local joined = graph.keys:index_select(1, place):eq(key)
      local weight = torch.where(to:eq(from), 1 / p, torch.where(joined, 1.0, 1 / q))
      local refused = torch.rand(open:numel(), {device = node.device}):ge(weight / most)
      refused = refused & graph.degree:index_select(1, node:index_select(1, open)):gt(0)
      open = open[refused]
      if open:numel() > 0 then
         result = result:index_copy(1, open, step(graph, node:index_select(1, open)))
      end
   end
   return result
end

local function walk(graph, start, length, p, q)
   local list = {start}
   for i = 1, length do
      if i == 1 or p == 1 and q == 1 or graph.keys:numel() == 0 then
         list[i + 1] = step(graph, list[i])
      else
         list[i + 1] = biased_step(graph, list[i - 1], list[i], p, q)
      end
   end
   return torch.stack(list, 2)
end

local function check_pq(title, p, q)
   if not (p > 0) then args.refuse(title, "p", "a number above 0", p) end -- luacheck: ignore 581
   if not (q > 0) then args.refuse(title, "q", "a number above 0", q) end -- luacheck: ignore 581
end

local take_walk = args.signature [[graphs.nn.random_walk(row: tensor, col: tensor, start: tensor,
   walk_length: count, p: number = 1, q: number = 1, num_nodes: count?)]]

--- Returns random walks along the edges (row, col), one walk from each node in `start`. A walk
--- returns to the previous node with weight 1/p, and moves to nodes that are not neighbours of the
--- previous node with weight 1/q. A walk stays at a node that has no edges.
---
---     local row, col = torch.tensor {1, 2, 3}, torch.tensor {2, 3, 1}
---     print(torch.graphs.nn.random_walk(row, col, torch.tensor {1}, 3))
---     --> tensor([[1, 2, 3, 1]])
---@param row Tensor  the sources of edges
---@param col Tensor  the targets of edges
---@param start Tensor  the first nodes
---@param walk_length integer  the number of steps
---@param p? number  the higher, the rarer a walk returns
---@param q? number  the higher, the rarer a walk leaves the neighbourhood
---@param num_nodes? integer
---@return Tensor  (walks, walk_length + 1)
function M.random_walk(...)
   local title <const> = "graphs.nn.random_walk"
   local a = take_walk(...)
   for _, name in ipairs {"row", "col", "start"} do checks.index(title, name, a[name]) end
   if a.row:numel() ~= a.col:numel() then
      args.refuse(title, "col", ("%d positions, as row has"):format(a.row:numel()), a.col)
   end
   check_pq(title, a.p, a.q)
   local n = checks.num_nodes(title, torch.cat {a.row, a.col, a.start}, a.num_nodes)
   return walk(by_sources(a.row, a.col, n), a.start, a.walk_length, a.p, a.q)
end

local take_node2vec = args.signature [[graphs.nn.Node2Vec(edge_index: tensor,
   embedding_dim: count, walk_length: count, context_size: count, walks_per_node: count = 1,
   p: number = 1, q: number = 1, num_negative_samples: count = 1, num_nodes: count?,
   sparse: boolean = false)]]

--- Node2Vec: learns embeddings of nodes from random walks (Grover and Leskovec, 2016).
--- `model:loader(options)` makes batches of walks, and `model:loss(pos, neg)` computes the loss of
--- a batch.
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     local model = torch.graphs.nn.Node2Vec(data.edge_index, 8, 6, 3)
---     for pos, neg in model:loader({batch_size = 34}):iter() do
---        print(pos.shape, neg.shape, model:loss(pos, neg):dim())
---     end
---     --> torch.Size([136, 3])	torch.Size([136, 3])	0
---@class graphs.nn.Node2Vec: nn.Module
---@field embedding nn.Embedding  the embeddings
---@overload fun(edge_index: Tensor, embedding_dim: integer, walk_length: integer,
--- context_size: integer, options?: table): graphs.nn.Node2Vec
local Node2Vec = class.class("graphs.nn.Node2Vec", nn.Module)
M.Node2Vec = Node2Vec

---@param edge_index Tensor
---@param embedding_dim integer  the width of embeddings
---@param walk_length integer  the number of nodes of a walk
---@param context_size integer  the number of nodes in each window of a walk
---@param options? {walks_per_node: integer, p: number, q: number, num_negative_samples: integer,
--- num_nodes: integer, sparse: boolean}  walks_per_node: the number of walks from each node; p: the
--- higher, the rarer a walk returns; q: the higher, the rarer a walk leaves the neighbourhood;
--- num_negative_samples: the number of random node sequences for each walk; sparse: whether
--- gradients are sparse
function Node2Vec:__init(...)
   nn.Module.__init(self)
   local title <const> = "graphs.nn.Node2Vec"
   local a = take_node2vec(...)
   local edge_index = checks.edges(title, a.edge_index)
   if a.context_size < 2 or a.walk_length < a.context_size then
      args.refuse(title, "context_size", ("from 2 to %d, the length of walks"):format(
         a.walk_length), a.context_size)
   end
   check_pq(title, a.p, a.q)
   local n = checks.num_nodes(title, edge_index, a.num_nodes)
   rawset(self, "_graph", by_sources(edge_index[1], edge_index[2], n))
   rawset(self, "_walks", {length = a.walk_length, context = a.context_size,
      per_node = a.walks_per_node, negative = a.num_negative_samples, p = a.p, q = a.q})
   self.embedding_dim = a.embedding_dim
   self.embedding = nn.Embedding(n, a.embedding_dim, {sparse = a.sparse})
end

--- Sets the embeddings to new initial values.
function Node2Vec:reset_parameters() self.embedding:reset_parameters() end

---@param batch? Tensor  nodes; all by default
---@return Tensor
function Node2Vec:forward(batch)
   return batch == nil and self.embedding.weight or self.embedding(batch)
end

-- Returns all windows of the walks: all sequences of `size` nodes that follow one another in a
-- walk.
local function windows(walks, size)
   local list = {}
   for i = 1, walks:size(2) - size + 1 do list[i] = walks:narrow(2, i, size) end
   return torch.cat(list, 1)
end

local function sampler(graph, w)
   return function(items)
      local list = {}
      for i, item in ipairs(items) do list[i] = type(item) == "table" and item[1] or item end
      local start = torch.tensor(list, {dtype = "int64"})
      local positive = walk(graph, start:tile(w.per_node), w.length - 1, w.p, w.q)
      local again = start:tile(w.per_node * w.negative)
      local random = torch.randint(1, graph.n + 1, {again:numel(), w.length - 1})
      local negative = torch.cat({again:view(-1, 1), random}, 2)
      return windows(positive, w.context), windows(negative, w.context)
   end
end

--- Returns a loader whose batches are windows of random walks and windows of random nodes.
---@param options? table  the options of torch.data.DataLoader
---@return data.DataLoader
function Node2Vec:loader(options)
   local own = {}
   for name, value in pairs(options or {}) do own[name] = value end
   own.collate_fn = sampler(self._graph, self._walks)
   local nodes = {}
   for i = 1, self._graph.n do nodes[i] = i end
   return torch.data.DataLoader(nodes, own)
end

-- Returns, for each window, the dot products of the first node's embedding with the embeddings of
-- the other nodes.
local function products(self, walks)
   local h = self.embedding(walks)
   return (h:narrow(2, 1, 1) * h:narrow(2, 2, h:size(2) - 1)):sum(-1)
end

--- Returns the loss of a batch.
---@param pos_rw Tensor  the windows of walks
---@param neg_rw Tensor  the windows of random nodes
---@return Tensor
function Node2Vec:loss(pos_rw, neg_rw)
   local tiny <const> = 1e-15
   local pos = -(products(self, pos_rw):sigmoid() + tiny):log():mean()
   local neg = -(1 - products(self, neg_rw):sigmoid() + tiny):log():mean()
   return pos + neg
end

return M
