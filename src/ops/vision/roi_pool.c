/*
** roi_pool.c - pooling of regions of interest. The kernel computes in float32 or float64; half
** types are converted to float32.
*/
#include "ops/chain.h"

/* Runs the kernel for images and cells, of which one is the result. Both are contiguous. */
static bool run(tlk_RoiKind kind, tl_Tensor *images, tl_Tensor *boxes, tl_Tensor *cells,
                double scale, tl_Tensor *indices) {
  tl_Tensor *all = tli_contiguous_as(boxes, TL_F64);
  bool ok = all != NULL;
  if (ok && cells->numel > 0 && images->numel > 0)
    ok = TLI_RUN(tli_device(images), roi_pool, .kind = kind, .wide = images->dtype == TL_F64,
                 .cells = tli_array(cells), .images = tli_array(images),
                 .indices = indices ? tli_data(indices) : NULL, .boxes = tli_data(all),
                 .scale = scale, .n = cells->sizes[0], .channels = cells->sizes[1],
                 .count = images->sizes[0], .grid = {cells->sizes[2], cells->sizes[3]},
                 .size = {images->sizes[2], images->sizes[3]});
  tli_release(all);
  return ok;
}

static tl_DType compute_dtype(const tl_Tensor *t) { return t->dtype == TL_F64 ? TL_F64 : TL_F32; }

/* Sets the results for images without pixels: each cell is 0, and its position is behind the last
** pixel. */
static bool clear(tl_Tensor *cells, tl_Tensor *indices) {
  return tli_fill(cells, tli_int(0)) && (indices == NULL || tli_fill(indices, tli_int(1)));
}

/* Computes cells of the numbers `grid` from images. With TLK_ROI_MAX, *indices receives the
** positions of the maxima unless `indices` is NULL. */
static tl_Tensor *pool(tlk_RoiKind kind, tl_Tensor *self, tl_Tensor *boxes, const int64_t *grid,
                       double scale, tl_Tensor **indices) {
  int64_t channels = self->sizes[1] / (kind == TLK_ROI_MAX ? 1 : grid[0] * grid[1]);
  int64_t sizes[4] = {boxes->sizes[0], channels, grid[0], grid[1]};
  tl_DType compute = compute_dtype(self);
  tl_Device device = tli_device(self);
  tli_Chain c = {0};
  tl_Tensor *in = TLI_STEP(&c, tli_contiguous_as(self, compute));
  tl_Tensor *out = TLI_STEP(&c, tli_new("_roi_pool", (tl_Ints){4, sizes}, compute, device));
  if (indices && out) *indices = tli_empty(TL_I64, device, 4, sizes);
  tl_Tensor *at = indices ? *indices : NULL;
  TLI_DO(&c, !indices || at);
  if (self->numel == 0)
    TLI_DO(&c, clear(out, at));
  else
    TLI_DO(&c, run(kind, in, boxes, out, scale, at));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_to_dtype(out, (tl_DType)self->dtype)));
}

bool tli_op_roi_maxima(tl_Tensor *self, tl_Tensor *boxes, tl_Ints size, double scale,
                       bool want_indices, tl_Tensor **out) {
  out[1] = NULL;
  out[0] = pool(TLK_ROI_MAX, self, boxes, size.v, scale, want_indices ? &out[1] : NULL);
  if (out[0] == NULL) tli_release_results(out, 2);
  return out[0] != NULL;
}

tl_Tensor *tli_op_roi_means(tl_Tensor *self, tl_Tensor *boxes, tl_Ints size, double scale) {
  return pool(TLK_ROI_MEAN, self, boxes, size.v + size.n - 2, scale, NULL);
}

tl_Tensor *tli_op_roi_spread(tl_Tensor *self, tl_Tensor *boxes, tl_Ints size, double scale) {
  tl_DType compute = compute_dtype(self);
  tli_Chain c = {0};
  tl_Tensor *in = TLI_STEP(&c, tli_contiguous_as(self, compute));
  tl_Tensor *out = TLI_STEP(&c, tli_empty(compute, tli_device(self), 4, size.v));
  TLI_DO(&c, tli_fill(out, tli_int(0)) && run(TLK_ROI_SPREAD, out, boxes, in, scale, NULL));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_to_dtype(out, (tl_DType)self->dtype)));
}

/* Adds each element to the element at its position in the result. Elements of cells without pixels,
** whose position is behind the last element, are dropped. */
tl_Tensor *tlo_roi_scatter(tl_Tensor *self, tl_Tensor *indices, tl_Ints size) {
  int64_t numel = 1;
  for (int64_t d = 0; d < size.n; d++) numel *= size.v[d];
  int64_t with_rest = numel + 1;
  tli_Chain c = {0};
  tl_Tensor *values = TLI_STEP(&c, tlo_flatten(self, 0, -1));
  tl_Tensor *at = TLI_STEP(&c, tlo_flatten(indices, 0, -1));
  tl_Tensor *sums = TLI_STEP(&c, tlo_plane_scatter(values, at, (tl_Ints){1, &with_rest}, 1, true));
  tl_Tensor *kept = TLI_STEP(&c, tlo_narrow(sums, 0, 0, numel));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(kept, size)));
}

tl_Tensor *tlo__roi_pool(tl_Tensor *input, tl_Tensor *boxes, tl_Ints size, double scale,
                         bool is_mean) {
  if (input->ndim != 4 || !tli_is_float((tl_DType)input->dtype))
    return tli_fail_null(TL_ESHAPE,
                         "_roi_pool: input: expected floating numbers of shape (N, C, H, W), "
                         "got %s %s",
                         tl_dtype_name((tl_DType)input->dtype), tli_sizes_str(input));
  if (boxes->ndim != 2 || boxes->sizes[1] != 5 || tli_is_complex((tl_DType)boxes->dtype))
    return tli_fail_null(TL_ESHAPE,
                         "_roi_pool: boxes: expected real numbers of shape (n, 5), got %s %s",
                         tl_dtype_name((tl_DType)boxes->dtype), tli_sizes_str(boxes));
  if (input->sizes[2] > INT32_MAX / (input->sizes[3] + 1))
    return tli_fail_null(TL_ESHAPE, "_roi_pool: input: expected fewer than 2^31 pixels, got %s",
                         tli_sizes_str(input));
  for (int d = 0; d < 2; d++)
    if (size.n != 2 || size.v[d] < 1 || size.v[d] > INT32_MAX)
      return tli_fail_null(TL_EARG, "_roi_pool: size: expected two numbers from 1 to 2^31 - 1");
  if (is_mean && input->sizes[1] % (size.v[0] * size.v[1]) != 0)
    return tli_fail_null(TL_ESHAPE,
                         "_roi_pool: input: expected a multiple of %" PRId64 " x %" PRId64
                         " channels, got %s",
                         size.v[0], size.v[1], tli_sizes_str(input));
  if (is_mean) return tlo_roi_means(input, boxes, size, scale);
  tl_Tensor *out[2];
  if (!tlo_roi_maxima(input, boxes, size, scale, tli_recording(&input, 1), out)) return NULL;
  tli_release(out[1]);
  return out[0];
}
