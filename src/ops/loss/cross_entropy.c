/*
** cross_entropy.c - losses for class labels. Predictions are (N, C, ...). Predictions for a single
** sample are (C) and get a batch dimension.
*/
#include <math.h>
#include <string.h>

#include "ops/loss/loss.h"

/* ---- the fused operator ---- */

static tl_DType stat_dtype(const tl_Tensor *t) { return t->dtype == TL_F64 ? TL_F64 : TL_F32; }

static tlk_Classes classes_of(const int64_t *sizes, int ndim, const tl_Tensor *target,
                              const tl_Tensor *weight, int64_t ignore, bool logits) {
  tlk_Classes k = {.outer = sizes[0],
                   .classes = sizes[1],
                   .inner = 1,
                   .target = tli_data(target),
                   .weight = weight ? tli_data(weight) : NULL,
                   .ignore = ignore,
                   .logits = logits};
  for (int d = 2; d < ndim; d++) k.inner *= sizes[d];
  return k;
}

/* The kernel's operands. All are row-major; input and weight have the compute dtype. */
typedef struct Operands {
  tl_Tensor *input, *target, *weight;
} Operands;

static Operands operands(tli_Chain *c, tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                         tl_DType dtype) {
  Operands o = {NULL, NULL, NULL};
  if (input) o.input = TLI_STEP(c, tli_contiguous_as(input, dtype));
  o.target = TLI_STEP(c, tli_contiguous_as(target, TL_I64));
  if (weight) o.weight = TLI_STEP(c, tli_contiguous_as(weight, dtype));
  return o;
}

bool tli_op_class_loss(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight, int64_t ignore_index,
                       bool logits, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_DType dtype = stat_dtype(input);
  Operands o = operands(&c, input, target, weight, dtype);
  tl_Tensor *loss = TLI_STEP(&c, tli_empty(dtype, tli_device(input), target->ndim, target->sizes));
  out[1] = TLI_STEP(&c, tli_empty(dtype, tli_device(input), target->ndim, target->sizes));
  out[2] = TLI_STEP(&c, tli_empty(TL_F64, tli_device(input), target->ndim, target->sizes));
  if (!c.failed && loss->numel > 0) {
    tlk_Classes k = classes_of(input->sizes, input->ndim, o.target, o.weight, ignore_index, logits);
    if (!TLI_RUN(tli_device(input), class_loss, .classes = k, .loss = tli_array(loss),
                 .weights = tli_data(out[1]), .norm = tli_data(out[2]), .in = tli_array(o.input),
                 .source = tli_fault_source(tli_device(input), NULL, "target")))
      c.failed = true;
  }
  out[0] = TLI_STEP(&c, tli_contiguous_as(loss, (tl_DType)input->dtype));
  bool ok = !c.failed;
  for (int i = 0; i < 3; i++) out[i] = ok ? tli_retain(out[i]) : NULL;
  tli_chain_end(&c, NULL);
  return ok;
}

/* Sets *out to the sum of n elements. */
static bool sum_of(tl_Tensor *out, const void *in, int64_t n) {
  tl_DType dtype = (tl_DType)out->dtype;
  tlk_Array from = {(void *)(uintptr_t)in, dtype};
  return TLI_RUN(tli_device(out), reduce, .kernel = TLK_reduction_sum, .compute = dtype,
                 .out = tli_array(out), .in = from, .outer = 1, .n = n, .inner = 1);
}

/* Sets each element of out to a / b, where a and b hold one number each. */
static bool fill_quotient(tl_Tensor *out, tl_Tensor *a, tl_Tensor *b) {
  tli_Iter it = {.nargs = 3, .ndim = 1, .numel = out->numel, .sizes = {out->numel}};
  tl_Tensor *all[] = {out, a, b};
  for (int k = 0; k < 3; k++)
    it.args[k] = (tli_IterArg){.data = tli_data(all[k]), .dtype = (tl_DType)all[k]->dtype};
  it.args[0].strides[0] = tli_dtype_bytes[out->dtype];
  return TLI_RUN(tli_device(out), pointwise, .it = it, .kernel = TLK_true_divide,
                 .compute = tli_dtype_compute((tl_DType)out->dtype));
}

