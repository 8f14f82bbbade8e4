/*
** geometry.h - functions that compare the positions of tensors' elements in their storages.
*/
#ifndef TLI_GRAPH_GEOMETRY_H
#define TLI_GRAPH_GEOMETRY_H

#include "core/tensor/tensor.h"

/* Returns whether two tensors have the same sizes, strides and storage offset. */
static inline bool tli_same_geometry(const tl_Tensor *a, const tl_Tensor *b) {
  if (!tli_same_sizes(a, b) || a->offset != b->offset) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->strides[d] != b->strides[d]) return false;
  return true;
}

/* Sorts the dimensions of t by stride, the largest first, into `order`. If t is dense, the
** permutation `order` makes it row-major. `back` receives the inverse permutation. */
static inline void tli_sort_dims(const tl_Tensor *t, int64_t *order, int64_t *back) {
  for (int d = 0; d < t->ndim; d++) {
    int at = d;
    for (; at > 0 && t->strides[order[at - 1]] < t->strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  for (int d = 0; d < t->ndim; d++) back[order[d]] = d;
}

/* Returns the position in the storage just after a tensor's last element. */
static inline int64_t tli_end_of(const tl_Tensor *t) {
  int64_t end = t->offset + 1;
  for (int d = 0; d < t->ndim; d++) end += t->sizes[d] > 0 ? (t->sizes[d] - 1) * t->strides[d] : 0;
  return end;
}

/* Returns whether all elements of a view lie between the first and the last element of a tensor
** with the same storage. */
static inline bool tli_is_within(const tl_Tensor *view, const tl_Tensor *t) {
  return view->offset >= t->offset && tli_end_of(view) <= tli_end_of(t);
}

#endif
