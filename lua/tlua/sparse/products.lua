-- products.lua - multiplies sparse matrices by dense and by sparse matrices, and solves linear
-- systems.

local torch = require "tlua"
local args = require "tlua.args"
local C = require "tlua.sparse.convert"
local V = require "tlua.sparse.value"

local M = {}

-- Raises an error unless x is a matrix. Returns the components of a sparse matrix, or nil for a
-- dense matrix.
local function matrix(who, what, x)
   if not torch.is_tensor(x) then args.refuse(who, what, "a tensor", x) end
   if x:dim() ~= 2 then args.refuse(who, what, "a matrix", x) end
   local p = V.parts(x)
   if p and V.sparse_dim(p) ~= 2 then
      torch.raise(("%s: %s: expected a matrix of 2 sparse dimensions, got %d"):format(who, what,
         V.sparse_dim(p)))
   end
   return p
end

local function check_inner(who, a, b)
   if a.shape[2] ~= b.shape[1] then
      torch.raise(("%s: inner sizes differ: %s x %s"):format(who, V.shape_text(a.shape),
         V.shape_text(b.shape)))
   end
   if a.dtype ~= b.dtype then
      torch.raise(("%s: expected one dtype, got %s and %s"):format(who, a.dtype, b.dtype))
   end
end

-- Returns pointers, positions and values of a matrix for torch._csr_mm, and whether these describe
-- the transposed matrix instead (layout sparse_csc).
local function compressed(who, p)
   if p.layout == "sparse_csr" then return p.pointers, p.plain, p.values, false end
   if p.layout == "sparse_csc" then return p.pointers, p.plain, p.values, true end
   local csr = C.to_layout(who, p, "sparse_csr")
   return csr.pointers, csr.plain, csr.values, false
end

local kernels <const> = {float32 = true, float64 = true, float16 = true, bfloat16 = true}

-- Computes the product of sparse_dense by operators of dense tensors, for dtypes and devices for
-- which torch._csr_mm has no kernel.
local function gathered(p, x, transposed)
   local coo = C.as_coo(p)
   local to, from = coo.indices[1], coo.indices[2]
   if transposed then to, from = from, to end
   local rows = x:index_select(1, from) * coo.values:unsqueeze(2)
   return C.sum_groups(to, rows, p.size[transposed and 2 or 1])
end

-- Returns the product of a sparse matrix, or of its transpose, with a dense matrix. While
-- torch.export records a program, a matrix that is not coalesced is not converted, since the number
-- of its elements would then depend on values.
local function sparse_dense(who, p, x, transposed)
   local traced = p.coalesced == false and torch._tracing()
   if traced or not kernels[p.values.dtype] or p.values.device.type == "cuda" then
      return gathered(p, x, transposed)
   end
   local pointers, plain, values, flipped = compressed(who, p)
   local rows = p.size[transposed and 2 or 1]
   return torch._csr_mm(pointers, plain, values, x, rows, transposed ~= flipped)
end

-- Returns the product of two sparse matrices: each element (i, k) of the first one is multiplied by
-- all elements (k, j) in row k of the second one.
local function sparse_sparse(who, p, q)
   local a = C.coalesced(C.as_coo(p))
   local b = C.to_layout(who, q, "sparse_csr")
   local inner = a.indices[2]
   local first = b.pointers:index_select(1, inner)
   local counts = b.pointers:index_select(1, inner + 1) - first
   local device = inner.device
   local from = torch.repeat_interleave(torch.arange(1, inner:numel() + 1, {device = device}),
      counts)
   local begins = counts:cumsum(1) - counts
   local at = first:index_select(1, from) - begins:index_select(1, from)
      + torch.arange(0, from:numel(), {device = device})
   local coo = C.coalesced {
      layout = "sparse_coo", size = {p.size[1], q.size[2]}, coalesced = false,
      indices = torch.stack {a.indices[1]:index_select(1, from), b.plain:index_select(1, at)},
      values = a.values:index_select(1, from) * b.values:index_select(1, at),
   }
   local compressed_both = p.layout ~= "sparse_coo" and q.layout ~= "sparse_coo"
   return V.new(C.to_layout(who, coo, compressed_both and "sparse_csr" or "sparse_coo"))
end

-- Returns a tensor in the dtype to which autocast casts the operands of matrix products.
local function cast(x)
   local type = torch.is_tensor(x) and x.device.type
   if not type or type == "meta" or not torch.is_autocast_enabled(type) then return x end
   if not x:is_floating_point() or x.dtype == "float64" then return x end
   return x:to(torch.get_autocast_dtype(type))
end

