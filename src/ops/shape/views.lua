-- Operators whose result shares self's memory, and those that rearrange or join.

op {"view(Tensor self, int[] size...) -> Tensor",
    doc = [[The same elements in another shape, without a copy; one size may be -1. An error if memory's
    order does not allow it: then use reshape.]],
    view = true, func = false, grad = {self = "reshape(grad, sizes(self))"},
    examples = {"T(3, 4), 4, 3", "T(3, 4), -1", "T(2, 3, 4), 6, -1"}}
op {"view.dtype(Tensor self, dtype dtype) -> Tensor",
    doc = "The same bytes as another dtype of the same size.", composite = true, func = false, out = false,
    nondiff = "it reinterprets bytes"}
op {"reshape(Tensor self, int[] shape...) -> Tensor",
    doc = "The same elements in another shape; a view if possible, else a copy. One size may be -1.",
    composite = true, out = false, examples = {"T(4, 3):t(), 2, 6", "T(3, 4), -1"}}
op {"view_as(Tensor self, Tensor other) -> Tensor", doc = "self:view with other's shape.",
    expr = "view(self, sizes(other))", func = false, out = false, examples = {"T(3, 4), T(12)"}}
op {"reshape_as(Tensor self, Tensor other) -> Tensor", doc = "self:reshape with other's shape.",
    expr = "reshape(self, sizes(other))", func = false, out = false, examples = {"T(3, 4), T(12)"}}
op {"flatten(Tensor self, dim start_dim=0, dim end_dim=-1) -> Tensor",
    doc = "Dimensions start_dim to end_dim made one; a view if possible.", composite = true, out = false,
    examples = {"T(2, 3, 4)", "T(2, 3, 4), 2", "T(2, 3, 4), 1, 2", "T()"}}
op {"unflatten(Tensor self, dim dim, int[] sizes) -> Tensor",
    doc = "One dimension split into several, one of which may be -1.", composite = true, out = false,
    examples = {"T(2, 12), 2, {3, -1}"}}
op {"ravel(Tensor self) -> Tensor", doc = "All elements in one dimension.", expr = "reshape(self, -1)", out = false,
    examples = {"T(2, 3)"}}
op {"expand(Tensor self, int[] size...) -> Tensor",
    doc = "self with its dimensions of size 1 repeated, without a copy; -1 keeps a size; new ones come in front.",
    view = true, func = false, grad = {self = "sum_to_size(grad, sizes(self))"},
    examples = {"T(3, 1), 3, 4", "T(3), 2, -1", "T(), 2, 2"}}
op {"expand_as(Tensor self, Tensor other) -> Tensor", doc = "self expanded to other's shape.",
    composite = true, func = false, out = false, examples = {"T(3, 1), T(3, 4)"}}
op {"broadcast_to(Tensor self, int[] size...) -> Tensor", doc = "The same as expand.",
    composite = true, out = false, examples = {"T(3, 1), {3, 4}"}}
op {"sum_to_size(Tensor self, int[] size...) -> Tensor",
    doc = "Sums self over the dimensions that were broadcast, so that the result has that shape.",
    composite = true, func = false, out = false, examples = {"T(3, 4), 3, 1", "T(2, 3, 4), 4"}}
op {"permute(Tensor self, dim[] dims...) -> Tensor", doc = "The dimensions in another order; a view.",
    view = true, grad = {self = "permute_back(grad, dims)"}, examples = {"T(2, 3, 4), 3, 1, 2", "T(2, 3), {-1, 1}"}}
op {"permute_back(Tensor self, dim[] dims) -> Tensor", internal = true, composite = true}
op {"transpose(Tensor self, dim dim0, dim dim1) -> Tensor", doc = "Two dimensions swapped; a view.",
    view = true, alias = {"swapaxes", "swapdims"}, grad = {self = "transpose(grad, dim0, dim1)"},
    examples = {"T(2, 3, 4), 1, 3", "T(2, 3), -1, -2"}}
op {"t(Tensor self) -> Tensor", doc = "The transpose of a matrix; tensors of fewer dimensions as they are.",
    composite = true, out = false, examples = {"T(2, 3)", "T(3)"}}
op {"adjoint(Tensor self) -> Tensor", doc = "Matrices transposed; all numbers are real.",
    expr = "transpose(self, -2, -1)", out = false, examples = {"T(2, 3)", "T(2, 3, 4)"}}
