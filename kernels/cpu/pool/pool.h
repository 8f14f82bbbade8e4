/*
** pool.h - inner loops of pooling, one plane at a time. The bounds of windows are computed once
** for all planes.
*/
#ifndef TLK_POOL_H
#define TLK_POOL_H

#include "kernels/cpu/cpu.h"

/* Window o along dimension d covers begin[d][o] ... end[d][o] - 1 in steps of step[d], all
** inside the plane. */
typedef struct tlk_Spans {
  int64_t in[3], out[3], step[3];
  const int64_t *begin[3], *end[3];
  bool squares; /* whether window (a, b, c) covers the 2 x 2 elements at (a, 2 b, 2 c) */
  /* for averages: the reciprocal of each window's number of elements (out...) */
  const double *share;
} tlk_Spans;

/* The pooling loops of one compute type. `scratch` has room for a row of the input: elements and,
** for maxima, an int32 for each. */
typedef struct tlk_PoolLoops {
  /* Computes maxima; indices may be NULL. */
  void (*max)(const tlk_Spans *s, const void *in, void *out, int64_t *indices, void *scratch);
  /* Computes averages; NULL for integers. */
  void (*average)(const tlk_Spans *s, const void *in, void *out, void *scratch);
  void (*spread)(const tlk_Spans *s, const void *out, void *in, void *scratch);
} tlk_PoolLoops;

#endif
