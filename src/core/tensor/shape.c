/*
** shape.c - arithmetic on sizes and strides: geometry, broadcasting, and type promotion, which
** depends on the number of dimensions of each operand.
*/
#include <stdio.h>

#include "core/tensor/tensor.h"

/* ---- geometry ---- */

int64_t tli_numel(int ndim, const int64_t *sizes, size_t element) {
  /* a size of 0 counts as 1 here, because the strides of an empty tensor must not overflow
  ** either */
  int64_t room = (int64_t)element;
  int64_t numel = 1;
  for (int d = 0; d < ndim; d++) {
    if (sizes[d] < 0) return -1;
    if (sizes[d] > 0 && __builtin_mul_overflow(room, sizes[d], &room)) return -1;
    numel = sizes[d] == 0 ? 0 : numel * sizes[d];
  }
  return numel;
}

void tli_row_major(int ndim, const int64_t *sizes, int64_t *strides) {
  int64_t stride = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    strides[d] = stride;
    if (sizes[d] > 1) stride *= sizes[d];
  }
}

static bool is_row_major(int ndim, const int64_t *sizes, const int64_t *strides) {
  int64_t expected = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

void tli_set_geometry(tl_Tensor *t, int ndim, const int64_t *sizes, const int64_t *strides) {
  t->ndim = (uint8_t)ndim;
  t->numel = 1;
  for (int d = 0; d < ndim; d++) {
    t->sizes[d] = sizes[d];
    t->numel *= sizes[d];
  }
  bool contiguous = true;
  if (strides == NULL) {
    tli_row_major(ndim, sizes, t->strides);
  } else {
    for (int d = 0; d < ndim; d++) t->strides[d] = strides[d];
    contiguous = t->numel == 0 || is_row_major(ndim, sizes, strides);
  }
  t->flags = (uint8_t)(contiguous ? t->flags | TLI_CONTIGUOUS : t->flags & ~TLI_CONTIGUOUS);
}

/* Lists the dimensions with more than one element by ascending stride; returns their number. */
static int by_stride(const tl_Tensor *t, int order[TL_MAX_DIMS]) {
  int n = 0;
  for (int d = 0; d < t->ndim; d++) {
    if (t->sizes[d] == 1) continue;
    int k = n++;
    for (; k > 0 && t->strides[order[k - 1]] > t->strides[d]; k--) order[k] = order[k - 1];
    order[k] = d;
  }
  return n;
}

bool tli_dense(const tl_Tensor *t) {
  if (tli_contiguous(t) || t->numel <= 1) return true;
  int order[TL_MAX_DIMS];
  int n = by_stride(t, order);
  int64_t expected = 1;
  for (int k = 0; k < n; k++) {
    if (t->strides[order[k]] != expected) return false;
    expected *= t->sizes[order[k]];
  }
  return true;
}

bool tli_overlaps_itself(const tl_Tensor *t) {
  if (tli_contiguous(t) || t->numel <= 1) return false;
  int order[TL_MAX_DIMS];
  int n = by_stride(t, order);
  /* offset of the last element within the dimensions that the loop has visited so far */
  int64_t last = 0;
  for (int k = 0; k < n; k++) {
    int64_t stride = t->strides[order[k]];
    if (stride <= last) return true;
    last += (t->sizes[order[k]] - 1) * stride;
  }
  return false;
}

int tli_dim(const char *op, int64_t dim, int ndim) {
  int64_t n = ndim > 0 ? ndim : 1;
  if (dim >= -n && dim < n) return (int)(dim < 0 ? dim + n : dim);
  tli_fail(TL_EINDEX,
           "%s: dimension " TLI_POS " is out of range for %d dimension%s: expected " TLI_POS
           " to " TLI_POS " or " TLI_POS " to " TLI_POS,
           op, dim, ndim, ndim == 1 ? "" : "s", (int64_t)0, n - 1, -n, (int64_t)-1);
  return -1;
}

int64_t tli_position(const char *op, int64_t index, int64_t size) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  if (size == 0)
    tli_fail(TL_EINDEX, "%s: index " TLI_POS " is out of range: the dimension is empty", op, index);
  else
    tli_fail(TL_EINDEX,
             "%s: index " TLI_POS " is out of range: expected " TLI_POS " to " TLI_POS
             " or " TLI_POS " to " TLI_POS,
             op, index, (int64_t)0, size - 1, -size, (int64_t)-1);
  return -1;
}

/* ---- broadcasting ---- */

/* Fails with the message that the shape of operand t does not broadcast with the shapes of the
** earlier operands. */
static bool no_broadcast(const char *op, const tl_Tensor *t, int dim, int ndim,
                         const int64_t *sizes) {
  return tli_fail(TL_ESHAPE,
                  "%s: shapes %s and %s do not broadcast: expected equal sizes, or 1, in "
                  "dimension " TLI_POS ", got %" PRId64 " and %" PRId64,
                  op, tli_shape_str(ndim, sizes), tli_sizes_str(t), (int64_t)dim - ndim, sizes[dim],
                  t->sizes[dim - (ndim - t->ndim)]);
}

