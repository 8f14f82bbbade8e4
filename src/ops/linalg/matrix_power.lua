-- Operators that compute powers and exponentials of matrices, and products of several matrices. See
-- linalg.lua.

local function linalg(entry)
   entry.module, entry.method = "linalg", false
   op(entry)
end

local waits <const> = "LAPACK computes on the CPU"
linalg {"matrix_power(Tensor A, int n) -> Tensor",
    doc = [[Raises square matrices A (..., n, n) to an integer power; a negative one is a power of
    the inverse. The power 0 is the identity, even of NaN.]],
    composite = true, waits = waits,
    autocast = {cpu = "lower", gpu = "lower", when = "n > 1"},
    examples = {"SPD(3), 3", "SPD(3), -2"}}
linalg {"matrix_exp(Tensor A) -> Tensor", node = "LinalgMatrixExp",
    doc = "Returns the matrix exponential of square matrices (..., n, n).",
    composite = true, waits = waits,
    examples = {"T(3, 3) * 0.5", "SPD(2, 2)"}}
linalg {"multi_dot(Tensor[] tensors) -> Tensor",
    doc = [[Multiplies several matrices in the cheapest order; the first and the last may be
    vectors.]],
    composite = true,
    autocast = "lower", examples = {"{T(2, 3), T(3, 4), T(4, 2)}", "{T(3), T(3, 2), T(2)}"}}

-- Functions of torch.linalg that are also available in torch itself.

op {"matrix_power.torch(Tensor self, int n) -> Tensor",
    doc = "The same as torch.linalg.matrix_power.",
    expr = "matrix_power(self, n)", autocast = {cpu = "lower", gpu = "lower", when = "n > 1"},
    examples = {"SPD(3), 3", "SPD(3), -1"}}
op {"matrix_exp.torch(Tensor self) -> Tensor", doc = "The same as torch.linalg.matrix_exp.",
    node = "LinalgMatrixExp",
    expr = "matrix_exp(self)", examples = {"T(3, 3) * 0.5"}}
op {"chain_matmul(Tensor[] matrices...) -> Tensor",
    doc = "Multiplies several matrices in the cheapest order.",
    composite = true,
    autocast = "lower", examples = {"{T(2, 3), T(3, 4), T(4, 1)}", "T(2, 3), T(3, 4)"}}

takes_complex()
