-- Products of matrices and vectors.

op {"matmul(Tensor self, Tensor other) -> Tensor",
    doc = [[Matrix product. (n) by (n): a number; (n, k) by (k, m): (n, m); a vector on either side counts as a
    row or a column and its dimension disappears; more dimensions are batches and are broadcast.]],
    composite = true, out = false,
    examples = {"T(3), T(3)", "T(2, 3), T(3)", "T(3), T(3, 2)", "T(2, 3), T(3, 4)", "T(2, 1, 2, 3), T(5, 3, 2)",
                "T(2, 2, 3), T(3)", "T(0, 3), T(3, 2)", "T(2, 0), T(0, 3)"}}
op {"mm(Tensor self, Tensor mat2) -> Tensor", doc = "The product of two matrices (n, k) and (k, m).",
    grad = {self = "mm(grad, t(mat2))", mat2 = "mm(t(self), grad)"},
    examples = {"T(2, 3), T(3, 4)", "T(3, 2):t(), T(4, 3):t()"}}
op {"bmm(Tensor self, Tensor mat2) -> Tensor",
    doc = "The products of two batches of matrices, (b, n, k) and (b, k, m).",
    grad = {self = "bmm(grad, transpose(mat2, 1, 2))", mat2 = "bmm(transpose(self, 1, 2), grad)"},
    examples = {"T(2, 2, 3), T(2, 3, 4)"}}
op {"mv(Tensor self, Tensor vec) -> Tensor", doc = "A matrix (n, k) times a vector (k).",
    composite = true, examples = {"T(2, 3), T(3)"}}
op {"dot(Tensor self, Tensor other) -> Tensor", doc = "The inner product of two vectors of one length.",
    composite = true, alias = {"vdot"}, examples = {"T(3), T(3)"}}
op {"outer(Tensor self, Tensor vec2) -> Tensor", doc = "The outer product (n, m) of vectors (n) and (m).",
    composite = true, alias = {"ger"}, examples = {"T(3), T(2)"}}
op {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1) -> Tensor",
    doc = "beta * self + alpha * mat1 @ mat2; self is broadcast to (n, m).",
    inplace = true,
    grad = {self = "scaled(grad, beta)", mat1 = "scaled(mm(grad, t(mat2)), alpha)",
            mat2 = "scaled(mm(t(mat1), grad), alpha)"},
    examples = {"T(2, 4), T(2, 3), T(3, 4)", "T(4), T(2, 3), T(3, 4), {beta = 0.5, alpha = 2}"}}
op {"baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) -> Tensor",
    doc = "beta * self + alpha * batch1 @ batch2 for batches of matrices; self is broadcast.",
    inplace = true,
    grad = {self = "scaled(grad, beta)", batch1 = "scaled(bmm(grad, transpose(batch2, 1, 2)), alpha)",
            batch2 = "scaled(bmm(transpose(batch1, 1, 2), grad), alpha)"},
    examples = {"T(2, 2, 4), T(2, 2, 3), T(2, 3, 4)", "T(4), T(2, 2, 3), T(2, 3, 4), {beta = 0.5, alpha = 2}"}}
op {"addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) -> Tensor",
    doc = "beta * self + alpha * the sum of all batch1[i] @ batch2[i].", composite = true, inplace = true,
    examples = {"T(2, 4), T(3, 2, 3), T(3, 3, 4), {beta = 0.5, alpha = 2}"}}
op {"addmv(Tensor self, Tensor mat, Tensor vec, *, Number beta=1, Number alpha=1) -> Tensor",
    doc = "beta * self + alpha * mat @ vec.", composite = true, inplace = true,
    examples = {"T(2), T(2, 3), T(3)", "T(1), T(2, 3), T(3), {beta = 0.5, alpha = 2}"}}
op {"addr(Tensor self, Tensor vec1, Tensor vec2, *, Number beta=1, Number alpha=1) -> Tensor",
    doc = "beta * self + alpha * outer(vec1, vec2).", composite = true, inplace = true,
    examples = {"T(2, 3), T(2), T(3)", "T(3), T(2), T(3), {beta = 0.5, alpha = 2}"}}
op {"inner(Tensor self, Tensor other) -> Tensor",
    doc = "Sums of products over the last dimensions: (..., k) by (***, k) gives (..., ***).",
    composite = true, out = false, examples = {"T(3), T(3)", "T(2, 3), T(4, 3)", "T(2), T()"}}
op {"kron(Tensor self, Tensor other) -> Tensor",
    doc = "The Kronecker product: other times each element of self, side by side.",
    composite = true, examples = {"T(2, 2), T(3, 1)", "T(2), T(2, 3)"}}
