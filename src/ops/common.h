/*
** common.h - code shared by generated and hand-written operators: elementwise calls, saved values
** of nodes, and releasing results after a failure.
*/
#ifndef TLI_COMMON_H
#define TLI_COMMON_H

#include "autograd/graph.h"
#include "core/device/backend.h"
#include "core/device/running.h"
#include "core/device/transfer.h"
#include "core/memory/alloc.h"
#include "ops.h" /* generated */

#define TLI_PI 3.14159265358979323846

/* ---- elementwise ---- */

/* The kind of dtype in which a kernel computes, which determines how inputs are promoted. */
typedef enum tli_Types {
  TLI_TYPES_NUMBER, /* the inputs' common type */
  /* the inputs' common type, or the default dtype if the common type is an integer type */
  TLI_TYPES_FLOATING,
  TLI_TYPES_INTEGER /* the inputs' common type, which must not be floating */
} tli_Types;

typedef struct tli_PointwiseSpec {
  const char *name; /* the operator's name as it appears in messages */
  tlk_Pointwise kernel;
  int ninputs;
  int nparams;
  tli_Types types;
  bool to_bool;    /* whether the dtype of the result is bool */
  bool takes_bool; /* whether bool inputs are allowed; sub, for example, refuses them */
  enum { TLI_COMPLEX_REFUSED, TLI_COMPLEX_TAKEN, TLI_COMPLEX_TO_REAL } on_complex;
} tli_PointwiseSpec;

/* Converts a numeric parameter to fit inputs of t's dtype. For an integer dtype the fraction is
** dropped. */
static inline tl_Scalar tli_fitting(tl_Scalar s, const tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? s : tli_int(tli_to_int(s));
}

/* These functions check the numeric arguments of hardtanh and softshrink. */
bool tli_check_hardtanh(tl_Scalar min_val, tl_Scalar max_val) TL_MUSTCHECK;
bool tli_check_softshrink(tl_Scalar lambd) TL_MUSTCHECK;

/* Computes kernel(inputs...) into a new tensor, with broadcasting and promotion. */
tl_Tensor *tli_pointwise(const tli_PointwiseSpec *spec, tl_Tensor *const *inputs,
                         const tl_Scalar *params) TL_MUSTCHECK;
/* Computes the same as tli_pointwise, but writes to `out`. `out` must have the result's shape and a
** dtype that can hold the result. */
bool tli_pointwise_into(const tli_PointwiseSpec *spec, tl_Tensor *const *inputs,
                        const tl_Scalar *params, tl_Tensor *out) TL_MUSTCHECK;

/* Runs a kernel with several outputs on n operands. The outputs come first in `operands`. The
** inputs are broadcast to the outputs' shape, and the kernel computes in the dtype of the first
** output. */
bool tli_fused(tlk_Fused kernel, tl_Tensor *const *operands, int n) TL_MUSTCHECK;

/* ---- complex tensors ---- */

/* Returns whether any of the n tensors is complex. NULL entries are ignored. */
static inline bool tli_any_complex(tl_Tensor *const *ts, int n) {
  bool found = false;
  for (int i = 0; i < n; i++) found = found || (ts[i] && tli_is_complex((tl_DType)ts[i]->dtype));
  return found;
}
static inline bool tli_complex_wanted(tl_DType dtype) {
  return dtype != TL_NODTYPE && tli_is_complex(dtype);
}
/* Returns whether the matrix's device has LAPACK's routines for its dtype. A GPU has them for real
** matrices; otherwise the CPU computes. */
bool tli_has_lapack(const tl_Tensor *t);
/* Fails with a message that the operator takes no complex tensors, numbers or dtypes. */
bool tli_refuse_complex(const char *op);

/* ---- payload of nodes ---- */

typedef struct tli_IntsBuf {
  int64_t n;
  int64_t few[TL_MAX_DIMS];
  int64_t *many; /* a larger buffer (owned), used if n > TL_MAX_DIMS */
  bool given;
} tli_IntsBuf;

