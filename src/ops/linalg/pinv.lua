-- Operators that compute pseudo-inverses and ranks, and solve least squares problems.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.waits = "LAPACK computes on the CPU"
   op(entry)
end

local tolerances = "*, Operand atol=nil, Operand rtol=nil, bool hermitian=false"
linalg {"pinv(Tensor A, " .. tolerances .. ") -> Tensor",
    doc = [[Returns the Moore-Penrose inverse, from singular values or, if hermitian is true, from
    eigenvalues. Values up to atol, or up to rtol times the largest one, count as zero; rtol is
    max(m, n) times the dtype's epsilon unless one of the two is given. Each is a number, or a
    tensor with one for each matrix. NaN is an error.]],
    composite = true, examples = {"T(4, 3)", "T(3, 4)", "SPD(3)"}}
linalg {"pseudo_inverse(Tensor A, Tensor atol, Tensor rtol, bool hermitian) -> Tensor",
    name = "pinv", node = "LinalgPinv", internal = true,
    grad = {A = "pinv_backward(grad, result, A)"}}
linalg {"pinv_backward(Tensor grad, Tensor pinv, Tensor A) -> Tensor", internal = true,
   composite = true}
local squares = "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)"
linalg {"lstsq(Tensor A, Tensor B, float rcond=nil, *, string driver='gelsy') -> " .. squares,
    doc = [[Returns the X (..., n, k) that minimises |A X - B|, for A (..., m, n) and B (..., m, k)
    or, for a batch of vectors, (..., m). Further results, which else are empty: the sums of squared
    residuals if m > n and A has full rank (not with driver "gelsy"), the rank of A (not with
    "gels", which assumes full rank) and its singular values (with "gelsd" and "gelss"). NaN is an
    error.]],
    composite = true, nograd = {singular_values = true},
    autocast = {cpu = "float32"},
    examples = {"T(4, 3), T(4, 2)", "T(4, 2), T(4)"}}
example("lstsq", [[
   local a = torch.tensor {{1.0, 0.0}, {1.0, 1.0}, {1.0, 2.0}} -- y = c + m t
   local y = torch.tensor {{1.0}, {3.0}, {5.0}}
   print((torch.linalg.lstsq(a, y)):flatten():round())
   --> tensor([1., 2.])]])
linalg {[[lstsq_backward(Tensor gX, Tensor gR, Tensor A, Tensor B, Tensor X)
      -> (Tensor gA, Tensor gB)]],
    internal = true, composite = true}
linalg {"matrix_rank(Tensor A, " .. tolerances .. ") -> Tensor",
    doc = "Returns the number of singular values that do not count as zero (see pinv), as int64.",
    composite = true, nondiff = "a count",
        autocast = {cpu = "float32"}}
op {"pinverse(Tensor self, float rcond=1e-15) -> Tensor",
    doc = "The same as torch.linalg.pinv with rtol = rcond.", composite = true,
    waits = "LAPACK computes on the CPU",
    autocast = {cpu = "float32"},
    examples = {"T(4, 3)"}}

takes_complex()
