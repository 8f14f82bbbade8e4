-- MessagePassing.lua - the base class of layers in which nodes get messages from their neighbours.
--
-- `propagate` passes values to `message`, `aggregate` and `update` by the names of their
-- parameters. In many layers, a message is the neighbour's row, or a weight times this row, and
-- messages are summed or averaged. The result is then a product with the sparse matrix of edges,
-- and no messages are stored.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Adjacency = require "tlua.graphs.adjacency"
local checks = require "tlua.graphs.checks"
local matrix = require "tlua.graphs.matrix"
local scatter = require "tlua.graphs.utils.scatter"
local nn = torch.nn

--- The base class of layers in which nodes get messages from their neighbours. A derived class
--- defines `message(...)`. The names of its parameters decide which values it gets: `x_j` gets the
--- rows of x at the sources of edges, `x_i` the rows at their targets, and any other name the value
--- that was passed to `propagate` under this name. The class may also define `aggregate(inputs,
--- index, dim_size)` and `update(inputs, ...)`.
---
---     local Mean, Base = torch.class("Mean", torch.graphs.nn.MessagePassing)
---     function Mean:__init() Base.__init(self, {aggr = "mean"}) end
---     function Mean:forward(x, edge_index)
---        return self:propagate(edge_index, {x = x})
---     end
---     function Mean:message(x_j, x_i) return x_j - x_i end
---     local x = torch.tensor {{1.0}, {3.0}}
---     print(Mean()(x, torch.tensor {{1}, {2}}):flatten())
---     --> tensor([ 0., -2.])
---@class graphs.nn.MessagePassing: nn.Module
---@field aggr string|string[]|function  how messages are reduced
---@field flow string  "source_to_target" or "target_to_source"
---@field node_dim integer  the dimension along which tensors have one row per node
---@overload fun(options?: table): graphs.nn.MessagePassing
local MessagePassing, parent = class.class("graphs.nn.MessagePassing", nn.Module)

local signature = args.signature [[graphs.nn.MessagePassing(aggr: any = 'sum',
   flow: string = 'source_to_target', node_dim: integer = -2)]]

local function check_aggr(title, aggr)
   if type(aggr) == "table" and not getmetatable(aggr) then
      if #aggr == 0 then args.refuse(title, "aggr", "names of reductions", aggr) end
      for _, name in ipairs(aggr) do check_aggr(title, name) end
   elseif not args.is_callable(aggr) and not (type(aggr) == "string" and scatter.has(aggr)) then
      args.refuse(title, "aggr", scatter.names .. ", a list of them, or a function", aggr)
   end
end

---@param options? {aggr: string|string[]|function, flow: string, node_dim: integer}
function MessagePassing:__init(...)
   parent.__init(self)
   local a = signature(...)
   local title = torch.type(self)
   check_aggr(title, a.aggr)
   if a.flow ~= "source_to_target" and a.flow ~= "target_to_source" then
      args.refuse(title, "flow", '"source_to_target" or "target_to_source"', a.flow)
   end
   self.aggr, self.flow, self.node_dim = a.aggr, a.flow, a.node_dim
end

--- Initializes the parameters again. The base class has no parameters.
function MessagePassing:reset_parameters() end

-- Names of parameters -----------------------------------------------------------------------------

-- Maps functions to the names of their parameters.
local names_of <const> = setmetatable({}, {__mode = "k"})

-- Returns the names of a method's parameters. `self` and the `skip` parameters after it are left
-- out.
local function parameters(self, method, skip)
   local fn = self[method]
   local names = names_of[fn]
   if not names then
      names = {}
      local getlocal = debug and debug.getlocal
      if not getlocal then
         torch.raise(torch.type(self) .. ": the names of parameters need Lua's debug library")
      end
      local info = debug.getinfo(fn, "u")
      for i = 1, info.nparams do names[i] = getlocal(fn, i) end
      if info.nparams > 0 and names[1] == nil then
         torch.raise(("%s:%s: the names of its parameters were stripped"):format(torch.type(self),
            method))
      end
      names_of[fn] = names
   end
   local list = {}
   for i = skip + 1, #names do list[#list + 1] = names[i] end
   return list
end

-- Propagation -------------------------------------------------------------------------------------

local function rows_of(value, dim)
   if torch.is_tensor(value) and value:dim() >= -dim then return value:size(dim) end
end

