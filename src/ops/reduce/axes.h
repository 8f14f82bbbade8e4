/*
** axes.h - reductions over any dimensions. Kernels reduce the middle one of
** three: (outer, n, inner). Here a tensor's dimensions are sorted by how they
** lie in memory and merged into runs that are reduced or kept, so that most
** reductions need no copy, of transposed tensors neither.
*/
#ifndef TLI_AXES_H
#define TLI_AXES_H

#include "ops/common.h"

typedef struct tli_Axes {
  tl_Tensor *in; /* owned; its elements fill their memory without gap */
  int nruns;     /* outermost first */
  struct {
    int64_t n;
    bool reduced;
  } runs[TL_MAX_DIMS];
  int64_t reduced; /* elements that go into one result */
  int64_t repeats; /* of them, how many each element of `in` stands for */
  int ndim;        /* the result, which lies as `in` does */
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
} tli_Axes;

/* No dims, or an empty list: all. With `skip_repeats` reduced dimensions of
** stride 0 are left out of `in` and counted in `repeats`. Released with
** tli_axes_end, also after a failure. */
bool tli_axes_begin(tli_Axes *a, const char *op, tl_Tensor *self, tl_Ints dims, bool keepdim,
                    bool skip_repeats) TL_MUSTCHECK;
void tli_axes_end(tli_Axes *a);
/* An undefined result. */
tl_Tensor *tli_axes_result(const tli_Axes *a, tl_DType dtype) TL_MUSTCHECK;

/* The innermost reduced run as a kernel sees it; n == 1 where there is none. */
typedef struct tli_Run {
  int64_t outer, n, inner;
  bool last; /* no other run is reduced */
} tli_Run;
tli_Run tli_axes_run(const tli_Axes *a);
/* Forgets that run: the elements now are what a kernel made of it. */
void tli_axes_next(tli_Axes *a);

typedef struct tli_ReduceSpec {
  const char *name;
  tlk_Reduction kernel;
  tlk_Reduction again; /* joins the kernel's results */
  tl_DType compute, result;
  /* How an element counts that a broadcast dimension repeats k times: k times
  ** (EACH), once (ONCE), or once with the result multiplied by k (TIMES). */
  enum { TLI_EACH, TLI_ONCE, TLI_TIMES } repeats;
  bool nonempty;   /* an error if nothing goes into a result */
  tl_Scalar param; /* of kernels that take one */
} tli_ReduceSpec;

tl_Tensor *tli_reduce(const tli_ReduceSpec *spec, tl_Tensor *self, tl_Ints dims, bool keepdim)
    TL_MUSTCHECK;

/* One dimension, or all if TLI_NOINT; `keep` is where the list lies. */
static inline tl_Ints tli_one_dim(const int64_t *dim) {
  return *dim == TLI_NOINT ? TLI_NOINTS : (tl_Ints){1, dim};
}

#endif
