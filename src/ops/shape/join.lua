-- Splitting tensors into lists of views, and copies that join, repeat or rearrange.

-- Lists of views ----------------------------------------------------------------------------------

op {"split(Tensor self, int split_size, dim dim=0) -> Tensor[]",
    node = "Split",
    doc = "Views of split_size positions each along dim, the last one maybe shorter.",
    composite = true, alias = {"unsafe_split"},
    examples = {"T(5, 2), 2"}}
example("split", [[
   local parts = torch.arange(5):split(2) -- pieces of two elements
   print(#parts, parts[1], parts[3])
   --> 3	tensor([0, 1])	tensor([4])]])
op {"split.sizes(Tensor self, int[] split_sizes, dim dim=0) -> Tensor[]",
    node = "SplitWithSizes",
    doc = "Views with the given numbers of positions along dim, which must sum to its size.",
    composite = true,
    examples = {"T(5, 2), {2, 3}"}}
op {"split_with_sizes(Tensor self, int[] split_sizes, dim dim=0) -> Tensor[]",
    node = "SplitWithSizes", doc = "The same as split with a list of sizes.", composite = true,
    alias = {"unsafe_split_with_sizes"},
    examples = {"T(5, 2), {2, 3}"}}
op {"chunk(Tensor self, int chunks, dim dim=0) -> Tensor[]",
    node = "Split",
    doc = "At most `chunks` views of equal size along dim, the last one maybe shorter.",
    composite = true, alias = {"unsafe_chunk"},
    examples = {"T(5, 2), 2"}}
example("chunk", [[
   local parts = torch.arange(5):chunk(2) -- a list of two pieces
   print(#parts, parts[1], parts[2])
   --> 2	tensor([0, 1, 2])	tensor([3, 4])]])
op {"unbind(Tensor self, dim dim=0) -> Tensor[]", node = "Unbind",
    doc = "All positions along dim as views.",
    composite = true,
    examples = {"T(3, 2)"}}
example("unbind", [[
   local rows = torch.tensor({{1, 2}, {3, 4}}):unbind()
   print(#rows, rows[2])
   --> 2	tensor([3, 4])]])

-- Joining and rearranging -------------------------------------------------------------------------

op {"cat(Tensor[] tensors, dim dim=0) -> Tensor",
    doc = [[The tensors one after the other along dim; their other sizes must agree. Dtypes are
    promoted.]],
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
    node = "Stack", doc = "The tensors, all of one shape, along a new dimension.", composite = true,
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
    doc = "The order of positions along dims reversed; a copy.",
    grad = {self = "flip(grad, dims)"}, examples = {"T(2, 3), 1", "T(2, 3), {1, 2}"}}
example("flip", [=[
   print(torch.tensor({{1, 2}, {3, 4}}):flip(2))
   --> tensor([[2, 1],
   -->         [4, 3]])]=])
op {"roll(Tensor self, int[] shifts, dim[] dims=nil) -> Tensor",
    node = "Roll",
    doc = [[Positions shifted along dims, those that leave coming in at the other end; flattened
    without dims.]],
    composite = true, examples = {"T(5), 2", "T(2, 3), {1, -1}, {1, 2}", "T(2, 3), 1"}}
example("roll", [[
   print(torch.arange(5):roll(2))
   --> tensor([3, 4, 0, 1, 2])]])
op {"tile(Tensor self, int[] dims...) -> Tensor",
    node = "Repeat", doc = "self repeated dims[i] times along dimension i.",
    composite = true, examples = {"T(2, 3), 2, 2", "T(3), {2, 1}"}}
example("tile", [[
   print(torch.tensor({1, 2}):tile(2))
   --> tensor([1, 2, 1, 2])]])
op {"repeat(Tensor self, int[] sizes...) -> Tensor",
    node = "Repeat", doc = [[self repeated sizes[i] times along dimension i; x["repeat"](x, ...) or
    x:repeat_tensor(...).]],
    composite = true, func = false, alias = {"repeat_tensor"},
    examples = {"T(2, 3), 2, 2", "T(3), {2, 1}"}}
op {"tril(Tensor self, int diagonal=0) -> Tensor",
    doc = "The lower triangle of the matrices in the last two dimensions, zero elsewhere.",
    inplace = true, grad = {self = "tril(grad, diagonal)"},
    examples = {"T(3, 4)", "T(2, 3, 3), -1"}}
example("tril", [=[
   print(torch.ones(3, 3):tril())
   --> tensor([[1., 0., 0.],
   -->         [1., 1., 0.],
   -->         [1., 1., 1.]])]=])
op {"triu(Tensor self, int diagonal=0) -> Tensor",
    doc = "The upper triangle of the matrices in the last two dimensions, zero elsewhere.",
    inplace = true, grad = {self = "triu(grad, diagonal)"}, examples = {"T(3, 4)", "T(2, 3, 3), 1"}}
example("triu", [=[
   print(torch.ones(3, 3):triu(1)) -- the elements above the diagonal
   --> tensor([[0., 1., 1.],
   -->         [0., 0., 1.],
   -->         [0., 0., 0.]])]=])

takes_complex()
