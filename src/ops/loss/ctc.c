/*
** ctc.c - connectionist temporal classification. Targets are converted to one row for each sample,
** and lengths to int64 tensors. The kernel sums over all alignments.
*/
#include <string.h>

#include "ops/loss/loss.h"

static tl_DType stat_dtype(const tl_Tensor *t) { return t->dtype == TL_F64 ? TL_F64 : TL_F32; }

/* ---- the operator: log_probs (T, N, C), targets (N, S), all row-major ---- */

static tlk_Ctc call_of(const tl_Tensor *log_probs, const tl_Tensor *targets,
                       const tl_Tensor *input_lengths, const tl_Tensor *target_lengths,
                       int64_t blank) {
  return (tlk_Ctc){
      log_probs->sizes[0], log_probs->sizes[1],     log_probs->sizes[2],      targets->sizes[1],
      tli_data(targets),   tli_data(input_lengths), tli_data(target_lengths), blank + 1};
}

bool tli_op_ctc_core(tl_Tensor *log_probs, tl_Tensor *targets, tl_Tensor *input_lengths,
                     tl_Tensor *target_lengths, int64_t blank, bool zero_infinity,
                     tl_Tensor **out) {
  (void)zero_infinity;
  tl_DType dtype = stat_dtype(log_probs);
  tlk_Ctc c = call_of(log_probs, targets, input_lengths, target_lengths, blank);
  tl_Tensor *in = tli_contiguous_as(log_probs, dtype);
  bool ok = in && (out[0] = tli_empty(dtype, tli_device(in), 1, &c.batch)) &&
            (out[1] = tli_empty(dtype, tli_device(in), 3,
                                (int64_t[]){c.batch, c.time, 2 * c.longest + 1}));
  if (ok && c.batch > 0)
    ok = TLI_RUN(tli_device(in), ctc_loss, .ctc = c, .loss = tli_array(out[0]),
                 .alpha = tli_data(out[1]), .log_probs = tli_data(in));
  tli_release(in);
  if (!ok) tli_release_results(out, 2);
  return ok;
}

/* Sets the gradient to 0 for samples whose loss is infinite. */
static tl_Tensor *chain_finite_only(tli_Chain *c, tl_Tensor *grad, tl_Tensor *loss) {
  tl_Tensor *infinite = TLI_STEP(c, tlo_isinf(loss));
  return chain_masked_fill(c, grad, infinite, 0);
}

tl_Tensor *tlo_ctc_core_backward(tl_Tensor *grad_output, tl_Tensor *log_probs, tl_Tensor *targets,
                                 tl_Tensor *input_lengths, tl_Tensor *target_lengths, int64_t blank,
                                 bool zero_infinity, tl_Tensor *loss, tl_Tensor *alpha) {
  if (tli_recording((tl_Tensor *[]){grad_output, log_probs}, 2))
    return tli_fail_null(TL_EAUTOGRAD, "ctc_loss: has no second derivative");
  tlk_Ctc k = call_of(log_probs, targets, input_lengths, target_lengths, blank);
  tl_DType dtype = stat_dtype(log_probs);
  tli_Chain c = {0};
  tl_Tensor *in = TLI_STEP(&c, tli_contiguous_as(log_probs, dtype));
  tl_Tensor *grad = TLI_STEP(&c, tli_contiguous_as(grad_output, dtype));
  if (zero_infinity) grad = chain_finite_only(&c, grad, loss);
  tl_Tensor *result =
      TLI_STEP(&c, tli_empty(dtype, tli_device(in), log_probs->ndim, log_probs->sizes));
  if (!c.failed && result->numel > 0 &&
      !TLI_RUN(tli_device(in), ctc_loss_backward, .ctc = k, .grad_in = tli_array(result),
               .grad_loss = tli_data(grad), .loss = tli_data(loss), .alpha = tli_data(alpha),
               .log_probs = tli_data(in)))
    c.failed = true;
  return tli_chain_end(&c, TLI_STEP(&c, tli_contiguous_as(result, (tl_DType)log_probs->dtype)));
}

/* ---- arguments ---- */

static bool bad_lengths(const char *what, int64_t i, int64_t length, int64_t most) {
  return tli_fail(TL_EARG, "ctc_loss: %s[%" PRId64 "]: expected 0 to %" PRId64 ", got %" PRId64,
                  what, i + 1, most, length);
}

