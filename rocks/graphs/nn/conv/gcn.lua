-- gcn.lua - the graph convolution of Kipf and Welling (2017), and its normalisation of edge
-- weights.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local matrix = require "tlua.graphs.matrix"
local Linear = require "tlua.graphs.nn.Linear"
local MessagePassing = require "tlua.graphs.nn.MessagePassing"
local inits = require "tlua.graphs.nn.inits"
local edges = require "tlua.graphs.utils.edges"
local nn = torch.nn

local M = {}

-- Does the same as gcn_norm, without checking the arguments.
local function normalised(edge_index, weight, n, improved, loops, flow, dtype)
   if loops then
      edge_index, weight = edges.add_remaining_self_loops(edge_index,
         {edge_attr = weight, fill_value = improved and 2 or 1, num_nodes = n})
   end
   weight = weight or torch.ones(edge_index:size(2), {dtype = dtype, device = edge_index.device})
   local row, col = edge_index[1], edge_index[2]
   local index = flow == "source_to_target" and col or row
   local degree = weight:new_zeros(n):index_add(1, index, weight)
   local root = degree:pow(-0.5)
   root = root:masked_fill(root:eq(math.huge), 0)
   return edge_index, root:index_select(1, row) * weight * root:index_select(1, col)
end

M.normalised = normalised

local take_norm = args.signature [[graphs.nn.gcn_norm(edge_index: tensor, edge_weight: tensor?,
   num_nodes: count?, improved: boolean = false, add_self_loops: boolean = true,
   flow: string = 'source_to_target', dtype: string = 'float32')]]

--- Adds self loops, and divides the weight of each edge by the square roots of the degrees of its
--- two nodes.
---
---     local _, weight = torch.graphs.nn.gcn_norm(torch.tensor {{1, 2}, {2, 1}})
---     print(weight)
---     --> tensor([0.5000, 0.5000, 0.5000, 0.5000])
---@param edge_index Tensor
---@param edge_weight? Tensor
---@param num_nodes? integer
---@param improved? boolean  whether self loops have weight 2 instead of 1; without edge_weight,
--- self loops and all other edges have weight 1
---@param add_self_loops? boolean
---@param flow? "source_to_target"|"target_to_source"
---@param dtype? string  the dtype of the weights if edge_weight is nil
---@return Tensor edge_index
---@return Tensor edge_weight
function M.gcn_norm(...)
   local title <const> = "graphs.nn.gcn_norm"
   local a = take_norm(...)
   checks.edges(title, a.edge_index)
   checks.edge_attr(title, a.edge_index, a.edge_weight, "edge_weight")
   local n = checks.num_nodes(title, a.edge_index, a.num_nodes)
   return normalised(a.edge_index, a.edge_weight, n, a.improved, a.add_self_loops, a.flow, a.dtype)
end

-- Maps a tensor edge_index to its normalised edges. Only edges without edge_weight are cached. The
-- values do not refer to the tensor, so that it and they can be collected.
local known <const> = setmetatable({}, {__mode = "k"})

-- Returns normalised edges. Without `weight`, the result is cached as long as the tensor
-- `edge_index` exists and is not changed.
local function lookup(self, edge_index, weight, n, dtype)
   checks.edges(torch.type(self), edge_index)
   if weight or edge_index:is_inference() then
      checks.range(torch.type(self), "edge_index", edge_index, n)
      return normalised(edge_index, weight, n, self.improved, self.add_self_loops, self.flow, dtype)
   end
   local key = ("%d %s %s %s %s"):format(n, self.improved, self.add_self_loops, self.flow, dtype)
   local entry = known[edge_index]
   if not entry or entry.version ~= edge_index._version
         or entry.address ~= edge_index:data_ptr() or entry.edges ~= edge_index:size(2) then
      entry = {version = edge_index._version, address = edge_index:data_ptr(),
         edges = edge_index:size(2)}
      known[edge_index] = entry
   end
   if not entry[key] then
      checks.range(torch.type(self), "edge_index", edge_index, n)
      entry[key] = torch.no_grad(function()
         return {normalised(edge_index:detach(), nil, n, self.improved, self.add_self_loops,
            self.flow, dtype)}
      end)
   end
   return entry[key][1], entry[key][2]
end

