-- attention.lua - layers in which nodes attend to their neighbours: GATConv, GATv2Conv and
-- TransformerConv.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Adjacency = require "tlua.graphs.adjacency"
local matrix = require "tlua.graphs.matrix"
local Linear = require "tlua.graphs.nn.Linear"
local MessagePassing = require "tlua.graphs.nn.MessagePassing"
local inits = require "tlua.graphs.nn.inits"
local edges = require "tlua.graphs.utils.edges"
local scatter = require "tlua.graphs.utils.scatter"
local nn = torch.nn
local F = nn.functional

local M = {}

-- The base class of the layers of this file. For each head, an edge has a weight alpha, and its
-- message is alpha times the row of x at the edge's source.
local Attention = class.class("graphs.nn.Attention", MessagePassing)

local parent = MessagePassing

function Attention:message(x_j, alpha) return alpha:unsqueeze(-1) * x_j end

function Attention:message_and_aggregate(adjacency, x, alpha)
   if type(x) == "table" then x = x[1] end
   return adjacency:attend(x, alpha)
end

function Attention:_takes_product(kept)
   local x = kept.x
   if type(x) == "table" then x = x[1] end
   return self.aggr ~= "mean" and torch.is_tensor(x) and Adjacency.takes(x.dtype)
end

-- Checks and stores the options that all layers of this file have.
local function begin(self, a)
   parent.__init(self, {aggr = a.aggr, flow = a.flow, node_dim = -3})
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   self.heads, self.concat, self.dropout = a.heads, a.concat, a.dropout
   self.edge_dim = a.edge_dim
   if type(a.in_channels) == "table" and #a.in_channels ~= 2 then
      args.refuse(torch.type(self), "in_channels", "an integer or a list of two", a.in_channels)
   end
   if a.heads < 1 then args.refuse(torch.type(self), "heads", "at least 1", a.heads) end
end

local function channels_of(a)
   if type(a.in_channels) == "table" then return a.in_channels[1], a.in_channels[2] end
   return a.in_channels, a.in_channels
end

-- Removes all self loops, and adds one self loop for each node that is both a source and a target.
-- The self loops get edge attributes too.
local function with_loops(self, edge_index, edge_attr, sources, targets)
   if not self.add_self_loops then return edge_index, edge_attr end
   local title = torch.type(self)
   local n = math.min(sources, targets or sources)
   -- this call checks the edges
   Adjacency.of(title, edge_index, sources, targets or sources, self.flow)
   local others, attr = edges.remove_self_loops(edge_index, edge_attr)
   local loops = torch.arange(1, n + 1, {device = edge_index.device}):unsqueeze(1):expand(2, n)
   if attr then
      -- `add_self_loops` needs all nodes, to compute the attributes of a self loop from the edges
      -- that end at the node. Only the self loops of the first n nodes are kept.
      local _, all = edges.add_self_loops(others, attr, self.fill_value,
         math.max(sources, targets or sources))
      attr = torch.cat {attr, all:narrow(1, attr:size(1) + 1, n)}
   end
   return torch.cat({others, loops}, 2), attr
end

-- Maps a tensor edge_index to the tensor of the same edges with self loops. This tensor is cached
-- so that its sparse matrix, which is cached with it, can be reused.
local known <const> = setmetatable({}, {__mode = "k"})

local function looped(self, edge_index, edge_attr, sources, targets)
   if not self.add_self_loops or edge_attr ~= nil or edge_index:is_inference() then
      return with_loops(self, edge_index, edge_attr, sources, targets)
   end
   local key = ("%d %s %s"):format(sources, targets or "", self.flow)
   local entry = known[edge_index]
   if not entry or entry.version ~= edge_index._version or entry.address ~= edge_index:data_ptr()
         or entry.edges ~= edge_index:size(2) then
      entry = {version = edge_index._version, address = edge_index:data_ptr(),
         edges = edge_index:size(2)}
      known[edge_index] = entry
   end
   entry[key] = entry[key] or with_loops(self, edge_index:detach(), nil, sources, targets)
   return entry[key]
end

