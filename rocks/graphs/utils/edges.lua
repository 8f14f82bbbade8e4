-- edges.lua - functions that count, sort, merge, add and remove edges.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.graphs.checks"
local scatter = require "tlua.graphs.utils.scatter"

local M = {}

-- Checks the edges: their nodes must be numbers from 1 to the number of nodes. Returns the number
-- of nodes.
local function nodes_of(title, edge_index, num_nodes)
   checks.edges(title, edge_index)
   return checks.num_nodes(title, edge_index, num_nodes)
end

local function masked(edge_index, mask)
   return edge_index[{{}, mask}]
end

local take_degree = args.signature [[graphs.utils.degree(index: tensor, num_nodes: count?,
   dtype: string = 'float32')]]

--- Returns how often each position occurs in an index, such as a row of edge_index.
---
---     print(torch.graphs.utils.degree(torch.tensor {1, 3, 3}))
---     --> tensor([1., 0., 2.])
---@param index Tensor  int64 of one dimension
---@param num_nodes? integer
---@param dtype? string
---@return Tensor
function M.degree(...)
   local title <const> = "graphs.utils.degree"
   local a = take_degree(...)
   checks.index(title, "index", a.index)
   if a.num_nodes then checks.range(title, "index", a.index, a.num_nodes) end
   local n = checks.num_nodes(title, a.index, a.num_nodes)
   if a.index:numel() == 0 then
      return torch.zeros(n, {dtype = a.dtype, device = a.index.device})
   end
   return torch.bincount(a.index, {minlength = n}):to(a.dtype)
end

-- Returns fn(edge_attr). If edge_attr is a list of tensors, fn is applied to each of them. If it is
-- nil, returns nil.
local function each_attr(attr, fn)
   if type(attr) ~= "table" then return attr ~= nil and fn(attr) or nil end
   local list = {}
   for i, value in ipairs(attr) do list[i] = fn(value) end
   return list
end

local function check_attr(title, edge_index, attr)
   each_attr(attr, function(value) checks.edge_attr(title, edge_index, value) return value end)
end

-- Returns a number for each edge. Sorting by these numbers sorts the edges by source (if `by_row`
-- is true) or by target.
local function keys_of(edge_index, n, by_row)
   local first, second = edge_index[by_row and 1 or 2], edge_index[by_row and 2 or 1]
   return (first - 1) * n + second
end

local take_coalesce = args.signature [[graphs.utils.coalesce(edge_index: tensor, edge_attr: any?,
   num_nodes: count?, reduce: string = 'sum', is_sorted: boolean = false,
   sort_by_row: boolean = true)]]

-- Does the work of the function `title`: sorts edges and merges duplicates. `a` has the checked
-- arguments.
local function coalesce(title, a)
   local n = nodes_of(title, a.edge_index, a.num_nodes)
   check_attr(title, a.edge_index, a.edge_attr)
   if not scatter.has(a.reduce) then args.refuse(title, "reduce", scatter.names, a.reduce) end
   local edge_index, attr = a.edge_index, a.edge_attr
   local keys = keys_of(edge_index, n, a.sort_by_row)
   if not a.is_sorted then
      local order
      keys, order = torch.sort(keys, 1, {stable = true})
      edge_index = edge_index:index_select(2, order)
      attr = each_attr(attr, function(value) return value:index_select(1, order) end)
   end
   local edges = keys:numel()
   if edges < 2 then return edge_index, attr end
   local first = torch.cat {keys:new_ones(1):bool(), keys[{{2, -1}}]:ne(keys[{{1, -2}}])}
   local groups = first:cumsum(1)
   local count = groups[-1]:item()
   if count == edges then return edge_index, attr end
   return masked(edge_index, first), each_attr(attr, function(value)
      return scatter.reduce(value, groups, 1, count, a.reduce)
   end)
end

--- Sorts edges by their sources and merges duplicates, whose attributes are reduced.
---
---     local edges = torch.tensor {{2, 1, 2}, {1, 2, 1}}
---     local merged, weight = torch.graphs.utils.coalesce(edges, torch.ones(3))
---     print(merged[1], merged[2], weight)
---     --> tensor([1, 2])	tensor([2, 1])	tensor([1., 2.])
---@param edge_index Tensor
---@param edge_attr? Tensor|Tensor[]
---@param num_nodes? integer
---@param reduce? string  a reduction that scatter accepts; 'sum' by default
---@param is_sorted? boolean  whether the edges are sorted already
---@param sort_by_row? boolean  whether edges are sorted by their sources (instead of targets)
---@return Tensor edge_index
---@return Tensor|Tensor[]|nil edge_attr
function M.coalesce(...)
   return coalesce("graphs.utils.coalesce", take_coalesce(...))
