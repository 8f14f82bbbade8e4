-- Operators that compute norms of vectors and matrices, and condition numbers.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   op(entry)
end

linalg {"cond(Tensor A, string p='2') -> Tensor",
    doc = [[Returns the condition number |A| |A^-1| in the norm p: "2" and "-2" (from singular
    values), "fro", "nuc", "inf", "-inf", "1" or "-1". NaN is an error in norms of singular
    values.]],
    composite = true, waits = "LAPACK computes on the CPU",
        autocast = {cpu = "float32"}, examples = {"SPD(3)", "SPD(3), 'fro'"}}
linalg {"cond.order(Tensor A, Number p) -> Tensor",
    doc = "The same with p as a number: 2, 1, math.huge or their negatives.",
    composite = true, waits = "LAPACK computes on the CPU",
        autocast = {cpu = "float32"}, examples = {"SPD(3), 1"}}
linalg {[[vector_norm(Tensor x, Number ord=2, dim[] dim=nil, bool keepdim=false, *, dtype dtype=nil)
      -> Tensor]],
    doc = "Returns the norm of order ord over dim, or of all elements: sum(|x|^ord)^(1/ord).",
    composite = true,
    autocast = {gpu = "float32"},
    examples = {"T(3, 4)", "T(3, 4), 3, 2", "T(3, 4), math.huge"}}
linalg {[[matrix_norm.order(Tensor A, Number ord, dim[] dim={-2,-1}, bool keepdim=false, *,
      dtype dtype=nil) -> Tensor]],
    doc = [[Returns a norm of matrices: 2 and -2 are the largest and smallest singular value, 1 and
    -1 the largest and smallest column sum, math.huge and -math.huge the largest and smallest row
    sum.]], composite = true,
    waits = "singular values are computed on the CPU",
    examples = {"T(3, 4), 1", "T(3, 4), -math.huge", "T(3, 4), 2"}}
linalg {[[matrix_norm(Tensor A, string ord='fro', dim[] dim={-2,-1}, bool keepdim=false, *,
      dtype dtype=nil) -> Tensor]],
    doc = [[Returns a norm of matrices: "fro" (Frobenius), "nuc" (sum of singular values), "2" and
    "-2" (largest and smallest singular value), "1" and "-1" (column sums), "inf" and "-inf" (row
    sums). NaN is an error in norms of singular values.]],
    composite = true, waits = "singular values are computed on the CPU",
    autocast = {gpu = "float32"},
    examples = {"T(3, 4)", "T(3, 4), 'nuc'", "T(3, 4), '1'", "T(3, 4), 'inf'", "T(3, 4), '2'"}}
linalg {[[linalg_norm(Tensor A, Number ord=nil, dim[] dim=nil, bool keepdim=false, *,
      dtype dtype=nil) -> Tensor]],
    name = "norm",
    doc = [[Computes matrix_norm if ord is given and dim names two dimensions, or A is a matrix and
    dim is nil; else vector_norm, of order 2 unless ord is given.]],
    composite = true, waits = "singular values are computed on the CPU",
    autocast = {gpu = "float32"},
    examples = {"T(3, 4)", "T(3, 4), 2, 1", "T(3, 4), nil, {1, 2}", "T(3, 4), 2, {1, 2}"}}
example("norm", [[
   print(torch.linalg.norm(torch.tensor {3.0, 4.0}):item())
   --> 5.0]])
linalg {[[linalg_norm.name(Tensor A, string ord, dim[] dim=nil, bool keepdim=false, *,
      dtype dtype=nil) -> Tensor]],
    name = "norm",
    doc = "Computes matrix_norm with a named order. In orders of singular values NaN is an error.",
    composite = true, waits = "singular values are computed on the CPU",
    examples = {"T(3, 4), 'fro'", "T(3, 4), 'nuc'"}}

takes_complex()
