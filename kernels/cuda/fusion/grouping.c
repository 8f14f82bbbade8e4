/*
** grouping.c - decides which calls share one loop. The shapes of the calls are split into
** dimensions that all calls have. If operands of two calls overlap, they must be the same elements
** in each iteration of the loop. Then each iteration can run all calls, one after another.
*/
#include <string.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/random/drop.h"

static int64_t bytes_of(tl_DType dtype) {
  static const int8_t bytes[] = {
#define X(name, text, size, ...) size,
      TL_DTYPES(X, )
#undef X
  };
  return bytes[dtype];
}

/* ---- shapes ------------------------------------------------------------------------------- */

/* The common dimensions of two shapes. Dimension d is a part of dimension of[k][d] of shape k; its
** stride within that dimension is step[k][d] elements. */
typedef struct Common {
  int ndim;
  int64_t sizes[FUSION_DIMS];
  int of[2][FUSION_DIMS];
  int64_t step[2][FUSION_DIMS];
} Common;

static bool find_common(const int64_t *a, int na, const int64_t *b, int nb, Common *out) {
  const int64_t *sizes[] = {a, b};
  int n[] = {na, nb}, at[] = {0, 0};
  /* for each shape, the stride within the current dimension, in elements */
  int64_t step[] = {1, 1};
  for (out->ndim = 0; at[0] < n[0] && at[1] < n[1]; out->ndim++) {
    int64_t left[] = {sizes[0][at[0]] / step[0], sizes[1][at[1]] / step[1]};
    int64_t size = left[0] < left[1] ? left[0] : left[1];
    if (out->ndim == FUSION_DIMS || left[0] % size != 0 || left[1] % size != 0) return false;
    out->sizes[out->ndim] = size;
    for (int k = 0; k < 2; k++) {
      out->of[k][out->ndim] = at[k];
      out->step[k][out->ndim] = step[k];
      step[k] = left[k] == size ? 1 : step[k] * size;
      at[k] += left[k] == size;
    }
  }
  return at[0] == n[0] && at[1] == n[1];
}

static void spread(const Common *c, int which, const int64_t *strides, int64_t *out) {
  int64_t spread_out[FUSION_DIMS] = {0};
  for (int d = 0; d < c->ndim; d++) spread_out[d] = strides[c->of[which][d]] * c->step[which][d];
  memcpy(out, spread_out, sizeof spread_out);
}

/* Copies all sizes other than 1 to `sizes` and their dimensions to `from`; returns their number. */
static int without_ones(const tli_Iter *it, int64_t *sizes, int *from) {
  int n = 0;
  for (int d = 0; d < it->ndim; d++) {
    if (it->sizes[d] == 1) continue;
    sizes[n] = it->sizes[d];
    from[n++] = d;
  }
  return n;
}

/* ---- operands -------------------------------------------------------------------------------- */

static void measure(fusion_Operand *o, const fusion_Plan *plan) {
  if (o->data == NULL) return;
  int64_t low = 0, high = bytes_of(o->dtype);
  for (int d = 0; d < plan->ndim; d++) {
    int64_t reach = (plan->sizes[d] - 1) * o->strides[d];
    *(reach < 0 ? &low : &high) += reach;
  }
  o->low = o->data + low;
  o->high = o->data + high;
}

static bool same(const fusion_Operand *a, const fusion_Operand *b, int ndim) {
  if (a->data != b->data || a->dtype != b->dtype) return false;
  if (a->data == NULL) return a->number == b->number;
  return memcmp(a->strides, b->strides, (size_t)ndim * sizeof *a->strides) == 0;
}

/* Returns the number of bytes that the strides smaller than `step` span. Returns 0 if another
** stride is negative or not a multiple of `step`. */
static int64_t span_below(const fusion_Operand *o, const fusion_Plan *plan, int64_t step) {
  int64_t span = bytes_of(o->dtype);
  for (int d = 0; d < plan->ndim; d++) {
    if (o->strides[d] < 0 || (o->strides[d] >= step && o->strides[d] % step != 0)) return 0;
    if (o->strides[d] < step) span += (plan->sizes[d] - 1) * o->strides[d];
  }
  return span;
}

/* Returns whether two operands use different parts of each group of `step` bytes, such as the two
** halves of each row or the two elements of each pair. */
static bool alternate(const fusion_Operand *a, const fusion_Operand *b, const fusion_Plan *plan,
                      int64_t step) {
  int64_t span_a = span_below(a, plan, step), span_b = span_below(b, plan, step);
  int64_t from_a = (b->data - a->data) % step;
  if (from_a < 0) from_a += step;
  return span_a > 0 && span_b > 0 && span_a <= from_a && from_a + span_b <= step;
}

static bool overlap(const fusion_Operand *a, const fusion_Operand *b, const fusion_Plan *plan) {
  bool apart = !a->data || !b->data || a->low >= b->high || b->low >= a->high;
  for (int d = 0; !apart && d < plan->ndim; d++)
    apart = a->strides[d] > 0 && alternate(a, b, plan, a->strides[d]);
  return !apart;
}

