/*
** tensor_lists.c - operators on lists of tensors: their norm, clipping, and scaling in place. A
** kernel call takes as many tensors as its parameters can hold, as plain memory. Tensors with gaps
** between their elements are copied, and copied back if they change.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

/* ---- lists --------------------------------------------------------------------------- */

typedef struct List {
  const char *op;
  int64_t n;
  tl_Tensor *const *given; /* borrowed */
  /* the given tensors or row-major copies; both the array and the references are owned */
  tl_Tensor **used;
} List;

static bool list_fill(List *l) {
  for (int64_t i = 0; i < l->n; i++) {
    tl_Tensor *t = l->given[i];
    if (!tli_is_float((tl_DType)t->dtype))
      return tli_fail(TL_EDTYPE, "%s: tensors[" TLI_POS "]: expected a floating dtype, got %s",
                      l->op, i, tl_dtype_name((tl_DType)t->dtype));
    l->used[i] = tli_dense(t) ? tli_retain(t) : tli_contiguous_as(t, (tl_DType)t->dtype);
    TL_TRY(l->used[i]);
  }
  return true;
}

static void list_end(List *l) {
  if (l->used == NULL) return;
  for (int64_t i = 0; i < l->n; i++) tli_release(l->used[i]);
  tli_free(l->used, (size_t)l->n * sizeof *l->used);
}

static bool list_begin(List *l, const char *op, tl_Tensors tensors) {
  *l = (List){.op = op, .n = tensors.n, .given = tensors.v};
  if (l->n == 0) return true;
  TL_TRY(l->used = tli_alloc((size_t)l->n * sizeof *l->used));
  memset(l->used, 0, (size_t)l->n * sizeof *l->used);
  if (list_fill(l)) return true;
  list_end(l);
  return false;
}

/* Returns how many tensors from index `first` on can be in one kernel call. Tensors of one call
** have the same device and dtype. */
static int list_run(const List *l, int64_t first) {
  int n = 0;
  const tl_Tensor *a = l->used[first];
  for (int64_t i = first; i < l->n && n < TLK_LIST_TENSORS; i++, n++) {
    const tl_Tensor *b = l->used[i];
    if (a->dtype != b->dtype || !tli_same_device(tli_device(a), tli_device(b))) break;
  }
  return n;
}

/* Returns a new list in which fn(tensor), a real tensor, replaces each complex tensor. Records
** nothing for autograd. Returns an empty list after a failure. */
static tl_Tensors made_real(tl_Tensors tensors, tl_Tensor *(*fn)(tl_Tensor *)) {
  tl_Tensors list = tli_tensors_new(tensors.n);
  bool mode = tli_set_grad_mode(false), ok = list.v != NULL;
  for (int64_t i = 0; ok && i < list.n; i++) {
    tl_Tensor *t = tensors.v[i];
    ok = (list.v[i] = tli_is_complex((tl_DType)t->dtype) ? fn(t) : tli_retain(t)) != NULL;
  }
  tli_set_grad_mode(mode);
  if (!ok) tli_tensors_free(&list);
  return list;
}

static bool any_complex(tl_Tensors list) { return tli_any_complex(list.v, (int)list.n); }

/* ---- the norm ------------------------------------------------------------------------ */

/* The kernel and the reduction that compute a norm: the kernel computes partial results, and the
** reduction combines them. */
typedef struct Norm {
  double p;
  tlk_Reduction part, whole;
} Norm;

static Norm norm_of(double p) {
  if (p == 0) return (Norm){p, TLK_reduction_count_nonzero, TLK_reduction_sum};
  if (p == 1) return (Norm){p, TLK_reduction_sum_abs, TLK_reduction_sum};
  if (p == 2) return (Norm){p, TLK_reduction_sum_square, TLK_reduction_sum};
  if (p == INFINITY) return (Norm){p, TLK_reduction_amax_abs, TLK_reduction_amax};
  if (p == -INFINITY) return (Norm){p, TLK_reduction_amin_abs, TLK_reduction_amin};
  return (Norm){p, TLK_reduction_sum_power, TLK_reduction_sum};
}

static int64_t parts_of(const tl_Tensor *t) {
  return (t->numel + TLK_LIST_PART - 1) / TLK_LIST_PART;
}

