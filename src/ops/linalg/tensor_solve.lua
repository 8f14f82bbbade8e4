-- Tensors treated as matrices, and Vandermonde matrices.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   op(entry)
end

linalg {"tensorinv(Tensor A, int ind=2) -> Tensor",
    doc = [[The inverse of A as a matrix with the first `ind` dimensions as rows and the others as
    columns, with those dimensions in exchange.]], composite = true,
    waits = "LAPACK computes on the CPU",
    autocast = {cpu = "float32"},
    examples = {"(SPD(4) + 4):reshape(2, 2, 4), 2"}}
linalg {"tensorsolve(Tensor A, Tensor B, dim[] dims=nil) -> Tensor",
    doc = [[X with tensordot(A, X, X:dim()) = B; the dimensions `dims` of A are moved to its end
    before.]],
    composite = true, waits = "LAPACK computes on the CPU",
    autocast = {cpu = "float32"},
    examples = {"(SPD(4) + 4):reshape(2, 2, 4), T(2, 2)",
                                  "(SPD(4) + 4):reshape(2, 4, 2), T(2, 2), {2}"}}
linalg {"vander(Tensor x, *, int N=nil) -> Tensor",
    doc = [[The powers 0 to N - 1 (all of x's size unless given) of x in a new last dimension;
    integers in int64.]],
    composite = true, examples = {"T(3)", "T(2, 3), {N = 4}"}}