op {"movedim(Tensor self, dim[] source, dim[] destination) -> Tensor",
    doc = "Moves dimensions to other positions; the others keep their order.", composite = true, out = false,
    alias = {"moveaxis"}, examples = {"T(2, 3, 4), 1, 3", "T(2, 3, 4), {1, 2}, {3, 1}"}}
op {"squeeze(Tensor self, dim[] dim=nil) -> Tensor",
    doc = "Without the dimensions of size 1, or without those among dim that have size 1; a view.",
    view = true, grad = {self = "reshape(grad, sizes(self))"},
    examples = {"T(3, 1, 2, 1)", "T(3, 1, 2, 1), 2", "T(3, 1), 1", "T(1, 3, 1), {1, 3}"}}
op {"unsqueeze(Tensor self, dim dim) -> Tensor", doc = "A new dimension of size 1 at that position; a view.",
    view = true, grad = {self = "reshape(grad, sizes(self))"}, examples = {"T(3, 2), 2", "T(3), -1", "T(), 1"}}
op {"select(Tensor self, dim dim, index index) -> Tensor",
    doc = "One position along a dimension, which disappears; a view.",
    view = true, grad = {self = "select_backward(grad, sizes(self), dim, index)"},
    examples = {"T(3, 4), 2, 3", "T(3, 4), -1, -2"}}
op {"select_backward(Tensor grad, int[] size, dim dim, index index) -> Tensor", internal = true,
    grad = {grad = "select(grad, dim, index)"}}
op {"narrow(Tensor self, dim dim, index start, int length) -> Tensor",
    doc = "`length` positions from `start` on along a dimension; a view.",
    composite = true, out = false, examples = {"T(3, 4), 2, 2, 3", "T(3), 1, -2, 2", "T(3), 1, 1, 0"}}
op {"narrow.tensor(Tensor self, dim dim, Tensor start, int length) -> Tensor",
    doc = "The same with the position in a tensor of no dimensions.",
    composite = true, out = false, examples = {"T(3, 4), 2, torch.tensor(2), 3"}}
op {"narrow_copy(Tensor self, dim dim, index start, int length) -> Tensor", doc = "A copy of narrow's view.",
    expr = "clone(narrow(self, dim, start, length))", examples = {"T(3, 4), 2, 2, 3"}}
op {"slice(Tensor self, dim dim, int start, int stop, int step) -> Tensor", internal = true, view = true,
    grad = {self = "slice_backward(grad, sizes(self), dim, start, stop, step)"}}
op {"slice.range(Tensor self, dim dim=0, index start=nil, int stop=nil, int step=1) -> Tensor",
    doc = [[The positions start, start + step, ... up to and including stop along a dimension; a view. Without
    start from the first one on, without stop to the last; what lies outside is left out.]],
    composite = true, out = false, examples = {"T(3, 4), 2, 2, 3", "T(7), 1, nil, -2, 2"}}
op {"slice_backward(Tensor grad, int[] size, dim dim, int start, int stop, int step) -> Tensor", internal = true,
    grad = {grad = "slice(grad, dim, start, stop, step)"}}
op {"as_strided(Tensor self, int[] size, int[] stride, int storage_offset=nil) -> Tensor",
    doc = [[A view with any sizes and strides (in elements) over self's storage, from storage_offset (counted
    from 0) on; an error if it would reach outside.]],
    view = true,
    grad = {self = "as_strided_backward(grad, sizes(self), strides(self), offset(self), size, stride, storage_offset)"},
    examples = {"T(12), {3, 2}, {4, 1}, 1", "T(3, 4), {2, 2}, {1, 2}"}}
op {"as_strided_backward(Tensor grad, int[] base_size, int[] base_stride, int base_offset, int[] size, int[] stride, "
    .. "int offset) -> Tensor", internal = true, composite = true}
op {"unfold(Tensor self, dim dimension, int size, int step) -> Tensor",
    doc = "All windows of `size` along a dimension, `step` apart, in a new last dimension; a view.",
    view = true, func = false, grad = {self = "unfold_backward(grad, sizes(self), dimension, size, step)"},
    examples = {"T(7), 1, 3, 2", "T(3, 5), 2, 2, 1"}}
op {"unfold_backward(Tensor grad, int[] input_size, dim dimension, int size, int step) -> Tensor", internal = true,
    grad = {grad = "unfold(grad, dimension, size, step)"}}
