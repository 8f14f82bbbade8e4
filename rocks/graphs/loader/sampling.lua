-- sampling.lua - samples edges around nodes (for NeighborLoader) and nodes (for HGTLoader).

local torch = require "tlua"

local M = {}

--- Sorts edges by their targets.
---@param edge_index Tensor  (2, E)
---@param n integer  the number of targets
---@return {pointers: Tensor, columns: Tensor, order: Tensor} graph  columns: the sources; order:
--- the edges' positions in edge_index
function M.by_target(edge_index, n)
   local counts = edge_index:numel() > 0 and torch.bincount(edge_index[2], {minlength = n})
      or torch.zeros(n, {dtype = "int64"})
   local order = torch.argsort(edge_index[2], {stable = true})
   return {order = order, columns = edge_index[1]:index_select(1, order),
      pointers = torch.cat {torch.ones(1, {dtype = "int64"}), counts:cumsum(1) + 1}}
end

--- Samples at most k incoming edges of each node in `front`, or all of them if k is -1.
---@return Tensor place  the sampled edges' positions among the edges sorted by target
---@return Tensor owner  for each edge, its target's position in `front`
function M.choose(graph, front, k, replace)
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
   -- This sort brings the edges of each node into a random order. The first k edges of each node
   -- are then kept.
   local order = torch.argsort(owner + torch.rand(owner:numel(), {dtype = "float64"}) * 0.999)
   local kept = rank:lt(k)
   return place:index_select(1, order)[kept], owner[kept]
end

local function none() return torch.zeros(0, {dtype = "int64"}) end

local function all(list) return #list > 0 and torch.cat(list) or none() end

-- Returns the sample of a node type, which contains the seeds at first. `numbers` maps each node to
-- its position in the sample, or to 0. `front` has the nodes that the last hop has added.
local function begin(n, seeds)
   local numbers = torch.zeros(n, {dtype = "int64"})
   if seeds:numel() > 0 then
      numbers:index_copy_(1, seeds, torch.arange(1, seeds:numel() + 1))
   end
   return {numbers = numbers, count = seeds:numel(), nodes = {seeds}, front = seeds, fresh = {},
      counts = {seeds:numel()}}
end