bool tli_ints_keep(tli_IntsBuf *buf, tl_Ints ints) TL_MUSTCHECK;
/* Stores the size of each tensor along dim. */
bool tli_ints_lengths(tli_IntsBuf *buf, tl_Tensors list, int64_t dim) TL_MUSTCHECK;
void tli_ints_drop(tli_IntsBuf *buf);
static inline tl_Ints tli_ints(const tli_IntsBuf *buf) {
  return buf->given ? (tl_Ints){buf->n, buf->many ? buf->many : buf->few} : TLI_NOINTS;
}

/* The value of a short text option, such as "mean" or "reflect". */
typedef struct tli_Name {
  char text[32];
} tli_Name;
void tli_name_keep(tli_Name *name, const char *text);

/* ---- releasing ---- */

/* Releases the n tensors in `slots` and sets the slots to NULL. Always returns NULL. */
void *tli_release_results(tl_Tensor **slots, int n);
/* Ends the function `apply` of a graph node: releases the saved tensors in `slots` and, after a
** failure, the gradients in `out`. */
void tli_apply_end(tl_Tensor **slots, int n, bool ok, tl_Tensor **out, int nout);
/* Moves the tensors of an owned list to out[0..n) and frees the list. */
void tli_tensors_move(tl_Tensors *list, tl_Tensor **out);
/* Returns an owned list of n empty slots. The list's v is NULL on failure. */
tl_Tensors tli_tensors_new(int64_t n);
void tli_tensors_free(tl_Tensors *list);

/* ---- in place ---- */

/* Returns a copy of self that can be overwritten. It has self's memory layout and no history. */
tl_Tensor *tli_clone_for(const char *op, tl_Tensor *self) TL_MUSTCHECK;
/* Returns the tensor that an in-place composition reads: its first input or, while history is
** recorded, a copy of that input. Without the copy the composition would save an input that is
** overwritten later. */
tl_Tensor *tli_inplace_source(tl_Tensor *const *inputs, int n) TL_MUSTCHECK;
/* Checks that `result` can be stored in self: the shapes must be equal, and self's dtype must be
** able to hold the result. */
bool tli_inplace_fits(const char *op, const tl_Tensor *self, const tl_Tensor *result) TL_MUSTCHECK;
/* Copies `result` to self. Steals `result`, which may be NULL. */
bool tli_write_back(const char *op, tl_Tensor *self, tl_Tensor *result) TL_MUSTCHECK;
/* Implements out=. `out` gets the shape and the values of `result`. */
bool tli_out_assign(const char *op, tl_Tensor *out, tl_Tensor *result) TL_MUSTCHECK;

/* ---- checks and copies; false with a message "op: ..." ---- */

bool tli_same_device_all(const char *op, tl_Tensor *const *ts, int n) TL_MUSTCHECK;
/* Copies src to dst; both are on the same device. The sizes must be equal, but dtypes and strides
** may differ. */
bool tli_copy(tl_Tensor *dst, const tl_Tensor *src) TL_MUSTCHECK;
bool tli_fill(tl_Tensor *dst, tl_Scalar value) TL_MUSTCHECK;
/* Returns a row-major tensor with t's values in the given dtype. If t is already such a tensor, the
** result is a new reference to t, otherwise a copy. */
tl_Tensor *tli_contiguous_as(tl_Tensor *t, tl_DType dtype) TL_MUSTCHECK;

