/*
** norm.c - layer normalisation of rows, and its gradients. Half types are converted row by row. The
** gradients of weight and bias are summed in double for each segment of rows, and the sums of the
** segments are added in order. How rows are divided into segments depends only on the sizes of the
** arguments, so results do not depend on the number of threads.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

#define GRAIN (TLK_GRAIN / 2)
#define SEGMENTS 64 /* largest number of segments into which rows are divided */

typedef struct Call {
  const tlk_Isa *isa;
  const tlk_Norm *kernel;
  tl_DType dtype, compute;
  bool convert;
  int64_t rows, n;
  /* `in` is the input. `out` is the result or, in the backward pass, the gradient of `in`, which
  ** may be NULL. */
  char *in, *out;
  const char *grad;
  /* `residual` is added to `in`, and `grad_sum` to the gradient of `in`; both may be NULL */
  const char *residual, *grad_sum;
  char *sum; /* array for in + residual, or NULL */
  tlk_Array mean, rstd;
  bool shift;
  double eps;
  const void *weight, *bias; /* weight and bias in the compute type; NULL if absent */
  int64_t segment;           /* number of rows in a segment */
  /* array (segments, 2, n) of each segment's sums for the gradients of weight and bias; owned */
  double *sums;
  bool want_weight, want_bias;
  atomic_bool failed;
} Call;

static double statistic(const tlk_Array *a, int64_t i) {
  return a->dtype == TL_F64 ? ((const double *)a->data)[i] : (double)((const float *)a->data)[i];
}

static void set_statistic(const tlk_Array *a, int64_t i, double value) {
  if (a->data == NULL) return;
  if (a->dtype == TL_F64)
    ((double *)a->data)[i] = value;
  else
    ((float *)a->data)[i] = (float)value;
}

/* Returns n elements from `src` on, in the compute type: `src` itself if it has this type,
** otherwise a converted copy in `buffer`. */
static const char *fetch(const Call *c, const char *src, int64_t n, char *buffer) {
  if (!c->convert) return src;
  c->isa->convert[c->dtype][c->compute](n, buffer, src);
  return buffer;
}

/* Computes out = a + b in the compute type; out may be the same array as a or b. */
static void add(const Call *c, int64_t n, void *out, const void *a, const void *b) {
  if (c->compute == TL_F64)
    for (int64_t i = 0; i < n; i++)
      ((double *)out)[i] = ((const double *)a)[i] + ((const double *)b)[i];
  else
    for (int64_t i = 0; i < n; i++)
      ((float *)out)[i] = ((const float *)a)[i] + ((const float *)b)[i];
}

/* ---- forward -------------------------------------------------------------------- */

/* Returns row r of the data to normalise, in the compute type: the input, or the sum of input and
** residual. `buffer` has room for 2 rows. */
static const char *input_row(const Call *c, int64_t r, char *buffer) {
  int64_t at = r * c->n * (int64_t)tl_dtype_size(c->dtype);
  const char *in = fetch(c, c->in + at, c->n, buffer);
  if (c->residual == NULL) return in;
  char *second = c->convert ? buffer + c->n * (int64_t)tl_dtype_size(c->compute) : NULL;
  const char *residual = fetch(c, c->residual + at, c->n, second);
  add(c, c->n, c->convert ? buffer : c->sum + at, in, residual);
  if (c->convert) c->isa->convert[c->compute][c->dtype](c->n, c->sum + at, buffer);
  /* reads the sum back, because it was rounded to the dtype when it was stored */
  return fetch(c, c->sum + at, c->n, buffer);
}

