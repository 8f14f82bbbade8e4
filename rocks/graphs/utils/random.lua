-- random.lua - random graphs, negative samples of edges, and random removal of edges and nodes.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.graphs.checks"
local subgraphs = require "tlua.graphs.utils.subgraphs"

local M = {}

-- Negative edges ----------------------------------------------------------------------------------

-- Numbers all possible edges of a graph, the pairs of different nodes, from 1 to `population`.
-- Returns a table with `population` and two functions: `number` maps edges to their numbers, and
-- `edges` maps numbers to edges.
local function all_pairs(n)
   return {
      population = n * n - n,
      number = function(row, col)
         local others = row:ne(col)
         row, col = row[others], col[others]
         return (row - 1) * (n - 1) + torch.where(row:lt(col), col - 1, col)
      end,
      edges = function(numbers)
         local row = (numbers - 1):div(n - 1, {rounding_mode = "floor"}) + 1
         local col = (numbers - 1):remainder(n - 1) + 1
         return torch.stack {row, torch.where(row:le(col), col + 1, col)}
      end,
   }
end

-- Numbers the possible edges of a bipartite graph of n sources and m targets. Returns the same
-- fields as all_pairs.
local function bipartite_pairs(n, m)
   return {
      population = n * m,
      number = function(row, col) return (row - 1) * m + col end,
      edges = function(numbers)
         return torch.stack {(numbers - 1):div(m, {rounding_mode = "floor"}) + 1,
            (numbers - 1):remainder(m) + 1}
      end,
   }
end

-- Numbers the pairs of nodes with row < col. Each pair stands for an edge and its reverse. Returns
-- the same fields as all_pairs.
local function undirected_pairs(n)
   -- returns the number of pairs whose row is lower
   local function before(row)
      return (row - 1) * n - (row * (row - 1)):div(2, {rounding_mode = "floor"})
   end
   return {
      population = n * (n - 1) // 2,
      number = function(row, col)
         local others = row:ne(col)
         row, col = row:minimum(col)[others], row:maximum(col)[others]
         return before(row) + col - row
      end,
      edges = function(numbers)
         local starts = before(torch.arange(1, n + 1, {device = numbers.device}))
         local row = torch.searchsorted(starts:contiguous(), numbers:contiguous()) - 1
         local col = numbers - starts:index_select(1, row) + row
         return torch.stack {torch.cat {row, col}, torch.cat {col, row}}
      end,
   }
end

