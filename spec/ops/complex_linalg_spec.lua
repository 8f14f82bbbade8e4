-- Tests torch.linalg on complex matrices. Values and gradients are compared with PyTorch's results
-- (spec/fixtures/complex_linalg.py). Gradients are also compared with finite differences, for functions that do not
-- depend on the phases of singular vectors and eigenvectors.

local torch = require "tlua"

local linalg = torch.linalg
local reference = dofile "spec/fixtures/complex_linalg.lua"

local function matrix(name, rows, columns)
   local parts = torch.tensor(reference[name], {dtype = "float64"})
   if name == "real" then return parts:reshape(rows, columns) end
   return parts:reshape(rows, columns, 2):view_as_complex()
end

local a, right = matrix("a", 4, 4), matrix("right", 4, 2)
local tall, wide = matrix("tall", 4, 3), matrix("wide", 3, 4)
local hermitian, real = matrix("hermitian", 4, 4), matrix("real", 3, 3)

local function elements(t)
   if t:is_complex() then t = t:view_as_real() end
   return t:reshape(-1):tolist()
end

local function check(expected, actual, what)
   actual = elements(actual:to(actual:is_complex() and "complex128" or "float64"))
   assert.equal(#expected, #actual, what)
   for k, e in ipairs(expected) do
      local close = math.abs(e - actual[k]) <= 1e-9 * math.max(1, math.abs(e))
      assert(close, ("%s: element %d: expected %s, got %s"):format(what, k, e, actual[k]))
   end
end

-- Sorts eigenvalues in the order that the fixture uses.
local function by_size(w) return w[(w.real * 8 + w.imag):argsort()] end

local function flat(...)
   local parts = {...}
   for k, t in ipairs(parts) do parts[k] = t:reshape(-1) end
   return torch.cat(parts)
end

local values = {
   inv = function() return linalg.inv(a) end,
   det = function() return linalg.det(a) end,
   slogdet = function()
      local sign, log = linalg.slogdet(a)
      assert.equal("float64", log.dtype)
      return torch.stack {sign, log:to "complex128"}
   end,
   logdet = function() return torch.logdet(a) end,
   solve = function() return linalg.solve(a, right) end,
   svdvals = function() return linalg.svdvals(tall) end,
   cholesky = function() return linalg.cholesky(hermitian) end,
   cholesky_upper = function() return linalg.cholesky(hermitian, {upper = true}) end,
   cholesky_solve = function() return torch.cholesky_solve(right, linalg.cholesky(hermitian)) end,
   cholesky_inverse = function() return torch.cholesky_inverse(linalg.cholesky(hermitian)) end,
   eigvalsh = function() return linalg.eigvalsh(hermitian) end,
   eigvals = function() return by_size(linalg.eigvals(a)) end,
   eigvals_real = function() return by_size(linalg.eigvals(real)) end,
   r = function() return select(2, linalg.qr(tall)) end,
   q = function() return (linalg.qr(tall)) end,
   lu = function() return flat(linalg.lu(tall)) end,
   lu_adjoint = function()
      local lu, pivots = linalg.lu_factor(a)
      return linalg.lu_solve(lu, pivots, right, {adjoint = true})
   end,
   lu_right = function()
      local lu, pivots = linalg.lu_factor(a)
      return linalg.lu_solve(lu, pivots, right.mT, {left = false})
   end,
   lu_right_adjoint = function()
      local lu, pivots = linalg.lu_factor(a)
      return linalg.lu_solve(lu, pivots, right.mT, {left = false, adjoint = true})
   end,
   ldl = function()
      local ld, pivots = linalg.ldl_factor(hermitian, {hermitian = true})
      return linalg.ldl_solve(ld, pivots, right, {hermitian = true})
   end,
   ldl_symmetric = function()
      local ld, pivots = linalg.ldl_factor(a + a.mT)
      return linalg.ldl_solve(ld, pivots, right)
   end,
   lstsq = function() return (linalg.lstsq(tall, right, {driver = "gelsd"})) end,
   residuals = function() return select(2, linalg.lstsq(tall, right, {driver = "gelsd"})) end,
   matrix_exp = function() return linalg.matrix_exp(a) end,
   pinv = function() return linalg.pinv(wide) end,
   pinv_hermitian = function() return linalg.pinv(hermitian, {hermitian = true}) end,
   matrix_power = function() return linalg.matrix_power(a, -3) end,
   norm = function() return linalg.norm(tall) end,
   nuclear = function() return linalg.matrix_norm(tall, "nuc") end,
   one = function() return linalg.matrix_norm(tall, 1) end,
   cond = function() return linalg.cond(a) end,
   vecdot = function() return linalg.vecdot(right:select(2, 1), right:select(2, 2)) end,
   vander = function() return linalg.vander(right:select(2, 1)) end,
   triangular = function() return linalg.solve_triangular(a, right, {upper = true}) end,
   householder = function() return linalg.householder_product(torch.geqrf(tall)) end,
   ormqr = function()
      local v, tau = torch.geqrf(tall)
      return torch.ormqr(v, tau, right, {transpose = true})
   end,
   ormqr_right = function()
      local v, tau = torch.geqrf(tall)
      return torch.ormqr(v, tau, right.mT, {left = false})
   end,
}

-- Real-valued functions that do not depend on the phases of vectors, with their inputs.
local losses = {
   inv = {function(x) return linalg.inv(x):abs():sum() end, a},
   det = {function(x) return torch.real(linalg.det(x) * torch.complex(1, 2)) end, a},
   slogdet = {function(x)
      local sign, log = linalg.slogdet(x)
      return torch.real(sign * torch.complex(2, -1)) + log
   end, a},
   svd = {function(x)
      local u, s, vh = linalg.svd(x, false)
      return u:matmul(vh):abs():sum() + s:sum()
   end, tall},
   eigh = {function(x)
      local w, v = linalg.eigh(x)
      return v:abs():sum() + w:square():sum()
   end, hermitian},
   eig = {function(x)
      local w, v = linalg.eig(x)
      return v:abs():sum() + w:abs():sum()
   end, a},
   eig_real = {function(x)
      local w, v = linalg.eig(x)
      return v:abs():sum() + w:abs():sum()
   end, real},
   cholesky = {function(x) return linalg.cholesky(x):abs():sum() end, hermitian},
   qr = {function(x) return (linalg.qr(x)):abs():sum() end, wide},
   pinv = {function(x) return linalg.pinv(x):abs():sum() end, tall},
   matrix_exp = {function(x) return linalg.matrix_exp(x):abs():sum() end, a},
   lu = {function(x)
      local _, l, u = linalg.lu(x)
      return l:abs():sum() + u:abs():sum()
   end, tall},
}

-- Returns a function that makes its argument Hermitian and then calls fn. The argument stays Hermitian when finite
-- differences change an element.
local function symmetrised(fn) return function(x) return fn(x + x.mH) end end

describe("linalg on complex matrices", function()
   for name, expected in pairs(reference.values) do
      it("gives PyTorch's values: " .. name, function() check(expected, values[name](), name) end)
   end

   for name, expected in pairs(reference.gradients) do
      it("gives PyTorch's gradients: " .. name, function()
         local x = losses[name][2]:clone():requires_grad_()
         losses[name][1](x):backward()
         assert.equal(losses[name][2].dtype, x.grad.dtype)
         check(expected, x.grad, name)
      end)
      it("has the gradients of finite differences: " .. name, function()
         local fn, x = table.unpack(losses[name])
         if x == hermitian then fn, x = symmetrised(fn), hermitian:triu() - torch.eye(4) end
         assert.gradcheck(fn, {x:clone():requires_grad_()})
      end)
   end

   for _, name in ipairs {"svd", "eigh", "eig"} do
      it("has twice differentiable " .. name, function()
         local fn, x = table.unpack(losses[name])
         if x == hermitian then fn, x = symmetrised(fn), hermitian:triu() - torch.eye(4) end
         assert.is_true(torch.autograd.gradgradcheck(fn, {x:clone():requires_grad_()}))
      end)
   end

   it("factorises batches, and single precision", function()
      local x = torch.stack {a, a.mH}:to "complex64"
      local w, v = linalg.eig(x)
      assert.same({"complex64", "complex64"}, {w.dtype, v.dtype})
      assert.close(v * w:unsqueeze(-2), x:matmul(v), 1e-4)
      local u, s, vh = linalg.svd(x)
      assert.equal("float32", s.dtype)
      assert.close(x, (u * s:unsqueeze(-2)):matmul(vh), 1e-4)
   end)

   it("factors and solves matrices that are larger than a block, of each dtype", function()
      torch.manual_seed(5)
      for _, dtype in ipairs {"float32", "float64", "complex64", "complex128"} do
         local tolerance = (dtype == "float32" or dtype == "complex64") and 1e-3 or 1e-10
         for _, size in ipairs {{50, 50}, {90, 70}, {40, 75}} do
            local x = torch.randn(2, size[1], size[2], {dtype = dtype})
            local P, L, U = linalg.lu(x)
            assert.close(x, P:to(dtype):matmul(L):matmul(U), tolerance)
            assert.is_true(L:abs():max():item() < 1.5, "rows are exchanged for the largest pivots")
            if size[1] == size[2] then
               local b = torch.randn(2, size[1], 20, {dtype = dtype})
               local factors, pivots = linalg.lu_factor(x)
               local solution = linalg.solve(x, b)
               assert.close(b, x:matmul(solution), tolerance * solution:abs():max():item())
               assert.close(solution, linalg.lu_solve(factors, pivots, b), tolerance * solution:abs():max():item())
               x[2]:select(2, 44):zero_()
               assert.raises("linalg.inv: matrix 2 of the batch is singular", function() linalg.inv(x) end)
            end
         end
      end
   end)

   it("takes empty matrices", function()
      local x = torch.zeros(0, 3, 3, {dtype = "complex64"})
      assert.same({0, 3}, linalg.eig(x).shape)
      assert.same({0}, linalg.det(x).shape)
      assert.same({0, 3, 3}, linalg.inv(x).shape)
      assert.equal(torch.complex(1, 0), linalg.det(torch.zeros(0, 0, {dtype = "complex128"})):item())
   end)

   it("refuses gradients that would turn phases", function()
      for name, call in pairs {
         svd = function(x) return torch.real((linalg.svd(x))):sum() end,
         eig = function(x) return torch.real((select(2, linalg.eig(x)))):sum() end,
         eigh = function(x) return torch.real((select(2, linalg.eigh(x)))):sum() end,
      } do
         assert.raises("linalg." .. name .. ": the gradient is not defined: the loss depends on the " ..
            "phases of the", function() call(hermitian:clone():requires_grad_()):backward() end)
      end
   end)

   it("refuses NaN where LAPACK may not return", function()
      local x = torch.full({2, 2}, 0 / 0, {dtype = "complex64"})
      assert.raises("linalg.eig: expected finite numbers, got NaN or infinity", function() linalg.eig(x) end)
   end)
end)
