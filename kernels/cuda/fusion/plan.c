/*
** plan.c - which calls make one loop. Their shapes are brought to the dimensions that all of
** them are made of. What two calls work on must be the same elements for the same turn of the
** loop, or have no byte in common: then each turn may do all calls one after the other.
*/
#include <string.h>

#include "kernels/cuda/fusion/fusion.h"

static int64_t bytes_of(tl_DType dtype) {
  static const int8_t bytes[] = {
#define X(name, text, size, ...) size,
      TL_DTYPES(X, )
#undef X
  };
  return bytes[dtype];
}

/* ---- shapes ------------------------------------------------------------------------------- */

/* Sizes of which both of two shapes are made; of each the dimension that it is a part of, and
** how many elements of that dimension one step is. */
typedef struct Common {
  int ndim;
  int64_t sizes[FUSION_DIMS];
  int of[2][FUSION_DIMS];
  int64_t step[2][FUSION_DIMS];
} Common;

static bool find_common(const int64_t *a, int na, const int64_t *b, int nb, Common *out) {
  const int64_t *sizes[] = {a, b};
  int n[] = {na, nb}, at[] = {0, 0};
  int64_t step[] = {1, 1}; /* within the dimension that each is at */
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

/* Dimensions of size 1 tell nothing. */
static int without_ones(const tli_Iter *it, int64_t *sizes, int *from) {
  int n = 0;
  for (int d = 0; d < it->ndim; d++) {
    if (it->sizes[d] == 1) continue;
    sizes[n] = it->sizes[d];
    from[n++] = d;
  }
  return n;
}

/* ---- operands --------------------------------------------------------------------------------- */

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

static bool overlap(const fusion_Operand *a, const fusion_Operand *b) {
  return a->data && b->data && a->low < b->high && b->low < a->high;
}

/* Whether the kernel will read or write the operand's memory. */
static bool touches(const fusion_Operand *o) { return o->loaded || (o->written && !o->dead); }

/* Whether no two turns of the loop write one element: each stride leaves room for all that the
** smaller ones span. */
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
    if (i != own && matters && overlap(o, other)) return false;
  }
  return true;
}

/* The operand's number in the plan; -1 where it does not fit. */
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

/* ---- calls ---------------------------------------------------------------------------------------- */

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

static bool describe(fusion_Step *step, fusion_Kind kind, const void *call) {
  *step = (fusion_Step){.kind = kind};
  if (kind == FUSION_FILL) {
    const struct tlk_fill *fill = call;
    step->params[0].i64 = cuda_fill_pattern(fill->it.args[0].dtype, &fill->value);
  }
  if (kind != FUSION_POINTWISE) return true;
  const struct tlk_pointwise *p = call;
  step->kernel = p->kernel;
  step->compute = p->compute;
  for (int i = 0; i < FUSION_PARAMS; i++) step->params[i] = number_as(&p->params[i], p->compute);
  return !fusion_divides(p->kernel, p->compute);
}

/* Brings the plan to the dimensions that it has in common with a call; those are in `common`. */
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
                          int ndim, const int *from) {
  const tli_IterArg *a = &it->args[k];
  fusion_Operand o = {.data = a->data, .number = a->data ? 0 : a->number, .dtype = a->dtype};
  int64_t strides[TL_MAX_DIMS] = {0};
  for (int d = 0; d < ndim && a->data; d++) strides[d] = a->strides[from[d]];
  spread(common, 1, strides, o.strides);
  return enter(plan, &o, k == 0);
}

/* The calls begin alike. */
_Static_assert(offsetof(struct tlk_pointwise, it) == offsetof(struct tlk_copy, it), "");
_Static_assert(offsetof(struct tlk_fill, it) == offsetof(struct tlk_copy, it), "");

static bool add(fusion_Plan *plan, fusion_Kind kind, const void *call) {
  const tli_Iter *it = &((const struct tlk_copy *)call)->it;
  int64_t sizes[TL_MAX_DIMS];
  int from[TL_MAX_DIMS] = {0}, ndim = without_ones(it, sizes, from);
  fusion_Step *step = &plan->steps[plan->nsteps];
  Common common = {0};
  if (plan->nsteps == FUSION_STEPS || it->numel < 1 || it->numel > INT32_MAX) return false;
  if (it->nargs > 4 || !describe(step, kind, call)) return false;
  if (!meet_shape(plan, sizes, ndim, it->numel, &common)) return false;
  step->inputs = it->nargs - 1;
  for (int k = 1; k < it->nargs; k++)
    if ((step->in[k - 1] = enter_argument(plan, it, k, &common, ndim, from)) < 0) return false;
  if ((step->out = enter_argument(plan, it, 0, &common, ndim, from)) < 0) return false;
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
