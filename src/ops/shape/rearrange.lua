-- Operators that join, split and repeat tensors under other names or along fixed dimensions, and
-- operators that assemble matrices from parts.

local function op_list(name, doc, alias)
   op {name .. "(Tensor[] tensors) -> Tensor", doc = doc, composite = true, alias = alias,
       examples = {"{T(2, 3), T(2, 3)}", "{T(3), T(3)}", "{T(), T()}"}}
end

op_list("hstack", "Joins tensors along dimension 2, or vectors along dimension 1.")
example("hstack", [[
   print(torch.hstack {torch.tensor {1, 2}, torch.tensor {3}})
   --> tensor([1, 2, 3])]])
op_list("vstack", "Joins tensors along dimension 1; vectors become rows.", {"row_stack"})
example("vstack", [=[
   print(torch.vstack {torch.tensor {1, 2}, torch.tensor {3, 4}})
   --> tensor([[1, 2],
   -->         [3, 4]])]=])
op_list("dstack",
   "Joins tensors along dimension 3, after adding dimensions of size 1 as atleast_3d does.")
op_list("column_stack", "Joins tensors along dimension 2; vectors become columns.")

for n = 1, 3 do
   op {("atleast_%dd(Tensor self) -> Tensor"):format(n), composite = true, method = false,
       out = false,
       doc = ("Returns a view with at least %d dimension%s."):format(n, n > 1 and "s" or ""),
       examples = {"T()", "T(3)", "T(2, 3)"}}
end

for n = 1, 3 do
   op {("atleast_%dd.list(Tensor[] tensors...) -> Tensor[]"):format(n), composite = true,
       doc = "The same for several tensors; returns a list.",
       examples = {"{T(), T(3)}", "T(2, 3), T(2)"}}
end

op {"broadcast_tensors(Tensor[] tensors...) -> Tensor[]",
    doc = "Returns views of the tensors, expanded to their common shape.",
    composite = true, examples = {"{T(3, 1), T(4)}"}}
op {"meshgrid(Tensor[] tensors..., *, string indexing='ij') -> Tensor[]",
    doc = [[Returns the coordinates of a grid: the i-th tensor holds the i-th vector along dimension
    i, repeated along the others. With indexing = "xy" the first two dimensions are swapped.]],
    composite = true, examples = {"{T(2), T(3)}", "{T(2), T(3), T(2)}, {indexing = 'xy'}"}}
example("meshgrid", [=[
   local y, x = table.unpack(torch.meshgrid(torch.arange(2), torch.arange(3)))
   print(y)
   --> tensor([[0, 0, 0],
   -->         [1, 1, 1]])
   print(x)
   --> tensor([[0, 1, 2],
   -->         [0, 1, 2]])]=])

op {"cartesian_prod(Tensor[] tensors...) -> Tensor",
    doc = [[Returns all ways to choose one element of each vector, one way per row. A single vector
    is returned as it is.]],
    composite = true, out = false, examples = {"T(2), T(3)", "{T(2), T(1), T(2)}", "T(2)"}}
example("cartesian_prod", [=[
   print(torch.cartesian_prod {torch.tensor {1, 2}, torch.tensor {3, 4}})
   --> tensor([[1, 3],
   -->         [1, 4],
   -->         [2, 3],
   -->         [2, 4]])]=])
op {"combinations(Tensor self, int r=2, bool with_replacement=false) -> Tensor",
    node = "Index",
    doc = [[Returns all ways to choose r elements of a vector, in its order, one way per row;
    with_replacement allows an element to occur several times.]],
    composite = true, out = false, examples = {"T(4)", "T(3), 2, true"}}
example("combinations", [=[
   print(torch.tensor({1, 2, 3}):combinations(2))
   --> tensor([[1, 2],
   -->         [1, 3],
   -->         [2, 3]])]=])

op {"fliplr(Tensor self) -> Tensor",
    doc = "Returns a copy with the order of the columns (dimension 2) reversed.",
    composite = true,
    examples = {"T(2, 3)"}}
op {"flipud(Tensor self) -> Tensor",
    doc = "Returns a copy with the order of the rows (dimension 1) reversed.",
    composite = true,
    examples = {"T(3)"}}
op {"rot90(Tensor self, int k=1, dim[] dims={0,1}) -> Tensor",
    doc = [[Rotates self k times by 90 degrees in the plane of two dimensions, from the first
    towards the second.]],
    node = "Rot90", composite = true,
    examples = {"T(2, 3)", "T(2, 3), 2", "T(2, 3, 2), -1, {2, 3}"}}
example("rot90", [=[
   print(torch.tensor({{1, 2}, {3, 4}}):rot90())
   --> tensor([[2, 4],
   -->         [1, 3]])]=])