static void run_forward(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  int64_t size = (int64_t)tl_dtype_size(c->dtype);
  size_t bytes = c->convert ? (size_t)(2 * c->n) * tl_dtype_size(c->compute) : 0;
  char *buffer = bytes ? tli_alloc(bytes) : NULL;
  if (bytes && buffer == NULL) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    double mean, rstd;
    char *out = c->out + r * c->n * size;
    const char *in = input_row(c, r, buffer);
    c->kernel->row(c->n, in, c->convert ? buffer : out, c->weight, c->bias, c->eps, c->shift, &mean,
                   &rstd);
    if (c->convert) c->isa->convert[c->compute][c->dtype](c->n, out, buffer);
    set_statistic(&c->mean, r, mean);
    set_statistic(&c->rstd, r, rstd);
  }
  tli_free(buffer, bytes);
}

/* ---- backward ------------------------------------------------------------------- */

enum { AT_ONCE = 4 }; /* number of rows that are processed together */

/* Computes the gradients for rows [first, first + rows); `rows` is at most AT_ONCE. `buffers` has
** room for 3 * AT_ONCE rows. */
static void back_rows(const Call *c, int64_t first, int64_t rows, double *sums, char *buffers) {
  int64_t size = (int64_t)tl_dtype_size(c->dtype), wide = (int64_t)tl_dtype_size(c->compute);
  int64_t at = first * c->n * size, room = AT_ONCE * c->n * wide;
  double mean[AT_ONCE] = {0}, rstd[AT_ONCE] = {0};
  const char *grad = fetch(c, c->grad + at, rows * c->n, buffers);
  const char *in = fetch(c, c->in + at, rows * c->n, buffers + (c->convert ? room : 0));
  for (int64_t k = 0; k < rows; k++) {
    if (c->shift) mean[k] = statistic(&c->mean, first + k);
    rstd[k] = statistic(&c->rstd, first + k);
  }
  if (sums != NULL)
    c->kernel->weight_back(rows, c->n, grad, in, mean, rstd, c->want_weight ? sums : NULL,
                           c->want_bias ? sums + c->n : NULL);
  if (c->out == NULL) return;
  char *result = c->convert ? buffers + 2 * room : c->out + at;
  for (int64_t k = 0; k < rows; k++)
    c->kernel->row_back(c->n, grad + k * c->n * wide, in + k * c->n * wide, c->weight, mean[k],
                        rstd[k], c->shift, result + k * c->n * wide);
  if (c->grad_sum) /* the buffer of `grad` is no longer needed, so grad_sum is converted in it */
    add(c, rows * c->n, result, result, fetch(c, c->grad_sum + at, rows * c->n, buffers));
  if (c->convert) c->isa->convert[c->compute][c->dtype](rows * c->n, c->out + at, result);
}

static void run_backward(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  size_t bytes = c->convert ? (size_t)(3 * AT_ONCE * c->n) * tl_dtype_size(c->compute) : 0;
  char *buffers = bytes ? tli_alloc(bytes) : NULL;
  if (bytes && buffers == NULL) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t g = begin; g < end; g++) {
    double *sums = c->sums ? c->sums + g * 2 * c->n : NULL;
    if (sums != NULL) memset(sums, 0, (size_t)(2 * c->n) * sizeof(double));
    int64_t stop = tlk_min((g + 1) * c->segment, c->rows);
    for (int64_t r = g * c->segment; r < stop; r += AT_ONCE)
      back_rows(c, r, tlk_min(AT_ONCE, stop - r), sums, buffers);
  }
  tli_free(buffers, bytes);
}

/* Adds the sums of all other segments to the sums of the first segment, and stores the
** gradients. */
static void join_sums(const Call *c, int64_t segments, tlk_Array grad_weight, tlk_Array grad_bias) {
  for (int64_t g = 1; g < segments; g++)
    for (int64_t i = 0; i < 2 * c->n; i++) c->sums[i] += c->sums[g * 2 * c->n + i];
  if (c->want_weight) c->isa->convert[TL_F64][grad_weight.dtype](c->n, grad_weight.data, c->sums);
  if (c->want_bias) c->isa->convert[TL_F64][grad_bias.dtype](c->n, grad_bias.data, c->sums + c->n);
}