/* Checks that the lengths are in range, and sets *sum to their sum. For lengths on the meta device,
** *sum is -1. */
static bool check_lengths(const char *what, const tl_Tensor *lengths, int64_t n, int64_t most,
                          int64_t *sum) {
  if (lengths->numel != n || lengths->ndim > 1)
    return tli_fail(TL_ESHAPE, "ctc_loss: %s: expected %" PRId64 " numbers, got %s", what, n,
                    tli_sizes_str(lengths));
  *sum = -1;
  if (!tli_has_values(lengths)) return true;
  const int64_t *v = tli_data(lengths);
  *sum = 0;
  for (int64_t i = 0; i < n; i++) {
    if (v[i] < 0 || v[i] > most) return bad_lengths(what, i, v[i], most);
    *sum += v[i];
  }
  return true;
}

/* Splits the concatenated targets into one row per sample, padded to the length of the longest
** target. If a tensor is on the meta device, its values are unknown, and the rows have the maximum
** possible length. */
static tl_Tensor *target_rows(const tl_Tensor *list, const tl_Tensor *label_counts, int64_t n) {
  if (!tli_has_values(list) || !tli_has_values(label_counts))
    return tli_empty(TL_I64, (tl_Device){TL_META, 0}, 2, (int64_t[]){n, list->numel});
  const int64_t *lengths = tli_data(label_counts);
  int64_t longest = 0;
  for (int64_t i = 0; i < n; i++)
    if (lengths[i] > longest) longest = lengths[i];
  tl_Tensor *rows = tli_empty(TL_I64, TLI_CPU, 2, (int64_t[]){n, longest});
  if (rows == NULL) return NULL;
  const int64_t *from = tli_data(list);
  int64_t *to = tli_data(rows);
  for (int64_t i = 0; i < n; i++, to += longest) {
    for (int64_t k = 0; k < longest; k++) to[k] = k < lengths[i] ? from[k] : 1;
    from += lengths[i];
  }
  return rows;
}

static bool check_targets(const tl_Tensor *rows, const tl_Tensor *label_counts, int64_t classes) {
  if (!tli_has_values(rows) || !tli_has_values(label_counts)) return true;
  const int64_t *v = tli_data(rows), *lengths = tli_data(label_counts);
  for (int64_t i = 0; i < rows->sizes[0]; i++, v += rows->sizes[1])
    for (int64_t k = 0; k < lengths[i]; k++)
      if (v[k] < 1 || v[k] > classes)
        return tli_fail(TL_EINDEX,
                        "ctc_loss: targets: label %" PRId64
                        " is out of range: expected 1 to %" PRId64,
                        v[k], classes);
  return true;
}

/* Converts an integer tensor to row-major int64 on the CPU, because the CPU checks the values. A
** meta tensor stays on the meta device. */
static tl_Tensor *chain_integers(tli_Chain *c, const char *what, tl_Tensor *t) {
  if (c->failed) return NULL;
  if (tli_dtype_category((tl_DType)t->dtype) != TLI_INT) {
    tli_fail(TL_EDTYPE, "ctc_loss: %s: expected integers, got %s", what,
             tl_dtype_name((tl_DType)t->dtype));
    c->failed = true;
    return NULL;
  }
  tl_Tensor *here = TLI_STEP(c, tli_has_values(t) ? tli_moved(t, TLI_CPU, false) : tli_retain(t));
  return TLI_STEP(c, tli_contiguous_as(here, TL_I64));
}

typedef struct Arguments {
  /* the operands in the form that the kernel takes, owned by the chain */
  tl_Tensor *log_probs, *targets, *input_lengths, *target_lengths;
  bool single;
} Arguments;

