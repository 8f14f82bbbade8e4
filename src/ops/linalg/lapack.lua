-- Operators that compute Cholesky, L D L^T and LU factorizations by the back end's LAPACK, and
-- operators that solve linear systems with these factorizations. Most of the operators are
-- internal. QR is in qr.lua, singular values and eigenvalues are in eigen.lua.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.host = "LAPACK"
   op(entry)
end

-- Declares an operator that runs on all devices that have LAPACK routines.
local function anywhere(entry)
   entry.device_lapack = true
   linalg(entry)
end

anywhere {"cholesky_info(Tensor A) -> (Tensor L, Tensor info)",
    name = "cholesky", node = "LinalgCholeskyEx", internal = true,
    grad = {A = "cholesky_backward(grad_L, L)"}}
-- As in PyTorch, the gradient of L is the gradient of L L^T with respect to all elements of L.
anywhere {"cholesky_solved(Tensor B, Tensor L_, bool upper) -> Tensor",
    name = "cholesky_solve", node = "CholeskySolve", internal = true,
    grad = {["B, L_"] = "cholesky_solve_backward(grad, L_, result, upper)"}}
anywhere {"inv_info(Tensor A) -> (Tensor inverse, Tensor info)", name = "inv", node = "LinalgInvEx",
    internal = true,
    grad = {A = [[neg(matmul(matmul(conj(transpose(inverse, -2, -1)), grad_inverse),
    conj(transpose(inverse, -2, -1))))]]}}
anywhere {"slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", node = "LinalgSlogdet",
    doc = [[Returns the sign of the determinant and the natural logarithm of its absolute value; 0
    and -inf for singular matrices. A complex determinant's sign is a number of magnitude 1.]],
    materialize = false, grad = {A = "slogdet_backward(grad_sign, grad_logabsdet, A, sign)"},
    examples = {"SPD(3)", "SPD(2, 3)"}}
anywhere {"det(Tensor A) -> Tensor", node = "LinalgDet",
    doc = "Returns the determinant of square matrices (..., n, n).",
    grad = {A = "det_backward(grad, A, result)"}, examples = {"SPD(3)", "SPD(2, 3)"}}
example("det", [[
   print(torch.linalg.det(torch.tensor {{1.0, 2.0}, {3.0, 4.0}}):round())
   --> tensor(-2.)]])
anywhere {"solve_info(Tensor A, Tensor B) -> (Tensor solution, Tensor info)",
    name = "solve", node = "LinalgSolveEx", internal = true,
    grad = {A = [[neg(matmul(solve_square(conj(transpose(A, -2, -1)), grad_solution),
    conj(transpose(solution, -2, -1))))]],
            B = "solve_square(conj(transpose(A, -2, -1)), grad_solution)"}}
anywhere {"triangular(Tensor A, Tensor B, bool upper, bool transpose, bool unit) -> Tensor",
    name = "solve_triangular", node = "LinalgSolveTriangular", internal = true,
    grad = {A = "triangular_backward(grad, A, result, upper, transpose, unit)",
            B = "triangular_other(grad, A, upper, transpose, unit)"}}
anywhere {"lu_factor_info(Tensor A, bool pivot) -> (Tensor LU, Tensor pivots, Tensor info)",
    name = "lu_factor", node = "LinalgLuFactorEx", internal = true,
    grad = {A = "lu_factor_backward(grad_LU, LU, pivots)"}}
linalg {"pivot_matrix(Tensor pivots, int m, dtype dtype) -> Tensor", internal = true,
   nondiff = "a permutation"}
linalg {"lu_solved(Tensor LU, Tensor pivots, Tensor B) -> Tensor", name = "lu_solve",
    internal = true, nondiff = "lu_solve calls differentiable operators if a gradient is needed"}
linalg {"ldl_factor_info(Tensor A, bool hermitian) -> (Tensor LD, Tensor pivots, Tensor info)",
    name = "ldl_factor", internal = true, nondiff = "PyTorch has no derivative, either"}
linalg {"ldl_solved(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor",
    name = "ldl_solve", internal = true, nondiff = "PyTorch has no derivative, either"}

takes_complex()
