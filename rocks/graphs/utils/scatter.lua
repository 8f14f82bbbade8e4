-- scatter.lua - reductions over groups of rows, such as the rows of one node or graph.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.graphs.checks"

local M = {}

-- Expands a vector of positions, which lies along the dimension `dim`, to the shape of src.
-- Operators such as scatter need one position for each element.
local function spread(index, src, dim)
   local sizes = {}
   for i = 1, src:dim() do sizes[i] = i == dim and -1 or 1 end
   return index:view(sizes):expand_as(src)
end

local function zeros_like(src, dim, size)
   local sizes = {table.unpack(src.shape)}
   sizes[dim] = size
   return src:new_zeros(sizes)
end

local function extreme(name)
   return function(src, index, dim, size)
      return zeros_like(src, dim, size):scatter_reduce(dim, spread(index, src, dim), src, name,
         {include_self = false})
   end
end

local function sum(src, index, dim, size)
   return zeros_like(src, dim, size):index_add(dim, index, src)
end

-- Returns the number of rows of each group, in a shape that broadcasts with the result. For a group
-- without rows it is 1, to avoid a division by 0.
local function counts_of(src, index, dim, size)
   local counts = torch.bincount(index, {minlength = size}):clamp_min(1)
   local sizes = {}
   for i = 1, src:dim() do sizes[i] = i == dim and size or 1 end
   return counts:view(sizes)
end

-- Computes the mean of each group. The mean of integers is a floating-point number, as in PyTorch
-- Geometric.
local function mean(src, index, dim, size)
   local total = sum(src, index, dim, size)
   local counts = counts_of(src, index, dim, size)
   if src:is_floating_point() or src:is_complex() then counts = counts:to(src.dtype) end
   return total / counts
end

local function variance(src, index, dim, size)
   local middle = mean(src, index, dim, size)
   return mean(src * src, index, dim, size) - middle * middle
end

local reductions <const> = {
   sum = sum, add = sum, mean = mean, max = extreme "amax", min = extreme "amin",
   mul = function(src, index, dim, size)
      return (zeros_like(src, dim, size) + 1):scatter_reduce(dim, spread(index, src, dim), src,
         "prod")
   end,
   var = variance,
   -- The variance is clamped, as in PyTorch Geometric, so that the derivative of the square root is
   -- finite.
   std = function(src, index, dim, size)
      local deviation = variance(src, index, dim, size):clamp_min(1e-5):sqrt()
      return deviation:masked_fill(deviation:le(math.sqrt(1e-5)), 0)
   end,
}
reductions.any = reductions.max

--- The names of reductions, for error messages.
M.names = "sum, add, mean, max, min, mul, var or std"

-- Returns a dimension as a positive number, counted from the front.
local function front(title, src, dim)
   local given = dim
   if dim < 0 then dim = src:dim() + dim + 1 end
   if dim < 1 or dim > src:dim() then
      args.refuse(title, "dim", ("a dimension of a tensor with %d"):format(src:dim()), given)
   end
   return dim
end

--- Reduces groups of rows without checking the arguments.
---@param src Tensor
---@param index Tensor  int64, positions from 1 to size
---@param dim integer  from 1
---@param size integer
---@param reduce string
---@return Tensor
function M.reduce(src, index, dim, size, reduce)
   if src:numel() == 0 and index:numel() == 0 and reduce ~= "sum" and reduce ~= "add" then
      local fill = reduce == "mul" and 1 or 0
      return sum(src, index, dim, size) + fill
   end
   return reductions[reduce](src, index, dim, size)
end

--- Returns whether `name` is the name of a reduction.
---@param name any
---@return boolean
function M.has(name) return reductions[name] ~= nil end

local take_scatter = args.signature [[graphs.utils.scatter(src: tensor, index: tensor,
   dim: dim = 1, dim_size: count?, reduce: string = 'sum')]]

--- Reduces the rows of `src` that have the same position in `index`, with "sum" ("add"), "mean",
--- "max", "min", "mul", "var" or "std". The result for a group without rows is 0, or 1 for "mul".
---
---     local U = torch.graphs.utils
---     local src = torch.tensor {1.0, 2.0, 5.0}
---     print(U.scatter(src, torch.tensor {1, 1, 3}, {reduce = "mean"}))
---     --> tensor([1.5000, 0.0000, 5.0000])
---@param src Tensor
---@param index Tensor  int64 of one dimension: the group of each row of dimension `dim`
---@param dim? integer
---@param dim_size? integer  the number of groups; by default the greatest position
---@param reduce? string
---@return Tensor
function M.scatter(...)
   local title <const> = "graphs.utils.scatter"
   local a = take_scatter(...)
   checks.index(title, "index", a.index)
   local dim = front(title, a.src, a.dim)
   if not reductions[a.reduce] then args.refuse(title, "reduce", M.names, a.reduce) end
   if a.index:numel() ~= a.src:size(dim) then
      args.refuse(title, "index", ("%d positions"):format(a.src:size(dim)), a.index)
   end
   local size = a.dim_size
   if size then
      checks.range(title, "index", a.index, size, "groups")
   else
      size = checks.num_nodes(title, a.index)
   end
   return M.reduce(a.src, a.index, dim, size, a.reduce)
