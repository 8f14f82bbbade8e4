/*
** embedding.c - looks up rows of a table by position, one by one or in bags. If a position occurs
** several times, its gradients are added in the order of the index, so the sum is reproducible.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "core/observe/trace.h"
#include "ops/index/index_call.h"

/* ---- rows ---- */

tl_Tensor *tli_op_embedding_rows(tl_Tensor *weight, tl_Tensor *index, int64_t padding_idx,
                                 bool scale_grad) {
  (void)padding_idx;
  (void)scale_grad;
  return tli_read_positions("embedding", weight, index, 0, 1);
}

/* Returns, for each element of index, how often its value occurs in index. The shape is (...,
** 1). */
static tl_Tensor *chain_occurrences(tli_Chain *c, tl_Tensor *index, int64_t n, tl_DType dtype) {
  tl_Tensor *flat = TLI_STEP(c, tlo_reshape(index, (tl_Ints){1, &index->numel}));
  tl_Tensor *ones = TLI_STEP(c, tli_empty(dtype, tli_device(index), 1, &index->numel));
  tl_Tensor *counts = TLI_STEP(c, tli_empty(dtype, tli_device(index), 1, &n));
  if (c->failed || !tli_fill(ones, tli_int(1)) || !tli_fill(counts, tli_int(0)) ||
      !tlo_index_add_(counts, 0, flat, ones, tli_int(1))) {
    c->failed = true;
    return NULL;
  }
  tl_Tensor *seen = TLI_STEP(c, tlo_index_select(counts, 0, flat));
  tl_Tensor *shaped = TLI_STEP(c, tlo_reshape(seen, (tl_Ints){index->ndim, index->sizes}));
  return chain_unsqueeze(c, shaped, -1);
}

/* Returns a factor for each element of index: 0 for the padding position, 1 for all others. The
** shape is (..., 1). */
static tl_Tensor *chain_not_padding(tli_Chain *c, tl_Tensor *index, int64_t padding, int64_t n,
                                    tl_DType dtype) {
  int64_t position = padding < 0 ? padding + n + 1 : padding + 1;
  tl_Tensor *number = TLI_STEP(c, tli_number(tli_int(position)));
  tl_Tensor *other = TLI_STEP(c, tlo_ne(index, number));
  return chain_unsqueeze(c, TLI_STEP(c, tlo_to_dtype(other, dtype)), -1);
}

/* Scales the gradients of the looked-up rows. The factor is 0 for padding and, if `scale` is set, 1
** / occurrences for all other rows. */
static tl_Tensor *chain_counted(tli_Chain *c, tl_Tensor *grad, tl_Tensor *index, int64_t padding,
                                int64_t n, bool scale) {
  if (c->failed) return NULL;
  tl_DType dtype = (tl_DType)grad->dtype;
  if (scale) grad = chain_div(c, grad, chain_occurrences(c, index, n, dtype));
  if (padding != TLI_NOINT)
    grad = chain_mul(c, grad, chain_not_padding(c, index, padding, n, dtype));
  return grad;
}

tl_Tensor *tli_op_embedding_backward(tl_Tensor *grad_output, tl_Tensor *index, tl_Ints size,
                                     int64_t padding_idx, bool scale_grad) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *grad = chain_counted(&c, grad_output, index, padding_idx, size.v[0], scale_grad);
  tl_Tensor *result = TLI_STEP(&c, tli_op_index_positions_backward(grad, index, size, 0, 1));
  tli_set_grad_mode(mode);
  return tli_chain_end(&c, result);
}

tl_Tensor *tlo_embedding_second(tl_Tensor *grad_output, tl_Tensor *index, int64_t padding_idx,
                                bool scale_grad) {
  tli_Chain c = {0};
  tl_Tensor *rows = TLI_STEP(&c, tlo_index_positions(grad_output, index, 0, 1));
  int64_t n = grad_output->sizes[0];
  return tli_chain_end(&c, chain_counted(&c, rows, index, padding_idx, n, scale_grad));
}

tl_Tensor *tli_op_embedding_sparse_rows(tl_Tensor *weight, tl_Tensor *index, int64_t padding_idx,
                                        bool scale_grad) {
  return tli_op_embedding_rows(weight, index, padding_idx, scale_grad);
}

/* Removes the positions that equal the padding position from *at, and the corresponding rows of
** gradients from *rows. */
static void chain_without_padding(tli_Chain *c, tl_Tensor **rows, tl_Tensor **at, int64_t padding,
                                  int64_t n) {
  if (c->failed || padding == TLI_NOINT || !tli_has_values(*at)) return;
  int64_t position = padding < 0 ? padding + n + 1 : padding + 1;
  tl_Tensor *keep = TLI_STEP(c, tlo_ne(*at, TLI_STEP(c, tli_number(tli_int(position)))));
  tl_Tensor *kept = TLI_STEP(c, tlo_nonzero(keep, false));
  tl_Tensor *chosen = TLI_STEP(c, tlo_reshape(kept, (tl_Ints){1, (int64_t[]){-1}}));
  *rows = TLI_STEP(c, tlo_index_select(*rows, 0, chosen));
  *at = TLI_STEP(c, tlo_index_select(*at, 0, chosen));
}

