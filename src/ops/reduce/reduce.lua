-- Operators that reduce a tensor over all, one or several dimensions. The error of a float32 sum
-- does not grow with the number of elements. Half-precision types accumulate in float32.

local dims = "dim[] dim=nil, bool keepdim=false"

op {"sum(Tensor self, " .. dims .. ", *, dtype dtype=nil) -> Tensor",
    doc = [[Returns the sum over dim, by default over all dimensions. Integers and bool are summed
    in int64.]],
    reduction = {}, grad = {self = "expand_reduced(grad, sizes(self), dim, keepdim)"},
    autocast = {gpu = "float32"},
    examples = {"T(3, 4)", "T(3, 4), 2", "T(2, 3, 4), {1, 3}, true", "T(0, 3), 1", "T()"}}
example("sum", [=[
   local x = torch.tensor {{1, 2}, {3, 4}}
   print(x:sum():item(), x:sum(1)) -- dimension 1 is the index of the rows
   --> 10	tensor([4, 6])
   print(x:sum {dim = 2, keepdim = true})
   --> tensor([[3],
   -->         [7]])]=])
op {"expand_reduced(Tensor grad, int[] size, dim[] dim, bool keepdim) -> Tensor", internal = true,
    composite = true}
op {"unsqueeze_reduced(Tensor self, int[] size, dim[] dim, bool keepdim) -> Tensor",
    internal = true,
    composite = true}
op {"prod(Tensor self, dim dim=nil, bool keepdim=false, *, dtype dtype=nil) -> Tensor",
    doc = "Returns the product over dim, or of all elements. Integers are multiplied in int64.",
    reduction = {}, grad = {self = "prod_backward(grad, self, result, dim, keepdim)"},
    autocast = "float32",
    examples = {"T(3, 4)", "T(3, 4), 2", "T(2, 3), 1, true"}}
example("prod", [[
   print(torch.tensor({2, 3, 4}):prod():item())
   --> 24]])
op {"prod_backward(Tensor grad, Tensor self, Tensor result, dim dim, bool keepdim) -> Tensor",
    internal = true,
    composite = true, waits = "without zeros it is a division"}
op {"amax(Tensor self, " .. dims .. ") -> Tensor",
    doc = [[Returns the largest element over dim; NaN if there is one. Equal maxima share the
    gradient.]],
    reduction = {}, grad = {self = "amax_backward(grad, self, result, dim, keepdim)"},
    examples = {"T(3, 4)", "T(3, 4), 2", "T(2, 3, 4), {1, 3}, true"}}
example("amax", [[
   print(torch.tensor({{1, 5}, {7, 2}}):amax(2))
   --> tensor([5, 7])]])
op {"amin(Tensor self, " .. dims .. ") -> Tensor",
    doc = [[Returns the smallest element over dim; NaN if there is one. Equal minima share the
    gradient.]],
    reduction = {}, grad = {self = "amax_backward(grad, self, result, dim, keepdim)"},
    examples = {"T(3, 4)", "T(3, 4), 2", "T(2, 3, 4), {1, 3}, true"}}
example("amin", [[
   print(torch.tensor({{1, 5}, {7, 2}}):amin(1))
   --> tensor([1, 2])]])
op {"amax_backward(Tensor grad, Tensor self, Tensor result, dim[] dim, bool keepdim) -> Tensor",
    internal = true,
    composite = true}
op {"all(Tensor self, " .. dims .. ") -> Tensor",
    doc = [[Returns whether all elements over dim differ from 0. The result is bool, or uint8 for
    uint8.]],
    reduction = {}, nondiff = "a bool result", examples = {"M(3, 4)", "M(3, 4), 2"}}
example("all", [[
   local x = torch.tensor {{1, 2}, {3, 0}}
   print(x:gt(0):all():item(), x:gt(0):all(2))
   --> false	tensor([ True, False])]])