bool tli_op_class_total(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                        int64_t ignore_index, bool logits, bool mean, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_DType dtype = stat_dtype(input);
  tl_Device device = tli_device(input);
  int64_t n = target->numel, both = 2 * n;
  Operands o = operands(&c, input, target, weight, dtype);
  /* one vector: first the losses of the samples, then the samples' weights */
  tl_Tensor *each = TLI_STEP(&c, tli_empty(dtype, device, 1, &both));
  tl_Tensor *sum = TLI_STEP(&c, tli_empty(dtype, device, 0, NULL));
  out[1] = TLI_STEP(&c, tli_empty(dtype, device, 0, NULL));
  out[2] = TLI_STEP(&c, tli_empty(TL_F64, device, target->ndim, target->sizes));
  if (!c.failed) {
    tlk_Classes k = classes_of(input->sizes, input->ndim, o.target, o.weight, ignore_index, logits);
    char *weights = (char *)tli_data(each) + n * tli_dtype_bytes[dtype];
    c.failed =
        (n > 0 && !TLI_RUN(device, class_loss, .classes = k, .loss = tli_array(each),
                           .weights = weights, .norm = tli_data(out[2]), .in = tli_array(o.input),
                           .source = tli_fault_source(device, NULL, "target"))) ||
        !sum_of(sum, tli_data(each), n) || !sum_of(out[1], weights, n) ||
        (mean && !fill_quotient(sum, sum, out[1]));
  }
  out[0] = TLI_STEP(&c, tli_contiguous_as(sum, (tl_DType)input->dtype));
  return tli_chain_end_all(&c, out, 3);
}

/* Runs the kernel that computes the gradient of the input, which has shape `size`. `input` and
** `norm` are used only if `logits` is set. */
static tl_Tensor *run_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *target,
                               tl_Tensor *weight, tl_Tensor *norm, tl_Ints size, int64_t ignore,
                               bool logits) {
  tli_Chain c = {0};
  tl_DType dtype = stat_dtype(grad);
  Operands o = operands(&c, logits ? input : NULL, target, weight, dtype);
  tl_Tensor *g = TLI_STEP(&c, tli_contiguous_as(grad, dtype));
  tl_Tensor *wide = TLI_STEP(&c, tli_empty(dtype, tli_device(grad), (int)size.n, size.v));
  if (!c.failed && wide->numel > 0) {
    tlk_Classes k = classes_of(size.v, (int)size.n, o.target, o.weight, ignore, logits);
    if (!TLI_RUN(tli_device(grad), class_loss_backward, .classes = k, .grad_in = tli_array(wide),
                 .grad_loss = tli_array(g), .in = o.input ? tli_data(o.input) : NULL,
                 .norm = logits ? tli_data(norm) : NULL))
      c.failed = true;
  }
  return tli_chain_end(&c, TLI_STEP(&c, tli_contiguous_as(wide, (tl_DType)grad->dtype)));
}

tl_Tensor *tli_op_class_spread(tl_Tensor *grad_output, tl_Tensor *target, tl_Tensor *weight,
                               tl_Ints size, int64_t ignore_index) {
  return run_backward(grad_output, NULL, target, weight, NULL, size, ignore_index, false);
}

tl_Tensor *tlo_class_pick(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                          int64_t ignore_index) {
  tl_Tensor *out[3];
  TL_TRY_NULL(tlo_class_loss(input, target, weight, ignore_index, false, out));
  tli_release(out[1]);
  tli_release(out[2]);
  return out[0];
}

/* Computes the gradient of class_loss. If `logits` is set, the result includes the gradient of
** log_softmax. One kernel then computes both, except while autograd records: then differentiable
** operators compute them, so that the gradient can itself be differentiated. */
tl_Tensor *tlo_class_loss_backward(tl_Tensor *grad_output, tl_Tensor *input, tl_Tensor *target,
                                   tl_Tensor *weight, tl_Tensor *norm, int64_t ignore_index,
                                   bool logits) {
  tl_Ints size = {input->ndim, input->sizes};
  if (logits && !tli_recording((tl_Tensor *[]){grad_output, input}, 2))
    return run_backward(grad_output, input, target, weight, norm, size, ignore_index, true);
  tli_Chain c = {0};
  tl_Tensor *spread =
      TLI_STEP(&c, tlo_class_spread(grad_output, target, weight, size, ignore_index));
  if (logits) {
    tl_Tensor *log = TLI_STEP(&c, tlo_log_softmax_along(input, 1));
    spread = TLI_STEP(&c, tlo_log_softmax_backward(spread, log, 1));
  }
  return tli_chain_end(&c, spread);
}

