-- Operators that invert tensors and solve linear systems with tensors, which they treat as
-- matrices. Also Vandermonde matrices.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   op(entry)
end

linalg {"tensorinv(Tensor A, int ind=2) -> Tensor",
    doc = [[Returns the inverse of A, taken as a matrix whose rows are the first `ind` dimensions
    and whose columns are the others. In the result the two groups of dimensions are exchanged.]],
    composite = true,
    waits = "LAPACK computes on the CPU",
    autocast = {cpu = "float32"},
    examples = {"(SPD(4) + 4):reshape(2, 2, 4), 2"}}
linalg {"tensorsolve(Tensor A, Tensor B, dim[] dims=nil) -> Tensor",
    doc = [[Returns X with tensordot(A, X, X:dim()) = B. The dimensions `dims` of A are first moved
    to its end.]],
    composite = true, waits = "LAPACK computes on the CPU",
    autocast = {cpu = "float32"},
    examples = {"(SPD(4) + 4):reshape(2, 2, 4), T(2, 2)",
                                  "(SPD(4) + 4):reshape(2, 4, 2), T(2, 2), {2}"}}
linalg {"vander(Tensor x, *, int N=nil) -> Tensor",
    doc = [[Returns the powers 0 to N - 1 of x in a new last dimension; N is x's last size unless
    given. Integers give int64.]],
    composite = true, examples = {"T(3)", "T(2, 3), {N = 4}"}}

takes_complex()
