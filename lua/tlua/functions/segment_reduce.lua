-- segment_reduce.lua - torch.segment_reduce: sums, means, products, maxima and minima of segments,
-- which consist of adjacent rows.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- The elementwise maximum or minimum of the rows of each segment. If several elements are equal to
-- a result, or several are NaN, they share its gradient.
local Extreme = torch.class("segment_reduce.Extreme", torch.autograd.Function)

function Extreme.forward(ctx, rows, owners, full, reduce, include_self)
   local result = full:index_reduce(1, owners, rows, reduce, {include_self = include_self})
   ctx:save_for_backward(rows, owners, result)
   return result
end
function Extreme.backward(ctx, grad)
   local rows, owners, result = ctx:saved_tensors()
   local chosen = rows:eq(result:index_select(1, owners)):logical_or(rows:isnan()):to(grad.dtype)
   local count = torch.zeros_like(grad):index_add(1, owners, chosen)
   return (grad / count:clamp_min(1)):index_select(1, owners) * chosen
end

-- Returns the products of segments, with PyTorch's gradients: if a segment has a single NaN, the
-- gradient of that element is the product of all other elements. For that, the elements that are
-- not NaN are multiplied first.
local function product(rows, owners, full)
   local nan = rows:isnan()
   local rest = full:index_reduce(1, owners, rows:masked_fill(nan, 1), "prod")
   local none = torch.zeros_like(full)
   local count = none:index_add(1, owners, nan:to(rows.dtype))
   local sum = none:index_add(1, owners, rows:masked_fill(nan:logical_not(), 0))
   local factor = torch.ones_like(full):masked_fill(count:gt(1), 0 / 0)
   return rest * torch.where(count:eq(0), factor, sum * factor)
end

--- Reduces the rows of each segment to one row.
---@param reduce string  "sum", "prod", "amax" or "amin"
---@param rows Tensor  (rows, ...)
---@param owners Tensor  (rows) the segment to which each row belongs, from 1 to n
---@param n integer  the number of segments
---@param initial? number  the value with which each segment begins, 0 by default
---@param include_self? boolean  for extremes: whether `initial` is also compared with the rows of a
--- segment that has rows
---@return Tensor  (n, ...)
function M.combine(reduce, rows, owners, n, initial, include_self)
   local sizes = {table.unpack(rows.shape)}
   sizes[1] = n
   local full = torch.full(sizes, initial or 0, {dtype = rows.dtype, device = rows.device})
   if reduce == "sum" then return full:index_add(1, owners, rows) end
   if reduce == "prod" and rows.requires_grad then return product(rows, owners, full) end
   if reduce == "prod" then return full:index_reduce(1, owners, rows, reduce) end
   return (Extreme:apply(rows, owners, full, reduce, include_self or false))
end

--- Converts a tensor to the dtype in which its elements are added.
function M.wide(x)
   if x.dtype == "float16" or x.dtype == "bfloat16" then return x:float() end
   return (x:is_floating_point() or x:is_complex()) and x or x:long()
end

local take = args.signature [[segment_reduce(data: tensor, reduce: string, lengths: tensor?,
   indices: tensor?, offsets: tensor?, axis: dim = 1, unsafe: boolean = false, initial: number?)]]

local function fail(text, ...) torch.raise(("segment_reduce: " .. text):format(...)) end

local identities <const> = {sum = 0, mean = 0, prod = 1, max = -math.huge, min = math.huge}

-- Checks the values of the tensor `list`, lengths or offsets. The program must wait for the device
-- to read them.
local function check(a, list, n)
   if a.lengths then
      if list:lt(0):any():item() or list:gt(n):any():item() then
         fail("lengths: expected 0 to %d, the size of the axis", n)
      end
      local sums = list:sum(-1)
      local wrong = sums[sums:ne(n)]
      if wrong:numel() > 0 then
         fail("lengths: expected a sum of %d, the size of the axis, got %d", n, wrong[1]:item())
      end
      return
   end
   if list:lt(1):any():item() or list:gt(n + 1):any():item() then
      fail("offsets: expected 1 to %d, as they count from 1", n + 1)
   end
   if list:diff(1, -1):lt(0):any():item() then
      fail "offsets: expected none below the one before"
   end
end