/* Computes the gradient of each sample's loss: grad for a sum or, with `count`, grad / count for a
** mean. */
static tl_Tensor *chain_shares(tli_Chain *c, tl_Tensor *grad, tl_Tensor *count, tl_Tensor *target) {
  tl_Ints sizes = {target->ndim, target->sizes};
  bool recorded = tli_recording(&grad, 1);
  if (count && !recorded) {
    tl_Tensor *out = TLI_STEP(
        c, tli_empty((tl_DType)grad->dtype, tli_device(grad), target->ndim, target->sizes));
    TLI_DO(c, out->numel == 0 || fill_quotient(out, grad, count));
    return out;
  }
  if (count) grad = chain_div(c, grad, chain_to(c, count, (tl_DType)grad->dtype));
  return TLI_STEP(c, tlo_expand(grad, sizes));
}

tl_Tensor *tlo_class_total_backward(tl_Tensor *grad_output, tl_Tensor *input, tl_Tensor *target,
                                    tl_Tensor *weight, tl_Tensor *count, tl_Tensor *norm,
                                    int64_t ignore_index, bool logits, bool mean) {
  tli_Chain c = {0};
  tl_Tensor *each = chain_shares(&c, grad_output, mean ? count : NULL, target);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_class_loss_backward(each, input, target, weight, norm,
                                                                ignore_index, logits)));
}

/* ---- nll_loss and cross_entropy ---- */

static bool check_classes(const char *op, const tl_Tensor *input, const tl_Tensor *weight) {
  if (!tli_is_float((tl_DType)input->dtype))
    return tli_fail(TL_EDTYPE, "%s: input: expected a floating tensor, got %s", op,
                    tl_dtype_name((tl_DType)input->dtype));
  if (input->ndim < 1)
    return tli_fail(TL_ESHAPE, "%s: input: expected (N, C, ...) or (C), got %s", op,
                    tli_sizes_str(input));
  int64_t classes = input->sizes[input->ndim > 1];
  if (weight == NULL) return true;
  if (weight->ndim != 1 || weight->sizes[0] != classes)
    return tli_fail(TL_ESHAPE, "%s: weight: expected shape [%" PRId64 "] (classes), got %s", op,
                    classes, tli_sizes_str(weight));
  if (weight->dtype == input->dtype) return true;
  return tli_fail(TL_EDTYPE, "%s: weight: expected %s, input's dtype, got %s", op,
                  tl_dtype_name((tl_DType)input->dtype), tl_dtype_name((tl_DType)weight->dtype));
}

static bool check_labels(const char *op, const tl_Tensor *input, const tl_Tensor *target,
                         const tl_Tensor *weight) {
  if (tli_grad_mode() && tli_requires_grad(weight))
    return tli_fail(TL_EAUTOGRAD, "%s: weight: has no derivative here; detach it", op);
  if (tli_dtype_category((tl_DType)target->dtype) != TLI_INT)
    return tli_fail(TL_EDTYPE, "%s: target: expected labels as integers, got %s", op,
                    tl_dtype_name((tl_DType)target->dtype));
  bool fits = target->ndim == input->ndim - 1;
  for (int d = 0; fits && d < target->ndim; d++)
    fits = target->sizes[d] == input->sizes[d == 0 ? 0 : d + 1];
  if (fits && target->numel > 0 && input->sizes[input->ndim > 1] == 0)
    return tli_fail(TL_ESHAPE, "%s: input: expected at least 1 class, got %s", op,
                    tli_sizes_str(input));
  if (fits) return true;
  int64_t want[TL_MAX_DIMS];
  for (int d = 0; d < input->ndim - 1; d++) want[d] = input->sizes[d == 0 ? 0 : d + 1];
  return tli_fail(TL_ESHAPE, "%s: target: expected shape %s for input %s, got %s", op,
                  tli_shape_str(input->ndim - 1, want), tli_sizes_str(input),
                  tli_sizes_str(target));
}

/* Divides `sum`, a sum of losses, by the total weight. The result has the dtype of `sum`. */
static tl_Tensor *chain_share(tli_Chain *c, tl_Tensor *sum, tl_Tensor *weights) {
  tl_Tensor *count = chain_total(c, weights);
  return chain_div(c, sum, TLI_STEP(c, tlo_to_dtype(count, (tl_DType)sum->dtype)));
}

