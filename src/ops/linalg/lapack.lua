-- The factorizations that the back end's LAPACK does; internal but for a few. See linalg.lua.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.host = "LAPACK"
   op(entry)
end

-- Those that a device with the routines does itself.
local function anywhere(entry)
   entry.device_lapack = true
   linalg(entry)
end

anywhere {"cholesky_info(Tensor A) -> (Tensor L, Tensor info)",
    name = "cholesky", node = "LinalgCholeskyEx", internal = true,
    grad = {A = "cholesky_backward(grad_L, L)"}}
-- As PyTorch has it, the derivative by L is that of L L^T by all of L.
anywhere {"cholesky_solved(Tensor B, Tensor L_, bool upper) -> Tensor",
    name = "cholesky_solve", node = "CholeskySolve", internal = true,
    grad = {["B, L_"] = "cholesky_solve_backward(grad, L_, result, upper)"}}
anywhere {"inv_info(Tensor A) -> (Tensor inverse, Tensor info)", name = "inv", node = "LinalgInvEx",
    internal = true,
    grad = {A = [[neg(matmul(matmul(transpose(inverse, -2, -1), grad_inverse),
    transpose(inverse, -2, -1)))]]}}
anywhere {"slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", node = "LinalgSlogdet",
    doc = [[Sign and natural logarithm of the absolute value of the determinant; 0 and -inf for
    singular matrices.]],
    grad = {A = "slogdet_backward(grad_logabsdet, A)"}, nograd = {sign = true},
    examples = {"SPD(3)", "SPD(2, 3)"}}
anywhere {"det(Tensor A) -> Tensor", node = "LinalgDet",
    doc = "The determinant of square matrices.",
    grad = {A = "det_backward(grad, A, result)"}, examples = {"SPD(3)", "SPD(2, 3)"}}
anywhere {"solve_info(Tensor A, Tensor B) -> (Tensor solution, Tensor info)",
    name = "solve", node = "LinalgSolveEx", internal = true,
    grad = {A = [[neg(matmul(solve_square(transpose(A, -2, -1), grad_solution),
    transpose(solution, -2, -1)))]],
            B = "solve_square(transpose(A, -2, -1), grad_solution)"}}
anywhere {"triangular(Tensor A, Tensor B, bool upper, bool transpose, bool unit) -> Tensor",
    name = "solve_triangular", node = "LinalgSolveTriangular", internal = true,
    grad = {A = "triangular_backward(grad, A, result, upper, transpose, unit)",
            B = "triangular_other(grad, A, upper, transpose, unit)"}}
anywhere {"lu_factor_info(Tensor A, bool pivot) -> (Tensor LU, Tensor pivots, Tensor info)",
    name = "lu_factor", node = "LinalgLuFactorEx", internal = true,
    grad = {A = "lu_factor_backward(grad_LU, LU, pivots)"}}
linalg {"pivot_matrix(Tensor pivots, int m, dtype dtype) -> Tensor", internal = true,
   nondiff = "a permutation"}
anywhere {"qr(Tensor A, string mode='reduced') -> (Tensor Q, Tensor R)", node = "LinalgQr",
    doc = [[Q, R with A = Q R for A (..., m, n): orthonormal columns and an upper triangle. mode
    "reduced": Q (m, k), R (k, n) with k = min(m, n); "complete": Q (m, m), R (m, n); "r": Q is
    empty.]],
    grad = {A = "qr_backward(grad_Q, grad_R, Q, R, mode)"},
    autocast = {cpu = "float32"},
    examples = {"T(4, 3)", "SPD(3)", "T(3, 4)"}}
anywhere {"householder_columns(Tensor A, Tensor tau) -> Tensor",
    name = "householder_product", internal = true, nondiff = "householder_product has a derivative"}
op {"geqrf(Tensor self) -> (Tensor a, Tensor tau)", host = "LAPACK", device_lapack = true,
    doc = [[LAPACK's QR factorization of self (..., m, n): R on and above the diagonal of a, below
    it and in tau (..., min(m, n)) what torch.linalg.householder_product makes Q of.]],
    nondiff = "torch.linalg.qr has a derivative", examples = {"T(4, 3)", "T(2, 3, 4)"}}
linalg {"ldl_factor_info(Tensor A) -> (Tensor LD, Tensor pivots, Tensor info)",
    name = "ldl_factor", internal = true, nondiff = "PyTorch has no derivative, either"}
linalg {"ldl_solved(Tensor LD, Tensor pivots, Tensor B) -> Tensor",
    name = "ldl_solve", internal = true, nondiff = "PyTorch has no derivative, either"}
anywhere {"svd_full(Tensor A, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)",
    name = "svd", node = "LinalgSvd", internal = true, materialize = false,
    grad = {A = "svd_backward(grad_U, grad_S, grad_Vh, U, S, Vh)"}}
anywhere {"eigh(Tensor A, string UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    node = "LinalgEigh", materialize = false,
    doc = [[Eigenvalues, ascending, and orthonormal eigenvectors (columns) of symmetric matrices, of
    which the lower ("L") or upper ("U") triangle is read. The gradient of eigenvectors takes
    distinct eigenvalues.]],
    grad = {A = "eigh_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"},
    autocast = {cpu = "float32"},
    examples = {"SPD(3)"}, gradcheck = false}
local squares = "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)"
anywhere {"least_squares(Tensor A, Tensor B, float rcond) -> " .. squares,
    name = "lstsq", node = "LinalgLstsq", internal = true, materialize = false,
    grad = {["A, B"] = "lstsq_backward(grad_solution, grad_residuals, A, B, solution)"},
    nograd = {singular_values = true}}
