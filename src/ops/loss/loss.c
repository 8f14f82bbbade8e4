/*
** loss.c - losses and distances that need more than one expression. The loss for class labels is
** fused with the preceding softmax, so log-probabilities are not stored.
*/
#include "ops/loss/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/device/running.h"

/* ---- reduction ---- */

tl_Tensor *tlo_reduced(tl_Tensor *self, const char *reduction) {
  if (strcmp(reduction, "mean") == 0) return tlo_mean(self, TLI_NOINTS, false, TL_NODTYPE);
  if (strcmp(reduction, "sum") == 0) return tlo_sum(self, TLI_NOINTS, false, TL_NODTYPE);
  if (strcmp(reduction, "none") == 0) return tli_retain(self);
  return tli_fail_null(TL_EARG, "reduction: expected 'mean', 'sum' or 'none', got '%s'", reduction);
}

/* ---- regression ---- */

/* Returns whether the line of the running call differs from the lines of earlier calls. Only the
** last line with each hash is stored, so a line may be new again later. */
static bool is_new_line(void) {
  static _Atomic(const char *) lines[64];
  const char *(*site)(void) = atomic_load(&tli_call_site);
  const char *line = site ? site() : NULL;
  if (line == NULL) line = "";
  return atomic_exchange(&lines[(uintptr_t)line / 16 % 64], line) != line;
}

/* Returns input - target. Warns if the shapes differ, since a vector and a matrix of one column
** broadcast to a square matrix, whose mean is rarely the intended loss. */
tl_Tensor *tlo_loss_difference(tl_Tensor *input, tl_Tensor *target) {
  tl_Tensor *difference = tlo_sub(input, target, tli_int(1));
  if (difference && !tli_same_sizes(input, target) && is_new_line()) {
    char text[200];
    snprintf(text, sizeof text,
             "target: its shape %s differs from input's shape %s; both "
             "broadcast to %s, which is seldom meant",
             tli_sizes_str(target), tli_sizes_str(input), tli_sizes_str(difference));
    tli_warning(text);
  }
  return difference;
}

tl_Tensor *tlo_smooth_l1_loss(tl_Tensor *input, tl_Tensor *target, const char *reduction,
                              tl_Scalar beta) {
  double b = tli_to_double(beta);
  if (!(b >= 0))
    return tli_fail_null(TL_EARG, "smooth_l1_loss: beta: expected at least 0, got %g", b);
  if (b == 0) return tlo_l1_loss(input, target, reduction);
  tli_Chain c = {0};
  tl_Tensor *difference = TLI_STEP(&c, tlo_loss_difference(input, target));
  tl_Tensor *loss = TLI_STEP(&c, tlo_huber(difference, beta));
  return tli_chain_end(&c, chain_reduced(&c, chain_scale(&c, loss, 1 / b), reduction));
}

tl_Tensor *tlo_huber_loss(tl_Tensor *input, tl_Tensor *target, const char *reduction,
                          tl_Scalar delta) {
  double d = tli_to_double(delta);
  if (!(d > 0)) return tli_fail_null(TL_EARG, "huber_loss: delta: expected more than 0, got %g", d);
  tli_Chain c = {0};
  tl_Tensor *difference = TLI_STEP(&c, tlo_loss_difference(input, target));
  return tli_chain_end(&c,
                       chain_reduced(&c, TLI_STEP(&c, tlo_huber(difference, delta)), reduction));
}

/* Computes log(target!) by Stirling's formula. The result is 0 for targets up to 1. */
static tl_Tensor *chain_stirling(tli_Chain *c, tl_Tensor *target) {
  tl_Tensor *log = TLI_STEP(c, tlo_log(target));
  tl_Tensor *sum = chain_sub(c, chain_mul(c, target, log), target);
  tl_Tensor *root = chain_scale(c, chain_plus(c, log, log_of_two_pi), 0.5);
  tl_Tensor *small = chain_with(c, tlo_le, target, 1);
  return chain_masked_fill(c, chain_add(c, sum, root), small, 0);
}

