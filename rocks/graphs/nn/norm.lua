-- norm.lua - layers that normalise the features of nodes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local inits = require "tlua.graphs.nn.inits"
local scatter = require "tlua.graphs.utils.scatter"
local nn = torch.nn

local M = {}

local take_batch = args.signature [[graphs.nn.BatchNorm(in_channels: count, eps: number = 1e-5,
   momentum: number|boolean = 0.1, affine: boolean = true, track_running_stats: boolean = true,
   allow_single_element: boolean = false)]]

--- Batch normalisation of node features over all nodes, like nn.BatchNorm1d.
---
---     local norm = torch.graphs.nn.BatchNorm(1)
---     print(norm(torch.tensor {{1.0}, {3.0}}):detach():flatten())
---     --> tensor([-1.0000,  1.0000])
---@class graphs.nn.BatchNorm: nn.Module
---@field module nn.BatchNorm1d  the layer
---@overload fun(in_channels: integer, options?: table): graphs.nn.BatchNorm
local BatchNorm = class.class("graphs.nn.BatchNorm", nn.Module)
M.BatchNorm = BatchNorm

---@param in_channels integer
---@param options? {eps: number, momentum: number, affine: boolean, track_running_stats: boolean,
--- allow_single_element: boolean}  allow_single_element: whether a batch of one node is normalised
--- by the running statistics in training instead of raising an error
function BatchNorm:__init(...)
   nn.Module.__init(self)
   local a = take_batch(...)
   if a.allow_single_element and not a.track_running_stats then
      torch.raise "graphs.nn.BatchNorm: allow_single_element: expected track_running_stats with it"
   end
   self.in_channels, self.allow_single_element = a.in_channels, a.allow_single_element
   self.module = nn.BatchNorm1d(a.in_channels, {eps = a.eps, momentum = a.momentum,
      affine = a.affine, track_running_stats = a.track_running_stats})
end

--- Sets the parameters and statistics to their initial values.
function BatchNorm:reset_parameters() self.module:reset_parameters() end

local forward_batch = args.signature "graphs.nn.BatchNorm.forward(x: tensor)"

---@param x Tensor
---@return Tensor
function BatchNorm:forward(...)
   local x = forward_batch(...).x
   if self.allow_single_element and x:size(1) <= 1 then
      local m = self.module
      return nn.functional.batch_norm(x, m.running_mean, m.running_var, m.weight, m.bias, false, 0,
         m.eps)
   end
   return self.module(x)
end

function BatchNorm:extra_repr() return tostring(self.in_channels) end

local take_graph = args.signature "graphs.nn.GraphNorm(in_channels: count, eps: number = 1e-5)"

--- Normalises features over the nodes of each graph. It subtracts a learnt multiple of the mean
--- (Cai et al., 2020). It is called as norm(x, batch).
---
---     local norm = torch.graphs.nn.GraphNorm(1)
---     print(norm(torch.tensor {{1.0}, {3.0}}):detach():flatten())
---     --> tensor([-1.0000,  1.0000])
---@class graphs.nn.GraphNorm: nn.Module
---@field weight Tensor  (in_channels)
---@field bias Tensor  (in_channels)
---@field mean_scale Tensor  (in_channels)
---@overload fun(in_channels: integer, options?: table): graphs.nn.GraphNorm
local GraphNorm = class.class("graphs.nn.GraphNorm", nn.Module)
M.GraphNorm = GraphNorm
GraphNorm.takes_batch = true

---@param in_channels integer
---@param options? {eps: number}
function GraphNorm:__init(...)
   nn.Module.__init(self)
   local a = take_graph(...)
   self.in_channels, self.eps = a.in_channels, a.eps
   self.weight = nn.Parameter(torch.ones(a.in_channels))
   self.bias = nn.Parameter(torch.zeros(a.in_channels))
   self.mean_scale = nn.Parameter(torch.ones(a.in_channels))
end

--- Sets the parameters to their initial values.
function GraphNorm:reset_parameters()
   inits.ones(self.weight)
   inits.zeros(self.bias)
   inits.ones(self.mean_scale)
end

local forward_graph = args.signature [[graphs.nn.GraphNorm.forward(x: tensor, batch: tensor?,
   batch_size: count?)]]

---@param x Tensor  (nodes, in_channels)
---@param batch? Tensor
---@param batch_size? integer  the number of graphs
---@return Tensor
function GraphNorm:forward(...)
   local a = forward_graph(...)
   local x = a.x
   if x:dim() ~= 2 or x:size(2) ~= self.in_channels then
      args.refuse("graphs.nn.GraphNorm", "x", ("(nodes, %d)"):format(self.in_channels), x)
   end
   checks.batch("graphs.nn.GraphNorm", a.batch, x:size(1), a.batch_size)
   local batch, size = a.batch, a.batch_size
   if not batch then
      batch, size = torch.ones(x:size(1), {dtype = "int64", device = x.device}), 1
   end
   size = size or batch:numel() > 0 and batch:max():item() or 0
   local mean = scatter.reduce(x, batch, 1, size, "mean")
   local out = x - mean:index_select(1, batch) * self.mean_scale
   local variance = scatter.reduce(out:pow(2), batch, 1, size, "mean")
   local deviation = (variance + self.eps):sqrt():index_select(1, batch)
   return self.weight * out / deviation + self.bias
end

function GraphNorm:extra_repr() return tostring(self.in_channels) end

return M
