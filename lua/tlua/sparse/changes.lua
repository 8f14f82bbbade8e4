-- changes.lua - masks, in-place resizing and copying, and empty_like for sparse tensors.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local C = require "tlua.sparse.convert"
local P = require "tlua.sparse.pointwise"
local V = require "tlua.sparse.value"

local M = {}

local methods <const> = V.methods

--- Returns a sparse tensor that has the positions of the sparse tensor `mask` and the values of the
--- dense or sparse tensor `x` there.
function M.sparse_mask(x, mask)
   local p = V.parts(mask)
   if not p then args.refuse("sparse_mask", "mask", "a sparse tensor", mask) end
   if not V.same(x.shape, p.size) then
      torch.raise(("sparse_mask: mask: expected shape %s, got %s"):format(V.shape_text(x.shape),
         V.shape_text(p.size)))
   end
   if p.layout == "sparse_coo" then p = C.coalesced(p) end
   if V.is_sparse(x) then x = C.to_dense(x) end
   return V.with_values(p, P.values_at("sparse_mask", x, p))
end
checked.functions(M, "", "sparse_mask(self: tensor, mask: tensor)")
V.define("sparse_mask", M.sparse_mask)

--- Coalesces a leaf and its gradient before an optimizer's step. If several elements have one
--- position, each of them has the gradient of that position, and the step must apply the gradient
--- only once.
---@param s Tensor
function M.coalesce_leaf(s)
   local p = V.parts(s)
   local grad = p.values.grad
   if p.layout ~= "sparse_coo" or p.coalesced or not grad then return end
   local function joined(values)
      return C.coalesced {
         layout = p.layout, size = p.size, indices = p.indices, values = values, coalesced = false,
      }
   end
   local sums, counts = joined(grad:detach()).values, joined(torch.ones_like(grad)).values
   s.data = V.new(joined(p.values:detach()))
   V.parts(s).values.grad = sums / counts
end

