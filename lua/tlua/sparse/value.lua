-- value.lua - the sparse tensor as a value of Lua: its components, fields, operators and methods.
--
-- A sparse tensor is a userdata whose table of components, its parts, has
--
--    layout      "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr" or "sparse_bsc"
--    size        list of sizes
--    values      tensor: (nnz, dense sizes...); for bsr and bsc (nnz, block rows, block columns,
--                dense sizes...)
--    indices     sparse_coo: positions (sparse_dim, nnz)
--    coalesced   sparse_coo: whether the positions are sorted and differ from one another
--    pointers    others: positions in plain at which rows (csr, bsr) or columns (csc, bsc) begin,
--                and one behind the last
--    plain       others: position of each element in its row or column
--                A batch of matrices in a compressed layout has the sizes of the batch in front of
--                those of pointers, plain and values; all its matrices have as many elements.
--    version     sum of the versions of the tensors of positions when they were last checked
--    is_parameter  whether the tensor is an nn.Parameter; copies are not
--    engine      whether the tensor is the field `grad` of another one, so that its values are
--                those of the gradient, and its positions must not change
--
-- All positions count from 1. Gradients flow through `values`: the tensor requires a gradient if
-- its values do, and its own gradient has the same positions.

local torch = require "tlua"
local args = require "tlua.args"
local shells = require "tlua.autograd.shells"

-- An interpreter has only one instance of this module, even if a program clears package.loaded.
local M = rawget(torch, "_sparse")
if M then return M end
M = {}
rawset(torch, "_sparse", M)

--- Whether constructors check positions (invariants.lua).
M.checks = true
--- Maps operators' names to the functions that take sparse tensors. Other files add functions.
---@type table<string, function>
M.operators = {}
--- The methods of sparse tensors. Other files add methods.
---@type table<string, function>
M.methods = {}

local operators <const>, methods <const> = M.operators, M.methods

local raw <const> = torch._sparse_parts

-- Checks the positions again after they were changed in place. Also checks whether the positions of
-- a coalesced tensor still ascend.
local function check_again(p, version)
   if not version then
      torch.raise(("sparse tensor of shape %s: its %s"):format(M.shape_text(p.size),
         "indices or values were released"))
   end
   if not p.values.is_meta then require "tlua.sparse.invariants".check_changed(p) end
   p.version = version
end

--- Returns the components of a sparse tensor; nil for any other value.
---@param value any
---@return table?
function M.parts(value)
   local p, version = raw(value)
   if p and version ~= p.version then check_again(p, version) end
   return p
end

--- Returns whether a value is a sparse tensor.
---@param value any
---@return boolean
function M.is_sparse(value) return raw(value) ~= nil end

--- Returns a sparse tensor with the given components, which are not checked.
---@param parts table
---@return Tensor
function M.new(parts)
   if parts.is_parameter then
      local copy = {}
      for key, value in pairs(parts) do copy[key] = value end
      copy.is_parameter = nil
      parts = copy
   end
   local s = torch._sparse_new(parts)
   local _, version = raw(s)
   parts.version = version
   return s
end

--- Returns a sparse_coo tensor with the given components, which are not checked.
---@param indices Tensor
---@param values Tensor
---@param size integer[]
---@param coalesced? boolean
---@return Tensor
function M.coo(indices, values, size, coalesced)
   return M.new {
      layout = "sparse_coo", size = size, indices = indices, values = values,
      coalesced = coalesced or false,
   }
end

--- Returns a tensor that has the components `p`, except that its values are `values`.
---@param p table
---@param values Tensor
---@return Tensor
function M.with_values(p, values)
   local copy = {}
   for key, value in pairs(p) do copy[key] = value end
   copy.values = values
   return M.new(copy)
end

local blocked <const> = {sparse_bsr = true, sparse_bsc = true}
local by_column <const> = {sparse_csc = true, sparse_bsc = true}

--- Returns whether a layout stores blocks (bsr, bsc), and whether it is compressed by columns (csc,
--- bsc).
---@param layout string
---@return boolean blocks
---@return boolean columns
function M.kind_of(layout) return blocked[layout] or false, by_column[layout] or false end

