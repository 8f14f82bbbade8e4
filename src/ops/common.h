/*
** common.h - what generated operators and the hand-written ones share:
** elementwise calls, payload of nodes, ways out on failure.
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

/* Which types a kernel computes in, and so what inputs are promoted to. */
typedef enum tli_Types {
  TLI_TYPES_NUMBER,   /* the inputs' common type */
  TLI_TYPES_FLOATING, /* the same, but integers become float32 */
  TLI_TYPES_INTEGER   /* the inputs' common type, which must not be floating */
} tli_Types;

typedef struct tli_PointwiseSpec {
  const char *name; /* of the operator, for messages */
  tlk_Pointwise kernel;
  int ninputs;
  int nparams;
  tli_Types types;
  bool to_bool;    /* the result's dtype is bool */
  bool takes_bool; /* false: bool inputs are an error, as PyTorch's for sub */
} tli_PointwiseSpec;

/* A parameter for inputs of t's dtype: integers take it without its fraction. */
static inline tl_Scalar tli_fitting(tl_Scalar s, const tl_Tensor *t) {
  return tli_is_float((tl_DType)t->dtype) ? s : tli_int(tli_to_int(s));
}

/* What some operators ask of their numbers. */
bool tli_check_hardtanh(tl_Scalar min_val, tl_Scalar max_val) TL_MUSTCHECK;
bool tli_check_softshrink(tl_Scalar lambd) TL_MUSTCHECK;

/* kernel(inputs...) broadcast, promoted; a new tensor. */
tl_Tensor *tli_pointwise(const tli_PointwiseSpec *spec, tl_Tensor *const *inputs,
                         const tl_Scalar *params) TL_MUSTCHECK;
/* The same, written over `out`, whose shape the result must have and whose
** dtype must be able to hold it. */
bool tli_pointwise_into(const tli_PointwiseSpec *spec, tl_Tensor *const *inputs,
                        const tl_Scalar *params, tl_Tensor *out) TL_MUSTCHECK;

/* A kernel of several outputs on n operands, outputs first, whose shape all others
** broadcast to, computed in what the first one's dtype is computed in. */
bool tli_fused(tlk_Fused kernel, tl_Tensor *const *operands, int n) TL_MUSTCHECK;

/* ---- payload of nodes ---- */

typedef struct tli_IntsBuf {
  int64_t n;
  int64_t few[TL_MAX_DIMS];
  int64_t *many; /* owned; used when n > TL_MAX_DIMS */
  bool given;
} tli_IntsBuf;

bool tli_ints_keep(tli_IntsBuf *buf, tl_Ints ints) TL_MUSTCHECK;
/* Keeps each tensor's size along dim. */
bool tli_ints_lengths(tli_IntsBuf *buf, tl_Tensors list, int64_t dim) TL_MUSTCHECK;
void tli_ints_drop(tli_IntsBuf *buf);
static inline tl_Ints tli_ints(const tli_IntsBuf *buf) {
  return buf->given ? (tl_Ints){buf->n, buf->many ? buf->many : buf->few} : TLI_NOINTS;
}

/* A short option such as "mean" or "reflect". */
typedef struct tli_Name {
  char text[32];
} tli_Name;
void tli_name_keep(tli_Name *name, const char *text);

/* ---- ends of functions ---- */

/* Releases slots[0..n) and sets them to NULL; returns NULL. */
void *tli_release_results(tl_Tensor **slots, int n);
/* The end of a node's apply: releases the slots and, after a failure, out. */
void tli_apply_end(tl_Tensor **slots, int n, bool ok, tl_Tensor **out, int nout);
/* Moves the tensors of a list (owned) to out[0..n) and frees the list. */
void tli_tensors_move(tl_Tensors *list, tl_Tensor **out);
/* An owned list of n empty slots; v == NULL on failure. */
tl_Tensors tli_tensors_new(int64_t n);
void tli_tensors_free(tl_Tensors *list);

/* ---- in place ---- */

