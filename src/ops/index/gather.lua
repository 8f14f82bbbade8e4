-- Operators that gather and scatter elements along one dimension. Indices count from 1. Elements
-- with the same destination are combined in order, so results do not depend on the number of
-- threads.

-- Reading -----------------------------------------------------------------------------------------

op {"gather(Tensor self, dim dim, Tensor index) -> Tensor",
    doc = [[Picks along dim: result[i, j, k] = self[index[i, j, k], j, k] for dim 1. The result has
    index's shape, which may be smaller than self's in the other dimensions.]],
    grad = {self = "gather_backward(grad, sizes(self), dim, index)"},
    examples = {"T(3, 4), 1, I(3, 2, 4)", "T(3, 4), 2, I(4, 3, 6)", "T(4, 3):t(), -1, I(4, 2, 2)",
                "T(), 1, I(1)"}}
example("gather", [[
   local scores = torch.tensor {{0.1, 0.9}, {0.8, 0.2}}
   local labels = torch.tensor {2, 1}
   print(scores:gather(2, labels:unsqueeze(2)):flatten())
   --> tensor([0.9000, 0.8000])]])
op {"gather_backward(Tensor grad_output, int[] size, dim dim, Tensor index) -> Tensor",
    internal = true,
    grad = {grad_output = "gather(grad, dim, index)"}}
-- Writing -----------------------------------------------------------------------------------------

local function writes(entry)
   entry.inplace = "native"
   op(entry)
end

writes {"scatter(Tensor self, dim dim, Tensor index, Tensor src) -> Tensor",
    doc = [[Writes along dim: self[index[i, j, k], j, k] = src[i, j, k] for dim 1. index may be
    smaller than self in the other dimensions and than src in all. If a position occurs several
    times, the last element written stays, but all of them get a gradient.]],
    grad = {self = "scatter_value(grad, dim, index, 0)", src = "gather(grad, dim, index)"},
    examples = {"T(3, 4), 1, I(3, 1, 4), T(1, 4)",
                "T(3, 4), 2, torch.tensor{{1, 3}, {4, 2}}, T(2, 2)"}}
example("scatter", [=[
   local x = torch.zeros(2, 3)
   print(x:scatter(2, torch.tensor {{3}, {1}}, 1)) -- one-hot rows
   --> tensor([[0., 0., 1.],
   -->         [1., 0., 0.]])]=])
writes {"scatter.value(Tensor self, dim dim, Tensor index, Number value) -> Tensor",
    doc = "The same with one number for all positions.",
    grad = {self = "scatter_value(grad, dim, index, 0)"},
    examples = {"T(3, 4), 1, I(3, 2, 4), 2.5"}}
writes {[[scatter.joined(Tensor self, dim dim, Tensor index, Tensor src, *, string reduce)
      -> Tensor]],
    doc = [[The same, but reduce = 'add' or 'multiply' combines src with self's elements instead of
    replacing them.]],
    nondiff = "use scatter_add or scatter_reduce",
    examples = {"T(3, 4), 1, I(3, 2, 4), T(2, 4), {reduce = 'add'}"}}
writes {[[scatter.value_joined(Tensor self, dim dim, Tensor index, Number value, *, string reduce)
      -> Tensor]],
    doc = "The same with one number for all positions.",
    nondiff = "use scatter_add or scatter_reduce",
    examples = {"T(3, 4), 1, I(3, 2, 4), 2, {reduce = 'multiply'}"}}
writes {"scatter_add(Tensor self, dim dim, Tensor index, Tensor src) -> Tensor",
    doc = "Adds along dim: self[index[i, j, k], j, k] += src[i, j, k] for dim 1.",
    grad = {self = "grad", src = "gather(grad, dim, index)"},
    autocast = {gpu = "widest"},
    examples = {"T(3, 4), 1, I(3, 5, 4), T(5, 4)", "T(3, 4), 2, I(4, 2, 6), T(2, 6)",
                "T(), 1, I(1), T()"}}
