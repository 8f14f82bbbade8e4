-- subgraphs.lua - parts of a graph: induced subgraphs and neighbourhoods.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.graphs.checks"

local M = {}

local take_to_index = args.signature "graphs.utils.mask_to_index(mask: tensor)"

--- Returns the positions at which a mask is true.
---
---     print(torch.graphs.utils.mask_to_index(torch.tensor {true, false, true}))
---     --> tensor([1, 3])
---@param mask Tensor  bool of one dimension
---@return Tensor
function M.mask_to_index(...)
   local mask = take_to_index(...).mask
   if mask.dtype ~= "bool" or mask:dim() ~= 1 then
      args.refuse("graphs.utils.mask_to_index", "mask", "a bool tensor of one dimension", mask)
   end
   return mask:nonzero():view(-1)
end

local take_to_mask = args.signature "graphs.utils.index_to_mask(index: tensor, size: count?)"

--- Returns a mask that is true at the positions of an index.
---
---     print(torch.graphs.utils.index_to_mask(torch.tensor {1, 3}, 4))
---     --> tensor([ True, False,  True, False])
---@param index Tensor  int64
---@param size? integer  the mask's size; by default the greatest position
---@return Tensor
function M.index_to_mask(...)
   local title <const> = "graphs.utils.index_to_mask"
   local a = take_to_mask(...)
   checks.index(title, "index", a.index)
   if a.size then checks.range(title, "index", a.index, a.size, "elements") end
   local n = checks.num_nodes(title, a.index, a.size)
   local mask = torch.zeros(n, {dtype = "bool", device = a.index.device})
   return a.index:numel() > 0 and mask:index_fill_(1, a.index, true) or mask
end

-- Returns a mask of nodes, and their numbers. `subset` is a mask itself, or an index or a list with
-- the numbers of nodes. `what` names the things that are selected, "nodes" by default.
local function node_mask(title, name, subset, n, device, what)
   what = what or "nodes"
   if type(subset) == "number" then subset = {subset} end
   if type(subset) == "table" and not getmetatable(subset) then
      for i = 1, #subset do
         if not (math.type(subset[i]) and math.tointeger(subset[i])) then
            args.refuse(title, ("%s[%d]"):format(name, i), "an integer", subset[i])
         end
      end
      subset = torch.tensor(subset, {dtype = "int64", device = device})
   end
   if not torch.is_tensor(subset) or subset:dim() ~= 1
         or subset.dtype ~= "bool" and subset.dtype ~= "int64" then
      args.refuse(title, name, ("a list of %s, an int64 tensor, or a mask"):format(what), subset)
   end
   if subset.dtype == "bool" then
      if subset:numel() ~= n then
         args.refuse(title, name, ("a mask of %d %s"):format(n, what), subset)
      end
      return subset, subset:nonzero():view(-1)
   end
   checks.range(title, name, subset, n, what)
   local mask = torch.zeros(n, {dtype = "bool", device = device})
   if subset:numel() > 0 then mask:index_fill_(1, subset, true) end
   return mask, subset
end
M.node_mask = node_mask

-- Renumbers the nodes of edges, so that node subset[i] becomes node i.
local function relabel(edge_index, subset, n)
   local numbers = torch.zeros(n, {dtype = "int64", device = edge_index.device})
   local count = subset:numel()
   if count > 0 then
      numbers:index_copy_(1, subset, torch.arange(1, count + 1, {device = edge_index.device}))
   end
   return numbers:index_select(1, edge_index:reshape(-1)):view(2, -1)
end
M.relabel = relabel

local take_subgraph = args.signature [[graphs.utils.subgraph(subset: any, edge_index: tensor,
   edge_attr: tensor?, relabel_nodes: boolean = false, num_nodes: count?,
   return_edge_mask: boolean = false)]]

