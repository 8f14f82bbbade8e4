/*
** pool.h - inner loops of pooling, which process one plane at a time. The bounds of windows are
** computed once for all planes.
*/
#ifndef TLK_POOL_H
#define TLK_POOL_H

#include "kernels/cpu/cpu.h"

/* The windows: window o covers elements begin[d][o] to end[d][o] - 1 along dimension d, in steps of
** step[d]. All these elements are inside the plane. */
typedef struct tlk_Spans {
  int64_t in[3], out[3], step[3];
  const int64_t *begin[3], *end[3];
  /* whether every window (a, b, c) covers exactly the elements (a, 2b, 2c) to (a, 2b + 1, 2c +
  ** 1) */
  bool squares;
  /* These fields describe windows of one size along the last dimension. The first window begins
  ** `padding` elements before the plane, and each further window begins `stride` elements after the
  ** previous one. A window has `count` elements, some of which may be in the padding. `margins` is
  ** the length of a row of scratch memory with margins for the padding. It is 0 if windows have
  ** different sizes, or if the plane or the padding is too large. */
  int64_t stride, padding, count, margins;
  /* for averages: the factor of each window's sum (out...), which is 1 / divisor if there is a
  ** divisor, otherwise 1 / number of elements */
  const double *share;
} tlk_Spans;

/* Returns the size of the loops' scratch memory in bytes. Averages need one row of the input.
** Maxima need one int32 position more for each element of the row and, if all windows have one
** size, two rows of elements and positions with margins. */
static inline size_t tlk_pool_scratch(const tlk_Spans *s) {
  return (size_t)(s->in[2] + 2 * s->margins) * 12;
}

/* The pooling loops of one compute type. `scratch` is a buffer of tlk_pool_scratch bytes. */
typedef struct tlk_PoolLoops {
  /* Computes maxima and, unless `indices` is NULL, their positions. */
  void (*max)(const tlk_Spans *s, const void *in, void *out, int64_t *indices, void *scratch);
  /* Computes averages; NULL for integers. */
  void (*average)(const tlk_Spans *s, const void *in, void *out, void *scratch);
  void (*spread)(const tlk_Spans *s, const void *out, void *in, void *scratch);
} tlk_PoolLoops;

#endif