static bool reduce_run(const List *l, const Norm *norm, int64_t first, int count,
                       double *partials) {
  struct tlk_list_reduce call = {.cx = tli_context(tli_device(l->used[first])),
                                 .kernel = norm->part,
                                 .params = {tli_float(norm->p)},
                                 .dtype = (tl_DType)l->used[first]->dtype,
                                 .count = count,
                                 .partials = partials};
  int64_t parts = 0;
  for (int i = 0; i < count; i++) {
    const tl_Tensor *t = l->used[first + i];
    call.data[i] = tli_data(t);
    call.n[i] = t->numel;
    call.first[i] = parts;
    parts += parts_of(t);
  }
  return tli_backend(tli_device(l->used[first]))->list_reduce(&call);
}

/* Returns the partial results for tensors [first, end) as a new vector. These tensors must be on
** one device. */
static tl_Tensor *reduce_device(const List *l, const Norm *norm, int64_t first, int64_t end) {
  int64_t parts = 0;
  for (int64_t i = first; i < end; i++) parts += parts_of(l->used[i]);
  tl_Tensor *partials = tli_empty(TL_F64, tli_device(l->used[first]), 1, &parts);
  TL_TRY_NULL(partials);
  double *at = tli_data(partials);
  bool ok = true;
  for (int64_t i = first; i < end && ok;) {
    int count = list_run(l, i);
    ok = reduce_run(l, norm, i, count, at);
    for (int64_t next = i + count; i < next; i++) at += parts_of(l->used[i]);
  }
  if (!ok) tli_release(partials), partials = NULL;
  return partials;
}

/* Returns the index of the next tensor after `first` that is on another device, or the number of
** tensors if there is none. */
static int64_t device_end(const List *l, int64_t first) {
  tl_Device device = tli_device(l->used[first]);
  int64_t end = first + 1;
  while (end < l->n && tli_same_device(device, tli_device(l->used[end]))) end++;
  return end;
}

/* Returns the partial results of all tensors as one vector, which is on the first tensor's
** device. */
static tl_Tensor *reduce_all(const List *l, const Norm *norm) {
  if (device_end(l, 0) == l->n) return reduce_device(l, norm, 0, l->n);
  tl_Tensors vectors = tli_tensors_new(l->n);
  if (vectors.v == NULL) return NULL;
  int64_t n = 0;
  bool ok = true;
  for (int64_t i = 0, end; i < l->n && ok; n++, i = end) {
    end = device_end(l, i);
    tl_Tensor *made = reduce_device(l, norm, i, end);
    ok = made && (vectors.v[n] = tli_moved(made, tli_device(l->used[0]), false)) != NULL;
    tli_release(made);
  }
  tl_Tensor *all = ok ? tlo_cat((tl_Tensors){n, vectors.v}, 0) : NULL;
  tli_tensors_free(&vectors);
  return all;
}

/* Reduces a float64 vector of partial results to a 0-d tensor. */
static tl_Tensor *join(const tl_Tensor *parts, tlk_Reduction whole) {
  tl_Device device = tli_device(parts);
  tl_Tensor *made = tli_empty(TL_F64, device, 0, NULL);
  bool ok =
      made && TLI_RUN(device, reduce, .kernel = whole, .compute = TL_F64, .out = tli_array(made),
                      .in = tli_array(parts), .outer = 1, .n = parts->numel, .inner = 1);
  if (!ok) tli_release(made), made = NULL;
  return made;
}

static tl_Tensor *root(tl_Tensor *sum, double p) {
  if (p == 2) return tlo_sqrt(sum);
  if (p == 0 || p == 1 || fabs(p) == INFINITY) return tli_retain(sum);
  return tli_with_number(tlo_pow, sum, tli_float(1 / p));
}

/* Returns the dtype of a norm over all tensors: float64 if one of them has it, otherwise
** float32. */
static tl_DType dtype_of_norm(tl_Tensors tensors) {
  for (int64_t i = 0; i < tensors.n; i++)
    if (tensors.v[i]->dtype == TL_F64) return TL_F64;
  return TL_F32;
}

tl_Tensor *tlo__total_norm(tl_Tensors tensors, tl_Scalar norm_type) {
  if (any_complex(tensors)) {
    tl_Tensors sizes = made_real(tensors, tlo_abs);
    tl_Tensor *result = sizes.v ? tlo__total_norm(sizes, norm_type) : NULL;
    tli_tensors_free(&sizes);
    return result;
  }
  Norm norm = norm_of(tli_to_double(norm_type));
  tl_DType dtype = dtype_of_norm(tensors);
  if (tensors.n == 0) return tli_scalar_tensor(tli_float(0), dtype, tli_default_device());
  List l;
  TL_TRY_NULL(list_begin(&l, "_total_norm", tensors));
  tli_Chain c = {0};
  tl_Tensor *parts = TLI_STEP(&c, reduce_all(&l, &norm));
  tl_Tensor *whole = TLI_STEP(&c, join(parts, norm.whole));
  tl_Tensor *made = TLI_STEP(&c, root(whole, norm.p));
  list_end(&l);
  return tli_chain_end(&c, chain_to(&c, made, dtype));
}

