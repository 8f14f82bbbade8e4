-- sums.lua - the layers SAGEConv, GINConv, GINEConv, GraphConv, ChebConv, APPNP, SGConv,
-- GatedGraphConv and EdgeConv. In most of them, a message is a neighbour's row times a weight.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local matrix = require "tlua.graphs.matrix"
local Linear = require "tlua.graphs.nn.Linear"
local MessagePassing = require "tlua.graphs.nn.MessagePassing"
local gcn = require "tlua.graphs.nn.conv.gcn"
local inits = require "tlua.graphs.nn.inits"
local dense = require "tlua.graphs.utils.dense"
local nn = torch.nn
local F = nn.functional

local M = {}

local function pair_text(channels)
   return type(channels) == "table" and ("(%d, %d)"):format(channels[1], channels[2])
      or tostring(channels)
end

local function channels_of(title, channels)
   if type(channels) ~= "table" then return channels, channels end
   if #channels ~= 2 then
      args.refuse(title, "in_channels", "an integer or a list of two", channels)
   end
   return channels[1], channels[2]
end

-- The method `message` of layers with edge weights. A message is the row of x at the edge's source
-- times the edge's weight.
local function weighted(_, x_j, edge_weight)
   return edge_weight and edge_weight:view(-1, 1) * x_j or x_j
end

local function weighted_product(self, adjacency, x, edge_weight)
   if type(x) == "table" then x = x[1] end
   return self.aggr == "mean" and adjacency:mean(x, edge_weight)
      or adjacency:matmul(x, edge_weight)
end

local function check_weight(self, edge_index, weight)
   self:_check_edges(edge_index, weight, "edge_weight")
   if weight and (weight:dim() ~= 1 or not weight:is_floating_point()) then
      args.refuse(torch.type(self), "edge_weight", "a floating tensor of one dimension", weight)
   end
end

-- SAGEConv ----------------------------------------------------------------------------------------

local take_sage = args.signature [[graphs.nn.SAGEConv(in_channels: integers, out_channels: count,
   aggr: any = 'mean', normalize: boolean = false, root_weight: boolean = true,
   project: boolean = false, bias: boolean = true, flow: string = 'source_to_target')]]

--- GraphSAGE (Hamilton et al., 2017): x' = W_l mean of the neighbours + W_r x. It is called as
--- conv(x, edge_index). x may be a list of the sources' features and the targets' features.
---
---     local conv = torch.graphs.nn.SAGEConv(3, 2)
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.SAGEConv: graphs.nn.MessagePassing
---@field lin_l graphs.nn.Linear  the map of the neighbours' mean
---@field lin_r graphs.nn.Linear?  the map of the node's own features
---@overload fun(in_channels: integer|integer[], out_channels: integer, options?: table):
--- graphs.nn.SAGEConv
local SAGEConv = class.class("graphs.nn.SAGEConv", MessagePassing)
M.SAGEConv = SAGEConv

