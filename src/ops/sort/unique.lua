-- Distinct elements.

op {[[unique(Tensor self, bool sorted=true, bool return_inverse=false, bool return_counts=false,
      dim dim=nil) -> (Tensor output, Tensor inverse, Tensor counts)]],
    doc = [[The distinct elements in ascending order, or the distinct slices along dim. With
    return_inverse also, as the next result, the position in them of each element (slice) of self;
    with return_counts how often each occurs.]],
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
    doc = [[The elements, or slices along dim, without those that equal the one before; results as
    unique's.]],
    composite = true, nondiff = "a set", waits = "the result's shape depends on the data",
    examples = {"I(2, 10)", "I(2, 10), true, true", "I(2, 5, 2), {dim = 1}"}}
op {[[isin(Operand elements, Operand test_elements, *, bool assume_unique=false, bool invert=false)
      -> Tensor]],
    doc = "Whether each element is among test_elements, or is not with invert; bool.",
    composite = true, nondiff = "a bool result",
    examples = {"I(5, 3, 4), I(5, 3)", "I(5, 4), 2", "T(3), T(3), {invert = true}"}}
example("isin", [[
   print(torch.isin(torch.tensor {1, 2, 3}, torch.tensor {1, 3}))
   --> tensor([ True, False,  True])]])
op {"row_order(Tensor self) -> Tensor", internal = true, nondiff = "positions"}
