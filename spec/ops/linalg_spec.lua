-- Tests each factorization of torch.linalg by the equation that defines it, and derivatives by finite differences. Some
-- results are unique only up to signs. For these, the differentiated function does not depend on the signs.
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local linalg = torch.linalg

local function random(...) return torch.randn({...}, {dtype = "float64"}) end

local function spread(n) -- Returns a symmetric matrix whose eigenvalues are 1, 2, ..., n.
   local q = linalg.qr(random(n, n))
   return q:matmul(torch.diag(torch.range(1, n, {dtype = "float64"}))):matmul(q:t())
end

local function symmetric(a) return (a + a:transpose(-1, -2)) * 0.5 end

local function leaf(t) return t:detach():clone():requires_grad_(true) end

describe("torch.linalg", function()
   before_each(function() torch.manual_seed(5) end)

   it("cholesky gives the factor worked out by hand", function()
      local a = torch.tensor({{4.0, 12, -16}, {12, 37, -43}, {-16, -43, 98}})
      assert.close(torch.tensor({{2.0, 0, 0}, {6, 1, 0}, {-8, 5, 3}}), linalg.cholesky(a), 1e-4)
      assert.close(linalg.cholesky(a):t(), linalg.cholesky(a, {upper = true}), 0)
   end)

   it("cholesky names the matrix that is not positive definite", function()
      local batch = torch.stack({torch.eye(2), torch.tensor({{1.0, 2}, {2, 1}})})
      assert.raises("linalg.cholesky", "matrix 2 of the batch is not positive definite",
         function() linalg.cholesky(batch) end)
   end)

   it("cholesky and cholesky_solve differentiate twice", function()
      local a = leaf(spread(3))
      assert.gradcheck(function(x) return linalg.cholesky(symmetric(x)) end, {a})
      assert.is_true(torch.autograd.gradgradcheck(function(x) return linalg.cholesky(symmetric(x)) end, {a}))
      local b = random(3, 2)
      assert.close(linalg.solve(a, b):detach(), linalg.cholesky_solve(b, linalg.cholesky(a)):detach(), 1e-10)
   end)

   it("solve and inv divide larger matrices into triangles", function()
      for _, dtype in ipairs {"float32", "float64", "complex64", "complex128"} do
         local narrow = dtype == "float32" or dtype == "complex64"
         for _, n in ipairs {33, 50, 71} do
            local i = torch.eye(n, {dtype = dtype})
            -- the largest numbers lie beside the diagonal, so rows are exchanged
            local a = torch.randn(2, n, n, {dtype = dtype}) + i:roll(3, 1) * n
            local b = torch.randn(2, n, 18, {dtype = dtype})
            assert.close(i:expand(2, n, n), a:matmul(linalg.inv(a)), narrow and 1e-5 or 1e-13)
            assert.close(b, a:matmul(linalg.solve(a, b)), narrow and 1e-5 or 1e-13)
            assert.close(i:roll(-3, 1), linalg.inv(i:roll(3, 1)), 0)
         end
      end
   end)

   it("qr and householder_product apply many reflections as products", function()
      for _, dtype in ipairs {"float32", "float64", "complex64", "complex128"} do
         local near = (dtype == "float32" or dtype == "complex64") and 2e-5 or 1e-13
         for _, sizes in ipairs {{1, 70, 101}, {2, 101, 70}} do
            local a = torch.randn(sizes, {dtype = dtype})
            local q, r = linalg.qr(a, "complete")
            assert.close(a, q:matmul(r), near)
            assert.close(torch.eye(sizes[2], {dtype = dtype}):expand(sizes[1], -1, -1), q.mH:matmul(q), near)
            local reflectors, tau = torch.geqrf(a)
            local few, some = reflectors[{{}, {}, {1, 64}}], tau[{{}, {1, 64}}]
            assert.close(q[{{}, {}, {1, 64}}], linalg.householder_product(few, some), near)
         end
      end
   end)

   it("solve, inv and lu_solve agree, on either side and in batches", function()
      local a, b = random(2, 4, 4), random(2, 4, 3)
      local x = linalg.solve(a, b)
      assert.close(b, a:matmul(x), 1e-10)
      assert.close(x, linalg.inv(a):matmul(b), 1e-10)
      local lu, pivots = linalg.lu_factor(a)
      assert.close(x, linalg.lu_solve(lu, pivots, b), 1e-10)
      assert.close(x, linalg.lu_solve(lu:clone():requires_grad_(), pivots, b):detach(), 1e-10)
      local matrix, column = torch.randn(40, 40, {dtype = "complex128"}), random(40, 1):to "complex128"
      local factors, exchanges = linalg.lu_factor(matrix)
      for _, right in ipairs {column, column.real:matmul(random(1, 20)):to "complex128"} do
         assert.close(linalg.solve(matrix, right), linalg.lu_solve(factors, exchanges, right), 1e-9)
      end
      local c = random(2, 3, 4)
      assert.close(c, linalg.solve(a, c, {left = false}):matmul(a), 1e-10)
      assert.close(c, linalg.lu_solve(lu, pivots, c, {left = false}):matmul(a), 1e-10)
      local transposed = a:transpose(-1, -2)
      assert.close(b, transposed:matmul(linalg.lu_solve(lu, pivots, b, {adjoint = true})), 1e-10)
      assert.close(c, linalg.lu_solve(lu, pivots, c, {left = false, adjoint = true}):matmul(transposed), 1e-10)
      assert.raises("linalg.lu", "without pivoting", function() linalg.lu(a, {pivot = false}) end)
   end)

   it("solve and inv keep NaN in larger matrices, too", function()
      for _, dtype in ipairs {"float32", "float64", "complex64", "complex128"} do
         local a = torch.eye(48, {dtype = dtype}):mul(2) + 1
         a[48][48] = 0 / 0
         assert.is_true(linalg.inv_ex(a):isnan():all():item())
         assert.is_true(linalg.solve(a, torch.ones(48, 20, {dtype = dtype})):isnan():all():item())
      end
   end)

   it("solve takes vectors and refuses singular matrices", function()
      local a = torch.tensor({{2.0, 0}, {0, 4}})
      assert.close(torch.tensor({1.0, 2}), linalg.solve(a, torch.tensor({2.0, 8})), 0)
      assert.raises("linalg.solve", "singular", function() linalg.solve(torch.zeros(2, 2), torch.ones(2)) end)
      assert.raises("linalg.inv", "square", function() linalg.inv(torch.zeros(2, 3)) end)
      assert.raises("linalg.inv", "float32 or float64", function() linalg.inv(torch.eye(2):long()) end)
   end)

   it("lu gives P L U", function()
      for _, shape in ipairs {{3, 3}, {4, 3}, {3, 4}} do
         local a = random(shape[1], shape[2])
         local p, l, u = linalg.lu(a)
         assert.close(a, p:matmul(l):matmul(u), 1e-12)
         assert.close(u, u:triu(), 0)
         assert.close(l, l:tril(), 0)
      end
   end)

   it("qr gives orthonormal columns and an upper triangle", function()
      for _, shape in ipairs {{4, 3}, {3, 4}, {3, 3}} do
         local a = random(shape[1], shape[2])
         local q, r = linalg.qr(a)
         assert.close(a, q:matmul(r), 1e-12)
         assert.close(torch.eye(3, {dtype = "float64"}), q:t():matmul(q), 1e-12)
         assert.close(r, r:triu(), 0)
      end
      local q, r = linalg.qr(random(4, 2), "complete")
      assert.same({4, 4}, q.shape)
      assert.same({4, 2}, r.shape)
      assert.raises("linalg.qr", "'reduced', 'complete' or 'r'", function() linalg.qr(torch.eye(2), "full") end)
   end)

   it("det and slogdet agree with the rule of Sarrus", function()
      local a = torch.tensor({{2.0, -3, 1}, {2, 0, -1}, {1, 4, 5}}, {dtype = "float64"})
      assert.close(49, linalg.det(a):item(), 1e-12)
      local sign, log = linalg.slogdet(-a)
      assert.equal(-1, sign:item())
      assert.close(math.log(49), log:item(), 1e-12)
      assert.equal(0, linalg.det(torch.ones(2, 2)):item())
   end)

   it("det of a singular matrix has its cofactors as gradient", function()
      local a = torch.tensor({{1.0, 2}, {2, 4}}, {dtype = "float64", requires_grad = true})
      linalg.det(a):backward()
      assert.close(torch.tensor({{4.0, -2}, {-2, 1}}, {dtype = "float64"}), a.grad, 1e-12)
   end)

   it("svd gives back its matrix, with descending values", function()
      for _, shape in ipairs {{4, 3}, {3, 4}} do
         local a = random(shape[1], shape[2])
         local u, s, vh = linalg.svd(a, false)
         assert.close(a, u:matmul(torch.diag(s)):matmul(vh), 1e-12)
         assert.is_true(s[1]:item() >= s[2]:item() and s[2]:item() >= s[3]:item())
         local full_u, _, full_vh = linalg.svd(a)
         assert.same({shape[1], shape[1]}, full_u.shape)
         assert.same({shape[2], shape[2]}, full_vh.shape)
      end
      local nan = torch.full({2, 2}, 0 / 0)
      assert.raises("linalg.svd", function() linalg.svd(nan) end)
   end)

   it("svd differentiates through singular vectors", function()
      local function projections(x) -- projections do not depend on the signs of the vectors
         local u, s, vh = linalg.svd(x, false)
         local weight = torch.range(1, 3, {dtype = "float64"})
         return u:matmul(torch.diag(s * weight)):matmul(vh), u:narrow(2, 1, 1):matmul(u:narrow(2, 1, 1):t())
      end
      for _, shape in ipairs {{3, 3}, {4, 3}, {3, 4}} do
         assert.gradcheck(projections, {leaf(random(shape[1], shape[2]))})
      end
   end)

   it("svd has the gradient of its first columns, of S alone for equal values too", function()
      local x = leaf(random(4, 3))
      local function gradient(full)
         local u, s, vh = linalg.svd(x, full)
         local first = u:narrow(2, 1, 1)
         return torch.autograd.grad(s:sum() + first:matmul(first:t()):matmul(x):sum() + vh:square():sum(), {x})
      end
      assert.close(gradient(false), gradient(true), 1e-12)
      local eye = leaf(torch.eye(3, {dtype = "float64"}))
      assert.close(eye:detach(), torch.autograd.grad(linalg.matrix_norm(eye, "nuc"), {eye}), 1e-12)
      assert.close(eye:detach(), torch.autograd.grad(linalg.eigvalsh(eye):sum(), {eye}), 1e-12)
   end)

   it("eigh gives eigenvalues and vectors, and differentiates", function()
      local a = spread(4)
      local values, vectors = linalg.eigh(a)
      assert.close(torch.range(1, 4, {dtype = "float64"}), values, 1e-10)
      assert.close(a, vectors:matmul(torch.diag(values)):matmul(vectors:t()), 1e-10)
      assert.close(values, linalg.eigvalsh(a, "U"), 1e-10)
      assert.gradcheck(function(x)
         local l, v = linalg.eigh(symmetric(x))
         return l, v:matmul(torch.diag(l * l + 1)):matmul(v:t())
      end, {leaf(spread(3))})
   end)

   it("lstsq finds the line through points", function()
      -- y = 1 + 2 x through (0,1) (1,3) (2,5) (3,7)
      local a = torch.tensor({{1.0, 0}, {1, 1}, {1, 2}, {1, 3}}, {dtype = "float64"})
      local b = torch.tensor({{1.0}, {3}, {5}, {7}}, {dtype = "float64"})
      local x, residuals, rank, values = linalg.lstsq(a, b, {driver = "gelsd"})
      assert.close(torch.tensor({{1.0}, {2}}, {dtype = "float64"}), x, 1e-12)
      assert.close(torch.zeros(1, {dtype = "float64"}), residuals, 1e-12)
      assert.equal(2, rank:item())
      assert.close(linalg.svdvals(a), values, 1e-12)
      assert.close(torch.tensor({1.0, 2}, {dtype = "float64"}), (linalg.lstsq(a, b:select(2, 1))), 1e-12)
   end)

   it("lstsq leaves out results that a driver does not compute", function()
      local a, b = random(4, 2), random(4, 3)
      for driver, shapes in sorted {
         gelsy = {{0}, {}, {0}}, gels = {{3}, {0}, {0}}, gelsd = {{3}, {}, {2}}, gelss = {{3}, {}, {2}},
      } do
         local _, residuals, rank, values = linalg.lstsq(a, b, {driver = driver})
         assert.same(shapes, {residuals.shape, rank.shape, values.shape}, driver)
      end
      assert.raises("linalg.lstsq", "driver", "'gelx'", function() linalg.lstsq(a, b, {driver = "gelx"}) end)
   end)

   it("lstsq differentiates through its solution and its residuals", function()
      assert.gradcheck(function(a, b)
         local x, residuals = linalg.lstsq(a, b, {driver = "gelsd"})
         return x, residuals
      end, {leaf(random(4, 2)), leaf(random(4, 3))})
   end)

   it("pinv fulfils Penrose's conditions", function()
      local a = random(4, 2):matmul(random(2, 3)) -- `a` has rank 2
      local p = linalg.pinv(a)
      assert.close(a, a:matmul(p):matmul(a), 1e-10)
      assert.close(p, p:matmul(a):matmul(p), 1e-10)
      assert.close(a:matmul(p), a:matmul(p):t(), 1e-10)
      assert.equal(2, linalg.matrix_rank(a):item())
   end)

   it("pinv and matrix_rank take tolerances, for each matrix too", function()
      local a = torch.diag(torch.tensor {4, 0.5, -0.01})
      local batch = torch.stack {a, a}
      for _, row in ipairs {
         {3, a, {}}, {2, a, {atol = 0.1}}, {1, a, {rtol = 0.25}}, {1, a, {atol = 0.1, rtol = torch.tensor(0.2)}},
         {2, a, {atol = 0.1, hermitian = true}},
      } do
         assert.equal(row[1], linalg.matrix_rank(row[2], row[3]):item())
      end
      assert.close(torch.tensor {2, 1}, linalg.matrix_rank(batch, {atol = torch.tensor {0.1, 1}}), 0)
      local inverse = torch.diag(torch.tensor {0.25, 2, 0})
      assert.close(inverse, linalg.pinv(a, {atol = 0.1}), 1e-6)
      assert.close(inverse, linalg.pinv(a, {rtol = 0.1, hermitian = true}), 1e-6)
      assert.gradcheck(function(x) return linalg.pinv(symmetric(x), {hermitian = true}) end, {leaf(spread(3))})
   end)

   it("matrix_exp of a rotation's generator is the rotation", function()
      for _, angle in ipairs {0.3, 3.0, 20.0} do
         local g = torch.tensor({{0, -angle}, {angle, 0}}, {dtype = "float64"})
         local c, s = math.cos(angle), math.sin(angle)
         assert.close(torch.tensor({{c, -s}, {s, c}}, {dtype = "float64"}), linalg.matrix_exp(g), 1e-11)
      end
   end)

   it("matrix_exp solves for half types in float32", function()
      local a = torch.tensor {{1, 0.5}, {0, -1}}
      for _, dtype in ipairs {"float16", "bfloat16"} do
         assert.close(linalg.matrix_exp(a):to(dtype), linalg.matrix_exp(a:to(dtype)), 0)
      end
   end)

   it("lu_unpack takes lu_factor apart", function()
      local a = torch.tensor {{0.0, 2, 4}, {3, 1, 5}}
      local LU, pivots = linalg.lu_factor(a)
      local P, L, U = torch.lu_unpack(LU, pivots)
      assert.close(a, P:mm(L):mm(U), 1e-6)
      local _, l = torch.lu_unpack(LU, pivots, false)
      assert.same({0}, l.shape)
      assert.raises("lu_unpack", "int64", function() torch.lu_unpack(LU, pivots:long()) end)
      for _, wrong in ipairs {0, -1, 3, -2147483648, 2147483647} do
         local rows = torch.tensor({wrong, 1}, {dtype = "int32"})
         assert.raises("lu_unpack: expected as pivots rows from 1 to 2", tostring(rows[1]:item()),
            function() torch.lu_unpack(LU, rows) end)
         assert.raises("linalg.lu_solve: expected as pivots", "from 1 to 2",
            function() linalg.lu_solve(torch.ones(2, 2), rows, torch.ones(2, 1)) end)
      end
   end)

   it("vander lists powers", function()
      assert.close(torch.tensor {{1, 2, 4}, {1, 3, 9}}, linalg.vander(torch.tensor {2, 3}, {N = 3}), 0)
      assert.close({{1, 0.5}}, linalg.vander(torch.tensor(0.5), {N = 2}), 0)
      assert.raises("vander: N", "1", function() linalg.vander(torch.tensor {2}) end)
      assert.raises("vander", "bool", function() linalg.vander(torch.tensor {true, false}) end)
   end)

   it("tensorinv and tensorsolve see matrices", function()
      local a = spread(6):reshape(2, 3, 6)
      local b = torch.ones(2, 3, {dtype = "float64"})
      local x = linalg.tensorsolve(a, b)
      assert.close(b, torch.tensordot(a, x, 1), 1e-10)
      assert.close(x, linalg.tensorsolve(a:permute(3, 1, 2), b, {1}), 1e-10)
      assert.close(x, torch.tensordot(linalg.tensorinv(a), b, 2), 1e-10)
      assert.raises("tensorinv", "[2, 3, 6]", function() linalg.tensorinv(a, 1) end)
      assert.raises("tensorsolve", "unknowns", function() linalg.tensorsolve(a, b[1]) end)
   end)

   it("matrix_power takes exponents of many bits, all of them set", function()
      -- The matrix `cycle` rotates 7 rows. Its powers are exact, and depend only on the exponent modulo 7.
      local cycle = torch.eye(7, {dtype = "float64"}):roll(1, 1)
      for _, n in ipairs {2^50 - 1, 2^62 - 1, math.maxinteger, -(2^50 - 1)} do
         n = math.tointeger(n)
         local expected = torch.eye(7, {dtype = "float64"}):roll(n % 7, 1)
         assert.close(expected, linalg.matrix_power(cycle, n), 0)
      end
   end)

   it("matrix_power counts negative powers from the inverse", function()
      local a = spread(3)
      assert.close(a:matmul(a):matmul(a), linalg.matrix_power(a, 3), 1e-10)
      assert.close(linalg.inv(a:matmul(a)), linalg.matrix_power(a, -2), 1e-10)
      assert.close(torch.eye(3, {dtype = "float64"}), linalg.matrix_power(a, 0), 0)
   end)

   it("norms of a matrix worked out by hand", function()
      local a = torch.tensor({{3.0, -4}, {0, 0}}, {dtype = "float64"})
      assert.close(5, linalg.norm(a):item(), 1e-12)
      assert.close(5, linalg.matrix_norm(a, "nuc"):item(), 1e-12)
      assert.close(4, linalg.norm(a, 1):item(), 1e-12)
      assert.close(7, linalg.norm(a, math.huge):item(), 1e-12)
      assert.close(7, linalg.vector_norm(a, 1):item(), 1e-12)
      assert.close(math.huge, linalg.cond(a):item(), 0)
      assert.close({4.0, 7, 5}, {linalg.matrix_norm(a, 1):item(), linalg.matrix_norm(a, math.huge):item(),
                                 linalg.matrix_norm(a, 2):item()}, 1e-12)
      assert.close(2.0, linalg.cond(torch.diag(torch.tensor {4.0, 2}), 1):item(), 1e-6)
      for _, ord in ipairs {1, 2, math.huge, "nuc", "fro"} do
         assert.close({{0.0}}, linalg.norm(torch.zeros(0, 0), ord, {keepdim = true}), 0)
      end
   end)

   it("the forms with info say which matrix is at fault, and raise errors if asked to", function()
      local batch = torch.stack {torch.eye(2), torch.tensor {{1.0, 2}, {2, 4}}, torch.tensor {{1.0, 2}, {2, 1}}}
      local _, not_positive = linalg.cholesky_ex(batch)
      assert.close(torch.tensor({0, 2, 2}, {dtype = "int32"}), not_positive, 0)
      local inverse, info = linalg.inv_ex(batch)
      assert.close(torch.tensor({0, 2, 0}, {dtype = "int32"}), info, 0)
      assert.close(torch.tensor {{-1.0, 2}, {2, -1}} / 3, inverse[3], 1e-6)
      local x = linalg.solve_ex(batch[3], torch.tensor {3.0, 3})
      assert.close({1.0, 1}, x, 1e-6)
      local lu = table.pack(linalg.lu_factor_ex(batch))
      assert.close(info, lu[3], 0)
      for _, name in ipairs {"cholesky_ex", "inv_ex", "lu_factor_ex"} do
         assert.raises("linalg." .. name, "matrix 2", function() linalg[name](batch, {check_errors = true}) end)
      end
      assert.raises("linalg.solve_ex", "singular",
         function() linalg.solve_ex(batch[2], torch.ones(2), {check_errors = true}) end)
   end)

   it("multi_dot multiplies in the cheapest order and gives the same", function()
      local a, b, c = random(2, 30), random(30, 3), random(3, 20)
      assert.close(a:matmul(b):matmul(c), linalg.multi_dot({a, b, c}), 1e-12)
      assert.raises("linalg.multi_dot", "tensor 2", function() linalg.multi_dot({a, c}) end)
   end)

   it("takes empty batches and empty matrices", function()
      assert.same({0, 3, 3}, linalg.inv(torch.zeros(0, 3, 3)).shape)
      assert.equal(1, linalg.det(torch.zeros(0, 0)):item())
      local u, s = linalg.svd(torch.zeros(3, 0))
      assert.close(torch.eye(3), u, 0)
      assert.same({0}, s.shape)
   end)
end)