---@param in_channels integer|integer[]
---@param out_channels integer
---@param options? {aggr: string|string[], normalize: boolean, root_weight: boolean, project:
--- boolean, bias: boolean, flow: string}  normalize: whether results have length 1; project:
--- whether neighbours first pass through an affine map and relu
function SAGEConv:__init(...)
   local a = take_sage(...)
   MessagePassing.__init(self, {aggr = a.aggr, flow = a.flow})
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   self.normalize, self.root_weight, self.project = a.normalize, a.root_weight, a.project
   local from, to = channels_of("graphs.nn.SAGEConv", a.in_channels)
   if a.project then self.lin = Linear(from, from) end
   local several = type(a.aggr) == "table" and not getmetatable(a.aggr)
   self.lin_l = Linear(several and #a.aggr * from or from, a.out_channels, {bias = a.bias})
   if a.root_weight then self.lin_r = Linear(to, a.out_channels, {bias = false}) end
end

--- Sets the parameters to new initial values.
function SAGEConv:reset_parameters()
   for _, name in ipairs {"lin", "lin_l", "lin_r"} do inits.reset(self[name]) end
end

local forward_sage = matrix.signature [[graphs.nn.SAGEConv.forward(x: any, edge_index: any,
   size: any?)]]

---@param x Tensor|Tensor[]
---@param edge_index Tensor
---@param size? integer[]
---@return Tensor
function SAGEConv:forward(...)
   local a = forward_sage(...)
   local x, target = self:_pair(a.x, self.in_channels)
   if self.lin then x = self.lin(x):relu() end
   local out = self.lin_l(self:propagate(a.edge_index, {x = {x, target}, size = a.size}))
   if self.lin_r and target then out = out + self.lin_r(target) end
   return self.normalize and F.normalize(out, {p = 2, dim = -1}) or out
end

function SAGEConv:extra_repr()
   return ("%s, %d, aggr=%s"):format(pair_text(self.in_channels), self.out_channels,
      type(self.aggr) == "table" and "[" .. table.concat(self.aggr, ", ") .. "]" or self.aggr)
end

-- GraphConv ---------------------------------------------------------------------------------------

local take_graph = args.signature [[graphs.nn.GraphConv(in_channels: integers,
   out_channels: count, aggr: any = 'sum', bias: boolean = true,
   flow: string = 'source_to_target')]]

--- The graph convolution of Morris et al. (2019): x' = W_1 x + W_2 sum of weighted neighbours. It
--- is called as conv(x, edge_index, edge_weight).
---
---     local conv = torch.graphs.nn.GraphConv(3, 2)
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.GraphConv: graphs.nn.MessagePassing
---@field lin_rel graphs.nn.Linear  the map of the neighbours' sum
---@field lin_root graphs.nn.Linear  the map of the node's own features
---@overload fun(in_channels: integer|integer[], out_channels: integer, options?: table):
--- graphs.nn.GraphConv
local GraphConv = class.class("graphs.nn.GraphConv", MessagePassing)
M.GraphConv = GraphConv

---@param in_channels integer|integer[]
---@param out_channels integer
---@param options? {aggr: string, bias: boolean, flow: string}
function GraphConv:__init(...)
   local a = take_graph(...)
   MessagePassing.__init(self, {aggr = a.aggr, flow = a.flow})
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   local from, to = channels_of("graphs.nn.GraphConv", a.in_channels)
   self.lin_rel = Linear(from, a.out_channels, {bias = a.bias})
   self.lin_root = Linear(to, a.out_channels, {bias = false})
end

--- Sets the parameters to new initial values.
function GraphConv:reset_parameters()
   self.lin_rel:reset_parameters()
   self.lin_root:reset_parameters()
end

local forward_graph = matrix.signature [[graphs.nn.GraphConv.forward(x: any, edge_index: any,
   edge_weight: tensor?, size: any?)]]

---@param x Tensor|Tensor[]
---@param edge_index Tensor
---@param edge_weight? Tensor
---@param size? integer[]
---@return Tensor
function GraphConv:forward(...)
   local a = forward_graph(...)
   local x, target = self:_pair(a.x, self.in_channels)
   check_weight(self, a.edge_index, a.edge_weight)
   local out = self.lin_rel(self:propagate(a.edge_index, {x = {x, target},
      edge_weight = a.edge_weight or false, size = a.size}))
   return target and out + self.lin_root(target) or out
end

GraphConv.message, GraphConv.message_and_aggregate = weighted, weighted_product

function GraphConv:extra_repr()
   return ("%s, %d"):format(pair_text(self.in_channels), self.out_channels)
end

-- GINConv, GINEConv, EdgeConv ---------------------------------------------------------------------

local function check_net(title, net)
   if not args.is_callable(net) then args.refuse(title, "nn", "a module", net) end
end

local function make_eps(self, eps, trained)
   self.initial_eps = eps
   if trained then
      self.eps = nn.Parameter(torch.full({1}, eps))
   else
      self:register_buffer("eps", torch.full({1}, eps))
   end
end

local function reset_eps(self)
   torch.no_grad(function() self.eps:fill_(self.initial_eps) end)
end

local take_gin = args.signature [[graphs.nn.GINConv(nn: any, eps: number = 0,
   train_eps: boolean = false, flow: string = 'source_to_target')]]

--- The graph isomorphism network (Xu et al., 2019): x' = nn((1 + eps) x + sum of the neighbours).
--- It is called as conv(x, edge_index).
---
---     local conv = torch.graphs.nn.GINConv(torch.nn.Linear(3, 2))
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.GINConv: graphs.nn.MessagePassing
---@field nn nn.Module  the network
---@field eps Tensor  (1)
---@overload fun(nn: nn.Module, options?: table): graphs.nn.GINConv
local GINConv = class.class("graphs.nn.GINConv", MessagePassing)
M.GINConv = GINConv

---@param nn nn.Module
---@param options? {eps: number, train_eps: boolean, flow: string}
function GINConv:__init(...)
   local a = take_gin(...)
   MessagePassing.__init(self, {flow = a.flow})
   check_net("graphs.nn.GINConv", a.nn)
   self.nn = a.nn
   make_eps(self, a.eps, a.train_eps)
end

--- Sets the parameters to new initial values.
function GINConv:reset_parameters()
   inits.reset(self.nn)
   reset_eps(self)
end

local forward_gin = matrix.signature [[graphs.nn.GINConv.forward(x: any, edge_index: any,
   size: any?)]]

---@param x Tensor|Tensor[]
---@param edge_index Tensor
---@param size? integer[]
---@return Tensor
function GINConv:forward(...)
   local a = forward_gin(...)
   local x, target = self:_pair(a.x)
   local out = self:propagate(a.edge_index, {x = {x, target}, size = a.size})
   if target then out = out + (1 + self.eps) * target end
   return self.nn(out)
end

local take_gine = args.signature [[graphs.nn.GINEConv(nn: any, eps: number = 0,
   train_eps: boolean = false, edge_dim: count?, flow: string = 'source_to_target')]]

--- GINConv with edge features (Hu et al., 2020): the message is relu(x_j + e_ij). It is called as
--- conv(x, edge_index, edge_attr).
---
---     local conv = torch.graphs.nn.GINEConv(torch.nn.Linear(3, 2))
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges, torch.ones(2, 3)).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.GINEConv: graphs.nn.MessagePassing
---@field nn nn.Module  the network
---@field eps Tensor  (1)
---@overload fun(nn: nn.Module, options?: table): graphs.nn.GINEConv
local GINEConv = class.class("graphs.nn.GINEConv", MessagePassing)
M.GINEConv = GINEConv