--- Reduces adjacent elements along an axis: the first lengths[1] elements give the first result,
--- and so on. The result for an empty segment is `initial`. If `initial` is not given, the sum is
--- 0, the product 1, the maximum -inf, the minimum inf, and the mean NaN.
---
---     local x = torch.tensor {1.0, 2.0, 3.0, 4.0}
---     print(torch.segment_reduce(x, "max", {lengths = torch.tensor {3, 1}}))
---     --> tensor([3., 4.])
---     print(torch.segment_reduce(x, "sum", {offsets = torch.tensor {1, 3, 3, 5}}))
---     --> tensor([3., 0., 7.])
---@param data Tensor  of a floating dtype
---@param reduce string  "sum", "mean", "max", "min" or "prod"
---@param options? {lengths?: Tensor, indices?: Tensor, offsets?: Tensor, axis?: integer,
--- unsafe?: boolean, initial?: number}
--- lengths: (..., segments), of the sizes of data before the axis;
--- indices: not supported, as in PyTorch;
--- offsets: (..., segments + 1), where segments begin, counted from 1, and where the last one ends;
--- axis: the last dimension of lengths or offsets;
--- unsafe: leaves out the check of their values, which waits for the device;
--- initial: the value with which each segment begins
---@return Tensor
function M.segment_reduce(...)
   local a = take(...)
   local data, list, reduce, initial = a.data, a.lengths or a.offsets, a.reduce, a.initial
   if identities[reduce] == nil then
      args.refuse("segment_reduce", "reduce", "sum, mean, max, min or prod", reduce)
   end
   if a.indices then fail "indices: expected nil, as only lengths and offsets are supported" end
   if not list then fail "lengths is missing; expected lengths or offsets" end
   if a.lengths and a.offsets then fail "offsets: expected either lengths or offsets, got both" end
   local name = a.lengths and "lengths" or "offsets"
   for _, key in ipairs {"data", name} do
      if torch._wrapped_parts(a[key], getmetatable(a[key])) or torch._sparse_parts(a[key]) then
         args.refuse("segment_reduce", key, "a dense tensor", a[key])
      end
   end
   if not data:is_floating_point() or data:dim() == 0 then
      args.refuse("segment_reduce", "data", "a tensor of a floating dtype with a dimension", data)
   end
   if list.dtype ~= "int64" and list.dtype ~= "int32" or list:dim() == 0 then
      args.refuse("segment_reduce", name, "a tensor of int64 with at least one dimension", list)
   end
   if list.device ~= data.device then
      fail("%s: expected the device of the data, %s, got %s", name, data.device, list.device)
   end
   local dims, axis = data:dim(), a.axis
   if axis < 0 then axis = dims + 1 + axis end
   if axis ~= list:dim() or axis > dims then
      fail("axis: expected %d, the last dimension of %s, got %d", list:dim(), name, a.axis)
   end
   local shape, lead, inner = data.shape, 1, {}
   for d = 1, axis - 1 do
      if list:size(d) ~= shape[d] then
         fail("%s: expected a size of %d in dimension %d, as data has, got %d", name, shape[d], d,
            list:size(d))
      end
      lead = lead * shape[d]
   end
   for d = axis + 1, dims do inner[#inner + 1] = shape[d] end
   local n, device = shape[axis], data.device
   list = list:long():reshape(lead, list:size(-1))
   if a.offsets and list:size(2) == 0 then fail "offsets: expected at least one" end
   if not a.unsafe then check(a, list, n) end

   local count = a.offsets and list:size(2) - 1 or list:size(2)
   local ends = a.offsets and list:narrow(2, 2, count) - 1 or list:cumsum(2)
   local at = torch.arange(1, n + 1, {device = device}):expand(lead, n):contiguous()
   local owners = torch.searchsorted(ends:contiguous(), at)
   -- elements outside all segments go to one more segment, which is left out of the result
   if a.offsets then owners = owners:masked_fill(at:lt(list:narrow(2, 1, 1)), count + 1) end
   owners = owners + torch.arange(0, lead, {device = device}):unsqueeze(2) * (count + 1)

   local rows = data:reshape {lead * n, table.unpack(inner)}
   local extreme = reduce == "max" or reduce == "min"
   local result = M.combine(extreme and "a" .. reduce or reduce == "mean" and "sum" or reduce,
      extreme and rows or M.wide(rows), owners:flatten(), lead * (count + 1),
      initial or identities[reduce], true)
   result = result:view({lead, count + 1, table.unpack(inner)}):narrow(2, 1, count)
   if reduce == "mean" then
      local sizes = (a.offsets and list:diff(1, -1) or list):to(result.dtype)
      local wide = {lead, count}
      for i = 1, #inner do wide[i + 2] = 1 end
      sizes = sizes:view(wide)
      result = torch.where(sizes:eq(0), torch.full({}, initial or 0 / 0,
         {dtype = result.dtype, device = device}), result / sizes:clamp_min(1))
   end
   local sizes = table.move(shape, 1, axis - 1, 1, {})
   sizes[axis] = count
   return result:to(data.dtype):reshape(table.move(inner, 1, #inner, axis + 1, sizes))
end

return M
