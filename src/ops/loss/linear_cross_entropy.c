/*
** linear_cross_entropy.c - the cross-entropy of a linear layer's results, computed in chunks of
** rows (linear_cross_entropy.lua). The tensors of a chunk are released before the next chunk is
** computed, so only one chunk's logits are in memory at a time.
*/
#include <string.h>

#include "ops/loss/loss.h"

#define OP "linear_cross_entropy"
/* number of logits in a chunk, if the caller does not give the number of rows */
#define CHUNK_ELEMENTS (1 << 22)

static tl_DType wide(const tl_Tensor *t) { return t->dtype == TL_F64 ? TL_F64 : TL_F32; }

static tl_Tensor *chain_rows(tli_Chain *c, tl_Tensor *t, int64_t first, int64_t end) {
  return chain_slice(c, t, 0, first, end);
}

static tl_Tensor *chain_logits(tli_Chain *c, tl_Tensor *x, tl_Tensor *weight, tl_Tensor *bias) {
  return c->failed ? NULL : chain_to(c, TLI_STEP(c, tlo_linear(x, weight, bias)), wide(x));
}

static bool done(tli_Chain *c) {
  bool ok = !c->failed;
  tli_release(tli_chain_end(c, NULL));
  return ok;
}

/* ---- the loss ---- */

/* Computes rows [first, end) of the three results: loss, weight and norm. */
static bool chunk_loss(tl_Tensor *input, tl_Tensor *linear, tl_Tensor *bias, tl_Tensor *target,
                       tl_Tensor *weight, int64_t ignore, int64_t first, int64_t end,
                       tl_Tensor *const *out) {
  tli_Chain c = {0};
  tl_Tensor *logits = chain_logits(&c, chain_rows(&c, input, first, end), linear, bias);
  tl_Tensor *labels = chain_rows(&c, target, first, end), *part[3] = {NULL};
  TLI_DO(&c, tli_op_class_loss(logits, labels, weight, ignore, true, part));
  for (int i = 0; i < 3; i++) {
    if (part[i]) part[i] = tli_keep(&c, part[i]);
    tl_Tensor *rows = chain_rows(&c, out[i], first, end);
    TLI_DO(&c, tlo_copy_(rows, part[i], false));
  }
  return done(&c);
}

bool tli_op_linear_class_loss(tl_Tensor *input, tl_Tensor *linear, tl_Tensor *bias,
                              tl_Tensor *target, tl_Tensor *weight, int64_t ignore, int64_t rows,
                              tl_Tensor **out) {
  int64_t n = input->sizes[0];
  bool ok = true, mode = tli_set_grad_mode(false);
  for (int i = 0; i < 3; i++) {
    out[i] = tli_empty(i == 2 ? TL_F64 : wide(input), tli_device(input), 1, &n);
    ok = ok && out[i];
  }
  for (int64_t first = 0; ok && first < n; first += rows) {
    int64_t end = first + rows < n ? first + rows : n;
    ok = chunk_loss(input, linear, bias, target, weight, ignore, first, end, out);
  }
  tli_set_grad_mode(mode);
  if (!ok) tli_release_results(out, 3);
  return ok;
}

/* ---- its gradient ---- */

typedef struct Backward {
  tl_Tensor *grad, *input, *linear, *bias, *target, *weight, *norm; /* borrowed */
  int64_t ignore;
  bool want[3];      /* whether the gradients of input, linear_weight and bias are needed */
  tl_Tensor *out[3]; /* the gradients (owned), initially NULL */
} Backward;

/* Adds a chunk's contribution to the gradient *sum. The first contribution becomes *sum itself.
** `share`, which the caller's chain owns, is NULL if its step failed. */
static bool add_share(tl_Tensor **sum, tl_Tensor *share) {
  if (*sum) return share && tlo_add_(*sum, share, tli_int(1));
  return share && (*sum = tli_retain(share)) != NULL;
}