---@param nn nn.Module
---@param options? {eps: number, train_eps: boolean, edge_dim: integer, flow: string}
function GINEConv:__init(...)
   local a = take_gine(...)
   MessagePassing.__init(self, {flow = a.flow})
   check_net("graphs.nn.GINEConv", a.nn)
   self.nn = a.nn
   make_eps(self, a.eps, a.train_eps)
   if a.edge_dim then
      local first = class.isinstance(a.nn, torch.nn.Sequential) and a.nn[1] or a.nn
      local width = rawget(first, "in_features") or rawget(first, "in_channels")
      if not width then
         torch.raise("graphs.nn.GINEConv: nn: expected a module that begins with a layer that has "
            .. "in_features or in_channels, because of edge_dim")
      end
      self.lin = Linear(a.edge_dim, width)
   end
end

--- Sets the parameters to new initial values.
function GINEConv:reset_parameters()
   inits.reset(self.nn)
   inits.reset(self.lin)
   reset_eps(self)
end

local forward_gine = matrix.signature [[graphs.nn.GINEConv.forward(x: any, edge_index: any,
   edge_attr: tensor, size: any?)]]

---@param x Tensor|Tensor[]
---@param edge_index Tensor
---@param edge_attr Tensor
---@param size? integer[]
---@return Tensor
function GINEConv:forward(...)
   local a = forward_gine(...)
   local x, target = self:_pair(a.x)
   self:_check_edges(a.edge_index, a.edge_attr, "edge_attr")
   local attr = a.edge_attr
   if self.lin then attr = self.lin(attr) end
   if attr:dim() ~= 2 or attr:size(2) ~= x:size(2) then
      args.refuse("graphs.nn.GINEConv", "edge_attr",
         ("%d columns, as x has, or the option edge_dim"):format(x:size(2)), attr)
   end
   local out = self:propagate(a.edge_index, {x = {x, target}, edge_attr = attr, size = a.size})
   if target then out = out + (1 + self.eps) * target end
   return self.nn(out)