local function product(who, a, b)
   a, b = cast(a), cast(b)
   local p, q = matrix(who, "self", a), matrix(who, "mat2", b)
   check_inner(who, a, b)
   if p and q then return sparse_sparse(who, p, q) end
   if p then return sparse_dense(who, p, b, false) end
   if not q then
      args.refuse(who, "mat1", "a sparse matrix, or a dense one with a sparse mat2", a)
   end
   return sparse_dense(who, q, a:t(), true):t()
end

local take_mm = args.signature "sparse.mm(mat1: any, mat2: any, reduce: string?)"

local reductions <const> = {sum = "sum", mean = "mean", amax = "amax", amin = "amin"}

-- Returns, for each row of a sparse matrix and each column of a dense one, the reduction (such as
-- the maximum) of the products that torch.sparse.mm would sum. The result is 0 for a row without
-- elements.
local function reduced(who, a, x, reduce)
   local p = matrix(who, "mat1", a)
   if not p or p.layout ~= "sparse_csr" then
      args.refuse(who, "mat1", "a matrix of layout sparse_csr, as products are reduced", a)
   end
   if matrix(who, "mat2", x) then args.refuse(who, "mat2", "a dense matrix", x) end
   check_inner(who, a, x)
   local rows = x:index_select(1, p.plain) * p.values:unsqueeze(2)
   local sums = torch.zeros(p.size[1], x:size(2), {dtype = x.dtype, device = x.device})
   return sums:scatter_reduce(1, C.lines_of(p):unsqueeze(2):expand(rows.shape), rows, reduce,
      {include_self = false})
end

--- Returns the product of two matrices, at least one of them sparse. Two sparse matrices give a
--- sparse product: in layout sparse_coo if one of them has that layout, otherwise in sparse_csr.
--- Both get gradients; a sparse matrix's gradient has the matrix's positions. With `reduce`, the
--- products of a matrix of layout sparse_csr and a dense one are not summed but reduced; a row
--- without elements gives 0.
---
---     local s = torch.sparse_coo_tensor({{1, 2}, {2, 1}}, {2.0, 3.0}, {2, 2})
---     print(torch.sparse.mm(s, torch.tensor {{1.0, 2.0}, {3.0, 4.0}}))
---     --> tensor([[6., 8.],
---     -->         [3., 6.]])
---@param mat1 Tensor
---@param mat2 Tensor
---@param reduce? string  "sum", "mean", "amax" or "amin"
---@return Tensor
function M.mm(...)
   local a = take_mm(...)
   if a.reduce and a.reduce ~= "sum" then
      if not reductions[a.reduce] then
         args.refuse("sparse.mm", "reduce", '"sum", "mean", "amax" or "amin"', a.reduce)
      end
      return reduced("sparse.mm", a.mat1, a.mat2, a.reduce)
   end
   return product("sparse.mm", a.mat1, a.mat2)
end

V.define("mm", function(a, b) return product("mm", a, b) end, true, 2)

-- Returns one matrix whose diagonal blocks are the sparse matrices of a batch. The matrices are the
-- last two sparse dimensions of the components p.
local function block_diagonal(p)
   local coo = C.as_coo(p)
   local n, size = coo.indices:size(1), coo.size
   local matrices, count = 0, 1
   for d = 1, n - 2 do
      matrices, count = matrices * size[d] + coo.indices[d] - 1, count * size[d]
   end
   local rows, columns = coo.indices[n - 1], coo.indices[n]
   return {
      layout = "sparse_coo", size = {count * size[n - 1], count * size[n]}, values = coo.values,
      indices = torch.stack {matrices * size[n - 1] + rows, matrices * size[n] + columns},
      coalesced = coo.coalesced,
   }
end

-- Returns whether two lists of sizes are equal except for the last two sizes.
local function same_batch(a, b)
   if #a ~= #b then return false end
   for d = 1, #a - 2 do
      if a[d] ~= b[d] then return false end
   end
   return true
end

