-- torch.linalg: factorizations, linear systems and functions derived from them, by LAPACK
-- (lapack.lua). All operators support batches: the matrices are the last two dimensions. The dtypes
-- are float32, float64, complex64 and complex128.
--
-- The formulas of the derivatives are from M. Giles, "An extended collection of matrix derivative
-- results for forward and reverse mode algorithmic differentiation", 2008. The formulas for QR and
-- SVD are the same as in PyTorch.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   op(entry)
end

local lapack <const> = "LAPACK computes on the CPU unless cuSOLVER is there"
local function by_lapack(entry)
   entry.waits = lapack
   linalg(entry)
end

by_lapack {"cholesky_backward(Tensor grad, Tensor L) -> Tensor", internal = true, composite = true}
by_lapack {"cholesky(Tensor A, *, bool upper=false) -> Tensor",
    node = "LinalgCholeskyEx",
    doc = [[Returns L with A = L L^T (complex: L L^H) for symmetric (Hermitian) positive definite A
    (..., n, n), of which only the lower triangle is read; with upper, the (conjugate) transpose of
    L. If a matrix is not positive definite, the error names it.]],
    composite = true,
           autocast = {cpu = "float32"},
           examples = {"SPD(3)", "SPD(2, 3), {upper = true}"}, gradcheck = false}
example("cholesky", [=[
   print(torch.linalg.cholesky(torch.tensor {{4.0, 2.0}, {2.0, 5.0}}))
   --> tensor([[2., 0.],
   -->         [1., 2.]])]=])
by_lapack {"cholesky_solve(Tensor B, Tensor L_, *, bool upper=false) -> Tensor",
    doc = "Returns X with A X = B, given A's Cholesky factor L (..., n, n) and B (..., n, k).",
    composite = true, gradcheck = false,
           autocast = {cpu = "float32"}, examples = {"T(3, 2), SPD(3)"}}
by_lapack {[[cholesky_solve_backward(Tensor grad, Tensor L_, Tensor X, bool upper)
      -> (Tensor gB, Tensor gL)]],
    internal = true, composite = true}
by_lapack {"inv(Tensor A) -> Tensor",
    doc = "Returns the inverse of square matrices; a singular one is an error.", composite = true,
    autocast = {cpu = "float32"},
    examples = {"SPD(3)", "SPD(2, 3)"}}
example("inv", [=[
   local a = torch.tensor {{2.0, 0.0}, {0.0, 4.0}}
   print(torch.linalg.inv(a):round {decimals = 4})
   --> tensor([[0.5000, 0.0000],
   -->         [0.0000, 0.2500]])]=])
by_lapack {[[slogdet_backward(Tensor grad_sign, Tensor grad_log, Tensor A, Tensor sign)
      -> Tensor]], internal = true, composite = true}
by_lapack {"det_backward(Tensor grad, Tensor A, Tensor det) -> Tensor", internal = true,
    composite = true}
by_lapack {"solve(Tensor A, Tensor B, *, bool left=true) -> Tensor",
    node = "LinalgSolveEx",
    doc = [[Returns X with A X = B (or X A = B if left is false) for square A (..., n, n), and B
    (..., n, k) or, for a batch of vectors, (..., n). A singular A is an error.]],
    composite = true,
           autocast = {cpu = "float32"},
           examples = {"SPD(3), T(3, 2)", "SPD(2, 3), T(2, 3, 1)", "SPD(3), T(3)"}}
example("solve", [[
   local a = torch.tensor {{2.0, 0.0}, {1.0, 1.0}}
   print(torch.linalg.solve(a, torch.tensor {4.0, 5.0}):round())
   --> tensor([2., 3.])]])
by_lapack {"solve_square(Tensor A, Tensor B) -> Tensor", name = "solve", internal = true,
    composite = true}
by_lapack {[[solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=true,
      bool unitriangular=false) -> Tensor]],
    node = "LinalgSolveTriangular",
    doc = [[Returns X with A X = B (or X A = B if left is false) for triangular A (..., n, n).
    `upper` chooses the triangle that is read; with unitriangular the diagonal counts as ones.]],
    composite = true,
    examples = {"SPD(3), T(3, 2), {upper = false}", "SPD(3), T(3, 2), {upper = true}",
                                  "SPD(2, 3), T(2, 4, 3), {upper = true, left = false}",
                                  "SPD(3), T(3, 2), {upper = true, unitriangular = true}"}}
