-- Tests matrix factorizations on a GPU: which routines of cuSOLVER and cuBLAS are called for which matrices, and that
-- the results equal the CPU's. spec/cuda/solver.c checks the arguments of each call.

local torch = require "tlua"
local shell = require "spec.support.shell"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending
local linalg = torch.linalg
local on <const> = {device = "cuda"}

-- Runs a program, and returns the library calls that it made, one per line.
local function calls(program)
   local text = shell.ok(("TLUA_EMULATED_SOLVER=1 %s -e %s 2>&1"):format(shell.start(),
      shell.quote('local on = {device = "cuda"}; local linalg = torch.linalg; ' .. program)))
   return (text:gsub("\n$", ""))
end

-- Returns the largest absolute difference between two tensors.
local function apart(a, b) return (a:cpu() - b:cpu()):abs():max():item() end

describe("linear algebra on a GPU", function()
   emulated("uses one batched call for many small matrices, and one call for each large one", function()
      assert.equal("potrfBatched n=4 batch=3\ngetrfBatched n=4 batch=3\n" ..
         "getrsBatched n=4 nrhs=1 batch=3\ntrsmBatched m=2 n=4 batch=3\n" ..
         "geqrfBatched m=5 n=4 batch=3\norgqr m=5 n=4 k=4\norgqr m=5 n=4 k=4\norgqr m=5 n=4 k=4\n" ..
         "syevjBatched n=4 batch=3\ngesvdjBatched m=4 n=4 batch=3", calls [[
            local a = torch.eye(4, on):expand(3, 4, 4)
            linalg.cholesky(a)
            linalg.solve(a, torch.ones(3, 4, 1, on))
            linalg.solve_triangular(a, torch.ones(3, 4, 2, on), {upper = true})
            linalg.qr(torch.ones(3, 5, 4, on))
            linalg.eigh(a)
            linalg.svd(a)]])
      assert.equal("potrf n=300\ngetrf m=300 n=300\ngetrf m=300 n=300\n" ..
         "trsm m=1 n=300\ntrsm m=1 n=300\ngeqrf m=300 n=2\ngeqrf m=300 n=2\nsyevd n=33\nsyevd n=33\n" ..
         "gesvdj m=5 n=4 econ=1\ngesvdj m=5 n=4 econ=1", calls [[
            local eye = torch.eye(300, on)
            linalg.cholesky(eye)
            linalg.lu_factor(eye:expand(2, 300, 300))
            linalg.solve_triangular(eye:expand(2, 300, 300), torch.ones(2, 300, 1, on), {upper = true})
            torch.geqrf(torch.ones(2, 300, 2, on))
            linalg.eigh(torch.eye(33, on):expand(2, 33, 33))
            linalg.svd(torch.ones(2, 5, 4, on), false)]])
   end)

   it("waits only if an error must name a matrix", function()
      local a = torch.eye(3, on) * 4
      local before = torch.cuda.waits()
      linalg.cholesky_ex(a)
      linalg.lu_factor_ex(a)
      linalg.inv_ex(a)
      linalg.solve_ex(a, torch.ones(3, 1, on))
      linalg.qr(a)
      linalg.slogdet(a)
      linalg.det(a)
      linalg.solve_triangular(a, torch.ones(3, 1, on), {upper = false})
      assert.equal(before, torch.cuda.waits())
      assert.raises("linalg.cholesky: the matrix is not positive definite", function() linalg.cholesky(-a) end)
      assert.raises("linalg.cholesky: matrix 2 of the batch is not positive definite",
         function() linalg.cholesky(torch.stack {a, -a}) end)
      assert.raises("linalg.inv: the matrix is singular", function() linalg.inv(a * 0) end)
   end)

   it("has the CPU's results", function()
      torch.manual_seed(3)
      for _, dtype in ipairs {"float32", "float64"} do
         local tolerance = dtype == "float32" and 1e-4 or 1e-12
         for _, sizes in ipairs {{4, 4}, {3, 5, 5}, {2, 3, 40, 40}, {2, 300, 300}} do
            local a = torch.randn(sizes, {dtype = dtype, device = "cpu"})
            local n = sizes[#sizes]
            local spd = a:matmul(a:transpose(-2, -1)) + n * torch.eye(n, {dtype = dtype, device = "cpu"})
            local there, b = spd:cuda(), a:narrow(-1, 1, 2):contiguous()
            local l = linalg.cholesky(spd)
            assert.is_true(apart(linalg.cholesky(there), l) < tolerance * n)
            assert.is_true(apart(linalg.solve(there, b:cuda()), linalg.solve(spd, b)) < tolerance)
            assert.is_true(apart(linalg.inv(there), linalg.inv(spd)) < tolerance)
            for _, upper in ipairs {true, false} do
               local t = upper and l:transpose(-2, -1) or l
               assert.is_true(apart(linalg.solve_triangular(t:cuda(), b:cuda(), {upper = upper}),
                  linalg.solve_triangular(t, b, {upper = upper})) < tolerance)
            end
            assert.is_true(apart(linalg.eigvalsh(there), linalg.eigvalsh(spd)) < tolerance * n * 10)
            local sign, size = linalg.slogdet(a:cuda())
            local sign_here, size_here = linalg.slogdet(a)
            assert.is_true(apart(sign, sign_here) == 0)
            assert.is_true(apart(size, size_here) < tolerance * n)
         end
         for _, sizes in ipairs {{5, 3}, {3, 5}, {2, 7, 4}, {3, 2, 6}, {4, 6, 6}} do
            local a = torch.randn(sizes, {dtype = dtype, device = "cpu"})
            local there = a:cuda()
            for _, mode in ipairs {"reduced", "complete"} do
               local q, r = linalg.qr(there, mode)
               assert.is_true(apart(q:matmul(r), a) < tolerance)
            end
            local u, s, vh = linalg.svd(there, false)
            assert.is_true(apart((u * s:unsqueeze(-2)):matmul(vh), a) < tolerance)
            assert.is_true(apart(s, linalg.svdvals(a)) < tolerance)
            local all_u, _, all_v = linalg.svd(there)
            local _, here_s, _ = linalg.svd(a)
            assert.same({all_u.shape[#sizes], all_v.shape[#sizes]}, {sizes[#sizes - 1], sizes[#sizes]})
            assert.is_true(apart(s, here_s) < tolerance)
            local b = torch.randn(a.shape, {dtype = dtype, device = "cpu"})
            local x, rest, rank, values = linalg.lstsq(there, b:cuda(), {driver = "gelsd"})
            local x_here, rest_here, rank_here, values_here = linalg.lstsq(a, b, {driver = "gelsd"})
            assert.is_true(apart(x, x_here) < tolerance * 10)
            assert.same(rest_here.shape, rest.shape)
            assert.same(rank_here:tolist(), rank:tolist())
            assert.is_true(apart(values, values_here) < tolerance)
            if rest:numel() > 0 then assert.is_true(apart(rest, rest_here) < tolerance * 100) end
         end
      end
      assert.is_true(apart(linalg.det(torch.tensor({{0., 2}, {3, 0}}, on)), torch.tensor(-6.)) < 1e-5)
      assert.equal(0, linalg.det(torch.zeros(2, 2, on)):item())
      local x, _, rank = linalg.lstsq(torch.tensor({{1., 1}, {1, 1}, {1, 1}}, on), torch.ones(3, 1, on))
      assert.is_true(apart(x, torch.full({2, 1}, 0.5)) < 1e-6)
      assert.equal(1, rank:item())
   end)

   emulated("computes Householder products in one call for each matrix, unless they have a gradient", function()
      assert.equal("geqrf m=300 n=3\norgqr m=300 n=3 k=2\ntrue", calls [[
         torch.manual_seed(1)
         local a, tau = torch.geqrf(torch.randn(300, 3, on))
         tau = tau:narrow(1, 1, 2)
         local q = linalg.householder_product(a, tau)
         a:requires_grad_()
         local p = linalg.householder_product(a, tau)
         io.stderr:write(tostring(p.requires_grad and (p - q):abs():max():item() < 1e-6))]])
      torch.manual_seed(2)
      for _, sizes in ipairs {{4, 3}, {2, 5, 5}, {2, 3, 4, 1}} do
         local a, tau = torch.geqrf(torch.randn(sizes, {dtype = "float64", device = "cpu"}))
         assert.is_true(apart(linalg.householder_product(a:cuda(), tau:cuda()),
            linalg.householder_product(a, tau)) < 1e-14)
      end
   end)

   emulated("calls LAPACK on the host for matrices that rotations do not decompose", function()
      local output = shell.ok(("TLUA_EMULATED_SOLVER=stuck %s -e %s 2>/dev/null"):format(shell.start(),
         shell.quote [[
            torch.manual_seed(1)
            for _, sizes in ipairs {{5, 3}, {3, 4, 4}, {2, 4, 6}} do
               local a = torch.randn(sizes, {device = "cuda"})
               local u, s, vh = torch.linalg.svd(a, false)
               print(u.device, ((u * s:unsqueeze(-2)):matmul(vh) - a):abs():max():item() < 1e-5)
            end
            local _, message = pcall(torch.linalg.svd, torch.full({3, 2}, 0/0, {device = "cuda"}))
            print(message:match "linalg.svd: [^(]*")]]))
      assert.equal(("cuda:0\ttrue\n"):rep(3) .. "linalg.svd: the matrix has not converged \n", output)
   end)

   emulated("reports cuSOLVER's version", function() assert.equal(120000, torch.cuda._library_version "cusolver") end)
end)
