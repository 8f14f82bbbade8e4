-- NeighborLoader.lua - makes batches of nodes, each with randomly sampled neighbours.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local HeteroData = require "tlua.graphs.data.HeteroData"
local parts = require "tlua.graphs.loader.parts"
local sampling = require "tlua.graphs.loader.sampling"

local NAME <const> = "graphs.loader.NeighborLoader"

local take = args.signature [[graphs.loader.NeighborLoader(data: object, num_neighbors: any,
   input_nodes: any?, batch_size: count = 1, shuffle: boolean = false, replace: boolean = false,
   drop_last: boolean = false, num_workers: count = 0, transform: callable?)]]

--- Makes batches of nodes of a large graph with randomly sampled neighbours (GraphSAGE). Hop i
--- samples num_neighbors[i] edges for each node of hop i - 1. The number -1 means all edges. Hop 0
--- has the seeds, the nodes of which the batch is made. A batch is a graph whose first `batch_size`
--- nodes are the seeds. Its fields `n_id` and `e_id` have the numbers that its nodes and edges have
--- in the whole graph. With HeteroData, input_nodes is a node type, or a list of a node type and
--- its seeds. num_neighbors then applies to each edge type, or it is a table that maps edge types,
--- such as "author__writes__paper", to lists. In the batch, the node type of the seeds has the
--- field `batch_size`.
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     local NeighborLoader = torch.graphs.loader.NeighborLoader
---     local loader = NeighborLoader(data, {3, 2}, {batch_size = 10})
---     print(#loader)
---     for batch in loader:iter() do print(batch.batch_size) break end
---     --> 4
---     --> 10
---@class graphs.loader.NeighborLoader: data.DataLoader
---@overload fun(data: graphs.data.Data|graphs.data.HeteroData, num_neighbors: integer[]|table,
--- options?: table): graphs.loader.NeighborLoader
local NeighborLoader, parent = class.class(NAME, torch.data.DataLoader)

-- Returns a list with one number of edges for each hop. `given` is such a list or a single number.
local function hops_of(name, given)
   local hops = math.type(given) == "integer" and {given} or given
   local fits = type(hops) == "table" and not getmetatable(hops) and #hops > 0
   for _, k in ipairs(fits and hops or {}) do
      if math.type(k) ~= "integer" then
         fits = false
      elseif k < -1 then
         args.refuse(NAME, name, "at least 0, or -1 for all", k)
      end
   end
   if not fits then args.refuse(NAME, name, "a list of integers, one for each hop", given) end
   return hops
end

-- Prepares the sampling of a Data graph. Returns the number of nodes, the seeds, and a function
-- that makes a batch from seeds.
local function plain(a)
   local data = a.data
   if not data.edge_index then args.refuse(NAME, "data", "a graph with edge_index", data) end
   local hops = hops_of("num_neighbors", a.num_neighbors)
   local n, edge_index = data.num_nodes, checks.edges(NAME, data.edge_index)
   checks.range(NAME, "edge_index", edge_index, n)
   local types, kinds = {node = n}, parts.kinds(data)
   local edges = {{name = "edge", source = "node", target = "node", hops = hops,
      graph = sampling.by_target(edge_index, n)}}
   return parts.seeds(NAME, a.input_nodes, n), function(ids)
      local nodes, found = sampling.sample(types, edges, "node", ids, a.replace)
      local n_id, edge = nodes.node.nodes, found.edge
      local batch = parts.select_rows(data, kinds, n_id, edge.ids)
      batch.edge_index = edge.edge_index
      batch.num_nodes = n_id:numel()
      batch.n_id, batch.e_id, batch.batch_size = n_id, edge.ids, ids:numel()
      batch.input_id = ids
      batch.num_sampled_nodes, batch.num_sampled_edges = nodes.node.counts, edge.counts
      return batch
   end
end

-- Returns the list of edge types. Each has the field `hops`, which lists the number of neighbours
-- that each hop samples.
local function typed_edges(data, given)
   local edges, used = parts.edges(data), {}
   local by_type = type(given) == "table" and #given == 0 and not getmetatable(given)
   for _, edge in ipairs(edges) do
      local name, hops = edge.name, given
      if by_type then
         hops, used[name] = given[name], true
         if hops == nil then args.refuse(NAME, "num_neighbors", "a list for " .. name, given) end
      end
      edge.hops = hops_of("num_neighbors", hops)
      edge.graph = sampling.by_target(edge.store.edge_index, data[edge.target].num_nodes)
   end
   for name in pairs(by_type and given or {}) do
      if not used[name] then
         torch.raise(("%s: num_neighbors: there is no edge type %s"):format(NAME, tostring(name)))
      end
   end
   return edges
end

-- Prepares the sampling of a HeteroData graph. Returns the same values as `plain`.
local function typed(a)
   local data = a.data
   data:validate()
   local start, seeds = parts.typed_seeds(NAME, data, a.input_nodes)
   local edges, types = typed_edges(data, a.num_neighbors), parts.counts(data)
   return seeds, parts.typed(data, start, edges, function(ids)
      return sampling.sample(types, edges, start, ids, a.replace)
   end)
end

---@param data graphs.data.Data|graphs.data.HeteroData
---@param num_neighbors integer[]|table<string, integer[]>  the number of sampled edges for each
--- node, one entry for each hop
---@param options? {input_nodes: any, batch_size: integer, shuffle: boolean, replace: boolean,
--- drop_last: boolean, num_workers: integer, transform: function}  input_nodes: the seeds, or a
--- mask of them; replace: whether an edge may be chosen again; transform: is called with each batch
function NeighborLoader:__init(...)
   local a = take(...)
   local has_types = class.isinstance(a.data, HeteroData)
   if not has_types and not a.data._is_graph then
      args.refuse(NAME, "data", "a graph with edge_index", a.data)
   end
   local seeds, make = (has_types and typed or plain)(a)
   parent.__init(self, seeds:tolist(), parts.options(a, make))
end

return NeighborLoader