/* Returns whether the kernel will read or write the operand's memory. */
static bool touches(const fusion_Operand *o) { return o->loaded || (o->written && !o->dead); }

/* Returns whether no two iterations write to the same element. This holds if each stride is at
** least as large as the span of the smaller strides. */
static bool apart(const fusion_Operand *o, const fusion_Plan *plan) {
  int64_t span = bytes_of(o->dtype);
  unsigned done = 0;
  for (int n = 0; n < plan->ndim; n++) {
    int next = 0;
    while (done >> next & 1) next++;
    for (int d = next + 1; d < plan->ndim; d++)
      if (!(done >> d & 1) && o->strides[d] < o->strides[next]) next = d;
    if (o->strides[next] < span) return false;
    span += (plan->sizes[next] - 1) * o->strides[next];
    done |= 1u << next;
  }
  return true;
}

static bool may_share(const fusion_Plan *plan, const fusion_Operand *o, int own, bool written) {
  for (int i = 0; i < plan->noperands; i++) {
    const fusion_Operand *other = &plan->operands[i];
    bool matters = written ? touches(other) : other->written && touches(other);
    if (i != own && matters && overlap(o, other, plan)) return false;
  }
  return true;
}

/* Returns the index of the operand in the plan, to which it is added if necessary. Returns -1 if
** the plan has no room for it, or if a single loop cannot use it because elements overlap. */
static int enter(fusion_Plan *plan, fusion_Operand *o, bool written) {
  int at = 0;
  measure(o, plan);
  while (at < plan->noperands && !same(&plan->operands[at], o, plan->ndim)) at++;
  if (at == FUSION_OPERANDS || !may_share(plan, o, at, written)) return -1;
  if (written && (o->data == NULL || !apart(o, plan))) return -1;
  if (at == plan->noperands) {
    plan->operands[plan->noperands++] = *o;
    plan->operands[at].loaded = !written && o->data;
  }
  if (written) {
    plan->operands[at].written = true;
    plan->operands[at].dead = false;
  }
  return at;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static fusion_Number number_as(const tl_Scalar *s, tl_DType dtype) {
  fusion_Number n = {0};
  double real = s->kind == TL_FLOATING ? s->f : (double)s->i;
  int64_t whole = s->kind == TL_FLOATING ? (int64_t)s->f : s->i;
  if (dtype == TL_F64)
    n.f64 = real;
  else if (dtype == TL_F32)
    n.f32 = (float)real;
  else if (dtype == TL_I64)
    n.i64 = whole;
  else
    n.i32 = (int32_t)whole;
  return n;
}

static void describe_dropout(fusion_Step *step, const struct tlk_dropout *call) {
  step->compute = call->in.dtype == TL_F64 ? TL_F64 : TL_F32;
  step->params[0] =
      number_as(&(tl_Scalar){.kind = TL_FLOATING, .f = tlk_drop_scale(call->p)}, step->compute);
  step->params[1].i64 = (int64_t)tlk_drop_below(call->p);
  step->params[2].i64 = (int64_t)call->block;
  step->params[3].i64 = (int64_t)(uintptr_t)call->state;
}

static void describe_pointwise(fusion_Step *step, const struct tlk_pointwise *call) {
  step->kernel = (int)call->kernel;
  step->compute = call->compute;
  step->source = call->source;
  for (int i = 0; i < FUSION_PARAMS; i++)
    step->params[i] = number_as(&call->params[i], call->compute);
}

static void describe(fusion_Step *step, fusion_Kind kind, const void *call) {
  *step = (fusion_Step){.kind = kind, .outputs = 1};
  if (kind == FUSION_POINTWISE) {
    describe_pointwise(step, call);
  } else if (kind == FUSION_FILL) {
    const struct tlk_fill *fill = call;
    step->params[0].i64 = cuda_fill_pattern(fill->it.args[0].dtype, &fill->value);
  } else if (kind == FUSION_DROPOUT) {
    describe_dropout(step, call);
  } else if (kind == FUSION_FUSED) {
    static const int8_t outputs[] = {
#define X(name, outs, inputs) outs,
        TLK_FUSED(X)
#undef X
    };
    const struct tlk_fused *fused = call;
    step->kernel = (int)fused->kernel;
    step->compute = fused->compute;
    step->outputs = outputs[fused->kernel];
  }
}

static tli_IterArg flat(const tlk_Array *array) {
  return (tli_IterArg){
      .data = array->data, .dtype = array->dtype, .strides = {bytes_of(array->dtype)}};
}

/* Returns the loop of a dropout; its operands are out, in and the residual. */
static tli_Iter loop_of_dropout(const struct tlk_dropout *call) {
  tli_Iter it = {.nargs = 2, .ndim = 1, .numel = call->n, .sizes = {call->n}};
  it.args[0] = flat(&call->out);
  it.args[1] = flat(&call->in);
  if (call->residual.data) it.args[it.nargs++] = flat(&call->residual);
  return it;
}

/* Splits the dimensions of the plan and of a call into common dimensions, and stores them in
** `common`. */
static bool meet_shape(fusion_Plan *plan, const int64_t *sizes, int ndim, int64_t numel,
                       Common *common) {
  if (plan->nsteps == 0) {
    if (ndim > FUSION_DIMS) return false;
    plan->numel = numel;
    plan->ndim = ndim;
    memcpy(plan->sizes, sizes, (size_t)ndim * sizeof *sizes);
  }
  if (plan->numel != numel || !find_common(plan->sizes, plan->ndim, sizes, ndim, common))
    return false;
  for (int i = 0; i < plan->noperands; i++)
    spread(common, 0, plan->operands[i].strides, plan->operands[i].strides);
  plan->ndim = common->ndim;
  memcpy(plan->sizes, common->sizes, sizeof plan->sizes);
  return true;
}

static int enter_argument(fusion_Plan *plan, const tli_Iter *it, int k, const Common *common,
                          int ndim, const int *from, bool written) {
  const tli_IterArg *a = &it->args[k];
  /* the kernels of chains compute only real numbers */
  if (a->dtype == TL_C64 || a->dtype == TL_C128) return -1;
  fusion_Operand o = {.data = a->data, .number = a->data ? 0 : a->number, .dtype = a->dtype};
  int64_t strides[TL_MAX_DIMS] = {0};
  for (int d = 0; d < ndim && a->data; d++) strides[d] = a->strides[from[d]];
  spread(common, 1, strides, o.strides);
  return enter(plan, &o, written);
}

static bool add_loop(fusion_Plan *plan, const tli_Iter *it, fusion_Step *step) {
  int64_t sizes[TL_MAX_DIMS];
  int from[TL_MAX_DIMS] = {0}, ndim = without_ones(it, sizes, from), m = step->outputs;
  Common common = {0};
  step->inputs = it->nargs - m;
  if (it->numel < 1 || it->numel > INT32_MAX || step->inputs > FUSION_INPUTS) return false;
  if (!meet_shape(plan, sizes, ndim, it->numel, &common)) return false;
  for (int k = 0; k < step->inputs; k++)
    if ((step->in[k] = enter_argument(plan, it, m + k, &common, ndim, from, false)) < 0)
      return false;
  for (int k = 0; k < m; k++)
    if ((step->out[k] = enter_argument(plan, it, k, &common, ndim, from, true)) < 0) return false;
  return m == 1 || step->out[0] != step->out[1];
}

/* a call's loop is read without knowing which kind of call it is */
_Static_assert(offsetof(struct tlk_pointwise, it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_fused, it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_fill, it) == offsetof(struct tlk_copy, it), "");

static bool add(fusion_Plan *plan, fusion_Kind kind, const void *call) {
  fusion_Step *step = &plan->steps[plan->nsteps];
  tli_Iter made;
  const tli_Iter *it = &((const struct tlk_copy *)call)->it;
  if (plan->nsteps == FUSION_STEPS) return false;
  describe(step, kind, call);
  if (kind == FUSION_DROPOUT) {
    if (((const struct tlk_dropout *)call)->state == NULL) return false;
    made = loop_of_dropout(call);
    it = &made;
  }
  if (!add_loop(plan, it, step)) return false;
  plan->nsteps++;
  return true;
}

bool fusion_add(fusion_Plan *plan, fusion_Kind kind, const void *call) {
  fusion_Plan next = *plan;
  if (!add(&next, kind, call)) return false;
  *plan = next;
  return true;
}

void fusion_forget(fusion_Plan *plan, const char *data, int64_t bytes) {
  for (int i = 0; i < plan->noperands; i++) {
    fusion_Operand *o = &plan->operands[i];
    if (o->written && o->low >= data && o->high <= data + bytes) o->dead = true;
  }
}

bool fusion_keeps(const fusion_Plan *plan) {
  for (int s = 1; s < plan->nsteps; s++)
    for (int k = 0; k < plan->steps[s].inputs; k++) {
      const fusion_Operand *o = &plan->operands[plan->steps[s].in[k]];
      if (o->written && !o->dead) return true;
    }
  return false;
}

static bool follow_on(const fusion_Plan *plan, int d) {
  for (int i = 0; i < plan->noperands; i++) {
    const fusion_Operand *o = &plan->operands[i];
    if (o->data && o->strides[d + 1] != o->strides[d] * plan->sizes[d]) return false;
  }
  return true;
}

void fusion_merge(fusion_Plan *plan) {
  for (int d = 0; d + 1 < plan->ndim;) {
    if (!follow_on(plan, d)) {
      d++;
      continue;
    }
    plan->sizes[d] *= plan->sizes[d + 1];
    plan->ndim--;
    for (int e = d + 1; e < plan->ndim; e++) {
      plan->sizes[e] = plan->sizes[e + 1];
      for (int i = 0; i < plan->noperands; i++)
        plan->operands[i].strides[e] = plan->operands[i].strides[e + 1];
    }
  }
}