local function as_columns(edge_attr)
   return edge_attr:dim() == 1 and edge_attr:view(-1, 1) or edge_attr
end

local function joined(self, out)
   if self.concat then return out:reshape(out:size(1), self.heads * self.out_channels) end
   return out:mean(2)
end

-- Raises an error unless edge_attr has the number of features that the option edge_dim gives.
local function check_edges(self, edge_index, edge_attr)
   self:_check_edges(edge_index, edge_attr, "edge_attr")
   if edge_attr and not self.edge_dim then
      torch.raise(("%s: edge_attr: expected nil, the layer has no edge_dim"):format(
         torch.type(self)))
   end
   if edge_attr and as_columns(edge_attr):size(-1) ~= self.edge_dim then
      args.refuse(torch.type(self), "edge_attr", ("%d columns"):format(self.edge_dim), edge_attr)
   end
end

-- Returns the sources and the targets of the edges as two vectors, and the number of targets. The
-- flow decides which row of edge_index has the targets.
local function targets_of(self, edge_index, sources, targets)
   local adjacency = Adjacency.of(torch.type(self), edge_index, sources, targets, self.flow)
   return adjacency.rows[1], adjacency.rows[2], adjacency.num_targets
end

-- GATConv -----------------------------------------------------------------------------------------

local take_gat = args.signature [[graphs.nn.GATConv(in_channels: integers, out_channels: count,
   heads: count = 1, concat: boolean = true, negative_slope: number = 0.2, dropout: number = 0,
   add_self_loops: boolean = true, edge_dim: count?, fill_value: any = 'mean',
   bias: boolean = true, residual: boolean = false, aggr: any = 'sum',
   flow: string = 'source_to_target')]]

--- Graph attention (Velickovic et al., 2018): the weight of a neighbour is the softmax of a(W x_i,
--- W x_j). It is called as conv(x, edge_index, edge_attr). With the option
--- return_attention_weights, it also returns the edges and their weights (edges, heads).
---
---     local conv = torch.graphs.nn.GATConv(3, 2, {heads = 4})
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 8])
---@class graphs.nn.GATConv: graphs.nn.MessagePassing
---@field heads integer  the number of heads
---@field bias Tensor?  (heads * out_channels), or (out_channels) without concat
---@overload fun(in_channels: integer|integer[], out_channels: integer, options?: table):
--- graphs.nn.GATConv
local GATConv = class.class("graphs.nn.GATConv", Attention)
M.GATConv = GATConv

---@param in_channels integer|integer[]
---@param out_channels integer
---@param options? {heads: integer, concat: boolean, negative_slope: number, dropout: number,
--- add_self_loops: boolean, edge_dim: integer, fill_value: number|string, bias: boolean,
--- residual: boolean, aggr: string, flow: string}
function GATConv:__init(...)
   local a = take_gat(...)
   begin(self, a)
   self.negative_slope, self.add_self_loops = a.negative_slope, a.add_self_loops
   self.fill_value, self.residual = a.fill_value, a.residual
   local width = a.heads * a.out_channels
   local plain = {bias = false, weight_initializer = "glorot"}
   local from, to = channels_of(a)
   if type(a.in_channels) == "table" then
      self.lin_src, self.lin_dst = Linear(from, width, plain), Linear(to, width, plain)
   else
      self.lin = Linear(from, width, plain)
   end
   self.att_src = nn.Parameter(torch.empty(1, a.heads, a.out_channels))
   self.att_dst = nn.Parameter(torch.empty(1, a.heads, a.out_channels))
   if a.edge_dim then
      self.lin_edge = Linear(a.edge_dim, width, plain)
      self.att_edge = nn.Parameter(torch.empty(1, a.heads, a.out_channels))
   end
   local total = a.concat and width or a.out_channels
   if a.residual then self.res = Linear(to, total, plain) end
   if a.bias then self.bias = nn.Parameter(torch.empty(total)) end
   self:reset_parameters()
end

