/*
** optimizer.c - steps of optimizers. All checks and all allocations are done before the first
** parameter changes.
**
** The kernel gets a parameter's operands as plain memory, so all of them must have the same
** order of elements. Operands in another order are copied, and copied back if they change.
*/
#include <string.h>

#include "autograd/graph.h"
#include "ops/common.h"

#define OP "_fused_step_"

typedef struct Rule {
  const char *name;
  int states, options, clocks;
} Rule;

enum {
#define X(family, options, clocks) OPTIONS_##family = options, CLOCKS_##family = clocks,
  TLK_OPTIM_FAMILIES(X)
#undef X
};

static const Rule rules[] = {
#define X(rule, family, states) {#rule, states, OPTIONS_##family, CLOCKS_##family},
    TLK_OPTIM_RULES(X)
#undef X
};

enum { PARAM, GRAD, STATE, MASTER = STATE + TLK_OPTIM_STATES, OPERANDS };

/* One parameter and the other operands of its step, such as the gradient and the states. Absent
** operands are NULL. */
typedef struct Item {
  tl_Tensor *given[OPERANDS]; /* borrowed */
  /* the operands themselves, or copies in another memory order (owned) */
  tl_Tensor *used[OPERANDS];
  tl_Tensor *const *clocks; /* borrowed */
} Item;

typedef struct Step {
  tlk_OptimRule rule;
  int64_t n;
  Item *items; /* owned */
  tl_Floats options;
  bool maximize;
  tl_Tensor *lr, *grad_scale, *found_inf, *clip; /* borrowed */
} Step;

/* ---- checks ------------------------------------------------------------------------ */

static bool find_rule(const char *name, tlk_OptimRule *rule) {
  for (int r = 0; r < TLK_NOPTIM_RULES; r++)
    if (strcmp(rules[r].name, name) == 0) {
      *rule = (tlk_OptimRule)r;
      return true;
    }
  return tli_fail(TL_EARG, OP ": rule: there is no '%s'", name);
}

static bool check_count(const char *list, int64_t n, int64_t expected) {
  return n == expected || tli_fail(TL_EARG, OP ": %s: expected %" PRId64 " of them, got %" PRId64,
                                   list, expected, n);
}

static bool check_counts(const Step *s, tl_Tensors grads, tl_Tensors states, tl_Tensors clocks,
                         tl_Tensors masters) {
  const Rule *r = &rules[s->rule];
  return (grads.n == 0 || check_count("grads", grads.n, s->n)) &&
         check_count("states", states.n, s->n * r->states) &&
         check_count("clocks", clocks.n, s->n * r->clocks) &&
         check_count("options", s->options.n, r->options) &&
         (masters.n == 0 || check_count("masters", masters.n, s->n));
}

static const char *const names[OPERANDS] = {
    [PARAM] = "params",     [GRAD] = "grads",       [STATE] = "states",
    [STATE + 1] = "states", [STATE + 2] = "states", [MASTER] = "masters"};

static bool check_operand(const Item *item, int64_t i, int k) {
  const tl_Tensor *t = item->given[k], *p = item->given[PARAM];
  tl_DType dtype = (tl_DType)t->dtype;
  if (!tli_is_float(dtype) || (k == MASTER && dtype != TL_F32))
    return tli_fail(TL_EDTYPE, OP ": %s of parameter " TLI_POS ": expected %s, got %s", names[k], i,
                    k == MASTER ? "float32" : "a floating dtype", tl_dtype_name(dtype));
  if (!tli_same_sizes(t, p))
    return tli_fail(TL_ESHAPE, OP ": %s of parameter " TLI_POS ": expected shape %s, got %s",
                    names[k], i, tli_sizes_str(p), tli_sizes_str(t));
  if (!tli_same_device(tli_device(t), tli_device(p)))
    return tli_fail(TL_EDEVICE, OP ": %s of parameter " TLI_POS ": expected one on %s, got %s",
                    names[k], i, tli_device_str(tli_device(p)), tli_device_str(tli_device(t)));
  return k == GRAD || tli_inplace_check(OP, t);
}