tl_Tensor *tlo_poisson_nll_loss(tl_Tensor *input, tl_Tensor *target, bool log_input, bool full,
                                double eps, const char *reduction) {
  tli_Chain c = {0};
  tl_Tensor *rate = input, *log = input;
  if (log_input) {
    rate = TLI_STEP(&c, tlo_exp(input));
  } else {
    tl_Tensor *above = chain_plus(&c, input, eps);
    log = TLI_STEP(&c, tlo_log(above));
  }
  tl_Tensor *loss = chain_sub(&c, rate, chain_mul(&c, target, log));
  if (full) loss = chain_add(&c, loss, chain_stirling(&c, target));
  return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
}

/* Returns max(t, least) with the gradient of t itself: where `least` replaces an element, the
** gradient is passed on as if it did not. */
static tl_Tensor *chain_floor_value(tli_Chain *c, tl_Tensor *t, double least) {
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *floored = chain_at_least(c, t, least);
  tli_set_grad_mode(mode);
  return TLI_STEP(c, tlo_straight_through(floored, t));
}

/* Returns var in a shape that broadcasts to the shape of input. A missing last dimension is
** added. */
static tl_Tensor *variance_for(tl_Tensor *input, tl_Tensor *var) {
  bool same = var->ndim == input->ndim;
  for (int d = 0; same && d < var->ndim; d++)
    same = var->sizes[d] == input->sizes[d] || var->sizes[d] == 1;
  if (same || var->ndim == 0) return tli_retain(var);
  bool lacks = var->ndim == input->ndim - 1;
  for (int d = 0; lacks && d < var->ndim; d++) lacks = var->sizes[d] == input->sizes[d];
  if (lacks) return tlo_unsqueeze(var, -1);
  return tli_fail_null(TL_ESHAPE,
                       "gaussian_nll_loss: var: expected the shape of input %s, with 1 for "
                       "some of its sizes or without its last dimension, got %s",
                       tli_sizes_str(input), tli_sizes_str(var));
}

tl_Tensor *tlo_gaussian_nll_loss(tl_Tensor *input, tl_Tensor *target, tl_Tensor *var, bool full,
                                 double eps, const char *reduction) {
  /* checks the values only on the CPU, because on other devices the host would have to wait */
  double least = 0;
  if (tli_device(var).type == TL_CPU) TL_TRY_NULL(tli_smallest(var, &least));
  if (least < 0)
    return tli_fail_null(TL_EARG, "gaussian_nll_loss: var: expected no negative numbers");
  tli_Chain c = {0};
  tl_Tensor *shaped = TLI_STEP(&c, variance_for(input, var));
  tl_Tensor *v = chain_floor_value(&c, shaped, eps);
  /* Sizes of 1 in the target may broadcast, as in PyTorch. Only targets with another number of
  ** dimensions get a warning. */
  bool alike = target->ndim == input->ndim;
  tl_Tensor *difference =
      alike ? chain_sub(&c, input, target) : TLI_STEP(&c, tlo_loss_difference(input, target));
  tl_Tensor *share = chain_div(&c, chain_mul(&c, difference, difference), v);
  tl_Tensor *loss = chain_scale(&c, chain_add(&c, TLI_STEP(&c, tlo_log(v)), share), 0.5);
  if (full) loss = chain_plus(&c, loss, 0.5 * log_of_two_pi);
  return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
}

/* ---- probabilities ---- */

static bool same_shape(const char *op, const tl_Tensor *input, const tl_Tensor *target) {
  if (tli_same_sizes(input, target)) return true;
  return tli_fail(TL_ESHAPE, "%s: target: expected the shape of input %s, got %s", op,
                  tli_sizes_str(input), tli_sizes_str(target));
}