-- Raises an error unless the arguments of sparse_resize_ are valid for the tensor with the
-- components p.
local function check_resize(who, p, size, sparse_dim, dense_dim)
   V.expect(who, p, "sparse_coo")
   if type(size) ~= "table" then args.refuse(who, "size", "a list of sizes", size) end
   require "tlua.sparse.invariants".check_size(who, size)
   local count = math.type(sparse_dim) == "integer" and math.type(dense_dim) == "integer"
   if not count or sparse_dim < 0 or dense_dim < 0 or sparse_dim + dense_dim ~= #size then
      torch.raise(("%s: expected sparse_dim and dense_dim that sum to %d, got %s and %s")
         :format(who, #size, args.describe(sparse_dim), args.describe(dense_dim)))
   end
   if torch.is_grad_enabled() and p.values.requires_grad then
      torch.raise(who .. ": a tensor that requires a gradient cannot be resized")
   end
end

function methods.sparse_resize_(s, size, sparse_dim, dense_dim)
   local who <const> = "sparse_resize_"
   local p = V.parts(s)
   check_resize(who, p, size, sparse_dim, dense_dim)
   if sparse_dim ~= p.indices:size(1) or dense_dim ~= #p.size - p.indices:size(1) then
      if p.values:size(1) > 0 then
         torch.raise(who .. ": the number of sparse or dense dimensions of a tensor with elements "
            .. "cannot change")
      end
      return methods.sparse_resize_and_clear_(s, size, sparse_dim, dense_dim)
   end
   for d, n in ipairs(size) do
      if n < p.size[d] and p.values:size(1) > 0 then
         torch.raise(("%s: size[%d]: expected at least %d, as the tensor has elements, got %d")
            :format(who, d, p.size[d], n))
      end
   end
   local grown = {p.values:size(1), table.unpack(size, sparse_dim + 1)}
   if not V.same(grown, p.values.shape) then
      local values = torch.zeros(grown, {dtype = p.values.dtype, device = p.values.device})
      local inner = values
      for d = 2, #grown do inner = inner:narrow(d, 1, p.values:size(d)) end
      inner:copy_(p.values)
      p.values = values
   end
   p.size = table.move(size, 1, #size, 1, {})
   return s
end

function methods.sparse_resize_and_clear_(s, size, sparse_dim, dense_dim)
   local p = V.parts(s)
   check_resize("sparse_resize_and_clear_", p, size, sparse_dim, dense_dim)
   local of = {dtype = p.values.dtype, device = p.values.device}
   p.values = torch.zeros({0, table.unpack(size, sparse_dim + 1)}, of)
   p.indices = torch.zeros(sparse_dim, 0, {dtype = "int64", device = of.device})
   p.size, p.coalesced = table.move(size, 1, #size, 1, {}), true
   return s
end

local function options_of(p, options)
   return {
      dtype = options.dtype or p.values.dtype, device = options.device or p.values.device,
      requires_grad = options.requires_grad,
   }
end

-- Returns a tensor of the same shape without elements, and of the same layout unless one is given.
local function empty_like(s, options)
   local p = V.parts(s)
   args.check_options("zeros_like", options, "dtype", "device", "requires_grad", "layout")
   options = options or {}
   local of, layout = options_of(p, options), options.layout or p.layout
   if layout == "strided" then return torch.zeros(p.size, of) end
   if layout ~= p.layout then
      local dense, coo = methods.dense_dim(s), layout == "sparse_coo"
      local made = C.to_sparse(torch.zeros(p.size, of), {layout = layout, blocksize = V.block_of(p),
         dense_dim = not coo and dense or nil, sparse_dim = coo and #p.size - dense or nil})
      return of.requires_grad and made:detach():requires_grad_() or made
   end
   local copy, shape = {layout = p.layout, size = p.size}, p.values.shape
   local batch = V.batch_dim(p)
   shape[batch + 1] = 0
   copy.values = torch.zeros(shape, of)
   local whole = {dtype = "int64", device = of.device}
   if p.layout == "sparse_coo" then
      copy.indices, copy.coalesced = torch.zeros(p.indices:size(1), 0, whole), true
   else
      copy.pointers = torch.ones(p.pointers.shape, whole)
      local none = p.plain.shape
      none[batch + 1] = 0
      copy.plain = torch.zeros(none, whole)
   end
   return V.new(copy)
end
V.define("zeros_like empty_like", empty_like, false)

-- Defines rand_like and randn_like, which replace the values of a sparse tensor by random numbers.
for _, name in ipairs {"rand_like", "randn_like"} do
   V.define(name, function(s, options)
      local p = V.parts(s)
      args.check_options(name, options, "dtype", "device", "requires_grad", "layout")
      if options and options.layout and options.layout ~= p.layout then
         args.refuse(name, "layout", p.layout .. ", of the tensor itself", options.layout)
      end
      local of = options_of(p, options or {})
      local q = V.parts(s:to(of.device))
      return V.with_values(q, torch[name](q.values, of))
   end, false)
end

V.define("zero_", function(s)
   local p = V.parts(s)
   if p.engine then
      p.values:zero_()
      return s
   end
   return P.assign("zero_", s, empty_like(s))
end, true, 1)

V.define("copy_", function(to, from)
   if not V.is_sparse(to) then
      local p = V.parts(from)
      if not V.same(to.shape, p.size) then
         torch.raise(("copy_: expected shape %s, got %s"):format(V.shape_text(to.shape),
            V.shape_text(p.size)))
      end
      return to:copy_(C.to_dense(from))
   end
   local p, q = V.parts(to), V.parts(from)
   if not q or q.layout ~= p.layout or not V.same(p.size, q.size) then
      args.refuse("copy_", "src", ("a tensor of layout %s and shape %s"):format(p.layout,
         V.shape_text(p.size)), from)
   end
   return P.assign("copy_", to, from:to(p.values.dtype):to(p.values.device):clone())
end, true, 3)

return M
