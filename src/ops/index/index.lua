-- Operators that read and write elements by index. Positions in index tensors count from 1.
-- Elements with the same destination are combined in order, so results do not depend on the number
-- of threads.

op {"index_select(Tensor self, dim dim, Tensor index) -> Tensor",
    doc = "Returns a copy of the positions along dim that index, a vector, lists.",
    grad = {self = "index_positions_backward(grad, index, sizes(self), dim, 1)"},
    examples = {"T(3, 4), 1, I(3, 5)", "T(3, 4), 2, I(4, 2)", "T(2, 3, 4), -2, I(3, 3)",
                "T(5), 1, I(5, 0)"}}
example("index_select", [=[
   local x = torch.tensor {{1, 2}, {3, 4}, {5, 6}}
   print(x:index_select(1, torch.tensor {3, 1}))
   --> tensor([[5, 6],
   -->         [1, 2]])]=])
op {"take(Tensor self, Tensor index) -> Tensor",
    doc = [[Returns the elements of self, taken in row-major order, at the given positions; negative
    ones count from the end.]],
    node = "Take", composite = true, examples = {"T(3, 4), I(12, 2, 3)", "T(4, 3):t(), I(12, 5)"}}
op {"take_along_dim(Tensor self, Tensor indices, dim dim=nil) -> Tensor",
    doc = [[Computes gather after broadcasting self and indices in the other dimensions; without dim
    self is flattened first.]],
    composite = true,
    examples = {"T(3, 4), I(4, 3, 2), 2", "T(3, 4), I(4, 1, 2), 2", "T(3, 4), I(12, 5)"}}
example("take_along_dim", [=[
   local x = torch.tensor {{30, 10, 20}}
   print(x:take_along_dim(x:argsort(2), 2))
   --> tensor([[10, 20, 30]])]=])
op {"unravel_index(Tensor indices, int[] shape) -> Tensor[]",
    doc = [[Converts positions in row-major order to positions in each dimension of a tensor of the
    given shape; returns a list with one tensor per dimension.]],
    composite = true, nondiff = "positions", examples = {"I(12, 5), {3, 4}", "I(6, 2, 2), 6"}}

-- Implements x[...]. Each dimension has a tensor of positions, a mask that covers one or more
-- dimensions, or no entry. A missing entry selects the whole dimension.
op {"index(Tensor self, Tensor[] indices) -> Tensor", internal = true, composite = true,
    hooked = true, waits = "the true elements of masks are counted"}
op {"index_positions(Tensor self, Tensor index, dim first, int count) -> Tensor",
    name = "index", internal = true,
    grad = {self = "index_positions_backward(grad, index, sizes(self), first, count)"}}
op {[[index_positions_backward(Tensor grad_output, Tensor index, int[] size, dim first, int count)
      -> Tensor]],
    name = "index_backward",
    internal = true, grad = {grad_output = "index_positions(grad, index, first, count)"}}
op {"unwrap_position(Tensor self, Number size) -> Tensor", name = "index", internal = true,
    pointwise = {types = "integer", bool = false}, nondiff = "positions"}
op {"join_positions(Tensor self, Tensor inner, Number size) -> Tensor",
    name = "index", internal = true,
    pointwise = {types = "integer", bool = false}, nondiff = "positions"}

-- Writing -----------------------------------------------------------------------------------------

local function writes(entry)
   entry.inplace = "native"
   op(entry)
end

writes {"index_add(Tensor self, dim dim, Tensor index, Tensor source, *, Number alpha=1) -> Tensor",
    doc = [[Adds alpha times each position of source along dim to the position of self that index
    lists for it.]],
    grad = {self = "grad", source = "scaled(index_select(grad, dim, index), alpha)"},
    examples = {"T(3, 4), 1, I(3, 5), T(5, 4)", "T(3, 4), 2, I(4, 2), T(3, 2), {alpha = 2}"}}
example("index_add", [[
   local x = torch.zeros(3)
   print(x:index_add(1, torch.tensor {1, 1, 3}, torch.tensor {1.0, 2.0, 3.0}))
   --> tensor([3., 0., 3.])]])