/* Reduces the elementwise loss. `reduction` is "none", "sum" or "mean". */
static tl_Tensor *chain_weighted(tli_Chain *c, tl_Tensor *loss, tl_Tensor *weights,
                                 const char *reduction) {
  if (c->failed || strcmp(reduction, "mean") != 0) return chain_reduced(c, loss, reduction);
  tl_Tensor *sum = chain_total(c, loss);
  return c->failed ? NULL : chain_share(c, sum, weights);
}

/* Computes the loss that label smoothing adds for all classes: the negative sum, over the classes,
** of weight * log-probability. Samples with an ignored label give 0. */
static tl_Tensor *chain_smooth(tli_Chain *c, tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                               int64_t ignore) {
  tl_Tensor *log = TLI_STEP(c, tlo_log_softmax_along(input, 1));
  if (weight) {
    int64_t sizes[TL_MAX_DIMS];
    for (int d = 0; d < input->ndim; d++) sizes[d] = d == 1 ? input->sizes[1] : 1;
    log = chain_mul(c, log, TLI_STEP(c, tlo_reshape(weight, (tl_Ints){input->ndim, sizes})));
  }
  tl_Tensor *all = chain_neg(c, chain_sum(c, log, 1, false));
  tl_Tensor *zero = TLI_STEP(c, tli_number(tli_int(0)));
  tl_Tensor *ignored = chain_equals(c, target, ignore);
  return TLI_STEP(c, tlo_masked_fill(all, ignored, zero));
}

/* Adds a batch dimension to the operands of a single sample. Returns whether a dimension was
** added. */
static bool batched(tli_Chain *c, tl_Tensor **input, tl_Tensor **target) {
  if ((*input)->ndim > 1) return false;
  *input = TLI_STEP(c, tlo_unsqueeze(*input, 0));
  *target = TLI_STEP(c, tlo_unsqueeze(*target, 0));
  return true;
}

/* Removes the batch dimension of a single sample from an unreduced loss. */
static tl_Tensor *chain_unbatched(tli_Chain *c, tl_Tensor *loss, bool single,
                                  const char *reduction) {
  if (!single || strcmp(reduction, "none") != 0) return loss;
  return TLI_STEP(c, tlo_select(loss, 0, 0));
}

static tl_Tensor *label_loss(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight, int64_t ignore,
                             const char *reduction, bool logits, double smoothing) {
  tli_Chain c = {0};
  uint64_t count = tli_node_count();
  tl_Tensor *out[3] = {NULL};
  bool single = batched(&c, &input, &target), total = strcmp(reduction, "none") != 0;
  bool mean = strcmp(reduction, "mean") == 0, fused = total && smoothing <= 0;
  TLI_DO(&c, fused ? tlo_class_total(input, target, weight, ignore, logits, mean, out)
                   : tlo_class_loss(input, target, weight, ignore, logits, out));
  for (int i = 0; i < 3; i++)
    if (out[i]) tli_keep(&c, out[i]);
  tl_Tensor *loss = fused ? out[0] : chain_weighted(&c, out[0], out[1], reduction);
  if (smoothing > 0 && !c.failed) {
    tl_Tensor *smooth = chain_smooth(&c, input, target, weight, ignore);
    smooth = chain_weighted(&c, smooth, out[1], reduction);
    smooth = chain_scale(&c, smooth, smoothing / (double)input->sizes[1]);
    loss = chain_add(&c, chain_scale(&c, loss, 1 - smoothing), smooth);
  }
  /* the name that PyTorch gives to the autograd node */
  const char *title = !c.failed && input->ndim > 2 ? "NllLoss2D" : "NllLoss";
  loss = tli_chain_end(&c, chain_unbatched(&c, loss, single, reduction));
  if (smoothing <= 0) tli_entitle(loss, title, count);
  return loss;
}

static bool check_reduction(const char *op, const char *reduction) {
  if (strcmp(reduction, "mean") == 0 || strcmp(reduction, "sum") == 0 ||
      strcmp(reduction, "none") == 0)
    return true;
  return tli_fail(TL_EARG, "%s: reduction: expected 'mean', 'sum' or 'none', got '%s'", op,
                  reduction);
}

tl_Tensor *tlo_nll_loss(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                        int64_t ignore_index, const char *reduction) {
  TL_TRY_NULL(check_classes("nll_loss", input, weight));
  TL_TRY_NULL(check_labels("nll_loss", input, target, weight));
  TL_TRY_NULL(check_reduction("nll_loss", reduction));
  return label_loss(input, target, weight, ignore_index, reduction, false, 0);
}

