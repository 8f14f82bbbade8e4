-- adjacency.lua - stores the edges of a graph as sparse CSR matrices and computes products with
-- them. One matrix has the targets of edges as rows, the other one has the sources. Each is built
-- when it is first used, and cached as long as the tensor edge_index exists. If this tensor is
-- changed in place, the matrices are built again.

local torch = require "tlua"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"

--- The edges of a graph as a sparse matrix. Row i holds the edges that end at node i.
---
---     local edges = torch.tensor {{1, 2}, {3, 3}}
---     local Sum = torch.class("Sum", torch.graphs.nn.MessagePassing)
---     function Sum:message_and_aggregate(adjacency, x)
---        return adjacency:matmul(x)
---     end
---     local x = torch.tensor {{1.0}, {2.0}, {4.0}}
---     print(Sum():propagate(edges, {x = x}):flatten())
---     --> tensor([0., 0., 3.])
---@class graphs.Adjacency
---@field num_targets integer  the number of targets
---@field num_sources integer  the number of sources
local Adjacency = class.class("graphs.Adjacency")

-- Maps a tensor edge_index to its Adjacency objects. These objects do not refer to the tensor, so
-- that it and they can be collected.
local known <const> = setmetatable({}, {__mode = "k"})

function Adjacency:__init(rows, num_targets, num_sources)
   self.rows, self.num_targets, self.num_sources = rows, num_targets, num_sources
   self.facts = {} -- maps names to the values that `fact` has computed
end

-- Returns the CSR matrix whose rows are the targets (if `name` is "target") or the sources
-- ("source"). It is a table with the row pointers, the columns, and the edge to which each element
-- belongs.
local function side(self, name)
   local found = self[name .. "s"]
   if found then return found end
   local to = self.rows[name == "target" and 2 or 1]
   local from = self.rows[name == "target" and 1 or 2]
   local n = name == "target" and self.num_targets or self.num_sources
   local edges = to:numel()
   found = {n = n}
   local counts = edges > 0 and torch.bincount(to, {minlength = n})
      or torch.zeros(n, {dtype = "int64", device = to.device})
   found.counts = counts
   found.pointers = torch.cat({counts:new_ones(1), counts:cumsum(1) + 1})
   local sorted = edges < 2 or to[{{2, -1}}]:ge(to[{{1, -2}}]):all():item()
   if sorted then
      found.columns = from:contiguous()
   else
      found.order = torch.argsort(to, {stable = true})
      found.columns = from:index_select(1, found.order)
   end
   self[name .. "s"] = found
   return found
end

--- Returns the number of edges that end at each target, (num_targets) int64.
---@return Tensor
function Adjacency:in_degree() return side(self, "target").counts end

--- Returns the result of `make`, which is called once and cached under `name`.
---@param name string  the result's name
---@param make fun(adjacency: graphs.Adjacency): any
---@return any
function Adjacency:fact(name, make)
   local value = self.facts[name]
   if value == nil then
      value = torch.no_grad(function() return make(self) end)
      self.facts[name] = value
   end
   return value
end

-- Reorders `values`, which has one value per edge, to the order of the elements of the matrix
-- `form`.
local function arranged(form, values)
   return form.order and values:index_select(1, form.order) or values
end

-- Reorders `values`, which are in the order of the elements of the matrix `form`, to the original
-- order of the edges.
local function restored(form, values)
   if not form.order then return values end
   form.inverse = form.inverse or torch.argsort(form.order)
   return values:index_select(1, form.inverse)
end

-- Computes the product of the sparse matrix with a dense matrix (n, k). In the backward pass, the
-- gradient is multiplied by the transposed matrix: if this matrix has the targets as rows, the
-- other one has the sources.
local Product = class.class("graphs.Product", torch.autograd.Function)

function Product.forward(ctx, values, x, adjacency, name)
   ctx.adjacency, ctx.name = adjacency, name
   ctx:save_for_backward(values, ctx.needs_input_grad[1] and x or nil)
   local form = side(adjacency, name)
   return torch._csr_mm(form.pointers, form.columns, arranged(form, values), x, form.n)
end

