-- HGTLoader.lua - makes batches of nodes. Each batch also has a sample of the nodes around them,
-- with nodes of all types.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local HeteroData = require "tlua.graphs.data.HeteroData"
local parts = require "tlua.graphs.loader.parts"
local sampling = require "tlua.graphs.loader.sampling"

local NAME <const> = "graphs.loader.HGTLoader"

local take = args.signature [[graphs.loader.HGTLoader(data: object, num_samples: table,
   input_nodes: any, batch_size: count = 1, shuffle: boolean = false, drop_last: boolean = false,
   num_workers: count = 0, transform: callable?)]]

--- Makes batches of nodes of a large heterogeneous graph with the sampling of the heterogeneous
--- graph transformer (Hu et al., 2020, algorithm 1). Each hop draws `num_samples` nodes of each
--- type. A node's score is the sum of 1 / degree over the sampled nodes to which it has edges. A
--- node is drawn with a probability in proportion to the square of its score. A batch has all edges
--- among its nodes, and the same fields as a batch of NeighborLoader.
---
---     local data = torch.graphs.data.HeteroData()
---     data.paper.x, data.author.x = torch.ones(5, 2), torch.ones(3, 2)
---     local edges = torch.tensor {{1, 2, 3}, {1, 1, 2}}
---     data[{"author", "writes", "paper"}].edge_index = edges
---     local HGTLoader = torch.graphs.loader.HGTLoader
---     local loader = HGTLoader(data, {4, 4}, {input_nodes = "paper"})
---     for batch in loader:iter() do print(batch.author.num_nodes) break end
---     --> 2
---@class graphs.loader.HGTLoader: data.DataLoader
---@overload fun(data: graphs.data.HeteroData, num_samples: integer[]|table<string, integer[]>,
--- options: table): graphs.loader.HGTLoader
local HGTLoader, parent = class.class(NAME, torch.data.DataLoader)

-- Returns a table that maps each node type to a list with the number of nodes that each hop draws.
local function numbers_of(given, types)
   local function check(name, list)
      local fits = type(list) == "table" and not getmetatable(list) and #list > 0
      for _, k in ipairs(fits and list or {}) do
         fits = fits and math.type(k) == "integer" and k >= 0
      end
      if not fits then
         args.refuse(NAME, name, "a list of integers of at least 0, one for each hop", list)
      end
      return list
   end
   local numbers, known = {}, {}
   local by_type = #given == 0 and next(given) ~= nil
   for _, name in ipairs(types) do
      local list = given
      if by_type then list = given[name] end
      numbers[name] = check(by_type and "num_samples." .. name or "num_samples", list)
      known[name] = true
   end
   for name in pairs(by_type and given or {}) do
      if not known[name] then
         torch.raise(("%s: num_samples: there is no node type %s"):format(NAME, tostring(name)))
      end
   end
   return numbers
end

---@param data graphs.data.HeteroData
---@param num_samples integer[]|table<string, integer[]>  the number of nodes of each type that a
--- batch draws in each hop
---@param options {input_nodes: any, batch_size: integer, shuffle: boolean, drop_last: boolean,
--- num_workers: integer, transform: function}  input_nodes: the type of the seeds, or a list of the
--- type and the seeds or a mask of them; batch_size: the number of seeds of a batch; transform: is
--- called with each batch
function HGTLoader:__init(...)
   local a = take(...)
   local data = a.data
   if not class.isinstance(data, HeteroData) then
      args.refuse(NAME, "data", "a graphs.data.HeteroData", data)
   end
   data:validate()
   local start, seeds = parts.typed_seeds(NAME, data, a.input_nodes)
   local edges, types = parts.edges(data), parts.counts(data)
   local numbers = numbers_of(a.num_samples, data.node_types)
   for _, edge in ipairs(edges) do
      edge.graph = sampling.by_target(edge.store.edge_index, types[edge.target])
   end
   local order = data.node_types
   parent.__init(self, seeds:tolist(), parts.options(a, parts.typed(data, start, edges,
      function(ids) return sampling.sample_types(types, order, edges, start, ids, numbers) end)))
end

return HGTLoader