end

function GINEConv:message(x_j, edge_attr) return (x_j + edge_attr):relu() end

local take_edge = args.signature [[graphs.nn.EdgeConv(nn: any, aggr: any = 'max',
   flow: string = 'source_to_target')]]

--- The dynamic edge convolution of Wang et al. (2019). The message is nn([x_i, x_j - x_i]). It is
--- called as conv(x, edge_index).
---
---     local conv = torch.graphs.nn.EdgeConv(torch.nn.Linear(6, 2))
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.EdgeConv: graphs.nn.MessagePassing
---@field nn nn.Module  the network
---@overload fun(nn: nn.Module, options?: table): graphs.nn.EdgeConv
local EdgeConv = class.class("graphs.nn.EdgeConv", MessagePassing)
M.EdgeConv = EdgeConv

---@param nn nn.Module
---@param options? {aggr: string, flow: string}
function EdgeConv:__init(...)
   local a = take_edge(...)
   MessagePassing.__init(self, {aggr = a.aggr, flow = a.flow})
   check_net("graphs.nn.EdgeConv", a.nn)
   self.nn = a.nn
end

--- Sets the parameters to new initial values.
function EdgeConv:reset_parameters() inits.reset(self.nn) end

local forward_edge = matrix.signature "graphs.nn.EdgeConv.forward(x: any, edge_index: any)"

---@param x Tensor|Tensor[]
---@param edge_index Tensor
---@return Tensor
function EdgeConv:forward(...)
   local a = forward_edge(...)
   local x, target = self:_pair(a.x)
   return self:propagate(a.edge_index, {x = {x, target}})
end

function EdgeConv:message(x_i, x_j) return self.nn(torch.cat({x_i, x_j - x_i}, -1)) end

-- ChebConv ----------------------------------------------------------------------------------------

local take_cheb = args.signature [[graphs.nn.ChebConv(in_channels: count, out_channels: count,
   K: count, normalization: string|boolean = 'sym', bias: boolean = true,
   flow: string = 'source_to_target')]]

--- Spectral convolution by Chebyshev polynomials of the Laplacian (Defferrard et al., 2016). It is
--- called as conv(x, edge_index, edge_weight, batch, lambda_max).
---
---     local conv = torch.graphs.nn.ChebConv(3, 2, 3)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.ChebConv: graphs.nn.MessagePassing
---@field lins nn.ModuleList  the maps of the K terms
---@field bias Tensor?  (out_channels)
---@overload fun(in_channels: integer, out_channels: integer, K: integer, options?: table):
--- graphs.nn.ChebConv
local ChebConv = class.class("graphs.nn.ChebConv", MessagePassing)
M.ChebConv = ChebConv

