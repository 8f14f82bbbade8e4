-- Operators that return a view of a part of self. Indices and ranges count from 1, and ranges
-- include their end.

local options = "*, dtype dtype=nil, device device=nil"

local function create(entry)
   entry.creation, entry.method, entry.nondiff = true, false, "it makes new values"
   op(entry)
end

create {"empty_strided(int[] size, int[] stride, " .. options .. ") -> Tensor",
    doc = "Returns a tensor of the given sizes and strides (in elements) with undefined contents.",
    composite = true}

op {"new_empty_strided(Tensor self, int[] size, int[] stride, " .. options .. ") -> Tensor",
    doc = "The same with self's dtype and device unless given.",
    composite = true, creation = true, func = false, nondiff = "it makes new values"}

create {"empty_permuted(int[] size, index[] physical_layout, " .. options .. ") -> Tensor",
    doc = [[Returns a dense tensor of the given shape with undefined contents. physical_layout lists
    its dimensions, each once, from the outermost to the innermost in memory.]],
    composite = true}

op {"select(Tensor self, dim dim, index index) -> Tensor",
    doc = "Returns a view of one position along dim; the result lacks that dimension.",
    view = true, grad = {self = "select_backward(grad, sizes(self), dim, index)"},
    examples = {"T(3, 4), 2, 3", "T(3, 4), -1, -2"}}
example("select", [[
   local x = torch.tensor {{1, 2}, {3, 4}}
   print(x:select(2, -1), x[{{}, -1}])
   --> tensor([2, 4])	tensor([2, 4])]])
op {"select_backward(Tensor grad, int[] size, dim dim, index index) -> Tensor", internal = true,
    grad = {grad = "select(grad, dim, index)"}}
op {"narrow(Tensor self, dim dim, index start, int length) -> Tensor",
    doc = "Returns a view of `length` positions along dim, from `start` on.",
    composite = true, out = false,
    examples = {"T(3, 4), 2, 2, 3", "T(3), 1, -2, 2", "T(3), 1, 1, 0"}}
example("narrow", [[
   print(torch.arange(5):narrow(1, 2, 3)) -- three elements from position 2 on
   --> tensor([1, 2, 3])]])
op {"narrow.tensor(Tensor self, dim dim, Tensor start, int length) -> Tensor",
    doc = "The same with `start` in a tensor of no dimensions.",
    composite = true, out = false, any_device = {start = true}, waits = "start is read",
    examples = {"T(3, 4), 2, torch.tensor(2), 3"}}
op {"narrow_copy(Tensor self, dim dim, index start, int length) -> Tensor",
    node = "NarrowCopy", doc = "Returns a copy of `length` positions along dim, from `start` on.",
    expr = "clone(narrow(self, dim, start, length))", examples = {"T(3, 4), 2, 2, 3"}}
op {"slice(Tensor self, dim dim, int start, int stop, int step) -> Tensor", internal = true,
    view = true,
    grad = {self = "slice_backward(grad, sizes(self), dim, start, stop, step)"}}
op {"slice.range(Tensor self, dim dim=0, index start=nil, int stop=nil, int step=1) -> Tensor",
    doc = [[Returns a view of the positions start, start + step, ... up to and including stop along
    dim. start is 1 and stop the last position unless given; positions outside are left out.]],
    composite = true, out = false, examples = {"T(3, 4), 2, 2, 3", "T(7), 1, nil, -2, 2"}}
op {"slice_backward(Tensor grad, int[] size, dim dim, int start, int stop, int step) -> Tensor",
    internal = true,
    grad = {grad = "slice(grad, dim, start, stop, step)"}}
op {"as_strided(Tensor self, int[] size, int[] stride, int storage_offset=nil) -> Tensor",
    doc = [[Returns a view of self's storage with the given sizes and strides (in elements), from
    element storage_offset (counted from 0) on. Reaching outside the storage is an error.]],
    view = true,
    grad = {self = [[as_strided_backward(grad, sizes(self), strides(self), offset(self), size,
    stride, storage_offset)]]},
    examples = {"T(12), {3, 2}, {4, 1}, 1", "T(3, 4), {2, 2}, {1, 2}"}}
op {[[as_strided_backward(Tensor grad, int[] base_size, int[] base_stride, int base_offset,
      int[] size, int[] stride, int offset) -> Tensor]], internal = true, composite = true}
op {"unfold(Tensor self, dim dimension, int size, int step) -> Tensor",
    doc = [[Returns a view of all windows of `size` positions along a dimension, `step` apart; a new
    last dimension holds each window's elements.]],
    view = true, func = false,
    grad = {self = "unfold_backward(grad, sizes(self), dimension, size, step)"},
    examples = {"T(7), 1, 3, 2", "T(3, 5), 2, 2, 1"}}
example("unfold", [=[
   local x = torch.arange(5)
   print(x:unfold(1, 3, 2)) -- windows of three elements that begin two apart
   --> tensor([[0, 1, 2],
   -->         [2, 3, 4]])]=])
op {"unfold_backward(Tensor grad, int[] input_size, dim dimension, int size, int step) -> Tensor",
    internal = true,
    grad = {grad = "unfold(grad, dimension, size, step)"}}
op {"diagonal(Tensor self, int offset=0, dim dim1=0, dim dim2=1) -> Tensor",
    doc = [[Returns a view of the diagonals of the matrices in dim1 and dim2, in a new last
    dimension. A positive offset selects a diagonal above the main one.]],
    view = true, grad = {self = "diagonal_backward(grad, sizes(self), offset, dim1, dim2)"},
    examples = {"T(3, 4)", "T(3, 4), 1", "T(2, 3, 4), -1, 2, 3"}}
example("diagonal", [[
   print(torch.tensor({{1, 2}, {3, 4}}):diagonal())
   --> tensor([1, 4])]])
op {"diagonal_backward(Tensor grad, int[] size, int offset, dim dim1, dim dim2) -> Tensor",
    internal = true,
    grad = {grad = "diagonal(grad, offset, dim1, dim2)"}}

takes_complex()

takes_stored [[empty_strided new_empty_strided empty_permuted select narrow narrow_copy slice
   as_strided unfold diagonal]]