--- Returns the number of sparse dimensions.
---@param p table
---@return integer
function M.sparse_dim(p)
   return p.layout == "sparse_coo" and p.indices:size(1) or 2
end

--- Returns the number of dimensions of a batch of compressed matrices; 0 for a matrix and for
--- sparse_coo.
---@param p table
---@return integer
function M.batch_dim(p) return p.pointers and p.pointers:dim() - 1 or 0 end

--- Returns the number of rows and of columns of a block, for bsr and bsc; nil for other layouts.
---@param p table
---@return integer[]?
function M.block_of(p)
   if not blocked[p.layout] then return nil end
   local batch = M.batch_dim(p)
   return {p.values:size(batch + 2), p.values:size(batch + 3)}
end

--- Returns the list of sizes from position i on.
---@param size integer[]
---@param i integer
---@return integer[]
function M.rest(size, i) return table.move(size, i, #size, 1, {}) end

--- Returns a text such as "(2, 3)".
---@param size integer[]
---@return string
function M.shape_text(size) return ("(%s)"):format(table.concat(size, ", ")) end

--- Returns whether two lists of sizes are equal.
---@param a integer[]
---@param b integer[]
---@return boolean
function M.same(a, b)
   if #a ~= #b then return false end
   for i = 1, #a do
      if a[i] ~= b[i] then return false end
   end
   return true
end

--- Returns a dimension counted from 1. Raises an error for a dimension that the tensor lacks.
---@param who string
---@param dim integer
---@param n integer  number of dimensions
---@return integer
function M.dim(who, dim, n)
   local d = math.type(dim) == "integer" and (dim < 0 and n + 1 + dim or dim) or 0
   if d < 1 or d > n then
      args.refuse(who, "dim", ("1 to %d or -%d to -1"):format(n, n), dim)
   end
   return d
end

--- Raises an error unless a tensor has the expected layout.
---@param who string
---@param p table
---@param layout string
function M.expect(who, p, layout)
   if p.layout == layout then return end
   torch.raise(("%s: expected a tensor of layout %s, got %s; to_%s() converts it")
      :format(who, layout, p.layout, layout))
end

--- Raises an error that says that an operator does not support a layout.
---@param who string
---@param layout string
function M.unsupported(who, layout)
   torch.raise(("%s: is not defined for tensors of layout %s; to_dense() makes a dense one"):format(
      who, layout))
end

-- Fields ------------------------------------------------------------------------------------------

local properties = {}

function properties.layout(p) return p.layout end
function properties.shape(p) return torch.Size(p.size) end
function properties.dtype(p) return p.values.dtype end
function properties.device(p) return p.values.device end
function properties.requires_grad(p) return p.values.requires_grad end
function properties.is_leaf(p) return p.values.is_leaf end
function properties.grad_fn(p) return p.values.grad_fn end
function properties.is_sparse(p) return p.layout == "sparse_coo" end
function properties.is_sparse_csr(p) return p.layout == "sparse_csr" end
function properties.retains_grad(p) return p.values.retains_grad end
function properties.is_parameter(p) return p.is_parameter or false end
function properties.real(p) return M.with_values(p, p.values.real) end
function properties.imag(p) return M.with_values(p, p.values.imag) end
function properties.nbytes(p)
   local bytes = 0
   for _, key in ipairs {"values", "indices", "pointers", "plain"} do
      if p[key] then bytes = bytes + p[key].nbytes end
   end
   return bytes
end
function properties.is_quantized() return false end
function properties.is_nested() return false end
function properties.is_cuda(p) return p.values.is_cuda end
function properties.is_meta(p) return p.values.is_meta end
function properties.ndim(p) return #p.size end
function properties.itemsize(p) return p.values.itemsize end
function properties.data(p) return M.with_values(p, p.values:detach()) end

-- The gradient of a leaf, with the leaf's positions. The values of the result are the gradient of
-- the leaf's values, so a program may change the values in place, but not the positions.
function properties.grad(p)
   local grad = p.values.grad
   if not grad then return nil end
   local s = M.with_values(p, grad)
   M.parts(s).engine = true
   return s
end

-- Returns the tensor with its last two dimensions exchanged; for .T and .H it must be a matrix.
for name, conjugate in pairs {T = false, mT = false, H = true, mH = true} do
   properties[name] = function(p, s)
      local n = #p.size
      if n < 2 or n > 2 and #name == 1 then
         torch.raise(("%s: expected a matrix, got shape %s"):format(name, M.shape_text(p.size)))
      end
      local t = methods.transpose(s, -2, -1)
      return conjugate and operators.conj(t) or t
   end
end

local function names()
   local list = {}
   for _, from in ipairs {methods, properties} do
      for name in pairs(from) do list[#list + 1] = name end
   end
   return list
end

local meta = {__name = "Tensor", title = "sparse tensor"}

function meta.__index(s, key)
   local method = methods[key]
   if method then return method end
   local p = M.parts(s)
   local property = properties[key]
   if property then return property(p, s) end
   if math.type(key) == "integer" then return operators.select(s, 1, key) end
   if type(key) ~= "string" then
      torch.raise(("sparse tensor: indexing takes a position along the first dimension, got %s; "
         .. "use select, narrow or index_select"):format(args.describe(key)))
   end
   local dense = rawget(torch.Tensor, key)
   if dense then M.unsupported(key, p.layout) end
   local hint = require "tlua.utils.suggest".hint(key, names())
   torch.raise(("sparse tensor: there is no %s%s"):format(args.describe(key), hint))
end

local settable = {}

function settable.requires_grad(p, value) p.values.requires_grad = value end
function settable.is_parameter(p, value) p.is_parameter = value and true or false end

function settable.data(p, value)
   local q = M.parts(value)
   if not q or q.layout ~= p.layout then
      args.refuse("data", "value", "a tensor of layout " .. p.layout, value)
   end
   local wanted = p.values.requires_grad and p.values.is_leaf
   for _, key in ipairs {"size", "indices", "pointers", "plain", "coalesced", "version"} do
      p[key] = q[key]
   end
   p.values = q.values:detach()
   if wanted then p.values:requires_grad_() end
end

-- Returns whether two tensors of one layout have the same positions in the same order.
local function same_positions(p, q)
   for _, key in ipairs {"indices", "pointers", "plain"} do
      local a, b = p[key], q[key]
      if a ~= b and not (M.same(a.shape, b.shape) and a:eq(b):all():item()) then return false end
   end
   return true
end

local function same_shape(p, q) return q and q.layout == p.layout and M.same(q.size, p.size) end

-- Returns the shell of a tensor: a table of functions that return the values of a tensor, its main
-- tensor, and that make a tensor with new values (lua/tlua/autograd/shells.lua).
function meta.shell(s)
   local rest = {}
   for key, value in pairs(M.parts(s)) do rest[key] = value end
   rest.values = nil
   return {
      title = "sparse tensor with the same positions",
      wrap = function(values) return M.with_values(rest, values) end,
      main = function(value)
         local q = M.parts(value)
         return same_shape(rest, q) and same_positions(rest, q) and q.values or nil
      end,
   }
end

function settable.grad(p, value)
   local q = M.parts(value)
   if value ~= nil and not same_shape(p, q) then
      args.refuse("grad", "value", ("nil or a tensor of layout %s and shape %s"):format(p.layout,
         M.shape_text(p.size)), value)
   end
   if q and not same_positions(p, q) then
      torch.raise "grad: expected the positions of the tensor itself"
   end
   p.values.grad = q and q.values
end

function meta.__newindex(s, key, value)
   local set = settable[key]
   if not set then
      torch.raise(("sparse tensor: cannot assign to %s"):format(args.describe(key)))
   end
   set(M.parts(s), value)
end

function meta.__len(s)
   local size = M.parts(s).size[1]
   return size or torch.raise "#: a 0-d Tensor has no length"
end

function meta.__tostring(s)
   local _, version = raw(s)
   if not version then return "tensor(released)" end
   return require "tlua.sparse.print".text(M.parts(s))
end

-- Operators ---------------------------------------------------------------------------------------

-- Loads the files that define the operators and methods of sparse tensors.
local function load_all()
   for name in ("make convert pointwise reductions products shapes changes"):gmatch "%a+" do
      require("tlua.sparse." .. name)
   end
end

-- Copies a result into the tensor that the caller has passed as the option `out`, and returns that
-- tensor.
local function give(name, result, out)
   local layout = torch.is_tensor(result) and result.layout
   if not layout then torch.raise(name .. ": out: expected nil, since the result is no tensor") end
   if not torch.is_tensor(out) or out.layout ~= layout then
      args.refuse(name, "out", "a tensor of layout " .. layout, out)
   end
   if result.requires_grad or torch.is_grad_enabled() and out.requires_grad then
      torch.raise(name .. ": with out= no gradient can be recorded; use torch.no_grad")
   end
   if not torch.can_cast(result.dtype, out.dtype) then
      torch.raise(("%s: a result of dtype %s cannot be stored in a tensor of dtype %s"):format(
         name, result.dtype, out.dtype))
   end
   if result.dtype ~= out.dtype then result = result:to(out.dtype) end
   if layout ~= "strided" then
      M.parts(out).size = M.parts(result).size
      return require "tlua.sparse.pointwise".assign(name, out, result)
   end
   if not M.same(out.shape, result.shape) then out:resize_(result.shape) end
   return out:copy_(result)
end

-- Returns the arguments of a call without the option `out`, and their number.
local function without_out(...)
   local given, rest = table.pack(...), {}
   for key, value in pairs(given[given.n]) do
      if key ~= "out" then rest[key] = value end
   end
   given[given.n] = next(rest) ~= nil and rest or nil
   return given, next(rest) ~= nil and given.n or given.n - 1
end

-- Returns whether any of the first n values is a sparse tensor, or a list that contains one.
local function has_sparse(list, n)
   for i = 1, n do
      local value = list[i]
      if M.is_sparse(value) then return true end
      if type(value) == "table" and has_sparse(value, #value) then return true end
   end
   return false
end

--- Calls the operator `name`, which has a sparse tensor among its arguments.
---@param name string
---@param ... any
---@return any ...
function M.call(name, ...)
   local fn, last = operators[name], select(-1, ...)
   if type(last) == "table" and rawget(last, "out") ~= nil then
      local given, n = without_out(...)
      if not has_sparse(given, n) then
         args.refuse(name, "out", "a dense tensor for the result of dense tensors", last.out)
      end
      return give(name, M.call(name, table.unpack(given, 1, n)), last.out)
   end
   if fn then return fn(...) end
   for i = 1, select("#", ...) do
      local value = select(i, ...)
      local p = M.parts(value)
      if p then M.unsupported(name, p.layout) end
   end
   torch.raise(("%s: is not defined for sparse tensors; to_dense() makes a dense one"):format(name))
end

for name in ("add sub mul div pow floor_divide:idiv remainder:mod neg:unm"):gmatch "%S+" do
   local operator, metamethod = name:match "^(.*):(.*)$"
   operator = operator or name
   meta["__" .. (metamethod or name)] = function(a, b) return M.call(operator, a, b) end
end
meta.__unm = function(a) return M.call("neg", a) end

--- Defines an operator, which is a method as well unless `method` is false.
---@param name string  several names, between spaces
---@param fn function
---@param method? boolean
---@param most? integer  the largest number of arguments
function M.define(name, fn, method, most)
   local inner, title = fn, name:match "^%S+"
   if most then
      fn = function(...)
         if select("#", ...) > most then
            torch.raise(("%s: expected at most %d arguments, got %d"):format(title, most,
               select("#", ...)))
         end
         return inner(...)
      end
   end
   for word in name:gmatch "%S+" do
      operators[word] = fn
      if method ~= false then methods[word] = fn end
   end
end

-- Simple methods ----------------------------------------------------------------------------------

function methods.dim(s) return #M.parts(s).size end
methods.ndimension = methods.dim

function methods.size(s, dim)
   local size = M.parts(s).size
   if dim == nil then return torch.Size(size) end
   return size[M.dim("size", dim, #size)]
end

function methods.numel(s)
   local n = 1
   for _, size in ipairs(M.parts(s).size) do n = n * size end
   return n
end
methods.nelement = methods.numel
operators.numel = methods.numel

function methods._nnz(s)
   local p = M.parts(s)
   return p.values:size(M.batch_dim(p) + 1)
end

function methods.sparse_dim(s) return M.sparse_dim(M.parts(s)) end
methods._dimI = methods.sparse_dim

function methods.dense_dim(s)
   local p = M.parts(s)
   return #p.size - M.sparse_dim(p) - M.batch_dim(p)
end
methods._dimV = methods.dense_dim

function methods._values(s) return M.parts(s).values:detach() end

function methods._indices(s)
   local p = M.parts(s)
   M.expect("_indices", p, "sparse_coo")
   return p.indices
end

local function check_coalesced(who, p)
   M.expect(who, p, "sparse_coo")
   if p.coalesced then return end
   torch.raise(("%s: the tensor is not coalesced: call coalesce() first"):format(who))
end

function methods.indices(s)
   local p = M.parts(s)
   check_coalesced("indices", p)
   return p.indices
end

function methods.values(s)
   local p = M.parts(s)
   if p.layout == "sparse_coo" then check_coalesced("values", p) end
   return p.values
end

function methods.is_coalesced(s)
   local p = M.parts(s)
   M.expect("is_coalesced", p, "sparse_coo")
   return p.coalesced
end

for name, key in pairs {crow_indices = "pointers", col_indices = "plain",
   ccol_indices = "pointers", row_indices = "plain"} do
   local columns = name == "ccol_indices" or name == "row_indices"
   methods[name] = function(s)
      local p = M.parts(s)
      local _, is_columns = M.kind_of(p.layout)
      if p.layout == "sparse_coo" or is_columns ~= columns then
         torch.raise(("%s: expected a tensor of layout %s, got %s"):format(name,
            columns and "sparse_csc or sparse_bsc" or "sparse_csr or sparse_bsr", p.layout))
      end
      return p[key]
   end
end

for name in ("is_floating_point is_complex element_size is_signed get_device"):gmatch "%S+" do
   methods[name] = function(s)
      local values = M.parts(s).values
      return values[name](values)
   end
   if name ~= "get_device" then operators[name] = methods[name] end
end

function methods.is_same_size(s, other) return M.same(M.parts(s).size, other.shape) end

function methods.requires_grad_(s, on)
   local p = M.parts(s)
   p.values:requires_grad_(on == nil or on)
   return s
end

function methods.retain_grad(s)
   M.parts(s).values:retain_grad()
end

--- Registers a hook that is called with the gradient of s as a sparse tensor.
function methods.register_hook(s, hook)
   local p = M.parts(s)
   if type(hook) ~= "function" then args.refuse("register_hook", "hook", "a function", hook) end
   return p.values:register_hook(function(grad)
      local q = M.parts(hook(M.with_values(p, grad)))
      return q and q.values or nil
   end)
end

function methods.release(s)
   local p = raw(s)
   for _, key in ipairs {"values", "indices", "pointers", "plain"} do
      if p[key] then p[key]:release() end
   end
end
meta.__close = methods.release

operators["autograd.grad"] = shells.grad
methods.backward = shells.backward

-- Makes a sparse tensor of a sparse gradient that the C engine has computed.
local function of_gradient(indices, values, size, coalesced)
   return M.new {
      layout = "sparse_coo", size = size, indices = indices, values = values, coalesced = coalesced,
      engine = true,
   }
end

torch._sparse_open(meta, M.call, of_gradient)
package.loaded["tlua.sparse.value"] = M
load_all()
-- real and imag are fields of tensors, so they are removed from the methods
methods.real, methods.imag = nil, nil
for _, list in ipairs {operators, methods} do
   for name, fn in pairs(list) do
      if fn ~= shells.grad and fn ~= shells.backward and name ~= "release" then
         list[name] = args.named(name, fn, meta.title)
      end
   end
end

return M
