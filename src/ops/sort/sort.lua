-- Sorting, selecting by rank, sets. Sorting is stable; NaN counts as larger than every number; of equal
-- elements the first ones are selected.

op {"sort(Tensor self, dim dim=-1, bool descending=false, bool stable=false) -> (Tensor values, Tensor indices)",
    doc = "The elements along dim in ascending or descending order, and their positions; NaN is the largest.",
    nograd = {indices = true}, grad = {self = "gather_backward(grad_values, sizes(self), dim, indices)"},
    examples = {"T(3, 4)", "T(3, 4), 1, true", "T(2, 3, 4), 2", "T()", "T(0, 3)"}}
op {"argsort(Tensor self, dim dim=-1, bool descending=false, bool stable=false) -> Tensor",
    doc = "The positions along dim that sort self.", composite = true, nondiff = "positions", examples = {"T(3, 4)", "T(3, 4), 1"}}
op {"msort(Tensor self) -> Tensor", doc = "self sorted along its first dimension.", composite = true,
    examples = {"T(3, 4)"}}
op {"topk(Tensor self, int k, dim dim=-1, bool largest=true, bool sorted=true) -> (Tensor values, Tensor indices)",
    doc = [[The k largest (or smallest) elements along dim and their positions, the best first; NaN is the largest.]],
    nograd = {indices = true}, grad = {self = "gather_backward(grad_values, sizes(self), dim, indices)"},
    examples = {"T(3, 5), 2", "T(5, 3), 3, 1, false", "T(4), 4", "T(), 1", "T(3, 4), 0"}}
op {"kthvalue(Tensor self, int k, dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "The k-th smallest element along dim and its position; NaN is the largest.",
    nograd = {indices = true}, grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, 1, true", "T(4), 3"}}
op {"median(Tensor self) -> Tensor",
    doc = [[The median of all elements, the lower one of an even number; NaN if there is one. Elements equal to it
    share the gradient.]],
    grad = {self = "amax_backward(grad, self, result, nil, false)"}, examples = {"T(3, 3)", "T(4)"}}
op {"median.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "The median along dim and its position.",
    nograd = {indices = true}, grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, true"}}
op {"nanmedian(Tensor self) -> Tensor", doc = "The median of all elements that are not NaN.",
    grad = {self = "amax_backward(grad, self, result, nil, false)"}, examples = {"T(3, 3)", "T(4)"}}
op {"nanmedian.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "The median along dim of what is not NaN, and its position.",
    nograd = {indices = true}, grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4), 2", "T(3, 4), 1, true"}}
op {"mode(Tensor self, dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
    doc = "The most frequent element along dim, the smallest of several, and its last position.",
    nograd = {indices = true}, grad = {self = "value_backward(grad_values, sizes(self), dim, indices, keepdim)"},
    examples = {"T(3, 4)", "T(3, 4), 1, true"}}

local ranks = ", dim dim=nil, bool keepdim=false, *, string interpolation='linear') -> Tensor"
for _, row in ipairs {{"quantile", "; NaN where there is one"}, {"nanquantile", ", of what is not NaN"}} do
   op {row[1] .. "(Tensor self, float q" .. ranks,
       doc = "The q-quantile along dim, or of all elements" .. row[2]
          .. [[. Between two elements it is 'linear', 'lower', 'higher', 'nearest' or their 'midpoint'.]],
       composite = true, examples = {"T(3, 5), 0.3", "T(3, 5), 0.6, 2", "T(3, 5), 0.6, 1, true, {interpolation = 'lower'}",
                                     "T(4), 0.25, {interpolation = 'midpoint'}"}}
   op {row[1] .. ".several(Tensor self, Tensor q" .. ranks,
       doc = "The same for each of several q, in a first dimension of the result.",
       composite = true, examples = {"T(3, 5), torch.tensor({0.1, 0.5}, {dtype = 'float64'}), 2"}}
end

-- Sets ---------------------------------------------------------------------------------------------

op {"unique(Tensor self, bool sorted=true, bool return_inverse=false, bool return_counts=false, dim dim=nil) "
    .. "-> (Tensor output, Tensor inverse, Tensor counts)",
    doc = [[The distinct elements in ascending order, or the distinct slices along dim. With return_inverse also, as
    the next result, the position in them of each element (slice) of self; with return_counts how often each occurs.]],
    composite = true, nondiff = "a set", examples = {"I(3, 10)", "I(3, 10), true, true, true", "I(2, 5, 2), {dim = 1}"}}
op {"unique_consecutive(Tensor self, bool return_inverse=false, bool return_counts=false, dim dim=nil) "
    .. "-> (Tensor output, Tensor inverse, Tensor counts)",
    doc = "The elements, or slices along dim, without those that equal the one before; results as unique's.",
    composite = true, nondiff = "a set", examples = {"I(2, 10)", "I(2, 10), true, true", "I(2, 5, 2), {dim = 1}"}}
op {"isin(Operand elements, Operand test_elements, *, bool assume_unique=false, bool invert=false) -> Tensor",
    doc = "Whether each element is among test_elements, or is not with invert; bool.",
    composite = true, nondiff = "a bool result", examples = {"I(5, 3, 4), I(5, 3)", "I(5, 4), 2", "T(3), T(3), {invert = true}"}}
op {"row_order(Tensor self) -> Tensor", internal = true, nondiff = "positions"}