static bool chunk_backward(Backward *b, int64_t first, int64_t end, tl_Tensor **input) {
  tli_Chain c = {0};
  tl_Tensor *x = chain_rows(&c, b->input, first, end);
  tl_Tensor *logits = chain_logits(&c, x, b->linear, b->bias);
  tl_Tensor *grad = chain_rows(&c, b->grad, first, end);
  tl_Tensor *labels = chain_rows(&c, b->target, first, end);
  tl_Tensor *norm = chain_rows(&c, b->norm, first, end);
  tl_Tensor *d =
      TLI_STEP(&c, tlo_class_loss_backward(grad, logits, labels, b->weight, norm, b->ignore, true));
  if (b->want[2]) TLI_DO(&c, add_share(&b->out[2], chain_sum(&c, d, 0, false)));
  if (!c.failed) d = chain_to(&c, d, (tl_DType)x->dtype);
  if (b->want[0]) *input = TLI_STEP(&c, tlo_mm(d, b->linear));
  if (*input) tli_retain(*input);
  if (b->want[1]) {
    tl_Tensor *turned = chain_t(&c, d);
    tl_Tensor *share = TLI_STEP(&c, tlo_mm(turned, x));
    if (!c.failed) share = chain_to(&c, share, wide(x));
    TLI_DO(&c, add_share(&b->out[1], share));
  }
  return done(&c);
}

/* Computes the gradients chunk by chunk. While history is recorded, all rows are computed at
** once. */
bool tlo_linear_class_loss_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *linear,
                                    tl_Tensor *bias, tl_Tensor *target, tl_Tensor *weight,
                                    tl_Tensor *norm, int64_t ignore, int64_t rows, bool want_input,
                                    bool want_weight, bool want_bias, tl_Tensor **out) {
  Backward b = {grad,  input,  linear,
                bias,  target, weight,
                norm,  ignore, {want_input, want_weight, want_bias},
                {NULL}};
  int64_t n = input->sizes[0];
  bool recorded = tli_recording((tl_Tensor *[]){grad, input, linear, bias}, 4), ok = true;
  if (recorded) rows = n > 0 ? n : 1;
  if (want_input && !recorded)
    ok = (b.out[0] = tli_empty_like(input, (tl_DType)input->dtype)) != NULL;
  for (int64_t first = 0; ok && (first < n || first == 0); first += rows) {
    int64_t end = first + rows < n ? first + rows : n;
    tl_Tensor *share = NULL;
    ok = chunk_backward(&b, first, end, &share);
    if (ok && share && recorded) {
      b.out[0] = tli_retain(share);
    } else if (ok && share) {
      tl_Tensor *place = tlo_slice(b.out[0], 0, first, end, 1);
      ok = place && tlo_copy_(place, share, false);
      tli_release(place);
    }
    tli_release(share);
  }
  if (!ok) tli_release_results(b.out, 3);
  memcpy(out, b.out, sizeof b.out);
  return ok;
}

/* ---- the public operator ---- */

/* Checks the operands. linear_weight is (C, in), or (C, d..., in) if there is a loss at each
** position d... */
static bool check(const tl_Tensor *input, const tl_Tensor *linear, const tl_Tensor *target,
                  const tl_Tensor *bias, int64_t ignore, int64_t chunk) {
  bool places = linear->ndim > 2;
  if (input->ndim < 1 || linear->ndim < 2 || (places && input->ndim != 2) ||
      input->sizes[input->ndim - 1] != linear->sizes[linear->ndim - 1])
    return tli_fail(TL_ESHAPE,
                    OP ": input: expected (N, in) for linear_weight (C, %sin), got %s "
                       "and %s",
                    places ? "..., " : "", tli_sizes_str(input), tli_sizes_str(linear));
  bool fits = bias == NULL || bias->ndim == linear->ndim - 1;
  for (int d = 0; bias && fits && d < bias->ndim; d++) fits = bias->sizes[d] == linear->sizes[d];
  if (!fits)
    return tli_fail(TL_ESHAPE, OP ": linear_bias: expected shape %s, got %s",
                    tli_shape_str(linear->ndim - 1, linear->sizes), tli_sizes_str(bias));
  if (chunk != TLI_NOINT && chunk < 1)
    return tli_fail(TL_EARG, OP ": chunk_size: expected at least 1, got %" PRId64, chunk);
  if (ignore != TLI_NOINT && tli_is_float((tl_DType)target->dtype))
    return tli_fail(TL_EARG, OP ": ignore_index: expected none if targets are probabilities");
  return true;
}