-- Returns the products of matrices from two batches. All matrices of a batch have one shape, and
-- one of the batches is sparse.
local function batched(who, a, b)
   a, b = cast(a), cast(b)
   local p, q = V.parts(a), V.parts(b)
   if p and q or not (p or q) then
      args.refuse(who, "mat2", "a dense tensor for a sparse one", b)
   end
   local x, y = a.shape, b.shape
   if #x < 3 or not same_batch(x, y) or x[#x] ~= y[#y - 1] then
      torch.raise(("%s: expected batches of matrices that fit one another, got %s and %s"):format(
         who, V.shape_text(x), V.shape_text(y)))
   end
   if q then return batched(who, b.mT, a.mT).mT end
   if p.values:dim() > V.batch_dim(p) + (V.kind_of(p.layout) and 3 or 1) then
      V.unsupported(who .. " with dense dimensions", p.layout)
   end
   if a.dtype ~= b.dtype then
      torch.raise(("%s: expected one dtype, got %s and %s"):format(who, a.dtype, b.dtype))
   end
   local rows = sparse_dense(who, block_diagonal(p), b:reshape(-1, y[#y]), false)
   x[#x] = y[#y]
   return rows:view(x)
end

V.define("bmm", function(a, b)
   if not (torch.is_tensor(a) and torch.is_tensor(b) and a:dim() == 3) then
      args.refuse("bmm", "self", "a tensor of 3 dimensions", a)
   end
   return batched("bmm", a, b)
end, true, 2)

V.define("smm hspmm", function(a, b) return product("smm", a, b) end, true, 2)

local function mv(who, a, x)
   local p = matrix(who, "self", a)
   if not p or V.is_sparse(x) or not torch.is_tensor(x) or x:dim() ~= 1 then
      args.refuse(who, "vec", "a dense vector", x)
   end
   if a.shape[2] ~= x:size(1) then
      torch.raise(("%s: inner sizes differ: %s x %s"):format(who, V.shape_text(a.shape),
         V.shape_text(x.shape)))
   end
   return product(who, a, x:unsqueeze(2)):squeeze(2)
end
V.define("mv", function(a, x) return mv("mv", a, x) end, true, 2)

V.define("matmul", function(a, b)
   if not (torch.is_tensor(a) and torch.is_tensor(b)) then
      args.refuse("matmul", torch.is_tensor(a) and "other" or "self", "a tensor", b)
   end
   local n, m = a:dim(), b:dim()
   if n == 2 and m == 2 then return product("matmul", a, b) end
   if n == 2 and m == 1 and not V.is_sparse(b) then return mv("matmul", a, b) end
   if n == 1 and m == 2 and not V.is_sparse(a) then return mv("matmul", b:t(), a) end
   if n > 2 and m == 2 and not V.is_sparse(a) then -- batched: (..., k) x (k, n)
      local shape = a.shape
      local rows = product("matmul", a:reshape(-1, shape[n]), b)
      shape[n] = b.shape[2]
      return rows:reshape(shape)
   end
   if n > 2 and m == n then return batched("matmul", a, b) end
   torch.raise(("matmul: expected a sparse matrix and a matrix or a vector, got shapes %s and %s")
      :format(V.shape_text(a.shape), V.shape_text(b.shape)))
end, true, 2)

local take_addmm = args.signature [[sparse.addmm(input: any, mat1: any, mat2: any,
   beta: factor = 1, alpha: factor = 1)]]

-- Returns beta * input + alpha * product.
local function combine(input, result, beta, alpha)
   if alpha ~= 1 then result = result * alpha end
   if beta == 0 then return result end
   if beta ~= 1 then input = input * beta end
   return input + result
end

--- Returns beta * input + alpha * mat1 @ mat2, where mat1 or mat2 is sparse.
---
---     local s = torch.sparse_coo_tensor({{1, 2}, {2, 1}}, {2.0, 3.0}, {2, 2})
---     print(torch.sparse.addmm(torch.ones(2, 2), s, torch.eye(2)))
---     --> tensor([[1., 3.],
---     -->         [4., 1.]])
---@param input Tensor
---@param mat1 Tensor
---@param mat2 Tensor
---@param options? {beta: number, alpha: number}
---@return Tensor
function M.addmm(...)
   local a = take_addmm(...)
   if not torch.is_tensor(a.input) then
      args.refuse("sparse.addmm", "input", "a tensor", a.input)
   end
   return combine(cast(a.input), product("sparse.addmm", a.mat1, a.mat2), a.beta, a.alpha)
end
V.define("addmm", M.addmm)

V.define("addmv", function(...)
   local a = args.signature [[addmv(input: tensor, mat: tensor, vec: tensor, beta: factor = 1,
      alpha: factor = 1)]](...)
   return combine(a.input, mv("addmv", a.mat, a.vec), a.beta, a.alpha)
end)

local take_sampled = args.signature [[sparse.sampled_addmm(input: any, mat1: tensor, mat2: tensor,
   beta: factor = 1, alpha: factor = 1)]]

-- Returns, for each element of a csr matrix, the product of a row of `left` and a row of `right`:
-- the rows that have the numbers of the element's row and column.
local function sampled(csr, left, right)
   if kernels[left.dtype] and left.device.type ~= "cuda" then
      return torch._csr_sampled(csr.pointers, csr.plain, left, right)
   end
   return (left:index_select(1, C.lines_of(csr)) * right:index_select(1, csr.plain)):sum(2)
end

-- Computes sampled_addmm for batches of matrices.
local function batched_samples(who, a)
   local p, left, right = V.parts(a.input), a.mat1, a.mat2
   local x, y, size = left.shape, right.shape, p.size
   if V.is_sparse(left) or V.is_sparse(right) or not (same_batch(x, size) and same_batch(y, size))
      or x[#x] ~= y[#y - 1] or x[#x - 1] ~= size[#size - 1] or y[#y] ~= size[#size] then
      torch.raise(("%s: expected batches of dense matrices for shape %s, got %s and %s"):format(who,
         V.shape_text(size), V.shape_text(x), V.shape_text(y)))
   end
   local csr = C.to_layout(who, p, "sparse_csr")
   local values = sampled(C.to_layout(who, block_diagonal(csr), "sparse_csr"),
      left:reshape(-1, x[#x]), right.mT:reshape(-1, x[#x])):view(csr.values.shape)
   local result = V.with_values(csr, combine(csr.values, values, a.beta, a.alpha))
   return V.new(C.to_layout(who, V.parts(result), p.layout, V.block_of(p)))
end

--- Returns beta * input + alpha * mat1 @ mat2 computed only at the positions of the sparse matrix
--- `input`. mat1 and mat2 are dense.
---
---     local s = torch.sparse_csr_tensor({1, 2, 2}, {2}, {1.0}, {2, 2})
---     local a, b = torch.ones(2, 3), torch.ones(3, 2)
---     print(torch.sparse.sampled_addmm(s, a, b):values())
---     --> tensor([4.])
---@param input Tensor  of layout sparse_csr, or coalesced
---@param mat1 Tensor  (rows, k)
---@param mat2 Tensor  (k, columns)
---@param options? {beta: number, alpha: number}
---@return Tensor
function M.sampled_addmm(...)
   local who <const> = "sparse.sampled_addmm"
   local a = take_sampled(...)
   if torch.is_tensor(a.input) and V.batch_dim(V.parts(a.input) or {}) > 0 then
      return batched_samples(who, a)
   end
   local p = torch.is_tensor(a.input) and matrix(who, "input", a.input)
   if not p then args.refuse(who, "input", "a sparse matrix", a.input) end
   for _, name in ipairs {"mat1", "mat2"} do
      if matrix(who, name, a[name]) then args.refuse(who, name, "a dense matrix", a[name]) end
   end
   check_inner(who, a.mat1, a.mat2)
   local rows, columns = a.mat1:size(1), a.mat2:size(2)
   if rows ~= p.size[1] or columns ~= p.size[2] then
      torch.raise(("%s: expected a product of shape %s, got (%d, %d)"):format(who,
         V.shape_text(p.size), rows, columns))
   end
   local csr = C.to_layout(who, p, "sparse_csr")
   local values = sampled(csr, a.mat1, a.mat2:t())
   local result = V.with_values(csr, combine(csr.values, values, a.beta, a.alpha))
   return V.new(C.to_layout(who, V.parts(result), p.layout, V.block_of(p)))
end

local take_solve = args.signature "sparse.spsolve(A: any, b: any)"

--- Solves A x = b, where A is a sparse matrix and b is dense, a vector or a matrix of columns.
--- torch.linalg.solve computes the solution from a dense copy of A, so A should have at most some
--- thousand rows. Both A and b get gradients.
---
---     local A = torch.sparse_csr_tensor({1, 2, 3}, {1, 2}, {2.0, 4.0}, {2, 2})
---     print(torch.sparse.spsolve(A, torch.tensor {2.0, 2.0}))
---     --> tensor([1.0000, 0.5000])
---@param A Tensor
---@param b Tensor
---@return Tensor
function M.spsolve(...)
   local who <const> = "sparse.spsolve"
   local a = take_solve(...)
   local p = torch.is_tensor(a.A) and matrix(who, "A", a.A)
   if not p then args.refuse(who, "A", "a sparse matrix", a.A) end
   if not torch.is_tensor(a.b) or V.is_sparse(a.b) then
      args.refuse(who, "b", "a dense tensor", a.b)
   end
   if p.size[1] ~= p.size[2] or a.b:dim() == 0 or a.b:dim() > 2 or a.b:size(1) ~= p.size[1] then
      torch.raise(("%s: expected a square matrix and as many rows in b, got %s and %s"):format(who,
         V.shape_text(p.size), V.shape_text(a.b.shape)))
   end
   return torch.linalg.solve(C.to_dense(a.A), a.b)
end

for name, fn in pairs(M) do M[name] = args.named("sparse." .. name, fn) end

return M