/* Returns the gradient as a sparse tensor of the rows that were looked up. While history is
** recorded or a trace is running, the gradient is dense instead. */
tl_Tensor *tlo_embedding_sparse_backward(tl_Tensor *grad_output, tl_Tensor *index, tl_Ints size,
                                         int64_t padding_idx, bool scale_grad) {
  if (tli_grad_mode() || tli_tracing())
    return tlo_embedding_backward(grad_output, index, size, padding_idx, scale_grad);
  tli_Chain c = {0};
  int64_t n = index->numel;
  tl_Tensor *counted = chain_counted(&c, grad_output, index, TLI_NOINT, size.v[0], scale_grad);
  tl_Tensor *rows = TLI_STEP(&c, tlo_reshape(counted, (tl_Ints){2, (int64_t[]){n, size.v[1]}}));
  tl_Tensor *whole = TLI_STEP(&c, tli_contiguous_as(index, TL_I64));
  tl_Tensor *at = TLI_STEP(&c, tlo_reshape(whole, (tl_Ints){1, &n}));
  chain_without_padding(&c, &rows, &at, padding_idx, size.v[0]);
  tl_Tensor *indices = chain_unsqueeze(&c, at, 0);
  tl_Tensor *result = TLI_STEP(&c, tli_sparse_grad(indices, rows, false, (int)size.n, size.v));
  return tli_chain_end(&c, result);
}

static bool check_table(const char *op, const tl_Tensor *input, const tl_Tensor *weight,
                        int64_t padding_idx) {
  if (weight->ndim != 2)
    return tli_fail(TL_ESHAPE, "%s: weight: expected (V, D), got %s", op, tli_sizes_str(weight));
  if (tli_dtype_category((tl_DType)input->dtype) != TLI_INT)
    return tli_fail(TL_EDTYPE, "%s: input: expected positions as integers, got %s", op,
                    tl_dtype_name((tl_DType)input->dtype));
  return padding_idx == TLI_NOINT || tli_position(op, padding_idx, weight->sizes[0]) >= 0;
}

/* Scales each looked-up row whose norm exceeds max_norm down to that norm, in place. */
static bool limit_rows(const char *op, tl_Tensor *weight, tl_Tensor *input, double max_norm,
                       double norm_type) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  int64_t last = -1;
  tl_Tensor *used = TLI_STEP(&c, tlo_reshape(input, (tl_Ints){1, &input->numel}));
  const char *outer = tli_set_fault_argument("input");
  tl_Tensor *rows = TLI_STEP(&c, tlo_index_select(weight, 0, used));
  tli_set_fault_argument(outer);
  if (c.failed) tli_fail_about("embedding: input");
  tl_Tensor *norm =
      TLI_STEP(&c, tlo_norm(rows, tli_float(norm_type), (tl_Ints){1, &last}, true, TL_NODTYPE));
  tl_Tensor *most = chain_number(&c, max_norm);
  tl_Tensor *sum = chain_add(&c, norm, chain_number(&c, 1e-7));
  tl_Tensor *factor = chain_div(&c, most, sum);
  tl_Tensor *one = chain_number(&c, 1);
  tl_Tensor *within = TLI_STEP(&c, tlo_le(norm, most));
  tl_Tensor *scale = TLI_STEP(&c, tlo_where(within, one, factor));
  tl_Tensor *scaled = chain_mul(&c, rows, scale);
  bool ok = !c.failed && tli_op_index_copy_(weight, 0, used, scaled);
  if (ok) tli_bump(weight, op);
  tli_chain_end(&c, NULL);
  tli_set_grad_mode(mode);
  return ok;
}

tl_Tensor *tlo_embedding(tl_Tensor *input, tl_Tensor *weight, int64_t padding_idx, double max_norm,
                         double norm_type, bool scale_grad_by_freq, bool sparse) {
  TL_TRY_NULL(check_table("embedding", input, weight, padding_idx));
  if (!isnan(max_norm)) TL_TRY_NULL(limit_rows("embedding", weight, input, max_norm, norm_type));
  const char *outer = tli_set_fault_argument("input");
  tl_Tensor *rows = sparse
                        ? tlo_embedding_sparse_rows(weight, input, padding_idx, scale_grad_by_freq)
                        : tlo_embedding_rows(weight, input, padding_idx, scale_grad_by_freq);
  tli_set_fault_argument(outer);
  if (rows == NULL) tli_fail_about("embedding: input");
  return rows;
}

