-- torch.linalg: factorizations, solutions and what follows from them, by LAPACK. All take batches: the
-- matrices are the last two dimensions. float32 and float64.
--
-- Formulas of the derivatives: M. Giles, "An extended collection of matrix derivative results for
-- forward and reverse mode algorithmic differentiation", 2008; for QR and SVD as PyTorch has them.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   op(entry)
end


linalg {"cholesky_info(Tensor A) -> (Tensor L, Tensor info)",
    name = "cholesky", node = "LinalgCholeskyEx", internal = true,
    grad = {A = "cholesky_backward(grad_L, L)"}}
linalg {"cholesky_backward(Tensor grad, Tensor L) -> Tensor", internal = true, composite = true}
linalg {"cholesky(Tensor A, *, bool upper=false) -> Tensor",
    doc = "L with A = L L^T for symmetric positive definite A (..., n, n), of which the lower triangle is read; with "
       .. "upper the transpose of L. An error names the matrix that is not positive definite.",
    composite = true, examples = {"SPD(3)", "SPD(2, 3), {upper = true}"}, gradcheck = false}
linalg {"cholesky_solve(Tensor B, Tensor L_, *, bool upper=false) -> Tensor",
    doc = "X with A X = B, from A's Cholesky factor L (..., n, n) and B (..., n, k).",
    composite = true, gradcheck = false, examples = {"T(3, 2), SPD(3)"}}
-- As PyTorch has it, the derivative by L is that of L L^T by all of L.
linalg {"cholesky_solved(Tensor B, Tensor L_, bool upper) -> Tensor",
    name = "cholesky_solve", node = "CholeskySolve", internal = true,
    grad = {["B, L_"] = "cholesky_solve_backward(grad, L_, result, upper)"}}
linalg {"cholesky_solve_backward(Tensor grad, Tensor L_, Tensor X, bool upper) -> (Tensor gB, Tensor gL)",
    internal = true, composite = true}
linalg {"inv(Tensor A) -> Tensor",
    doc = "The inverse of square matrices; an error if one is singular.", composite = true,
    examples = {"SPD(3)", "SPD(2, 3)"}}
linalg {"inv_info(Tensor A) -> (Tensor inverse, Tensor info)", name = "inv", node = "LinalgInvEx", internal = true,
    grad = {A = "neg(matmul(matmul(transpose(inverse, -2, -1), grad_inverse), transpose(inverse, -2, -1)))"}}
linalg {"slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", node = "LinalgSlogdet",
    doc = "Sign and natural logarithm of the absolute value of the determinant; 0 and -inf for singular matrices.",
    grad = {A = "slogdet_backward(grad_logabsdet, A)"}, nograd = {sign = true}, examples = {"SPD(3)", "SPD(2, 3)"}}
linalg {"slogdet_backward(Tensor grad, Tensor A) -> Tensor", internal = true, composite = true}
linalg {"det(Tensor A) -> Tensor", node = "LinalgDet", doc = "The determinant of square matrices.",
    grad = {A = "det_backward(grad, A, result)"}, examples = {"SPD(3)", "SPD(2, 3)"}}
linalg {"det_backward(Tensor grad, Tensor A, Tensor det) -> Tensor", internal = true, composite = true}
linalg {"solve(Tensor A, Tensor B, *, bool left=true) -> Tensor",
    doc = [[X with A X = B (or X A = B if left is false) for square A (..., n, n) and B (..., n, k) or, a batch of
    vectors, (..., n). An error if A is singular.]],
    composite = true, examples = {"SPD(3), T(3, 2)", "SPD(2, 3), T(2, 3, 1)", "SPD(3), T(3)"}}
linalg {"solve_square(Tensor A, Tensor B) -> Tensor", name = "solve", internal = true, composite = true}
linalg {"solve_info(Tensor A, Tensor B) -> (Tensor solution, Tensor info)",
    name = "solve", node = "LinalgSolveEx", internal = true,
    grad = {A = "neg(matmul(solve_square(transpose(A, -2, -1), grad_solution), transpose(solution, -2, -1)))",
            B = "solve_square(transpose(A, -2, -1), grad_solution)"}}