/* A contiguous-like copy without history, to be written to. */
tl_Tensor *tli_clone_for(const char *op, tl_Tensor *self) TL_MUSTCHECK;
/* What an in-place composition computes from: its first input, or, while
** history is recorded, a copy of it, since what is saved of the first input is
** about to be overwritten. */
tl_Tensor *tli_inplace_source(tl_Tensor *const *inputs, int n) TL_MUSTCHECK;
/* Whether `result` could be written over self: same shape, storable dtype. */
bool tli_inplace_fits(const char *op, const tl_Tensor *self, const tl_Tensor *result) TL_MUSTCHECK;
/* Copies `result` (owned by this call, may be NULL) over self. */
bool tli_write_back(const char *op, tl_Tensor *self, tl_Tensor *result) TL_MUSTCHECK;
/* The out= form: gives `out` the shape of `result` and its values. */
bool tli_out_assign(const char *op, tl_Tensor *out, tl_Tensor *result) TL_MUSTCHECK;

/* ---- checks; false with a message "op: ..." ---- */

bool tli_same_device_all(const char *op, tl_Tensor *const *ts, int n) TL_MUSTCHECK;
/* dst = src through the back end, any dtypes and strides, same sizes. */
bool tli_copy(tl_Tensor *dst, const tl_Tensor *src) TL_MUSTCHECK;
bool tli_fill(tl_Tensor *dst, tl_Scalar value) TL_MUSTCHECK;
/* A row-major tensor of that dtype with t's values: t itself (a new
** reference) when it is one already. */
tl_Tensor *tli_contiguous_as(tl_Tensor *t, tl_DType dtype) TL_MUSTCHECK;

/* Whether writing `out` element by element, in any order, would overwrite
** elements of `in` that are still to be read: same bytes, other geometry. */
bool tli_clashes(const tl_Tensor *out, const tl_Tensor *in);
/* dst += src, broadcast; records nothing. */
bool tli_accumulate(tl_Tensor *dst, tl_Tensor *src) TL_MUSTCHECK;
/* Sizes a new tensor may have; false with a message naming `op`. */
bool tli_check_sizes(const char *op, tl_Ints size, tl_DType dtype) TL_MUSTCHECK;
/* Room for n dimensions. */
bool tli_check_ndim(const char *op, int64_t n) TL_MUSTCHECK;
/* Whether an element of `dtype` can hold the number: integers in range (a
** float loses its fraction), no finite float beyond the largest one. */
bool tli_check_holds(const char *op, tl_Scalar value, tl_DType dtype) TL_MUSTCHECK;
/* Whether all elements of t lie in [low, high]; NaN does not. Else false with a
** message, or, on a device, a fault. */
bool tli_check_range(const char *op, const char *argument, tl_Tensor *t, double low, double high)
    TL_MUSTCHECK;
/* Marks the dimensions of a list; none given, or an empty list: all. False
** for one that is out of range or comes twice. */
bool tli_mark_dims(const char *op, tl_Ints dims, int ndim, bool marked[TL_MAX_DIMS]) TL_MUSTCHECK;
/* Undefined contents, of these sizes after tli_check_sizes; dtype float32 and
** the default device where not given. */
tl_Tensor *tli_new(const char *op, tl_Ints size, tl_DType dtype, tl_Device device) TL_MUSTCHECK;
/* Zeros of a gradient's dtype and device. */
tl_Tensor *tli_zeros(const char *op, tl_Tensor *like, tl_Ints size) TL_MUSTCHECK;
/* A view with one dimension cut to n positions from `start` on, `step` apart;
** and without it, at a position. Neither is checked or recorded. */
tl_Tensor *tli_cut(const tl_Tensor *t, int dim, int64_t start, int64_t n, int64_t step)
    TL_MUSTCHECK;
tl_Tensor *tli_pick(const tl_Tensor *t, int dim, int64_t at) TL_MUSTCHECK;

/* ---- questions that the host asks of the data: each waits for the device ---- */

