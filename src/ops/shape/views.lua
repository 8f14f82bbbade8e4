-- Operators that return a view of all elements of self: the same memory with other sizes and
-- strides.

op {"view(Tensor self, int[] size...) -> Tensor",
    doc = [[Returns a view with another shape and the same elements. One size may be -1 and is then
    computed. If the strides allow no such view, this is an error: use reshape.]],
    view = true, func = false, grad = {self = "reshape(grad, sizes(self))"},
    examples = {"T(3, 4), 4, 3", "T(3, 4), -1", "T(2, 3, 4), 6, -1"}}
example("view", [=[
   local x = torch.zeros(2, 3)
   local y = x:view(3, 2) -- y shares x's memory
   y[{1, 1}] = 5
   print(x)
   --> tensor([[5., 0., 0.],
   -->         [0., 0., 0.]])]=])
op {"view.dtype(Tensor self, dtype dtype) -> Tensor",
    doc = [[Returns a view that reads the same bytes as another dtype. If the elements of both
    dtypes differ in width, the last size changes accordingly: its stride must be 1, and it, the
    offset and the other strides must fill whole elements of the new dtype.]],
    composite = true, func = false,
    out = false,
    nondiff = "it reinterprets bytes"}

op {"reshape(Tensor self, int[] shape...) -> Tensor",
    doc = [[Returns the same elements in another shape: a view if possible, else a copy. One size
    may be -1 and is then computed.]],
    composite = true, hooked = true, out = false, examples = {"T(4, 3):t(), 2, 6", "T(3, 4), -1"}}
example("reshape", [=[
   local x = torch.arange(6)
   print(x:reshape(2, -1))
   --> tensor([[0, 1, 2],
   -->         [3, 4, 5]])]=])
op {"view_as(Tensor self, Tensor other) -> Tensor",
    doc = "Returns a view with other's shape; see view.",
    expr = "view(self, sizes(other))", func = false, out = false, examples = {"T(3, 4), T(12)"}}
op {"reshape_as(Tensor self, Tensor other) -> Tensor",
    doc = "Returns self in other's shape: a view if possible, else a copy.",
    expr = "reshape(self, sizes(other))", func = false, out = false, examples = {"T(3, 4), T(12)"}}
op {"flatten(Tensor self, dim start_dim=0, dim end_dim=-1) -> Tensor",
    doc = "Merges the dimensions start_dim to end_dim into one; the result is a view if possible.",
    composite = true,
    out = false,
    examples = {"T(2, 3, 4)", "T(2, 3, 4), 2", "T(2, 3, 4), 1, 2", "T()"}}
example("flatten", [[
   local x = torch.zeros(8, 3, 4)
   print(table.unpack(x:flatten(2).shape)) -- flattens the dimensions from 2 on
   --> 8	12]])
op {"unflatten(Tensor self, dim dim, int[] sizes) -> Tensor",
    doc = "Splits one dimension into several of the given sizes, one of which may be -1.",
    composite = true,
    out = false,
    examples = {"T(2, 12), 2, {3, -1}"}}
example("unflatten", [[
   print(table.unpack(torch.zeros(8, 12):unflatten(2, {3, -1}).shape))
   --> 8	3	4]])
op {"ravel(Tensor self) -> Tensor",
    doc = "Returns all elements in one dimension: a view if possible, else a copy.",
    expr = "reshape(self, -1)", node = "View", out = false,
    examples = {"T(2, 3)"}}
example("ravel", [[
   print(torch.tensor({{1, 2}, {3, 4}}):ravel())
   --> tensor([1, 2, 3, 4])]])
op {"expand(Tensor self, int[] size...) -> Tensor",
    doc = [[Returns a view in which dimensions of size 1 are repeated to the given sizes; -1 keeps a
    size. Additional sizes add dimensions in front.]],
    view = true, func = false, grad = {self = "sum_to_size(grad, sizes(self))"},
    examples = {"T(3, 1), 3, 4", "T(3), 2, -1", "T(), 2, 2"}}
example("expand", [=[
   local x = torch.tensor {{1}, {2}}
   print(x:expand(-1, 3)) -- the result is a view: no memory is copied
   --> tensor([[1, 1, 1],
   -->         [2, 2, 2]])]=])
op {"expand_as(Tensor self, Tensor other) -> Tensor",
    doc = "Expands self to other's shape; a view.",
    composite = true, func = false, out = false, examples = {"T(3, 1), T(3, 4)"}}
