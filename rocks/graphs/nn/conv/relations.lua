-- relations.lua - two graph layers: PNAConv, which combines several reductions, and RGCNConv, for
-- graphs whose edges have types.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local matrix = require "tlua.graphs.matrix"
local Linear = require "tlua.graphs.nn.Linear"
local MessagePassing = require "tlua.graphs.nn.MessagePassing"
local inits = require "tlua.graphs.nn.inits"
local scatter = require "tlua.graphs.utils.scatter"
local nn = torch.nn

local M = {}

-- PNAConv -----------------------------------------------------------------------------------------

-- Stores the average degrees of the training data. Its tensors have the same names as in the state
-- dicts of PyTorch Geometric.
local Degrees = class.class("graphs.nn.Degrees", nn.Module)

function Degrees:__init(deg, trained)
   nn.Module.__init(self)
   deg = deg:double()
   local n = deg:sum():item()
   local bins = torch.arange(deg:numel(), {dtype = "float64", device = deg.device})
   local linear = (bins * deg):sum():item() / n
   local logarithmic = ((bins + 1):log() * deg):sum():item() / n
   for name, value in pairs {avg_deg_lin = linear, avg_deg_log = logarithmic} do
      local one = torch.full({1}, value)
      if trained then self[name] = nn.Parameter(one) else self:register_buffer(name, one) end
   end
end

local scalers <const> = {
   identity = function() return 1 end,
   amplification = function(d, m) return (d + 1):log() / m.avg_deg_log end,
   attenuation = function(d, m) return m.avg_deg_log / (d:clamp_min(1) + 1):log() end,
   linear = function(d, m) return d / m.avg_deg_lin end,
   inverse_linear = function(d, m) return m.avg_deg_lin / d:clamp_min(1) end,
}

local take_pna = args.signature [[graphs.nn.PNAConv(in_channels: count, out_channels: count,
   aggregators: table, scalers: table, deg: tensor, edge_dim: count?, towers: count = 1,
   pre_layers: layers = 1, post_layers: layers = 1, divide_input: boolean = false,
   train_norm: boolean = false, flow: string = 'source_to_target')]]

--- Principal neighbourhood aggregation (Corso et al., 2020), which combines several reductions and
--- scales them by functions of the degree. `aggregators` lists the reductions. `scalers` lists
--- "identity", "amplification", "attenuation", "linear" or "inverse_linear". `deg` is the histogram
--- of degrees in the training data: the number of nodes with degree 0, 1, 2 and so on. It is called
--- as conv(x, edge_index, edge_attr).
---
---     local conv = torch.graphs.nn.PNAConv(3, 2, {"mean", "max"}, {"identity"},
---        torch.tensor {0, 4, 4})
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(conv(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 2])
---@class graphs.nn.PNAConv: graphs.nn.MessagePassing
---@field pre_nns nn.ModuleList  the networks of messages, one for each tower
---@field post_nns nn.ModuleList  the networks of results, one for each tower
---@field lin nn.Linear  the last map
---@overload fun(in_channels: integer, out_channels: integer, aggregators: string[],
--- scalers: string[], deg: Tensor, options?: table): graphs.nn.PNAConv
local PNAConv = class.class("graphs.nn.PNAConv", MessagePassing)
M.PNAConv = PNAConv

