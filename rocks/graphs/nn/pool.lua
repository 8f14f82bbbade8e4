-- pool.lua - pooling of graphs. Global pooling reduces each graph of a batch to one row.
-- TopKPooling and SAGPooling keep the nodes with the highest scores.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local inits = require "tlua.graphs.nn.inits"
local scatter = require "tlua.graphs.utils.scatter"
local subgraphs = require "tlua.graphs.utils.subgraphs"
local nn = torch.nn

local M = {}

-- Defines the function `name`, which reduces the rows of each graph to one row by the reduction
-- `reduce`.
local function define(name, reduce)
   local title = "graphs.nn." .. name
   local take = args.signature(title .. "(x: tensor, batch: tensor?, size: count?)")
   M[name] = function(...)
      local a = take(...)
      if a.x:dim() < 2 then args.refuse(title, "x", "(nodes, channels)", a.x) end
      checks.batch(title, a.batch, a.x:size(1), a.size)
      local index, size = a.batch, a.size
      if not index then
         index, size = torch.ones(a.x:size(1), {dtype = "int64", device = a.x.device}), size or 1
      end
      size = size or index:numel() > 0 and index:max():item() or 0
      return scatter.reduce(a.x, index, 1, size, reduce)
   end
end

--- Returns the sum of each graph's rows. Without `batch`, all rows belong to one graph.
---
---     local x, batch = torch.tensor {{1.0}, {2.0}, {4.0}}, torch.tensor {1, 1, 2}
---     print(torch.graphs.nn.global_add_pool(x, batch):flatten())
---     --> tensor([3., 4.])
---@names torch.graphs.nn.global_add_pool
---@param x Tensor  (nodes, channels)
---@param batch? Tensor
---@param size? integer  the number of graphs
---@return Tensor  (graphs, channels)
define("global_add_pool", "sum")

--- Returns the mean of each graph's rows. Without `batch`, all rows belong to one graph.
---@names torch.graphs.nn.global_mean_pool
---@param x Tensor  (nodes, channels)
---@param batch? Tensor
---@param size? integer  the number of graphs
---@return Tensor  (graphs, channels)
define("global_mean_pool", "mean")

--- Returns the maximum of each graph's rows. Without `batch`, all rows belong to one graph.
---@names torch.graphs.nn.global_max_pool
---@param x Tensor  (nodes, channels)
---@param batch? Tensor
---@param size? integer  the number of graphs
---@return Tensor  (graphs, channels)
define("global_max_pool", "max")

-- Returns the nodes with the highest scores in each graph. With `ratio` they are sorted by graph
-- and then by descending score. With `min_score`, all nodes with higher scores are returned, in
-- ascending order.
local function choose(score, ratio, batch, min_score, size)
   if min_score then
      local most = scatter.reduce(score, batch, 1, size, "max"):index_select(1, batch) - 1e-7
      return score:gt(most:clamp_max(min_score)):nonzero():view(-1)
   end
   local counts = torch.bincount(batch, {minlength = size})
   local k
   if ratio >= 1 then
      k = torch.full_like(counts, math.floor(ratio))
   else
      k = (ratio * counts:to(score.dtype)):ceil():long()
   end
   local _, order = torch.sort(score, 1, {descending = true})
   local graphs, again = torch.sort(batch:index_select(1, order), 1, {stable = true})
   local before = counts:cumsum(1) - counts
   local place = torch.arange(1, score:numel() + 1, {device = score.device})
      - before:index_select(1, graphs)
   return order:index_select(1, again[place:le(k:index_select(1, graphs))])
end

-- Computes the scores of nodes with a learnt vector, and selects nodes by them. The vector has the
-- same name as in the state dicts of PyTorch Geometric.
local SelectTopK = class.class("graphs.nn.SelectTopK", nn.Module)

function SelectTopK:__init(channels, ratio, min_score, act)
   nn.Module.__init(self)
   rawset(self, "_options", {ratio = ratio, min_score = min_score, act = act, channels = channels})
   self.weight = nn.Parameter(torch.empty(1, channels))
   self:reset_parameters()
