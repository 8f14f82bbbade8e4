/*
** cross_entropy.h - inner loops of the cross-entropy loss for class labels (class_loss in
** core/kernel/kernel.h). There is one set for float and one for double.
*/
#ifndef TLK_CROSS_ENTROPY_H
#define TLK_CROSS_ENTROPY_H

#include "kernels/cpu/cpu.h"

#define TLK_CLASS_COLS 128 /* largest number of columns that are processed together as a strip */

typedef struct tlk_ClassLoops {
  /* Returns log(sum(exp(x))) of one row. */
  double (*row_norm)(int64_t classes, const void *x);
  /* Computes out = exp(x - norm) * factor. */
  void (*row_back)(int64_t classes, const void *x, double norm, double factor, void *out);
  /* These functions do the same as row_norm and row_back for each of `cols` columns. Rows of the
  ** strip are `step` elements apart. */
  void (*strip_norm)(int64_t classes, int64_t cols, int64_t step, const void *x, double *norm);
  void (*strip_back)(int64_t classes, int64_t cols, int64_t step, const void *x, const double *norm,
                     const void *factor, void *out);
} tlk_ClassLoops;

#endif
