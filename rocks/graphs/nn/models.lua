-- models.lua - models for graphs that consist of several layers, and their parts: multilayer
-- perceptrons and jumping knowledge.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Linear = require "tlua.graphs.nn.Linear"
local attention = require "tlua.graphs.nn.conv.attention"
local gcn = require "tlua.graphs.nn.conv.gcn"
local inits = require "tlua.graphs.nn.inits"
local norms = require "tlua.graphs.nn.norm"
local sums = require "tlua.graphs.nn.conv.sums"
local nn = torch.nn

local M = {}

local acts <const> = {relu = nn.ReLU, elu = nn.ELU, leaky_relu = nn.LeakyReLU, tanh = nn.Tanh,
   sigmoid = nn.Sigmoid, gelu = nn.GELU, silu = nn.SiLU, selu = nn.SELU, softplus = nn.Softplus,
   identity = nn.Identity}

-- Returns the activation function that the option `act` selects. `act` is a name, a function, or
-- false for none.
local function activation(title, act)
   if not act then return nil end
   if type(act) == "string" then
      if not acts[act] then args.refuse(title, "act", "the name of an activation", act) end
      return acts[act]()
   end
   if not args.is_callable(act) then args.refuse(title, "act", "a name or a function", act) end
   return act
end

local norm_classes <const> = {batch_norm = norms.BatchNorm, BatchNorm = norms.BatchNorm,
   graph_norm = norms.GraphNorm, GraphNorm = norms.GraphNorm}

-- Returns a new normalisation layer. `norm` is the name of a layer, or a function that creates a
-- layer. If `norm` is nil or false, the result is an Identity, which changes nothing.
local function normalisation(title, norm, channels)
   if not norm then return nn.Identity() end
   if type(norm) == "string" then
      if not norm_classes[norm] then
         args.refuse(title, "norm", "batch_norm, graph_norm, or a class", norm)
      end
      return norm_classes[norm](channels)
   end
   if not args.is_callable(norm) then args.refuse(title, "norm", "a name or a class", norm) end
   return norm(channels)
end

local function normalise(norm, x, batch, size)
   if norm.takes_batch then return norm(x, batch, size) end
   return norm(x)
end

-- MLP ---------------------------------------------------------------------------------------------

local take_mlp = args.signature [[graphs.nn.MLP(channel_list: integers?, in_channels: count?,
   hidden_channels: count?, out_channels: count?, num_layers: layers?, dropout: number = 0,
   act: any = 'relu', act_first: boolean = false, norm: any = 'batch_norm',
   plain_last: boolean = true, bias: boolean = true)]]

--- A multilayer perceptron. Normalisation, activation and dropout follow each affine map except the
--- last. `channel_list` has the widths from the input to the output. The options in_channels,
--- hidden_channels, out_channels and num_layers can replace this list.
---
---     local mlp = torch.graphs.nn.MLP({4, 8, 3}, {norm = false})
---     print(mlp(torch.ones(2, 4)).shape)
---     --> torch.Size([2, 3])
---@class graphs.nn.MLP: nn.Module
---@field lins nn.ModuleList  the affine maps
---@field norms nn.ModuleList  the normalisations
---@overload fun(channel_list?: integer[], options?: table): graphs.nn.MLP
local MLP = class.class("graphs.nn.MLP", nn.Module)
M.MLP = MLP

