-- NeighborLoader.lua - batches of nodes with randomly sampled neighbours.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local subgraphs = require "tlua.graphs.utils.subgraphs"

-- Samples at most k incoming edges of each node in `front`. Returns the sampled edges' positions
-- among the edges sorted by target, and for each edge its target's position in `front`.
local function choose(graph, front, k, replace)
   local first = graph.pointers:index_select(1, front)
   local degree = graph.pointers:index_select(1, front + 1) - first
   local numbers = torch.arange(1, front:numel() + 1)
   if replace and k >= 0 then
      local some = degree:gt(0)
      local owner = numbers[some]:repeat_interleave(k)
      local d = degree:index_select(1, owner)
      local pick = (torch.rand(owner:numel(), {dtype = "float64"}) * d):floor():long()
      return first:index_select(1, owner) + pick:minimum(d - 1), owner
   end
   local owner = numbers:repeat_interleave(degree)
   local before = degree:cumsum(1) - degree
   local rank = torch.arange(owner:numel()) - before:index_select(1, owner)
   local place = first:index_select(1, owner) + rank
   if k < 0 then return place, owner end
   -- a random order within each node's edges
   local order = torch.argsort(owner + torch.rand(owner:numel(), {dtype = "float64"}) * 0.999)
   local kept = rank:lt(k)
   return place:index_select(1, order)[kept], owner[kept]
end

-- Returns the part of the graph that is sampled around some nodes.
local function sample(graph, seeds)
   local numbers = torch.zeros(graph.n, {dtype = "int64"})
   local count = seeds:numel()
   numbers:index_copy_(1, seeds, torch.arange(1, count + 1))
   local nodes, rows, cols, ids = {seeds}, {}, {}, {}
   local front = seeds
   local of_nodes, of_edges = {count}, {}
   for hop, k in ipairs(graph.num_neighbors) do
      local place, owner = choose(graph, front, k, graph.replace)
      local source = graph.columns:index_select(1, place)
      local fresh = source[numbers:index_select(1, source):eq(0)]
      fresh = fresh:numel() > 0 and fresh:unique() or fresh
      if fresh:numel() > 0 then
         numbers:index_copy_(1, fresh, torch.arange(count + 1, count + fresh:numel() + 1))
      end
      rows[hop] = numbers:index_select(1, source)
      cols[hop] = numbers:index_select(1, front:index_select(1, owner))
      ids[hop] = graph.order:index_select(1, place)
      nodes[hop + 1] = fresh
      count = count + fresh:numel()
      of_nodes[hop + 1], of_edges[hop] = fresh:numel(), place:numel()
      front = fresh
   end
   local none = torch.zeros(0, {dtype = "int64"})
   local function all(list) return #list > 0 and torch.cat(list) or none end
   return torch.cat(nodes), torch.stack {all(rows), all(cols)}, all(ids), of_nodes, of_edges
end

local take = args.signature [[graphs.loader.NeighborLoader(data: object, num_neighbors: integers,
   input_nodes: any?, batch_size: count = 1, shuffle: boolean = false, replace: boolean = false,
   drop_last: boolean = false, num_workers: count = 0, transform: callable?)]]

--- Makes batches of nodes of a large graph with randomly sampled neighbours (GraphSAGE):
--- num_neighbors[i] edges for each node of hop i - 1, or all edges for -1. A batch is a graph whose
--- first `batch_size` nodes are the seeds; `n_id` and `e_id` have the numbers of its nodes and
--- edges in the whole graph.
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     local NeighborLoader = torch.graphs.loader.NeighborLoader
---     local loader = NeighborLoader(data, {3, 2}, {batch_size = 10})
---     print(#loader)
---     for batch in loader:iter() do print(batch.batch_size) break end
---     --> 4
---     --> 10
---@class graphs.loader.NeighborLoader: data.DataLoader
---@overload fun(data: graphs.data.Data, num_neighbors: integer[], options?: table):
--- graphs.loader.NeighborLoader
local NeighborLoader, parent = class.class("graphs.loader.NeighborLoader", torch.data.DataLoader)

---@param data graphs.data.Data
---@param num_neighbors integer[]  the number of sampled edges for each node, one entry for each hop
---@param options? {input_nodes: Tensor, batch_size: integer, shuffle: boolean, replace: boolean,
--- drop_last: boolean, num_workers: integer, transform: function}  input_nodes: the seeds, or a
--- mask of them; replace: whether an edge may be chosen again; transform: is called with each batch
function NeighborLoader:__init(...)
   local title <const> = "graphs.loader.NeighborLoader"
   local a = take(...)
   local data = a.data
   if not data._is_graph or not data.edge_index then
      args.refuse(title, "data", "a graph with edge_index", data)
   end
   local hops = type(a.num_neighbors) == "table" and a.num_neighbors or {a.num_neighbors}
   for _, k in ipairs(hops) do
      if k < -1 then args.refuse(title, "num_neighbors", "at least 0, or -1 for all", k) end
   end
   local n, edge_index = data.num_nodes, checks.edges(title, data.edge_index)
   checks.range(title, "edge_index", edge_index, n)
   local seeds
   if a.input_nodes == nil then
      seeds = torch.arange(1, n + 1)
   else
      local _, index = subgraphs.node_mask(title, "input_nodes", a.input_nodes, n)
      seeds = index
   end
   local counts = edge_index:numel() > 0 and torch.bincount(edge_index[2], {minlength = n})
      or torch.zeros(n, {dtype = "int64"})
   local order = torch.argsort(edge_index[2], {stable = true})
   local graph = {
      n = n, num_neighbors = hops, replace = a.replace, order = order,
      columns = edge_index[1]:index_select(1, order),
      pointers = torch.cat {torch.ones(1, {dtype = "int64"}), counts:cumsum(1) + 1},
   }
   local kinds, transform = {}, a.transform
   for name in data:items() do
      kinds[name] = name ~= "edge_index" and (data:is_edge_attr(name) and "edge"
         or data:is_node_attr(name) and "node") or nil
   end
   local function collate(items)
      local list = {}
      for i, item in ipairs(items) do
         local value = type(item) == "table" and item[1] or item
         list[i] = torch.is_tensor(value) and value:item() or value
      end
      local ids = torch.tensor(list, {dtype = "int64"})
      local n_id, edges, e_id, of_nodes, of_edges = sample(graph, ids)
      local batch = data:copy()
      for name, kind in pairs(kinds) do
         local value = data:get(name)
         local dim = data:__cat_dim__(name, value) or 1
         batch[name] = value:index_select(dim, kind == "node" and n_id or e_id)
      end
      batch.edge_index = edges
      batch.num_nodes = n_id:numel()
      batch.n_id, batch.e_id, batch.batch_size = n_id, e_id, #list
      batch.input_id = ids
      batch.num_sampled_nodes, batch.num_sampled_edges = of_nodes, of_edges
      return transform and transform(batch) or batch
   end
   parent.__init(self, seeds:tolist(), {batch_size = a.batch_size, shuffle = a.shuffle,
      drop_last = a.drop_last, num_workers = a.num_workers, collate_fn = collate})
end

return NeighborLoader
