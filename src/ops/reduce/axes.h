/*
** axes.h - reductions over any dimensions. A kernel reduces the middle one of three dimensions
** (outer, n, inner). To reduce any dimensions of a tensor, its dimensions are sorted by their order
** in memory. Adjacent dimensions that are all reduced, or all kept, are merged into one, called a
** run. Most reductions therefore need no copy, even of transposed tensors.
*/
#ifndef TLI_AXES_H
#define TLI_AXES_H

#include "ops/common.h"

typedef struct tli_Axes {
  /* the tensor to reduce: self or a copy, without gaps between its elements (owned) */
  tl_Tensor *in;
  int nruns; /* number of runs, ordered from outermost to innermost */
  struct {
    int64_t n;
    bool reduced;
  } runs[TL_MAX_DIMS];
  int64_t reduced; /* number of elements that are reduced to one result */
  int64_t repeats; /* number of elements of self that each element of `in` represents */
  int ndim;        /* number of dimensions of the result, which has the memory order of `in` */
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
} tli_Axes;

/* Plans a reduction. If dims is absent or empty, all dimensions are reduced. With `skip_repeats`,
** reduced dimensions of stride 0 are removed from `in` and counted in `repeats`. The caller must
** call tli_axes_end, even after a failure. */
bool tli_axes_begin(tli_Axes *a, const char *op, tl_Tensor *self, tl_Ints dims, bool keepdim,
                    bool skip_repeats) TL_MUSTCHECK;
void tli_axes_end(tli_Axes *a);
/* Returns an uninitialised tensor of the result's shape. */
tl_Tensor *tli_axes_result(const tli_Axes *a, tl_DType dtype) TL_MUSTCHECK;

/* The sizes for a kernel that reduces the innermost reduced run. n is 1 if no run is reduced. */
typedef struct tli_Run {
  int64_t outer, n, inner;
  bool last; /* whether there is no further run to reduce */
} tli_Run;
tli_Run tli_axes_run(const tli_Axes *a);
/* Removes the innermost reduced run from the plan, after a kernel has reduced it. */
void tli_axes_next(tli_Axes *a);

typedef struct tli_ReduceSpec {
  const char *name;
  tlk_Reduction kernel;
  tlk_Reduction again; /* the reduction that combines intermediate results */
  tl_DType compute, result;
  /* The treatment of an element that a broadcast dimension repeats k times. EACH: it is reduced k
  ** times. ONCE: it is reduced once. TIMES: it is reduced once, and the result is multiplied by
  ** k. */
  enum { TLI_EACH, TLI_ONCE, TLI_TIMES } repeats;
  bool nonempty;   /* whether a reduction over no elements is an error */
  tl_Scalar param; /* the kernel's parameter, if it has one */
} tli_ReduceSpec;

tl_Tensor *tli_reduce(const tli_ReduceSpec *spec, tl_Tensor *self, tl_Ints dims, bool keepdim)
    TL_MUSTCHECK;

/* Returns a list that contains dim. If dim is TLI_NOINT, the list is empty, which means all
** dimensions. */
static inline tl_Ints tli_one_dim(const int64_t *dim) {
  return *dim == TLI_NOINT ? TLI_NOINTS : (tl_Ints){1, dim};
}

#endif
