-- Further operators that are composed of matrix products.

op {"addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) -> Tensor",
    node = "Addbmm", doc = "Computes beta * self + alpha * the sum of all batch1[i] @ batch2[i].",
    composite = true, inplace = true,
    autocast = "lower",
    examples = {"T(2, 4), T(3, 2, 3), T(3, 3, 4), {beta = 0.5, alpha = 2}"}}
op {"addmv(Tensor self, Tensor mat, Tensor vec, *, Number beta=1, Number alpha=1) -> Tensor",
    node = "Addmv",
    doc = "Computes beta * self + alpha * mat @ vec.", composite = true, inplace = true,
    autocast = {gpu = "lower"},
    examples = {"T(2), T(2, 3), T(3)", "T(1), T(2, 3), T(3), {beta = 0.5, alpha = 2}"}}
op {"addr(Tensor self, Tensor vec1, Tensor vec2, *, Number beta=1, Number alpha=1) -> Tensor",
    node = "Addr", doc = "Computes beta * self + alpha * outer(vec1, vec2).", composite = true,
    inplace = true,
    autocast = {gpu = "lower"},
    examples = {"T(2, 3), T(2), T(3)", "T(3), T(2), T(3), {beta = 0.5, alpha = 2}"}}
op {"inner(Tensor self, Tensor other) -> Tensor",
    doc = "Sums products over the last dimensions: (..., k) by (***, k) gives (..., ***).",
    composite = true, out = false,
    autocast = "lower", examples = {"T(3), T(3)", "T(2, 3), T(4, 3)", "T(2), T()"}}
op {"kron(Tensor self, Tensor other) -> Tensor",
    doc = [[Returns the Kronecker product: each element of self is replaced by that element times
    other.]],
    composite = true, examples = {"T(2, 2), T(3, 1)", "T(2), T(2, 3)"}}
example("kron", [=[
   print(torch.eye(2):kron(torch.tensor {1.0, 2.0}))
   --> tensor([[1., 2., 0., 0.],
   -->         [0., 0., 1., 2.]])]=])
op {"cross(Tensor self, Tensor other, dim dim=nil) -> Tensor",
    node = "LinalgCross",
    doc = [[Returns the cross product of vectors of 3 elements along dim, by default the first
    dimension of size 3.]],
    composite = true,
    autocast = {gpu = "widest"},
    examples = {"T(3), T(3)", "T(2, 3), T(2, 3)", "T(3, 2), T(3, 1), 1"}}
example("cross", [[
   local x, y = torch.tensor {1.0, 0.0, 0.0}, torch.tensor {0.0, 1.0, 0.0}
   print(torch.cross(x, y))
   --> tensor([0., 0., 1.])]])
op {"cross.linalg(Tensor input, Tensor other, *, dim dim=-1) -> Tensor", module = "linalg",
    method = false,
    node = "LinalgCross",
    doc = "Returns the cross product of vectors of 3 elements along dim, by default the last one.",
    composite = true, examples = {"T(3), T(3)", "T(3, 2), T(3, 2), {dim = 1}"}}
op {"matmul.linalg(Tensor input, Tensor other) -> Tensor", module = "linalg", method = false,
    doc = "The same as torch.matmul.", composite = true, out = false,
    autocast = "lower",
    examples = {"T(2, 3), T(3, 4)"}}
op {"vecdot(Tensor x, Tensor y, *, dim dim=-1) -> Tensor", module = "linalg", method = false,
    doc = [[Returns inner products of vectors along dim; for complex numbers those of conj(x) and
    y.]],
    composite = true, autocast = "lower",
    examples = {"T(2, 3), T(2, 3)", "T(3, 2), T(3, 1), {dim = 1}"}}
op {"diagonal.linalg(Tensor A, *, int offset=0, dim dim1=-2, dim dim2=-1) -> Tensor",
    module = "linalg",
    doc = [[Returns a view of the diagonals of the matrices in the last two dimensions, or in dim1
    and dim2; see torch.diagonal.]], method = false,
    composite = true, out = false, examples = {"T(2, 3, 4)", "T(2, 3, 4), {offset = 1, dim1 = 1}"}}
op {"tensordot(Tensor self, Tensor other, int dims=2) -> Tensor",
    doc = "Sums products over the last `dims` dimensions of self and the first `dims` of other.",
    composite = true, out = false,
    autocast = {cpu = "lower", gpu = "widest"},
    examples = {"T(2, 3, 4), T(3, 4, 2)", "T(2, 3), T(3, 2), 1", "T(2), T(3), 0"}}
example("tensordot", [[
   local a, b = torch.ones(2, 3, 4), torch.ones(3, 4, 5)
   print(table.unpack(torch.tensordot(a, b, 2).shape))
   --> 2	5]])
op {"tensordot.dims(Tensor self, Tensor other, dim[] dims_self, dim[] dims_other) -> Tensor",
    doc = [[Sums products over the dimensions dims_self of self and dims_other of other, paired in
    their order.]],
    composite = true, out = false,
    autocast = {cpu = "lower", gpu = "widest"},
    examples = {"T(2, 3, 4), T(4, 5, 2), {1, 3}, {3, 1}"}}

op {"tensordot.pair(Tensor self, Tensor other, dim[][] dims) -> Tensor",
    doc = "The same with both lists in one.",
    composite = true, out = false,
    autocast = {cpu = "lower", gpu = "widest"},
    examples = {"T(2, 3, 4), T(4, 5, 2), {{1, 3}, {3, 1}}"}}

-- Distances ---------------------------------------------------------------------------------------

op {[[cdist(Tensor x1, Tensor x2, float p=2,
      string compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor]],
    doc = [[Returns the p-norms (..., P, R) of the differences of all rows of x1 (..., P, M) and x2
    (..., R, M). For p = 2 a matrix product computes them for more than 25 rows, always if
    compute_mode is "use_mm_for_euclid_dist", and never if it is "donot_use_mm_for_euclid_dist".]],
    node = "Cdist", composite = true, method = false,
    autocast = "float32",
    examples = {"T(3, 2), T(4, 2)", "T(2, 3, 2), T(4, 2), 1",
                "T(3, 2), T(4, 2), 2, 'use_mm_for_euclid_dist'"}}
example("cdist", [=[
   local a = torch.tensor {{0.0, 0.0}, {3.0, 4.0}}
   print(torch.cdist(a, torch.tensor {{0.0, 0.0}}))
   --> tensor([[0.],
   -->         [5.]])]=])
op {"pdist(Tensor self, float p=2) -> Tensor",
    node = "Pdist",
    doc = [[Returns the p-norm of the difference of each pair of rows of a matrix, in the order (1,
    2), (1, 3), ..., (2, 3), ...]],
    composite = true,
    autocast = {gpu = "float32"}, examples = {"T(4, 3)", "T(4, 3), 1"}}

takes_complex [[addbmm addmv addr inner kron cross cross_linalg matmul_linalg vecdot diagonal_linalg
   tensordot tensordot_dims tensordot_pair]]