describe("torch itself and methods", function()
   local a = torch.tensor({{4.0, 2}, {2, 3}}, {dtype = "float64"})
   local lower = torch.tensor({{2.0, 0}, {1, math.sqrt(2)}}, {dtype = "float64"})
   local inverse = {{0.375, -0.25}, {-0.25, 0.5}}
   -- Each row has a name, an argument, further arguments and the expected result.
   local rows = {
      {"det", a, {}, 8.0}, {"logdet", a, {}, math.log(8)}, {"inverse", a, {}, inverse}, {"pinverse", a, {}, inverse},
      {"matrix_power", a, {2}, {{20.0, 14}, {14, 13}}}, {"cholesky", a, {}, lower}, {"cholesky", a, {true}, lower:t()},
      {"cholesky_inverse", lower, {}, inverse}, {"cholesky_inverse", lower:t(), {true}, inverse},
      {"cholesky_solve", torch.eye(2, {dtype = "float64"}), {lower}, inverse},
   }
   for _, row in ipairs(rows) do
      it("have " .. row[1], function()
         local name, x, more, expected = table.unpack(row)
         assert.close(expected, torch[name](x, table.unpack(more)), 1e-12)
         assert.close(expected, x[name](x, table.unpack(more)), 1e-12)
      end)
   end

   it("have factorizations", function()
      local sign, log = a:slogdet()
      assert.close({1.0, math.log(8)}, {sign:item(), log:item()}, 1e-12)
      local q, r = a:narrow(2, 1, 1):qr(false)
      assert.same({{2, 2}, {2, 1}}, {q.shape, r.shape})
      local u, s, v = torch.svd(random(3, 2), false)
      assert.same({{3, 3}, {2}, {2, 2}}, {u.shape, s.shape, v.shape})
      u, s, v = a:svd()
      assert.close(a, u:matmul(torch.diag(s)):matmul(v:t()), 1e-12)
      u = a:svd(true, false)
      assert.close(torch.zeros(2, 2, {dtype = "float64"}), u, 0)
   end)

   it("report logarithms that do not exist and singular matrices", function()
      local negative = torch.tensor {{0.0, 1}, {1, 0}}:logdet():item()
      assert.is_true(negative ~= negative)
      local zeros = leaf(torch.zeros(2, 2))
      assert.equal(-math.huge, zeros:logdet():item())
      assert.is_false(torch.autograd.grad(zeros:logdet(), {zeros}):isfinite():any():item())
      assert.raises("cholesky_inverse", "singular", function() torch.zeros(2, 2):cholesky_inverse() end)
   end)

   it("give cholesky_solve the derivative by all of L", function()
      -- x = 1 / l^2
      local l = leaf(torch.tensor({{2.0}}, {dtype = "float64"}))
      local one = torch.ones(1, 1, {dtype = "float64"})
      assert.close({{-0.25}}, torch.autograd.grad(one:cholesky_solve(l):sum(), {l}), 1e-12)
      assert.gradcheck(function(x, b)
         return b:cholesky_solve(linalg.cholesky(symmetric(x), {upper = true}), true)
      end, {leaf(spread(3)), leaf(random(3, 2))})
   end)
end)