-- Returns k different numbers from 1 to population, or all numbers if there are no more than k.
local function sample(population, k, device)
   if population <= k then return torch.arange(1, population + 1, {device = device}) end
   if population < 4 * k or population < 65536 then
      return torch.randperm(population, {device = device})[{{1, k}}]
   end
   -- To draw a few numbers out of many, this code draws more than k numbers, removes duplicates,
   -- which also sorts the numbers, and shuffles the rest.
   local found = torch.randint(1, population + 1, {k + k // 2 + 16}, {device = device}):unique()
   local order = torch.randperm(found:numel(), {device = device})
   return found:index_select(1, order[{{1, math.min(k, found:numel())}}])
end

local take_negative = args.signature [[graphs.utils.negative_sampling(edge_index: tensor,
   num_nodes: any?, num_neg_samples: number?, method: string = 'sparse',
   force_undirected: boolean = false)]]

--- Returns random edges that the graph does not have. Self loops are excluded. If the graph is
--- nearly complete, there may be fewer edges than requested.
---
---     local U = torch.graphs.utils
---     local edges = torch.tensor {{1, 2, 1}, {2, 1, 3}}
---     print(U.negative_sampling(edges, {num_neg_samples = 2}):size(2))
---     --> 2
---@param edge_index Tensor
---@param num_nodes? integer|integer[]  the number of nodes, or for a bipartite graph the numbers of
--- sources and targets
---@param num_neg_samples? number  the number of new edges (by default the number of edges in
--- edge_index), or, as a float, a multiple of the number of edges
---@param method? "sparse"|"dense"  equivalent methods; "dense" needs memory for each possible edge
---@param force_undirected? boolean  whether each new edge comes with its reverse
---@return Tensor edge_index
function M.negative_sampling(...)
   local title <const> = "graphs.utils.negative_sampling"
   local a = take_negative(...)
   local edge_index = checks.edges(title, a.edge_index)
   if a.method ~= "sparse" and a.method ~= "dense" then
      args.refuse(title, "method", '"sparse" or "dense"', a.method)
   end
   local pairs_of
   if type(a.num_nodes) == "table" then
      local n, m = a.num_nodes[1], a.num_nodes[2]
      if math.type(n) ~= "integer" or math.type(m) ~= "integer" then
         args.refuse(title, "num_nodes", "an integer, or a list of two", a.num_nodes)
      end
      checks.range(title, "edge_index[1]", edge_index[1], n, "sources")
      checks.range(title, "edge_index[2]", edge_index[2], m, "targets")
      pairs_of = bipartite_pairs(n, m)
   else
      local n = checks.num_nodes(title, edge_index, a.num_nodes)
      pairs_of = a.force_undirected and undirected_pairs(n) or all_pairs(n)
   end
   local count = a.num_neg_samples or edge_index:size(2)
   if not (count >= 0 and count < math.huge) then
      args.refuse(title, "num_neg_samples", "a number of at least 0", count)
   end
   if math.type(count) == "float" then count = math.floor(count * edge_index:size(2)) end
   if a.force_undirected and type(a.num_nodes) ~= "table" then count = count // 2 end
   local population = pairs_of.population
   local present = pairs_of.number(edge_index[1], edge_index[2]):unique()
   local free = population - present:numel()
   if free <= 0 or count == 0 then return edge_index:new_zeros({2, 0}) end
   local found = edge_index:new_zeros(0)
   for try = 1, 4 do
      -- The last try draws from the list of all possible edges, unless this list is too long.
      local all = try == 4 and population < 2 ^ 24
      local size = math.ceil(1.1 * (count - found:numel()) * population / free)
      local numbers = sample(population, all and population or size, edge_index.device)
      if all then numbers = numbers:index_select(1, torch.randperm(population,
         {device = edge_index.device})) end
      numbers = numbers[~torch.isin(numbers, present)]
      if found:numel() > 0 then numbers = numbers[~torch.isin(numbers, found)] end
      found = torch.cat {found, numbers}
      if found:numel() >= count then
         found = found[{{1, count}}]
         break
      end
   end
   return pairs_of.edges(found)
end

-- Dropout -----------------------------------------------------------------------------------------

local function check_p(title, p)
   if not (p >= 0 and p <= 1) then args.refuse(title, "p", "a number from 0 to 1", p) end
end

local take_edge = args.signature [[graphs.utils.dropout_edge(edge_index: tensor, p: number = 0.5,
   force_undirected: boolean = false, training: boolean = true)]]

--- Drops each edge with probability p.
---
---     local U = torch.graphs.utils
---     local edges, kept = U.dropout_edge(torch.tensor {{1, 2}, {2, 1}}, 0)
---     print(edges[1], kept)
---     --> tensor([1, 2])	tensor([True, True])
---@param edge_index Tensor
---@param p? number
---@param force_undirected? boolean  whether an edge and its reverse are dropped together
---@param training? boolean  if false, no edges are dropped
---@return Tensor edge_index
---@return Tensor kept  a mask of edges; with force_undirected the positions of edges
function M.dropout_edge(...)
   local title <const> = "graphs.utils.dropout_edge"
   local a = take_edge(...)
   local edge_index = checks.edges(title, a.edge_index)
   check_p(title, a.p)
   local edges = edge_index:size(2)
   if not a.training or a.p == 0 then
      return edge_index, torch.ones(edges, {dtype = "bool", device = edge_index.device})
   end
   local mask = torch.rand(edges, {device = edge_index.device}):ge(a.p)
   if not a.force_undirected then return edge_index[{{}, mask}], mask end
   mask = mask & edge_index[1]:le(edge_index[2])
   local kept = edge_index[{{}, mask}]
   local positions = mask:nonzero():view(-1)
   return torch.cat({kept, kept:flip(1)}, 2), torch.cat {positions, positions}
end

local take_node = args.signature [[graphs.utils.dropout_node(edge_index: tensor, p: number = 0.5,
   num_nodes: count?, training: boolean = true, relabel_nodes: boolean = false)]]

--- Drops each node with probability p together with its edges.
---
---     local U = torch.graphs.utils
---     local edges = U.dropout_node(torch.tensor {{1, 2}, {2, 1}}, 0)
---     print(edges[1])
---     --> tensor([1, 2])
---@param edge_index Tensor
---@param p? number
---@param num_nodes? integer
---@param training? boolean  if false, no nodes are dropped
---@param relabel_nodes? boolean  whether the kept nodes are renumbered from 1
---@return Tensor edge_index
---@return Tensor edge_mask  a mask of the kept edges
---@return Tensor node_mask  a mask of the kept nodes
function M.dropout_node(...)
   local title <const> = "graphs.utils.dropout_node"
   local a = take_node(...)
   local edge_index = checks.edges(title, a.edge_index)
   check_p(title, a.p)
   local n = checks.num_nodes(title, edge_index, a.num_nodes)
   local place = {dtype = "bool", device = edge_index.device}
   if not a.training or a.p == 0 then
      return edge_index, torch.ones(edge_index:size(2), place), torch.ones(n, place)
   end
   local nodes = torch.rand(n, {device = edge_index.device}):gt(a.p)
   local edges = nodes:index_select(1, edge_index[1]) & nodes:index_select(1, edge_index[2])
   local kept = edge_index[{{}, edges}]
   if a.relabel_nodes then kept = subgraphs.relabel(kept, nodes:nonzero():view(-1), n) end
   return kept, edges, nodes
end

-- Random graphs -----------------------------------------------------------------------------------

-- Converts a boolean matrix to edges: element (i, j) tells whether there is an edge from i to j.
-- For an undirected graph, only the elements above the diagonal are used.
local function edges_of(mask, directed)
   if directed then
      mask = mask & ~torch.eye(mask:size(1), {dtype = "bool"})
   else
      mask = mask:triu(1)
      mask = mask | mask:t()
   end
   return mask:nonzero():t():contiguous()
end

local take_erdos = args.signature [[graphs.utils.erdos_renyi_graph(num_nodes: count,
   edge_prob: number, directed: boolean = false)]]

--- Returns the edges of a random graph in which each possible edge exists with probability
--- edge_prob.
---
---     print(torch.graphs.utils.erdos_renyi_graph(3, 1):size(2))
---     --> 6
---@param num_nodes integer
---@param edge_prob number
---@param directed? boolean  if false, each edge comes with its reverse
---@return Tensor edge_index
function M.erdos_renyi_graph(...)
   local title <const> = "graphs.utils.erdos_renyi_graph"
   local a = take_erdos(...)
   if not (a.edge_prob >= 0 and a.edge_prob <= 1) then
      args.refuse(title, "edge_prob", "a number from 0 to 1", a.edge_prob)
   end
   local mask = torch.rand(a.num_nodes, a.num_nodes):lt(a.edge_prob)
   return edges_of(mask, a.directed)
end

local take_block = args.signature [[graphs.utils.stochastic_blockmodel_graph(
   block_sizes: integers|tensor,
   edge_probs: table|tensor, directed: boolean = false)]]

--- Returns the edges of a random graph whose nodes are divided into blocks. edge_probs[i][j] is the
--- probability of an edge from a node of block i to a node of block j.
---
---     local U = torch.graphs.utils
---     local edges = U.stochastic_blockmodel_graph({2, 2}, {{1, 0}, {0, 1}})
---     print(edges[1], edges[2])
---     --> tensor([1, 2, 3, 4])	tensor([2, 1, 4, 3])
---@param block_sizes integer[]|Tensor  the number of nodes of each block
---@param edge_probs number[][]|Tensor
---@param directed? boolean  if false, each edge comes with its reverse
---@return Tensor edge_index
function M.stochastic_blockmodel_graph(...)
   local title <const> = "graphs.utils.stochastic_blockmodel_graph"
   local a = take_block(...)
   local sizes = torch.is_tensor(a.block_sizes) and a.block_sizes or torch.tensor(a.block_sizes)
   local probs = torch.is_tensor(a.edge_probs) and a.edge_probs or torch.tensor(a.edge_probs)
   local blocks = sizes:numel()
   if sizes:dim() ~= 1 or probs:dim() ~= 2 or probs:size(1) ~= blocks
         or probs:size(2) ~= blocks then
      args.refuse(title, "edge_probs", ("%d lists of %d probabilities"):format(blocks, blocks),
         probs)
   end
   local block = torch.arange(1, blocks + 1):repeat_interleave(sizes:long())
   local each = probs:float():index_select(1, block):index_select(2, block)
   return edges_of(torch.rand_like(each):lt(each), a.directed)
end

local take_barabasi = args.signature [[graphs.utils.barabasi_albert_graph(num_nodes: count,
   num_edges: count)]]

--- Returns the edges of a random graph that grows node by node. Each new node is connected to at
--- most `num_edges` older nodes. They are drawn `num_edges` times with probabilities in proportion
--- to their degrees, and a node that is drawn twice counts once.
---
---     print(torch.graphs.utils.barabasi_albert_graph(10, 2):size(2) > 0)
---     --> true
---@param num_nodes integer
---@param num_edges integer
---@return Tensor edge_index
function M.barabasi_albert_graph(...)
   local title <const> = "graphs.utils.barabasi_albert_graph"
   local a = take_barabasi(...)
   local n, m = a.num_nodes, a.num_edges
   if m < 1 or m >= n then
      args.refuse(title, "num_edges", ("an integer from 1 to %d"):format(n - 1), m)
   end
   local rows, cols, ends = {}, {}, {}
   local picks = torch.rand(n, m):tolist()
   local function join(from, to)
      rows[#rows + 1], cols[#cols + 1] = from, to
      rows[#rows + 1], cols[#cols + 1] = to, from
      ends[#ends + 1], ends[#ends + 2] = from, to
   end
   for i = 1, m do join(m + 1, i) end
   for node = m + 2, n do
      local chosen, size = {}, #ends
      for k = 1, m do chosen[ends[math.floor(picks[node][k] * size) + 1]] = true end
      local list = {}
      for to in pairs(chosen) do list[#list + 1] = to end
      table.sort(list)
      for _, to in ipairs(list) do join(node, to) end
   end
   return torch.tensor({rows, cols}, {dtype = "int64"})
end

return M
