-- Operators that split tensors into lists of views, and operators that join, repeat or rearrange
-- tensors by copying.

-- Lists of views ----------------------------------------------------------------------------------

op {"split(Tensor self, int split_size, dim dim=0) -> Tensor[]",
    node = "Split",
    doc = [[Splits self along dim into views of split_size positions each; the last one may be
    shorter.]],
    composite = true, alias = {"unsafe_split"},
    examples = {"T(5, 2), 2"}}
example("split", [[
   local parts = torch.arange(5):split(2) -- pieces of two elements
   print(#parts, parts[1], parts[3])
   --> 3	tensor([0, 1])	tensor([4])]])
op {"split.sizes(Tensor self, int[] split_sizes, dim dim=0) -> Tensor[]",
    node = "SplitWithSizes",
    doc = [[Splits self along dim into views of the given sizes, whose sum must be the dimension's
    size.]],
    composite = true,
    examples = {"T(5, 2), {2, 3}"}}
op {"split_with_sizes(Tensor self, int[] split_sizes, dim dim=0) -> Tensor[]",
    node = "SplitWithSizes", doc = "The same as split with a list of sizes.", composite = true,
    alias = {"unsafe_split_with_sizes"},
    examples = {"T(5, 2), {2, 3}"}}
op {"chunk(Tensor self, int chunks, dim dim=0) -> Tensor[]",
    node = "Split",
    doc = [[Splits self along dim into at most `chunks` views of equal size; the last one may be
    shorter.]],
    composite = true, alias = {"unsafe_chunk"},
    examples = {"T(5, 2), 2"}}
example("chunk", [[
   local parts = torch.arange(5):chunk(2) -- a list of two pieces
   print(#parts, parts[1], parts[2])
   --> 2	tensor([0, 1, 2])	tensor([3, 4])]])
op {"unbind(Tensor self, dim dim=0) -> Tensor[]", node = "Unbind",
    doc = "Returns a list with a view of each position along dim; the views lack that dimension.",
    composite = true,
    examples = {"T(3, 2)"}}
example("unbind", [[
   local rows = torch.tensor({{1, 2}, {3, 4}}):unbind()
   print(#rows, rows[2])
   --> 2	tensor([3, 4])]])

-- Joining and rearranging -------------------------------------------------------------------------

op {"cat(Tensor[] tensors, dim dim=0) -> Tensor",
    doc = [[Joins tensors along dim; their other sizes must agree. The result has the promoted
    dtype.]],
    alias = {"concat", "concatenate"},
    grad = {tensors = "cat_backward(grad, lengths(tensors, dim), dim)"},
    autocast = {cpu = "widest"},
    examples = {"{T(2, 3), T(1, 3)}", "{T(2, 3), T(2, 1)}, 2", "{T(2), T(0), T(1)}"}}
example("cat", [=[
   local a, b = torch.tensor {{1, 2}}, torch.tensor {{3, 4}}
   print(torch.cat {a, b})
   --> tensor([[1, 2],
   -->         [3, 4]])
   print(torch.cat({a, b}, 2))
   --> tensor([[1, 2, 3, 4]])]=])
op {"cat_backward(Tensor grad, int[] lengths, dim dim) -> Tensor[]", internal = true,
    composite = true}
op {"stack(Tensor[] tensors, dim dim=0) -> Tensor",
    node = "Stack", doc = "Joins tensors of one shape along a new dimension dim.", composite = true,
    hooked = true,
    autocast = {cpu = "widest"},
    examples = {"{T(2, 3), T(2, 3)}", "{T(2), T(2), T(2)}, 2", "{T(), T()}"}}
example("stack", [=[
   local a, b = torch.tensor {1, 2}, torch.tensor {3, 4}
   print(torch.stack {a, b})
   --> tensor([[1, 2],
   -->         [3, 4]])
   print(torch.stack({a, b}, 2))
   --> tensor([[1, 3],
   -->         [2, 4]])]=])
op {"flip(Tensor self, dim[] dims...) -> Tensor",
    doc = "Returns a copy with the order of the positions along dims reversed.",
    grad = {self = "flip(grad, dims)"}, examples = {"T(2, 3), 1", "T(2, 3), {1, 2}"}}
example("flip", [=[
   print(torch.tensor({{1, 2}, {3, 4}}):flip(2))
   --> tensor([[2, 1],
   -->         [4, 3]])]=])
op {"roll(Tensor self, int[] shifts, dim[] dims=nil) -> Tensor",
    node = "Roll",
    doc = [[Shifts the positions along dims; those that leave one end enter at the other. Without
    dims the elements shift in row-major order.]],
    composite = true, examples = {"T(5), 2", "T(2, 3), {1, -1}, {1, 2}", "T(2, 3), 1"}}
example("roll", [[
   print(torch.arange(5):roll(2))
   --> tensor([3, 4, 0, 1, 2])]])
op {"tile(Tensor self, int[] dims...) -> Tensor",
    node = "Repeat", doc = "Repeats self dims[i] times along dimension i.",
    composite = true, examples = {"T(2, 3), 2, 2", "T(3), {2, 1}"}}
example("tile", [[
   print(torch.tensor({1, 2}):tile(2))
   --> tensor([1, 2, 1, 2])]])
op {"repeat(Tensor self, int[] sizes...) -> Tensor",
    node = "Repeat",
    doc = [[Repeats self sizes[i] times along dimension i. `repeat` is a word of Lua: call
    x["repeat"](x, ...) or x:repeat_tensor(...).]],
    composite = true, func = false, alias = {"repeat_tensor"},
    examples = {"T(2, 3), 2, 2", "T(3), {2, 1}"}}
op {"tril(Tensor self, int diagonal=0) -> Tensor",
    doc = [[Keeps the lower triangle of the matrices in the last two dimensions; other elements
    become 0.]],
    inplace = true, grad = {self = "tril(grad, diagonal)"},
    examples = {"T(3, 4)", "T(2, 3, 3), -1"}}
example("tril", [=[
   print(torch.ones(3, 3):tril())
   --> tensor([[1., 0., 0.],
   -->         [1., 1., 0.],
   -->         [1., 1., 1.]])]=])
op {"triu(Tensor self, int diagonal=0) -> Tensor",
    doc = [[Keeps the upper triangle of the matrices in the last two dimensions; other elements
    become 0.]],
    inplace = true, grad = {self = "triu(grad, diagonal)"}, examples = {"T(3, 4)", "T(2, 3, 3), 1"}}
example("triu", [=[
   print(torch.ones(3, 3):triu(1)) -- the elements above the diagonal
   --> tensor([[0., 1., 1.],
   -->         [0., 0., 1.],
   -->         [0., 0., 0.]])]=])

takes_complex()

takes_stored [[split split_with_sizes chunk unbind]]
