-- Finds the indices of nonzero elements.

op {"nonzero.tuple(Tensor self, *, true as_tuple) -> Tensor[]",
    doc = [[With as_tuple = true returns the positions of the elements that differ from 0 as a list
    with a tensor (n) for each dimension.]],
    composite = true, nondiff = "positions", waits = "the result's shape depends on the data",
    examples = {"M(3, 4), {as_tuple = true}"}}
op {"nonzero(Tensor self, *, bool as_tuple=false) -> Tensor",
    doc = "Returns the positions of the elements that differ from 0, one per row: (n, dims).",
    nondiff = "positions", waits = "the result's shape depends on the data",
    examples = {"M(3, 4)", "M()"}}
example("nonzero", [=[
   local x = torch.tensor {{0, 5}, {7, 0}}
   print(x:nonzero()) -- each row is the position of an element
   --> tensor([[1, 2],
   -->         [2, 1]])]=])
op {"argwhere(Tensor self) -> Tensor", doc = "The same as nonzero.", expr = "nonzero(self)",
    out = false,
    nondiff = "positions", waits = "the result's shape depends on the data", examples = {"M(3, 4)"}}
op {"nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    doc = [[Returns the first `size` rows of nonzero, as (size, dims); if there are fewer, rows of
    fill_value follow.]],
    composite = true, nondiff = "positions", waits = "it counts what is not zero",
    examples = {"M(3, 4), {size = 20}", "M(3, 4), {size = 2}", "M(), {size = 2}"}}

takes_complex()