static bool read_arguments(tli_Chain *c, tl_Tensor *log_probs, tl_Tensor *targets, tl_Tensor *in,
                           tl_Tensor *labels, int64_t *blank, Arguments *a) {
  int64_t frames, total;
  if ((log_probs->ndim != 2 && log_probs->ndim != 3) || !tli_is_float((tl_DType)log_probs->dtype))
    return tli_fail(TL_ESHAPE,
                    "ctc_loss: log_probs: expected floating (T, N, C) or (T, C), got %s %s",
                    tl_dtype_name((tl_DType)log_probs->dtype), tli_sizes_str(log_probs));
  a->single = log_probs->ndim == 2;
  a->log_probs = a->single ? TLI_STEP(c, tlo_unsqueeze(log_probs, 1)) : log_probs;
  a->input_lengths = chain_integers(c, "input_lengths", in);
  a->target_lengths = chain_integers(c, "target_lengths", labels);
  tl_Tensor *rows = chain_integers(c, "targets", targets);
  if (c->failed) return false;
  int64_t n = a->log_probs->sizes[1], classes = a->log_probs->sizes[2];
  int64_t most = targets->ndim == 2 ? targets->sizes[1] : targets->numel;
  if ((*blank = tli_position("ctc_loss", *blank, classes)) < 0) return false;
  TL_TRY(check_lengths("input_lengths", a->input_lengths, n, a->log_probs->sizes[0], &frames));
  TL_TRY(check_lengths("target_lengths", a->target_lengths, n, most, &total));
  if (targets->ndim == 1 && total >= 0 && total != targets->numel)
    return tli_fail(TL_ESHAPE,
                    "ctc_loss: targets: expected %" PRId64
                    " labels, the sum of target_lengths, got %s",
                    total, tli_sizes_str(targets));
  if (targets->ndim == 0 || targets->ndim > 2 || (targets->ndim == 2 && targets->sizes[0] != n))
    return tli_fail(TL_ESHAPE,
                    "ctc_loss: targets: expected (N, S) with N = %" PRId64
                    ", or one dimension, got %s",
                    n, tli_sizes_str(targets));
  if (targets->ndim == 1) rows = TLI_STEP(c, target_rows(rows, a->target_lengths, n));
  if (c->failed || !check_targets(rows, a->target_lengths, classes)) return false;
  tl_Device device = tli_device(log_probs);
  a->targets = TLI_STEP(c, tli_moved(rows, device, false));
  a->input_lengths = TLI_STEP(c, tli_moved(a->input_lengths, device, false));
  a->target_lengths = TLI_STEP(c, tli_moved(a->target_lengths, device, false));
  return !c->failed;
}

/* ---- the loss ---- */

static tl_Tensor *chain_reduce(tli_Chain *c, tl_Tensor *loss, const Arguments *a,
                               const char *reduction) {
  if (strcmp(reduction, "mean") == 0) {
    tl_Tensor *least = chain_with(c, tlo_clamp_min, a->target_lengths, 1);
    tl_Tensor *count = TLI_STEP(c, tlo_to_dtype(least, (tl_DType)loss->dtype));
    loss = chain_div(c, loss, count);
  }
  if (a->single && strcmp(reduction, "none") == 0) return TLI_STEP(c, tlo_select(loss, 0, 0));
  return chain_reduced(c, loss, reduction);
}

tl_Tensor *tlo_ctc_loss(tl_Tensor *log_probs, tl_Tensor *targets, tl_Tensor *input_lengths,
                        tl_Tensor *target_lengths, int64_t blank, const char *reduction,
                        bool zero_infinity) {
  tli_Chain c = {0};
  Arguments a = {NULL, NULL, NULL, NULL, false};
  tl_Tensor *out[2] = {NULL};
  if (!read_arguments(&c, log_probs, targets, input_lengths, target_lengths, &blank, &a) ||
      !tlo_ctc_core(a.log_probs, a.targets, a.input_lengths, a.target_lengths, blank, zero_infinity,
                    out)) {
    c.failed = true;
    return tli_chain_end(&c, NULL);
  }
  tl_Tensor *loss = tli_keep(&c, out[0]);
  tli_keep(&c, out[1]);
  if (zero_infinity) loss = chain_finite_only(&c, loss, loss);
  tl_Tensor *narrow = TLI_STEP(&c, tlo_to_dtype(loss, (tl_DType)log_probs->dtype));
  return tli_chain_end(&c, c.failed ? NULL : chain_reduce(&c, narrow, &a, reduction));
}

static tl_Tensor *list_tensor(tl_Ints list) {
  static const int64_t none = 0;
  tl_Tensor *t = tli_empty(TL_I64, TLI_CPU, 1, list.v ? &list.n : &none);
  if (t && list.n > 0) memcpy(tli_data(t), list.v, (size_t)list.n * sizeof *list.v);
  return t;
}

tl_Tensor *tlo_ctc_loss_lists(tl_Tensor *log_probs, tl_Tensor *targets, tl_Ints input_lengths,
                              tl_Ints target_lengths, int64_t blank, const char *reduction,
                              bool zero_infinity) {
  tl_Tensor *in = list_tensor(input_lengths);
  tl_Tensor *labels = in ? list_tensor(target_lengths) : NULL;
  tl_Tensor *loss =
      labels ? tlo_ctc_loss(log_probs, targets, in, labels, blank, reduction, zero_infinity) : NULL;
  tli_release(in);
  tli_release(labels);
  return loss;
}