/* Computes the loss for targets that are class probabilities, in the shape of the input. */
static tl_Tensor *probability_loss(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                                   const char *reduction, double smoothing) {
  tli_Chain c = {0};
  int dim = input->ndim > 1;
  int64_t classes = input->sizes[dim], sizes[TL_MAX_DIMS];
  for (int d = 0; d < input->ndim; d++) sizes[d] = d == dim ? classes : 1;
  if (smoothing > 0) {
    tl_Tensor *rest = chain_scale(&c, target, 1 - smoothing);
    target = chain_plus(&c, rest, smoothing / (double)classes);
  }
  tl_Tensor *log = TLI_STEP(&c, tlo_log_softmax_along(input, dim));
  tl_Tensor *product = chain_mul(&c, log, target);
  if (weight)
    product =
        chain_mul(&c, product, TLI_STEP(&c, tlo_reshape(weight, (tl_Ints){input->ndim, sizes})));
  tl_Tensor *loss = chain_neg(&c, chain_sum(&c, product, dim, false));
  uint64_t count = tli_node_count();
  loss = tli_chain_end(&c, chain_reduced(&c, loss, reduction));
  bool divided = strcmp(reduction, "mean") == 0 && input->numel > 0;
  if (strcmp(reduction, "none") != 0) /* gives the autograd node the name that PyTorch uses */
    tli_entitle(loss, divided ? "Div" : "Neg", count);
  return loss;
}

tl_Tensor *tlo_cross_entropy(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                             int64_t ignore_index, const char *reduction, double label_smoothing) {
  TL_TRY_NULL(check_classes("cross_entropy", input, weight));
  TL_TRY_NULL(check_reduction("cross_entropy", reduction));
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    return tli_fail_null(TL_EARG, "cross_entropy: label_smoothing: expected 0 to 1, got %g",
                         label_smoothing);
  if (tli_same_sizes(input, target) && tli_is_float((tl_DType)target->dtype) && ignore_index > 0)
    return tli_fail_null(TL_EARG,
                         "cross_entropy: ignore_index: expected none if targets are "
                         "probabilities, got %" PRId64,
                         ignore_index);
  if (tli_same_sizes(input, target) && tli_is_float((tl_DType)target->dtype))
    return probability_loss(input, target, weight, reduction, label_smoothing);
  TL_TRY_NULL(check_labels("cross_entropy", input, target, weight));
  return label_loss(input, target, weight, ignore_index, reduction, true, label_smoothing);
}

/* ---- margins ---- */

/* Computes max(0, margin - input[target] + input) for every class. The result for the target class
** is 0. */
static tl_Tensor *chain_margins(tli_Chain *c, tl_Tensor *input, tl_Tensor *labels, double margin) {
  tl_Tensor *own = TLI_STEP(c, tlo_gather(input, 1, labels));
  tl_Tensor *excess = chain_at_least(c, chain_plus(c, chain_sub(c, input, own), margin), 0);
  return TLI_STEP(c, tlo_scatter_value(excess, 1, labels, tli_int(0)));
}

tl_Tensor *tlo_multi_margin_loss(tl_Tensor *input, tl_Tensor *target, int64_t p, double margin,
                                 tl_Tensor *weight, const char *reduction) {
  TL_TRY_NULL(check_reduction("multi_margin_loss", reduction));
  if (p != 1 && p != 2)
    return tli_fail_null(TL_EARG, "multi_margin_loss: p: expected 1 or 2, got %" PRId64, p);
  tli_Chain c = {0};
  /* if the target is a vector of labels, even of one label, the unreduced loss is a vector as well;
  ** otherwise it is 0-d */
  bool listed = target->ndim == 1;
  if (input->ndim == 0) input = chain_unsqueeze(&c, input, 0);
  if (!c.failed && input->ndim == 1 && listed) input = chain_unsqueeze(&c, input, 0);
  if (c.failed || !check_classes("multi_margin_loss", input, weight) ||
      !check_labels("multi_margin_loss", input, target, NULL)) {
    c.failed = true;
    return tli_chain_end(&c, NULL);
  }
  bool single = batched(&c, &input, &target);
  tl_Tensor *labels = chain_unsqueeze(&c, target, 1);
  const char *outer = tli_set_fault_argument("target");
  tl_Tensor *margins = chain_margins(&c, input, labels, margin);
  tli_set_fault_argument(outer);
  if (c.failed) tli_fail_about("multi_margin_loss: target");
  if (p == 2) margins = chain_mul(&c, margins, margins);
  tl_Tensor *loss = chain_sum(&c, margins, 1, false);
  if (!c.failed) loss = chain_scale(&c, loss, 1 / (double)input->sizes[1]);
  if (weight) loss = chain_mul(&c, loss, TLI_STEP(&c, tlo_index_select(weight, 0, target)));
  loss = chain_reduced(&c, loss, reduction);
  return tli_chain_end(&c, chain_unbatched(&c, loss, single, reduction));
}

