-- Operators that return a copy of self with one part replaced.

op {"select_scatter(Tensor self, Tensor src, dim dim, index index) -> Tensor",
    node = "SelectScatter",
    doc = "Returns a copy of self with src written to one position along dim.",
    composite = true, out = false,
    examples = {"T(3, 4), T(3), 2, 1", "T(3, 4), T(4), 1, -1"}}
op {[[slice_scatter(Tensor self, Tensor src, dim dim=0, index start=nil, index end_=nil, int step=1)
      -> Tensor]],
    doc = [[Returns a copy of self with src written to the positions start to end (included) along
    dim, `step` apart.]],
    composite = true,
    out = false,
    examples = {"T(3, 4), T(3, 2), 2, 2, 3", "T(5), T(3), 1, 1, 5, 2", "T(3, 4), T(1, 4), 1, -1"}}
op {"diagonal_scatter(Tensor self, Tensor src, int offset=0, dim dim1=0, dim dim2=1) -> Tensor",
    node = "DiagonalScatter",
    doc = [[Returns a copy of self with src written to the diagonals of the matrices in dim1 and
    dim2.]], composite = true,
    out = false,
    examples = {"T(3, 3), T(3)", "T(3, 4), T(3), 1"}}
op {[[as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int storage_offset=0)
      -> Tensor]],
    doc = [[Returns a row-major copy of self with src written to the elements that as_strided
    selects.]],
    composite = true, out = false, examples = {"T(3, 4), T(2, 2), {2, 2}, {4, 1}, 1"}}

takes_complex()
