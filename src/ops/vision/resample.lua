-- Images and volumes at another resolution, at other places, or with resolution traded for channels.

local function F(entry)
   entry.module, entry.method, entry.composite = "nn.functional", false, true
   op(entry)
end

-- Resolution and channels --------------------------------------------------------------------------

F {"pixel_shuffle(Tensor input, int upscale_factor) -> Tensor", also = true,
   doc = "(..., C * r * r, H, W) as (..., C, H * r, W * r), r being upscale_factor.",
   examples = {"T(2, 8, 2, 3), 2", "T(9, 1, 2), 3", "T(4, 2, 2), 1"}}
F {"pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor", also = true,
   doc = "The reverse of pixel_shuffle: (..., C, H * r, W * r) as (..., C * r * r, H, W).",
   examples = {"T(2, 2, 4, 6), 2", "T(1, 3, 6), 3"}}
F {"channel_shuffle(Tensor input, int groups) -> Tensor", also = true,
   doc = [[The channels of (N, C, ...) in another order: first the first of each of the `groups` groups, then the
   second ones, and so on.]],
   examples = {"T(2, 6, 3), 2", "T(1, 4, 2, 2), 2"}}

-- Resolution ---------------------------------------------------------------------------------------

F {"interpolate(Tensor input, int[] size=nil, float[] scale_factor=nil, string mode='nearest', "
      .. "bool align_corners=false, bool recompute_scale_factor=false) -> Tensor",
   doc = [[input (N, C, L), (N, C, H, W) or (N, C, D, H, W) at another resolution: that of size, or scale_factor
   times its own, rounded down; one number holds for all dimensions. Modes are 'nearest', 'nearest-exact' (which
   measures from the elements' centres), 'area' (means), and for 1, 2 and 3 dimensions 'linear', 'bilinear' or
   'bicubic', 'trilinear'. align_corners lays the centres of the corners' elements over each other rather than their
   outer edges. Distances follow scale_factor where it is given, unless recompute_scale_factor asks for those of the
   sizes.]],
   examples = {
      "T(1, 2, 4), 7", "T(1, 2, 3, 4), {5, 2}", "T(1, 1, 2, 3, 2), {3, 2, 4}", "T(1, 2, 5), 3, nil, 'nearest-exact'",
      "T(2, 1, 3), 5, nil, 'linear'", "T(1, 2, 5), nil, 1.7, 'linear'", "T(1, 2, 5), nil, 0.6, 'linear', true",
      "T(1, 2, 3, 4), nil, {2, 1.5}, 'bilinear'", "T(1, 1, 3, 4), {1, 7}, nil, 'bilinear', true",
      "T(1, 1, 3, 4), nil, 1.3, 'bilinear', false, true", "T(1, 2, 4, 3), {6, 5}, nil, 'bicubic'",
      "T(1, 1, 5, 4), {3, 4}, nil, 'bicubic', true", "T(1, 1, 2, 3, 2), {3, 4, 3}, nil, 'trilinear'",
      "T(1, 2, 5, 4), {2, 3}, nil, 'area'",
   }}

-- Along one dimension, to the size that the result has there, and the transpose of that.
local axis = "(Tensor self, int dim, int[] size, int mode, float step, bool exact, bool align_corners) -> Tensor"
op {"resample" .. axis, name = "interpolate", internal = true,
    grad = {self = "resample_spread(grad, dim, sizes(self), mode, step, exact, align_corners)"}}
op {"resample_spread" .. axis, name = "interpolate", internal = true,
    grad = {self = "resample(grad, dim, sizes(self), mode, step, exact, align_corners)"}}

local function older(entry)
   entry.module, entry.method, entry.out = "nn.functional", false, false
   op(entry)
end

older {"upsample(Tensor input, int[] size=nil, float[] scale_factor=nil, string mode='nearest', "
          .. "bool align_corners=false) -> Tensor",
   doc = "interpolate by an older name.", expr = "interpolate(input, size, scale_factor, mode, align_corners, false)",
   examples = {"T(1, 2, 3, 4), {5, 2}, nil, 'bilinear'"}}
older {"upsample_nearest(Tensor input, int[] size=nil, float[] scale_factor=nil) -> Tensor",
   doc = "interpolate in mode 'nearest'.", expr = "interpolate(input, size, scale_factor, 'nearest', false, false)",
   examples = {"T(1, 2, 4), 7"}}
older {"upsample_bilinear(Tensor input, int[] size=nil, float[] scale_factor=nil) -> Tensor",
   doc = "interpolate in mode 'bilinear' with align_corners.",
   expr = "interpolate(input, size, scale_factor, 'bilinear', true, false)", examples = {"T(1, 2, 3, 4), {5, 2}"}}

-- Places -------------------------------------------------------------------------------------------

F {"affine_grid(Tensor theta, int[] size, bool align_corners=false) -> Tensor",
   doc = [[The grid for grid_sample that maps each place of an output of size (N, C, H, W) by theta (N, 2, 3):
   (N, H, W, 2); or of (N, C, D, H, W) by (N, 3, 4): (N, D, H, W, 3). Places are (x, y, 1) or (x, y, z, 1), from -1
   to 1: the centres of the corners' elements if align_corners, else their outer edges.]],
   examples = {"T(2, 2, 3), {2, 1, 3, 4}", "T(1, 2, 3), {1, 2, 2, 1}, true", "T(1, 3, 4), {1, 1, 2, 3, 2}"}}
F {"grid_sample(Tensor input, Tensor grid, string mode='bilinear', string padding_mode='zeros', "
      .. "bool align_corners=false) -> Tensor",
   doc = [[input (N, C, H, W) at the places of grid (N, H', W', 2): (N, C, H', W'); or (N, C, D, H, W) and
   (N, D', H', W', 3). A place is (x, y) or (x, y, z), from -1 to 1 over the input as in affine_grid; NaN counts as
   -1. Modes are 'bilinear' (trilinear in a volume), 'nearest' and 'bicubic' (tricubic); beyond the input there are
   'zeros', the nearest element with 'border', or the input mirrored with 'reflection'.]],
   examples = {
      "T(2, 3, 4, 5), U(2, 3, 2, 2)", "T(1, 2, 3, 4), T(1, 3, 3, 2) * 1.5",
      "T(1, 2, 3, 4), U(1, 2, 3, 2), 'bilinear', 'zeros', true", "T(1, 1, 3, 4), T(1, 3, 3, 2), 'bilinear', 'border'",
      "T(1, 1, 3, 4), T(1, 3, 3, 2) * 2, 'bilinear', 'reflection'",
      "T(1, 1, 3, 4), T(1, 3, 3, 2) * 2, 'bilinear', 'reflection', true", "T(1, 2, 3, 4), U(1, 2, 3, 2), 'nearest'",
      "T(1, 1, 4, 5), U(1, 2, 2, 2), 'bicubic'", "T(1, 1, 4, 5), T(1, 2, 2, 2), 'bicubic', 'reflection', true",
      "T(1, 2, 2, 3, 3), U(1, 2, 1, 2, 3)", "T(1, 1, 2, 3, 3), T(1, 2, 1, 2, 3), 'nearest', 'border'",
      "T(1, 1, 2, 3, 3), U(1, 1, 1, 2, 3), 'bicubic', 'border'",
   }}
