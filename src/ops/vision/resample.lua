-- Resizes images and volumes to another resolution.

local function F(entry)
   entry.module, entry.method, entry.composite = "nn.functional", false, true
   op(entry)
end

F {[[interpolate(Tensor input, int[] size=nil, float[] scale_factor=nil, string mode='nearest',
      bool align_corners=false, bool recompute_scale_factor=false, bool antialias=false)
      -> Tensor]],
   doc = [[Resamples input (N, C, L), (N, C, H, W) or (N, C, D, H, W) to another resolution: to
   size, or to scale_factor times its own, rounded down; one number holds for all dimensions. Modes
   are 'nearest', 'nearest-exact' (which measures from the elements' centres), 'area' (means), and
   for 1, 2 and 3 dimensions 'linear', 'bilinear' or 'bicubic', 'trilinear'. align_corners lays the
   centres of the corners' elements over each other rather than their outer edges. Distances follow
   scale_factor where it is given, unless recompute_scale_factor asks for those of the sizes.
   antialias widens the filters of 'bilinear', 'bicubic' and 'lanczos' (which needs it) where an
   image becomes smaller, so that every element counts, as Pillow does.]],
   autocast = {gpu = "float32"},
   examples = {
      "T(1, 2, 4), 7", "T(1, 2, 3, 4), {5, 2}", "T(1, 1, 2, 3, 2), {3, 2, 4}",
      "T(1, 2, 5), 3, nil, 'nearest-exact'",
      "T(2, 1, 3), 5, nil, 'linear'", "T(1, 2, 5), nil, 1.7, 'linear'",
      "T(1, 2, 5), nil, 0.6, 'linear', true",
      "T(1, 2, 3, 4), nil, {2, 1.5}, 'bilinear'", "T(1, 1, 3, 4), {1, 7}, nil, 'bilinear', true",
      "T(1, 1, 3, 4), nil, 1.3, 'bilinear', false, true", "T(1, 2, 4, 3), {6, 5}, nil, 'bicubic'",
      "T(1, 1, 5, 4), {3, 4}, nil, 'bicubic', true",
      "T(1, 1, 2, 3, 2), {3, 4, 3}, nil, 'trilinear'",
      "T(1, 2, 5, 4), {2, 3}, nil, 'area'",
      "T(1, 2, 7, 5), {3, 4}, nil, 'bilinear', false, false, true",
      "T(1, 1, 5, 6), nil, {0.5, 1.5}, 'bicubic', false, false, true",
      "T(1, 1, 5, 6), {2, 4}, nil, 'bicubic', true, false, true",
      "T(1, 1, 8, 3), {3, 5}, nil, 'lanczos', false, false, true",
   }}
example("interpolate", [=[
   local x = torch.tensor {{{{1.0, 2.0}}}}
   print(torch.nn.functional.interpolate(x, {scale_factor = 2}):squeeze())
   --> tensor([[1., 1., 2., 2.],
   -->         [1., 1., 2., 2.]])]=])

-- `resample` resizes dimension `dim` to the size that the list `size` has for this dimension;
-- `resample_spread` is the transpose of `resample`.
local axis = [[(Tensor self, int dim, int[] size, int mode, float step, bool exact, bool
   align_corners) -> Tensor]]
op {"resample" .. axis, name = "interpolate", internal = true,
    grad = {self = "resample_spread(grad, dim, sizes(self), mode, step, exact, align_corners)"}}
op {"resample_spread" .. axis, name = "interpolate", internal = true,
    grad = {self = "resample(grad, dim, sizes(self), mode, step, exact, align_corners)"}}

local function older(entry)
   entry.module, entry.method, entry.out = "nn.functional", false, false
   op(entry)
end

older {[[upsample(Tensor input, int[] size=nil, float[] scale_factor=nil, string mode='nearest',
      bool align_corners=false) -> Tensor]],
   doc = "The same as interpolate, by an older name.",
   expr = "interpolate(input, size, scale_factor, mode, align_corners, false, false)",
   examples = {"T(1, 2, 3, 4), {5, 2}, nil, 'bilinear'"}}
older {"upsample_nearest(Tensor input, int[] size=nil, float[] scale_factor=nil) -> Tensor",
   doc = "Calls interpolate in mode 'nearest'.",
   expr = "interpolate(input, size, scale_factor, 'nearest', false, false, false)",
   examples = {"T(1, 2, 4), 7"}}
older {"upsample_bilinear(Tensor input, int[] size=nil, float[] scale_factor=nil) -> Tensor",
   doc = "Calls interpolate in mode 'bilinear' with align_corners = true.",
   expr = "interpolate(input, size, scale_factor, 'bilinear', true, false, false)",
   examples = {"T(1, 2, 3, 4), {5, 2}"}}