/* Computes the logits (N, C, d...) of a linear layer. `linear` is the layer's weight (C, d..., in),
** which has a row for each class and each position d... . */
static tl_Tensor *chain_logits_at(tli_Chain *c, tl_Tensor *input, tl_Tensor *linear,
                                  tl_Tensor *bias) {
  int64_t sizes[TL_MAX_DIMS] = {input->sizes[0]}, rows = 1;
  for (int d = 0; d < linear->ndim - 1; d++) rows *= sizes[d + 1] = linear->sizes[d];
  int64_t matrix[] = {rows, linear->sizes[linear->ndim - 1]};
  tl_Tensor *weight = TLI_STEP(c, tlo_reshape(linear, (tl_Ints){2, matrix}));
  if (bias) bias = TLI_STEP(c, tlo_reshape(bias, (tl_Ints){1, matrix}));
  tl_Tensor *logits = chain_logits(c, input, weight, bias);
  return TLI_STEP(c, tlo_reshape(logits, (tl_Ints){linear->ndim, sizes}));
}

static tl_Tensor *plain(tl_Tensor *input, tl_Tensor *linear, tl_Tensor *target, tl_Tensor *bias,
                        tl_Tensor *weight, const char *reduction, int64_t ignore,
                        double smoothing) {
  tli_Chain c = {0};
  tl_Tensor *logits = linear->ndim > 2 ? chain_logits_at(&c, input, linear, bias)
                                       : chain_logits(&c, input, linear, bias);
  return tli_chain_end(
      &c, TLI_STEP(&c, tlo_cross_entropy(logits, target, weight, ignore, reduction, smoothing)));
}

/* Returns whether this call can be computed in chunks. All other calls, including invalid ones, use
** the separate operators. */
static bool fits(const tl_Tensor *input, const tl_Tensor *linear, const tl_Tensor *target,
                 const tl_Tensor *weight, double smoothing) {
  bool labels = tli_dtype_category((tl_DType)target->dtype) == TLI_INT &&
                target->ndim == input->ndim - 1 &&
                (target->ndim == 0 || target->sizes[0] == input->sizes[0]);
  bool weights = weight == NULL || (weight->ndim == 1 && weight->sizes[0] == linear->sizes[0] &&
                                    !tli_requires_grad(weight));
  return smoothing == 0 && input->ndim <= 2 && linear->ndim == 2 && labels && weights &&
         linear->sizes[0] > 0 && tli_is_float((tl_DType)input->dtype) &&
         input->dtype == linear->dtype;
}

tl_Tensor *tlo_linear_cross_entropy(tl_Tensor *input, tl_Tensor *linear, tl_Tensor *target,
                                    tl_Tensor *bias, tl_Tensor *weight, const char *reduction,
                                    int64_t ignore, double smoothing, int64_t chunk) {
  TL_TRY_NULL(check(input, linear, target, bias, ignore, chunk));
  if (ignore == TLI_NOINT) ignore = -100;
  bool known = strcmp(reduction, "mean") == 0 || strcmp(reduction, "sum") == 0 ||
               strcmp(reduction, "none") == 0;
  if (!known || !fits(input, linear, target, weight, smoothing))
    return plain(input, linear, target, bias, weight, reduction, ignore, smoothing);
  if (chunk == TLI_NOINT) chunk = 1 + CHUNK_ELEMENTS / linear->sizes[0];
  tli_Chain c = {0};
  bool single = input->ndim == 1;
  if (single) input = chain_unsqueeze(&c, input, 0);
  if (single) target = chain_unsqueeze(&c, target, 0);
  tl_Tensor *out[3] = {NULL};
  TLI_DO(&c, tlo_linear_class_loss(input, linear, bias, target, weight, ignore, chunk, out));
  for (int i = 0; i < 3; i++)
    if (out[i]) out[i] = tli_keep(&c, out[i]);
  tl_Tensor *loss = out[0];
  if (strcmp(reduction, "mean") == 0) {
    tl_Tensor *sum = chain_total(&c, loss), *count = chain_total(&c, out[1]);
    loss = chain_div(&c, sum, count);
  } else {
    loss = chain_reduced(&c, loss, reduction);
  }
  if (single && !c.failed && strcmp(reduction, "none") == 0)
    loss = TLI_STEP(&c, tlo_select(loss, 0, 0));
  return tli_chain_end(&c, loss);
}