end

local take_sort = args.signature [[graphs.utils.sort_edge_index(edge_index: tensor,
   edge_attr: any?, num_nodes: count?, sort_by_row: boolean = true)]]

--- Sorts edges by their sources, or by their targets.
---
---     local edges = torch.tensor {{2, 1}, {1, 2}}
---     print(torch.graphs.utils.sort_edge_index(edges)[1])
---     --> tensor([1, 2])
---@param edge_index Tensor
---@param edge_attr? Tensor|Tensor[]
---@param num_nodes? integer
---@param sort_by_row? boolean  whether edges are sorted by their sources (instead of targets)
---@return Tensor edge_index
---@return Tensor|Tensor[]|nil edge_attr
function M.sort_edge_index(...)
   local title <const> = "graphs.utils.sort_edge_index"
   local a = take_sort(...)
   local n = nodes_of(title, a.edge_index, a.num_nodes)
   check_attr(title, a.edge_index, a.edge_attr)
   local order = torch.argsort(keys_of(a.edge_index, n, a.sort_by_row), {stable = true})
   return a.edge_index:index_select(2, order), each_attr(a.edge_attr, function(value)
      return value:index_select(1, order)
   end)
end

-- Self loops --------------------------------------------------------------------------------------

--- Returns whether any edge has the same node at both ends.
---
---     local U = torch.graphs.utils
---     print(U.contains_self_loops(torch.tensor {{1, 2}, {2, 2}}))
---     --> true
---@param edge_index Tensor
---@return boolean
function M.contains_self_loops(edge_index)
   checks.edges("graphs.utils.contains_self_loops", edge_index)
   return edge_index[1]:eq(edge_index[2]):any():item()
end

local take_remove = args.signature [[graphs.utils.remove_self_loops(edge_index: tensor,
   edge_attr: tensor?)]]

