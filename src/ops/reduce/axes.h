/*
** axes.h - reductions over any dimensions. Kernels reduce the middle one of three dimensions:
** (outer, n, inner). A tensor's dimensions are sorted by their order in memory and merged into
** runs that are reduced or kept, so most reductions need no copy, even of transposed tensors.
*/
#ifndef TLI_AXES_H
#define TLI_AXES_H

#include "ops/common.h"

typedef struct tli_Axes {
  tl_Tensor *in; /* the tensor to reduce (owned); its elements have no gaps */
  int nruns;     /* number of runs; runs are ordered from the outermost to the innermost */
  struct {
    int64_t n;
    bool reduced;
  } runs[TL_MAX_DIMS];
  int64_t reduced; /* number of elements that are reduced to one result */
  int64_t repeats; /* number of elements of self that each element of `in` represents */
  int ndim;        /* number of the result's dimensions, which are in the memory order of `in` */
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
} tli_Axes;

/* Plans a reduction. No dims, or an empty list, means all. With `skip_repeats`, reduced dimensions
** of stride 0 are removed from `in` and counted in `repeats`. tli_axes_end releases the struct,
** also after a failure. */
bool tli_axes_begin(tli_Axes *a, const char *op, tl_Tensor *self, tl_Ints dims, bool keepdim,
                    bool skip_repeats) TL_MUSTCHECK;
void tli_axes_end(tli_Axes *a);
/* Returns an uninitialised tensor of the result's shape. */
tl_Tensor *tli_axes_result(const tli_Axes *a, tl_DType dtype) TL_MUSTCHECK;

/* Sizes for a kernel that reduces the innermost reduced run; n is 1 if no run is reduced. */
typedef struct tli_Run {
  int64_t outer, n, inner;
  bool last; /* whether no further run is reduced */
} tli_Run;
tli_Run tli_axes_run(const tli_Axes *a);
/* Removes the innermost reduced run, after a kernel has reduced it. */
void tli_axes_next(tli_Axes *a);

typedef struct tli_ReduceSpec {
  const char *name;
  tlk_Reduction kernel;
  tlk_Reduction again; /* the reduction that combines the kernel's results */
  tl_DType compute, result;
  /* How often an element counts that a broadcast dimension repeats k times: k times (EACH), once
  ** (ONCE), or once with the result multiplied by k (TIMES). */
  enum { TLI_EACH, TLI_ONCE, TLI_TIMES } repeats;
  bool nonempty;   /* whether reducing no elements is an error */
  tl_Scalar param; /* the parameter, for kernels that have one */
} tli_ReduceSpec;

tl_Tensor *tli_reduce(const tli_ReduceSpec *spec, tl_Tensor *self, tl_Ints dims, bool keepdim)
    TL_MUSTCHECK;

/* Returns a list with dim; the empty list, which means all dimensions, if dim is TLI_NOINT. */
static inline tl_Ints tli_one_dim(const int64_t *dim) {
  return *dim == TLI_NOINT ? TLI_NOINTS : (tl_Ints){1, dim};
}

#endif
