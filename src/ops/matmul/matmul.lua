-- Operators that multiply matrices and vectors.

op {"matmul(Tensor self, Tensor other) -> Tensor",
    doc = [[Multiplies matrices: (n, k) by (k, m) gives (n, m), and (n) by (n) a number. A vector
    counts as a row on the left and as a column on the right, and its dimension disappears from the
    result. Further dimensions are batches and are broadcast.]],
    composite = true, out = false,
    autocast = "lower",
    examples = {"T(3), T(3)", "T(2, 3), T(3)", "T(3), T(3, 2)", "T(2, 3), T(3, 4)",
                "T(2, 1, 2, 3), T(5, 3, 2)",
                "T(2, 2, 3), T(3)", "T(0, 3), T(3, 2)", "T(2, 0), T(0, 3)"}}
example("matmul", [=[
   local a = torch.tensor {{1.0, 2.0}, {3.0, 4.0}}
   print(a:matmul(torch.tensor {1.0, 1.0}))
   --> tensor([3., 7.])
   print(a:matmul(a))
   --> tensor([[ 7., 10.],
   -->         [15., 22.]])
   print(table.unpack(torch.ones(5, 2, 3):matmul(torch.ones(3, 4)).shape))
   --> 5	2	4]=])
op {"mm(Tensor self, Tensor mat2) -> Tensor",
    doc = "Multiplies two matrices (n, k) and (k, m).",
    flops = "2 * numel(result) * size(self, 2)",
    grad = {self = "mm(grad, conj(t(mat2)))", mat2 = "mm(conj(t(self)), grad)"},
    autocast = "lower",
    examples = {"T(2, 3), T(3, 4)", "T(3, 2):t(), T(4, 3):t()"}}
example("mm", [=[
   local a = torch.tensor {{1.0, 2.0}, {3.0, 4.0}}
   print(a:mm(torch.eye(2)))
   --> tensor([[1., 2.],
   -->         [3., 4.]])]=])
op {"bmm(Tensor self, Tensor mat2) -> Tensor",
    doc = "Multiplies two batches of matrices, (b, n, k) and (b, k, m).",
    flops = "2 * numel(result) * size(self, 3)",
    grad = {self = "bmm(grad, conj(transpose(mat2, 1, 2)))",
            mat2 = "bmm(conj(transpose(self, 1, 2)), grad)"},
    autocast = "lower",
    examples = {"T(2, 2, 3), T(2, 3, 4)"}}
example("bmm", [[
   local a, b = torch.ones(10, 2, 3), torch.ones(10, 3, 4)
   print(table.unpack(a:bmm(b).shape))
   --> 10	2	4]])
op {"mv(Tensor self, Tensor vec) -> Tensor", node = "Mv",
    doc = "Multiplies a matrix (n, k) by a vector (k).",
    composite = true,
    autocast = {gpu = "lower"}, examples = {"T(2, 3), T(3)"}}
example("mv", [[
   print(torch.tensor({{1.0, 2.0}, {3.0, 4.0}}):mv(torch.tensor {1.0, 10.0}))
   --> tensor([21., 43.])]])
op {"dot(Tensor self, Tensor other) -> Tensor",
    node = "Dot", doc = "Returns the inner product of two vectors of the same length.",
    composite = true,
    autocast = {gpu = "widest"}, examples = {"T(3), T(3)"}}
op {"vdot(Tensor self, Tensor other) -> Tensor",
    node = "Dot",
    doc = "Returns the inner product of self's complex conjugate and other, two vectors.",
    expr = "dot(conj(self), other)",
    autocast = {gpu = "widest"}, examples = {"T(3), T(3)"}}
example("dot", [[
   print(torch.tensor({1, 2, 3}):dot(torch.tensor {4, 5, 6}):item())
   --> 32]])
op {"outer(Tensor self, Tensor vec2) -> Tensor",
    doc = "Returns the outer product (n, m) of vectors (n) and (m).",
    composite = true, alias = {"ger"}, examples = {"T(3), T(2)"}}
example("outer", [=[
   print(torch.tensor({1, 2}):outer(torch.tensor {3, 4, 5}))
   --> tensor([[ 3,  4,  5],
   -->         [ 6,  8, 10]])]=])
op {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1) -> Tensor",
    doc = "Computes beta * self + alpha * mat1 @ mat2; self is broadcast to (n, m).",
    inplace = "own", flops = "2 * numel(result) * size(mat1, 2)",
    grad = {self = "scaled(grad, conj(beta))",
            mat1 = "scaled(mm(grad, conj(t(mat2))), conj(alpha))",
            mat2 = "scaled(mm(conj(t(mat1)), grad), conj(alpha))"},
    autocast = "lower",
    examples = {"T(2, 4), T(2, 3), T(3, 4)", "T(4), T(2, 3), T(3, 4), {beta = 0.5, alpha = 2}"}}
example("addmm", [=[
   local bias = torch.tensor {10.0, 20.0}
   local a = torch.tensor {{1.0, 2.0}, {3.0, 4.0}}
   print(bias:addmm(a, torch.eye(2)))
   --> tensor([[11., 22.],
   -->         [13., 24.]])]=])
op {[[baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1)
      -> Tensor]],
    doc = [[Computes beta * self + alpha * batch1 @ batch2 for batches of matrices; self is
    broadcast.]],
    inplace = "own", flops = "2 * numel(result) * size(batch1, 3)",
    grad = {self = "scaled(grad, conj(beta))",
            batch1 = "scaled(bmm(grad, conj(transpose(batch2, 1, 2))), conj(alpha))",
            batch2 = "scaled(bmm(conj(transpose(batch1, 1, 2)), grad), conj(alpha))"},
    autocast = "lower",
    examples = {"T(2, 2, 4), T(2, 2, 3), T(2, 3, 4)",
                "T(4), T(2, 2, 3), T(2, 3, 4), {beta = 0.5, alpha = 2}"}}
example("baddbmm", [[
   local a, b = torch.ones(2, 1, 3), torch.ones(2, 3, 1)
   print(torch.zeros(2, 1, 1):baddbmm(a, b):flatten())
   --> tensor([3., 3.])]])

takes_complex()