---@param in_channels integer
---@param out_channels integer
---@param K integer
---@param options? {normalization: "sym"|"rw"|false, bias: boolean, flow: string}
function ChebConv:__init(...)
   local a = take_cheb(...)
   MessagePassing.__init(self, {flow = a.flow})
   if a.K < 1 then args.refuse("graphs.nn.ChebConv", "K", "at least 1", a.K) end
   if a.normalization and a.normalization ~= "sym" and a.normalization ~= "rw" then
      args.refuse("graphs.nn.ChebConv", "normalization", '"sym", "rw" or false', a.normalization)
   end
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   self.normalization = a.normalization
   local list = {}
   for k = 1, a.K do
      list[k] = Linear(a.in_channels, a.out_channels, {bias = false, weight_initializer = "glorot"})
   end
   self.lins = nn.ModuleList(list)
   if a.bias then self.bias = nn.Parameter(torch.zeros(a.out_channels)) end
end

--- Sets the parameters to new initial values.
function ChebConv:reset_parameters()
   for _, lin in ipairs(self.lins) do lin:reset_parameters() end
   inits.zeros(self.bias)
end

local forward_cheb = matrix.signature [[graphs.nn.ChebConv.forward(x: any, edge_index: any,
   edge_weight: tensor?, batch: tensor?, lambda_max: number|tensor?)]]

-- Returns the edges and weights of the graph's Laplacian. The weights are scaled so that the
-- eigenvalues are in [-1, 1].
local function scaled_laplacian(self, a, x)
   local edge_index, weight = dense.get_laplacian(a.edge_index, {edge_weight = a.edge_weight,
      normalization = self.normalization or nil, dtype = x.dtype, num_nodes = x:size(1)})
   local most = a.lambda_max or 2 * weight:max()
   if torch.is_tensor(most) and most:numel() > 1 then
      if not a.batch then
         torch.raise "graphs.nn.ChebConv: batch: expected a vector with lambda_max for each graph"
      end
      checks.batch("graphs.nn.ChebConv", a.batch, x:size(1), most:numel())
      most = most:index_select(1, a.batch:index_select(1, edge_index[1]))
   end
   weight = 2 * weight / most
   weight = weight:masked_fill(weight:eq(math.huge), 0)
   return edge_index, weight - edge_index[1]:eq(edge_index[2]):to(weight.dtype)
end

---@param x Tensor
---@param edge_index Tensor
---@param edge_weight? Tensor
---@param batch? Tensor
---@param lambda_max? number|Tensor  the greatest eigenvalue of the Laplacian, for each graph
---@return Tensor
function ChebConv:forward(...)
   local a = forward_cheb(...)
   self:_check_x(a.x, self.in_channels)
   check_weight(self, a.edge_index, a.edge_weight)
   checks.range("graphs.nn.ChebConv", "edge_index", a.edge_index, a.x:size(1))
   local edge_index, norm = scaled_laplacian(self, a, a.x)
   local before, now = nil, a.x
   local out = self.lins[1](now)
   for k = 2, #self.lins do
      local after = self:propagate(edge_index, {x = now, edge_weight = norm})
      if before then after = 2 * after - before end
      before, now = now, after
      out = out + self.lins[k](now)
   end
   return self.bias and out + self.bias or out
end

ChebConv.message, ChebConv.message_and_aggregate = weighted, weighted_product