-- Adds those nodes of `source` to the sample that it does not contain yet.
local function take(nodes, source)
   local fresh = source[nodes.numbers:index_select(1, source):eq(0)]
   if fresh:numel() == 0 then return end
   fresh = fresh:unique()
   local count = nodes.count + fresh:numel()
   nodes.numbers:index_copy_(1, fresh, torch.arange(nodes.count + 1, count + 1))
   nodes.count = count
   nodes.fresh[#nodes.fresh + 1] = fresh
end

--- Samples edges of several types, hop by hop, beginning at nodes of one type.
---@param types table<string, integer>  the number of nodes of each type
---@param edges {name: string, source: string, target: string, graph: table, hops: integer[]}[]
---@param start string  the type of the seeds
---@param seeds Tensor
---@param replace boolean
---@return table<string, {nodes: Tensor, counts: integer[]}> nodes
---@return table<string, {edge_index: Tensor, ids: Tensor, counts: integer[]}> edges
function M.sample(types, edges, start, seeds, replace)
   local nodes, found, hops = {}, {}, 0
   for name, n in pairs(types) do nodes[name] = begin(n, name == start and seeds or none()) end
   for _, edge in ipairs(edges) do
      found[edge.name] = {rows = {}, columns = {}, ids = {}, counts = {}}
      hops = math.max(hops, #edge.hops)
   end
   for hop = 1, hops do
      for _, edge in ipairs(edges) do
         local from, to, list = nodes[edge.source], nodes[edge.target], found[edge.name]
         local k = edge.hops[hop] or 0
         local place, owner = none(), none()
         if to.front:numel() > 0 and k ~= 0 then
            place, owner = M.choose(edge.graph, to.front, k, replace)
         end
         local source = edge.graph.columns:index_select(1, place)
         take(from, source)
         list.rows[hop] = from.numbers:index_select(1, source)
         list.columns[hop] = to.numbers:index_select(1, to.front:index_select(1, owner))
         list.ids[hop] = edge.graph.order:index_select(1, place)
         list.counts[hop] = place:numel()
      end
      for _, one in pairs(nodes) do
         one.front, one.fresh = all(one.fresh), {}
         one.nodes[hop + 1], one.counts[hop + 1] = one.front, one.front:numel()
      end
   end
   local of_nodes, of_edges = {}, {}
   for name, one in pairs(nodes) do
      of_nodes[name] = {nodes = torch.cat(one.nodes), counts = one.counts}
   end
   for name, list in pairs(found) do
      of_edges[name] = {edge_index = torch.stack {all(list.rows), all(list.columns)},
         ids = all(list.ids), counts = list.counts}
   end
   return of_nodes, of_edges
end

-- Nodes of all types ------------------------------------------------------------------------------

-- Updates the scores of the sources of a type of edges. For each new node in `front`, 1 / degree is
-- added to the scores of the sources of its edges. Sources that are already in the sample get no
-- score.
local function score(scores, nodes, edge, front)
   if front == nil or front:numel() == 0 then return end
   local place, owner = M.choose(edge.graph, front, -1)
   local source = edge.graph.columns:index_select(1, place)
   local fresh = nodes[edge.source].numbers:index_select(1, source):eq(0)
   source, owner = source[fresh], owner[fresh]
   local pointers = edge.graph.pointers
   local degree = pointers:index_select(1, front + 1) - pointers:index_select(1, front)
   scores[edge.source]:index_add_(1, source, 1 / degree:index_select(1, owner):double())
end

-- Draws up to k nodes without replacement, with probabilities in proportion to the squared scores.
-- Each node gets the key weight / random number, where the numbers are exponentially distributed.
-- The nodes with the largest keys are drawn (Efraimidis and Spirakis, 2006).
local function draw(scores, k)
   local known = scores:nonzero():view(-1)
   if known:numel() <= k then return known end
   local weights = scores:index_select(1, known):square()
   local keys = weights / torch.empty(known:numel(), {dtype = "float64"}):exponential_()
   local _, places = torch.topk(keys, k)
   return known:index_select(1, places)
end

-- Returns the edges of a type whose ends both belong to the sample `nodes`.
local function edges_within(edge, nodes)
   local target, source = nodes[edge.target], nodes[edge.source]
   local all_targets = torch.cat(target.nodes)
   local place, owner = none(), none()
   if all_targets:numel() > 0 then place, owner = M.choose(edge.graph, all_targets, -1) end
   local rows = source.numbers:index_select(1, edge.graph.columns:index_select(1, place))
   local kept = rows:gt(0)
   return {edge_index = torch.stack {rows[kept], owner[kept]},
      ids = edge.graph.order:index_select(1, place[kept])}
end

--- Samples nodes of all types, beginning at nodes of one type, and the edges among the sampled
--- nodes (Hu et al., 2020, algorithm 1).
---@param types table<string, integer>  the number of nodes of each type
---@param order string[]  the types
---@param edges {name: string, source: string, target: string, graph: table}[]
---@param start string  the type of the seeds
---@param seeds Tensor
---@param numbers table<string, integer[]>  the number of nodes of each type in each hop
---@return table<string, {nodes: Tensor, counts: integer[]}> nodes
---@return table<string, {edge_index: Tensor, ids: Tensor}> edges
function M.sample_types(types, order, edges, start, seeds, numbers)
   local nodes, scores, hops = {}, {}, 0
   for _, name in ipairs(order) do
      nodes[name] = begin(types[name], name == start and seeds or none())
      scores[name] = torch.zeros(types[name], {dtype = "float64"})
      hops = math.max(hops, #numbers[name])
   end
   local fresh = {[start] = seeds}
   for hop = 1, hops do
      for _, edge in ipairs(edges) do score(scores, nodes, edge, fresh[edge.target]) end
      for _, name in ipairs(order) do
         local one = nodes[name]
         local drawn = draw(scores[name], numbers[name][hop] or 0)
         if drawn:numel() > 0 then
            one.numbers:index_copy_(1, drawn,
               torch.arange(one.count + 1, one.count + drawn:numel() + 1))
            scores[name]:index_fill_(1, drawn, 0)
         end
         one.count, fresh[name] = one.count + drawn:numel(), drawn
         one.nodes[hop + 1], one.counts[hop + 1] = drawn, drawn:numel()
      end
   end
   local of_nodes, of_edges = {}, {}
   for name, one in pairs(nodes) do
      of_nodes[name] = {nodes = torch.cat(one.nodes), counts = one.counts}
   end
   for _, edge in ipairs(edges) do of_edges[edge.name] = edges_within(edge, nodes) end
   return of_nodes, of_edges
end

return M