/* Returns whether writing `out` element by element, in any order, could overwrite elements of `in`
** before they are read. This is possible if the tensors share memory but have different offsets,
** sizes or strides. */
bool tli_clashes(const tl_Tensor *out, const tl_Tensor *in);
/* Adds src to dst. src is broadcast, and nothing is recorded. */
bool tli_accumulate(tl_Tensor *dst, tl_Tensor *src) TL_MUSTCHECK;
/* Checks the sizes of a new tensor; the message names `op`. */
bool tli_check_sizes(const char *op, tl_Ints size, tl_DType dtype) TL_MUSTCHECK;
/* Checks that a tensor may have n dimensions. */
bool tli_check_ndim(const char *op, int64_t n) TL_MUSTCHECK;
/* These functions fail if storing a complex number, or complex values, in `dtype` would drop
** imaginary parts. */
bool tli_check_complex_number(const char *op, tl_Scalar value, tl_DType dtype) TL_MUSTCHECK;
bool tli_check_complex_values(const char *op, const tl_Tensor *values, tl_DType dtype) TL_MUSTCHECK;
/* Warns, once per process, that an explicit conversion to `dtype` drops imaginary parts. */
void tli_warn_discarding(const tl_Tensor *self, tl_DType dtype);
/* Checks that an element of `dtype` can hold the number. For an integer dtype the number must be in
** range (a fraction is dropped). For a floating dtype a finite number must not exceed the dtype's
** largest one. */
bool tli_check_holds(const char *op, tl_Scalar value, tl_DType dtype) TL_MUSTCHECK;
/* Fails if the operator's input does not have a floating dtype. */
bool tli_check_floating(const char *op, const tl_Tensor *input) TL_MUSTCHECK;
/* Checks that all elements of t are in [low, high]. NaN counts as out of range. If the check fails
** on the CPU, the function returns false with a message. Other devices record a fault, which a
** later wait reports. */
bool tli_check_range(const char *op, const char *argument, tl_Tensor *t, double low, double high)
    TL_MUSTCHECK;
/* Marks the listed dimensions. An absent or empty list marks all dimensions. Returns false if a
** dimension is out of range or listed twice. */
bool tli_mark_dims(const char *op, tl_Ints dims, int ndim, bool marked[TL_MAX_DIMS]) TL_MUSTCHECK;
/* Checks the sizes (tli_check_sizes) and returns an uninitialised tensor. An absent dtype means the
** default dtype, and an absent device the default device. */
tl_Tensor *tli_new(const char *op, tl_Ints size, tl_DType dtype, tl_Device device) TL_MUSTCHECK;
/* Returns zeros of the given size, with the dtype and device of `like`. */
tl_Tensor *tli_zeros(const char *op, tl_Tensor *like, tl_Ints size) TL_MUSTCHECK;
/* tli_cut returns a view that has only n positions of one dimension. The positions begin at `start`
** and are `step` apart. tli_pick returns a view of position `at`, without that dimension. Neither
** function checks its arguments or records anything. */
tl_Tensor *tli_cut(const tl_Tensor *t, int dim, int64_t start, int64_t n, int64_t step)
    TL_MUSTCHECK;
tl_Tensor *tli_pick(const tl_Tensor *t, int dim, int64_t at) TL_MUSTCHECK;

/* ---- values that the host reads: each function waits for the device ---- */

/* Sets *out to whether the only element of a tensor is true. */
bool tli_truth(tl_Tensor *t, bool *out) TL_MUSTCHECK;
/* tli_any_true sets *out to whether any element of a mask is true, tli_all_true to whether all
** elements are. Both functions release the mask. A NULL mask means that the operator that computes
** the mask has failed. */
bool tli_any_true(tl_Tensor *steals, bool *out) TL_MUSTCHECK;
bool tli_all_true(tl_Tensor *steals, bool *out) TL_MUSTCHECK;
/* Sets *out to whether any element is zero, and to false on the meta device. Callers may only use
** the answer to choose between formulas whose results have the same shape. */
bool tli_any_zero(tl_Tensor *t, bool *out) TL_MUSTCHECK;
/* tli_smallest sets *out to the smallest element, tli_largest to the largest. The result is NaN if
** any element is NaN. For a tensor that has no elements or is on the meta device, tli_smallest
** gives infinity and tli_largest -infinity. */
bool tli_smallest(tl_Tensor *t, double *out) TL_MUSTCHECK;
bool tli_largest(tl_Tensor *t, double *out) TL_MUSTCHECK;
/* Counts the nonzero elements of a row-major tensor. */
bool tli_count_true(const tl_Tensor *t, int64_t *count) TL_MUSTCHECK;
/* Writes the positions of t's nonzero elements to `out` (count, ndim). The positions refer to the
** shape `sizes`, which has as many elements as t. */
bool tli_true_positions(const tl_Tensor *t, tl_Tensor *out, int ndim, const int64_t *sizes)
    TL_MUSTCHECK;

