-- Operators that compute the principal square root of a matrix, and the polar decomposition.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.waits = "LAPACK computes on the CPU"
   op(entry)
end

linalg {"matrix_sqrth(Tensor A) -> Tensor",
    node = "LinalgMatrixSqrth", autocast = {cpu = "float32"},
    doc = [[Returns the square root X of symmetric (complex: Hermitian) positive-definite matrices
    (..., n, n): the positive-definite matrix with X X = A. Reads the lower triangle of A. NaN if
    an eigenvalue is below 0.]],
    grad = {A = "solve_lyapunov(grad, result)"},
    examples = {"SPD(3)", "torch.stack {SPD(3), SPD(3) * 2}"}, gradcheck = false}
example("matrix_sqrth", [=[
   local a = torch.tensor {{5.0, 4.0}, {4.0, 5.0}}
   print(torch.linalg.matrix_sqrth(a):round {decimals = 4})
   --> tensor([[2., 1.],
   -->         [1., 2.]])]=])
linalg {"solve_lyapunov(Tensor B, Tensor X) -> Tensor", name = "matrix_sqrth", internal = true,
    grad = {B = "solve_lyapunov(grad, X)", X = "lyapunov_backward(grad, X, result)"}}
linalg {"lyapunov_backward(Tensor grad, Tensor X, Tensor Y) -> Tensor", internal = true,
    composite = true}

linalg {"polar.linalg(Tensor A) -> (Tensor U, Tensor H)",
    node = "LinalgPolar", autocast = {cpu = "float32"}, materialize = false,
    doc = [[Returns the polar decomposition A = U H of matrices (..., m, n), m >= n: U (..., m, n)
    has orthonormal columns and H (..., n, n) is symmetric (complex: Hermitian) and positive
    semidefinite. The gradient requires full column rank. This is not torch.polar, which makes
    complex numbers.]],
    grad = {A = "polar_backward(grad_U, grad_H, A, U, H)"},
    examples = {"T(4, 3)", "T(2, 3, 3)"}}
example("polar", [=[
   local u, h = torch.linalg.polar(torch.tensor {{0.0, -2.0}, {3.0, 0.0}})
   print(h:round {decimals = 4})
   --> tensor([[3., 0.],
   -->         [0., 2.]])]=])
linalg {[[polar_backward(Tensor gU, Tensor gH, Tensor A, Tensor U, Tensor H) -> Tensor]],
    internal = true, composite = true}

takes_complex()
