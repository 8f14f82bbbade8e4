/*
** lapack_call.h - calls a LAPACK routine for each matrix of a batch, for any element type.
*/
#ifndef TLK_LAPACK_CALL_H
#define TLK_LAPACK_CALL_H

#include <stdbool.h>
#include <stdint.h>

/* The arguments of a routine; no routine uses all of them. The matrices of a batch are
** contiguous. */
typedef struct tlk_LapackCall {
  bool vectors, left, upper, transpose, unit, hermitian;
  char job;
  int m, n, k, nrhs;
  const void *in; /* arrays that the routine only reads, such as factors or the array tau */
  void *a, *b, *s, *u, *vt;
  const int *pivots_in;
  int *pivots, *rank, *info;
  double rcond;
} tlk_LapackCall;

/* Processes matrices [begin, end) of the batch. Returns false if memory is exhausted. */
typedef bool (*tlk_LapackRoutine)(const tlk_LapackCall *c, int64_t begin, int64_t end);

/* LAPACK's routines for one element type. */
typedef struct tlk_LapackRoutines {
  bool (*open)(void); /* finds the routines in the library that blas.c has opened */
  tlk_LapackRoutine potrf, getrf, getrs, geqrf, orgqr, gesdd, syevd, gelsd, sytrf, sytrs, trsm,
      geev;
} tlk_LapackRoutines;

extern const tlk_LapackRoutines tlk_lapack_f32, tlk_lapack_f64, tlk_lapack_c64, tlk_lapack_c128;

static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }

#endif