--- Sets the parameters to new initial values.
function GATConv:reset_parameters()
   for _, name in ipairs {"lin", "lin_src", "lin_dst", "lin_edge", "res"} do
      inits.reset(self[name])
   end
   for _, name in ipairs {"att_src", "att_dst", "att_edge"} do inits.glorot(self[name]) end
   inits.zeros(self.bias)
end

local forward_gat = matrix.signature [[graphs.nn.GATConv.forward(x: any, edge_index: any,
   edge_attr: tensor?, return_attention_weights: boolean?)]]

---@param x Tensor|Tensor[]  (nodes, in_channels)
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param return_attention_weights? boolean
---@return Tensor
---@return Tensor? edge_index
---@return Tensor? weights
function GATConv:forward(...)
   local a = forward_gat(...)
   local x, target = self:_pair(a.x, self.in_channels)
   check_edges(self, a.edge_index, a.edge_attr)
   local heads, c = self.heads, self.out_channels
   local function split(lin, value) return lin(value):view(-1, heads, c) end
   local x_src = split(self.lin or self.lin_src, x)
   local same = not self.lin_dst and target == x
   local x_dst = same and x_src or target and split(self.lin or self.lin_dst, target) or nil
   local n = target and target:size(1) or x:size(1)
   local edge_index, edge_attr = looped(self, a.edge_index, a.edge_attr, x:size(1), n)
   local from, to, count = targets_of(self, edge_index, x:size(1), n)
   local alpha = (x_src * self.att_src):sum(-1):index_select(1, from)
   if x_dst then alpha = alpha + (x_dst * self.att_dst):sum(-1):index_select(1, to) end
   if edge_attr then
      local part = self.lin_edge(as_columns(edge_attr)):view(-1, heads, c)
      alpha = alpha + (part * self.att_edge):sum(-1)
   end
   alpha = scatter.group_softmax(F.leaky_relu(alpha, self.negative_slope), to, count, 1)
   alpha = F.dropout(alpha, self.dropout, self.training)
   local out = self:propagate(edge_index, {x = {x_src, x_dst}, alpha = alpha,
      size = {x:size(1), n}})
   out = joined(self, out)
   if self.res and target then out = out + self.res(target) end
   if self.bias then out = out + self.bias end
   if a.return_attention_weights ~= nil then return out, edge_index, alpha end
   return out
end

function GATConv:extra_repr()
   return ("%s, %d, heads=%d"):format(type(self.in_channels) == "table"
      and ("(%d, %d)"):format(table.unpack(self.in_channels)) or self.in_channels,
      self.out_channels, self.heads)
end

-- GATv2Conv ---------------------------------------------------------------------------------------

local take_v2 = args.signature [[graphs.nn.GATv2Conv(in_channels: integers, out_channels: count,
   heads: count = 1, concat: boolean = true, negative_slope: number = 0.2, dropout: number = 0,
   add_self_loops: boolean = true, edge_dim: count?, fill_value: any = 'mean',
   bias: boolean = true, share_weights: boolean = false, residual: boolean = false,
   aggr: any = 'sum', flow: string = 'source_to_target')]]

--- Graph attention in which each node i ranks its neighbours j in its own way (Brody et al., 2022).
--- The weight of neighbour j is the softmax over all neighbours of the product of the parameter
--- `att` and leaky_relu(W_l x_j + W_r x_i). The module is called like GATConv.
---
---     local conv = torch.graphs.nn.GATv2Conv(3, 2, {heads = 4, concat = false})
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.GATv2Conv: graphs.nn.MessagePassing
---@field heads integer  the number of heads
---@field bias Tensor?  (heads * out_channels), or (out_channels) without concat
---@overload fun(in_channels: integer|integer[], out_channels: integer, options?: table):
--- graphs.nn.GATv2Conv
local GATv2Conv = class.class("graphs.nn.GATv2Conv", Attention)
M.GATv2Conv = GATv2Conv