by_lapack {[[triangular_other(Tensor grad, Tensor A, bool upper, bool transpose, bool unit)
      -> Tensor]], internal = true,
    composite = true}
by_lapack {[[triangular_backward(Tensor grad, Tensor A, Tensor X, bool upper, bool transpose,
      bool unit) -> Tensor]],
    internal = true, composite = true}
by_lapack {"lu_factor(Tensor A, *, bool pivot=true) -> (Tensor LU, Tensor pivots)",
    doc = [[Returns the LU factorization with partial pivoting: L, whose diagonal of ones is left
    out, and U in one tensor (..., m, n), and LAPACK's pivots (..., min(m, n)), int32, which count
    from 1. pivot = false is refused.]],
    composite = true, examples = {"SPD(3)", "SPD(2, 3)", "T(3, 4)", "T(4, 3)"}}
by_lapack {"lu_factor_backward(Tensor grad, Tensor LU, Tensor pivots) -> Tensor", internal = true,
    composite = true}
by_lapack {"lu(Tensor A, *, bool pivot=true) -> (Tensor P, Tensor L, Tensor U)",
    node = "LinalgLu",
    doc = [[Returns P, L, U with A = P L U: a permutation matrix, a lower triangular matrix with
    ones on its diagonal, and an upper triangular one.]],
    composite = true, examples = {"SPD(3)", "SPD(2, 3)", "T(3, 4)", "T(4, 3)"}}
op {[[lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=true, bool unpack_pivots=true)
      -> (Tensor P, Tensor L, Tensor U)]], method = false,
    node = "LuUnpack",
    doc = [[Returns P, L, U, given the results of torch.linalg.Computes lu_factor; results that are
    not asked for are empty.]],
    composite = true, waits = lapack,
    examples = {"SPD(3), torch.tensor({1, 2, 3}, {dtype = 'int32'})",
                                  "SPD(2), torch.tensor({2, 2}, {dtype = 'int32'}), true, false"}}
by_lapack {[[lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=true, bool adjoint=false)
      -> Tensor]],
    node = "LinalgLuSolve",
    doc = [[Returns X with A X = B (or X A = B if left is false), given lu_factor's results for A;
    adjoint = true replaces A by its conjugate transpose.]],
    composite = true,
    autocast = {cpu = "float32"},
    examples = {"SPD(3), torch.tensor({1, 2, 3}, {dtype = 'int32'}), T(3, 2)",
                "SPD(3), torch.tensor({3, 2, 3}, {dtype = 'int32'}), T(2, 3), "
                   .. "{left = false, adjoint = true}"}}
by_lapack {[[ldl_factor(Tensor A, *, bool hermitian=false) -> (Tensor LD, Tensor pivots)]],
    doc = [[Returns the factorization L D L^T of symmetric A (..., n, n), of which the lower
    triangle is read. LD holds L, whose diagonal of ones is left out, below its diagonal, and D,
    blocks of size 1 and 2, on and beside it. LAPACK's pivots (..., n), int32, count from 1;
    negative ones mark blocks of size 2. With hermitian, complex A are Hermitian and equal L D L^H;
    for real numbers it makes no difference.]],
    composite = true, nondiff = "PyTorch has no derivative, either",
    examples = {"SPD(3)", "SPD(2, 3), {hermitian = true}"}}
by_lapack {[[ldl_factor_ex(Tensor A, *, bool hermitian=false, bool check_errors=false)
      -> (Tensor LD, Tensor pivots, Tensor info)]],
    doc = [[The same, but also returns info (int32), which is 0 for each matrix whose D is not
    singular, and raises no error unless check_errors is true.]],
    composite = true, nondiff = "PyTorch has no derivative, either", examples = {"SPD(3)"}}
by_lapack {"ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=false) -> Tensor",
    doc = "Returns X with A X = B (..., n, k), given ldl_factor's results for A.",
    composite = true, nondiff = "PyTorch has no derivative, either",
    examples = {"SPD(3), torch.tensor({1, 2, 3}, {dtype = 'int32'}), T(3, 2)"}}