function ChebConv:extra_repr()
   return ("%d, %d, K=%d, normalization=%s"):format(self.in_channels, self.out_channels,
      #self.lins, self.normalization)
end

-- APPNP, SGConv -----------------------------------------------------------------------------------

local take_appnp = args.signature [[graphs.nn.APPNP(K: count, alpha: number, dropout: number = 0,
   cached: boolean = false, add_self_loops: boolean = true, normalize: boolean = true,
   flow: string = 'source_to_target')]]

--- Personalised propagation (Gasteiger et al., 2019), which repeats x = (1 - alpha) A x + alpha x_0
--- K times, where A is the normalised adjacency matrix and x_0 the argument. It is called as
--- conv(x, edge_index, edge_weight).
---
---     local conv = torch.graphs.nn.APPNP(10, 0.1)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(conv(torch.ones(2, 3), edges)[1])
---     --> tensor([1.0000, 1.0000, 1.0000])
---@class graphs.nn.APPNP: graphs.nn.MessagePassing
---@overload fun(K: integer, alpha: number, options?: table): graphs.nn.APPNP
local APPNP = class.class("graphs.nn.APPNP", MessagePassing)
M.APPNP = APPNP

---@param K integer
---@param alpha number
---@param options? {dropout: number, cached: boolean, add_self_loops: boolean, normalize: boolean,
--- flow: string}
function APPNP:__init(...)
   local a = take_appnp(...)
   MessagePassing.__init(self, {flow = a.flow})
   self.K, self.alpha, self.dropout = a.K, a.alpha, a.dropout
   self.cached, self.normalize, self.improved = a.cached, a.normalize, false
   self.add_self_loops = a.add_self_loops
end

--- Clears the cached graph.
function APPNP:reset_parameters() rawset(self, "_kept", nil) end

local forward_appnp = matrix.signature [[graphs.nn.APPNP.forward(x: any, edge_index: any,
   edge_weight: tensor?)]]

---@param x Tensor
---@param edge_index Tensor
---@param edge_weight? Tensor
---@return Tensor
function APPNP:forward(...)
   local a = forward_appnp(...)
   self:_check_x(a.x)
   local edge_index, weight = gcn.layer_norm(self, a.x, a.edge_index, a.edge_weight)
   local x = a.x
   for _ = 1, self.K do
      local dropped = weight
      if self.dropout > 0 and self.training then
         dropped = F.dropout(weight or x:new_ones(edge_index:size(2)), self.dropout, true)
      end
      x = self:propagate(edge_index, {x = x, edge_weight = dropped or false})
      x = x * (1 - self.alpha) + self.alpha * a.x
   end
   return x
end

APPNP.message, APPNP.message_and_aggregate = weighted, weighted_product

function APPNP:extra_repr() return ("K=%d, alpha=%g"):format(self.K, self.alpha) end

local take_sg = args.signature [[graphs.nn.SGConv(in_channels: count, out_channels: count,
   K: count = 1, cached: boolean = false, add_self_loops: boolean = true, bias: boolean = true,
   flow: string = 'source_to_target')]]

--- Simplified graph convolution (Wu et al., 2019): x' = A^K x W + b. It is called as conv(x,
--- edge_index, edge_weight).
---
---     local conv = torch.graphs.nn.SGConv(3, 2, {K = 2})
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(conv(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 2])
---@class graphs.nn.SGConv: graphs.nn.MessagePassing
---@field lin graphs.nn.Linear  the map of features
---@overload fun(in_channels: integer, out_channels: integer, options?: table): graphs.nn.SGConv
local SGConv = class.class("graphs.nn.SGConv", MessagePassing)
M.SGConv = SGConv

---@param in_channels integer
---@param out_channels integer
---@param options? {K: integer, cached: boolean, add_self_loops: boolean, bias: boolean, flow:
--- string}  cached: whether A^K x is computed in the first call only and reused in all later calls
function SGConv:__init(...)
   local a = take_sg(...)
   MessagePassing.__init(self, {flow = a.flow})
   self.in_channels, self.out_channels, self.K = a.in_channels, a.out_channels, a.K
   self.keeps, self.improved, self.add_self_loops = a.cached, false, a.add_self_loops
   self.lin = Linear(a.in_channels, a.out_channels, {bias = a.bias})
end

--- Sets the parameters to new initial values, and clears the cached graph.
function SGConv:reset_parameters()
   self.lin:reset_parameters()
   rawset(self, "_x", nil)
end

local forward_sg = matrix.signature [[graphs.nn.SGConv.forward(x: any, edge_index: any,
   edge_weight: tensor?)]]