static bool check_number(const char *op, const char *name, const tl_Tensor *t) {
  return (t->numel == 1 && (t->dtype == TL_F32 || t->dtype == TL_F64)) ||
         tli_fail(TL_EARG, "%s: %s: expected a number in float32 or float64, got %s %s", op, name,
                  tl_dtype_name((tl_DType)t->dtype), tli_sizes_str(t));
}

/* ---- clipping ------------------------------------------------------------------------ */

#define CLIP "_clip_numbers"

/* Allocates the three numbers norm, factor and found_inf on the device. */
static bool numbers_new(tl_DType dtype, tl_Device device, tl_Tensor **out) {
  for (int i = 0; i < 3; i++) out[i] = NULL;
  for (int i = 0; i < 3; i++)
    if ((out[i] = tli_empty(i < 2 ? dtype : TL_F32, device, 0, NULL)) == NULL) {
      tli_release_results(out, 3);
      return false;
    }
  return true;
}

static bool clip_run(const tl_Tensor *parts, double power, double max_norm, tl_Tensor *grad_scale,
                     tl_Tensor **out) {
  tl_Device device = tli_device(parts);
  struct tlk_list_clip call = {.cx = tli_context(device),
                               .dtype = (tl_DType)out[0]->dtype,
                               .count = parts->numel,
                               .partials = tli_data(parts),
                               .power = power,
                               .max_norm = max_norm,
                               .norm = tli_data(out[0]),
                               .factor = tli_data(out[1]),
                               .found_inf = tli_data(out[2])};
  tl_Tensor *scale = grad_scale ? tli_moved(grad_scale, device, true) : NULL;
  if (grad_scale && scale == NULL) return false;
  if (scale) call.grad_scale = tli_array(scale);
  bool ok = tli_backend(device)->list_clip(&call);
  tli_release(scale);
  return ok;
}

bool tlo__clip_numbers(tl_Tensors tensors, double max_norm, double norm_type, tl_Tensor *grad_scale,
                       tl_Tensor **out) {
  if (any_complex(tensors)) {
    tl_Tensors sizes = made_real(tensors, tlo_abs);
    bool ok = sizes.v && tlo__clip_numbers(sizes, max_norm, norm_type, grad_scale, out);
    tli_tensors_free(&sizes);
    return ok;
  }
  if (tensors.n == 0) return tli_fail(TL_EARG, CLIP ": tensors: expected at least one");
  if (!(norm_type > 0))
    return tli_fail(TL_EARG, CLIP ": norm_type: expected a number above 0, got %g", norm_type);
  if (grad_scale) TL_TRY(check_number(CLIP, "grad_scale", grad_scale));
  Norm norm = norm_of(norm_type);
  List l;
  TL_TRY(list_begin(&l, CLIP, tensors));
  tl_Tensor *parts = reduce_all(&l, &norm);
  bool ok = parts && numbers_new(dtype_of_norm(tensors), tli_device(parts), out);
  if (ok && !clip_run(parts, norm_type, max_norm, grad_scale, out)) {
    tli_release_results(out, 3);
    ok = false;
  }
  tli_release(parts);
  list_end(&l);
  return ok;
}

/* ---- scaling ------------------------------------------------------------------------- */

static bool scale_run(const List *l, tl_Tensor *scale, tl_Tensor *found_inf, int64_t first,
                      int count) {
  tl_Device device = tli_device(l->used[first]);
  tl_Tensor *here = tli_moved(scale, device, true);
  TL_TRY(here);
  struct tlk_list_scale call = {.cx = tli_context(device),
                                .dtype = (tl_DType)l->used[first]->dtype,
                                .count = count,
                                .scale = tli_array(here),
                                .found_inf = found_inf ? tli_data(found_inf) : NULL};
  for (int i = 0; i < count; i++) {
    call.data[i] = tli_data(l->used[first + i]);
    call.n[i] = l->used[first + i]->numel;
  }
  bool ok = tli_backend(device)->list_scale(&call);
  tli_release(here);
  return ok;
}