--- Removes the edges that have the same node at both ends.
---
---     local U = torch.graphs.utils
---     local edges = U.remove_self_loops(torch.tensor {{1, 2}, {2, 2}})
---     print(edges:tolist()[1][1], #edges[1])
---     --> 1	1
---@param edge_index Tensor
---@param edge_attr? Tensor
---@return Tensor edge_index
---@return Tensor? edge_attr
function M.remove_self_loops(...)
   local title <const> = "graphs.utils.remove_self_loops"
   local a = take_remove(...)
   checks.edges(title, a.edge_index)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   local mask = a.edge_index[1]:ne(a.edge_index[2])
   return masked(a.edge_index, mask), a.edge_attr and a.edge_attr[mask]
end

local take_segregate = args.signature [[graphs.utils.segregate_self_loops(edge_index: tensor,
   edge_attr: tensor?)]]

--- Splits edges into those that connect different nodes and self loops.
---
---     local others, _, loops = torch.graphs.utils.segregate_self_loops(
---        torch.tensor {{1, 2}, {2, 2}})
---     print(#others[1], #loops[1])
---     --> 1	1
---@param edge_index Tensor
---@param edge_attr? Tensor
---@return Tensor edge_index
---@return Tensor? edge_attr
---@return Tensor loop_edge_index
---@return Tensor? loop_edge_attr
function M.segregate_self_loops(...)
   local title <const> = "graphs.utils.segregate_self_loops"
   local a = take_segregate(...)
   checks.edges(title, a.edge_index)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   local loops = a.edge_index[1]:eq(a.edge_index[2])
   local others = ~loops
   return masked(a.edge_index, others), a.edge_attr and a.edge_attr[others],
      masked(a.edge_index, loops), a.edge_attr and a.edge_attr[loops]
end

-- Returns the attributes of one self loop for each node. `fill` is a number, a tensor, or the name
-- of a reduction. The reduction is applied to the attributes of the edges that end at the node.
local function loop_attr(title, edge_index, attr, fill, n)
   local sizes = {n, table.unpack(attr.shape, 2)}
   if fill == nil then return attr:new_ones(sizes) end
   if type(fill) == "number" then return attr:new_full(sizes, fill) end
   if torch.is_tensor(fill) then
      local value = fill:to(attr.dtype)
      if attr:dim() ~= value:dim() then value = value:unsqueeze(1) end
      return value:expand(sizes):contiguous()
   end
   if type(fill) ~= "string" or not scatter.has(fill) then
      args.refuse(title, "fill_value", "a number, a tensor, or a reduction: " .. scatter.names,
         fill)
   end
   return scatter.reduce(attr, edge_index[2], 1, n, fill)
end

local function loops_of(edge_index, n)
   local loops = torch.arange(1, n + 1, {device = edge_index.device})
   return loops:unsqueeze(1):expand(2, n)
end

local loop_parameters <const> =
   "(edge_index: tensor, edge_attr: tensor?, fill_value: any?, num_nodes: count?)"
local take_add = args.signature("graphs.utils.add_self_loops" .. loop_parameters)

--- Adds an edge from each node to itself. The new edges come after all other edges.
---
---     local U = torch.graphs.utils
---     local edges = torch.tensor {{1}, {2}}
---     local all, weight = U.add_self_loops(edges, torch.tensor {5.0})
---     print(all[1], weight)
---     --> tensor([1, 1, 2])	tensor([5., 1., 1.])
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param fill_value? number|Tensor|string  the attribute of new edges, 1 by default; or a reduction
--- of the attributes of edges that end at the node
---@param num_nodes? integer
---@return Tensor edge_index
---@return Tensor? edge_attr
function M.add_self_loops(...)
   local title <const> = "graphs.utils.add_self_loops"
   local a = take_add(...)
   local n = nodes_of(title, a.edge_index, a.num_nodes)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   local all = torch.cat({a.edge_index, loops_of(a.edge_index, n)}, 2)
   if not a.edge_attr then return all end
   local loops = loop_attr(title, a.edge_index, a.edge_attr, a.fill_value, n)
   return all, torch.cat {a.edge_attr, loops}
end

local take_remaining = args.signature("graphs.utils.add_remaining_self_loops" .. loop_parameters)

--- Adds a self loop to each node that has none. All self loops come last, in the order of nodes.
--- Existing self loops keep their attributes.
---
---     local edges = torch.tensor {{1, 2}, {1, 1}}
---     local all, weight = torch.graphs.utils.add_remaining_self_loops(edges,
---        torch.tensor {3.0, 5.0})
---     print(all[1], weight)
---     --> tensor([2, 1, 2])	tensor([5., 3., 1.])
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param fill_value? number|Tensor|string  as in add_self_loops
---@param num_nodes? integer
---@return Tensor edge_index
---@return Tensor? edge_attr
function M.add_remaining_self_loops(...)
   local title <const> = "graphs.utils.add_remaining_self_loops"
   local a = take_remaining(...)
   local n = nodes_of(title, a.edge_index, a.num_nodes)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   local others = a.edge_index[1]:ne(a.edge_index[2])
   local attr = a.edge_attr
   if attr then
      local loops = ~others
      local values = loop_attr(title, a.edge_index, attr, a.fill_value, n)
      values = values:index_copy(1, a.edge_index[1][loops], attr[loops])
      attr = torch.cat {attr[others], values}
   end
   return torch.cat({masked(a.edge_index, others), loops_of(a.edge_index, n)}, 2), attr
end

-- Directions --------------------------------------------------------------------------------------

local take_is_undirected = args.signature [[graphs.utils.is_undirected(edge_index: tensor,
   edge_attr: any?, num_nodes: count?)]]

--- Returns whether the reverse of each edge exists, with the same attributes.
---
---     print(torch.graphs.utils.is_undirected(torch.tensor {{1, 2}, {2, 1}}))
---     --> true
---@param edge_index Tensor
---@param edge_attr? Tensor|Tensor[]
---@param num_nodes? integer
---@return boolean
function M.is_undirected(...)
   local title <const> = "graphs.utils.is_undirected"
   local a = take_is_undirected(...)
   local n = nodes_of(title, a.edge_index, a.num_nodes)
   check_attr(title, a.edge_index, a.edge_attr)
   local there = torch.argsort(keys_of(a.edge_index, n, true), {stable = true})
   local back = torch.argsort(keys_of(a.edge_index, n, false), {stable = true})
   local edges, reverse = a.edge_index:index_select(2, there), a.edge_index:index_select(2, back)
   if not (edges[1]:equal(reverse[2]) and edges[2]:equal(reverse[1])) then return false end
   local same = true
   each_attr(a.edge_attr, function(value)
      same = same and value:index_select(1, there):equal(value:index_select(1, back))
      return value
   end)
   return same
end

local take_to_undirected = args.signature [[graphs.utils.to_undirected(edge_index: tensor,
   edge_attr: any?, num_nodes: count?, reduce: string = 'add')]]

--- Adds the reverse of each edge, sorts the edges and merges duplicates. `reduce` selects how the
--- attributes of duplicates are combined.
---
---     local U = torch.graphs.utils
---     local edges, weight = U.to_undirected(torch.tensor {{1, 2}, {2, 3}},
---        torch.tensor {1.0, 2.0})
---     print(edges[1], weight)
---     --> tensor([1, 2, 2, 3])	tensor([1., 1., 2., 2.])
---@param edge_index Tensor
---@param edge_attr? Tensor|Tensor[]
---@param num_nodes? integer
---@param reduce? string  a reduction that scatter accepts; 'add' by default
---@return Tensor edge_index
---@return Tensor|Tensor[]|nil edge_attr
function M.to_undirected(...)
   local title <const> = "graphs.utils.to_undirected"
   local a = take_to_undirected(...)
   nodes_of(title, a.edge_index, a.num_nodes)
   check_attr(title, a.edge_index, a.edge_attr)
   return coalesce(title, {
      edge_index = torch.cat({a.edge_index, a.edge_index:flip(1)}, 2),
      edge_attr = each_attr(a.edge_attr, function(value) return torch.cat {value, value} end),
      num_nodes = a.num_nodes, reduce = a.reduce, sort_by_row = true,
   })
end

-- Isolated nodes ----------------------------------------------------------------------------------

-- Returns a mask of the nodes that have an edge to or from another node.
local function connected(edge_index, n)
   local others = masked(edge_index, edge_index[1]:ne(edge_index[2]))
   local mask = torch.zeros(n, {dtype = "bool", device = edge_index.device})
   if others:numel() > 0 then mask:index_fill_(1, others:reshape(-1), true) end
   return mask
end

local take_isolated = args.signature [[graphs.utils.contains_isolated_nodes(edge_index: tensor,
   num_nodes: count?)]]

--- Returns whether any node has no edge to or from another node.
---
---     local U = torch.graphs.utils
---     print(U.contains_isolated_nodes(torch.tensor {{1}, {2}}, 3))
---     --> true
---@param edge_index Tensor
---@param num_nodes? integer
---@return boolean
function M.contains_isolated_nodes(...)
   local a = take_isolated(...)
   local n = nodes_of("graphs.utils.contains_isolated_nodes", a.edge_index, a.num_nodes)
   return not connected(a.edge_index, n):all():item()
end

local take_remove_isolated = args.signature [[graphs.utils.remove_isolated_nodes(
   edge_index: tensor, edge_attr: tensor?, num_nodes: count?)]]

--- Removes the nodes that have no edge to or from another node, and renumbers the other nodes from
--- 1. Self loops come last, at most one for each node.
---
---     local U = torch.graphs.utils
---     local edges, _, mask = U.remove_isolated_nodes(torch.tensor {{1}, {3}})
---     print(edges:tolist()[2][1], mask)
---     --> 2	tensor([ True, False,  True])
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param num_nodes? integer
---@return Tensor edge_index
---@return Tensor? edge_attr
---@return Tensor mask  which nodes are kept
function M.remove_isolated_nodes(...)
   local title <const> = "graphs.utils.remove_isolated_nodes"
   local a = take_remove_isolated(...)
   local n = nodes_of(title, a.edge_index, a.num_nodes)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   local mask = connected(a.edge_index, n)
   local numbers = mask:cumsum(1)
   local loop = a.edge_index[1]:eq(a.edge_index[2])
   local others, loops = (~loop):nonzero():view(-1), loop:nonzero():view(-1)
   -- One self loop of each kept node is kept, in the order of the nodes.
   local of_node = a.edge_index:new_zeros(n):index_copy(1, a.edge_index[1][loops], loops)
   of_node = of_node[mask]
   local kept = torch.cat {others, of_node[of_node:gt(0)]}
   local edge_index = a.edge_index:index_select(2, kept)
   return numbers:index_select(1, edge_index:reshape(-1)):view(2, -1),
      a.edge_attr and a.edge_attr:index_select(1, kept), mask
end

return M