-- Returns the number of sources and the number of targets. If `size` is given, it has both numbers.
-- Otherwise they are the numbers of rows of the tensors that are propagated.
local function sizes_of(self, title, kept, size)
   local sources, targets
   if size ~= nil then
      if type(size) ~= "table" or #size > 2 then
         args.refuse(title, "size", "a list of the numbers of sources and of targets", size)
      end
      sources, targets = size[1] or nil, size[2] or nil
   end
   for _, name in ipairs(kept.lifted) do
      local value = kept.values[name]
      local from, to = value, value
      if type(value) == "table" then from, to = value[1], value[2] end
      local pair = type(value) == "table"
      for k, part in ipairs {from or false, to or false} do
         local rows = part and rows_of(part, self.node_dim)
         if rows then
            local known = k == 1 and sources or k == 2 and targets or nil
            if not pair and sources and targets and sources ~= targets then
               args.refuse(title, name, "a pair for sources and targets", value)
            end
            if known and known ~= rows then
               torch.raise(("%s: %s: expected %d rows for %s, got %d"):format(title, name, known,
                  k == 1 and "sources" or "targets", rows))
            end
            if k == 1 then sources = rows else targets = rows end
         end
      end
   end
   sources, targets = sources or targets, targets or sources
   if not sources then
      torch.raise(title .. ": propagate: expected a tensor of nodes, or size, got neither")
   end
   return sources, targets
end