--- Returns the edges whose two nodes are both in `subset`.
---
---     local U = torch.graphs.utils
---     local edges = torch.tensor {{1, 2, 3}, {2, 3, 1}}
---     local part = U.subgraph({2, 3}, edges, {relabel_nodes = true})
---     print(part[1]:item(), part[2]:item())
---     --> 1	2
---@param subset Tensor|integer[]  nodes, or a mask
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param relabel_nodes? boolean  whether the nodes of the subset are renumbered from 1
---@param num_nodes? integer
---@param return_edge_mask? boolean  whether the third result is a mask of the kept edges
---@return Tensor edge_index
---@return Tensor? edge_attr
---@return Tensor? mask
function M.subgraph(...)
   local title <const> = "graphs.utils.subgraph"
   local a = take_subgraph(...)
   checks.edges(title, a.edge_index)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   local is_mask = torch.is_tensor(a.subset) and a.subset.dtype == "bool"
   local n = a.num_nodes or is_mask and a.subset:numel()
   n = checks.num_nodes(title, a.edge_index, n or nil)
   local mask, subset = node_mask(title, "subset", a.subset, n, a.edge_index.device)
   local kept = mask:index_select(1, a.edge_index[1]) & mask:index_select(1, a.edge_index[2])
   local edges = a.edge_index[{{}, kept}]
   if a.relabel_nodes then edges = relabel(edges, subset, n) end
   return edges, a.edge_attr and a.edge_attr[kept], a.return_edge_mask and kept or nil
end

local take_k_hop = args.signature [[graphs.utils.k_hop_subgraph(node_idx: any, num_hops: count,
   edge_index: tensor, relabel_nodes: boolean = false, num_nodes: count?,
   flow: string = 'source_to_target', directed: boolean = false)]]

--- Returns the nodes within `num_hops` edges of the central nodes, and the edges among these nodes.
---
---     local U = torch.graphs.utils
---     local edges = torch.tensor {{1, 2, 3}, {2, 3, 4}}
---     local subset, part, mapping = U.k_hop_subgraph(3, 1, edges)
---     print(subset, part[1]:item(), part[2]:item(), mapping)
---     --> tensor([2, 3])	2	3	tensor([2])
---@param node_idx integer|integer[]|Tensor  the central nodes
---@param num_hops integer
---@param edge_index Tensor
---@param relabel_nodes? boolean  whether the nodes of the subset are renumbered from 1
---@param num_nodes? integer
---@param flow? "source_to_target"|"target_to_source"
---@param directed? boolean  whether only edges on the way to the central nodes are kept
---@return Tensor subset  the nodes
---@return Tensor edge_index
---@return Tensor mapping  the positions of node_idx in subset
---@return Tensor mask  a mask of the kept edges
function M.k_hop_subgraph(...)
   local title <const> = "graphs.utils.k_hop_subgraph"
   local a = take_k_hop(...)
   checks.edges(title, a.edge_index)
   local n = checks.num_nodes(title, a.edge_index, a.num_nodes)
   if a.flow ~= "source_to_target" and a.flow ~= "target_to_source" then
      args.refuse(title, "flow", '"source_to_target" or "target_to_source"', a.flow)
   end
   local reached, center = node_mask(title, "node_idx", a.node_idx, n, a.edge_index.device)
   local forward = a.flow == "source_to_target"
   local row = a.edge_index[forward and 1 or 2]
   local col = a.edge_index[forward and 2 or 1]
   local front = reached:clone()
   reached = reached:clone()
   local on_way = torch.zeros(row:numel(), {dtype = "bool", device = row.device})
   for _ = 1, a.num_hops do
      local edges = front:index_select(1, col)
      on_way = on_way | edges
      front = torch.zeros_like(reached)
      local found = row[edges]
      if found:numel() > 0 then
         front:index_fill_(1, found, true)
         reached:index_fill_(1, found, true)
      end
   end
   local subset = reached:nonzero():view(-1)
   local kept = on_way
   if not a.directed then
      kept = reached:index_select(1, row) & reached:index_select(1, col)
   end
   local edges = a.edge_index[{{}, kept}]
   if a.relabel_nodes then edges = relabel(edges, subset, n) end
   return subset, edges, reached:cumsum(1):index_select(1, center), kept
end

return M