op {"cross(Tensor self, Tensor other, dim dim=nil) -> Tensor",
    doc = "The cross product of vectors of 3 along dim, by default the first dimension of size 3.",
    composite = true, examples = {"T(3), T(3)", "T(2, 3), T(2, 3)", "T(3, 2), T(3, 1), 1"}}
op {"cross.linalg(Tensor input, Tensor other, *, dim dim=-1) -> Tensor", module = "linalg", method = false,
    doc = "The cross product of vectors of 3 along dim, by default the last one.",
    composite = true, examples = {"T(3), T(3)", "T(3, 2), T(3, 2), {dim = 1}"}}
op {"matmul.linalg(Tensor input, Tensor other) -> Tensor", module = "linalg", method = false,
    doc = "The same as torch.matmul.", composite = true, out = false, examples = {"T(2, 3), T(3, 4)"}}
op {"vecdot(Tensor x, Tensor y, *, dim dim=-1) -> Tensor", module = "linalg", method = false,
    doc = "The inner products of vectors along dim.", composite = true, examples = {"T(2, 3), T(2, 3)", "T(3, 2), T(3, 1), {dim = 1}"}}
op {"diagonal.linalg(Tensor A, *, int offset=0, dim dim1=-2, dim dim2=-1) -> Tensor", module = "linalg",
    doc = "torch.diagonal of the last two dimensions, unless others are given.", method = false,
    composite = true, out = false, examples = {"T(2, 3, 4)", "T(2, 3, 4), {offset = 1, dim1 = 1}"}}
op {"chain_matmul(Tensor[] matrices...) -> Tensor", doc = "The product of several matrices in the cheapest order.",
    composite = true, examples = {"{T(2, 3), T(3, 4), T(4, 1)}", "T(2, 3), T(3, 4)"}}

-- Sums of products over named or listed dimensions -------------------------------------------------

local equation = [[Sums of products after an equation such as "ij,jk->ik": a letter for each dimension of each
    operand, and those of the result. Letters that the result lacks are summed over; without "->" the result has
    the letters that occur once, in alphabetical order. "..." stands for dimensions that are broadcast.]]
op {"einsum(string equation, Tensor[] operands...) -> Tensor", doc = equation, composite = true, out = false,
    examples = {"'ij,jk->ik', {T(2, 3), T(3, 4)}", "'ii', {T(3, 3)}", "'bij,bjk->bik', {T(2, 2, 3), T(2, 3, 2)}",
                "'...ij->...ji', {T(2, 3, 4)}", "'i,j', {T(2), T(3)}", "'ij,j,k->ik', {T(2, 3), T(3), T(2)}",
                "'ij,kj->ik', T(2, 3), T(4, 3)"}}
op {"tensordot(Tensor self, Tensor other, int dims=2) -> Tensor",
    doc = "Sums of products over the last `dims` dimensions of self and the first ones of other.",
    composite = true, out = false, examples = {"T(2, 3, 4), T(3, 4, 2)", "T(2, 3), T(3, 2), 1", "T(2), T(3), 0"}}
op {"tensordot.dims(Tensor self, Tensor other, dim[] dims_self, dim[] dims_other) -> Tensor",
    doc = "Sums of products over dimensions of self and those of other that are listed beside them.",
    composite = true, out = false, examples = {"T(2, 3, 4), T(4, 5, 2), {1, 3}, {3, 1}"}}

op {"tensordot.pair(Tensor self, Tensor other, dim[][] dims) -> Tensor", doc = "The same with both lists in one.",
    composite = true, out = false, examples = {"T(2, 3, 4), T(4, 5, 2), {{1, 3}, {3, 1}}"}}

-- Distances ----------------------------------------------------------------------------------------

op {"cdist(Tensor x1, Tensor x2, float p=2, string compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
    doc = [[The p-norm of the difference of each row of x1 (..., P, M) and each of x2 (..., R, M): (..., P, R).
    For p = 2 and more than 25 rows they come from a matrix product, unless compute_mode is
    "donot_use_mm_for_euclid_dist"; always if it is "use_mm_for_euclid_dist".]],
    composite = true, method = false,
    examples = {"T(3, 2), T(4, 2)", "T(2, 3, 2), T(4, 2), 1", "T(3, 2), T(4, 2), 2, "
                .. "'use_mm_for_euclid_dist'"}}
op {"pdist(Tensor self, float p=2) -> Tensor",
    doc = "The p-norm of the difference of each pair of rows of a matrix, (1, 2), (1, 3) ... (2, 3) ...",
    composite = true, examples = {"T(4, 3)", "T(4, 3), 1"}}
