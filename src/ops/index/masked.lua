-- Operators that read and write the elements at which a mask is true.

op {"masked_select(Tensor self, Tensor mask) -> Tensor",
    node = "MaskedSelect",
    doc = "Returns the elements where mask (bool, broadcast with self) is true, in one dimension.",
    composite = true, waits = "the result's shape depends on the data",
    examples = {"T(3, 4), M(3, 4)", "T(3, 4), M(4)", "T(4), M(3, 4)"}}
example("masked_select", [[
   local x = torch.tensor {1, 5, 3}
   print(x:masked_select(x:gt(2)), x[x:gt(2)])
   --> tensor([5, 3])	tensor([5, 3])]])

op {"masked_fill(Tensor self, Tensor mask, Operand value) -> Tensor",
    doc = [[Returns value, a number or a tensor of no dimensions, where mask (bool, broadcast with
    self) is true, else self.]],
    composite = true,
    examples = {"T(3, 4), M(3, 4), 2.5", "T(3, 4), M(4), T()", "T(4), M(3, 4), 0"}}
example("masked_fill", [[
   local x = torch.tensor {1.0, 2.0, 3.0}
   print(x:masked_fill(x:gt(2), -torch.inf))
   --> tensor([1., 2., -inf])]])
op {"masked_fill_(Tensor self, Tensor mask, Operand value) -> self", doc = "The same in place.",
    composite = true,
    func = false, nondiff = "see masked_fill"}
op {"masked_fill_kernel(Tensor self, Tensor mask, Tensor value) -> Tensor",
    name = "masked_fill", internal = true,
    pointwise = {types = "number"}, inplace = true,
    grad = {self = "keep_where(grad, logical_not(mask))", value = "keep_where(grad, mask)"}}
op {"masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    doc = [[Writes the elements of source, in order, to the positions where mask (bool, broadcast
    with self) is true.]],
    node = "MaskedScatter", composite = true, waits = "the number of true elements is read",
    examples = {"T(3, 4), M(3, 4), T(12)", "T(3, 4), M(4), T(4, 4)"}}
op {"masked_scatter_(Tensor self, Tensor mask, Tensor source) -> self", doc = "The same in place.",
    node = "MaskedScatter", composite = true,
    func = false, nondiff = "see masked_scatter", waits = "the number of true elements is read"}

takes_complex()