/* ---- operators that run on the CPU only (an entry's `host`) ---- */

/* Copies all inputs to the CPU and waits for the device. A NULL input gives NULL. After a failure,
** there are no copies. */
bool tli_to_host(tl_Tensor *const *inputs, tl_Tensor **out, int n) TL_MUSTCHECK;
/* Replaces results on the CPU by copies on a device. The copies keep the order of dimensions in
** memory. After a failure, all results are released. */
bool tli_from_host(tl_Device device, tl_Tensor **results, int n) TL_MUSTCHECK;
/* Copies t to a device. A dense tensor keeps its strides, because results are often transposes. Any
** other tensor becomes row-major. */
tl_Tensor *tli_moved_as_is(tl_Tensor *t, tl_Device device, bool async) TL_MUSTCHECK;

/* ---- parts of formulas; those of several steps are chains, see ops/chain.h ---- */

/* tli_with_number computes fn(t, s) for a tensor and a number, tli_number_with fn(s, t). */
typedef tl_Tensor *(*tli_Binary)(tl_Tensor *, tl_Tensor *);
tl_Tensor *tli_with_number(tli_Binary fn, tl_Tensor *t, tl_Scalar s) TL_MUSTCHECK;
tl_Tensor *tli_number_with(tli_Binary fn, tl_Scalar s, tl_Tensor *t) TL_MUSTCHECK;
static inline tl_Tensor *tli_plus(tl_Tensor *a, tl_Tensor *b) { return tlo_add(a, b, tli_int(1)); }
static inline tl_Tensor *tli_minus(tl_Tensor *a, tl_Tensor *b) { return tlo_sub(a, b, tli_int(1)); }
/* These functions compute where(condition, t, number) and where(condition, number, t). */
tl_Tensor *tli_where_else(tl_Tensor *condition, tl_Tensor *t, tl_Scalar s) TL_MUSTCHECK;
tl_Tensor *tli_where_then(tl_Tensor *condition, tl_Scalar s, tl_Tensor *t) TL_MUSTCHECK;

/* tli_floating_dtype returns t's dtype if it is floating or complex, and the default dtype
** otherwise. tli_floating returns t in that dtype. */
static inline tl_DType tli_floating_dtype(const tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? (tl_DType)t->dtype : tli_default_dtype();
}
static inline tl_Tensor *tli_floating(tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? tli_retain(t) : tlo_to_dtype(t, tli_default_dtype());
}

static inline tlk_Array tli_array(const tl_Tensor *t) {
  return (tlk_Array){tli_data(t), (tl_DType)t->dtype};
}
/* Returns the state of a tli_Stretch in the form that kernels read. */
static inline const uint64_t *tli_stretch_words(const tl_Tensor *state) {
  return state ? tli_data(state) : NULL;
}

/* A contiguous tensor seen along one dimension as (outer, n, inner). A 0-d tensor is (1, 1, 1). */
typedef struct tli_Along {
  int64_t outer, n, inner;
} tli_Along;
tli_Along tli_along(const tl_Tensor *t, int dim);

/* Fills uninitialised memory in deterministic mode, unless
** torch.utils.deterministic.fill_uninitialized_memory is off. As in PyTorch, the value is NaN, the
** largest integer, or true. */
bool tli_fill_uninitialized(tl_Tensor *t) TL_MUSTCHECK;

#endif