static bool check_item(const Step *s, const Item *item, int64_t i) {
  if (item->given[GRAD] == NULL)
    return tli_fail(TL_EARG, OP ": grads: parameter " TLI_POS " has no gradient", i);
  for (int k = 0; k < OPERANDS; k++)
    if (item->given[k]) TL_TRY(check_operand(item, i, k));
  for (int k = 0; k < rules[s->rule].clocks; k++) {
    const tl_Tensor *t = item->clocks[k];
    bool here = tli_device(t).type == TL_CPU ||
                tli_same_device(tli_device(t), tli_device(item->given[PARAM]));
    if (t->dtype != TL_F64 || t->numel != 1 || !here)
      return tli_fail(TL_EARG,
                      OP ": clocks of parameter " TLI_POS ": expected a float64 number "
                         "on the CPU or with the parameter, got %s %s on %s",
                      i, tl_dtype_name((tl_DType)t->dtype), tli_sizes_str(t),
                      tli_device_str(tli_device(t)));
  }
  return true;
}

/* Checks that t holds one float32 number. With `wide`, the number may also be float64. t may be
** NULL. */
static bool check_number(const char *name, const tl_Tensor *t, bool wide) {
  if (t == NULL || (t->numel == 1 && (t->dtype == TL_F32 || (wide && t->dtype == TL_F64))))
    return true;
  return tli_fail(TL_EARG, OP ": %s: expected a number in float32%s, got %s %s", name,
                  wide ? " or float64" : "", tl_dtype_name((tl_DType)t->dtype), tli_sizes_str(t));
}

/* ---- operands in the same order --------------------------------------------------------- */

static bool same_order(const tl_Tensor *a, const tl_Tensor *b) {
  if (tli_contiguous(a) && tli_contiguous(b)) return true;
  for (int d = 0; d < a->ndim; d++)
    if (a->sizes[d] > 1 && a->strides[d] != b->strides[d]) return false;
  return tli_dense(a) && tli_dense(b);
}

/* Returns t itself if it has the same memory order as the tensor `order`, and otherwise a copy of t
** in that memory order. */
static tl_Tensor *in_order(tl_Tensor *t, const tl_Tensor *order) {
  if (same_order(t, order)) return t;
  tl_Tensor *copy = tli_empty_like(order, (tl_DType)t->dtype);
  if (copy && !tli_copy(copy, t)) tli_release(copy), copy = NULL;
  return copy;
}

/* Brings all operands to the parameter's memory order or, if the parameter has gaps, to row-major
** order. */
static bool arrange(Item *item) {
  tl_Tensor *p = item->given[PARAM];
  tl_Tensor *order = tli_dense(p) ? tli_retain(p) : tli_empty_like(p, TL_BOOL);
  bool ok = order != NULL;
  for (int k = 0; k < OPERANDS && ok; k++)
    if (item->given[k]) ok = (item->used[k] = in_order(item->given[k], order)) != NULL;
  tli_release(order);
  return ok;
}

static bool is_plain(const Item *item) {
  for (int k = 0; k < OPERANDS; k++)
    if (item->given[k] && !tli_contiguous(item->given[k])) return false;
  return true;
}

static bool arrange_all(Step *s) {
  for (int64_t i = 0; i < s->n; i++) {
    Item *item = &s->items[i];
    if (is_plain(item))
      memcpy(item->used, item->given, sizeof item->used);
    else
      TL_TRY(arrange(item));
  }
  return true;
}

static void release_copies(Item *item) {
  for (int k = 0; k < OPERANDS; k++)
    if (item->used[k] != item->given[k]) tli_release(item->used[k]);
}

/* Copies operands back to the caller's tensors if they are copies that the step has changed. Marks
** the parameters, their states and their masters as changed. */
static bool finish(const Step *s) {
  for (int64_t i = 0; i < s->n; i++)
    for (int k = 0; k < OPERANDS; k++) {
      tl_Tensor *to = s->items[i].given[k], *from = s->items[i].used[k];
      if (k == GRAD || to == NULL) continue;
      if (to != from) TL_TRY(tli_copy(to, from));
      TL_TRY(tli_inplace_done(OP, to, NULL));
    }
  return true;
}

/* ---- kernels ------------------------------------------------------------------------ */