/* ---- bags ---- */

static bool check_offsets(const int64_t *start, int64_t given, int64_t bags, int64_t n) {
  if (bags > 0 && start[0] != 1)
    return tli_fail(TL_EARG, "embedding_bag: offsets: expected the first one to be 1, got %" PRId64,
                    start[0]);
  for (int64_t b = 0; b < bags; b++) {
    int64_t end = b + 1 < given ? start[b + 1] : n + 1;
    if (end < start[b] || end > n + 1)
      return tli_fail(TL_EARG,
                      "embedding_bag: offsets: expected ascending positions up to %" PRId64
                      ", got %" PRId64 " after %" PRId64,
                      n + 1, end, start[b]);
  }
  return true;
}

/* Returns a tensor of the numbers 1 to n. */
static tl_Tensor *count_to(int64_t n, tl_Device device) {
  return tlo_arange(tli_int(1), tli_int(n + 1), tli_int(1), TL_I64, device);
}

/* Returns, for each of n positions, the number of the position's bag, counted from 1. Each bag
** begins at one of the offsets, and the last bag ends with the last position. The offsets are
** checked only on the CPU, because elsewhere the host would have to wait for the device. */
static tl_Tensor *bag_numbers(tli_Chain *c, tl_Tensor *offsets, int64_t bags, int64_t n) {
  tl_Device device = tli_device(offsets);
  tl_Tensor *starts = TLI_STEP(c, tli_contiguous_as(offsets, TL_I64));
  if (c->failed) return NULL;
  if (bags == 0 && n > 0)
    return tli_fail_null(TL_EARG,
                         "embedding_bag: offsets: expected a bag for %" PRId64 " positions", n);
  if (device.type == TL_CPU) TL_TRY_NULL(check_offsets(tli_data(starts), starts->numel, bags, n));
  tl_Tensor *begins = TLI_STEP(c, tlo_narrow(starts, 0, 0, bags));
  tl_Tensor *positions = TLI_STEP(c, count_to(n, device));
  tl_Tensor *behind = TLI_STEP(c, tlo_search(begins, positions, true));
  return TLI_STEP(c, tli_with_number(tli_minus, behind, tli_int(1)));
}

/* Returns the bag number of each position of an input (B, N), in which each row is a bag: 1, 1,
** ..., 2, 2, ... */
static tl_Tensor *row_numbers(tli_Chain *c, int64_t bags, int64_t n, tl_Device device) {
  tl_Tensor *numbers = TLI_STEP(c, count_to(bags, device));
  return TLI_STEP(c, tlo_repeat_interleave(numbers, n, 0));
}

typedef struct Bags {
  tl_Tensor *index;   /* positions of rows in the table, (n) */
  tl_Tensor *number;  /* bag number of each position, (n) */
  tl_Tensor *weights; /* weight of each position, (n); may be NULL */
  int64_t count;
} Bags;

static bool read_bags(tli_Chain *c, tl_Tensor *input, tl_Tensor *offsets, tl_Tensor *weights,
                      bool include_last, Bags *b) {
  if ((input->ndim == 2) != (offsets == NULL) || input->ndim < 1 || input->ndim > 2)
    return tli_fail(TL_EARG, "embedding_bag: expected input (B, N), or (N) with offsets, got %s %s",
                    tli_sizes_str(input), offsets ? "with offsets" : "without");
  if (weights && !tli_same_sizes(weights, input))
    return tli_fail(TL_ESHAPE,
                    "embedding_bag: per_sample_weights: expected the shape of input %s, "
                    "got %s",
                    tli_sizes_str(input), tli_sizes_str(weights));
  if (offsets && (offsets->ndim != 1 || tli_dtype_category((tl_DType)offsets->dtype) != TLI_INT))
    return tli_fail(TL_EARG,
                    "embedding_bag: offsets: expected integers of one dimension, got %s %s",
                    tl_dtype_name((tl_DType)offsets->dtype), tli_sizes_str(offsets));
  tl_Ints flat = {1, &input->numel};
  b->index = TLI_STEP(c, tlo_reshape(input, flat));
  b->weights = weights ? TLI_STEP(c, tlo_reshape(weights, flat)) : NULL;
  if (offsets) {
    b->count = offsets->numel - include_last;
    if (b->count < 0)
      return tli_fail(TL_EARG, "embedding_bag: offsets: expected the end of the last bag");
    b->number = bag_numbers(c, offsets, b->count, input->numel);
  } else {
    b->count = input->sizes[0];
    b->number = row_numbers(c, b->count, input->sizes[1], tli_device(input));
  }
  return b->number != NULL;
}

