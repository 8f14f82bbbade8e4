-- Operators that compute numerical derivatives of sampled functions.

op {"gradient(Tensor self, *, float[] spacing=nil, dim[] dim=nil, int edge_order=1) -> Tensor[]",
    doc = [[Estimates the derivative along each dimension (or those of dim) of a function whose
    samples lie `spacing` (default: 1) apart; returns a list of tensors. Inside it is half the
    difference of the two neighbours; at the ends the difference to the neighbour, or, with
    edge_order = 2, the slope of the parabola through three samples.]],
    composite = true, method = false,
    examples = {"T(5)", "T(3, 4), {spacing = {2, 0.5}, edge_order = 2}",
                "T(3, 4), {spacing = 2, dim = 2}"}}
op {[=[gradient.coordinates(Tensor self, *, Tensor[] spacing, dim[] dim=nil, int edge_order=1)
      -> Tensor[]]=],
    doc = [[The same, with the coordinates of the samples as spacing: one vector for each
    dimension.]],
    composite = true, method = false,
    examples = {"T(4), {spacing = {torch.tensor({1, 2, 4, 8}, {dtype = 'float64'})}}",
                "T(4), {spacing = {torch.tensor({1, 2, 4, 8}, {dtype = 'float64'})}, "
                   .. "edge_order = 2}"}}

takes_complex()
