/*
** optim.h - the loops of optimizers, for float and for double.
*/
#ifndef TLK_CPU_OPTIM_H
#define TLK_CPU_OPTIM_H

#include "kernels/cpu/cpu.h"

/* A rule's step of n elements, a multiple of TLK_LANES. Gradients are multiplied by
** `factor`; coefs are in the type of the loop. */
typedef void (*tlk_OptimLoop)(int64_t n, void *param, const void *grad, void *const *state,
                              double factor, const void *coefs);

typedef struct tlk_OptimLoops {
  tlk_OptimLoop step[TLK_NOPTIM_RULES];
  /* x[i] *= factor; whether all were finite. Any n. */
  bool (*scale)(int64_t n, void *x, double factor);
} tlk_OptimLoops;

/* A number in float32 or float64. */
static inline double tlk_number(tlk_Array a) {
  return a.dtype == TL_F64 ? *(const double *)a.data : (double)*(const float *)a.data;
}

#endif
