/*
** optim.h - the inner loops of optimizers, for float and for double.
*/
#ifndef TLK_CPU_OPTIM_H
#define TLK_CPU_OPTIM_H

#include "kernels/cpu/cpu.h"

/* Applies one step of an optimizer's rule to n elements, a multiple of TLK_LANES. Gradients are
** multiplied by `factor` first. `coefs` has the type of the loop. */
typedef void (*tlk_OptimLoop)(int64_t n, void *param, const void *grad, void *const *state,
                              double factor, const void *coefs);

typedef struct tlk_OptimLoops {
  tlk_OptimLoop step[TLK_NOPTIM_RULES];
  /* Multiplies n elements by factor; n need not be a multiple of TLK_LANES. Returns whether all
  ** elements were finite before. */
  bool (*scale)(int64_t n, void *x, double factor);
} tlk_OptimLoops;

/* Returns the number in an array of one float32 or float64. */
static inline double tlk_number(tlk_Array a) {
  return a.dtype == TL_F64 ? *(const double *)a.data : (double)*(const float *)a.data;
}

#endif