by_lapack {"qr_backward(Tensor gQ, Tensor gR, Tensor Q, Tensor R, string mode) -> Tensor",
    internal = true,
    composite = true}
by_lapack {"svd(Tensor A, bool full_matrices=true) -> (Tensor U, Tensor S, Tensor Vh)",
    doc = [[Returns the singular value decomposition A = U diag(S) Vh, with S in descending order.
    Without full_matrices U is (m, k) and Vh (k, n), with k = min(m, n). The gradients of U and Vh
    require distinct singular values, and a loss that depends neither on the signs of singular
    vectors (complex: their phases) nor on those beyond k. NaN is an error.]],
    composite = true,
           autocast = {cpu = "float32"}, examples = {"T(3, 4), false"}, gradcheck = false}
example("svd", [=[
   local u, s, vh = torch.linalg.svd(torch.tensor {{3.0, 0.0}, {0.0, 2.0}})
   print(s:round())
   --> tensor([3., 2.])
   print((u * s):matmul(vh):round()) -- u diag(s) vh equals the matrix
   --> tensor([[3., 0.],
   -->         [0., 2.]])]=])
by_lapack {[[svd_backward(Tensor gU, Tensor gS, Tensor gVh, Tensor U, Tensor S, Tensor Vh)
      -> Tensor]], internal = true,
    composite = true}
by_lapack {"svdvals(Tensor A) -> Tensor",
    doc = "Returns the singular values (..., min(m, n)) in descending order. NaN is an error.",
    composite = true,
    autocast = {cpu = "float32"},
    examples = {"T(3, 4)", "SPD(3)"}}
by_lapack {"eigh_backward(Tensor gL, Tensor gV, Tensor L, Tensor V) -> Tensor", internal = true,
    composite = true}
by_lapack {"eigvalsh(Tensor A, string UPLO='L') -> Tensor",
    doc = "Returns the eigenvalues of symmetric or Hermitian matrices in ascending order.",
    composite = true,
           autocast = {cpu = "float32"}, examples = {"SPD(3)"}, gradcheck = false}
by_lapack {"eig_backward(Tensor gL, Tensor gV, Tensor L, Tensor V) -> Tensor", internal = true,
    composite = true}
by_lapack {"eigvals(Tensor A) -> Tensor",
    doc = "Returns the eigenvalues of square matrices (..., n, n), complex numbers in any order.",
    composite = true, autocast = {cpu = "float32"}, examples = {"T(3, 3)", "T(2, 2, 2)"}}

-- Variants of the factorizations that return LAPACK's info for each matrix instead of raising an
-- error. An info of 0 means success.
local info = [[also returns info (int32), which is 0 for each matrix without a fault, and raises no
   error unless check_errors is true.]]
by_lapack {[[cholesky_ex(Tensor A, *, bool upper=false, bool check_errors=false)
      -> (Tensor L, Tensor info)]],
    node = "LinalgCholeskyEx",
    doc = "Computes cholesky; " .. info, composite = true, gradcheck = false,
    autocast = {cpu = "float32"},
    examples = {"SPD(3)", "SPD(2, 3), {upper = true}"}}
by_lapack {"inv_ex(Tensor A, *, bool check_errors=false) -> (Tensor inverse, Tensor info)",
    doc = "Computes inv; " .. info,
    composite = true,
           autocast = {cpu = "float32"}, examples = {"SPD(3)"}}
by_lapack {[[solve_ex(Tensor A, Tensor B, *, bool left=true, bool check_errors=false)
      -> (Tensor result, Tensor info)]],
    node = "LinalgSolveEx", doc = "Computes solve; " .. info, composite = true,
    examples = {"SPD(3), T(3, 2)", "SPD(2, 3), T(2, 2, 3), {left = false}"}}
by_lapack {[[lu_factor_ex(Tensor A, *, bool pivot=true, bool check_errors=false)
      -> (Tensor LU, Tensor pivots, Tensor info)]],
    doc = "Computes lu_factor; " .. info, composite = true,
    examples = {"SPD(3)", "T(3, 4)"}}

-- Functions that are also in torch, and methods ------------------------------------------------

local function same(signature, expr, doc, examples, autocast)
   op {
      signature .. " -> Tensor", doc = doc, expr = expr, autocast = autocast, examples = examples,
   }