local function network(first, width, count)
   local layers = {Linear(first, width)}
   for _ = 2, count do
      layers[#layers + 1] = nn.ReLU()
      layers[#layers + 1] = Linear(width, width)
   end
   return nn.Sequential(layers)
end

---@param in_channels integer
---@param out_channels integer
---@param aggregators string[]
---@param scalers string[]
---@param deg Tensor
---@param options? {edge_dim: integer, towers: integer, pre_layers: integer, post_layers: integer,
--- divide_input: boolean, train_norm: boolean, flow: string}  towers: the number of independent
--- towers; pre_layers: the number of layers in each network of messages; post_layers: the number of
--- layers in each network of results; divide_input: whether each tower gets its own slice of the
--- features instead of all; train_norm: whether the average degrees are learnt
function PNAConv:__init(...)
   local title <const> = "graphs.nn.PNAConv"
   local a = take_pna(...)
   MessagePassing.__init(self, {aggr = a.aggregators, flow = a.flow, node_dim = -3})
   if #a.scalers == 0 then args.refuse(title, "scalers", "names of scalers", a.scalers) end
   for _, name in ipairs(a.scalers) do
      if not scalers[name] then
         args.refuse(title, "scalers",
            "identity, amplification, attenuation, linear or inverse_linear", name)
      end
   end
   if a.towers < 1 or a.out_channels % a.towers ~= 0
         or a.divide_input and a.in_channels % a.towers ~= 0 then
      args.refuse(title, "towers", "a divisor of the numbers of channels", a.towers)
   end
   self.in_channels, self.out_channels, self.towers = a.in_channels, a.out_channels, a.towers
   self.scalers, self.edge_dim, self.divide_input = a.scalers, a.edge_dim, a.divide_input
   self.F_in = a.divide_input and a.in_channels // a.towers or a.in_channels
   self.F_out = a.out_channels // a.towers
   self.aggr_module = Degrees(a.deg, a.train_norm)
   if a.edge_dim then self.edge_encoder = Linear(a.edge_dim, self.F_in) end
   local pre, post = {}, {}
   for i = 1, a.towers do
      pre[i] = network((a.edge_dim and 3 or 2) * self.F_in, self.F_in, a.pre_layers)
      post[i] = network((#a.aggregators * #a.scalers + 1) * self.F_in, self.F_out, a.post_layers)
   end
   self.pre_nns, self.post_nns = nn.ModuleList(pre), nn.ModuleList(post)
   self.lin = Linear(a.out_channels, a.out_channels)
end

--- Sets the parameters to new initial values.
function PNAConv:reset_parameters()
   for _, name in ipairs {"edge_encoder", "pre_nns", "post_nns", "lin"} do
      inits.reset(self[name])
   end
end

local forward_pna = matrix.signature [[graphs.nn.PNAConv.forward(x: any, edge_index: any,
   edge_attr: tensor?)]]

---@param x Tensor
---@param edge_index Tensor
---@param edge_attr? Tensor
---@return Tensor
function PNAConv:forward(...)
   local a = forward_pna(...)
   self:_check_x(a.x, self.in_channels)
   self:_check_edges(a.edge_index, a.edge_attr, "edge_attr")
   if (a.edge_attr ~= nil) ~= (self.edge_dim ~= nil) then
      torch.raise(("graphs.nn.PNAConv: edge_attr: expected %s, because edge_dim is %s"):format(
         self.edge_dim and "a tensor" or "nil", self.edge_dim))
   end
   local x = self.divide_input and a.x:view(-1, self.towers, self.F_in)
      or a.x:unsqueeze(2):expand(-1, self.towers, -1)
   local out = self:propagate(a.edge_index, {x = x, edge_attr = a.edge_attr or false})
   out = torch.cat({x, out}, -1)
   local list = {}
   for i = 1, self.towers do list[i] = self.post_nns[i](out:select(2, i)) end
   return self.lin(torch.cat(list, 2))
end

function PNAConv:message(x_i, x_j, edge_attr)
   local parts = {x_i, x_j}
   if edge_attr then
      local encoded = self.edge_encoder(edge_attr)
      parts[3] = encoded:view(-1, 1, self.F_in):expand(-1, self.towers, -1)
   end
   local h, list = torch.cat(parts, -1), {}
   for i = 1, self.towers do list[i] = self.pre_nns[i](h:select(2, i)) end
   return torch.stack(list, 2)
end

function PNAConv:aggregate(inputs, index, dim_size)
   local reduced = {}
   for i, name in ipairs(self.aggr) do
      reduced[i] = scatter.reduce(inputs, index, 1, dim_size, name)
   end
   local out, list = torch.cat(reduced, -1), {}
   local degree = torch.bincount(index, {minlength = dim_size}):to(out.dtype):view(-1, 1, 1)
   for i, name in ipairs(self.scalers) do
      list[i] = out * scalers[name](degree, self.aggr_module)
   end
   return torch.cat(list, -1)
end

function PNAConv:extra_repr()
   return ("%d, %d, towers=%d, edge_dim=%s"):format(self.in_channels, self.out_channels,
      self.towers, self.edge_dim)
end

-- RGCNConv ----------------------------------------------------------------------------------------

local take_rgcn = args.signature [[graphs.nn.RGCNConv(in_channels: integers, out_channels: count,
   num_relations: count, num_bases: count?, num_blocks: count?, aggr: any = 'mean',
   root_weight: boolean = true, bias: boolean = true, flow: string = 'source_to_target')]]

--- The relational graph convolution (Schlichtkrull et al., 2018). Each edge type has its own
--- weight, and the results of all types are summed. It is called as conv(x, edge_index, edge_type),
--- with types from 1. x may also be an int64 vector of node numbers; then the layer learns the
--- features of nodes.
---
---     local conv = torch.graphs.nn.RGCNConv(3, 2, 2)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(conv(torch.ones(2, 3), edges, torch.tensor {1, 2}).shape)
---     --> torch.Size([2, 2])
---@class graphs.nn.RGCNConv: graphs.nn.MessagePassing
---@field weight Tensor  (num_relations, in_channels, out_channels), or the bases or blocks
---@field comp Tensor?  (num_relations, num_bases)
---@field root Tensor?  (in_channels, out_channels)
---@field bias Tensor?  (out_channels)
---@overload fun(in_channels: integer|integer[], out_channels: integer, num_relations: integer,
--- options?: table): graphs.nn.RGCNConv
local RGCNConv = class.class("graphs.nn.RGCNConv", MessagePassing)
M.RGCNConv = RGCNConv

---@param in_channels integer|integer[]
---@param out_channels integer
---@param num_relations integer
---@param options? {num_bases: integer, num_blocks: integer, aggr: string, root_weight: boolean,
--- bias: boolean, flow: string}  num_bases: the number of basis matrices of which each weight is a
--- linear combination; num_blocks: the number of blocks of block-diagonal weights
function RGCNConv:__init(...)
   local title <const> = "graphs.nn.RGCNConv"
   local a = take_rgcn(...)
   MessagePassing.__init(self, {aggr = a.aggr, flow = a.flow})
   local from, to = a.in_channels, a.in_channels
   if type(from) == "table" then from, to = from[1], to[2] end
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   self.num_relations, self.num_bases, self.num_blocks = a.num_relations, a.num_bases, a.num_blocks
   rawset(self, "_from", from)
   local shape = {a.num_relations, from, a.out_channels}
   if a.num_bases and a.num_blocks then
      torch.raise(title .. ": expected num_bases or num_blocks, got both")
   elseif a.num_bases then
      shape[1] = a.num_bases
      self.comp = nn.Parameter(torch.empty(a.num_relations, a.num_bases))
   elseif a.num_blocks then
      if a.num_blocks < 1 or from % a.num_blocks ~= 0 or a.out_channels % a.num_blocks ~= 0 then
         args.refuse(title, "num_blocks", "a divisor of the numbers of channels", a.num_blocks)
      end
      shape = {a.num_relations, a.num_blocks, from // a.num_blocks,
         a.out_channels // a.num_blocks}
   end
   self.weight = nn.Parameter(torch.empty(shape))
   if a.root_weight then self.root = nn.Parameter(torch.empty(to, a.out_channels)) end
   if a.bias then self.bias = nn.Parameter(torch.empty(a.out_channels)) end
   self:reset_parameters()
end

--- Sets the parameters to new initial values.
function RGCNConv:reset_parameters()
   inits.glorot(self.weight)
   inits.glorot(self.comp)
   inits.glorot(self.root)
   inits.zeros(self.bias)
end

-- Checks the features of sources and targets, and returns them. Node numbers, an int64 vector, may
-- take the place of features.
local function features(self, x)
   local first, second = x, x
   if type(x) == "table" then first, second = x[1], x[2] end
   if torch.is_tensor(first) and first.dtype == "int64" then
      if self.num_blocks then
         args.refuse("graphs.nn.RGCNConv", "x", "floating features with num_blocks", first)
      end
      checks.index("graphs.nn.RGCNConv", "x", first)
      checks.range("graphs.nn.RGCNConv", "x", first, self._from)
      if second ~= first then
         checks.index("graphs.nn.RGCNConv", "x[2]", second)
         checks.range("graphs.nn.RGCNConv", "x[2]", second, self.root and self.root:size(1)
            or self._from)
      end
      return first, second
   end
   local from, to = self:_pair(x, self.in_channels)
   if not to then args.refuse("graphs.nn.RGCNConv", "x[2]", "a tensor", nil) end
   return from, to
end

local forward_rgcn = matrix.signature [[graphs.nn.RGCNConv.forward(x: any, edge_index: any,
   edge_type: tensor)]]

---@param x Tensor|Tensor[]
---@param edge_index Tensor
---@param edge_type Tensor
---@return Tensor
function RGCNConv:forward(...)
   local title <const> = "graphs.nn.RGCNConv"
   local a = forward_rgcn(...)
   local x, target = features(self, a.x)
   checks.edges(title, a.edge_index)
   checks.index(title, "edge_type", a.edge_type)
   self:_check_edges(a.edge_index, a.edge_type, "edge_type")
   checks.range(title, "edge_type", a.edge_type, self.num_relations, "relations")
   local weight, size = self.weight, {x:size(1), target:size(1)}
   if self.comp then
      weight = self.comp:matmul(weight:view(self.num_bases, -1)):view(self.num_relations,
         self._from, self.out_channels)
   end
   local out = weight:new_zeros(target:size(1), self.out_channels)
   for r = 1, self.num_relations do
      local part = a.edge_index[{{}, a.edge_type:eq(r)}]
      if x.dtype == "int64" then
         out = out + self:propagate(part, {x = weight[r]:index_select(1, x), size = size})
      elseif self.num_blocks then
         local h = self:propagate(part, {x = x, size = size})
         h = h:view(-1, self.num_blocks, weight:size(3))
         h = torch.einsum("abc,bcd->abd", h, weight[r])
         out = out + h:reshape(-1, self.out_channels)
      else
         out = out + self:propagate(part, {x = x, size = size}):matmul(weight[r])
      end
   end
   if self.root then
      out = out + (x.dtype == "int64" and self.root:index_select(1, target)
         or target:matmul(self.root))
   end
   return self.bias and out + self.bias or out
end

function RGCNConv:extra_repr()
   return ("%s, %d, num_relations=%d"):format(type(self.in_channels) == "table"
      and ("(%d, %d)"):format(table.unpack(self.in_channels)) or self.in_channels,
      self.out_channels, self.num_relations)
end

return M
