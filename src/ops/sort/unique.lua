-- Operators that find the distinct elements of a tensor.

op {[[unique(Tensor self, bool sorted=true, bool return_inverse=false, bool return_counts=false,
      dim dim=nil) -> (Tensor output, Tensor inverse, Tensor counts)]],
    doc = [[Returns the distinct elements in ascending order, or the distinct slices along dim. With
    return_inverse the next result holds, for each element or slice of self, its position among the
    distinct ones; with return_counts the last result holds how often each occurs.]],
    composite = true, nondiff = "a set", waits = "the result's shape depends on the data",
    examples = {"I(3, 10)", "I(3, 10), true, true, true", "I(2, 5, 2), {dim = 1}"}}
example("unique", [[
   local x = torch.tensor {3, 1, 3}
   print(x:unique())
   --> tensor([1, 3])
   local values, where_from = x:unique {return_inverse = true}
   print(values, where_from)
   --> tensor([1, 3])	tensor([2, 1, 2])]])
op {[[unique_consecutive(Tensor self, bool return_inverse=false, bool return_counts=false,
      dim dim=nil) -> (Tensor output, Tensor inverse, Tensor counts)]],
    doc = [[Returns the elements, or slices along dim, without those that equal the preceding one.
    Further results are those of unique.]],
    composite = true, nondiff = "a set", waits = "the result's shape depends on the data",
    examples = {"I(2, 10)", "I(2, 10), true, true", "I(2, 5, 2), {dim = 1}"}}
op {[[isin(Operand elements, Operand test_elements, *, bool assume_unique=false, bool invert=false)
      -> Tensor]],
    doc = [[Returns, as a bool tensor, whether each element is among test_elements, or whether it is
    not if invert is true.]],
    composite = true, nondiff = "a bool result",
    examples = {"I(5, 3, 4), I(5, 3)", "I(5, 4), 2", "T(3), T(3), {invert = true}"}}
example("isin", [[
   print(torch.isin(torch.tensor {1, 2, 3}, torch.tensor {1, 3}))
   --> tensor([ True, False,  True])]])
op {"row_order(Tensor self) -> Tensor", internal = true, nondiff = "positions"}