op {"diagonal(Tensor self, int offset=0, dim dim1=0, dim dim2=1) -> Tensor",
    doc = "The diagonal of the matrices in dim1 and dim2, as a new last dimension; offset > 0 lies above. A view.",
    view = true, grad = {self = "diagonal_backward(grad, sizes(self), offset, dim1, dim2)"},
    examples = {"T(3, 4)", "T(3, 4), 1", "T(2, 3, 4), -1, 2, 3"}}
op {"diagonal_backward(Tensor grad, int[] size, int offset, dim dim1, dim dim2) -> Tensor", internal = true,
    grad = {grad = "diagonal(grad, offset, dim1, dim2)"}}

-- Lists of views -----------------------------------------------------------------------------------

op {"split(Tensor self, int split_size, dim dim=0) -> Tensor[]",
    doc = "Views of split_size positions each along dim, the last one maybe shorter.", composite = true,
    examples = {"T(5, 2), 2"}}
op {"split.sizes(Tensor self, int[] split_sizes, dim dim=0) -> Tensor[]",
    doc = "Views with the given numbers of positions along dim, which must sum to its size.", composite = true,
    examples = {"T(5, 2), {2, 3}"}}
op {"split_with_sizes(Tensor self, int[] split_sizes, dim dim=0) -> Tensor[]",
    doc = "The same as split with a list of sizes.", composite = true, examples = {"T(5, 2), {2, 3}"}}
op {"chunk(Tensor self, int chunks, dim dim=0) -> Tensor[]",
    doc = "At most `chunks` views of equal size along dim, the last one maybe shorter.", composite = true,
    examples = {"T(5, 2), 2"}}
op {"unbind(Tensor self, dim dim=0) -> Tensor[]", doc = "All positions along dim as views.", composite = true,
    examples = {"T(3, 2)"}}

-- Joining and rearranging --------------------------------------------------------------------------

op {"cat(Tensor[] tensors, dim dim=0) -> Tensor",
    doc = "The tensors one after the other along dim; their other sizes must agree. Dtypes are promoted.",
    alias = {"concat", "concatenate"},
    grad = {tensors = "cat_backward(grad, lengths(tensors, dim), dim)"},
    examples = {"{T(2, 3), T(1, 3)}", "{T(2, 3), T(2, 1)}, 2", "{T(2), T(0), T(1)}"}}
op {"cat_backward(Tensor grad, int[] lengths, dim dim) -> Tensor[]", internal = true, composite = true}
op {"stack(Tensor[] tensors, dim dim=0) -> Tensor",
    doc = "The tensors, all of one shape, along a new dimension.", composite = true,
    examples = {"{T(2, 3), T(2, 3)}", "{T(2), T(2), T(2)}, 2", "{T(), T()}"}}
op {"flip(Tensor self, dim[] dims...) -> Tensor", doc = "The order of positions along dims reversed; a copy.",
    grad = {self = "flip(grad, dims)"}, examples = {"T(2, 3), 1", "T(2, 3), {1, 2}"}}
op {"roll(Tensor self, int[] shifts, dim[] dims=nil) -> Tensor",
    doc = "Positions shifted along dims, those that leave coming in at the other end; flattened without dims.",
    composite = true, examples = {"T(5), 2", "T(2, 3), {1, -1}, {1, 2}", "T(2, 3), 1"}}
op {"tile(Tensor self, int[] dims...) -> Tensor", doc = "self repeated dims[i] times along dimension i.",
    composite = true, examples = {"T(2, 3), 2, 2", "T(3), {2, 1}"}}
op {"repeat(Tensor self, int[] sizes...) -> Tensor",
    doc = "self repeated sizes[i] times along dimension i; x[\"repeat\"](x, ...) or x:repeat_tensor(...).",
    composite = true, func = false, alias = {"repeat_tensor"}, examples = {"T(2, 3), 2, 2", "T(3), {2, 1}"}}
op {"tril(Tensor self, int diagonal=0) -> Tensor",
    doc = "The lower triangle of the matrices in the last two dimensions, zero elsewhere.",
    inplace = true, grad = {self = "tril(grad, diagonal)"}, examples = {"T(3, 4)", "T(2, 3, 3), -1"}}
op {"triu(Tensor self, int diagonal=0) -> Tensor",
    doc = "The upper triangle of the matrices in the last two dimensions, zero elsewhere.",
    inplace = true, grad = {self = "triu(grad, diagonal)"}, examples = {"T(3, 4)", "T(2, 3, 3), 1"}}
