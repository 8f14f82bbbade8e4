-- Pools regions of interest.

op {[[_roi_pool(Tensor input, Tensor boxes, int[] size, float scale, bool is_mean) -> Tensor]],
    doc = [[Returns the cells (n, C, *size) of regions of images (N, C, H, W): their largest pixels,
    or the means of their pixels in channels of their own, of which the input has C * size[1] *
    size[2]. boxes (n, 5) has the numbers of the images and x1, y1, x2, y2, which are multiplied by
    scale and rounded. NaN is left out of maxima, and does not count outside of the cells.
    torch.vision.ops.roi_pool and ps_roi_pool call it.]],
    method = false, composite = true,
    examples = {
       "T(2, 2, 5, 6), torch.tensor{{1, 0.0, 1, 3, 4}, {2, 2, -1, 9, 3}}, {2, 3}, 1, false",
       "T(1, 4, 5, 6), torch.tensor{{1, 0.0, 2, 6, 9}, {1, 1, 1, 4, 3}}, {2, 2}, 0.5, true",
    }}
op {[[roi_maxima(Tensor self, Tensor boxes, int[] size, float scale, bool want_indices)
      -> (Tensor values, Tensor indices)]], name = "_roi_pool", internal = true,
    grad = {self = "roi_scatter(grad_values, indices, sizes(self))"}}
op {"roi_scatter(Tensor self, Tensor indices, int[] size) -> Tensor", internal = true,
    composite = true}

-- The last two sizes of `size` are the numbers of cells or, for roi_spread, the size of an image.
op {"roi_means(Tensor self, Tensor boxes, int[] size, float scale) -> Tensor",
    name = "_roi_pool", internal = true,
    grad = {self = "roi_spread(grad, boxes, sizes(self), scale)"}}
op {"roi_spread(Tensor self, Tensor boxes, int[] size, float scale) -> Tensor",
    name = "_roi_pool", internal = true,
    grad = {self = "roi_means(grad, boxes, sizes(self), scale)"}}
