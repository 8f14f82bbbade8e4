-- Operators that sort elements and select elements by rank. Sorting is stable. NaN counts as larger
-- than every number. Among equal elements, the first ones are selected.

op {[[sort(Tensor self, dim dim=-1, bool descending=false, bool stable=false)
      -> (Tensor values, Tensor indices)]],
    doc = [[Sorts along dim in ascending or descending order; returns the elements and their
    positions. NaN counts as the largest.]],
    nograd = {indices = true},
    grad = {self = "gather_backward(grad_values, sizes(self), dim, indices)"},
    examples = {"T(3, 4)", "T(3, 4), 1, true", "T(2, 3, 4), 2", "T()", "T(0, 3)"}}
example("sort", [[
   local values, indices = torch.tensor({30, 10, 20}):sort()
   print(values, indices)
   --> tensor([10, 20, 30])	tensor([2, 3, 1])
   print((torch.tensor({30, 10, 20}):sort {descending = true}))
   --> tensor([30, 20, 10])]])
op {"argsort(Tensor self, dim dim=-1, bool descending=false, bool stable=false) -> Tensor",
    doc = "Returns the positions along dim that sort self.",
    composite = true, nondiff = "positions",
    examples = {"T(3, 4)", "T(3, 4), 1"}}
example("argsort", [[
   print(torch.tensor({30, 10, 20}):argsort())
   --> tensor([2, 3, 1])]])
op {"msort(Tensor self) -> Tensor", doc = "Sorts self along its first dimension.",
    composite = true,
    examples = {"T(3, 4)"}}
op {[[topk(Tensor self, int k, dim dim=-1, bool largest=true, bool sorted=true)
      -> (Tensor values, Tensor indices)]],
    doc = [[Returns the k largest (or smallest) elements along dim and their positions, the best
    first. NaN counts as the largest.]],
    nograd = {indices = true},
    grad = {self = "gather_backward(grad_values, sizes(self), dim, indices)"},
    examples = {"T(3, 5), 2", "T(5, 3), 3, 1, false", "T(4), 4", "T(), 1", "T(3, 4), 0"}}
example("topk", [[
   local values, indices = torch.tensor({1, 9, 3, 7}):topk(2)
   print(values, indices)
   --> tensor([9, 7])	tensor([2, 4])]])
op {[[kthvalue(Tensor self, int k, dim dim=-1, bool keepdim=false)
      -> (Tensor values, Tensor indices)]],
    doc = [[Returns the k-th smallest element along dim and its position. NaN counts as the
    largest.]],
    nograd = {indices = true},
    grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, 1, true", "T(4), 3"}}
example("kthvalue", [[
   print(torch.tensor({1, 9, 3, 7}):kthvalue(2))
   --> tensor(3)	tensor(3)]])
op {"median(Tensor self) -> Tensor",
    doc = [[Returns the median of all elements, the lower one if their number is even; NaN if any
    element is NaN. Elements equal to it share the gradient.]],
    grad = {self = "amax_backward(grad, self, result, nil, false)"}, examples = {"T(3, 3)", "T(4)"}}
example("median", [[
   local x = torch.tensor {1, 9, 3, 7}
   print(x:median():item()) -- the lower one of the two middle elements
   --> 3]])
op {"median.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "Returns the median along dim and its position.",
    nograd = {indices = true},
    grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, true"}}
op {"nanmedian(Tensor self) -> Tensor",
    doc = "Returns the median of all elements that are not NaN.",
    grad = {self = "amax_backward(grad, self, result, nil, false)"}, examples = {"T(3, 3)", "T(4)"}}
op {"nanmedian.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "Returns the median along dim of the elements that are not NaN, and its position.",
    nograd = {indices = true},
    grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, true"}}
op {"mode(Tensor self, dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = [[Returns the most frequent element along dim, the smallest one of several, and its last
    position.]],
    nograd = {indices = true},
    grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4)", "T(3, 4), 1, true"}}
example("mode", [[
   print(torch.tensor({1, 2, 2, 3}):mode())
   --> tensor(2)	tensor(3)]])
