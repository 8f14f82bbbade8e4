-- Operators that sample images at arbitrary coordinates.

local function F(entry)
   entry.module, entry.method, entry.composite = "nn.functional", false, true
   op(entry)
end

F {"affine_grid(Tensor theta, int[] size, bool align_corners=false) -> Tensor",
   node = "AffineGridGenerator",
   doc = [[Returns the grid (N, H, W, 2) for grid_sample that maps each place of an output of size
   (N, C, H, W) by theta (N, 2, 3); or the grid (N, D, H, W, 3) for (N, C, D, H, W) and theta (N, 3,
   4). Places are (x, y, 1) or (x, y, z, 1), from -1 to 1: the centres of the corners' elements if
   align_corners, else their outer edges.]],
   autocast = "lower",
   examples = {"T(2, 2, 3), {2, 1, 3, 4}", "T(1, 2, 3), {1, 2, 2, 1}, true",
               "T(1, 3, 4), {1, 1, 2, 3, 2}"}}
F {[[grid_sample(Tensor input, Tensor grid, string mode='bilinear', string padding_mode='zeros',
      bool align_corners=false) -> Tensor]],
   doc = [[Samples input (N, C, H, W) at the places of grid (N, H', W', 2), to (N, C, H', W'); or
   input (N, C, D, H, W) at those of grid (N, D', H', W', 3). A place is (x, y) or (x, y, z), from
   -1 to 1 over the input as in affine_grid; NaN counts as -1. Modes are 'bilinear' (trilinear in a
   volume), 'nearest' and 'bicubic' (tricubic); beyond the input there are 'zeros', the nearest
   element with 'border', or the input mirrored with 'reflection'.]],
   autocast = {cpu = "float32", gpu = "widest"},
   examples = {
      "T(2, 3, 4, 5), U(2, 3, 2, 2)", "T(1, 2, 3, 4), T(1, 3, 3, 2) * 1.5",
      "T(1, 2, 3, 4), U(1, 2, 3, 2), 'bilinear', 'zeros', true",
      "T(1, 1, 3, 4), T(1, 3, 3, 2), 'bilinear', 'border'",
      "T(1, 1, 3, 4), T(1, 3, 3, 2) * 2, 'bilinear', 'reflection'",
      "T(1, 1, 3, 4), T(1, 3, 3, 2) * 2, 'bilinear', 'reflection', true",
      "T(1, 2, 3, 4), U(1, 2, 3, 2), 'nearest'",
      "T(1, 1, 4, 5), U(1, 2, 2, 2), 'bicubic'",
      "T(1, 1, 4, 5), T(1, 2, 2, 2), 'bicubic', 'reflection', true",
      "T(1, 2, 2, 3, 3), U(1, 2, 1, 2, 3)",
      "T(1, 1, 2, 3, 3), T(1, 2, 1, 2, 3), 'nearest', 'border'",
      "T(1, 1, 2, 3, 3), U(1, 1, 1, 2, 3), 'bicubic', 'border'",
   }}
