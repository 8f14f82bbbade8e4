-- Operators that compute singular value decompositions, and eigenvalues of symmetric and of general
-- matrices. See linalg.lua.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.host = "LAPACK"
   entry.device_lapack = true
   op(entry)
end

linalg {"svd_full(Tensor A, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)",
    name = "svd", node = "LinalgSvd", internal = true, materialize = false,
    grad = {A = "svd_backward(grad_U, grad_S, grad_Vh, U, S, Vh)"}}
linalg {"eigh(Tensor A, string UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    node = "LinalgEigh", materialize = false,
    doc = [[Returns the eigenvalues of symmetric (complex: Hermitian) matrices in ascending order,
    and orthonormal eigenvectors as columns. UPLO chooses the triangle that is read: "L" (lower) or
    "U" (upper). The gradient of eigenvectors requires distinct eigenvalues.]],
    grad = {A = "eigh_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"},
    autocast = {cpu = "float32"},
    examples = {"SPD(3)"}, gradcheck = false}
example("eigh", [[
   local values = torch.linalg.eigh(torch.tensor {{2.0, 1.0}, {1.0, 2.0}})
   print(values:round())
   --> tensor([1., 3.])]])
op {"eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
    module = "linalg", method = false, host = "LAPACK", node = "LinalgEig", materialize = false,
    doc = [[Returns the eigenvalues of square matrices (..., n, n), in any order, and eigenvectors
    of norm 1 as columns. Both are complex, also for real matrices. The gradient of eigenvectors
    requires distinct eigenvalues, and a loss that does not depend on the vectors' phases. NaN is an
    error.]],
    grad = {A = "eig_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"},
    autocast = {cpu = "float32"}, examples = {"T(3, 3)"}, gradcheck = false}
example("eig", [[
   local values = torch.linalg.eig(torch.tensor {{0.0, 1.0}, {-1.0, 0.0}})
   print(values)
   --> tensor([0.+1.j, 0.-1.j])]])

takes_complex()
