/*
** pool.h - inner loops of pooling, one plane at a time. The bounds of windows are computed once
** for all planes.
*/
#ifndef TLK_POOL_H
#define TLK_POOL_H

#include "kernels/cpu/cpu.h"

/* The windows: window o covers elements begin[d][o] to end[d][o] - 1 along dimension d, in steps of
** step[d]. All of these are inside the plane. */
typedef struct tlk_Spans {
  int64_t in[3], out[3], step[3];
  const int64_t *begin[3], *end[3];
  /* whether window (a, b, c) covers the elements (a, 2b, 2c) to (a, 2b + 1, 2c + 1), for all
  ** windows */
  bool squares;
  /* for averages: 1 / the number of elements of each window (out...) */
  const double *share;
} tlk_Spans;

/* The pooling loops of one compute type. `scratch` has room for the elements of one row of the
** input and, for maxima, for as many int32 numbers. */
typedef struct tlk_PoolLoops {
  /* Computes maxima; indices may be NULL. */
  void (*max)(const tlk_Spans *s, const void *in, void *out, int64_t *indices, void *scratch);
  /* Computes averages; NULL for integers. */
  void (*average)(const tlk_Spans *s, const void *in, void *out, void *scratch);
  void (*spread)(const tlk_Spans *s, const void *out, void *in, void *scratch);
} tlk_PoolLoops;

#endif
