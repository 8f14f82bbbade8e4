-- parts.lua - functions that the loaders of large graphs share. They read the seeds and make
-- batches.

local torch = require "tlua"
local args = require "tlua.args"
local HeteroData = require "tlua.graphs.data.HeteroData"
local subgraphs = require "tlua.graphs.utils.subgraphs"

local M = {}

--- Returns the seeds, the nodes around which batches are sampled. They are numbers from 1 to n; by
--- default all nodes are seeds.
---@param title string  the loader's name, for error messages
---@param given any
---@param n integer
---@return Tensor
function M.seeds(title, given, n)
   if given == nil then return torch.arange(1, n + 1) end
   local _, index = subgraphs.node_mask(title, "input_nodes", given, n)
   return index
end

--- Returns a table that maps the names of a graph's attributes to "node" or "edge".
---@param data graphs.data.Data
---@return table<string, string>
function M.kinds(data)
   local kinds = {}
   for name in data:items() do
      kinds[name] = name ~= "edge_index" and (data:is_edge_attr(name) and "edge"
         or data:is_node_attr(name) and "node") or nil
   end
   return kinds
end

--- Returns a copy of a graph in which attributes of nodes and edges have only the rows of the
--- sampled nodes and edges.
---@param data graphs.data.Data
---@param kinds table<string, string>  the result of kinds
---@param nodes? Tensor
---@param edges? Tensor
---@return graphs.data.Data
function M.select_rows(data, kinds, nodes, edges)
   local copy = data:copy()
   for name, kind in pairs(kinds) do
      local value = data:get(name)
      local dim = data:__cat_dim__(name, value) or 1
      copy[name] = value:index_select(dim, kind == "node" and nodes or edges)
   end
   return copy
end

--- Returns the type of the seeds, which are nodes, and the seeds themselves.
---@param title string  the loader's name, for error messages
---@param data graphs.data.HeteroData
---@param given any
---@return string
---@return Tensor
function M.typed_seeds(title, data, given)
   local name, seeds = given, nil
   if type(given) == "table" then name, seeds = given[1], given[2] end
   local known = {}
   for _, one in ipairs(data.node_types) do known[one] = true end
   if not known[name] then
      args.refuse(title, "input_nodes", "the name of a node type, or a list of the name and the "
         .. "seeds; there are " .. table.concat(data.node_types, ", "), given)
   end
   return name, M.seeds(title, seeds, data[name].num_nodes)
end

--- Returns the number of nodes of each type.
---@param data graphs.data.HeteroData
---@return table<string, integer>
function M.counts(data)
   local counts = {}
   for _, name in ipairs(data.node_types) do counts[name] = data[name].num_nodes end
   return counts
end

--- Returns a list with a table {name, source, target, kind, store, kinds} for each edge type.
---@param data graphs.data.HeteroData
---@return table[]
function M.edges(data)
   local edges = {}
   for i, kind in ipairs(data.edge_types) do
      edges[i] = {name = table.concat(kind, "__"), source = kind[1], target = kind[3], kind = kind,
         store = data[kind], kinds = M.kinds(data[kind])}
   end
   return edges
end

--- Returns a function that makes a batch of a HeteroData graph from seeds.
---@param data graphs.data.HeteroData
---@param start string  the type of the seeds
---@param edges table[]  the result of edges
---@param sample fun(ids: Tensor): table, table  samples nodes and edges as sampling.sample does
---@return fun(ids: Tensor): graphs.data.HeteroData
function M.typed(data, start, edges, sample)
   local kinds = {}
   for _, name in ipairs(data.node_types) do kinds[name] = M.kinds(data[name]) end
   return function(ids)
      local nodes, found = sample(ids)
      local batch = HeteroData()
      for _, name in ipairs(data.node_types) do
         local n_id = nodes[name].nodes
         local part = M.select_rows(data[name], kinds[name], n_id)
         part.n_id, part.num_nodes = n_id, n_id:numel()
         part.num_sampled_nodes = nodes[name].counts
         batch:_put(name, part)
      end
      for _, edge in ipairs(edges) do
         local one = found[edge.name]
         local part = M.select_rows(edge.store, edge.kinds, nil, one.ids)
         part.edge_index, part.e_id, part.num_sampled_edges = one.edge_index, one.ids, one.counts
         batch:_put(edge.kind, part)
      end
      batch[start].batch_size, batch[start].input_id = ids:numel(), ids
      return batch
   end
end

--- Returns the options for a torch.data.DataLoader whose dataset items are seeds. make(ids) makes
--- the batch for a list of seeds.
---@param a table  the options of the loader
---@param make fun(ids: Tensor): any  makes a batch
---@return table
function M.options(a, make)
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
   return {batch_size = a.batch_size, shuffle = a.shuffle, drop_last = a.drop_last,
      num_workers = a.num_workers, collate_fn = collate}
end

return M