function Product.backward(ctx, grad)
   local values, x = ctx:saved_tensors()
   local adjacency, name = ctx.adjacency, ctx.name
   local of_values, of_x
   grad = grad:contiguous()
   if ctx.needs_input_grad[1] then
      local form = side(adjacency, name)
      of_values = restored(form, torch._csr_sampled(form.pointers, form.columns, grad, x))
   end
   if ctx.needs_input_grad[2] then
      of_x = Product:apply(values, grad, adjacency, name == "target" and "source" or "target")
   end
   return of_values, of_x
end

local floating <const> = {float32 = true, float64 = true, float16 = true, bfloat16 = true}

--- Returns a row for each target: the sum, over its incoming edges, of the edge's value times the
--- row of x at the edge's source.
---@param x Tensor  (num_sources, ...)
---@param values? Tensor  (E); 1 by default
---@return Tensor
function Adjacency:matmul(x, values)
   local shape = x.shape
   local flat = x:dim() == 2 and x or x:reshape(x:size(1), x:numel() // math.max(x:size(1), 1))
   if x:size(1) == 0 then
      local sizes = {self.num_targets, table.unpack(shape, 2)}
      return x:new_zeros(sizes) + x:sum() * 0
   end
   if values == nil then
      values = self:fact("ones " .. x.dtype, function()
         return x:new_ones(self.rows:size(2))
      end)
   end
   local out = Product:apply(values:to(x.dtype), flat:contiguous(), self, "target")
   if x:dim() == 2 then return out end
   return out:view({self.num_targets, table.unpack(shape, 2)})
end

--- Returns a row for each target: the mean over its incoming edges of the rows of x at their
--- sources. A target without incoming edges gets 0.
---@param x Tensor  (num_sources, ...)
---@param values? Tensor  (E): factors of the rows; 1 by default
---@return Tensor
function Adjacency:mean(x, values)
   local weight = self:fact("mean " .. x.dtype, function()
      local form = side(self, "target")
      return form.counts:clamp_min(1):to(x.dtype):reciprocal():index_select(1, self.rows[2])
   end)
   return self:matmul(x, values and values * weight or weight)
end

--- Returns a row for each target: the sum over its incoming edges of the row of x at the edge's
--- source, weighted for each head.
---@param x Tensor  (num_sources, heads, channels)
---@param weights Tensor  (E, heads)
---@return Tensor  (num_targets, heads, channels)
function Adjacency:attend(x, weights)
   local list = {}
   for h = 1, x:size(2) do list[h] = self:matmul(x:select(2, h), weights:select(2, h)) end
   return #list == 1 and list[1]:unsqueeze(2) or torch.stack(list, 2)
end

--- Returns whether the sparse products support tensors of a dtype.
---@param dtype string
---@return boolean
function Adjacency.takes(dtype) return floating[tostring(dtype)] or false end

--- Returns the matrix of `edge_index`. The edges are checked when the matrix is first made.
---@param title string  the function's name, for error messages
---@param edge_index Tensor  (2, E)
---@param num_sources integer
---@param num_targets integer
---@param flow? string  "target_to_source" for edges that are followed backwards
---@return graphs.Adjacency
function Adjacency.of(title, edge_index, num_sources, num_targets, flow)
   checks.edges(title, edge_index)
   local backwards = flow == "target_to_source"
   local key = ("%d %d %s"):format(num_sources, num_targets, backwards)
   local entry = known[edge_index]
   if entry and entry.version == edge_index._version and entry.address == edge_index:data_ptr()
         and entry.edges == edge_index:size(2) then
      if entry[key] then return entry[key] end
   else
      entry = {version = edge_index._version, address = edge_index:data_ptr(),
         edges = edge_index:size(2)}
   end
   local rows = edge_index
   if backwards then rows = edge_index:flip(1) end
   if num_sources == num_targets then
      checks.range(title, "edge_index", edge_index, num_sources)
   else
      checks.range(title, "edge_index[1]", rows[1], num_sources, "sources")
      checks.range(title, "edge_index[2]", rows[2], num_targets, "targets")
   end
   -- The tensor is detached from its key edge_index, so that the cached value does not keep the key
   -- from being collected.
   local adjacency = Adjacency(rows:detach(), num_targets, num_sources)
   if not edge_index:is_inference() then
      known[edge_index] = entry
      entry[key] = adjacency
   end
   return adjacency
end

return Adjacency
