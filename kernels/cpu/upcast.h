/*
** upcast.h - converts whole arrays to the compute type, for kernels whose loops do not convert.
*/
#ifndef TLK_UPCAST_H
#define TLK_UPCAST_H

#include "core/memory/alloc.h"
#include "kernels/cpu/cpu.h"

/* Returns `in` itself if its dtype is a compute type or its data is NULL. Otherwise returns an
** array in the compute type, with a copy of the elements if `filled`. The caller must release this
** array by tlk_downcast or tlk_upcast_free. The array's data is NULL if memory is exhausted. */
static inline tlk_Array tlk_upcast(tlk_Array in, int64_t n, bool filled) {
  tl_DType dtype = tli_dtype_compute(in.dtype);
  if (dtype == in.dtype || in.data == NULL) return in;
  tlk_Array wide = {tli_alloc((size_t)n * tl_dtype_size(dtype)), dtype};
  if (wide.data && filled) tlk_isa()->convert[in.dtype][dtype](n, wide.data, in.data);
  return wide;
}

static inline void tlk_upcast_free(tlk_Array wide, tlk_Array in, int64_t n) {
  if (wide.data != in.data) tli_free(wide.data, (size_t)n * tl_dtype_size(wide.dtype));
}

/* Converts the array `wide`, which tlk_upcast has returned for `out`, to the dtype of `out`, stores
** it in `out`, and frees `wide`. */
static inline void tlk_downcast(tlk_Array out, tlk_Array wide, int64_t n) {
  if (wide.data == out.data) return;
  tlk_isa()->convert[wide.dtype][out.dtype](n, out.data, wide.data);
  tlk_upcast_free(wide, out, n);
}

#endif