/* ---- entry points ---------------------------------------------------------------- */

/* Chooses the loops, and converts weight and bias to the compute type if needed. For the copies
** *buffer receives memory of *bytes bytes, which the caller must free. If no copies are needed,
** *buffer becomes NULL. */
static bool prepare(Call *c, tlk_Array weight, tlk_Array bias, char **buffer, size_t *bytes) {
  c->isa = tlk_isa();
  c->compute = tli_dtype_compute(c->dtype);
  c->convert = c->compute != c->dtype;
  c->kernel = c->isa->norm[c->compute == TL_F64];
  c->weight = weight.data;
  c->bias = bias.data;
  *buffer = NULL;
  *bytes = 0;
  if (!c->convert || (weight.data == NULL && bias.data == NULL)) return true;
  size_t each = (size_t)c->n * tl_dtype_size(c->compute);
  *bytes = 2 * each;
  if ((*buffer = tli_alloc(*bytes)) == NULL) return false;
  if (weight.data != NULL) c->weight = fetch(c, weight.data, c->n, *buffer);
  if (bias.data != NULL) c->bias = fetch(c, bias.data, c->n, *buffer + each);
  return true;
}

bool tlk_layer_norm(const struct tlk_layer_norm *call) {
  Call c = {.dtype = call->in.dtype,
            .rows = call->rows,
            .n = call->n,
            .in = call->in.data,
            .out = call->out.data,
            .mean = call->mean,
            .rstd = call->rstd,
            .residual = call->residual.data,
            .sum = call->sum.data,
            .shift = call->mean.data != NULL,
            .eps = call->eps};
  char *buffer;
  size_t bytes;
  TL_TRY(prepare(&c, call->weight, call->bias, &buffer, &bytes));
  bool ok = tli_parallel_try(call->rows, tlk_max(1, GRAIN / tlk_max(1, call->n)), run_forward, &c);
  tli_free(buffer, bytes);
  if (!ok) return false;
  return !atomic_load(&c.failed) || tli_fail(TL_EMEM, "layer_norm: out of memory");
}

bool tlk_layer_norm_backward(const struct tlk_layer_norm_backward *call) {
  Call c = {.dtype = call->in.dtype,
            .rows = call->rows,
            .n = call->n,
            .in = call->in.data,
            .out = call->grad_in.data,
            .grad = call->grad_out.data,
            .grad_sum = call->grad_sum.data,
            .mean = call->mean,
            .rstd = call->rstd,
            .shift = call->mean.data != NULL,
            .want_weight = call->grad_weight.data != NULL,
            .want_bias = call->grad_bias.data != NULL};
  int64_t wanted = tlk_max(1, tlk_min(SEGMENTS, call->rows * tlk_max(1, call->n) / GRAIN));
  c.segment = tlk_max(AT_ONCE, tlk_ceil_div(tlk_max(1, call->rows), wanted));
  int64_t segments = tlk_max(1, tlk_ceil_div(call->rows, c.segment));
  char *buffer;
  size_t bytes, sum_bytes = (size_t)(segments * 2 * call->n) * sizeof(double);
  TL_TRY(prepare(&c, call->weight, (tlk_Array){NULL, call->in.dtype}, &buffer, &bytes));
  bool sums = c.want_weight || c.want_bias;
  if (sums && (c.sums = tli_alloc(sum_bytes)) == NULL) {
    tli_free(buffer, bytes);
    return false;
  }
  int64_t grain = tlk_max(1, GRAIN / (c.segment * tlk_max(1, call->n)));
  bool ok = tli_parallel_try(segments, grain, run_backward, &c);
  if (sums) {
    if (ok) join_sums(&c, segments, call->grad_weight, call->grad_bias);
    tli_free(c.sums, sum_bytes);
  }
  tli_free(buffer, bytes);
  if (!ok) return false;
  return !atomic_load(&c.failed) || tli_fail(TL_EMEM, "layer_norm: out of memory");
}