example("scatter_add", [[
   local sums = torch.zeros(3)
   local group = torch.tensor {1, 3, 1}
   print(sums:scatter_add(1, group, torch.tensor {10.0, 20.0, 30.0}))
   --> tensor([40.,  0., 20.])]])
writes {[[scatter_reduce(Tensor self, dim dim, Tensor index, Tensor src, string reduce, *,
      bool include_self=true) -> Tensor]],
    doc = [[Combines the elements of src that go to one position along dim by reduce = "sum",
    "prod", "mean", "amax" or "amin". self's own element takes part unless include_self is false.]],
    grad = {["self, src"] = [[scatter_reduce_backward(grad, self, dim, index, src, reduce,
    include_self, result)]]},
    examples = {"T(3, 4), 1, I(3, 5, 4), T(5, 4), 'sum'", "T(3, 4), 1, I(3, 5, 4), T(5, 4), 'mean'",
                "P(3, 4), 2, I(4, 3, 6), P(3, 6), 'prod'",
                "T(3, 4), 2, I(4, 3, 6), T(3, 6), 'amax'",
                "T(3, 4), 1, I(3, 5, 4), T(5, 4), 'amin', {include_self = false}",
                "T(3, 4), 1, I(3, 5, 4), T(5, 4), 'mean', {include_self = false}"}}
example("scatter_reduce", [[
   local group, value = torch.tensor {1, 2, 1}, torch.tensor {5.0, 6.0, 7.0}
   print(torch.zeros(2):scatter_reduce(1, group, value, "amax"))
   --> tensor([7., 6.])]])
op {[[scatter_reduce_backward(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src,
      string reduce, bool include_self, Tensor result) -> (Tensor self, Tensor src)]],
    internal = true, composite = true}

-- Computes each element's gradient for a mean: the gradient divided by the number of elements with
-- the same destination.
op {[[scatter_mean_share(Tensor grad_output, dim dim, Tensor index, Tensor src, bool include_self)
      -> Tensor]],
    internal = true,
    expr = [[grad_output / clamp_min(scatter_add(full_like(grad_output, include_self), dim, index,
    ones_like(src)), 1)]]}
-- Computes each element's gradient for a minimum or maximum: the gradient divided by the number of
-- elements that equal the extreme value.
op {[[scatter_extreme_share(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src,
      Tensor result) -> Tensor]],
    internal = true,
    expr = [[grad_output / scatter_add(to_dtype(eq(self, result), dtype(self)), dim, index,
    to_dtype(eq(src, gather(result, dim, index)), dtype(src)))]]}
-- Computes the gradient for a product: each element's derivative is the product of the other
-- elements. For an element that is zero, this is the product of the nonzero elements. If several
-- zeros have the same destination, all derivatives there are 0.
op {[[scatter_prod_self(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src,
      bool include_self) -> Tensor]],
    internal = true,
    expr = [[grad_output * scatter_reduce(masked_fill(self, eq(self, 0), 1), dim, index, src,
    'prod', include_self) / masked_fill(self, eq(self, 0), 1)]]}
op {"scatter_single_zeros(Tensor self, dim dim, Tensor index, Tensor src) -> Tensor",
    internal = true,
    expr = [[logical_and(eq(src, 0), eq(gather(scatter_add(zeros_like(self), dim, index,
    to_dtype(eq(src, 0), dtype(self))), dim, index), 1))]]}
op {[[scatter_prod_src(Tensor grad_output, Tensor self, dim dim, Tensor index, Tensor src,
      bool include_self, Tensor result, Tensor single) -> Tensor]], internal = true,
    expr = [[where(single, gather(grad_output * scatter_reduce(self, dim, index,
    masked_fill(src, single, 1), 'prod', include_self), dim, index), gather(grad_output * result,
    dim, index) / masked_fill(src, eq(src, 0), 1))]]}

takes_complex [[gather gather_backward scatter scatter_add]]