/* A run of parameters with the same device and the same dtypes: from index `first` up to, but not
** including, first + count. */
typedef struct Run {
  const Step *s;
  int64_t first;
  int count;
  tl_Device device;
  /* numbers that the step may use, as tensors on the device (borrowed); NULL if not used */
  tl_Tensor *lr, *grad_scale, *found_inf, *clip;
} Run;

static const float *data_or_null(const tl_Tensor *t) { return t ? tli_data(t) : NULL; }

static void set_operands(const Run *r, struct tlk_optim_step *call) {
  const Item *first = &r->s->items[r->first];
  int states = rules[r->s->rule].states;
  call->param = (tl_DType)first->used[PARAM]->dtype;
  call->grad = (tl_DType)first->used[GRAD]->dtype;
  call->state = states ? (tl_DType)first->used[STATE]->dtype : call->param;
  call->count = r->count;
  call->found_inf = data_or_null(r->found_inf);
  if (r->grad_scale) call->grad_scale = tli_array(r->grad_scale);
  if (r->clip) call->clip = tli_array(r->clip);
  for (int i = 0; i < r->count; i++) {
    const Item *item = &first[i];
    tlk_OptimTensor *t = &call->tensors[i];
    t->n = item->used[PARAM]->numel;
    t->param = tli_data(item->used[PARAM]);
    t->grad = tli_data(item->used[GRAD]);
    t->master = item->used[MASTER] ? tli_data(item->used[MASTER]) : NULL;
    for (int k = 0; k < TLK_OPTIM_STATES; k++)
      t->state[k] = k < states ? tli_data(item->used[STATE + k]) : NULL;
  }
}

static void set_clocks(const Run *r, struct tlk_optim_coefs *call) {
  call->rule = r->s->rule;
  call->maximize = r->s->maximize;
  call->count = r->count;
  memcpy(call->options, r->s->options.v, (size_t)r->s->options.n * sizeof(double));
  for (int i = 0; i < r->count; i++)
    for (int k = 0; k < rules[r->s->rule].clocks; k++)
      call->clocks[i][k] = tli_data(r->s->items[r->first + i].clocks[k]);
}

static bool step(const Run *r, struct tlk_optim_step *call) {
  call->cx = tli_context(r->device);
  call->rule = r->s->rule;
  set_operands(r, call);
  return tli_backend(r->device)->optim_step(call);
}

/* Runs the step for parameters whose step counts, and perhaps whose learning rate, are on the
** device. The device computes the coefficients from them. */
static bool run_on_device(const Run *r) {
  int64_t size = (int64_t)r->count * TLK_OPTIM_COEFS;
  tl_Tensor *made = tli_empty(TL_F64, r->device, 1, &size);
  TL_TRY(made);
  struct tlk_optim_coefs coefs = {.cx = tli_context(r->device), .coefs = tli_data(made)};
  coefs.found_inf = data_or_null(r->found_inf);
  if (r->lr) coefs.lr = tli_array(r->lr);
  set_clocks(r, &coefs);
  struct tlk_optim_step call = {.coefs = tli_data(made)};
  bool ok = tli_backend(r->device)->optim_coefs(&coefs) && step(r, &call);
  tli_release(made);
  return ok;
}

/* Runs the step with coefficients that the host computes. Adjacent parameters with equal
** coefficients share a kernel call, which gets the coefficients by value. */
static bool run_on_host(const Run *r, double lr) {
  bool skipped = r->device.type == TL_CPU && r->found_inf && *data_or_null(r->found_inf) != 0;
  if (skipped) return true;
  double table[TLK_OPTIM_TENSORS][TLK_OPTIM_COEFS];
  struct tlk_optim_coefs coefs = {.cx = tli_context(TLI_CPU), .coefs = table[0]};
  set_clocks(r, &coefs);
  coefs.options[0] = lr;
  TL_TRY(tli_backend(TLI_CPU)->optim_coefs(&coefs));
  for (int i = 0; i < r->count;) {
    int end = i + 1;
    while (end < r->count && memcmp(table[i], table[end], sizeof table[i]) == 0) end++;
    Run part = *r;
    part.first += i;
    part.count = end - i;
    struct tlk_optim_step call = {.coefs = NULL};
    memcpy(call.same, table[i], sizeof call.same);
    TL_TRY(step(&part, &call));
    i = end;
  }
  return true;
}