end

-- Converts pointers to groups. ptr[i] is the first row of group i. Returns the number of the group
-- to which each row belongs, and the number of groups.
local function from_pointers(title, ptr, rows)
   checks.index(title, "ptr", ptr)
   local n = ptr:numel() - 1
   if n < 0 or ptr[1]:item() ~= 1 or ptr[-1]:item() ~= rows + 1
         or n > 0 and ptr[{{2, -1}}]:lt(ptr[{{1, -2}}]):any():item() then
      args.refuse(title, "ptr", ("ascending pointers from 1 to %d"):format(rows + 1), ptr)
   end
   local groups = torch.arange(1, n + 1, {device = ptr.device})
   if n == 0 then return ptr:new_zeros(0), 0 end
   return groups:repeat_interleave(ptr[{{2, -1}}] - ptr[{{1, -2}}]), n
end

local take_segment = args.signature [[graphs.utils.segment(src: tensor, ptr: tensor,
   reduce: string = 'sum')]]

--- Reduces adjacent rows of `src`: group i has the rows from ptr[i] to ptr[i + 1] - 1.
---
---     local src, ptr = torch.tensor {1.0, 2.0, 5.0}, torch.tensor {1, 3, 4}
---     print(torch.graphs.utils.segment(src, ptr))
---     --> tensor([3., 5.])
---@param src Tensor
---@param ptr Tensor  int64
---@param reduce? string  a reduction that scatter accepts; 'sum' by default
---@return Tensor
function M.segment(...)
   local title <const> = "graphs.utils.segment"
   local a = take_segment(...)
   if a.src:dim() == 0 then args.refuse(title, "src", "a tensor of a dimension", a.src) end
   if not reductions[a.reduce] then args.refuse(title, "reduce", M.names, a.reduce) end
   local index, n = from_pointers(title, a.ptr, a.src:size(1))
   return M.reduce(a.src, index, 1, n, a.reduce)
end

--- Computes the softmax over each group without checking the arguments.
---@param src Tensor
---@param index Tensor  int64, positions from 1 to size
---@param size integer
---@param dim integer  from 1
---@return Tensor
function M.group_softmax(src, index, size, dim)
   if src:numel() == 0 then return src end
   local most = torch.no_grad(function() return reductions.max(src, index, dim, size) end)
   local out = (src - most:index_select(dim, index)):exp()
   local total = sum(out, index, dim, size) + 1e-16
   return out / total:index_select(dim, index)
end

local take_softmax = args.signature [[graphs.utils.softmax(src: tensor, index: tensor?,
   ptr: tensor?, num_nodes: count?, dim: dim = 1)]]

--- Returns the softmax over the rows of each group.
---
---     local src = torch.tensor {1.0, 1.0, 5.0}
---     print(torch.graphs.utils.softmax(src, torch.tensor {1, 1, 2}))
---     --> tensor([0.5000, 0.5000, 1.0000])
---@param src Tensor
---@param index? Tensor  int64: the group of each row
---@param ptr? Tensor  int64: the pointers of sorted groups, instead of `index`
---@param num_nodes? integer  the number of groups
---@param dim? integer
---@return Tensor
function M.softmax(...)
   local title <const> = "graphs.utils.softmax"
   local a = take_softmax(...)
   local dim = front(title, a.src, a.dim)
   local index, size = a.index, a.num_nodes
   if a.ptr then
      index, size = from_pointers(title, a.ptr, a.src:size(dim))
   elseif not index then
      torch.raise(title .. ": expected index or ptr, got none")
   else
      checks.index(title, "index", index)
      if index:numel() ~= a.src:size(dim) then
         args.refuse(title, "index", ("%d positions"):format(a.src:size(dim)), index)
      end
      if size then
         checks.range(title, "index", index, size, "groups")
      else
         size = checks.num_nodes(title, index)
      end
   end
   return M.group_softmax(a.src, index, size, dim)
end

return M
