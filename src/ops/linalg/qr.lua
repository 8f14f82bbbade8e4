-- Operators that compute the QR factorization. See linalg.lua.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.host = "LAPACK"
   entry.device_lapack = true
   op(entry)
end

linalg {"qr(Tensor A, string mode='reduced') -> (Tensor Q, Tensor R)", node = "LinalgQr",
    doc = [[Returns Q with orthonormal columns and upper triangular R with A = Q R, for A (..., m,
    n). mode "reduced": Q (m, k), R (k, n) with k = min(m, n); "complete": Q (m, m), R (m, n); "r":
    Q is empty.]],
    grad = {A = "qr_backward(grad_Q, grad_R, Q, R, mode)"},
    autocast = {cpu = "float32"},
    examples = {"T(4, 3)", "SPD(3)", "T(3, 4)"}}
example("qr", [=[
   local q, r = torch.linalg.qr(torch.tensor {{3.0, 1.0}, {4.0, 2.0}})
   print(q:matmul(r):round())
   --> tensor([[3., 1.],
   -->         [4., 2.]])]=])
linalg {"householder_columns(Tensor A, Tensor tau) -> Tensor",
    name = "householder_product", internal = true, nondiff = "householder_product has a derivative"}
op {"geqrf(Tensor self) -> (Tensor a, Tensor tau)", host = "LAPACK", device_lapack = true,
    doc = [[Returns LAPACK's QR factorization of self (..., m, n). a holds R on and above its
    diagonal; the rest of a and tau (..., min(m, n)) are the arguments from which
    torch.linalg.householder_product makes Q.]],
    nondiff = "torch.linalg.qr has a derivative", examples = {"T(4, 3)", "T(2, 3, 4)"}}

takes_complex()