---@param in_channels integer|integer[]
---@param out_channels integer
---@param options? {heads: integer, concat: boolean, negative_slope: number, dropout: number,
--- add_self_loops: boolean, edge_dim: integer, fill_value: number|string, bias: boolean,
--- share_weights: boolean, residual: boolean, aggr: string, flow: string}
function GATv2Conv:__init(...)
   local a = take_v2(...)
   begin(self, a)
   self.negative_slope, self.add_self_loops = a.negative_slope, a.add_self_loops
   self.fill_value, self.residual, self.share_weights = a.fill_value, a.residual, a.share_weights
   local width = a.heads * a.out_channels
   local from, to = channels_of(a)
   local options = {bias = a.bias, weight_initializer = "glorot"}
   self.lin_l = Linear(from, width, options)
   self.lin_r = a.share_weights and self.lin_l or Linear(to, width, options)
   self.att = nn.Parameter(torch.empty(1, a.heads, a.out_channels))
   local plain = {bias = false, weight_initializer = "glorot"}
   if a.edge_dim then self.lin_edge = Linear(a.edge_dim, width, plain) end
   local total = a.concat and width or a.out_channels
   if a.residual then self.res = Linear(to, total, plain) end
   if a.bias then self.bias = nn.Parameter(torch.empty(total)) end
   self:reset_parameters()
end

--- Sets the parameters to new initial values.
function GATv2Conv:reset_parameters()
   for _, name in ipairs {"lin_l", "lin_r", "lin_edge", "res"} do inits.reset(self[name]) end
   inits.glorot(self.att)
   inits.zeros(self.bias)
end

local forward_v2 = matrix.signature [[graphs.nn.GATv2Conv.forward(x: any, edge_index: any,
   edge_attr: tensor?, return_attention_weights: boolean?)]]

---@param x Tensor|Tensor[]  (nodes, in_channels)
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param return_attention_weights? boolean
---@return Tensor
---@return Tensor? edge_index
---@return Tensor? weights
function GATv2Conv:forward(...)
   local a = forward_v2(...)
   local x, target = self:_pair(a.x, self.in_channels)
   if not target then args.refuse("graphs.nn.GATv2Conv", "x[2]", "a tensor", nil) end
   check_edges(self, a.edge_index, a.edge_attr)
   local heads, c = self.heads, self.out_channels
   local x_l = self.lin_l(x):view(-1, heads, c)
   local x_r = self.share_weights and target == x and x_l or self.lin_r(target):view(-1, heads, c)
   local n = target:size(1)
   local edge_index, edge_attr = looped(self, a.edge_index, a.edge_attr, x:size(1), n)
   local from, to, count = targets_of(self, edge_index, x:size(1), n)
   local sum = x_l:index_select(1, from) + x_r:index_select(1, to)
   if edge_attr then
      sum = sum + self.lin_edge(as_columns(edge_attr)):view(-1, heads, c)
   end
   local alpha = (F.leaky_relu(sum, self.negative_slope) * self.att):sum(-1)
   alpha = F.dropout(scatter.group_softmax(alpha, to, count, 1), self.dropout, self.training)
   local out = joined(self, self:propagate(edge_index, {x = {x_l, x_r}, alpha = alpha,
      size = {x:size(1), n}}))
   if self.res then out = out + self.res(target) end
   if self.bias then out = out + self.bias end
   if a.return_attention_weights ~= nil then return out, edge_index, alpha end
   return out
end

GATv2Conv.extra_repr = GATConv.extra_repr

-- TransformerConv ---------------------------------------------------------------------------------

local take_transformer = args.signature [[graphs.nn.TransformerConv(in_channels: integers,
   out_channels: count, heads: count = 1, concat: boolean = true, beta: boolean = false,
   dropout: number = 0, edge_dim: count?, bias: boolean = true, root_weight: boolean = true,
   aggr: any = 'sum', flow: string = 'source_to_target')]]

--- The attention of transformers, applied to a node's neighbours (Shi et al., 2021). It is called
--- like GATConv.
---
---     local conv = torch.graphs.nn.TransformerConv(3, 2, {heads = 4})
---     local edges = torch.tensor {{1, 2}, {2, 3}}
---     print(conv(torch.ones(3, 3), edges).shape)
---     --> torch.Size([3, 8])
---@class graphs.nn.TransformerConv: graphs.nn.MessagePassing
---@field heads integer  the number of heads
---@overload fun(in_channels: integer|integer[], out_channels: integer, options?: table):
--- graphs.nn.TransformerConv
local TransformerConv = class.class("graphs.nn.TransformerConv", Attention)
M.TransformerConv = TransformerConv