tl_Tensor *tlo_binary_cross_entropy(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                                    const char *reduction) {
  TL_TRY_NULL(same_shape("binary_cross_entropy", input, target));
  TL_TRY_NULL(tli_check_range("binary_cross_entropy", "input", input, 0, 1));
  tli_Chain c = {0};
  tl_Tensor *loss = TLI_STEP(&c, tlo_bce(input, target));
  if (weight) loss = chain_mul(&c, loss, weight);
  return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
}

/* Computes the loss for logits: (1 - target) * input - (1 + (pos_weight - 1) * target) *
** logsigmoid(input). */
static tl_Tensor *chain_logit_loss(tli_Chain *c, tl_Tensor *input, tl_Tensor *target,
                                   tl_Tensor *pos_weight) {
  tl_Tensor *log = TLI_STEP(c, tlo_logsigmoid(input));
  tl_Tensor *other = chain_sub(c, input, chain_mul(c, target, input));
  if (pos_weight) {
    tl_Tensor *excess = chain_mul(c, chain_plus(c, pos_weight, -1), target);
    log = chain_mul(c, log, chain_plus(c, excess, 1));
  }
  return chain_sub(c, other, log);
}

tl_Tensor *tlo_binary_cross_entropy_with_logits(tl_Tensor *input, tl_Tensor *target,
                                                tl_Tensor *weight, const char *reduction,
                                                tl_Tensor *pos_weight) {
  TL_TRY_NULL(same_shape("binary_cross_entropy_with_logits", input, target));
  tli_Chain c = {0};
  tl_Tensor *loss = chain_logit_loss(&c, input, target, pos_weight);
  if (weight) loss = chain_mul(&c, loss, weight);
  return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
}

tl_Tensor *tlo_kl_div(tl_Tensor *input, tl_Tensor *target, const char *reduction, bool log_target) {
  static const char *const reductions[] = {"mean", "batchmean", "sum", "none"};
  int known = 0;
  while (known < 4 && strcmp(reduction, reductions[known]) != 0) known++;
  if (known == 4)
    return tli_fail_null(TL_EARG,
                         "kl_div: reduction: expected 'mean', 'batchmean', 'sum' or 'none', "
                         "got '%s'",
                         reduction);
  tli_Chain c = {0};
  /* the terms are separate steps, because gradients are summed in the order of the steps, and
  ** compilers differ in the order in which they evaluate arguments */
  tl_Tensor *own = TLI_STEP(&c, log_target ? tlo_exp(target) : tlo_xlogy(target, target));
  tl_Tensor *rest = log_target ? chain_sub(&c, target, input) : chain_mul(&c, target, input);
  tl_Tensor *loss = log_target ? chain_mul(&c, own, rest) : chain_sub(&c, own, rest);
  if (strcmp(reduction, "batchmean") != 0)
    return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
  double batch = input->ndim > 0 ? (double)input->sizes[0] : 1;
  uint64_t count = tli_node_count();
  tl_Tensor *mean = tli_chain_end(&c, chain_scale(&c, chain_total(&c, loss), 1 / batch));
  tli_entitle(mean, "Div", count); /* gives the autograd node the name that PyTorch uses */
  return mean;
}

tl_Tensor *tlo_multilabel_soft_margin_loss(tl_Tensor *input, tl_Tensor *target, tl_Tensor *weight,
                                           const char *reduction) {
  TL_TRY_NULL(same_shape("multilabel_soft_margin_loss", input, target));
  tli_Chain c = {0};
  tl_Tensor *loss = chain_logit_loss(&c, input, target, NULL);
  if (weight) loss = chain_mul(&c, loss, weight);
  int64_t last = -1;
  loss = TLI_STEP(&c, tlo_mean(loss, (tl_Ints){1, &last}, false, TL_NODTYPE));
  return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
}

/* ---- distances ---- */

