-- reductions.lua - sums, norms and softmax of sparse tensors.

local torch = require "tlua"
local args = require "tlua.args"
local C = require "tlua.sparse.convert"
local V = require "tlua.sparse.value"

local M = {}

-- Returns dimensions, counted from 1, as a set and as a sorted list. Raises an error if one occurs
-- twice.
local function dims_of(who, dim, n)
   local list, set = {}, {}
   for i, d in ipairs(type(dim) == "table" and dim or {dim}) do
      list[i] = V.dim(who, d, n)
      if set[list[i]] then
         torch.raise(("%s: dim: dimension %d occurs twice"):format(who, list[i]))
      end
      set[list[i]] = true
   end
   table.sort(list)
   return set, list
end

-- Returns the sum of a coo tensor over the dimensions in `set`. The sum is dense if no sparse
-- dimension remains.
local function sum_dims(p, set)
   local sparse_dim, dense, rows, size = p.indices:size(1), {}, {}, {}
   for d = 1, #p.size do
      if not set[d] then
         size[#size + 1] = p.size[d]
         if d <= sparse_dim then rows[#rows + 1] = p.indices[d] end
      elseif d > sparse_dim then
         dense[#dense + 1] = d - sparse_dim + 1
      end
   end
   local values = #dense > 0 and p.values:sum(dense) or p.values
   if #rows == 0 then return values:sum(1) end
   return V.coo(torch.stack(rows), values, size, p.coalesced and #rows == sparse_dim)
end

local take_sum = args.signature [[sparse.sum(input: any, dim: any?, keepdim: boolean = false,
   dtype: string?)]]

--- Sums all elements of a sparse tensor, or the elements along dimensions. The result is dense if
--- no sparse dimension remains, otherwise of layout sparse_coo. With keepdim, sums along dimensions
--- of a sparse_csr matrix are of layout sparse_csr.
---
---     local positions = {{1, 2, 2}, {3, 1, 3}}
---     local s = torch.sparse_coo_tensor(positions, {3.0, 4.0, 5.0}, {2, 3})
---     print(torch.sparse.sum(s), torch.sparse.sum(s, 1):to_dense())
---     --> tensor(12.)	tensor([4., 0., 8.])
---@param input Tensor
---@param dim? integer|integer[]
---@param options? {dtype: string, keepdim: boolean}
---@return Tensor
function M.sum(...)
   local given = {...}
   local n = select("#", ...)
   -- The second argument is a list of dimensions, so it is not taken for a table of options.
   if n > 1 and type(given[2]) == "table" and #given[2] > 0 then
      given[2] = {dim = given[2]}
      if type(given[3]) == "table" then
         for key, value in pairs(given[3]) do given[2][key] = value end
         given[3] = nil
      elseif given[3] ~= nil then
         given[2].keepdim, given[3] = given[3], nil
      end
   end
   local a = take_sum(table.unpack(given, 1, n))
   local p = V.parts(a.input)
   if not p then args.refuse("sparse.sum", "input", "a sparse tensor", a.input) end
   if a.dtype then p = V.parts(V.with_values(p, p.values:to(a.dtype))) end
   if a.dim == nil then return p.values:sum() end
   local set, list = dims_of("sparse.sum", a.dim, #p.size)
   if #list == 0 then return p.values:sum() end
   local result = sum_dims(C.as_coo(p), set)
   if a.keepdim then
      for _, d in ipairs(list) do result = result:unsqueeze(d) end
      if p.layout == "sparse_csr" and #p.size == 2 then return result:to_sparse_csr() end
   end
   return result
end
V.define("sum", M.sum)

V.define("mean", function(s, ...)
   if select("#", ...) > 0 then V.unsupported("mean along dimensions", V.parts(s).layout) end
   return V.parts(s).values:sum() / s:numel()
end)

-- Norms -------------------------------------------------------------------------------------------

local function all_values(s)
   local p = V.parts(s)
   return (p.layout == "sparse_coo" and C.coalesced(p) or p).values
end

V.define("norm", function(s, order, ...)
   if select("#", ...) > 0 then V.unsupported("norm along dimensions", V.parts(s).layout) end
   local values = all_values(s)
   if values:numel() == 0 and (order == math.huge or order == -math.huge) then
      -- A tensor that has elements but stores none of them contains only zeros.
      if order > 0 and s:numel() > 0 then return values:abs():sum() end
      torch.raise(("norm: a tensor without stored elements has no norm of order %s, got shape %s")
         :format(order, V.shape_text(V.parts(s).size)))
   end
   return order == nil and values:norm() or values:norm(order)
end)

for _, name in ipairs {"linalg.vector_norm", "linalg_vector_norm", "vector_norm"} do
   V.operators[name] = V.operators.norm
end

for name in ("any count_nonzero"):gmatch "%S+" do
   V.define(name, function(s, ...)
      if select("#", ...) > 0 then V.unsupported(name .. " along dimensions", V.parts(s).layout) end
      local values = all_values(s)
      return values[name](values)
   end)
end

-- Softmax -----------------------------------------------------------------------------------------

-- A line consists of the elements whose positions differ only along dimension `dim`. Numbers the
-- lines of a coo tensor. Returns the number of each element's line, and the number of lines.
local function lines_along(p, dim)
   local keys
   for d = 1, p.indices:size(1) do
      if d ~= dim then
         local row = p.indices[d]
         keys = keys and (keys - 1) * p.size[d] + row or row
      end
   end
   keys = keys or torch.ones_like(p.indices[1])
   local found, lines = torch.unique(keys, {return_inverse = true})
   return lines, found:numel()
end

-- Returns the largest value of each group of values. Gradients do not flow through the result.
local function largest(groups, values, count)
   local size = values.shape
   size[1] = count
   local most = torch.full(size, -math.huge, {dtype = values.dtype, device = values.device})
   local shape = {groups:numel()}
   for d = 2, values:dim() do shape[d] = 1 end
   return most:scatter_reduce(1, groups:view(shape):expand(values.shape), values:detach(), "amax")
end

local function normalized(who, s, dim, dtype, logarithm)
   local before = V.parts(s)
   if not before then args.refuse(who, "input", "a sparse tensor", s) end
   dim = V.dim(who, dim, #before.size)
   if V.kind_of(before.layout) then V.unsupported(who, before.layout) end
   local p = C.as_coo(before)
   p = C.coalesced(p)
   local values = dtype and p.values:to(dtype) or p.values
   if not values:is_floating_point() then
      args.refuse(who, "input", "floating numbers", s)
   end
   local sparse_dim = p.indices:size(1)
   local result
   if dim > sparse_dim then
      local fn = logarithm and torch.log_softmax or torch.softmax
      result = fn(values, dim - sparse_dim + 1)
   elseif values:numel() == 0 then
      result = values
   else
      local lines, count = lines_along(p, dim)
      local shifted = values - largest(lines, values, count):index_select(1, lines)
      local sums = C.sum_groups(lines, shifted:exp(), count):index_select(1, lines)
      result = logarithm and shifted - sums:log() or shifted:exp() / sums
   end
   local coo = V.parts(V.with_values(p, result))
   return V.new(C.to_layout(who, coo, before.layout))
end

local take_softmax = args.signature "sparse.softmax(input: tensor, dim: integer, dtype: string?)"

--- Applies softmax along a dimension of a sparse tensor. Elements that are not stored are treated
--- as minus infinity, so the result has the same positions.
---@param input Tensor
---@param dim integer
---@param options? {dtype: string}
---@return Tensor
function M.softmax(...)
   local a = take_softmax(...)
   return normalized("sparse.softmax", a.input, a.dim, a.dtype, false)
end

local take_log = args.signature "sparse.log_softmax(input: tensor, dim: integer, dtype: string?)"

--- Returns the logarithm of sparse.softmax.
---@param input Tensor
---@param dim integer
---@param options? {dtype: string}
---@return Tensor
function M.log_softmax(...)
   local a = take_log(...)
   return normalized("sparse.log_softmax", a.input, a.dim, a.dtype, true)
end

V.define("softmax", M.softmax)
V.define("log_softmax", M.log_softmax)

for name, fn in pairs(M) do M[name] = args.named("sparse." .. name, fn) end

return M
