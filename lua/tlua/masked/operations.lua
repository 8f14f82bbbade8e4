-- operations.lua - reductions and normalisations that leave out the elements at which a mask is
-- false. Such an element is replaced by the identity of the operation, such as 0 for a sum, so it
-- also gets no gradient, and may be NaN.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"

local M = {}

-- Returns the data and the mask of a MaskedTensor. For a dense tensor, returns the tensor and nil.
local function split(x)
   local V = package.loaded["tlua.masked.MaskedTensor"]
   local p = V and V.kind.parts(x)
   if p then return p.data, p.mask end
   return x, nil
end

-- Returns the dense input and the mask, broadcast to the input's shape; nil without a mask. A
-- sparse mask is false where it has no elements.
local function input_and_mask(who, input, given, name)
   local data, mask = split(input)
   if torch._sparse_parts(data) then
      args.refuse(who, "input", "a dense tensor, which to_dense() makes", data)
   end
   if given then
      if torch._sparse_parts(given) then given = given:to_dense() end
      if torch._wrapped_parts and select(2, split(given)) then
         args.refuse(who, name or "mask", "a dense tensor", given)
      end
      if given.dtype ~= "bool" then
         args.refuse(who, name or "mask", "a tensor of bool, true where elements count", given)
      end
      local ok, wide = given:dim() <= data:dim(), nil
      if ok then ok, wide = pcall(given.expand, given, data.shape) end
      if not ok then
         torch.raise(("%s: %s: shape (%s) does not broadcast to the input's shape (%s)"):format(who,
            name or "mask", table.concat(given.shape, ", "), table.concat(data.shape, ", ")))
      end
      mask = mask and mask:logical_and(wide) or wide
   end
   return data, mask
end

-- Returns a copy of x in which `value` replaces the elements at which the mask is false; without a
-- mask, returns x.
local function filled(x, mask, value)
   if not mask then return x end
   return torch.where(mask, x, torch.full({}, value, {dtype = x.dtype, device = x.device}))
end

-- These two functions return the smallest and the largest value of a tensor's dtype.
local function least(x)
   if x.dtype == "bool" then return false end
   return x:is_floating_point() and -math.huge or math.tointeger(torch.iinfo(x.dtype).min)
end
local function largest(x)
   if x.dtype == "bool" then return true end
   return x:is_floating_point() and math.huge or math.tointeger(torch.iinfo(x.dtype).max)
end

local function is_real(who, x)
   if x:is_complex() then args.refuse(who, "input", "a tensor of real numbers", x) end
end

-- Returns the dimensions as a list, counted from 1. nil and an empty list mean all dimensions.
local function dims_of(who, dim, x)
   local n, list, seen = x:dim(), {}, {}
   if dim == nil or type(dim) == "table" and #dim == 0 then
      for d = 1, n do list[d] = d end
      return list
   end
   for i, d in ipairs(type(dim) == "table" and dim or {dim}) do
      local at, most = d < 0 and math.max(n, 1) + 1 + d or d, math.max(n, 1)
      if at < 1 or at > most then
         args.refuse(who, "dim", ("1 to %d or -%d to -1"):format(most, most), d)
      end
      if seen[at] then
         torch.raise(("%s: dim: dimension %d is given twice"):format(who, d))
      end
      seen[at], list[i] = true, at
   end
   if n == 0 then return {} end
   table.sort(list)
   return list
end

