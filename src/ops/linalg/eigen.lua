-- Singular values, and eigenvalues of symmetric matrices. See linalg.lua.

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
    doc = [[Returns the eigenvalues of symmetric matrices in ascending order, and orthonormal
    eigenvectors as columns. UPLO chooses the triangle that is read: "L" (lower) or "U" (upper). The
    gradient of eigenvectors requires distinct eigenvalues.]],
    grad = {A = "eigh_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"},
    autocast = {cpu = "float32"},
    examples = {"SPD(3)"}, gradcheck = false}
example("eigh", [[
   local values = torch.linalg.eigh(torch.tensor {{2.0, 1.0}, {1.0, 2.0}})
   print(values:round())
   --> tensor([1., 3.])]])
