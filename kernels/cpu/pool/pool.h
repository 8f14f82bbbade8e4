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
  /* for averages: the reciprocal of each window's number of elements (out...) */
  const double *share;
} tlk_Spans;

/* The pooling loops of one compute type. `scratch` is a buffer for one row of the input and, for
** maxima, for as many int32 numbers. */
typedef struct tlk_PoolLoops {
  /* Computes maxima and, unless `indices` is NULL, their positions. */
  void (*max)(const tlk_Spans *s, const void *in, void *out, int64_t *indices, void *scratch);
  /* Computes averages; NULL for integers. */
  void (*average)(const tlk_Spans *s, const void *in, void *out, void *scratch);
  void (*spread)(const tlk_Spans *s, const void *out, void *in, void *scratch);
} tlk_PoolLoops;

#endif
