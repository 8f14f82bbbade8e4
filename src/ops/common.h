/*
** common.h - code that generated and hand-written operators share: elementwise calls, payload
** of nodes, releasing on failure.
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

/* The dtypes that a kernel computes in; they determine the promotion of inputs. */
typedef enum tli_Types {
  TLI_TYPES_NUMBER,   /* computes in the inputs' common type */
  TLI_TYPES_FLOATING, /* computes in the inputs' common type, but integers become float32 */
  TLI_TYPES_INTEGER   /* computes in the inputs' common type, which must not be floating */
} tli_Types;

typedef struct tli_PointwiseSpec {
  const char *name; /* the operator's name in messages */
  tlk_Pointwise kernel;
  int ninputs;
  int nparams;
  tli_Types types;
  bool to_bool;    /* whether the result's dtype is bool */
  bool takes_bool; /* whether bool inputs are allowed; PyTorch's sub refuses them */
  enum { TLI_COMPLEX_REFUSED, TLI_COMPLEX_TAKEN, TLI_COMPLEX_TO_REAL } on_complex;
} tli_PointwiseSpec;

/* Converts a parameter to fit inputs of t's dtype: for integers its fraction is dropped. */
static inline tl_Scalar tli_fitting(tl_Scalar s, const tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? s : tli_int(tli_to_int(s));
}

/* Check the numeric arguments of some operators. */
bool tli_check_hardtanh(tl_Scalar min_val, tl_Scalar max_val) TL_MUSTCHECK;
bool tli_check_softshrink(tl_Scalar lambd) TL_MUSTCHECK;

/* Computes kernel(inputs...) with broadcasting and promotion into a new tensor. */
tl_Tensor *tli_pointwise(const tli_PointwiseSpec *spec, tl_Tensor *const *inputs,
                         const tl_Scalar *params) TL_MUSTCHECK;
/* Computes an elementwise operator as tli_pointwise does, into `out`, which must have the result's
** shape and a dtype that can hold the result. */
bool tli_pointwise_into(const tli_PointwiseSpec *spec, tl_Tensor *const *inputs,
                        const tl_Scalar *params, tl_Tensor *out) TL_MUSTCHECK;

/* Runs a kernel of several outputs on n operands, outputs first. Inputs broadcast to the
** outputs' shape; the compute type is that of the first output. */
bool tli_fused(tlk_Fused kernel, tl_Tensor *const *operands, int n) TL_MUSTCHECK;

/* ---- complex tensors ---- */

/* Returns whether one of n tensors is complex; NULL entries are ignored. */
static inline bool tli_any_complex(tl_Tensor *const *ts, int n) {
  bool found = false;
  for (int i = 0; i < n; i++) found = found || (ts[i] && tli_is_complex((tl_DType)ts[i]->dtype));
  return found;
}
static inline bool tli_complex_wanted(tl_DType dtype) {
  return dtype != TL_NODTYPE && tli_is_complex(dtype);
}
/* Fails with the message that the operator takes no complex tensors, numbers or dtypes. */
bool tli_refuse_complex(const char *op);

/* ---- payload of nodes ---- */

typedef struct tli_IntsBuf {
  int64_t n;
  int64_t few[TL_MAX_DIMS];
  int64_t *many; /* a larger buffer (owned), used when n > TL_MAX_DIMS */
  bool given;
} tli_IntsBuf;

bool tli_ints_keep(tli_IntsBuf *buf, tl_Ints ints) TL_MUSTCHECK;
/* Stores each tensor's size along dim. */
bool tli_ints_lengths(tli_IntsBuf *buf, tl_Tensors list, int64_t dim) TL_MUSTCHECK;
void tli_ints_drop(tli_IntsBuf *buf);
static inline tl_Ints tli_ints(const tli_IntsBuf *buf) {
  return buf->given ? (tl_Ints){buf->n, buf->many ? buf->many : buf->few} : TLI_NOINTS;
}

/* A short text option such as "mean" or "reflect". */
typedef struct tli_Name {
  char text[32];
} tli_Name;
void tli_name_keep(tli_Name *name, const char *text);

/* ---- releasing ---- */

/* Releases the n tensors in `slots` and sets the slots to NULL. Returns NULL. */
void *tli_release_results(tl_Tensor **slots, int n);
/* Ends a node's apply: releases the slots and, after a failure, out. */
void tli_apply_end(tl_Tensor **slots, int n, bool ok, tl_Tensor **out, int nout);
/* Moves the tensors of a list (owned) to out[0..n) and frees the list. */
void tli_tensors_move(tl_Tensors *list, tl_Tensor **out);
/* Returns an owned list of n empty slots; v is NULL on failure. */
tl_Tensors tli_tensors_new(int64_t n);
void tli_tensors_free(tl_Tensors *list);

/* ---- in place ---- */