-- Returns the number of elements that are not left out. With keepdim the reduced dimensions keep
-- size 1.
local function count_of(x, mask, dims, keepdim)
   if mask then return mask:sum(dims, {keepdim = keepdim}) end
   local n, shape = 1, {}
   local reduced = {}
   for _, d in ipairs(dims) do reduced[d] = true end
   for d = 1, x:dim() do
      if reduced[d] then n = n * x:size(d) end
      if keepdim or not reduced[d] then shape[#shape + 1] = reduced[d] and 1 or x:size(d) end
   end
   return torch.full(shape, n, {dtype = "int64", device = x.device})
end

-- Returns the dtype of a sum or product: int64 for integers.
local function wide_dtype(x, dtype)
   if dtype then return dtype end
   local inexact = x:is_floating_point() or x:is_complex()
   return inexact and x.dtype or "int64"
end

local function sum_over(x, dims, keepdim, dtype)
   if #dims == 0 then return x:to(dtype):clone() end
   return torch.sum(x, dims, {keepdim = keepdim, dtype = dtype})
end

-- Returns a sparse tensor as a dense one, and a mask of the elements that the sparse tensor stores.
local function spread(x)
   local s = x.layout == "sparse_coo" and x:coalesce() or x:to_sparse_coo():coalesce()
   local ones = torch.ones_like(s:values(), {dtype = "bool"})
   return x:to_dense(), torch.sparse_coo_tensor(s:indices(), ones, s.shape,
      {is_coalesced = true}):to_dense()
end

-- The reductions that accept sparse tensors. As in PyTorch, elements that a tensor does not store
-- are left out if there is no mask, but count as 0 if there is a mask. The result stores an element
-- wherever at least one element is not left out.
local takes_sparse <const> = {sum = true, prod = true, amax = true, amin = true, mean = true}

local function of_sparse(who, fn, a)
   local x, stored = spread(a.input)
   local _, mask = input_and_mask(who, x, a.mask)
   mask = mask or stored
   local dims = dims_of(who, a.dim, x)
   local result, kept = fn(x, mask, dims, a.keepdim, a, who), mask
   if #dims > 0 then kept = mask:any(dims, {keepdim = a.keepdim}) end
   -- a result without dimensions is stored even if the mask is false everywhere
   if result:dim() == 0 and a.mask then kept = torch.ones_like(kept) end
   local sparse = result:sparse_mask(kept:to_sparse())
   if a.input.layout == "sparse_coo" or sparse:dim() ~= 2 then return sparse end
   return sparse:to_sparse {layout = a.input.layout}
end

-- Defines masked[name], a reduction over any dimensions, which returns fn(input, mask, dims,
-- keepdim, all arguments). `own` is the signature of parameters that only this reduction has.
local function reduction(name, fn, own)
   local who = "masked." .. name
   local take = args.signature(("%s(input: tensor, %sdim: integers?, keepdim: boolean = false, "
      .. "dtype: string?, mask: tensor?)"):format(who, own or ""))
   M[name] = function(...)
      local a = take(...)
      if takes_sparse[name] and torch._sparse_parts(a.input) then return of_sparse(who, fn, a) end
      local x, mask = input_and_mask(who, a.input, a.mask)
      return fn(x, mask, dims_of(who, a.dim, x), a.keepdim, a, who)
   end
end

--- Returns the sum, product, largest or smallest element, or logarithm of the sum of exponentials
--- of the elements at which the mask is true. If all elements are left out, the result is the
--- identity of the operation: 0, 1, the dtype's smallest or largest value, or -inf. Sums and
--- products of integers are int64.
---
---     local x = torch.tensor {{1.0, 2.0}, {3.0, 0 / 0}}
---     print(torch.masked.sum(x, 2, {mask = x:isnan():logical_not()}))
---     --> tensor([3., 3.])
---@param input Tensor  or a MaskedTensor
---@param dim? integer|integer[]  all dimensions unless given
---@param options? {keepdim?: boolean, dtype?: string, mask?: Tensor}  the mask is of bool and
--- broadcasts to the input
---@return Tensor
---@names masked.sum masked.prod masked.amax masked.amin masked.logsumexp
reduction("sum", function(x, mask, dims, keepdim, a)
   return sum_over(filled(x, mask, 0), dims, keepdim, wide_dtype(x, a.dtype))
end)
reduction("prod", function(x, mask, dims, keepdim, a)
   local y = filled(x, mask, 1):to(wide_dtype(x, a.dtype))
   for i = #dims, 1, -1 do y = y:prod(dims[i], {keepdim = keepdim}) end
   return #dims == 0 and y:clone() or y
end)

-- Returns y in `dtype` or, if that is nil, in the dtype of x.
local function cast(y, x, dtype) return y:to(dtype or x.dtype) end

reduction("amax", function(x, mask, dims, keepdim, a, who)
   is_real(who, x)
   return cast(torch.amax(filled(x, mask, least(x)), dims, {keepdim = keepdim}), x, a.dtype)
end)
reduction("amin", function(x, mask, dims, keepdim, a, who)
   is_real(who, x)
   return cast(torch.amin(filled(x, mask, largest(x)), dims, {keepdim = keepdim}), x, a.dtype)
end)
reduction("logsumexp", function(x, mask, dims, keepdim, a)
   if not (x:is_floating_point() or x:is_complex()) then
      x = x:to(a.dtype or torch.get_default_dtype())
   end
   return cast(torch.logsumexp(filled(x, mask, -math.huge), dims, {keepdim = keepdim}), x, a.dtype)
end)

local function check_inexact(who, x, dtype)
   local like = dtype and torch.empty({0}, {dtype = dtype}) or x
   if not (like:is_floating_point() or like:is_complex()) then
      args.refuse(who, dtype and "dtype" or "input", "a floating or complex type",
         dtype or x)
   end
end

--- Returns the mean of the elements at which the mask is true; NaN if all are left out.
---@param input Tensor  or a MaskedTensor, of a floating or complex dtype unless dtype is given
---@param dim? integer|integer[]  all dimensions unless given
---@param options? {keepdim?: boolean, dtype?: string, mask?: Tensor}
---@return Tensor
---@names masked.mean
reduction("mean", function(x, mask, dims, keepdim, a, who)
   check_inexact(who, x, a.dtype)
   local total = sum_over(filled(x, mask, 0), dims, keepdim, a.dtype or x.dtype)
   return total / count_of(x, mask, dims, keepdim)
end)

--- Returns the norm of the elements at which the mask is true: (sum of |x|^ord)^(1/ord), the
--- largest or smallest magnitude for ord = inf or -inf, and the number of nonzero elements for ord
--- = 0.
---@param input Tensor  or a MaskedTensor
---@param ord? number  2 unless given
---@param dim? integer|integer[]  all dimensions unless given
---@param options? {keepdim?: boolean, dtype?: string, mask?: Tensor}
---@return Tensor
---@names masked.norm
reduction("norm", function(x, mask, dims, keepdim, a)
   local y = filled(x, mask, a.ord < 0 and math.huge or 0)
   return torch.linalg.vector_norm(y, a.ord, dims, {keepdim = keepdim, dtype = a.dtype})
end, "ord: number = 2, ")

local function variance(x, mask, dims, keepdim, a, who)
   if a.unbiased ~= nil and a.correction ~= nil then
      torch.raise(("%s: expected either unbiased or correction, got both"):format(who))
   end
   local correction = a.correction or a.unbiased == false and 0 or 1
   local dtype = a.dtype
   local inexact = x:is_floating_point() or x:is_complex()
   if not dtype then dtype = inexact and x.dtype or torch.get_default_dtype() end
   check_inexact(who, x, dtype)
   local y = filled(x, mask, 0):to(dtype)
   local count = count_of(x, mask, dims, true)
   local distance = filled(y - sum_over(y, dims, true, dtype) / count, mask, 0)
   local square = x:is_complex() and torch.real(distance * distance:conj()) or distance:square()
   local total = sum_over(square, dims, keepdim, square.dtype)
   local rest = (count:reshape(total.shape) - correction):clamp_min(0)
   return (total / rest):to(total.dtype) -- `rest` is float32 if the correction is not an integer
end

--- Returns the variance, or the standard deviation, of the elements at which the mask is true.
--- Where fewer than `correction` + 1 elements remain, the result is NaN, or infinite if these
--- elements differ from one another.
---@param input Tensor  or a MaskedTensor; integers are taken as the default dtype
---@param dim? integer|integer[]  all dimensions unless given
---@param unbiased? boolean  false for a correction of 0
---@param options? {correction?: number, keepdim?: boolean, dtype?: string, mask?: Tensor}  the
--- correction, 1 unless given, is subtracted from the number of elements
---@return Tensor
---@names masked.var masked.std
for name, of in pairs {
   var = function(v) return v end, std = function(v) return v:sqrt() end,
} do
   local who = "masked." .. name
   local take = args.signature(who .. [[(input: tensor, dim: integers?, unbiased: boolean?,
      correction: number?, keepdim: boolean = false, dtype: string?, mask: tensor?)]])
   M[name] = function(...)
      local a = take(...)
      local x, mask = input_and_mask(who, a.input, a.mask)
      return of(variance(x, mask, dims_of(who, a.dim, x), a.keepdim, a, who))
   end
end

--- Returns the position, from 1, of the largest or smallest element at which the mask is true, as
--- int64 unless dtype is given. If all elements are left out, the position is arbitrary.
---@param input Tensor  or a MaskedTensor
---@param dim? integer  the flattened tensor unless given
---@param options? {keepdim?: boolean, dtype?: string, mask?: Tensor}
---@return Tensor
---@names masked.argmax masked.argmin
for name, identity in pairs {argmax = least, argmin = largest} do
   local who = "masked." .. name
   local take = args.signature(who .. [[(input: tensor, dim: dim?, keepdim: boolean = false,
      dtype: string?, mask: tensor?)]])
   M[name] = function(...)
      local a = take(...)
      local x, mask = input_and_mask(who, a.input, a.mask)
      is_real(who, x)
      local at = torch[name](filled(x, mask, identity(x)), a.dim, {keepdim = a.keepdim})
      return a.dtype and at:to(a.dtype) or at
   end
end

local take_median = args.signature [[masked.median(input: tensor, dim: dim = -1,
   keepdim: boolean = false, dtype: string?, mask: tensor?)]]

--- Returns the lower median of the elements that are not NaN and at which the mask is true; NaN if
--- all elements are left out. For integers, this is an error, since they have no NaN.
---@param input Tensor  or a MaskedTensor
---@param dim? integer  the last one unless given
---@param options? {keepdim?: boolean, dtype?: string, mask?: Tensor}
---@return Tensor
function M.median(...)
   local a = take_median(...)
   local who = "masked.median"
   local x, mask = input_and_mask(who, a.input, a.mask)
   local floats = x:is_floating_point()
   is_real(who, x)
   local y = filled(floats and x or x:double(), mask, 0 / 0)
   local values = torch.nanmedian(y, dims_of(who, a.dim, x)[1] or 1, {keepdim = a.keepdim})
   if floats then return a.dtype and values:to(a.dtype) or values end
   if values:isnan():any():item() then
      torch.raise "masked.median: integers have no median where all elements are left out"
   end
   return values:to(a.dtype or x.dtype)
end

-- Defines masked[name], a function along one dimension, which returns fn(x, dim, dtype). In x,
-- identity(input) takes the place of the elements at which the mask is false.
local function along(name, identity, fn)
   local who = "masked." .. name
   local take = args.signature(who .. "(input: tensor, dim: dim, dtype: string?, mask: tensor?)")
   M[name] = function(...)
      local a = take(...)
      local x, mask = input_and_mask(who, a.input, a.mask)
      local dim = dims_of(who, a.dim, x)[1] or 1
      return fn(filled(x, mask, identity(x)), dim, a.dtype or x.dtype)
   end
end

--- Returns the running sum or product along a dimension. Elements at which the mask is false do not
--- change it.
---@param input Tensor  or a MaskedTensor
---@param dim integer
---@param options? {dtype?: string, mask?: Tensor}  the result has the input's dtype unless given
---@return Tensor
---@names masked.cumsum masked.cumprod
along("cumsum", function() return 0 end, function(x, dim, dtype)
   return torch.cumsum(x, dim, {dtype = dtype ~= "bool" and dtype or nil}):to(dtype)
end)
along("cumprod", function() return 1 end, function(x, dim, dtype)
   return torch.cumprod(x, dim, {dtype = dtype ~= "bool" and dtype or nil}):to(dtype)
end)

local function minus_infinity() return -math.huge end
local function infinity() return math.huge end

--- Returns softmax, log_softmax or softmin along a dimension. Elements at which the mask is false
--- have the probability 0. If all elements along the dimension are left out, the results are NaN.
---@param input Tensor  or a MaskedTensor, of a floating dtype
---@param dim integer
---@param options? {dtype?: string, mask?: Tensor}
---@return Tensor
---@names masked.softmax masked.log_softmax masked.softmin
along("softmax", minus_infinity, function(x, dim, dtype) return torch.softmax(x, dim, dtype) end)
along("log_softmax", minus_infinity, function(x, dim, dtype)
   return torch.log_softmax(x, dim, dtype)
end)
along("softmin", infinity, function(x, dim, dtype) return F.softmin(x, dim, {dtype = dtype}) end)

local take_normalize = args.signature [[masked.normalize(input: tensor, ord: number, dim: dim,
   eps: number = 1e-12, dtype: string?, mask: tensor?)]]

--- Divides vectors along a dimension by their masked norm. Elements at which the mask is false
--- become 0.
---@param input Tensor  or a MaskedTensor
---@param ord number  the order of the norm
---@param dim integer
---@param options? {eps?: number, dtype?: string, mask?: Tensor}  eps: the smallest divisor
---@return Tensor
function M.normalize(...)
   local a = take_normalize(...)
   local who = "masked.normalize"
   local x, mask = input_and_mask(who, a.input, a.mask)
   local dims = dims_of(who, a.dim, x)
   local norm = torch.linalg.vector_norm(filled(x, mask, a.ord < 0 and math.huge or 0), a.ord, dims,
      {keepdim = true, dtype = a.dtype})
   return filled(x, mask, 0) / norm:clamp_min(a.eps)
end

local take_logaddexp = args.signature [[masked.logaddexp(input: tensor, other: tensor,
   dtype: string?, input_mask: tensor?, other_mask: tensor?)]]

--- Returns log(exp(input) + exp(other)). An element at which its tensor's mask is false adds
--- nothing to the sum.
---@param input Tensor  or a MaskedTensor
---@param other Tensor  or a MaskedTensor
---@param options? {dtype?: string, input_mask?: Tensor, other_mask?: Tensor}  input_mask: true
--- where elements of input count; other_mask: true where elements of other count
---@return Tensor
function M.logaddexp(...)
   local a = take_logaddexp(...)
   local who = "masked.logaddexp"
   local x, mask = input_and_mask(who, a.input, a.input_mask, "input_mask")
   local y, other_mask = input_and_mask(who, a.other, a.other_mask, "other_mask")
   if not x:is_floating_point() then args.refuse(who, "input", "a floating dtype", x) end
   if not y:is_floating_point() then args.refuse(who, "other", "a floating dtype", y) end
   local sum = torch.logaddexp(filled(x, mask, -math.huge), filled(y, other_mask, -math.huge))
   return cast(sum, x, a.dtype)
end

return M