--- Returns the normalised edges of a layer that has the fields of GCNConv.
---@param self graphs.nn.MessagePassing
---@param x Tensor
---@param edge_index Tensor
---@param edge_weight? Tensor
---@return Tensor edge_index
---@return Tensor? edge_weight
function M.layer_norm(self, x, edge_index, edge_weight)
   self:_check_edges(edge_index, edge_weight, "edge_weight")
   if edge_weight and (edge_weight:dim() ~= 1 or not edge_weight:is_floating_point()) then
      args.refuse(torch.type(self), "edge_weight", "a floating tensor of one dimension",
         edge_weight)
   end
   if self.normalize == false then return edge_index, edge_weight end
   local kept = rawget(self, "_kept")
   if self.cached and kept then
      if kept.n ~= x:size(1) then
         args.refuse(torch.type(self), "x", ("the %d nodes of the cached graph"):format(kept.n), x)
      end
      return kept[1], kept[2]
   end
   local all, weight = lookup(self, edge_index, edge_weight, x:size(-2), x.dtype)
   if self.cached then rawset(self, "_kept", {all, weight, n = x:size(-2)}) end
   return all, weight
end

local signature = args.signature [[graphs.nn.GCNConv(in_channels: count, out_channels: count,
   improved: boolean = false, cached: boolean = false, add_self_loops: boolean?,
   normalize: boolean = true, bias: boolean = true, aggr: any = 'sum',
   flow: string = 'source_to_target', node_dim: integer = -2)]]

--- The graph convolution of Kipf and Welling (2017): x' = D^(-1/2) A D^(-1/2) x W + b, where A
--- includes self loops. It is called as conv(x, edge_index, edge_weight).
---
---     local conv = torch.graphs.nn.GCNConv(3, 2)
---     print(conv(torch.ones(4, 3), torch.tensor {{1, 2}, {2, 3}}).shape)
---     --> torch.Size([4, 2])
---@class graphs.nn.GCNConv: graphs.nn.MessagePassing
---@field lin graphs.nn.Linear  the map of features
---@field bias Tensor?  (out_channels)
---@overload fun(in_channels: integer, out_channels: integer, options?: table): graphs.nn.GCNConv
local GCNConv, parent = class.class("graphs.nn.GCNConv", MessagePassing)
M.GCNConv = GCNConv

---@param in_channels integer
---@param out_channels integer
---@param options? {improved: boolean, cached: boolean, add_self_loops: boolean, normalize: boolean,
--- bias: boolean, aggr: string, flow: string}  improved: whether self loops have weight 2;
--- normalize: whether weights are divided by degrees
function GCNConv:__init(...)
   local a = signature(...)
   parent.__init(self, {aggr = a.aggr, flow = a.flow, node_dim = a.node_dim})
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   self.improved, self.cached, self.normalize = a.improved, a.cached, a.normalize
   if a.add_self_loops == nil then a.add_self_loops = a.normalize end
   if a.add_self_loops and not a.normalize then
      torch.raise "graphs.nn.GCNConv: add_self_loops: expected normalize = true with it, got false"
   end
   self.add_self_loops = a.add_self_loops
   self.lin = Linear(a.in_channels, a.out_channels, {bias = false, weight_initializer = "glorot"})
   if a.bias then self.bias = nn.Parameter(torch.zeros(a.out_channels)) end
end

--- Sets the parameters to new initial values, and clears the cached graph.
function GCNConv:reset_parameters()
   self.lin:reset_parameters()
   inits.zeros(self.bias)
   rawset(self, "_kept", nil)
end

local take = matrix.signature [[graphs.nn.GCNConv.forward(x: any, edge_index: any,
   edge_weight: tensor?)]]

---@param x Tensor  (nodes, in_channels)
---@param edge_index Tensor  (2, edges)
---@param edge_weight? Tensor  (edges)
---@return Tensor  (nodes, out_channels)
function GCNConv:forward(...)
   local a = take(...)
   local x, edge_index, edge_weight = a.x, a.edge_index, a.edge_weight
   self:_check_x(x, self.in_channels)
   local all, weight = M.layer_norm(self, x, edge_index, edge_weight)
   local out = self:propagate(all, {x = self.lin(x), edge_weight = weight or false})
   return self.bias and out + self.bias or out
end

---@param x_j Tensor
---@param edge_weight? Tensor
---@return Tensor
function GCNConv:message(x_j, edge_weight)
   return edge_weight and edge_weight:view(-1, 1) * x_j or x_j
end

---@param adjacency graphs.Adjacency
---@param x Tensor
---@param edge_weight? Tensor
---@return Tensor
function GCNConv:message_and_aggregate(adjacency, x, edge_weight)
   return self.aggr == "mean" and adjacency:mean(x, edge_weight) or adjacency:matmul(x, edge_weight)
end

function GCNConv:extra_repr() return ("%d, %d"):format(self.in_channels, self.out_channels) end

return M