/* Returns a copy without history to be written to, in self's memory layout. */
tl_Tensor *tli_clone_for(const char *op, tl_Tensor *self) TL_MUSTCHECK;
/* Returns the tensor from which an in-place composition computes: its first input or, while history
** is recorded, a copy. The composition would otherwise save an input that is overwritten later. */
tl_Tensor *tli_inplace_source(tl_Tensor *const *inputs, int n) TL_MUSTCHECK;
/* Returns whether `result` can be stored in self: the shapes are equal, and self's dtype can hold
** the result. */
bool tli_inplace_fits(const char *op, const tl_Tensor *self, const tl_Tensor *result) TL_MUSTCHECK;
/* Copies `result` to self. Steals `result`, which may be NULL. */
bool tli_write_back(const char *op, tl_Tensor *self, tl_Tensor *result) TL_MUSTCHECK;
/* Implements out=: gives `out` the shape and the values of `result`. */
bool tli_out_assign(const char *op, tl_Tensor *out, tl_Tensor *result) TL_MUSTCHECK;

/* ---- checks and copies; false with a message "op: ..." ---- */

bool tli_same_device_all(const char *op, tl_Tensor *const *ts, int n) TL_MUSTCHECK;
/* Copies src to dst on their device. The sizes must be equal; dtypes and strides may differ. */
bool tli_copy(tl_Tensor *dst, const tl_Tensor *src) TL_MUSTCHECK;
bool tli_fill(tl_Tensor *dst, tl_Scalar value) TL_MUSTCHECK;
/* Returns a row-major tensor of the given dtype with t's values: a new reference to t if t is such
** a tensor, otherwise a copy. */
tl_Tensor *tli_contiguous_as(tl_Tensor *t, tl_DType dtype) TL_MUSTCHECK;

/* Returns whether writing `out` element by element, in any order, would overwrite elements of `in`
** before they are read. That is so if both share memory and differ in geometry. */
bool tli_clashes(const tl_Tensor *out, const tl_Tensor *in);
/* Adds src, broadcast, to dst; records nothing. */
bool tli_accumulate(tl_Tensor *dst, tl_Tensor *src) TL_MUSTCHECK;
/* Checks the sizes of a new tensor; the message names `op`. */
bool tli_check_sizes(const char *op, tl_Ints size, tl_DType dtype) TL_MUSTCHECK;
/* Checks that a tensor may have n dimensions. */
bool tli_check_ndim(const char *op, int64_t n) TL_MUSTCHECK;
/* Check that `dtype` keeps the imaginary parts of a number, or of a tensor's values. */
bool tli_check_complex_number(const char *op, tl_Scalar value, tl_DType dtype) TL_MUSTCHECK;
bool tli_check_complex_values(const char *op, const tl_Tensor *values, tl_DType dtype) TL_MUSTCHECK;
/* Warns, once in a process, if a conversion to `dtype`, which the user asks for, drops imaginary
** parts. */
void tli_warn_discarding(const tl_Tensor *self, tl_DType dtype);
/* Checks that an element of `dtype` can hold the number: integers must be in range (a float
** loses its fraction), and a finite float must not exceed the largest one. */
bool tli_check_holds(const char *op, tl_Scalar value, tl_DType dtype) TL_MUSTCHECK;
/* Fails unless the operator's input has a floating dtype. */
bool tli_check_floating(const char *op, const tl_Tensor *input) TL_MUSTCHECK;
/* Checks that all elements of t are in [low, high]; NaN is outside. Otherwise returns false with a
** message or, on a device, records a fault. */
bool tli_check_range(const char *op, const char *argument, tl_Tensor *t, double low, double high)
    TL_MUSTCHECK;
/* Marks the dimensions of a list; an absent or empty list means all. Returns false if one is
** out of range or listed twice. */
bool tli_mark_dims(const char *op, tl_Ints dims, int ndim, bool marked[TL_MAX_DIMS]) TL_MUSTCHECK;
/* Returns an uninitialised tensor after tli_check_sizes; dtype and device default to float32
** and the default device. */
tl_Tensor *tli_new(const char *op, tl_Ints size, tl_DType dtype, tl_Device device) TL_MUSTCHECK;
/* Returns zeros of a gradient's dtype and device. */
tl_Tensor *tli_zeros(const char *op, tl_Tensor *like, tl_Ints size) TL_MUSTCHECK;
/* tli_cut returns a view with one dimension restricted to n positions, `step` apart, beginning at
** `start`. tli_pick returns a view of position `at` without the dimension. Neither call is checked
** or recorded. */
tl_Tensor *tli_cut(const tl_Tensor *t, int dim, int64_t start, int64_t n, int64_t step)
    TL_MUSTCHECK;
tl_Tensor *tli_pick(const tl_Tensor *t, int dim, int64_t at) TL_MUSTCHECK;