end

function SelectTopK:reset_parameters() inits.uniform(self._options.channels, self.weight) end

function SelectTopK:forward(attn, batch, size)
   local options = self._options
   local score = (attn * self.weight):sum(-1)
   if options.min_score then
      score = scatter.group_softmax(score, batch, size, 1)
   else
      score = options.act(score / self.weight:norm(2, -1))
   end
   local chosen = torch.no_grad(function()
      return choose(score:detach(), options.ratio, batch, options.min_score, size)
   end)
   return chosen, score:index_select(1, chosen)
end

local activations <const> = {tanh = torch.tanh, sigmoid = torch.sigmoid, relu = torch.relu}

local function select_of(title, channels, a)
   local act = activations[a.nonlinearity] or a.nonlinearity
   if not args.is_callable(act) then
      args.refuse(title, "nonlinearity", "tanh, sigmoid, relu or a function", act)
   end
   if not a.min_score and (a.ratio <= 0 or a.ratio ~= a.ratio) then
      args.refuse(title, "ratio", "a number above 0", a.ratio)
   end
   return SelectTopK(channels, a.ratio, a.min_score, act)
end

-- Does the work of both pooling layers: keeps the nodes with the highest scores, and the edges
-- between them.
local function pool(self, title, a, attn)
   local n = a.x:size(1)
   checks.edges(title, a.edge_index)
   checks.range(title, "edge_index", a.edge_index, n)
   checks.edge_attr(title, a.edge_index, a.edge_attr)
   checks.batch(title, a.batch, n)
   local batch = a.batch or torch.ones(n, {dtype = "int64", device = a.x.device})
   local size = n > 0 and batch:max():item() or 0
   local chosen, score = self.select(attn, batch, size)
   local x = a.x:index_select(1, chosen) * score:view(-1, 1)
   if self.multiplier ~= 1 then x = self.multiplier * x end
   local mask = torch.zeros(n, {dtype = "bool", device = x.device})
   if chosen:numel() > 0 then mask:index_fill_(1, chosen, true) end
   local kept = mask:index_select(1, a.edge_index[1]) & mask:index_select(1, a.edge_index[2])
   local edge_index = subgraphs.relabel(a.edge_index[{{}, kept}], chosen, n)
   return x, edge_index, a.edge_attr and a.edge_attr[kept] or nil, batch:index_select(1, chosen),
      chosen, score
end

local take_topk = args.signature [[graphs.nn.TopKPooling(in_channels: count, ratio: number = 0.5,
   min_score: number?, multiplier: number = 1, nonlinearity: any = 'tanh')]]

--- Keeps the nodes with the highest scores x p / |p| in each graph, and the edges among these nodes
--- (Gao and Ji, 2019). pool(x, edge_index, edge_attr, batch, attn) returns x, edge_index,
--- edge_attr, batch, the chosen nodes and their scores.
---
---     local pool = torch.graphs.nn.TopKPooling(3, {ratio = 0.5})
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(pool(torch.randn(4, 3), edges).shape)
---     --> torch.Size([2, 3])
---@class graphs.nn.TopKPooling: nn.Module
---@overload fun(in_channels: integer, options?: table): graphs.nn.TopKPooling
local TopKPooling = class.class("graphs.nn.TopKPooling", nn.Module)
M.TopKPooling = TopKPooling

---@param in_channels integer
---@param options? {ratio: number, min_score: number, multiplier: number,
--- nonlinearity: string|function}  ratio: the share of nodes that are kept, or, from 1 on, their
--- number; min_score: the least softmax of a score, instead of ratio; multiplier: a factor of the
--- result; nonlinearity: the function for scores
function TopKPooling:__init(...)
   nn.Module.__init(self)
   local a = take_topk(...)
   self.in_channels, self.multiplier = a.in_channels, a.multiplier
   self.ratio, self.min_score = a.ratio, a.min_score
   self.select = select_of("graphs.nn.TopKPooling", a.in_channels, a)
end

--- Sets the parameters to new initial values.
function TopKPooling:reset_parameters() self.select:reset_parameters() end