bool tli_broadcast_shape(const char *op, tl_Tensor *const *ts, int n, int *ndim, int64_t *sizes) {
  int most = 0;
  for (int k = 0; k < n; k++)
    if (ts[k]->ndim > most) most = ts[k]->ndim;
  for (int d = 0; d < most; d++) sizes[d] = 1;
  *ndim = most;

  for (int k = 0; k < n; k++) {
    int skip = most - ts[k]->ndim;
    for (int d = skip; d < most; d++) {
      int64_t size = ts[k]->sizes[d - skip];
      if (size == sizes[d] || size == 1) continue;
      if (sizes[d] != 1) return no_broadcast(op, ts[k], d, most, sizes);
      sizes[d] = size;
    }
  }
  return true;
}

bool tli_expandable(int ndim, const int64_t *sizes, int to_ndim, const int64_t *to_sizes) {
  if (ndim > to_ndim) return false;
  for (int d = 0; d < ndim; d++)
    if (sizes[d] != 1 && sizes[d] != to_sizes[d + to_ndim - ndim]) return false;
  return true;
}

/* ---- promotion of operands ---- */

static tl_DType promote_given(tl_DType a, tl_DType b) {
  if (a == TL_NODTYPE) return b;
  if (b == TL_NODTYPE) return a;
  return tli_dtype_promote(a, b);
}

/* Returns `strong` unless `weak` has a higher category. In that case returns `weak`, with two
** exceptions: a complex `weak` turns a floating `strong` into the complex type of the same
** precision, and dtypes of TL_STORED_DTYPES are promoted as usual. */
static tl_DType combine(tl_DType strong, tl_DType weak) {
  if (strong == TL_NODTYPE) return weak;
  if (weak == TL_NODTYPE || tli_dtype_category(weak) <= tli_dtype_category(strong)) return strong;
  if ((tli_is_stored(strong) || tli_is_stored(weak)) &&
      !(tli_is_complex(weak) && !tli_is_float(strong)))
    return tli_dtype_promote(strong, weak);
  if (tli_is_complex(weak) && tli_is_float(strong)) return tli_complex_dtype(strong);
  return weak;
}

/* Returns the type that promotion uses for an operand that is a number. `own` is the number's own
** type. */
static tl_DType number_dtype(tl_DType own) {
  if (tli_is_complex(own)) return tli_complex_dtype(tli_default_dtype());
  return tli_is_float(own) ? tli_default_dtype() : own;
}

/* Returns the promoted type of operands. There are three groups: tensors with dimensions take
** precedence over 0-d tensors, and 0-d tensors take precedence over numbers. Within a group,
** operands are promoted as usual. */
tl_DType tli_result_dtype(tl_Tensor *const *ts, int n) {
  tl_DType dims = TL_NODTYPE, zero = TL_NODTYPE, number = TL_NODTYPE;
  for (int k = 0; k < n; k++) {
    if (ts[k] == NULL) continue;
    tl_DType own = (tl_DType)ts[k]->dtype;
    if (ts[k]->ndim > 0)
      dims = promote_given(dims, own);
    else if (!(ts[k]->flags & TLI_NUMBER))
      zero = promote_given(zero, own);
    /* a number that is a float is stored as float64, but promotion takes it for the default
    ** dtype */
    else
      number = promote_given(number, number_dtype(own));
  }
  return combine(dims, combine(zero, number));
}

/* ---- text for messages ---- */

/* The number of thread-local buffers for shapes, and so the largest number of shapes that one
** message can contain. */
#define BUFFERS 8
#define BUFFER_SIZE (TL_MAX_DIMS * 22 + 3)

static char *next_buffer(void) {
  static _Thread_local char buffers[BUFFERS][BUFFER_SIZE];
  static _Thread_local unsigned turn;
  return buffers[turn++ % BUFFERS];
}

const char *tli_shape_str(int ndim, const int64_t *sizes) {
  char *out = next_buffer();
  size_t n = 0;
  out[n++] = '[';
  for (int d = 0; d < ndim && d < TL_MAX_DIMS; d++)
    n += (size_t)snprintf(out + n, BUFFER_SIZE - n, d ? ", %" PRId64 : "%" PRId64, sizes[d]);
  out[n++] = ']';
  out[n] = '\0';
  return out;
}

const char *tli_sizes_str(const tl_Tensor *t) { return tli_shape_str(t->ndim, t->sizes); }

const char *tli_device_str(tl_Device d) {
  if (d.type == TL_CPU) return "cpu";
  if (d.type == TL_META && d.index == 0) return "meta";
  if (d.type < 0) return "none";
  char *out = next_buffer();
  snprintf(out, BUFFER_SIZE, "%s:%d", tli_device_type_name(d.type), d.index);
  return out;
}