op {"broadcast_to(Tensor self, int[] size...) -> Tensor", doc = "The same as expand.",
    composite = true, out = false, examples = {"T(3, 1), {3, 4}"}}
example("broadcast_to", [=[
   print(torch.tensor({1, 2}):broadcast_to({2, 2}))
   --> tensor([[1, 2],
   -->         [1, 2]])]=])
op {"sum_to_size(Tensor self, int[] size...) -> Tensor",
    doc = "Sums self over the dimensions that were broadcast, so that the result has that shape.",
    composite = true, func = false, out = false, examples = {"T(3, 4), 3, 1", "T(2, 3, 4), 4"}}
op {"permute(Tensor self, dim[] dims...) -> Tensor",
    doc = "Returns a view with the dimensions in the order of dims.",
    view = true, grad = {self = "permute_back(grad, dims)"},
    examples = {"T(2, 3, 4), 3, 1, 2", "T(2, 3), {-1, 1}"}}
example("permute", [[
   print(table.unpack(torch.zeros(2, 3, 5):permute(3, 1, 2).shape))
   --> 5	2	3]])
op {"permute_back(Tensor self, dim[] dims) -> Tensor", internal = true, composite = true}
op {"transpose(Tensor self, dim dim0, dim dim1) -> Tensor",
    doc = "Returns a view with two dimensions swapped.",
    view = true, alias = {"swapaxes", "swapdims"}, grad = {self = "transpose(grad, dim0, dim1)"},
    examples = {"T(2, 3, 4), 1, 3", "T(2, 3), -1, -2"}}
example("transpose", [=[
   print(torch.tensor({{1, 2, 3}, {4, 5, 6}}):transpose(1, 2))
   --> tensor([[1, 4],
   -->         [2, 5],
   -->         [3, 6]])]=])
op {"t(Tensor self) -> Tensor",
    node = "T",
    doc = [[Returns the transpose of a matrix, as a view; a tensor of fewer dimensions stays as it
    is.]],
    composite = true, hooked = true, out = false, examples = {"T(2, 3)", "T(3)"}}
example("t", [=[
   print(torch.tensor({{1, 2}, {3, 4}}):t())
   --> tensor([[1, 3],
   -->         [2, 4]])]=])
op {"adjoint(Tensor self) -> Tensor",
    doc = "Transposes the matrices in the last two dimensions and conjugates their elements.",
    expr = "conj(transpose(self, -2, -1))", out = false, examples = {"T(2, 3)", "T(2, 3, 4)"}}
op {"movedim(Tensor self, dim[] source, dim[] destination) -> Tensor",
    doc = [[Moves the dimensions source to the positions destination; the others keep their order. A
    view.]], composite = true,
    out = false,
    alias = {"moveaxis"}, examples = {"T(2, 3, 4), 1, 3", "T(2, 3, 4), {1, 2}, {3, 1}"}}
example("movedim", [[
   print(table.unpack(torch.zeros(2, 3, 5):movedim(1, 3).shape))
   --> 3	5	2]])
op {"squeeze(Tensor self, dim[] dim=nil) -> Tensor",
    doc = [[Returns a view without the dimensions of size 1, or without those among dim that have
    size 1.]],
    view = true, grad = {self = "reshape(grad, sizes(self))"},
    examples = {"T(3, 1, 2, 1)", "T(3, 1, 2, 1), 2", "T(3, 1), 1", "T(1, 3, 1), {1, 3}"}}
example("squeeze", [[
   local x = torch.zeros(1, 3, 1)
   print(table.unpack(x:squeeze().shape))
   --> 3
   print(table.unpack(x:squeeze(1).shape))
   --> 3	1]])
op {"unsqueeze(Tensor self, dim dim) -> Tensor",
    doc = "Returns a view with a new dimension of size 1 at position dim.",
    view = true, grad = {self = "reshape(grad, sizes(self))"},
    examples = {"T(3, 2), 2", "T(3), -1", "T(), 1"}}
example("unsqueeze", [[
   local x = torch.zeros(3)
   print(table.unpack(x:unsqueeze(1).shape))
   --> 1	3
   print(table.unpack(x:unsqueeze(-1).shape))
   --> 3	1]])

takes_complex()

takes_stored [[view reshape view_as reshape_as flatten unflatten ravel expand expand_as
   broadcast_to permute transpose t adjoint movedim squeeze unsqueeze]]