end

same("det.torch(Tensor self)", "det(self)", "The same as torch.linalg.det.", {"SPD(3)"})
same("inverse(Tensor self)", "inv(self)", "The same as torch.linalg.inv.", {"SPD(3)"},
   {cpu = "float32"})
op {"cholesky.torch(Tensor self, bool upper=false) -> Tensor", node = "LinalgCholeskyEx",
    doc = "The same as torch.linalg.cholesky.",
    expr = "cholesky(self, upper)", gradcheck = false,
    autocast = {cpu = "float32"}, examples = {"SPD(3), true"}}
op {"cholesky_solve.torch(Tensor self, Tensor L_, bool upper=false) -> Tensor", gradcheck = false,
    doc = "Returns X with A X = self, given A's Cholesky factor L.",
    expr = "cholesky_solve(self, L_, upper)",
    autocast = {cpu = "float32"},
    examples = {"T(3, 2), SPD(3)"}}
op {"cholesky_inverse(Tensor self, bool upper=false) -> Tensor", gradcheck = false,
    node = "CholeskyInverse",
    doc = "Returns the inverse of A, given its Cholesky factor self.",
    composite = true, waits = lapack,
    autocast = {cpu = "float32"},
    examples = {"SPD(3)"}}
op {"slogdet.torch(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    doc = "The same as torch.linalg.slogdet.",
    composite = true, waits = lapack,
    examples = {"SPD(3)"}}
op {"logdet(Tensor self) -> Tensor",
    node = "Where",
    doc = [[Returns the logarithm of the determinant of square matrices: NaN if a real determinant
    is negative, -inf if it is 0.]],
    composite = true, waits = lapack, examples = {"SPD(3)", "SPD(2, 3)"}}
op {"qr.torch(Tensor self, bool some=true) -> (Tensor Q, Tensor R)",
    doc = "Calls torch.linalg.qr in mode 'reduced', or in mode 'complete' if some is false.",
    composite = true,
    waits = lapack,
    autocast = {cpu = "float32"},
    examples = {"T(4, 3)"}}
op {[[svd.torch(Tensor self, bool some=true, bool compute_uv=true)
      -> (Tensor U, Tensor S, Tensor V)]],
    doc = [[Returns U, S, V with self = U diag(S) V^T (complex: V^H). With some = false U and V have
    all columns; with compute_uv = false they are zeros.]],
    composite = true, waits = lapack, gradcheck = false,
    autocast = {cpu = "float32"},
    examples = {"T(3, 4)", "T(4, 3), false"}}

op {"lu.infos(Tensor self, bool pivot=true, true get_infos) "
      .. "-> (Tensor LU, Tensor pivots, Tensor info)",
    doc = "With get_infos = true the same as torch.linalg.lu_factor_ex.", composite = true,
    waits = lapack, examples = {"SPD(3), true, true", "T(3, 4), {get_infos = true}"}}
op {[[lu.factors(Tensor self, bool pivot=true, bool get_infos=false)
      -> (Tensor LU, Tensor pivots)]],
    doc = "The same as torch.linalg.lu_factor.", composite = true, waits = lapack,
    examples = {"SPD(3)", "T(2, 3, 4)"}}
op {"lu_solve.torch(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    node = "LinalgLuSolve",
    doc = "The same as torch.linalg.lu_solve, but the right side comes first.",
    expr = "lu_solve(LU_data, LU_pivots, self)", waits = lapack,
    examples = {"T(3, 2), SPD(3), torch.tensor({1, 2, 3}, {dtype = 'int32'})"}}
op {[[triangular_solve(Tensor self, Tensor A, bool upper=true, bool transpose=false,
      bool unitriangular=false) -> (Tensor solution, Tensor cloned_coefficient)]],
    node = "TriangularSolve",
    doc = [[Returns X with A X = self (with transpose, A^T X = self) for triangular A, and a copy of
    A. torch.linalg.solve_triangular has more options.]],
    composite = true, waits = lapack,
    examples = {"T(3, 2), SPD(3)", "T(2, 3, 2), SPD(2, 3), false, true",
                "T(3, 2), SPD(3), {unitriangular = true}"}}

takes_complex()