---@param x Tensor
---@param edge_index Tensor
---@param edge_weight? Tensor
---@return Tensor
function SGConv:forward(...)
   local a = forward_sg(...)
   self:_check_x(a.x, self.in_channels)
   local x = rawget(self, "_x")
   if not x then
      local edge_index, weight = gcn.layer_norm(self, a.x, a.edge_index, a.edge_weight)
      x = a.x
      for _ = 1, self.K do x = self:propagate(edge_index, {x = x, edge_weight = weight}) end
      if self.keeps then
         x = x:detach()
         rawset(self, "_x", x)
      end
   end
   return self.lin(x)
end

SGConv.message, SGConv.message_and_aggregate = weighted, weighted_product

function SGConv:extra_repr()
   return ("%d, %d, K=%d"):format(self.in_channels, self.out_channels, self.K)
end

-- GatedGraphConv ----------------------------------------------------------------------------------

local take_gated = args.signature [[graphs.nn.GatedGraphConv(out_channels: count,
   num_layers: layers, aggr: any = 'sum', bias: boolean = true,
   flow: string = 'source_to_target')]]

--- Gated graph neural network (Li et al., 2016): each step is a GRU whose input is the sum of the
--- linearly mapped neighbours. It is called as conv(x, edge_index, edge_weight). x is padded with 0
--- to out_channels columns.
---
---     local conv = torch.graphs.nn.GatedGraphConv(4, 2)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(conv(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 4])
---@class graphs.nn.GatedGraphConv: graphs.nn.MessagePassing
---@field weight Tensor  (num_layers, out_channels, out_channels)
---@field rnn nn.GRUCell  the cell
---@overload fun(out_channels: integer, num_layers: integer, options?: table):
--- graphs.nn.GatedGraphConv
local GatedGraphConv = class.class("graphs.nn.GatedGraphConv", MessagePassing)
M.GatedGraphConv = GatedGraphConv

---@param out_channels integer
---@param num_layers integer
---@param options? {aggr: string, bias: boolean, flow: string}
function GatedGraphConv:__init(...)
   local a = take_gated(...)
   MessagePassing.__init(self, {aggr = a.aggr, flow = a.flow})
   self.out_channels, self.num_layers = a.out_channels, a.num_layers
   self.weight = nn.Parameter(torch.empty(a.num_layers, a.out_channels, a.out_channels))
   self.rnn = nn.GRUCell(a.out_channels, a.out_channels, {bias = a.bias})
   inits.uniform(a.out_channels, self.weight)
end

--- Sets the parameters to new initial values.
function GatedGraphConv:reset_parameters()
   inits.uniform(self.out_channels, self.weight)
   inits.reset(self.rnn)
end

local forward_gated = matrix.signature [[graphs.nn.GatedGraphConv.forward(x: any, edge_index: any,
   edge_weight: tensor?)]]

---@param x Tensor
---@param edge_index Tensor
---@param edge_weight? Tensor
---@return Tensor
function GatedGraphConv:forward(...)
   local a = forward_gated(...)
   self:_check_x(a.x)
   check_weight(self, a.edge_index, a.edge_weight)
   local x, width = a.x, self.out_channels
   if x:size(2) > width then
      args.refuse("graphs.nn.GatedGraphConv", "x", ("at most %d channels"):format(width), x)
   elseif x:size(2) < width then
      x = torch.cat({x, x:new_zeros(x:size(1), width - x:size(2))}, 2)
   end
   for i = 1, self.num_layers do
      local m = self:propagate(a.edge_index, {x = x:matmul(self.weight[i]),
         edge_weight = a.edge_weight or false})
      x = self.rnn(m, x)
   end
   return x
end

GatedGraphConv.message, GatedGraphConv.message_and_aggregate = weighted, weighted_product

function GatedGraphConv:extra_repr()
   return ("%d, num_layers=%d"):format(self.out_channels, self.num_layers)
end

return M