describe("Householder's reflections", function()
   it("as geqrf gives them make qr's factors", function()
      for _, a in ipairs {random(5, 3), random(2, 4, 4)} do
         local packed, tau = torch.geqrf(a)
         local q, r = linalg.qr(a)
         assert.close(r, packed:narrow(-2, 1, r.shape[#r.shape - 1]):triu(), 1e-12)
         assert.close(q, linalg.householder_product(packed, tau), 1e-12)
         assert.close(q, torch.orgqr(packed, tau), 1e-12)
      end
      local wide, tau = torch.geqrf(random(2, 5))
      assert.same({2, 5}, wide.shape)
      assert.same({2}, tau.shape)
   end)

   it("are the identity for no reflections; errors name the argument that does not fit", function()
      local q = linalg.householder_product(random(2, 3, 2), torch.zeros(2, 0, {dtype = "float64"}))
      assert.same({{{1, 0}, {0, 1}, {0, 0}}, {{1, 0}, {0, 1}, {0, 0}}}, q:tolist())
      local A, tau = random(3, 2):requires_grad_(), torch.zeros(0, {dtype = "float64", requires_grad = true})
      linalg.householder_product(A, tau):sum():backward()
      assert.close(torch.zeros(3, 2, {dtype = "float64"}), A.grad, 0)
      assert.raises("linalg.householder_product: expected reflectors (..., m, n) with m >= n", "[2, 3]",
         function() linalg.householder_product(random(2, 3), random(2)) end)
      assert.raises("linalg.householder_product: expected scales (..., k) with k <= n", "[3]",
         function() linalg.householder_product(random(3, 2), random(3)) end)
   end)
end)

describe("ormqr", function()
   it("multiplies with the whole Q of geqrf, from either side, transposed or not", function()
      for _, sizes in ipairs {{5, 3}, {3, 5}, {4, 4}} do
         local m, a = sizes[1], random(2, sizes[1], sizes[2])
         local q, packed, tau = linalg.qr(a, "complete"), torch.geqrf(a)
         local right, left = random(2, m, 2), random(2, 2, m)
         assert.close(q:matmul(right), torch.ormqr(packed, tau, right), 1e-12)
         assert.close(q.mT:matmul(right), packed:ormqr(tau, right, true, true), 1e-12)
         assert.close(left:matmul(q), torch.ormqr(packed, tau, left, false), 1e-12)
         assert.close(left:matmul(q.mT), torch.ormqr(packed, tau, left, {left = false, transpose = true}), 1e-12)
      end
   end)

   it("names the argument that does not fit", function()
      assert.raises("ormqr: expected reflectors (..., m, n), scales (..., min(m, n)) and other (..., m, k)",
         "float64 of shape [3, 2]", function() torch.ormqr(random(4, 3), random(3), random(3, 2)) end)
      assert.raises("other (..., k, m)", function() torch.ormqr(random(4, 3), random(3), random(4, 2), false) end)
      assert.raises("ormqr", function() torch.ormqr(random(4, 3), random(4), random(4, 2)) end)
   end)
end)

describe("L D L^T", function()
   -- PyTorch has computed the factorization. The diagonal is zero, so the factorization has a block of size 2.
   local indefinite = torch.tensor({{2.0, 9, 9}, {1, 0, 9}, {3, -1, -4}}, {dtype = "float64"})

   it("of indefinite matrices is LAPACK's", function()
      local ld, pivots, info = linalg.ldl_factor_ex(indefinite)
      assert.close(torch.tensor({{2, 0, 0}, {0.5, -8.5, 0}, {1.5, 5 / 17, 4 / 17}}, {dtype = "float64"}), ld, 1e-14)
      assert.same({1, 3, 3}, pivots:tolist())
      assert.equal("int32", pivots.dtype)
      assert.equal(0, info:item())
      local swap = torch.tensor({{0.0, 1}, {1, 0}})
      assert.same({-2, -2}, (select(2, linalg.ldl_factor(swap))):tolist())
   end)

   it("solves, also batches that broadcast", function()
      local a = torch.stack({symmetric(random(4, 4)), torch.eye(4, {dtype = "float64"}):flip(1)})
      local ld, pivots = linalg.ldl_factor(a, {hermitian = true})
      local b = random(3, 1, 4, 2)
      local x = linalg.ldl_solve(ld, pivots, b)
      assert.same({3, 2, 4, 2}, x.shape)
      assert.close(b:expand(3, 2, 4, 2), a:matmul(x), 1e-11)
      local single = linalg.ldl_solve(ld[1], pivots[1], b[{1, 1}])
      assert.close(b[{1, 1}], a[1]:matmul(single), 1e-11)
      assert.same({0, 2}, linalg.ldl_solve(torch.zeros(0, 0), torch.zeros(0, {dtype = "int32"}),
         torch.zeros(0, 2)).shape)
   end)

   it("refuses singular matrices and invalid pivots", function()
      assert.raises("linalg.ldl_factor", "singular", function() linalg.ldl_factor(torch.zeros(2, 2)) end)
      assert.equal(1, (select(3, linalg.ldl_factor_ex(torch.zeros(2, 2)))):item())
      assert.raises("linalg.ldl_factor: expected square", function() linalg.ldl_factor(random(2, 3)) end)
      local ld, b = torch.eye(3), torch.ones(3, 1)
      for _, wrong in ipairs {{0, 1, 2}, {1, 2, 4}, {1, 2, -3}, {-2, -3, 1}, {-4, -4, 3}} do
         assert.raises("linalg.ldl_solve: pivots: expected those of linalg.ldl_factor",
            function() linalg.ldl_solve(ld, torch.tensor(wrong, {dtype = "int32"}), b) end)
      end
      local pivots = torch.tensor({1, 2, 3}, {dtype = "int32"})
      assert.raises("linalg.ldl_solve: B: expected matrices", function() linalg.ldl_solve(ld, pivots, b[{{}, 1}]) end)
      assert.raises("linalg.ldl_solve: expected A and B of one dtype",
         function() linalg.ldl_solve(ld, pivots, b:double()) end)
   end)
end)

it("torch.lu gives lu_factor's results, and with get_infos no error", function()
   local a = random(3, 4)
   local lu, pivots = linalg.lu_factor(a)
   local packed, order, none = torch.lu(a)
   assert.close(lu, packed, 0)
   assert.same(pivots:tolist(), order:tolist())
   assert.equal(nil, none)
   local _, _, info = a:lu(true, true)
   assert.equal(0, info:item())
   assert.equal(1, (select(3, torch.lu(torch.zeros(2, 2), {get_infos = true}))):item())
   assert.equal(nil, (select(3, torch.lu(a, true, false))))
   local p, l, u = torch.lu_unpack(packed, order)
   assert.close(a, p:matmul(l):matmul(u), 1e-12)
end)

it("older names of solvers take the right side first", function()
   local a, b = spread(3), random(3, 2)
   local lu, pivots = linalg.lu_factor(a)
   assert.close(linalg.solve(a, b), b:lu_solve(lu, pivots), 1e-12)
   local x, copy = torch.triangular_solve(b, a)
   assert.close(b, a:triu():matmul(x), 1e-12)
   assert.close(a, copy, 0)
   x = b:triangular_solve(a, false, true)
   assert.close(b, a:tril():t():matmul(x), 1e-12)
   x = b:triangular_solve(a, {unitriangular = true})
   assert.close(b, (a:triu(1) + torch.eye(3, {dtype = "float64"})):matmul(x), 1e-12)
end)

describe("svd_lowrank and pca_lowrank", function()
   -- Returns a matrix of rank 3 whose singular values are 5, 2 and 1.
   local function of_rank_3(m, n)
      local u = linalg.qr(random(m, 3))
      local v = linalg.qr(random(n, 3))
      return (u * torch.tensor({5, 2, 1}, {dtype = "float64"})):matmul(v:t())
   end

   it("give the factors of a matrix of low rank", function()
      for _, shape in ipairs {{20, 8}, {8, 20}} do
         local a = of_rank_3(table.unpack(shape))
         local u, s, v = torch.svd_lowrank(a, 4)
         assert.close({5, 2, 1, 0}, s, 1e-12)
         assert.close(a, (u * s):matmul(v:t()), 1e-12)
         assert.close(torch.eye(4, {dtype = "float64"}), u:t():matmul(u), 1e-12)
         assert.same({{shape[1], 4}, {4}, {shape[2], 4}}, {u.shape, s.shape, v.shape})
      end
      local a = of_rank_3(9, 7)
      local _, s = torch.svd_lowrank(a + 3, {q = 3, niter = 1, M = torch.full({9, 7}, 3, {dtype = "float64"})})
      assert.close({5, 2, 1}, s, 1e-12)
      local batch = torch.stack {a, a * 2}
      local _, both = torch.svd_lowrank(batch, 3)
      assert.close({{5, 2, 1}, {10, 4, 2}}, both, 1e-12)
   end)

   it("give principal components of the samples without their mean", function()
      local a = of_rank_3(30, 6)
      local _, s, v = torch.pca_lowrank(a + 100, 3)
      local _, exact, vh = linalg.svd(a - a:mean(1, true), {full_matrices = false})
      assert.close(exact[{{1, 3}}], s, 1e-10)
      assert.close({1, 1, 1}, (v * vh[{{1, 3}}]:t()):sum(1):abs(), 1e-10)
      local _, raw = torch.pca_lowrank(a, {q = 3, center = false})
      assert.close({5, 2, 1}, raw, 1e-12)
      assert.same({30, 6}, torch.pca_lowrank(a).shape)
   end)

   it("are differentiable", function()
      local a = of_rank_3(9, 7):requires_grad_()
      local _, s = torch.svd_lowrank(a, 3)
      s:sum():backward()
      local u, _, vh = linalg.svd(a:detach(), {full_matrices = false})
      assert.close(u[{{}, {1, 3}}]:matmul(vh[{{1, 3}}]), a.grad, 1e-9)
   end)

   it("refuse arguments that do not fit", function()
      assert.raises("svd_lowrank: q: expected 0 to 3", "got 6", function() torch.svd_lowrank(random(5, 3)) end)
      assert.raises("pca_lowrank: A: expected matrices", function() torch.pca_lowrank(random(5)) end)
      assert.raises("svd_lowrank: A: expected matrices", "float16",
         function() torch.svd_lowrank(random(5, 3):half(), 2) end)
      assert.raises("svd_lowrank: M: expected a tensor that broadcasts to A's shape (5, 3)",
         function() torch.svd_lowrank(random(5, 3), {q = 2, M = random(2, 3)}) end)
      assert.raises("svd_lowrank: A: expected matrices",
         function() torch.svd_lowrank(torch.ones(3, 3, {dtype = "int64"}), 2) end)
   end)
end)

describe("linalg.matrix_sqrth", function()
   local function mean_of_both(a) return (a + a.mT) / 2 end

   it("is the positive-definite square root", function()
      local a = torch.randn(2, 3, 3, {dtype = "float64"})
      a = a:matmul(a.mT) + torch.eye(3, {dtype = "float64"})
      local x = linalg.matrix_sqrth(a)
      assert.close(a, x:matmul(x), 1e-12)
      local lower = a:tril() + torch.ones(3, 3, {dtype = "float64"}):triu(1) * 7
      assert.close(x, linalg.matrix_sqrth(lower), 1e-12)
      a:requires_grad_()
      assert.is_true(torch.autograd.gradcheck(function(b) return linalg.matrix_sqrth(mean_of_both(b)) end, {a}))
      assert.is_true(torch.autograd.gradgradcheck(function(b) return linalg.matrix_sqrth(mean_of_both(b)) end, {a}))
   end)

   it("has a gradient if eigenvalues are equal", function()
      local a = torch.eye(3, {dtype = "float64", requires_grad = true})
      linalg.matrix_sqrth(a):sum():backward()
      assert.close(torch.full({3, 3}, 0.5, {dtype = "float64"}), a.grad, 1e-15)
   end)

   it("takes empty matrices, and refuses others than square ones of floats", function()
      assert.same({0, 3, 3}, linalg.matrix_sqrth(torch.zeros(0, 3, 3)).shape)
      assert.same({0, 0}, linalg.matrix_sqrth(torch.zeros(0, 0)).shape)
      assert.raises("linalg.matrix_sqrth: A: expected matrices (..., n, n), got shape [2, 3]",
         function() linalg.matrix_sqrth(torch.zeros(2, 3)) end)
      assert.raises("linalg.matrix_sqrth: A: expected float32, float64 or complex, got int64",
         function() linalg.matrix_sqrth(torch.zeros(2, 2):long()) end)
      assert.is_true(linalg.matrix_sqrth(-torch.eye(2)):isnan():all():item())
   end)
end)

describe("linalg.polar", function()
   it("splits a matrix into orthonormal columns and a positive matrix", function()
      local a = torch.randn(2, 4, 3, {dtype = "float64", requires_grad = true})
      local u, h = linalg.polar(a)
      assert.close(a, u:matmul(h), 1e-13)
      assert.close(torch.eye(3, {dtype = "float64"}):expand(2, 3, 3), u.mT:matmul(u), 1e-13)
      assert.close(h.mT, h, 1e-13)
      assert.is_true(torch.autograd.gradcheck(linalg.polar, {a}))
      assert.is_true(torch.autograd.gradgradcheck(linalg.polar, {a}))
   end)

   it("takes complex and empty matrices, and refuses wide ones", function()
      local a = torch.randn(3, 3, {dtype = "complex128", requires_grad = true})
      local u, h = linalg.polar(a)
      assert.close(torch.view_as_real(a), torch.view_as_real(u:matmul(h)), 1e-13)
      assert.is_true(torch.autograd.gradcheck(linalg.polar, {a}))
      assert.same({4, 0}, linalg.polar(torch.zeros(4, 0)).shape)
      assert.raises("linalg.polar: A: expected matrices (..., m, n) with m >= n, got shape [2, 3]",
         function() linalg.polar(torch.zeros(2, 3)) end)
   end)
end)