/* Returns a mask of the valid labels (N, C). A label is valid if it comes before the first -1 in
** its row. All other labels are replaced by 1. */
static tl_Tensor *chain_counting(tli_Chain *c, tl_Tensor **labels) {
  tl_Tensor *ends = chain_equals(c, *labels, -1);
  tl_Tensor *before = TLI_STEP(c, tlo_cumsum(ends, 1, TL_I64));
  tl_Tensor *counts = chain_equals(c, before, 0);
  tl_Tensor *rest = TLI_STEP(c, tlo_logical_not(counts));
  tl_Tensor *one = TLI_STEP(c, tli_number(tli_int(1)));
  *labels = TLI_STEP(c, tlo_masked_fill(*labels, rest, one));
  return counts;
}

tl_Tensor *tlo_multilabel_margin_loss(tl_Tensor *input, tl_Tensor *target, const char *reduction) {
  TL_TRY_NULL(check_reduction("multilabel_margin_loss", reduction));
  bool same =
      input->ndim == 0 && target->ndim <= 1 ? target->numel == 1 : tli_same_sizes(input, target);
  if (!same || input->ndim > 2 || tli_dtype_category((tl_DType)target->dtype) != TLI_INT)
    return tli_fail_null(TL_ESHAPE,
                         "multilabel_margin_loss: target: expected labels of the shape "
                         "of input %s, got %s %s",
                         tli_sizes_str(input), tl_dtype_name((tl_DType)target->dtype),
                         tli_sizes_str(target));
  tli_Chain c = {0};
  int64_t one = 1;
  if (input->ndim == 0) {
    input = TLI_STEP(&c, tlo_reshape(input, (tl_Ints){1, &one}));
    target = TLI_STEP(&c, tlo_reshape(target, (tl_Ints){1, &one}));
  }
  if (c.failed || !check_classes("multilabel_margin_loss", input, NULL)) {
    c.failed = true;
    return tli_chain_end(&c, NULL);
  }
  bool single = batched(&c, &input, &target);
  tl_Tensor *labels = target;
  tl_Tensor *counts = chain_counting(&c, &labels); /* (N, J) */
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_Tensor *number = TLI_STEP(&c, tlo_to_dtype(counts, (tl_DType)input->dtype));
  tl_Tensor *zeros =
      TLI_STEP(&c, tlo_zeros_like(input, (tl_DType)input->dtype, tli_device(input), NULL));
  const char *outer = tli_set_fault_argument("target");
  tl_Tensor *labelled = TLI_STEP(&c, tlo_scatter_add(zeros, 1, labels, number)); /* (N, C) */
  tli_set_fault_argument(outer);
  if (c.failed) tli_fail_about("multilabel_margin_loss: target");
  tl_Tensor *other = TLI_STEP(&c, tlo_logical_not(labelled));
  tl_Tensor *own = chain_unsqueeze(&c, TLI_STEP(&c, tlo_gather(input, 1, labels)), 2);
  tl_Tensor *all = chain_unsqueeze(&c, input, 1);
  /* (N, J, C) */
  tl_Tensor *margins = chain_at_least(&c, chain_plus(&c, chain_sub(&c, all, own), 1), 0);
  margins = chain_mul(&c, margins, chain_unsqueeze(&c, number, 2));
  margins = chain_mul(&c, margins, chain_unsqueeze(&c, other, 1));
  tl_Tensor *loss = chain_sum(&c, chain_sum(&c, margins, 2, false), 1, false);
  if (!c.failed) loss = chain_scale(&c, loss, 1 / (double)input->sizes[1]);
  loss = chain_reduced(&c, loss, reduction);
  return tli_chain_end(&c, chain_unbatched(&c, loss, single, reduction));
}