/* Returns zeros of shape (bags, D). */
static tl_Tensor *chain_bag_zeros(tli_Chain *c, const tl_Tensor *rows, const Bags *b) {
  if (c->failed) return NULL;
  int64_t sizes[] = {b->count, rows->sizes[1]};
  tl_Tensor *zeros = TLI_STEP(c, tli_empty((tl_DType)rows->dtype, tli_device(rows), 2, sizes));
  if (c->failed || !tli_fill(zeros, tli_int(0))) c->failed = true;
  return zeros;
}

/* Returns the sum of the rows in each bag. */
static tl_Tensor *chain_bag_sum(tli_Chain *c, tl_Tensor *rows, const Bags *b) {
  tl_Tensor *zeros = chain_bag_zeros(c, rows, b);
  return TLI_STEP(c, tlo_index_add(zeros, 0, b->number, rows, tli_int(1)));
}

/* Returns the maximum of each column in each bag; 0 for an empty bag. */
static tl_Tensor *chain_bag_max(tli_Chain *c, tl_Tensor *rows, const Bags *b) {
  tl_Tensor *zeros = chain_bag_zeros(c, rows, b);
  tl_Tensor *column = chain_unsqueeze(c, b->number, 1);
  tl_Tensor *wide = TLI_STEP(c, tlo_expand(column, (tl_Ints){2, rows->sizes}));
  return TLI_STEP(c, tlo_scatter_reduce(zeros, 0, wide, rows, "amax", false));
}

static tl_Tensor *chain_bag_mean(tli_Chain *c, tl_Tensor *rows, tl_Tensor *counted, const Bags *b) {
  tl_Tensor *sum = chain_bag_sum(c, rows, b);
  tl_Tensor *count = chain_bag_sum(c, counted, b);
  tl_Tensor *least = chain_with(c, tlo_clamp_min, count, 1);
  return chain_div(c, sum, least);
}

/* Removes the occurrences of the padding position from the bags. */
static void drop_padding(tli_Chain *c, Bags *b, int64_t padding, int64_t n) {
  if (c->failed || !tli_has_values(b->index)) return;
  int64_t position = padding < 0 ? padding + n + 1 : padding + 1;
  tl_Tensor *number = TLI_STEP(c, tli_number(tli_int(position)));
  tl_Tensor *keep = TLI_STEP(c, tlo_ne(b->index, number));
  b->index = TLI_STEP(c, tlo_masked_select(b->index, keep));
  b->number = TLI_STEP(c, tlo_masked_select(b->number, keep));
  if (b->weights) b->weights = TLI_STEP(c, tlo_masked_select(b->weights, keep));
}

static tl_Tensor *chain_ones(tli_Chain *c, const tl_Tensor *like) {
  tl_Tensor *ones = TLI_STEP(
      c, tli_empty((tl_DType)like->dtype, tli_device(like), 2, (int64_t[]){like->sizes[0], 1}));
  if (!c->failed && !tli_fill(ones, tli_int(1))) c->failed = true;
  return ones;
}

static bool check_mode(const char *mode, const tl_Tensor *weights) {
  bool sum = strcmp(mode, "sum") == 0;
  if (!sum && strcmp(mode, "mean") != 0 && strcmp(mode, "max") != 0)
    return tli_fail(TL_EARG, "embedding_bag: mode: expected 'sum', 'mean' or 'max', got '%s'",
                    mode);
  if (weights && !sum)
    return tli_fail(TL_EARG, "embedding_bag: per_sample_weights need mode 'sum', got '%s'", mode);
  return true;
}

tl_Tensor *tlo_embedding_bag(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *offsets,
                             double max_norm, double norm_type, bool scale_grad_by_freq,
                             const char *mode, bool sparse, tl_Tensor *per_sample_weights,
                             bool include_last_offset, int64_t padding_idx) {
  TL_TRY_NULL(check_table("embedding_bag", input, weight, padding_idx));
  TL_TRY_NULL(check_mode(mode, per_sample_weights));
  tli_Chain c = {0};
  Bags b;
  if (!read_bags(&c, input, offsets, per_sample_weights, include_last_offset, &b)) c.failed = true;
  if (!c.failed && padding_idx != TLI_NOINT) drop_padding(&c, &b, padding_idx, weight->sizes[0]);
  tl_Tensor *rows = TLI_STEP(&c, tlo_embedding(b.index, weight, TLI_NOINT, max_norm, norm_type,
                                               scale_grad_by_freq, sparse));
  if (c.failed) return tli_chain_end(&c, NULL);
  if (b.weights) rows = chain_mul(&c, rows, chain_unsqueeze(&c, b.weights, 1));
  tl_Tensor *result = NULL;
  if (strcmp(mode, "max") == 0)
    result = chain_bag_max(&c, rows, &b);
  else if (strcmp(mode, "mean") == 0)
    result = chain_bag_mean(&c, rows, chain_ones(&c, rows), &b);
  else
    result = chain_bag_sum(&c, rows, &b);
  return tli_chain_end(&c, result);
}