writes {"index_copy(Tensor self, dim dim, Tensor index, Tensor source) -> Tensor",
    doc = [[Copies each position of source along dim to the position of self that index lists for
    it.]],
    grad = {self = "index_fill(grad, dim, index, 0)", source = "index_select(grad, dim, index)"},
    autocast = {cpu = "widest"},
    examples = {"T(3, 4), 1, torch.tensor{3, 1}, T(2, 4)", "T(3, 4), 2, torch.tensor{2}, T(3, 1)"}}
op {[[index_reduce(Tensor self, dim dim, Tensor index, Tensor source, string reduce, *,
      bool include_self=true) -> Tensor]],
    node = "IndexReduce",
    doc = [[Combines the positions of source along dim at the positions of self that index lists, by
    reduce = "prod", "mean", "amax" or "amin". self's own elements take part unless include_self is
    false.]],
    composite = true, inplace = true,
    examples = {"P(3, 4), 1, I(3, 5), P(5, 4), 'prod'",
                "T(3, 4), 2, I(4, 2), T(3, 2), 'mean', {include_self = false}",
                "T(3, 4), 1, I(3, 5), T(5, 4), 'amax'", "T(3, 4), 1, I(3, 5), T(5, 4), 'amin'"}}
writes {"index_fill(Tensor self, dim dim, Tensor index, Number value) -> Tensor",
    doc = [[Sets the positions along dim that index lists to a number; negative ones count from the
    end.]],
    grad = {self = "index_fill(grad, dim, index, 0)"}, examples = {"T(3, 4), 2, I(4, 2), 1.5"}}
op {"index_fill.tensor(Tensor self, dim dim, Tensor index, Tensor value) -> Tensor",
    node = "IndexFill",
    doc = "The same with the number in a tensor of no dimensions.", composite = true,
    inplace = true, out = false,
    examples = {"T(3, 4), 2, I(4, 2), T()"}}
writes {"put(Tensor self, Tensor index, Tensor source, bool accumulate=false) -> Tensor",
    doc = [[Writes the elements of source to the given positions of self in row-major order, or adds
    them if accumulate is true; negative positions count from the end.]],
    grad = {self = "put_backward_self(grad, index, source, accumulate)",
            source = "reshape(take(grad, index), sizes(source))"},
    examples = {"T(3, 4), torch.tensor{2, 7, 12}, T(3)", "T(3, 4), I(12, 2, 3), T(2, 3), true"}}
op {"put_backward_self(Tensor grad_output, Tensor index, Tensor source, bool accumulate) -> Tensor",
    internal = true,
    composite = true}
op {"index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate=false) -> Tensor",
    doc = [[Writes values, broadcast, to self[indices], or adds them if accumulate is true. indices
    is a list with a tensor of positions or a mask for each of the first dimensions.]],
    composite = true, out = false, any_device = {indices = true, values = true},
    waits = "the true elements of masks are counted",
    autocast = {gpu = "widest"},
    examples = {"T(3, 4), {torch.tensor{1, 3}}, T(2, 4)", "T(3, 4), {I(3, 5), I(4, 5)}, T(5), true",
                "T(3, 4), {M(3)}, T()"}}
op {"index_put_(Tensor self, Tensor[] indices, Tensor values, bool accumulate=false) -> self",
    doc = "The same in place.", composite = true, hooked = true, nondiff = "see index_put",
    any_device = {indices = true, values = true},
    waits = "the true elements of masks are counted"}
example("index_put_", [=[
   local x = torch.zeros(2, 2)
   x:index_put_({torch.tensor {1, 2}, torch.tensor {2, 1}}, torch.tensor(5.0))
   print(x)
   --> tensor([[0., 5.],
   -->         [5., 0.]])]=])
op {[[put_positions(Tensor self, Tensor index, Tensor values, dim first, int count, bool accumulate)
      -> Tensor]],
    name = "index_put",
    internal = true, inplace = "native",
    grad = {self = "put_positions_backward_self(grad, index, first, count, accumulate)",
            values = "index_positions(grad, index, first, count)"}}
op {[[put_positions_backward_self(Tensor grad_output, Tensor index, dim first, int count,
      bool accumulate) -> Tensor]],
    internal = true, composite = true}

takes_complex [[index_select take take_along_dim index index_positions index_positions_backward
   index_add index_copy index_fill index_fill_tensor put put_backward_self index_put index_put_
   put_positions put_positions_backward_self]]
