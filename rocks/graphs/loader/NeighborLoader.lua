-- NeighborLoader.lua - batches of nodes with randomly sampled neighbours.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local HeteroData = require "tlua.graphs.data.HeteroData"
local sampling = require "tlua.graphs.loader.sampling"
local subgraphs = require "tlua.graphs.utils.subgraphs"

local NAME <const> = "graphs.loader.NeighborLoader"

local take = args.signature [[graphs.loader.NeighborLoader(data: object, num_neighbors: any,
   input_nodes: any?, batch_size: count = 1, shuffle: boolean = false, replace: boolean = false,
   drop_last: boolean = false, num_workers: count = 0, transform: callable?)]]

--- Makes batches of nodes of a large graph with randomly sampled neighbours (GraphSAGE):
--- num_neighbors[i] edges for each node of hop i - 1, or all edges for -1. A batch is a graph whose
--- first `batch_size` nodes are the seeds; `n_id` and `e_id` have the numbers of its nodes and
--- edges in the whole graph. With HeteroData, input_nodes is a type, or a list of a type and its
--- seeds; num_neighbors counts for each type of edges, or is a table from the types, such as
--- "author__writes__paper", to lists; and the type of the seeds has `batch_size` in the batch.
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

-- Returns a list of numbers of edges, one for each hop.
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

-- Returns the seeds among n nodes.
local function seeds_of(given, n)
   if given == nil then return torch.arange(1, n + 1) end
   local _, index = subgraphs.node_mask(NAME, "input_nodes", given, n)
   return index
end

-- Returns the kinds of a graph's attributes: "node" or "edge".
local function kinds_of(data)
   local kinds = {}
   for name in data:items() do
      kinds[name] = name ~= "edge_index" and (data:is_edge_attr(name) and "edge"
         or data:is_node_attr(name) and "node") or nil
   end
   return kinds
end

-- Copies a graph, with the sampled rows of its attributes.
local function select_rows(data, kinds, nodes, edges)
   local copy = data:copy()
   for name, kind in pairs(kinds) do
      local value = data:get(name)
      local dim = data:__cat_dim__(name, value) or 1
      copy[name] = value:index_select(dim, kind == "node" and nodes or edges)
   end
   return copy
end

-- Returns the number of nodes, the seeds, and a function that makes a batch of seeds.
local function plain(a)
   local data = a.data
   if not data.edge_index then args.refuse(NAME, "data", "a graph with edge_index", data) end
   local hops = hops_of("num_neighbors", a.num_neighbors)
   local n, edge_index = data.num_nodes, checks.edges(NAME, data.edge_index)
   checks.range(NAME, "edge_index", edge_index, n)
   local types, kinds = {node = n}, kinds_of(data)
   local edges = {{name = "edge", source = "node", target = "node", hops = hops,
      graph = sampling.by_target(edge_index, n)}}
   return seeds_of(a.input_nodes, n), function(ids)
      local nodes, found = sampling.sample(types, edges, "node", ids, a.replace)
      local n_id, edge = nodes.node.nodes, found.edge
      local batch = select_rows(data, kinds, n_id, edge.ids)
      batch.edge_index = edge.edge_index
      batch.num_nodes = n_id:numel()
      batch.n_id, batch.e_id, batch.batch_size = n_id, edge.ids, ids:numel()
      batch.input_id = ids
      batch.num_sampled_nodes, batch.num_sampled_edges = nodes.node.counts, edge.counts
      return batch
   end
end

-- Returns the type of the seeds and the seeds.
local function typed_seeds(data, given)
   local name, seeds = given, nil
   if type(given) == "table" then name, seeds = given[1], given[2] end
   local known = {}
   for _, one in ipairs(data.node_types) do known[one] = true end
   if not known[name] then
      args.refuse(NAME, "input_nodes", "the name of a node type, or a list of the name and the "
         .. "seeds; there are " .. table.concat(data.node_types, ", "), given)
   end
   return name, seeds_of(seeds, data[name].num_nodes)
end

-- Returns the types of edges, with the number of neighbours in each hop.
local function typed_edges(data, given)
   local edges, used = {}, {}
   local by_type = type(given) == "table" and #given == 0 and not getmetatable(given)
   for i, kind in ipairs(data.edge_types) do
      local name = table.concat(kind, "__")
      local hops = given
      if by_type then
         hops, used[name] = given[name], true
         if hops == nil then args.refuse(NAME, "num_neighbors", "a list for " .. name, given) end
      end
      edges[i] = {name = name, source = kind[1], target = kind[3], kind = kind,
         hops = hops_of("num_neighbors", hops), store = data[kind], kinds = kinds_of(data[kind]),
         graph = sampling.by_target(data[kind].edge_index, data[kind[3]].num_nodes)}
   end
   for name in pairs(by_type and given or {}) do
      if not used[name] then
         torch.raise(("%s: num_neighbors: there is no edge type %s"):format(NAME, tostring(name)))
      end
   end
   return edges
end

-- The same for a graph with types.
local function typed(a)
   local data = a.data
   data:validate()
   local start, seeds = typed_seeds(data, a.input_nodes)
   local edges, types, kinds = typed_edges(data, a.num_neighbors), {}, {}
   for _, name in ipairs(data.node_types) do
      types[name], kinds[name] = data[name].num_nodes, kinds_of(data[name])
   end
   return seeds, function(ids)
      local nodes, found = sampling.sample(types, edges, start, ids, a.replace)
      local batch = HeteroData()
      for _, name in ipairs(data.node_types) do
         local n_id = nodes[name].nodes
         local part = select_rows(data[name], kinds[name], n_id)
         part.n_id, part.num_nodes = n_id, n_id:numel()
         part.num_sampled_nodes = nodes[name].counts
         batch:_put(name, part)
      end
      for _, edge in ipairs(edges) do
         local one = found[edge.name]
         local part = select_rows(edge.store, edge.kinds, nil, one.ids)
         part.edge_index, part.e_id, part.num_sampled_edges = one.edge_index, one.ids, one.counts
         batch:_put(edge.kind, part)
      end
      batch[start].batch_size, batch[start].input_id = ids:numel(), ids
      return batch
   end
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
   local transform = a.transform
   local function collate(items)
      local list = {}
      for i, item in ipairs(items) do
         local value = type(item) == "table" and item[1] or item
         list[i] = torch.is_tensor(value) and value:item() or value
      end
      local batch = make(torch.tensor(list, {dtype = "int64"}))
      return transform and transform(batch) or batch
   end
   parent.__init(self, seeds:tolist(), {batch_size = a.batch_size, shuffle = a.shuffle,
      drop_last = a.drop_last, num_workers = a.num_workers, collate_fn = collate})
end

return NeighborLoader