local function check_x(title, x, channels)
   if x:dim() ~= 2 or not x:is_floating_point() or channels and x:size(2) ~= channels then
      args.refuse(title, "x", ("a floating tensor of shape (nodes, %s)"):format(
         channels or "channels"), x)
   end
end

local forward_topk = args.signature [[graphs.nn.TopKPooling.forward(x: tensor, edge_index: tensor,
   edge_attr: tensor?, batch: tensor?, attn: tensor?)]]

---@param x Tensor
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param batch? Tensor
---@param attn? Tensor  the features from which scores are computed, instead of x
---@return Tensor x
---@return Tensor edge_index
---@return Tensor? edge_attr
---@return Tensor batch
---@return Tensor perm
---@return Tensor score
function TopKPooling:forward(...)
   local a = forward_topk(...)
   check_x("graphs.nn.TopKPooling", a.x, not a.attn and self.in_channels or nil)
   local attn = a.attn or a.x
   if attn:dim() == 1 then attn = attn:view(-1, 1) end
   return pool(self, "graphs.nn.TopKPooling", a, attn)
end

function TopKPooling:extra_repr()
   return ("%d, %s, multiplier=%g"):format(self.in_channels, self.min_score
      and "min_score=" .. self.min_score or "ratio=" .. self.ratio, self.multiplier)
end

local take_sag = args.signature [[graphs.nn.SAGPooling(in_channels: count, ratio: number = 0.5,
   GNN: any?, min_score: number?, multiplier: number = 1, nonlinearity: any = 'tanh')]]

--- Keeps the nodes with the highest scores in each graph, where a graph layer computes the scores
--- (Lee et al., 2019). It is called like TopKPooling.
---
---     local pool = torch.graphs.nn.SAGPooling(3, {ratio = 2})
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(pool(torch.randn(4, 3), edges).shape)
---     --> torch.Size([2, 3])
---@class graphs.nn.SAGPooling: nn.Module
---@field gnn graphs.nn.MessagePassing  the layer that computes the scores
---@overload fun(in_channels: integer, options?: table): graphs.nn.SAGPooling
local SAGPooling = class.class("graphs.nn.SAGPooling", nn.Module)
M.SAGPooling = SAGPooling

---@param in_channels integer
---@param options? {ratio: number, GNN: any, min_score: number, multiplier: number,
--- nonlinearity: string|function}  ratio: the share of nodes that are kept, or, from 1 on, their
--- number; GNN: the class of the layer of scores, GraphConv by default; min_score: the least
--- softmax of a score, instead of ratio; multiplier: a factor of the result; nonlinearity: the
--- function for scores
function SAGPooling:__init(...)
   nn.Module.__init(self)
   local a = take_sag(...)
   self.in_channels, self.multiplier = a.in_channels, a.multiplier
   self.ratio, self.min_score = a.ratio, a.min_score
   self.gnn = (a.GNN or require "tlua.graphs.nn.conv.sums".GraphConv)(a.in_channels, 1)
   self.select = select_of("graphs.nn.SAGPooling", 1, a)
end

--- Sets the parameters to new initial values.
function SAGPooling:reset_parameters()
   inits.reset(self.gnn)
   self.select:reset_parameters()
end

local forward_sag = args.signature [[graphs.nn.SAGPooling.forward(x: tensor, edge_index: tensor,
   edge_attr: tensor?, batch: tensor?, attn: tensor?)]]

---@param x Tensor
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param batch? Tensor
---@param attn? Tensor  the features from which scores are computed, instead of x
---@return Tensor x
---@return Tensor edge_index
---@return Tensor? edge_attr
---@return Tensor batch
---@return Tensor perm
---@return Tensor score
function SAGPooling:forward(...)
   local a = forward_sag(...)
   check_x("graphs.nn.SAGPooling", a.x, not a.attn and self.in_channels or nil)
   local attn = a.attn or a.x
   if attn:dim() == 1 then attn = attn:view(-1, 1) end
   return pool(self, "graphs.nn.SAGPooling", a, self.gnn(attn, a.edge_index))
end

return M