op {"diag(Tensor self, int diagonal=0) -> Tensor",
    doc = "Returns a matrix with a vector on its diagonal, or a copy of a matrix's diagonal.",
    composite = true, examples = {"T(3)", "T(3), 1", "T(3, 4), -1"}}
example("diag", [=[
   print(torch.tensor({1, 2}):diag())
   --> tensor([[1, 0],
   -->         [0, 2]])]=])
op {"diag_embed(Tensor self, int offset=0, dim dim1=-2, dim dim2=-1) -> Tensor",
    doc = [[Returns matrices in dim1 and dim2 that hold self's last dimension on their diagonals and
    zeros elsewhere.]],
    grad = {self = "diagonal(grad, offset, dim1, dim2)"},
    examples = {"T(2, 3)", "T(2, 3), 1, 1, 3", "T(2), -1"}}
op {"diagflat(Tensor self, int offset=0) -> Tensor",
    doc = "Returns a matrix that holds all elements of self on a diagonal and zeros elsewhere.",
    expr = "diag_embed(ravel(self), offset)", examples = {"T(2, 2)", "T(2), 1"}}
op {"block_diag(Tensor[] tensors...) -> Tensor",
    doc = [[Returns a matrix that holds the given matrices along its diagonal and zeros elsewhere;
    vectors count as rows.]],
    node = "BlockDiag", composite = true, examples = {"{T(2, 3), T(1, 2), T(2), T()}"}}
for _, row in ipairs {{"tril", "lower"}, {"triu", "upper"}} do
   op {row[1] .. [[_indices(int row, int col, int offset=0, *, dtype dtype=nil, device device=nil)
         -> Tensor]],
       doc = "Returns the positions, from 1, of the " .. row[2]
         .. " triangle of a (row, col) matrix: (2, n), in row-major order.",
       composite = true, nondiff = "positions"}
end

op {"repeat_interleave(Tensor self, int repeats, dim dim=nil) -> Tensor",
    doc = "Repeats each position along dim `repeats` times; without dim self is flattened first.",
    composite = true, examples = {"T(3), 2", "T(2, 3), 2, 2", "T(2, 2), 3"}}
example("repeat_interleave", [[
   print(torch.tensor({1, 2}):repeat_interleave(2))
   --> tensor([1, 1, 2, 2])]])
op {[[repeat_interleave.each(Tensor self, Tensor repeats, dim dim=nil, *, int output_size=nil)
      -> Tensor]],
    doc = "The same, with a number of repetitions for each position.",
    composite = true, waits = "the result's shape depends on the data",
    examples = {"T(3), torch.tensor {2, 0, 1}", "T(2, 3), torch.tensor {1, 2}, 1",
       "T(3), torch.tensor {2, 0, 1}, {output_size = 3}"}}
op {"repeat_interleave.positions(Tensor repeats, *, int output_size=nil) -> Tensor",
    doc = "Returns a vector that holds each position i, from 1, repeats[i] times.",
    composite = true, method = false,
    nondiff = "positions",
    waits = "the result's shape depends on the data", examples = {"torch.tensor {2, 0, 1}"}}

op {"tensor_split(Tensor self, int sections, dim dim=0) -> Tensor[]",
    doc = [[Splits self along dim into `sections` views; if they cannot be equal, the first ones are
    longer by one.]],
    composite = true, examples = {"T(7), 3", "T(2, 5), 2, 2"}}
example("tensor_split", [[
   local parts = torch.arange(5):tensor_split(2)
   print(parts[1], parts[2])
   --> tensor([0, 1, 2])	tensor([3, 4])]])
op {"tensor_split.positions(Tensor self, int[] positions, dim dim=0) -> Tensor[]",
    doc = "Splits self along dim after each of the given positions; returns views.",
    composite = true, examples = {"T(7), {2, 5}", "T(2, 5), {1, 3}, 2"}}
op {"tensor_split.tensor(Tensor self, Tensor tensor_indices_or_sections, dim dim=0) -> Tensor[]",
    doc = "The same with the number of sections, or the positions, in an integer tensor.",
    composite = true, any_device = {tensor_indices_or_sections = true},
    waits = "tensor_indices_or_sections is read",
    examples = {"T(7), torch.tensor {2, 5}", "T(2, 5), torch.tensor(2), 2"}}
for _, row in ipairs {{"hsplit", "dimension 2, or 1 of a vector"}, {"vsplit", "dimension 1"},
                      {"dsplit", "dimension 3"}} do
   op {row[1] .. "(Tensor self, int sections) -> Tensor[]",
       doc = "Splits self into `sections` views of equal size along " .. row[2] .. ".",
       composite = true,
       examples = {"T(4, 4, 4), 2"}}
   op {row[1] .. ".positions(Tensor self, int[] positions) -> Tensor[]",
       doc = "Splits self along " .. row[2] .. " after each of the given positions; returns views.",
       composite = true,
       examples = {"T(4, 4, 4), {1, 3}"}}
end

takes_complex()