/* ---- groups of parameters ------------------------------------------------------------------ */

static bool clocks_on(const Step *s, const Item *item, tl_Device device) {
  return rules[s->rule].clocks > 0 && tli_same_device(tli_device(item->clocks[0]), device);
}

/* Returns whether parameters a and b can be in the same kernel call. */
static bool alike(const Step *s, const Item *a, const Item *b) {
  for (int k = 0; k < OPERANDS; k++)
    if (a->used[k] && a->used[k]->dtype != b->used[k]->dtype) return false;
  tl_Device device = tli_device(a->used[PARAM]);
  return tli_same_device(device, tli_device(b->used[PARAM])) &&
         clocks_on(s, a, device) == clocks_on(s, b, device);
}

/* Returns whether the device of the parameters computes the coefficients. The device computes them
** if it stores the step counts or, for a rule without step counts, if it stores the learning
** rate. */
static bool device_computes(const Step *s, const Item *item, tl_Device device) {
  if (device.type == TL_CPU) return false;
  if (rules[s->rule].clocks > 0) return clocks_on(s, item, device);
  return s->lr && tli_device(s->lr).type != TL_CPU;
}

/* Sets *out to a new reference to the number t on the given device, or to NULL if t is NULL. */
static bool number_on(tl_Tensor *t, tl_Device device, tl_Tensor **out) {
  *out = NULL;
  return t == NULL || (*out = tli_moved(t, device, true)) != NULL;
}

static bool fail_found_inf(void) {
  return tli_fail(TL_EARG, OP ": found_inf: expected clocks on the device of the parameters, "
                              "which tells later whether they advance; set capturable");
}

static bool run(Run *r) {
  const Step *s = r->s;
  const Item *first = &s->items[r->first];
  bool there = device_computes(s, first, r->device);
  if (s->found_inf && !there && r->device.type != TL_CPU && rules[s->rule].clocks > 0)
    return fail_found_inf();
  tl_Tensor *t[4];
  bool ok = number_on(there ? s->lr : NULL, r->device, &t[0]);
  ok = number_on(s->grad_scale, r->device, &t[1]) && ok;
  ok = number_on(s->found_inf, r->device, &t[2]) && ok;
  ok = number_on(s->clip, r->device, &t[3]) && ok;
  r->lr = t[0], r->grad_scale = t[1], r->found_inf = t[2], r->clip = t[3];
  tl_Scalar lr = tli_float(s->options.n > 0 ? s->options.v[0] : 0);
  if (ok && !there && s->lr) ok = tli_read_scalar(s->lr, &lr);
  ok = ok && (there ? run_on_device(r) : run_on_host(r, tli_to_double(lr)));
  for (int i = 0; i < 4; i++) tli_release(t[i]);
  return ok;
}

static bool run_all(const Step *s) {
  for (int64_t i = 0; i < s->n;) {
    Run r = {.s = s, .first = i, .device = tli_device(s->items[i].used[PARAM])};
    while (i < s->n && r.count < TLK_OPTIM_TENSORS && alike(s, &s->items[r.first], &s->items[i]))
      r.count++, i++;
    TL_TRY(run(&r));
  }
  return true;
}

/* ---- the operator --------------------------------------------------------------------- */

/* Fails for a sparse gradient, because the kernel requires dense ones. */
static bool check_dense(const tl_Tensor *grad) {
  if (grad == NULL || !tli_is_sparse_grad(grad)) return true;
  return tli_fail(TL_EARG, "step: expected dense gradients, got a sparse one: SparseAdam, SGD and "
                           "Adagrad take sparse gradients");
}

static tl_Tensor *own_grad(const tl_Tensor *t) { return t->autograd ? t->autograd->grad : NULL; }