/* The truth of a tensor with one element. */
bool tli_truth(tl_Tensor *t, bool *out) TL_MUSTCHECK;
/* Whether some, or all, elements of a mask are true. The mask is released; NULL
** is the failure of the operator that should have made it. */
bool tli_any_true(tl_Tensor *steals, bool *out) TL_MUSTCHECK;
bool tli_all_true(tl_Tensor *steals, bool *out) TL_MUSTCHECK;
/* Chooses between formulas with the same shapes: on the meta device it is false. */
bool tli_any_zero(tl_Tensor *t, bool *out) TL_MUSTCHECK;
/* The smallest and the largest element, NaN if there is one. A tensor without
** elements, or one of the meta device, gives infinity and -infinity. */
bool tli_smallest(tl_Tensor *t, double *out) TL_MUSTCHECK;
bool tli_largest(tl_Tensor *t, double *out) TL_MUSTCHECK;
/* How many elements of a row-major tensor are not 0. */
bool tli_count_true(const tl_Tensor *t, int64_t *count) TL_MUSTCHECK;
/* Their positions in a shape of t's number of elements into out (count, ndim). */
bool tli_true_positions(const tl_Tensor *t, tl_Tensor *out, int ndim, const int64_t *sizes)
    TL_MUSTCHECK;

/* ---- operators that only the CPU has (an entry's `host`) ---- */

/* Copies of inputs on the CPU, NULL for NULL; all or none. Waits for the device. */
bool tli_to_host(tl_Tensor *const *inputs, tl_Tensor **out, int n) TL_MUSTCHECK;
/* Replaces results by copies on a device, with their order of dimensions in memory;
** releases all of them on failure. */
bool tli_from_host(tl_Device device, tl_Tensor **results, int n) TL_MUSTCHECK;
/* t on a device. Strides without gaps stay as they are (results are often transposes),
** others become row-major. */
tl_Tensor *tli_moved_as_is(tl_Tensor *t, tl_Device device, bool async) TL_MUSTCHECK;

/* ---- parts of formulas; those of several steps are chains, see ops/chain.h ---- */

/* fn(t, s) and fn(s, t) with a number as operand. */
typedef tl_Tensor *(*tli_Binary)(tl_Tensor *, tl_Tensor *);
tl_Tensor *tli_with_number(tli_Binary fn, tl_Tensor *t, tl_Scalar s) TL_MUSTCHECK;
tl_Tensor *tli_number_with(tli_Binary fn, tl_Scalar s, tl_Tensor *t) TL_MUSTCHECK;
static inline tl_Tensor *tli_plus(tl_Tensor *a, tl_Tensor *b) { return tlo_add(a, b, tli_int(1)); }
static inline tl_Tensor *tli_minus(tl_Tensor *a, tl_Tensor *b) { return tlo_sub(a, b, tli_int(1)); }
/* where(condition, t, number), where(condition, number, t). */
tl_Tensor *tli_where_else(tl_Tensor *condition, tl_Tensor *t, tl_Scalar s) TL_MUSTCHECK;
tl_Tensor *tli_where_then(tl_Tensor *condition, tl_Scalar s, tl_Tensor *t) TL_MUSTCHECK;

/* t's dtype if it is floating, else the default one; and t in it. */
static inline tl_DType tli_floating_dtype(const tl_Tensor *t) {
  return tli_is_float((tl_DType)t->dtype) ? (tl_DType)t->dtype : tli_default_dtype();
}
static inline tl_Tensor *tli_floating(tl_Tensor *t) {
  return tli_is_float((tl_DType)t->dtype) ? tli_retain(t) : tlo_to_dtype(t, tli_default_dtype());
}

static inline tlk_Array tli_array(const tl_Tensor *t) {
  return (tlk_Array){tli_data(t), (tl_DType)t->dtype};
}
/* A stretch's state (tli_Stretch) as kernels take it. */
static inline const uint64_t *tli_stretch_words(const tl_Tensor *state) {
  return state ? tli_data(state) : NULL;
}

/* (outer, n, inner) of a contiguous tensor along dim; a 0-d tensor is (1,1,1).*/
typedef struct tli_Along {
  int64_t outer, n, inner;
} tli_Along;
tli_Along tli_along(const tl_Tensor *t, int dim);

/* In deterministic mode, unless torch.utils.deterministic.fill_uninitialized_memory is
** off, writes what PyTorch does over memory of undefined contents: NaN, the largest
** integer, true. */
bool tli_fill_uninitialized(tl_Tensor *t) TL_MUSTCHECK;

#endif
