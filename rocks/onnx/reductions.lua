-- reductions.lua - sums, extrema and searches along dimensions.

local torch = require "tlua"
local support = require "tlua.onnx.support"

local cast <const> = support.cast

local M = {}

-- Returns the dimensions to reduce. Without axes these are all dimensions, unless the attribute
-- noop_with_empty_axes is set; in this case the result is nil.
local function read_dims(node, x, axes, by_input)
   local list
   if by_input then list = node:list(axes, nil, "axes") else list = node:ints "axes" end
   if list == nil or #list == 0 then
      if node:int("noop_with_empty_axes", 0) ~= 0 then return nil end
      list = {}
      for i = 1, x:dim() do list[i] = i - 1 end
   end
   return node:dims(list, x:dim())
end

-- Returns the shape of a reduction's result.
local function reduced(x, dims, keep)
   local gone, shape = {}, {}
   for _, dim in ipairs(dims) do gone[dim] = true end
   for i = 1, x:dim() do
      if not gone[i] then shape[#shape + 1] = x:size(i) elseif keep then shape[#shape + 1] = 1 end
   end
   return shape
end

-- Defines a reduction, which fn(x, dims, keep) computes. From operator version `version` on, the
-- axes are an input instead of an attribute. before(x) is applied to the elements first, even if no
-- dimension is reduced.
local function define(name, version, fn, before, after)
   M[name] = function(node, x, axes)
      local dims = read_dims(node, x, axes, node.version >= version)
      local keep = node:int("keepdims", 1) ~= 0
      local y = before and before(x) or x
      if dims and #dims > 0 then y = fn(y, dims, keep) end
      if after and dims then y = after(y) end
      return cast(y, x.dtype)
   end
end

local function sum(x, dims, keep) return x:sum(dims, keep) end

local function prod(x, dims, keep)
   local shape = reduced(x, dims, keep)
   for _, dim in ipairs(dims) do x = x:prod(dim, true) end
   return x:reshape(shape)
end

local function mean(x, dims, keep)
   if x:is_floating_point() then return x:mean(dims, keep) end
   return x:to "float64":mean(dims, keep):trunc()
end

local function extreme(fn, highest)
   return function(x, dims, keep)
      if x:numel() == 0 then
         return torch.full(reduced(x, dims, keep), support.limit(x.dtype, highest),
            {dtype = x.dtype, device = x.device})
      end
      if x.dtype == "bool" then return fn(x:to "uint8", dims, keep):to "bool" end
      return fn(x, dims, keep)
   end
end

local function as_float(x) return x:is_floating_point() and x or x:to "float64" end

local function logsumexp(x, dims, keep)
   if x:numel() == 0 then return x:sum(dims, keep):log() end
   return x:logsumexp(dims, keep)
end

define("ReduceSum", 13, sum)
define("ReduceProd", 18, prod)
define("ReduceMean", 18, mean)
define("ReduceMax", 18, extreme(torch.amax, false))
define("ReduceMin", 18, extreme(torch.amin, true))
define("ReduceL1", 18, sum, torch.abs)
define("ReduceL2", 18, sum, function(x) return as_float(x) * as_float(x) end, torch.sqrt)
define("ReduceSumSquare", 18, sum, function(x) return x * x end)
define("ReduceLogSum", 18, sum, as_float, torch.log)
define("ReduceLogSumExp", 18, logsumexp, as_float)

local function search(fn)
   return function(node, x)
      local dim = node:dim(node:int("axis", 0), x:dim())
      local keep = node:int("keepdims", 1) ~= 0
      if node:int("select_last_index", 0) == 0 then return fn(x, dim, keep) - 1 end
      return x:size(dim) - fn(x:flip(dim), dim, keep)
   end
end

M.ArgMax, M.ArgMin = search(torch.argmax), search(torch.argmin)

local function cumulate(fn, first)
   return function(node, x, axis)
      local dim = node:dim(node:list(axis, {0}, "axis")[1], x:dim())
      local back = node:int("reverse", 0) ~= 0
      local y = back and x:flip(dim) or x
      if node:int("exclusive", 0) ~= 0 and y:size(dim) > 0 then
         local one = torch.full_like(y:narrow(dim, 1, 1), first)
         y = torch.cat({one, y:narrow(dim, 1, y:size(dim) - 1)}, dim)
      end
      y = cast(fn(y, dim), x.dtype)
      return back and y:flip(dim) or y
   end
end

M.CumSum, M.CumProd = cumulate(torch.cumsum, 0), cumulate(torch.cumprod, 1)

function M.TopK(node, x, count)
   local dim = node:dim(node:int("axis", -1), x:dim())
   local k = count and node:list(count, nil, "k")[1] or node:need("int", "k")
   if k < 0 or k > x:size(dim) then
      node:fail("k: expected 0 to %d, got %d", x:size(dim), k)
   end
   local largest = node:int("largest", 1) ~= 0
   -- A stable sort orders equal elements by their positions.
   local order, positions = x:sort {dim = dim, descending = largest, stable = true}
   return order:narrow(dim, 1, k), positions:narrow(dim, 1, k) - 1
end

return M
