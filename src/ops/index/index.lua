-- Reading and writing by position. Index tensors hold positions counted from 1; where several elements
-- go to one place they are joined in order, so that results do not depend on the number of threads.

-- Reading ------------------------------------------------------------------------------------------

op {"gather(Tensor self, dim dim, Tensor index) -> Tensor",
    doc = [[Picks along dim: result[i, j, k] = self[index[i, j, k], j, k] for dim 1. The result has index's shape,
    which may be smaller than self's in the other dimensions.]],
    grad = {self = "gather_backward(grad, sizes(self), dim, index)"},
    examples = {"T(3, 4), 1, I(3, 2, 4)", "T(3, 4), 2, I(4, 3, 6)", "T(4, 3):t(), -1, I(4, 2, 2)", "T(), 1, I(1)"}}
op {"gather_backward(Tensor grad_output, int[] size, dim dim, Tensor index) -> Tensor", internal = true,
    grad = {grad_output = "gather(grad, dim, index)"}}
op {"index_select(Tensor self, dim dim, Tensor index) -> Tensor",
    doc = "The positions along dim that index, of one dimension, lists.",
    grad = {self = "index_positions_backward(grad, index, sizes(self), dim, 1)"},
    examples = {"T(3, 4), 1, I(3, 5)", "T(3, 4), 2, I(4, 2)", "T(2, 3, 4), -2, I(3, 3)", "T(5), 1, I(5, 0)"}}
op {"take(Tensor self, Tensor index) -> Tensor",
    doc = "The elements at those positions of self read row by row; negative ones count from the end.",
    composite = true, examples = {"T(3, 4), I(12, 2, 3)", "T(4, 3):t(), I(12, 5)"}}
op {"take_along_dim(Tensor self, Tensor indices, dim dim=nil) -> Tensor",
    doc = "gather with self and indices broadcast in the other dimensions; without dim, of self flattened.",
    composite = true, examples = {"T(3, 4), I(4, 3, 2), 2", "T(3, 4), I(4, 1, 2), 2", "T(3, 4), I(12, 5)"}}
op {"masked_select(Tensor self, Tensor mask) -> Tensor",
    doc = "The elements where mask (bool, broadcast with self) is true, in one dimension.",
    composite = true, examples = {"T(3, 4), M(3, 4)", "T(3, 4), M(4)", "T(4), M(3, 4)"}}
op {"nonzero.tuple(Tensor self, *, true as_tuple) -> Tensor[]",
    doc = "With as_tuple = true: the positions of the elements that are not zero, a tensor (n) for each dimension.",
    composite = true, nondiff = "positions", examples = {"M(3, 4), {as_tuple = true}"}}
op {"nonzero(Tensor self, *, bool as_tuple=false) -> Tensor",
    doc = "The positions of the elements that are not zero, one row (n, dim) each.",
    nondiff = "positions", examples = {"M(3, 4)", "M()"}}
op {"argwhere(Tensor self) -> Tensor", doc = "The same as nonzero.", expr = "nonzero(self)", out = false,
    nondiff = "positions", examples = {"M(3, 4)"}}
op {"unravel_index(Tensor indices, int[] shape) -> Tensor[]",
    doc = [[Positions in a tensor of that shape read row by row, as positions in its dimensions: a list with one
    tensor for each.]],
    composite = true, nondiff = "positions", examples = {"I(12, 5), {3, 4}", "I(6, 2, 2), 6"}}

-- x[...]: one tensor of positions or a mask for each dimension, missing ones leave it whole.
op {"index(Tensor self, Tensor[] indices) -> Tensor", internal = true, composite = true}
op {"index_positions(Tensor self, Tensor index, dim first, int count) -> Tensor",
    name = "index", internal = true,
    grad = {self = "index_positions_backward(grad, index, sizes(self), first, count)"}}
op {"index_positions_backward(Tensor grad_output, Tensor index, int[] size, dim first, int count) -> Tensor",
    name = "index_backward",
    internal = true, grad = {grad_output = "index_positions(grad, index, first, count)"}}
op {"unwrap_position(Tensor self, Number size) -> Tensor", name = "index", internal = true,
    pointwise = {types = "integer", bool = false}, nondiff = "positions"}
op {"join_positions(Tensor self, Tensor inner, Number size) -> Tensor",
    name = "index", internal = true,
    pointwise = {types = "integer", bool = false}, nondiff = "positions"}

-- Writing ------------------------------------------------------------------------------------------

local function writes(entry)
   entry.inplace = "native"
   op(entry)
end

writes {"scatter(Tensor self, dim dim, Tensor index, Tensor src) -> Tensor",
    doc = [[Writes along dim: self[index[i, j, k], j, k] = src[i, j, k] for dim 1. index may be smaller than
    self in the other dimensions and than src in all. Where positions meet, the last one stays; in the
    derivative all of them count.]],
    grad = {self = "scatter_value(grad, dim, index, 0)", src = "gather(grad, dim, index)"},
    examples = {"T(3, 4), 1, I(3, 1, 4), T(1, 4)", "T(3, 4), 2, torch.tensor{{1, 3}, {4, 2}}, T(2, 2)"}}
writes {"scatter.value(Tensor self, dim dim, Tensor index, Number value) -> Tensor",
    doc = "The same with one number for all positions.",
    grad = {self = "scatter_value(grad, dim, index, 0)"}, examples = {"T(3, 4), 1, I(3, 2, 4), 2.5"}}
writes {"scatter.joined(Tensor self, dim dim, Tensor index, Tensor src, *, string reduce) -> Tensor",
    doc = "With reduce = 'add' or 'multiply': joined with what is there.",
    nondiff = "use scatter_add or scatter_reduce", examples = {"T(3, 4), 1, I(3, 2, 4), T(2, 4), {reduce = 'add'}"}}
writes {"scatter.value_joined(Tensor self, dim dim, Tensor index, Number value, *, string reduce) -> Tensor",
    doc = "The same with one number for all positions.",
    nondiff = "use scatter_add or scatter_reduce", examples = {"T(3, 4), 1, I(3, 2, 4), 2, {reduce = 'multiply'}"}}
writes {"scatter_add(Tensor self, dim dim, Tensor index, Tensor src) -> Tensor",
    doc = "Adds along dim: self[index[i, j, k], j, k] += src[i, j, k] for dim 1.",
    grad = {self = "grad", src = "gather(grad, dim, index)"},
    examples = {"T(3, 4), 1, I(3, 5, 4), T(5, 4)", "T(3, 4), 2, I(4, 2, 6), T(2, 6)", "T(), 1, I(1), T()"}}
writes {"scatter_reduce(Tensor self, dim dim, Tensor index, Tensor src, string reduce, *, bool include_self=true) "
    .. "-> Tensor",
    doc = [[Joins the elements of src that go to one position along dim, by reduce = "sum", "prod", "mean", "amax"
    or "amin", with what self has there, or without it if include_self = false.]],
    grad = {["self, src"] = "scatter_reduce_backward(grad, self, dim, index, src, reduce, include_self, result)"},
    examples = {"T(3, 4), 1, I(3, 5, 4), T(5, 4), 'sum'", "T(3, 4), 1, I(3, 5, 4), T(5, 4), 'mean'",
                "P(3, 4), 2, I(4, 3, 6), P(3, 6), 'prod'", "T(3, 4), 2, I(4, 3, 6), T(3, 6), 'amax'",
                "T(3, 4), 1, I(3, 5, 4), T(5, 4), 'amin', {include_self = false}",
                "T(3, 4), 1, I(3, 5, 4), T(5, 4), 'mean', {include_self = false}"}}
op {"scatter_reduce_backward(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src, string reduce, "
    .. "bool include_self, Tensor result) -> (Tensor self, Tensor src)", internal = true, composite = true}

-- The gradient of a mean: shared by all that went to a place.
op {"scatter_mean_share(Tensor grad_output, dim dim, Tensor index, Tensor src, bool include_self) -> Tensor",
    internal = true,
    expr = "grad_output / clamp_min(scatter_add(full_like(grad_output, include_self), dim, index, ones_like(src)), 1)"}
-- The gradient of an extreme: shared by those that equal it.
op {"scatter_extreme_share(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src, Tensor result) -> Tensor",
    internal = true,
    expr = "grad_output / scatter_add(to_dtype(eq(self, result), dtype(self)), dim, index, "
       .. "to_dtype(eq(src, gather(result, dim, index)), dtype(src)))"}
-- The gradient of a product: the product of the others. A zero is left out of the product by which its own
-- gradient is computed; where several zeros meet all gradients are 0.
op {"scatter_prod_self(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src, bool include_self) -> Tensor",
    internal = true,
    expr = "grad_output * scatter_reduce(masked_fill(self, eq(self, 0), 1), dim, index, src, 'prod', include_self) "
       .. "/ masked_fill(self, eq(self, 0), 1)"}
op {"scatter_single_zeros(Tensor self, dim dim, Tensor index, Tensor src) -> Tensor", internal = true,
    expr = "logical_and(eq(src, 0), eq(gather(scatter_add(zeros_like(self), dim, index, "
       .. "to_dtype(eq(src, 0), dtype(self))), dim, index), 1))"}
op {"scatter_prod_src(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src, bool include_self, "
    .. "Tensor result, Tensor single) -> Tensor", internal = true,
    expr = "where(single, gather(grad_output * scatter_reduce(self, dim, index, masked_fill(src, single, 1), 'prod', "
       .. "include_self), dim, index), gather(grad_output * result, dim, index) / masked_fill(src, eq(src, 0), 1))"}

writes {"index_add(Tensor self, dim dim, Tensor index, Tensor source, *, Number alpha=1) -> Tensor",
    doc = "Adds alpha times the positions of source along dim to those of self that index lists.",
    grad = {self = "grad", source = "scaled(index_select(grad, dim, index), alpha)"},
    examples = {"T(3, 4), 1, I(3, 5), T(5, 4)", "T(3, 4), 2, I(4, 2), T(3, 2), {alpha = 2}"}}
writes {"index_copy(Tensor self, dim dim, Tensor index, Tensor source) -> Tensor",
    doc = "Copies the positions of source along dim to those of self that index lists.",
    grad = {self = "index_fill(grad, dim, index, 0)", source = "index_select(grad, dim, index)"},
    examples = {"T(3, 4), 1, torch.tensor{3, 1}, T(2, 4)", "T(3, 4), 2, torch.tensor{2}, T(3, 1)"}}
op {"index_reduce(Tensor self, dim dim, Tensor index, Tensor source, string reduce, *, bool include_self=true) "
    .. "-> Tensor",
    doc = [[Joins the positions of source along dim to those of self that index lists, by reduce = "prod", "mean",
    "amax" or "amin", with what self has there, or without it if include_self = false.]],
    composite = true, inplace = true,
    examples = {"P(3, 4), 1, I(3, 5), P(5, 4), 'prod'", "T(3, 4), 2, I(4, 2), T(3, 2), 'mean', {include_self = false}",
                "T(3, 4), 1, I(3, 5), T(5, 4), 'amax'", "T(3, 4), 1, I(3, 5), T(5, 4), 'amin'"}}
writes {"index_fill(Tensor self, dim dim, Tensor index, Number value) -> Tensor",
    doc = "Sets the positions along dim that index lists to a number; negative ones count from the end.",
    grad = {self = "index_fill(grad, dim, index, 0)"}, examples = {"T(3, 4), 2, I(4, 2), 1.5"}}
op {"index_fill.tensor(Tensor self, dim dim, Tensor index, Tensor value) -> Tensor",
    doc = "The same with the number in a tensor of no dimensions.", composite = true, inplace = true, out = false,
    examples = {"T(3, 4), 2, I(4, 2), T()"}}
writes {"put(Tensor self, Tensor index, Tensor source, bool accumulate=false) -> Tensor",
    doc = [[Writes the elements of source to those positions of self read row by row, or adds them; negative
    positions count from the end.]],
    grad = {self = "put_backward_self(grad, index, source, accumulate)",
            source = "reshape(take(grad, index), sizes(source))"},
    examples = {"T(3, 4), torch.tensor{2, 7, 12}, T(3)", "T(3, 4), I(12, 2, 3), T(2, 3), true"}}
op {"put_backward_self(Tensor grad_output, Tensor index, Tensor source, bool accumulate) -> Tensor", internal = true,
    composite = true}
op {"index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate=false) -> Tensor",
    doc = [[Writes values, broadcast, to self[indices], or adds them: indices is a list with a tensor of positions
    or a mask for each of the first dimensions.]],
    composite = true, out = false,
    examples = {"T(3, 4), {torch.tensor{1, 3}}, T(2, 4)", "T(3, 4), {I(3, 5), I(4, 5)}, T(5), true"}}
op {"index_put_(Tensor self, Tensor[] indices, Tensor values, bool accumulate=false) -> self",
    doc = "The same over self.", composite = true, nondiff = "see index_put"}
op {"put_positions(Tensor self, Tensor index, Tensor values, dim first, int count, bool accumulate) -> Tensor",
    name = "index_put",
    internal = true, inplace = "native",
    grad = {self = "put_positions_backward_self(grad, index, first, count, accumulate)",
            values = "index_positions(grad, index, first, count)"}}
op {"put_positions_backward_self(Tensor grad_output, Tensor index, dim first, int count, bool accumulate) -> Tensor",
    internal = true, composite = true}

-- Masks --------------------------------------------------------------------------------------------

op {"masked_fill(Tensor self, Tensor mask, Operand value) -> Tensor",
    doc = "self with value, a number or a tensor of no dimensions, where mask (bool, broadcast with self) is true.",
    composite = true, examples = {"T(3, 4), M(3, 4), 2.5", "T(3, 4), M(4), T()", "T(4), M(3, 4), 0"}}
op {"masked_fill_(Tensor self, Tensor mask, Operand value) -> self", doc = "The same over self.", composite = true,
    func = false, nondiff = "see masked_fill"}
op {"masked_fill_kernel(Tensor self, Tensor mask, Tensor value) -> Tensor",
    name = "masked_fill", internal = true,
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "keep_where(grad, logical_not(mask))", value = "keep_where(grad, mask)"}}
op {"masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    doc = "Writes the elements of source, in order, to where mask (bool, broadcast with self) is true.",
    composite = true, examples = {"T(3, 4), M(3, 4), T(12)", "T(3, 4), M(4), T(4, 4)"}}
op {"masked_scatter_(Tensor self, Tensor mask, Tensor source) -> self", doc = "The same over self.", composite = true,
    func = false, nondiff = "see masked_scatter"}

-- Copies with one part replaced --------------------------------------------------------------------

op {"select_scatter(Tensor self, Tensor src, dim dim, index index) -> Tensor",
    doc = "self with src at one position along dim.", composite = true, out = false,
    examples = {"T(3, 4), T(3), 2, 1", "T(3, 4), T(4), 1, -1"}}
op {"slice_scatter(Tensor self, Tensor src, dim dim=0, index start=nil, index end_=nil, int step=1) -> Tensor",
    doc = "self with src at the positions start to end (included) along dim, `step` apart.", composite = true,
    out = false, examples = {"T(3, 4), T(3, 2), 2, 2, 3", "T(5), T(3), 1, 1, 5, 2", "T(3, 4), T(1, 4), 1, -1"}}
op {"diagonal_scatter(Tensor self, Tensor src, int offset=0, dim dim1=0, dim dim2=1) -> Tensor",
    doc = "self with src on the diagonal of the matrices in dim1 and dim2.", composite = true, out = false,
    examples = {"T(3, 3), T(3)", "T(3, 4), T(3), 1"}}
op {"as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int storage_offset=0) -> Tensor",
    doc = "A row-major copy of self with src at the elements that as_strided shows of the copy.",
    composite = true, out = false, examples = {"T(3, 4), T(2, 2), {2, 2}, {4, 1}, 1"}}

-- Search -------------------------------------------------------------------------------------------

local search_options = "*, bool out_int32=false, bool right=false"
op {"searchsorted(Tensor sorted_sequence, Operand values, " .. search_options
       .. ", string side=nil, Tensor sorter=nil) -> Tensor",
    doc = [[The position in sorted_sequence, ascending along the last dimension, before which each of values would
    be inserted: the first one that keeps the order, with right = true (side = "right") the last. One past the
    end if all are smaller. sorted_sequence has one dimension, or the same first ones as values.]],
    composite = true, nondiff = "positions",
    examples = {"torch.range(1, 5), T(3, 4)", "torch.range(1, 5), 2.5, {right = true}", "T(2, 5):cumsum(2), T(2, 3)"}}
op {"bucketize(Operand self, Tensor boundaries, " .. search_options .. ") -> Tensor",
    doc = "searchsorted with the arguments the other way round: boundaries has one dimension.",
    composite = true, method = false, nondiff = "positions", examples = {"T(3, 4), torch.range(-1, 1)"}}
op {"search(Tensor sorted_sequence, Tensor values, bool right) -> Tensor", internal = true, nondiff = "positions"}