static void set_item(const Step *s, Item *item, int64_t i, tl_Tensors params, tl_Tensors grads,
                     tl_Tensors states, tl_Tensors clocks, tl_Tensors masters) {
  const Rule *r = &rules[s->rule];
  memset(item, 0, sizeof *item);
  item->given[PARAM] = params.v[i];
  item->given[GRAD] = grads.n ? grads.v[i] : own_grad(params.v[i]);
  for (int k = 0; k < r->states; k++) item->given[STATE + k] = states.v[i * r->states + k];
  item->given[MASTER] = masters.n ? masters.v[i] : NULL;
  item->clocks = clocks.v + i * r->clocks;
}

/* ---- complex parameters, whose parts are stepped as real numbers ----------------------------- */

/* Replaces each complex tensor of a list by a real view, which has the real and imaginary parts in
** a new last dimension. Replaces each other tensor by a new reference. NULL stays NULL. Fails only
** if memory is exhausted. */
static bool real_views(tl_Tensors *list, bool own_grads) {
  if (list->n == 0) return true;
  tl_Tensors views = tli_tensors_new(list->n);
  TL_TRY(views.v);
  bool ok = true;
  for (int64_t i = 0; ok && i < list->n; i++) {
    tl_Tensor *t = own_grads ? own_grad(list->v[i]) : list->v[i];
    if (t == NULL) continue;
    bool complex = tli_is_complex((tl_DType)t->dtype);
    ok = (views.v[i] = complex ? tli_op_view_as_real(t) : tli_retain(t)) != NULL;
  }
  if (!ok) tli_tensors_free(&views);
  *list = views;
  return ok;
}

static bool step_parts(tl_Tensors params, tl_Tensors grads, tl_Tensors states, tl_Tensors clocks,
                       const char *rule, tl_Floats options, tl_Tensor *lr, bool maximize,
                       tl_Tensors masters, tl_Tensor *grad_scale, tl_Tensor *found_inf,
                       tl_Tensor *clip) {
  for (int64_t i = 0; i < params.n; i++) TL_TRY(tli_inplace_check(OP, params.v[i]));
  tl_Tensors lists[] = {params, grads.n ? grads : params, states};
  bool ok = true;
  int made = 0;
  for (; ok && made < 3; made++) ok = real_views(&lists[made], made == 1 && grads.n == 0);
  ok = ok && tlo__fused_step_(lists[0], lists[1], lists[2], clocks, rule, options, lr, maximize,
                              masters, grad_scale, found_inf, clip);
  for (int i = 0; i < made; i++)
    if (i < 2 || states.n) tli_tensors_free(&lists[i]);
  return ok;
}

bool tlo__fused_step_(tl_Tensors params, tl_Tensors grads, tl_Tensors states, tl_Tensors clocks,
                      const char *rule, tl_Floats options, tl_Tensor *lr, bool maximize,
                      tl_Tensors masters, tl_Tensor *grad_scale, tl_Tensor *found_inf,
                      tl_Tensor *clip) {
  if (tli_any_complex(params.v, (int)params.n))
    return step_parts(params, grads, states, clocks, rule, options, lr, maximize, masters,
                      grad_scale, found_inf, clip);
  Step s = {.n = params.n,
            .options = options,
            .maximize = maximize,
            .lr = lr,
            .grad_scale = grad_scale,
            .found_inf = found_inf,
            .clip = clip};
  TL_TRY(find_rule(rule, &s.rule) && check_counts(&s, grads, states, clocks, masters));
  TL_TRY(check_number("lr", lr, true) && check_number("grad_scale", grad_scale, true) &&
         check_number("found_inf", found_inf, false) && check_number("clip", clip, true));
  if (s.n == 0) return true;
  size_t bytes = (size_t)s.n * sizeof(Item);
  TL_TRY(s.items = tli_alloc(bytes));
  for (int64_t i = 0; i < s.n; i++)
    set_item(&s, &s.items[i], i, params, grads, states, clocks, masters);
  bool ok = true;
  for (int64_t i = 0; i < s.n && ok; i++) ok = check_dense(s.items[i].given[GRAD]);
  for (int64_t i = 0; i < s.n && ok; i++) ok = check_item(&s, &s.items[i], i);
  ok = ok && arrange_all(&s) && run_all(&s) && finish(&s);
  for (int64_t i = 0; i < s.n; i++) release_copies(&s.items[i]);
  tli_free(s.items, bytes);
  return ok;
}