/* Computes the sum over dim of the products of x1 and x2 after each is divided by its norm. A norm
** below eps is replaced by eps; the gradient ignores this limit. */
tl_Tensor *tlo_cosine_similarity(tl_Tensor *x1, tl_Tensor *x2, int64_t dim, double eps) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape("cosine_similarity", (tl_Tensor *[]){x1, x2}, 2, &ndim, sizes));
  int d = tli_dim("cosine_similarity", dim, ndim);
  if (d < 0) return NULL;
  int64_t along = d;
  tl_DType dtype = tli_dtype_promote((tl_DType)x1->dtype, (tl_DType)x2->dtype);
  tli_Chain c = {0};
  tl_Tensor *both[] = {x1, x2};
  for (int i = 0; i < 2; i++) {
    tl_Tensor *wide = TLI_STEP(&c, tlo_expand(both[i], (tl_Ints){ndim, sizes}));
    wide = TLI_STEP(&c, tlo_to_dtype(wide, dtype));
    tl_Tensor *norm =
        TLI_STEP(&c, tlo_norm(wide, tli_int(2), (tl_Ints){1, &along}, true, TL_NODTYPE));
    norm = chain_floor_value(&c, norm, eps);
    both[i] = chain_div(&c, wide, norm);
  }
  return tli_chain_end(&c, chain_sum(&c, chain_mul(&c, both[0], both[1]), d, false));
}

tl_Tensor *tlo_cosine_embedding_loss(tl_Tensor *input1, tl_Tensor *input2, tl_Tensor *target,
                                     double margin, const char *reduction) {
  if (target->ndim > 1 || input1->ndim != target->ndim + 1 || input2->ndim != target->ndim + 1)
    return tli_fail_null(TL_ESHAPE,
                         "cosine_embedding_loss: expected inputs (N, D) with target (N), "
                         "or (D) with (), got %s, %s and %s",
                         tli_sizes_str(input1), tli_sizes_str(input2), tli_sizes_str(target));
  const double eps = 1e-12;
  int64_t dim = target->ndim;
  tli_Chain c = {0};
  tl_Tensor *product = chain_sum(&c, chain_mul(&c, input1, input2), dim, false);
  tl_Tensor *a = chain_plus(&c, chain_sum(&c, chain_mul(&c, input1, input1), dim, false), eps);
  tl_Tensor *b = chain_plus(&c, chain_sum(&c, chain_mul(&c, input2, input2), dim, false), eps);
  tl_Tensor *squared = chain_mul(&c, a, b);
  tl_Tensor *size = TLI_STEP(&c, tlo_sqrt(squared));
  tl_Tensor *cosine = chain_div(&c, product, size);
  tl_Tensor *zero = chain_number(&c, 0);
  tl_Tensor *distance = chain_plus(&c, chain_neg(&c, cosine), 1);
  tl_Tensor *alike = chain_where(&c, chain_equals(&c, target, 1), distance, zero);
  tl_Tensor *beyond = chain_at_least(&c, chain_plus(&c, cosine, -margin), 0);
  tl_Tensor *apart = chain_where(&c, chain_equals(&c, target, -1), beyond, zero);
  return tli_chain_end(&c, chain_reduced(&c, chain_add(&c, alike, apart), reduction));
}

tl_Tensor *tlo_triplet_margin_loss(tl_Tensor *anchor, tl_Tensor *positive, tl_Tensor *negative,
                                   double margin, tl_Scalar p, double eps, bool swap,
                                   const char *reduction) {
  if (!(margin > 0))
    return tli_fail_null(TL_EARG, "triplet_margin_loss: margin: expected more than 0, got %g",
                         margin);
  tli_Chain c = {0};
  tl_Tensor *near = TLI_STEP(&c, tlo_pairwise_distance(anchor, positive, p, eps, false));
  tl_Tensor *far = TLI_STEP(&c, tlo_pairwise_distance(anchor, negative, p, eps, false));
  if (swap) {
    tl_Tensor *other = TLI_STEP(&c, tlo_pairwise_distance(positive, negative, p, eps, false));
    far = TLI_STEP(&c, tlo_minimum(far, other));
  }
  tl_Tensor *loss = chain_at_least(&c, chain_plus(&c, chain_sub(&c, near, far), margin), 0);
  return tli_chain_end(&c, chain_reduced(&c, loss, reduction));
}