static bool scale_done(const List *l) {
  for (int64_t i = 0; i < l->n; i++) {
    if (l->used[i] != l->given[i]) TL_TRY(tli_copy(l->given[i], l->used[i]));
    TL_TRY(tli_inplace_done(l->op, l->given[i], NULL));
  }
  return true;
}

static bool scale_all(const char *op, tl_Tensors tensors, tl_Tensor *scale, tl_Tensor *found_inf) {
  for (int64_t i = 0; i < tensors.n; i++) TL_TRY(tli_inplace_check(op, tensors.v[i]));
  if (any_complex(tensors)) {
    tl_Tensors parts = made_real(tensors, tli_op_view_as_real);
    bool scaled = parts.v && scale_all(op, parts, scale, found_inf);
    tli_tensors_free(&parts);
    return scaled;
  }
  List l;
  TL_TRY(list_begin(&l, op, tensors));
  bool ok = true;
  for (int64_t i = 0; i < l.n && ok;) {
    int count = list_run(&l, i);
    ok = scale_run(&l, scale, found_inf, i, count);
    i += count;
  }
  ok = ok && scale_done(&l);
  list_end(&l);
  return ok;
}

bool tlo__foreach_mul_(tl_Tensors tensors, tl_Tensor *scale) {
  const char *op = "_foreach_mul_";
  return check_number(op, "scale", scale) && scale_all(op, tensors, scale, NULL);
}

bool tlo__amp_foreach_non_finite_check_and_unscale_(tl_Tensors tensors, tl_Tensor *found_inf,
                                                    tl_Tensor *inv_scale) {
  const char *op = "_amp_foreach_non_finite_check_and_unscale_";
  if (found_inf->numel != 1 || found_inf->dtype != TL_F32)
    return tli_fail(TL_EARG, "%s: found_inf: expected a float32 number, got %s %s", op,
                    tl_dtype_name((tl_DType)found_inf->dtype), tli_sizes_str(found_inf));
  return check_number(op, "inv_scale", inv_scale) && scale_all(op, tensors, inv_scale, found_inf) &&
         tli_inplace_done(op, found_inf, NULL);
}

static tl_Tensor *add_one(tl_Tensor *a, tl_Tensor *b) { return tlo_add(a, b, tli_int(1)); }

static bool check_single(const char *op, const char *name, const tl_Tensor *t, tl_DType dtype) {
  return (t->numel == 1 && t->dtype == (int8_t)dtype) ||
         tli_fail(TL_EARG, "%s: %s: expected one number in %s, got %s %s", op, name,
                  tl_dtype_name(dtype), tl_dtype_name((tl_DType)t->dtype), tli_sizes_str(t));
}

bool tlo__amp_update_scale_(tl_Tensor *self, tl_Tensor *tracker, tl_Tensor *found_inf,
                            double growth_factor, double backoff_factor, int64_t interval) {
  const char *op = "_amp_update_scale_";
  TL_TRY(check_single(op, "self", self, TL_F32) &&
         check_single(op, "growth_tracker", tracker, TL_I32) &&
         check_single(op, "found_inf", found_inf, TL_F32) && tli_inplace_check(op, self) &&
         tli_inplace_check(op, tracker));
  tli_Chain c = {0};
  tl_Tensor *bad = TLI_STEP(&c, tlo_reshape(found_inf, (tl_Ints){self->ndim, self->sizes}));
  bad = chain_with_int(&c, tlo_ne, bad, 0);
  tl_Tensor *steps = TLI_STEP(&c, tlo_reshape(tracker, (tl_Ints){self->ndim, self->sizes}));
  steps = chain_with_int(&c, add_one, steps, 1);
  tl_Tensor *due = chain_with_int(&c, tlo_eq, steps, interval);
  tl_Tensor *grown = chain_with(&c, tlo_mul, self, growth_factor);
  tl_Tensor *finite = TLI_STEP(&c, tlo_isfinite(grown));
  finite = TLI_STEP(&c, tlo_bitwise_and(finite, due));
  tl_Tensor *scale = TLI_STEP(&c, tlo_where(finite, grown, self));
  tl_Tensor *less = chain_with(&c, tlo_mul, self, backoff_factor);
  scale = TLI_STEP(&c, tlo_where(bad, less, scale));
  due = TLI_STEP(&c, tlo_bitwise_or(due, bad));
  steps = chain_where_then(&c, due, tli_int(0), steps);
  TLI_DO(&c, tlo_copy_(self, scale, false) && tlo_copy_(tracker, steps, false));
  bool ok = !c.failed;
  tli_release(tli_chain_end(&c, NULL));
  return ok;
}