-- Returns the values of a method's parameters, which are found by the names of the parameters. A
-- name such as x_j or x_i stands for the rows at the edges' sources or targets.
local function collect(self, title, method, names, values, context)
   local list = {n = #names}
   for i, name in ipairs(names) do
      local base, which = name:match "^(.+)_([ij])$"
      if context[name] ~= nil then
         list[i] = context[name]
      elseif base and values[base] == nil and values[name] == nil
            and not context.optional[base] then
         torch.raise(("%s:%s: %s: expected propagate to get %s"):format(title, method, name, base))
      elseif base and values[name] == nil then
         local value = values[base]
         local at = which == "j" and context.source or context.index
         if type(value) == "table" then value = value[which == "j" and 1 or 2] end
         if torch.is_tensor(value) then value = value:index_select(self.node_dim, at) end
         list[i] = value
      else
         list[i] = values[name]
         if list[i] == nil and not context.optional[name] then
            torch.raise(("%s:%s: %s: expected propagate to get it"):format(title, method, name))
         end
      end
   end
   return list
end

-- Returns whether message_and_aggregate may replace a call of `message` followed by a call of
-- `aggregate`. This is not allowed if a derived class overrides only `message`, because
-- message_and_aggregate then computes another result.
local function is_fused(self)
   if rawget(self, "message") then return false end
   local cls = getmetatable(self)
   while cls do
      if rawget(cls, "message_and_aggregate") then return true end
      if rawget(cls, "message") then return false end
      cls = getmetatable(cls).parent
   end
   return false
end

local direct <const> = {sum = true, add = true, mean = true}

--- Sends messages along edges, aggregates them at each node, and updates the nodes.
---@param edge_index Tensor  (2, edges) int64, or a sparse matrix of shape (targets, sources), whose
--- values are edge_weight if none is given
---@param values table<string, any>  the arguments of message and update, by name: a tensor of
--- nodes, a list of two tensors (for sources and targets), or any other value. `false` is passed on
--- as nil. The value `size` may list the numbers of sources and targets
---@return any
function MessagePassing:propagate(edge_index, values)
   local title = torch.type(self)
   local given = values or {}
   if type(given) ~= "table" or getmetatable(given) then
      args.refuse(title .. ":propagate", "values", "a table of values by name", given)
   end
   if matrix.is(edge_index) then
      local edges, weight = matrix.edges(title, edge_index)
      edge_index = edges
      if given.edge_weight == nil then
         given = {edge_weight = weight or false}
         for name, value in pairs(values or {}) do given[name] = value end
      end
   end
   local kept, optional = {}, {}
   for name, value in pairs(given) do
      if name ~= "size" then
         if value == false then optional[name] = true else kept[name] = value end
      end
   end
   local names = parameters(self, "message", 1)
   local lifted, seen = {}, {}
   for _, name in ipairs(names) do
      local base = name:match "^(.+)_[ij]$"
      if base and kept[base] ~= nil and not seen[base] then
         seen[base] = true
         lifted[#lifted + 1] = base
      end
   end
   local sources, targets = sizes_of(self, title, {values = kept, lifted = lifted}, given.size)
   local adjacency = Adjacency.of(title, edge_index, sources, targets, self.flow)
   local result
   local aggregates = self.aggregate == MessagePassing.aggregate
   if aggregates and is_fused(self) and direct[self.aggr] and self:_takes_product(kept) then
      local list = collect(self, title, "message_and_aggregate",
         parameters(self, "message_and_aggregate", 2), kept, {optional = optional})
      result = self:message_and_aggregate(adjacency, table.unpack(list, 1, list.n))
   else
      result = self:_pass(title, adjacency, names, kept, optional)
   end
   if self.update == MessagePassing.update then return result end
   local context = {optional = optional, index = adjacency.rows[2], source = adjacency.rows[1],
      dim_size = targets, edge_index = edge_index}
   local list = collect(self, title, "update", parameters(self, "update", 2), kept, context)
   return self:update(result, table.unpack(list, 1, list.n))
end

-- Returns whether a product with the sparse matrix can compute the sums of messages.
function MessagePassing:_takes_product(kept)
   local x = kept.x
   if type(x) == "table" then x = x[1] end
   return self.node_dim == -2 and torch.is_tensor(x) and x:dim() == 2 and Adjacency.takes(x.dtype)
end

-- Computes the messages of all edges and aggregates them at the targets.
function MessagePassing:_pass(title, adjacency, names, kept, optional)
   local context = {
      optional = optional, index = adjacency.rows[2], source = adjacency.rows[1],
      edge_index = adjacency.rows, edge_index_i = adjacency.rows[2],
      edge_index_j = adjacency.rows[1], dim_size = adjacency.num_targets,
      size_i = adjacency.num_targets, size_j = adjacency.num_sources,
   }
   local list = collect(self, title, "message", names, kept, context)
   local messages = self:message(table.unpack(list, 1, list.n))
   local more = parameters(self, "aggregate", 2)
   local rest = collect(self, title, "aggregate", more, kept, context)
   return self:aggregate(messages, table.unpack(rest, 1, rest.n))
end

--- Computes the message of each edge. By default, it is the row of x at the edge's source.
---@param x_j Tensor
---@return Tensor
function MessagePassing:message(x_j) return x_j end

--- Computes and sums the messages in one step, as a product with the sparse matrix of edges. For
--- sums and means, it is called if the layer overrides this method, or if the layer overrides
--- neither this method nor `message`.
---@param adjacency graphs.Adjacency
---@param x Tensor|Tensor[]
---@return Tensor
function MessagePassing:message_and_aggregate(adjacency, x)
   if type(x) == "table" then x = x[1] end
   return self.aggr == "mean" and adjacency:mean(x) or adjacency:matmul(x)
end

-- Reduces the messages of each node. `aggr` is the name of a reduction, a list of names whose
-- results are concatenated, or a function.
local function reduce(aggr, inputs, index, dim, size)
   if type(aggr) == "string" then return scatter.reduce(inputs, index, dim, size, aggr) end
   if type(aggr) == "table" and not getmetatable(aggr) then
      local list = {}
      for i, one in ipairs(aggr) do list[i] = reduce(one, inputs, index, dim, size) end
      return torch.cat(list, -1)
   end
   return aggr(inputs, index, {dim_size = size, dim = dim})
end

--- Reduces the messages of each node to one row.
---@param inputs Tensor  the messages
---@param index Tensor  (edges) int64: the target of each message
---@param dim_size integer  the number of targets
---@return Tensor
function MessagePassing:aggregate(inputs, index, dim_size)
   local dim = self.node_dim
   if not torch.is_tensor(inputs) or inputs:dim() < -dim or inputs:size(dim) ~= index:numel() then
      args.refuse(torch.type(self) .. ":message", "result",
         ("a tensor with %d rows in dimension %d"):format(index:numel(), dim), inputs)
   end
   if dim < 0 then dim = inputs:dim() + dim + 1 end
   return reduce(self.aggr, inputs, index, dim, dim_size)
end

--- Computes the layer's result from the aggregated messages. By default, the result is the
--- aggregated messages.
---@param inputs Tensor
---@return Tensor
function MessagePassing:update(inputs) return inputs end

-- Checks ------------------------------------------------------------------------------------------

--- Raises an error unless x is a tensor (nodes, channels) of a floating dtype.
---@param x any
---@param channels? integer
---@param name? string
function MessagePassing:_check_x(x, channels, name)
   name = name or "x"
   if not torch.is_tensor(x) or args.kind_of(x) or not x:is_floating_point() or x:dim() ~= 2
         or channels and x:size(2) ~= channels then
      args.refuse(torch.type(self), name, ("a floating tensor of shape (nodes, %s)"):format(
         channels or "channels"), x)
   end
end

--- Checks the features of sources and of targets, and returns them. x is one tensor for both, or a
--- list of two tensors, of which the second may be nil.
---@param x any
---@param channels? integer|integer[]
---@return Tensor sources
---@return Tensor? targets
function MessagePassing:_pair(x, channels)
   local first, second = channels, channels
   if type(channels) == "table" then first, second = channels[1], channels[2] end
   if type(x) ~= "table" then
      self:_check_x(x, first)
      return x, x
   end
   self:_check_x(x[1], first, "x[1]")
   if x[2] ~= nil then self:_check_x(x[2], second, "x[2]") end
   return x[1], x[2]
end

--- Raises an error unless a value is nil or a tensor with a row for each edge.
---@param edge_index Tensor
---@param attr any
---@param name string
function MessagePassing:_check_edges(edge_index, attr, name)
   checks.edges(torch.type(self), edge_index)
   checks.edge_attr(torch.type(self), edge_index, attr, name)
end

return MessagePassing