---@param in_channels integer|integer[]
---@param out_channels integer
---@param options? {heads: integer, concat: boolean, beta: boolean, dropout: number,
--- edge_dim: integer, bias: boolean, root_weight: boolean, aggr: string, flow: string}  beta:
--- whether a gate mixes the node and its neighbours
function TransformerConv:__init(...)
   local a = take_transformer(...)
   begin(self, a)
   self.root_weight, self.beta = a.root_weight, a.beta and a.root_weight
   local width = a.heads * a.out_channels
   local from, to = channels_of(a)
   self.lin_key = Linear(from, width, {bias = a.bias})
   self.lin_query = Linear(to, width, {bias = a.bias})
   self.lin_value = Linear(from, width, {bias = a.bias})
   if a.edge_dim then self.lin_edge = Linear(a.edge_dim, width, {bias = false}) end
   local total = a.concat and width or a.out_channels
   self.lin_skip = Linear(to, total, {bias = a.bias})
   if self.beta then self.lin_beta = Linear(3 * total, 1, {bias = false}) end
end

--- Sets the parameters to new initial values.
function TransformerConv:reset_parameters()
   for _, name in ipairs {"lin_key", "lin_query", "lin_value", "lin_edge", "lin_skip",
      "lin_beta"} do inits.reset(self[name]) end
end

local forward_transformer = matrix.signature [[graphs.nn.TransformerConv.forward(x: any,
   edge_index: any, edge_attr: tensor?, return_attention_weights: boolean?)]]

-- With edge features, the messages are no multiples of rows of x, so they are computed for each
-- edge.
function TransformerConv:message(x_j, alpha, part)
   return (part and x_j + part or x_j) * alpha:unsqueeze(-1)
end

function TransformerConv:message_and_aggregate(adjacency, x, alpha)
   return adjacency:attend(x[1], alpha)
end

function TransformerConv:_takes_product(kept)
   return not kept.part and Attention._takes_product(self, kept)
end

---@param x Tensor|Tensor[]  (nodes, in_channels)
---@param edge_index Tensor
---@param edge_attr? Tensor
---@param return_attention_weights? boolean
---@return Tensor
---@return Tensor? edge_index
---@return Tensor? weights
function TransformerConv:forward(...)
   local a = forward_transformer(...)
   local x, target = self:_pair(a.x, self.in_channels)
   if not target then args.refuse("graphs.nn.TransformerConv", "x[2]", "a tensor", nil) end
   check_edges(self, a.edge_index, a.edge_attr)
   local heads, c, n = self.heads, self.out_channels, target:size(1)
   local function split(lin, value) return lin(value):view(-1, heads, c) end
   local query, key = split(self.lin_query, target), split(self.lin_key, x)
   local value = split(self.lin_value, x)
   local from, to, count = targets_of(self, a.edge_index, x:size(1), n)
   local part = a.edge_attr and split(self.lin_edge, as_columns(a.edge_attr)) or nil
   key = key:index_select(1, from)
   if part then key = key + part end
   local alpha = (query:index_select(1, to) * key):sum(-1) / math.sqrt(c)
   alpha = scatter.group_softmax(alpha, to, count, 1)
   local dropped = F.dropout(alpha, self.dropout, self.training)
   local out = joined(self, self:propagate(a.edge_index, {x = {value, query}, alpha = dropped,
      part = part or false, size = {x:size(1), n}}))
   if self.root_weight then
      local skip = self.lin_skip(target)
      if self.lin_beta then
         local gate = self.lin_beta(torch.cat({out, skip, out - skip}, -1)):sigmoid()
         out = gate * skip + (1 - gate) * out
      else
         out = out + skip
      end
   end
   if a.return_attention_weights ~= nil then return out, a.edge_index, alpha end
   return out
end

TransformerConv.extra_repr = GATConv.extra_repr

return M
