/*
** nms.c - non-maximum suppression: chooses among overlapping boxes. Which boxes are kept is decided
** on the CPU, one box after the other.
*/
#include <string.h>

#include "ops/chain.h"

/* The boxes in the order of their scores. One block of memory has the arrays of coordinates, areas
** and groups. */
typedef struct Sorted {
  int64_t n;
  void *side[5];  /* x1, y1, x2, y2 and the area, in the dtype of the boxes */
  double *groups; /* the group of each box; NULL if all boxes are in one group */
  bool *removed;
} Sorted;

/* Defines functions for boxes of type real. `load` copies the boxes to s. `remove_by` removes the
** boxes after box i that overlap too much with it. The threshold is compared in double precision,
** as in torchvision. */
#define DEFINE(name, real)                                                             \
  static void load_##name(Sorted *s, const real *boxes, const int64_t *order) {        \
    real *const *side = (real *const *)s->side;                                        \
    for (int64_t i = 0; i < s->n; i++) {                                               \
      const real *box = boxes + 4 * (order[i] - 1);                                    \
      for (int k = 0; k < 4; k++) side[k][i] = box[k];                                 \
      side[4][i] = (box[2] - box[0]) * (box[3] - box[1]);                              \
    }                                                                                  \
  }                                                                                    \
  static void remove_by_##name(Sorted *s, int64_t i, double threshold) {               \
    const real *x1 = s->side[0], *y1 = s->side[1], *x2 = s->side[2], *y2 = s->side[3]; \
    const real *area = s->side[4];                                                     \
    real left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], own = area[i];      \
    for (int64_t j = i + 1; j < s->n; j++) {                                           \
      real width = (x2[j] < right ? x2[j] : right) - (x1[j] > left ? x1[j] : left);    \
      real height = (y2[j] < bottom ? y2[j] : bottom) - (y1[j] > top ? y1[j] : top);   \
      if (threshold >= 0 && (width <= 0 || height <= 0)) continue;                     \
      if (s->removed[j] || (s->groups && s->groups[j] != s->groups[i])) continue;      \
      real common = (width > 0 ? width : 0) * (height > 0 ? height : 0);               \
      s->removed[j] = common / (own + area[j] - common) > threshold;                   \
    }                                                                                  \
  }
DEFINE(f32, float)
DEFINE(f64, double)

/* Removes boxes that overlap better ones, and returns the positions of the remaining boxes as a
** tensor. */
static tl_Tensor *choose(Sorted *s, bool wide, const int64_t *order, double threshold) {
  int64_t count = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (s->removed[i]) continue;
    count++;
    if (wide)
      remove_by_f64(s, i, threshold);
    else
      remove_by_f32(s, i, threshold);
  }
  tl_Tensor *kept = tli_empty(TL_I64, TLI_CPU, 1, &count);
  int64_t *to = kept ? tli_data(kept) : NULL;
  for (int64_t i = 0; i < s->n && to; i++)
    if (!s->removed[i]) *to++ = order[i];
  return kept;
}

/* Sorts the boxes and chooses among them. All tensors are contiguous and on the CPU. */
static tl_Tensor *suppress(tl_Tensor *boxes, tl_Tensor *order, tl_Tensor *groups,
                           double threshold) {
  int64_t n = order->numel;
  bool wide = boxes->dtype == TL_F64;
  size_t part = (size_t)n * sizeof(double), bytes = part * 6 + (size_t)n;
  char *block = tli_alloc(bytes);
  if (block == NULL) return NULL;
  Sorted s = {.n = n, .removed = (bool *)(block + part * 6)};
  for (int k = 0; k < 5; k++) s.side[k] = block + part * (size_t)k;
  memset(s.removed, 0, (size_t)n);
  const int64_t *at = tli_data(order);
  if (groups) {
    s.groups = (double *)(void *)(block + part * 5);
    for (int64_t i = 0; i < n; i++) s.groups[i] = ((const double *)tli_data(groups))[at[i] - 1];
  }
  if (wide)
    load_f64(&s, tli_data(boxes), at);
  else
    load_f32(&s, tli_data(boxes), at);
  tl_Tensor *kept = choose(&s, wide, at, threshold);
  tli_free(block, bytes);
  return kept;
}

static bool check_order(tl_Tensor *order) {
  const int64_t *at = tli_data(order);
  for (int64_t i = 0; i < order->numel; i++)
    if (at[i] < 1 || at[i] > order->numel)
      return tli_fail(TL_EINDEX,
                      "_nms: order: expected positions from 1 to %" PRId64 ", got %" PRId64,
                      order->numel, at[i]);
  return true;
}

static bool check(const tl_Tensor *boxes, const tl_Tensor *order, const tl_Tensor *groups) {
  int64_t n = boxes->ndim == 2 ? boxes->sizes[0] : -1;
  if (n < 0 || boxes->sizes[1] != 4 || !tli_is_float((tl_DType)boxes->dtype))
    return tli_fail(TL_ESHAPE, "_nms: boxes: expected floating numbers of shape (n, 4), got %s %s",
                    tl_dtype_name((tl_DType)boxes->dtype), tli_sizes_str(boxes));
  if (order->dtype != TL_I64 || order->ndim != 1 || order->sizes[0] != n)
    return tli_fail(TL_ESHAPE, "_nms: order: expected int64 of shape [%" PRId64 "], got %s %s", n,
                    tl_dtype_name((tl_DType)order->dtype), tli_sizes_str(order));
  if (groups && (groups->ndim != 1 || groups->sizes[0] != n))
    return tli_fail(TL_ESHAPE, "_nms: groups: expected shape [%" PRId64 "], got %s", n,
                    tli_sizes_str(groups));
  return true;
}

/* Returns a contiguous copy of a tensor on the CPU, or the tensor itself if it is one. */
static tl_Tensor *chain_here(tli_Chain *c, tl_Tensor *t, tl_DType dtype) {
  tl_Tensor *here = TLI_STEP(c, tlo_to(t, dtype, false, false, TLI_CPU, NULL));
  return TLI_STEP(c, tlo_contiguous(here));
}

tl_Tensor *tli_op__nms(tl_Tensor *boxes, tl_Tensor *order, double iou_threshold,
                       tl_Tensor *groups) {
  TL_TRY_NULL(check(boxes, order, groups));
  tli_Chain c = {0};
  tl_Tensor *all = chain_here(&c, boxes, boxes->dtype == TL_F64 ? TL_F64 : TL_F32);
  tl_Tensor *at = chain_here(&c, order, TL_I64);
  tl_Tensor *numbers = groups ? chain_here(&c, groups, TL_F64) : NULL;
  TLI_DO(&c, check_order(at));
  tl_Tensor *kept = TLI_STEP(&c, suppress(all, at, numbers, iou_threshold));
  return tli_chain_end(
      &c, TLI_STEP(&c, tlo_to(kept, TL_NODTYPE, false, false, tli_device(boxes), NULL)));
}