op {"any(Tensor self, " .. dims .. ") -> Tensor",
    doc = [[Returns whether any element over dim differs from 0. The result is bool, or uint8 for
    uint8.]],
    reduction = {}, nondiff = "a bool result", examples = {"M(3, 4)", "M(3, 4), 2"}}
example("any", [[
   print(torch.tensor({{0, 0}, {3, 0}}):any(2))
   --> tensor([False,  True])]])
op {"count_nonzero(Tensor self, dim[] dim=nil) -> Tensor",
    doc = "Returns how many elements over dim differ from 0, as int64.",
    reduction = {}, nondiff = "an integer result", examples = {"M(3, 4)", "M(3, 4), 2"}}
example("count_nonzero", [[
   print(torch.tensor({{0, 1}, {2, 3}}):count_nonzero(1))
   --> tensor([1, 2])]])
op {"nansum(Tensor self, " .. dims .. ", *, dtype dtype=nil) -> Tensor",
    doc = "Returns the sum over dim; NaN counts as 0.",
    reduction = {},
    grad = {self = [[keep_where(expand_reduced(grad, sizes(self), dim, keepdim),
    logical_not(isnan(self)))]]},
    examples = {"T(3, 4)", "T(3, 4), 2, true"}}
example("nansum", [[
   print(torch.tensor({1, torch.nan, 2}):nansum():item())
   --> 3.0]])
op {"max(Tensor self) -> Tensor",
    node = "Max", doc = "Returns the largest of all elements. Equal maxima share the gradient.",
    expr = "amax(self)", examples = {"T(3, 4)"}}
example("max", [[
   local x = torch.tensor {{1, 9, 3}, {8, 2, 4}}
   local values, indices = x:max(2) -- positions count from 1
   print(x:max():item(), values, indices)
   --> 9	tensor([9, 8])	tensor([2, 1])]])
op {"max.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "Returns the largest element along dim and its position.",
    grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, true"}}
op {"max.other(Tensor self, Tensor other) -> Tensor", doc = "The same as maximum.",
    expr = "maximum(self, other)",
    examples = {"T(3), T(3)"}}
op {"min(Tensor self) -> Tensor",
    node = "Min", doc = "Returns the smallest of all elements. Equal minima share the gradient.",
    expr = "amin(self)", examples = {"T(3, 4)"}}
example("min", [[
   local x = torch.tensor {{1, 9, 3}, {8, 2, 4}}
   local values, indices = x:min(1)
   print(x:min():item(), values, indices)
   --> 1	tensor([1, 2, 3])	tensor([1, 2, 1])]])
op {"min.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "Returns the smallest element along dim and its position.",
    grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, true"}}
op {"min.other(Tensor self, Tensor other) -> Tensor", doc = "The same as minimum.",
    expr = "minimum(self, other)",
    examples = {"T(3), T(3)"}}
op {"value_backward(Tensor grad, int[] size, dim dim, Tensor indices, bool keepdim) -> Tensor",
    internal = true,
    composite = true}
op {"argmax(Tensor self, dim dim=nil, bool keepdim=false) -> Tensor",
    doc = [[Returns the position of the largest element along dim, or in the flattened tensor; the
    first of several.]],
    nondiff = "positions", examples = {"T(3, 4)", "T(3, 4), 2"}}
example("argmax", [[
   local scores = torch.tensor {{0.1, 0.7, 0.2}, {0.9, 0.0, 0.1}}
   print(scores:argmax(2), scores:argmax():item())
   --> tensor([2, 1])	4]])
op {"argmin(Tensor self, dim dim=nil, bool keepdim=false) -> Tensor",
    doc = [[Returns the position of the smallest element along dim, or in the flattened tensor; the
    first of several.]],
    nondiff = "positions", examples = {"T(3, 4)", "T(3, 4), 2"}}
example("argmin", [[
   print(torch.tensor({{4, 1}, {2, 3}}):argmin(2))
   --> tensor([2, 1])]])

takes_complex "sum unsqueeze_reduced prod prod_backward all any count_nonzero"