linalg {"solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=true, bool unitriangular=false) -> Tensor",
    doc = [[X with A X = B (or X A = B if left is false) for triangular A (..., n, n), of which only the triangle
    `upper` says is read; with unitriangular its diagonal is taken as ones.]],
    composite = true, examples = {"SPD(3), T(3, 2), {upper = false}", "SPD(3), T(3, 2), {upper = true}",
                                  "SPD(2, 3), T(2, 4, 3), {upper = true, left = false}",
                                  "SPD(3), T(3, 2), {upper = true, unitriangular = true}"}}
linalg {"triangular(Tensor A, Tensor B, bool upper, bool transpose, bool unit) -> Tensor",
    name = "solve_triangular", node = "LinalgSolveTriangular", internal = true,
    grad = {A = "triangular_backward(grad, A, result, upper, transpose, unit)",
            B = "triangular_other(grad, A, upper, transpose, unit)"}}
linalg {"triangular_other(Tensor grad, Tensor A, bool upper, bool transpose, bool unit) -> Tensor", internal = true,
    composite = true}
linalg {"triangular_backward(Tensor grad, Tensor A, Tensor X, bool upper, bool transpose, bool unit) -> Tensor",
    internal = true, composite = true}
linalg {"lu_factor(Tensor A, *, bool pivot=true) -> (Tensor LU, Tensor pivots)",
    doc = [[The LU factorization with partial pivoting, L (unit diagonal) and U in one tensor (..., m, n), and
    LAPACK's pivots (..., min(m, n)), int32, which count from 1. There is none without pivoting.]],
    composite = true, examples = {"SPD(3)", "SPD(2, 3)", "T(3, 4)", "T(4, 3)"}}
linalg {"lu_factor_info(Tensor A, bool pivot) -> (Tensor LU, Tensor pivots, Tensor info)",
    name = "lu_factor", node = "LinalgLuFactorEx", internal = true,
    grad = {A = "lu_factor_backward(grad_LU, LU, pivots)"}}
linalg {"lu_factor_backward(Tensor grad, Tensor LU, Tensor pivots) -> Tensor", internal = true, composite = true}
linalg {"lu(Tensor A, *, bool pivot=true) -> (Tensor P, Tensor L, Tensor U)",
    doc = "P, L, U with A = P L U: a permutation matrix, a unit lower and an upper triangular one.",
    composite = true, examples = {"SPD(3)", "SPD(2, 3)", "T(3, 4)", "T(4, 3)"}}
op {"lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=true, bool unpack_pivots=true) "
      .. "-> (Tensor P, Tensor L, Tensor U)", method = false,
    doc = "P, L, U from the results of torch.linalg.lu_factor; what is not asked for is empty.",
    composite = true, examples = {"SPD(3), torch.tensor({1, 2, 3}, {dtype = 'int32'})",
                                  "SPD(2), torch.tensor({2, 2}, {dtype = 'int32'}), true, false"}}
linalg {"pivot_matrix(Tensor pivots, int m, dtype dtype) -> Tensor", internal = true, nondiff = "a permutation"}
linalg {"lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=true, bool adjoint=false) -> Tensor",
    doc = "X with A X = B (or X A = B), from lu_factor's results; with adjoint for A's transpose.", composite = true,
    examples = {"SPD(3), torch.tensor({1, 2, 3}, {dtype = 'int32'}), T(3, 2)",
                "SPD(3), torch.tensor({3, 2, 3}, {dtype = 'int32'}), T(2, 3), {left = false, adjoint = true}"}}
linalg {"qr(Tensor A, string mode='reduced') -> (Tensor Q, Tensor R)", node = "LinalgQr",
    doc = [[Q, R with A = Q R for A (..., m, n): orthonormal columns and an upper triangle. mode "reduced": Q (m, k),
    R (k, n) with k = min(m, n); "complete": Q (m, m), R (m, n); "r": Q is empty.]],
    grad = {A = "qr_backward(grad_Q, grad_R, Q, R, mode)"}, examples = {"T(4, 3)", "SPD(3)", "T(3, 4)"}}
linalg {"qr_backward(Tensor gQ, Tensor gR, Tensor Q, Tensor R, string mode) -> Tensor", internal = true,
    composite = true}
linalg {"svd(Tensor A, bool full_matrices=true) -> (Tensor U, Tensor S, Tensor Vh)",
    doc = [[The singular value decomposition A = U diag(S) Vh, S descending. Without full_matrices U is (m, k) and Vh
    (k, n), k = min(m, n). The gradient takes distinct singular values (that of S alone: any), and a loss that
    depends neither on the signs of singular vectors nor on those beyond k. NaN is an error.]],
    composite = true, examples = {"T(3, 4), false"}, gradcheck = false}
linalg {"svd_full(Tensor A, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)",
    name = "svd", node = "LinalgSvd", internal = true, materialize = false,
    grad = {A = "svd_backward(grad_U, grad_S, grad_Vh, U, S, Vh)"}}
linalg {"svd_backward(Tensor gU, Tensor gS, Tensor gVh, Tensor U, Tensor S, Tensor Vh) -> Tensor", internal = true,
    composite = true}
linalg {"svdvals(Tensor A) -> Tensor", doc = "The singular values, descending: (..., min(m, n)). NaN is an error.", composite = true,
    examples = {"T(3, 4)", "SPD(3)"}}
linalg {"eigh(Tensor A, string UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    node = "LinalgEigh", materialize = false,
    doc = [[Eigenvalues, ascending, and orthonormal eigenvectors (columns) of symmetric matrices, of which the lower
    ("L") or upper ("U") triangle is read. The gradient of eigenvectors takes distinct eigenvalues.]],
    grad = {A = "eigh_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"},
    examples = {"SPD(3)"}, gradcheck = false}
linalg {"eigh_backward(Tensor gL, Tensor gV, Tensor L, Tensor V) -> Tensor", internal = true, composite = true}
linalg {"eigvalsh(Tensor A, string UPLO='L') -> Tensor", doc = "The eigenvalues of symmetric matrices, ascending.",
    composite = true, examples = {"SPD(3)"}, gradcheck = false}
local tolerances = "*, Operand atol=nil, Operand rtol=nil, bool hermitian=false"
linalg {"pinv(Tensor A, " .. tolerances .. ") -> Tensor",
    doc = [[The Moore-Penrose inverse by singular values, or, of hermitian matrices, by eigenvalues. Those up to atol
    or up to rtol times the largest count as zero; rtol is max(m, n) times the dtype's epsilon unless one of them is
    given. Either is a number, or a tensor with one for each matrix. NaN is an error.]],
    composite = true, examples = {"T(4, 3)", "T(3, 4)", "SPD(3)"}}
linalg {"pseudo_inverse(Tensor A, Tensor atol, Tensor rtol, bool hermitian) -> Tensor",
    name = "pinv", node = "LinalgPinv", internal = true, grad = {A = "pinv_backward(grad, result, A)"}}
linalg {"pinv_backward(Tensor grad, Tensor pinv, Tensor A) -> Tensor", internal = true, composite = true}
local squares = "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)"
linalg {"lstsq(Tensor A, Tensor B, float rcond=nil, *, string driver='gelsy') -> " .. squares,
    doc = [[The X (..., n, k) that minimises |A X - B|, for A (..., m, n) and B (..., m, k) or, a batch of vectors,
    (..., m). With it, empty where not said otherwise: the sums of squared residuals if m > n and A has full rank (not
    with driver "gelsy"), the rank of A (not with "gels", which takes full rank for granted) and its singular values
    (with "gelsd" and "gelss"). NaN is an error.]],
    composite = true, nograd = {singular_values = true}, examples = {"T(4, 3), T(4, 2)", "T(4, 2), T(4)"}}
linalg {"least_squares(Tensor A, Tensor B, float rcond) -> " .. squares,
    name = "lstsq", node = "LinalgLstsq", internal = true, materialize = false,
    grad = {["A, B"] = "lstsq_backward(grad_solution, grad_residuals, A, B, solution)"},
    nograd = {singular_values = true}}
linalg {"lstsq_backward(Tensor gX, Tensor gR, Tensor A, Tensor B, Tensor X) -> (Tensor gA, Tensor gB)",
    internal = true, composite = true}
linalg {"matrix_power(Tensor A, int n) -> Tensor", doc = "A to the integer power n; of the inverse if n is negative; the identity, even of NaN, if n is 0.",
    composite = true, examples = {"SPD(3), 3", "SPD(3), -2"}}
linalg {"matrix_exp(Tensor A) -> Tensor", doc = "The matrix exponential of square matrices.", composite = true,
    examples = {"T(3, 3) * 0.5", "SPD(2, 2)"}}
linalg {"tensorinv(Tensor A, int ind=2) -> Tensor",
    doc = [[The inverse of A as a matrix with the first `ind` dimensions as rows and the others as columns, with
    those dimensions in exchange.]], composite = true, examples = {"(SPD(4) + 4):reshape(2, 2, 4), 2"}}
linalg {"tensorsolve(Tensor A, Tensor B, dim[] dims=nil) -> Tensor",
    doc = "X with tensordot(A, X, X:dim()) = B; the dimensions `dims` of A are moved to its end before.",
    composite = true, examples = {"(SPD(4) + 4):reshape(2, 2, 4), T(2, 2)",
                                  "(SPD(4) + 4):reshape(2, 4, 2), T(2, 2), {2}"}}
linalg {"vander(Tensor x, *, int N=nil) -> Tensor",
    doc = "The powers 0 to N - 1 (all of x's size unless given) of x in a new last dimension; integers in int64.",
    composite = true, examples = {"T(3)", "T(2, 3), {N = 4}"}}
linalg {"matrix_rank(Tensor A, " .. tolerances .. ") -> Tensor",
    doc = "The number of singular values that do not count as zero, see pinv; int64.",
    composite = true, nondiff = "a count"}
linalg {"cond(Tensor A, string p='2') -> Tensor",
    doc = [[The condition number |A| |A^-1| in the norm p: "2", "-2" (from singular values), "fro", "nuc", "inf",
    "-inf", "1", "-1". NaN is an error in those of singular values.]],
    composite = true, examples = {"SPD(3)", "SPD(3), 'fro'"}}
linalg {"cond.order(Tensor A, Number p) -> Tensor", doc = "The same with p as a number: 2, 1, math.huge or their negatives.",
    composite = true, examples = {"SPD(3), 1"}}
linalg {"multi_dot(Tensor[] tensors) -> Tensor",
    doc = "The product of several matrices (the first and last may be vectors), in the cheapest order.",
    composite = true, examples = {"{T(2, 3), T(3, 4), T(4, 2)}", "{T(3), T(3, 2), T(2)}"}}
linalg {"vector_norm(Tensor x, Number ord=2, dim[] dim=nil, bool keepdim=false, *, dtype dtype=nil) -> Tensor",
    doc = "The norm of order ord over dim, or of all elements: sum(|x|^ord)^(1/ord).", composite = true,
    examples = {"T(3, 4)", "T(3, 4), 3, 2", "T(3, 4), math.huge"}}
linalg {"matrix_norm.order(Tensor A, Number ord, dim[] dim={-2,-1}, bool keepdim=false, *, dtype dtype=nil) -> Tensor",
    doc = "A norm of matrices: 2 and -2 (largest, smallest singular value), 1 and -1 (column sums), math.huge and "
       .. "-math.huge (row sums).", composite = true, examples = {"T(3, 4), 1", "T(3, 4), -math.huge", "T(3, 4), 2"}}
linalg {"matrix_norm(Tensor A, string ord='fro', dim[] dim={-2,-1}, bool keepdim=false, *, dtype dtype=nil) -> Tensor",
    doc = [[A norm of matrices: "fro", "nuc" (sum of singular values), "2" and "-2" (largest, smallest), "1" and "-1"
    (column sums), "inf" and "-inf" (row sums). NaN is an error in those of singular values.]],
    composite = true, examples = {"T(3, 4)", "T(3, 4), 'nuc'", "T(3, 4), '1'", "T(3, 4), 'inf'", "T(3, 4), '2'"}}
linalg {"linalg_norm(Tensor A, Number ord=nil, dim[] dim=nil, bool keepdim=false, *, dtype dtype=nil) -> Tensor",
    name = "norm", doc = "vector_norm, of all elements if neither ord nor dim is given; with ord and two dims, matrix_norm.",
    composite = true, examples = {"T(3, 4)", "T(3, 4), 2, 1", "T(3, 4), nil, {1, 2}"}}
linalg {"linalg_norm.name(Tensor A, string ord, dim[] dim=nil, bool keepdim=false, *, dtype dtype=nil) -> Tensor",
    name = "norm", doc = "matrix_norm with a named order; NaN is an error in those of singular values.", composite = true, examples = {"T(3, 4), 'fro'", "T(3, 4), 'nuc'"}}

-- With LAPACK's info for each matrix in place of an error: 0 where all is well.
local info = "the same with info, int32 and 0 for each matrix that is fine, in place of an error, unless check_errors."
linalg {"cholesky_ex(Tensor A, *, bool upper=false, bool check_errors=false) -> (Tensor L, Tensor info)",
    doc = "cholesky; " .. info, composite = true, gradcheck = false, examples = {"SPD(3)", "SPD(2, 3), {upper = true}"}}
linalg {"inv_ex(Tensor A, *, bool check_errors=false) -> (Tensor inverse, Tensor info)", doc = "inv; " .. info,
    composite = true, examples = {"SPD(3)"}}
linalg {"solve_ex(Tensor A, Tensor B, *, bool left=true, bool check_errors=false) -> (Tensor result, Tensor info)",
    doc = "solve; " .. info, composite = true, examples = {"SPD(3), T(3, 2)", "SPD(2, 3), T(2, 2, 3), {left = false}"}}
linalg {"lu_factor_ex(Tensor A, *, bool pivot=true, bool check_errors=false) "
    .. "-> (Tensor LU, Tensor pivots, Tensor info)", doc = "lu_factor; " .. info, composite = true,
    examples = {"SPD(3)", "T(3, 4)"}}

-- What torch has, too, and tensors have as methods -------------------------------------------------

local function same(signature, expr, doc, examples)
   op {signature .. " -> Tensor", doc = doc, expr = expr, examples = examples}
end

same("det.torch(Tensor self)", "det(self)", "torch.linalg.det.", {"SPD(3)"})
same("inverse(Tensor self)", "inv(self)", "torch.linalg.inv.", {"SPD(3)"})
same("matrix_power.torch(Tensor self, int n)", "matrix_power(self, n)", "torch.linalg.matrix_power.", {"SPD(3), 3"})
same("matrix_exp.torch(Tensor self)", "matrix_exp(self)", "torch.linalg.matrix_exp.", {"T(3, 3) * 0.5"})
op {"cholesky.torch(Tensor self, bool upper=false) -> Tensor", doc = "torch.linalg.cholesky.",
    expr = "cholesky(self, upper)", gradcheck = false, examples = {"SPD(3), true"}}
op {"cholesky_solve.torch(Tensor self, Tensor L_, bool upper=false) -> Tensor", gradcheck = false,
    doc = "X with A X = self, from A's Cholesky factor L.", expr = "cholesky_solve(self, L_, upper)",
    examples = {"T(3, 2), SPD(3)"}}
op {"cholesky_inverse(Tensor self, bool upper=false) -> Tensor", gradcheck = false,
    doc = "The inverse of A, from its Cholesky factor self.", composite = true, examples = {"SPD(3)"}}
op {"slogdet.torch(Tensor self) -> (Tensor sign, Tensor logabsdet)", doc = "torch.linalg.slogdet.", composite = true,
    examples = {"SPD(3)"}}
op {"logdet(Tensor self) -> Tensor",
    doc = "The logarithm of the determinant of square matrices: NaN if it is negative, -inf if it is 0.",
    composite = true, examples = {"SPD(3)", "SPD(2, 3)"}}
op {"pinverse(Tensor self, float rcond=1e-15) -> Tensor", doc = "torch.linalg.pinv with rtol = rcond.", composite = true,
    examples = {"T(4, 3)"}}
op {"qr.torch(Tensor self, bool some=true) -> (Tensor Q, Tensor R)",
    doc = "torch.linalg.qr in mode 'reduced' or, without some, 'complete'.", composite = true, examples = {"T(4, 3)"}}
op {"svd.torch(Tensor self, bool some=true, bool compute_uv=true) -> (Tensor U, Tensor S, Tensor V)",
    doc = [[U, S, V with self = U diag(S) V^T; without some all columns of U and V, without compute_uv zeros in their
    place.]], composite = true, gradcheck = false, examples = {"T(3, 4)", "T(4, 3), false"}}