---@param channel_list? integer[]|integer  the widths; an integer is in_channels
---@param options? {in_channels: integer, hidden_channels: integer, out_channels: integer,
--- num_layers: integer, dropout: number, act: string|function|false, act_first: boolean, norm:
--- string|function|false, plain_last: boolean, bias: boolean}  in_channels, hidden_channels,
--- out_channels and num_layers (the number of maps): the widths, instead of channel_list;
--- plain_last: whether nothing follows the last map
function MLP:__init(...)
   nn.Module.__init(self)
   local title <const> = "graphs.nn.MLP"
   local a = take_mlp(...)
   local list = a.channel_list
   if type(list) ~= "table" then
      a.in_channels = a.in_channels or list
      for _, name in ipairs {"num_layers", "in_channels", "out_channels", "hidden_channels"} do
         local is_needed = name ~= "hidden_channels" or a.num_layers > 1
         if is_needed and not (a[name] and a[name] >= 1) then
            args.refuse(title, name, "an integer of at least 1, in place of channel_list", a[name])
         end
      end
      list = {a.in_channels}
      for _ = 1, a.num_layers - 1 do list[#list + 1] = a.hidden_channels end
      list[#list + 1] = a.out_channels
   end
   if #list < 2 then args.refuse(title, "channel_list", "at least two widths", list) end
   rawset(self, "channel_list", list)
   self.dropout, self.act_first, self.plain_last = a.dropout, a.act_first, a.plain_last
   rawset(self, "_act", activation(title, a.act) or false)
   local lins, layers = {}, {}
   for i = 1, #list - 1 do
      lins[i] = Linear(list[i], list[i + 1], {bias = a.bias})
      if i < #list - 1 or not a.plain_last then
         layers[#layers + 1] = normalisation(title, a.norm, list[i + 1])
      end
   end
   self.lins, self.norms = nn.ModuleList(lins), nn.ModuleList(layers)
end

--- Sets the parameters to new initial values.
function MLP:reset_parameters()
   for _, lin in ipairs(self.lins) do inits.reset(lin) end
   for _, norm in ipairs(self.norms) do inits.reset(norm) end
end

local forward_mlp = args.signature [[graphs.nn.MLP.forward(x: tensor, batch: tensor?,
   batch_size: count?)]]

---@param x Tensor
---@param batch? Tensor
---@param batch_size? integer  the number of graphs
---@return Tensor
function MLP:forward(...)
   local a = forward_mlp(...)
   local x, act = a.x, self._act
   for i, norm in ipairs(self.norms) do
      x = self.lins[i](x)
      if act and self.act_first then x = act(x) end
      x = normalise(norm, x, a.batch, a.batch_size)
      if act and not self.act_first then x = act(x) end
      x = nn.functional.dropout(x, self.dropout, self.training)
   end
   return self.plain_last and self.lins[#self.lins](x) or x
end

function MLP:extra_repr() return table.concat(self.channel_list, ", ") end

-- JumpingKnowledge --------------------------------------------------------------------------------

local take_jk = args.signature [[graphs.nn.JumpingKnowledge(mode: string, channels: count?,
   num_layers: count?)]]

--- Combines the results of several layers (Xu et al., 2018). The mode is "cat", "max", or "lstm",
--- which computes a weighted sum of the layers with attention weights from an LSTM.
---
---     local jk = torch.graphs.nn.JumpingKnowledge "cat"
---     print(jk({torch.ones(2, 3), torch.ones(2, 3)}).shape)
---     --> torch.Size([2, 6])
---@class graphs.nn.JumpingKnowledge: nn.Module
---@overload fun(mode: string, options?: table): graphs.nn.JumpingKnowledge
local JumpingKnowledge = class.class("graphs.nn.JumpingKnowledge", nn.Module)
M.JumpingKnowledge = JumpingKnowledge

---@param mode "cat"|"max"|"lstm"  how results are joined
---@param channels? integer  the width of results, for "lstm"
---@param num_layers? integer  for "lstm"
function JumpingKnowledge:__init(...)
   nn.Module.__init(self)
   local title <const> = "graphs.nn.JumpingKnowledge"
   local a = take_jk(...)
   self.mode = a.mode
   if a.mode == "lstm" then
      if not a.channels or not a.num_layers then
         torch.raise(title .. ': "lstm": expected channels and num_layers')
      end
      local width = a.num_layers * a.channels // 2
      self.lstm = nn.LSTM(a.channels, width, {bidirectional = true, batch_first = true})
      self.att = nn.Linear(2 * width, 1)
   elseif a.mode ~= "cat" and a.mode ~= "max" then
      args.refuse(title, "mode", '"cat", "max" or "lstm"', a.mode)
   end
end

--- Sets the parameters to new initial values.
function JumpingKnowledge:reset_parameters()
   inits.reset(self.lstm)
   inits.reset(self.att)
end

---@param xs Tensor[]  the results of layers
---@return Tensor
function JumpingKnowledge:forward(xs)
   if type(xs) ~= "table" or #xs == 0 then
      args.refuse("graphs.nn.JumpingKnowledge", "xs", "a list of tensors", xs)
   end
   if self.mode == "cat" then return torch.cat(xs, -1) end
   if self.mode == "max" then return (torch.stack(xs, -1):max(-1)) end
   local x = torch.stack(xs, 2)
   local alpha = self.att((self.lstm(x))):squeeze(-1):softmax(-1)
   return (x * alpha:unsqueeze(-1)):sum(2)
end

function JumpingKnowledge:extra_repr() return self.mode end

-- Models ------------------------------------------------------------------------------------------

local parameters <const> = [[(in_channels: integers, hidden_channels: count, num_layers: layers,
   out_channels: count?, dropout: number = 0, act: any = 'relu', act_first: boolean = false,
   norm: any?, jk: string?, %s)]]

-- The base class of the models in this file, which consist of several graph layers. A derived class
-- defines _conv(a, from, to, is_last), which creates one layer.
local Basic = class.class("graphs.nn.BasicGNN", nn.Module)

function Basic:_begin(title, a)
   nn.Module.__init(self)
   if a.num_layers < 1 then args.refuse(title, "num_layers", "at least 1", a.num_layers) end
   if a.jk and a.jk ~= "last" and a.jk ~= "cat" and a.jk ~= "max" and a.jk ~= "lstm" then
      args.refuse(title, "jk", '"last", "cat", "max" or "lstm"', a.jk)
   end
   self.in_channels, self.hidden_channels, self.num_layers =
      a.in_channels, a.hidden_channels, a.num_layers
   self.out_channels, self.jk_mode = a.out_channels or a.hidden_channels, a.jk
   self.act_first = a.act_first
   self.dropout = nn.Dropout(a.dropout)
   rawset(self, "_act", activation(title, a.act) or false)
   local convs, layers = {}, {}
   local from = a.in_channels
   for i = 1, a.num_layers do
      local is_last = i == a.num_layers and a.out_channels ~= nil and not a.jk
      convs[i] = self:_conv(a, from, is_last and a.out_channels or a.hidden_channels, is_last)
      local plain = i == a.num_layers and not a.jk
      layers[i] = plain and nn.Identity() or normalisation(title, a.norm, a.hidden_channels)
      from = type(from) == "table" and {a.hidden_channels, a.hidden_channels} or a.hidden_channels
   end
   self.convs, self.norms = nn.ModuleList(convs), nn.ModuleList(layers)
   if not a.jk then return end
   if a.jk ~= "last" then
      self.jk = JumpingKnowledge(a.jk, a.hidden_channels, a.num_layers)
   end
   self.lin = nn.Linear((a.jk == "cat" and a.num_layers or 1) * a.hidden_channels,
      self.out_channels)
end

function Basic:reset_parameters()
   for _, conv in ipairs(self.convs) do inits.reset(conv) end
   for _, norm in ipairs(self.norms) do inits.reset(norm) end
   inits.reset(self.jk)
   inits.reset(self.lin)
end

local forward_model = args.signature [[graphs.nn.BasicGNN.forward(x: any, edge_index: any,
   edge_weight: tensor?, edge_attr: tensor?, batch: tensor?, batch_size: count?)]]

function Basic:forward(...)
   local a = forward_model(...)
   for _, name in ipairs {"edge_weight", "edge_attr"} do
      if a[name] and self._takes ~= name then
         torch.raise(("%s: %s: expected nil, its layers take none"):format(torch.type(self), name))
      end
   end
   local x, act, results = a.x, self._act, {}
   local extra = self._takes and a[self._takes]
   for i, conv in ipairs(self.convs) do
      if extra then
         x = conv(x, a.edge_index, extra)
      else
         x = conv(x, a.edge_index)
      end
      if i < self.num_layers or self.jk_mode then
         if act and self.act_first then x = act(x) end
         x = normalise(self.norms[i], x, a.batch, a.batch_size)
         if act and not self.act_first then x = act(x) end
         x = self.dropout(x)
         results[i] = x
      end
   end
   if self.jk then x = self.jk(results) end
   return self.lin and self.lin(x) or x
end

function Basic:extra_repr()
   return ("%s, %d, num_layers=%d"):format(type(self.in_channels) == "table"
      and table.concat(self.in_channels, ", ") or self.in_channels, self.out_channels,
      self.num_layers)
end

local take_gcn = args.signature("graphs.nn.GCN" .. parameters:format [[improved: boolean = false,
   cached: boolean = false, add_self_loops: boolean?, normalize: boolean = true,
   bias: boolean = true]])

--- A sequence of GCNConv layers with activation, normalisation and dropout between them. It is
--- called as model(x, edge_index, edge_weight).
---
---     local model = torch.graphs.nn.GCN(3, 8, 2, 4)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(model(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 4])
---@class graphs.nn.GCN: nn.Module
---@field convs nn.ModuleList  the layers
---@field norms nn.ModuleList  the normalisations
---@overload fun(in_channels: integer, hidden_channels: integer, num_layers: integer,
--- out_channels?: integer, options?: table): graphs.nn.GCN
local GCN = class.class("graphs.nn.GCN", Basic)
M.GCN = GCN
GCN._takes = "edge_weight"

---@param in_channels integer
---@param hidden_channels integer
---@param num_layers integer
---@param out_channels? integer
---@param options? {dropout: number, act: string|function|false, act_first: boolean,
--- norm: string|function, jk: string, improved: boolean, cached: boolean, add_self_loops: boolean,
--- normalize: boolean, bias: boolean}  improved: whether self loops have weight 2; normalize:
--- whether weights are divided by degrees
function GCN:__init(...) self:_begin("graphs.nn.GCN", take_gcn(...)) end

function GCN:_conv(a, from, to) -- luacheck: no unused args
   return gcn.GCNConv(from, to, {improved = a.improved, cached = a.cached,
      add_self_loops = a.add_self_loops, normalize = a.normalize, bias = a.bias})
end

local take_sage = args.signature("graphs.nn.GraphSAGE" .. parameters:format [[aggr: any = 'mean',
   normalize: boolean = false, root_weight: boolean = true, project: boolean = false,
   bias: boolean = true]])

--- A sequence of SAGEConv layers with activation, normalisation and dropout between them. It is
--- called as model(x, edge_index).
---
---     local model = torch.graphs.nn.GraphSAGE(3, 8, 2, 4)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(model(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 4])
---@class graphs.nn.GraphSAGE: nn.Module
---@field convs nn.ModuleList  the layers
---@field norms nn.ModuleList  the normalisations
---@overload fun(in_channels: integer, hidden_channels: integer, num_layers: integer,
--- out_channels?: integer, options?: table): graphs.nn.GraphSAGE
local GraphSAGE = class.class("graphs.nn.GraphSAGE", Basic)
M.GraphSAGE = GraphSAGE

---@param in_channels integer|integer[]
---@param hidden_channels integer
---@param num_layers integer
---@param out_channels? integer
---@param options? {dropout: number, act: string|function|false, act_first: boolean, norm:
--- string|function, jk: string, aggr: string|string[], normalize: boolean, root_weight: boolean,
--- project: boolean, bias: boolean}  normalize: whether results have length 1; project: whether
--- neighbours first pass through an affine map and relu
function GraphSAGE:__init(...) self:_begin("graphs.nn.GraphSAGE", take_sage(...)) end

function GraphSAGE:_conv(a, from, to) -- luacheck: no unused args
   return sums.SAGEConv(from, to, {aggr = a.aggr, normalize = a.normalize,
      root_weight = a.root_weight, project = a.project, bias = a.bias})
end

local take_gin = args.signature("graphs.nn.GIN" .. parameters:format [[eps: number = 0,
   train_eps: boolean = false]])

--- A sequence of GINConv layers of MLPs with activation, normalisation and dropout between them. It
--- is called as model(x, edge_index).
---
---     local model = torch.graphs.nn.GIN(3, 8, 2, 4)
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(model(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 4])
---@class graphs.nn.GIN: nn.Module
---@field convs nn.ModuleList  the layers
---@field norms nn.ModuleList  the normalisations
---@overload fun(in_channels: integer, hidden_channels: integer, num_layers: integer,
--- out_channels?: integer, options?: table): graphs.nn.GIN
local GIN = class.class("graphs.nn.GIN", Basic)
M.GIN = GIN

---@param in_channels integer
---@param hidden_channels integer
---@param num_layers integer
---@param out_channels? integer
---@param options? {dropout: number, act: string|function|false, act_first: boolean,
--- norm: string|function, jk: string, eps: number, train_eps: boolean}
function GIN:__init(...) self:_begin("graphs.nn.GIN", take_gin(...)) end

function GIN:_conv(a, from, to) -- luacheck: no unused args
   local net = MLP({from, to, to}, {act = a.act, act_first = a.act_first, norm = a.norm or false})
   return sums.GINConv(net, {eps = a.eps, train_eps = a.train_eps})
end

local take_gat = args.signature("graphs.nn.GAT" .. parameters:format [[v2: boolean = false,
   heads: count = 1, concat: boolean = true, negative_slope: number = 0.2,
   add_self_loops: boolean = true, edge_dim: count?, fill_value: any = 'mean',
   bias: boolean = true, residual: boolean = false]])

--- A sequence of GATConv or GATv2Conv layers with activation, normalisation and dropout between
--- them. It is called as model(x, edge_index, {edge_attr = ...}).
---
---     local model = torch.graphs.nn.GAT(3, 8, 2, 4, {heads = 2})
---     local edges = torch.tensor {{1, 2}, {2, 1}}
---     print(model(torch.ones(2, 3), edges).shape)
---     --> torch.Size([2, 4])
---@class graphs.nn.GAT: nn.Module
---@field convs nn.ModuleList  the layers
---@field norms nn.ModuleList  the normalisations
---@overload fun(in_channels: integer, hidden_channels: integer, num_layers: integer,
--- out_channels?: integer, options?: table): graphs.nn.GAT
local GAT = class.class("graphs.nn.GAT", Basic)
M.GAT = GAT
GAT._takes = "edge_attr"

---@param in_channels integer|integer[]
---@param hidden_channels integer
---@param num_layers integer
---@param out_channels? integer
---@param options? {dropout: number, act: string|function|false, act_first: boolean,
--- norm: string|function, jk: string, v2: boolean, heads: integer, concat: boolean,
--- negative_slope: number, add_self_loops: boolean, edge_dim: integer, fill_value: number|string,
--- bias: boolean, residual: boolean}  v2: whether layers are GATv2Conv
function GAT:__init(...) self:_begin("graphs.nn.GAT", take_gat(...)) end

function GAT:_conv(a, from, to, is_last) -- luacheck: no unused args
   local concat = a.concat and not is_last
   if concat and to % a.heads ~= 0 then
      torch.raise(("graphs.nn.GAT: heads: expected a divisor of the %d channels, got %d"):format(to,
         a.heads))
   end
   local Conv = a.v2 and attention.GATv2Conv or attention.GATConv
   return Conv(from, concat and to // a.heads or to, {heads = a.heads, concat = concat,
      dropout = a.dropout, negative_slope = a.negative_slope, add_self_loops = a.add_self_loops,
      edge_dim = a.edge_dim, fill_value = a.fill_value, bias = a.bias, residual = a.residual})
end

return M