/* ---- values that the host reads: each function waits for the device ---- */

/* Reads the truth of a tensor with one element. */
bool tli_truth(tl_Tensor *t, bool *out) TL_MUSTCHECK;
/* tli_any_true sets *out to whether some element of a mask is true, tli_all_true to whether all
** are. Both functions release the mask. A NULL mask means that the operator that should have made
** it has failed. */
bool tli_any_true(tl_Tensor *steals, bool *out) TL_MUSTCHECK;
bool tli_all_true(tl_Tensor *steals, bool *out) TL_MUSTCHECK;
/* Sets *out to whether an element is zero; always false on the meta device. It may only serve to
** choose between formulas whose results have the same shape. */
bool tli_any_zero(tl_Tensor *t, bool *out) TL_MUSTCHECK;
/* tli_smallest sets *out to the smallest element, tli_largest to the largest; NaN if an element is
** NaN. A tensor without elements, or on the meta device, gives infinity and -infinity. */
bool tli_smallest(tl_Tensor *t, double *out) TL_MUSTCHECK;
bool tli_largest(tl_Tensor *t, double *out) TL_MUSTCHECK;
/* Counts the nonzero elements of a row-major tensor. */
bool tli_count_true(const tl_Tensor *t, int64_t *count) TL_MUSTCHECK;
/* Writes the positions of nonzero elements in the shape `sizes`, which has t's number of elements,
** to out (count, ndim). */
bool tli_true_positions(const tl_Tensor *t, tl_Tensor *out, int ndim, const int64_t *sizes)
    TL_MUSTCHECK;

/* ---- operators that run on the CPU only (an entry's `host`) ---- */

/* Copies inputs to the CPU; NULL stays NULL. Copies all or none. Waits for the device. */
bool tli_to_host(tl_Tensor *const *inputs, tl_Tensor **out, int n) TL_MUSTCHECK;
/* Replaces results by copies on a device with the same order of dimensions in memory; releases
** all of them on failure. */
bool tli_from_host(tl_Device device, tl_Tensor **results, int n) TL_MUSTCHECK;
/* Copies t to a device. A dense tensor keeps its strides (results are often transposes); any other
** becomes row-major. */
tl_Tensor *tli_moved_as_is(tl_Tensor *t, tl_Device device, bool async) TL_MUSTCHECK;

/* ---- parts of formulas; those of several steps are chains, see ops/chain.h ---- */

/* Apply a binary operator to a tensor and a number: fn(t, s) and fn(s, t). */
typedef tl_Tensor *(*tli_Binary)(tl_Tensor *, tl_Tensor *);
tl_Tensor *tli_with_number(tli_Binary fn, tl_Tensor *t, tl_Scalar s) TL_MUSTCHECK;
tl_Tensor *tli_number_with(tli_Binary fn, tl_Scalar s, tl_Tensor *t) TL_MUSTCHECK;
static inline tl_Tensor *tli_plus(tl_Tensor *a, tl_Tensor *b) { return tlo_add(a, b, tli_int(1)); }
static inline tl_Tensor *tli_minus(tl_Tensor *a, tl_Tensor *b) { return tlo_sub(a, b, tli_int(1)); }
/* Compute where(condition, t, number) and where(condition, number, t). */
tl_Tensor *tli_where_else(tl_Tensor *condition, tl_Tensor *t, tl_Scalar s) TL_MUSTCHECK;
tl_Tensor *tli_where_then(tl_Tensor *condition, tl_Scalar s, tl_Tensor *t) TL_MUSTCHECK;

/* tli_floating_dtype returns t's dtype if it is floating or complex, otherwise the default dtype.
** tli_floating returns t in that dtype. */
static inline tl_DType tli_floating_dtype(const tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? (tl_DType)t->dtype : tli_default_dtype();
}
static inline tl_Tensor *tli_floating(tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? tli_retain(t) : tlo_to_dtype(t, tli_default_dtype());
}

static inline tlk_Array tli_array(const tl_Tensor *t) {
  return (tlk_Array){tli_data(t), (tl_DType)t->dtype};
}
/* Returns a stretch's state (tli_Stretch) for kernels. */
static inline const uint64_t *tli_stretch_words(const tl_Tensor *state) {
  return state ? tli_data(state) : NULL;
}

/* The sizes (outer, n, inner) of a contiguous tensor along dim; a 0-d tensor is (1,1,1). */
typedef struct tli_Along {
  int64_t outer, n, inner;
} tli_Along;
tli_Along tli_along(const tl_Tensor *t, int dim);

/* In deterministic mode, unless torch.utils.deterministic.fill_uninitialized_memory is off,
** fills uninitialised memory as PyTorch does: with NaN, the largest integer, or true. */
bool tli_fill_uninitialized(tl_Tensor *t) TL_MUSTCHECK;

#endif
