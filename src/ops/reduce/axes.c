/*
** axes.c - plans and runs reductions. A kernel reduces one run of dimensions (axes.h), the
** innermost first. Each further call reduces the intermediate results over the next run.
*/
#include "ops/reduce/axes.h"

/* ---- the plan ---- */

/* Returns self without those reduced dimensions that only repeat elements (stride 0). Sets kept[d]
** to whether dimension d remains, and *repeats to the number of repetitions. */
static tl_Tensor *without_repeats(tl_Tensor *self, const bool *reduced, bool *kept,
                                  int64_t *repeats) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  int n = 0;
  *repeats = 1;
  for (int d = 0; d < self->ndim; d++) {
    kept[d] = !reduced[d] || self->strides[d] != 0 || self->sizes[d] <= 1;
    if (kept[d]) {
      sizes[n] = self->sizes[d];
      strides[n++] = self->strides[d];
    } else {
      *repeats *= self->sizes[d];
    }
  }
  return *repeats == 1 ? tli_retain(self) : tli_alias(self, n, sizes, strides, self->offset);
}

/* Lists the dimensions whose size is not 1, in the order of memory, outermost first. Returns their
** number. */
static int by_memory(const tl_Tensor *t, int *order) {
  int n = 0;
  for (int d = 0; d < t->ndim; d++) {
    if (t->sizes[d] == 1) continue;
    int k = n++;
    for (; k > 0 && t->strides[order[k - 1]] < t->strides[d]; k--) order[k] = order[k - 1];
    order[k] = d;
  }
  return n;
}

static void add_run(tli_Axes *a, int64_t n, bool reduced) {
  if (a->nruns == 0 || a->runs[a->nruns - 1].reduced != reduced) {
    a->runs[a->nruns].n = 1;
    a->runs[a->nruns++].reduced = reduced;
  }
  a->runs[a->nruns - 1].n *= n;
}

/* Sets the sizes of the result, and its strides in the order in which kernels write the
** elements. */
static void shape_result(tli_Axes *a, const tl_Tensor *self, const bool *reduced, bool keepdim,
                         const int *order, int norder) {
  int at[TL_MAX_DIMS]; /* for each dimension of self: its dimension in the result */
  for (int d = 0; d < self->ndim; d++) {
    at[d] = a->ndim;
    if (reduced[d] && !keepdim) continue;
    a->sizes[a->ndim] = reduced[d] ? 1 : self->sizes[d];
    a->strides[a->ndim++] = 1;
  }
  int64_t stride = 1;
  for (int k = norder - 1; k >= 0; k--) {
    int d = order[k];
    if (reduced[d]) continue;
    a->strides[at[d]] = stride;
    stride *= self->sizes[d];
  }
}

bool tli_axes_begin(tli_Axes *a, const char *op, tl_Tensor *self, tl_Ints dims, bool keepdim,
                    bool skip_repeats) {
  *a = (tli_Axes){.reduced = 1, .repeats = 1};
  bool reduced[TL_MAX_DIMS], kept[TL_MAX_DIMS];
  TL_TRY(tli_mark_dims(op, dims, self->ndim, reduced));
  for (int d = 0; d < self->ndim; d++) {
    kept[d] = true;
    if (reduced[d]) a->reduced *= self->sizes[d];
  }
  bool skips = skip_repeats && self->numel > 0;
  tl_Tensor *seen = skips ? without_repeats(self, reduced, kept, &a->repeats) : tli_retain(self);
  if (seen == NULL) return false;
  a->in = tli_dense(seen) ? tli_retain(seen) : tli_contiguous_as(seen, (tl_DType)seen->dtype);
  tli_release(seen);
  if (a->in == NULL) return false;

  int from[TL_MAX_DIMS]; /* for each dimension of `in`: its dimension in self */
  int n = 0;
  for (int d = 0; d < self->ndim; d++)
    if (kept[d]) from[n++] = d;
  int order[TL_MAX_DIMS];
  int norder = by_memory(a->in, order);
  for (int k = 0; k < norder; k++) {
    order[k] = from[order[k]];
    add_run(a, self->sizes[order[k]], reduced[order[k]]);
  }
  shape_result(a, self, reduced, keepdim, order, norder);
  return true;
}

void tli_axes_end(tli_Axes *a) { tli_release(a->in); }

tl_Tensor *tli_axes_result(const tli_Axes *a, tl_DType dtype) {
  tl_Tensor *t = tli_empty(dtype, tli_device(a->in), a->ndim, a->sizes);
  if (t) tli_set_geometry(t, a->ndim, a->sizes, a->strides);
  return t;
}

static int innermost(const tli_Axes *a) {
  int at = a->nruns - 1;
  while (at >= 0 && !a->runs[at].reduced) at--;
  return at;
}

tli_Run tli_axes_run(const tli_Axes *a) {
  tli_Run run = {1, 1, 1, true};
  int at = innermost(a);
  for (int k = 0; k < a->nruns; k++) {
    if (k == at) run.n = a->runs[k].n;
    if (k < at) run.outer *= a->runs[k].n;
    if (k > at) run.inner *= a->runs[k].n;
    if (k < at && a->runs[k].reduced) run.last = false;
  }
  return run;
}

void tli_axes_next(tli_Axes *a) {
  int at = innermost(a);
  if (at < 0) return;
  for (int k = at + 1; k < a->nruns; k++) a->runs[k - 1] = a->runs[k];
  a->nruns--;
}

/* ---- one reduction ---- */

static bool check_nonempty(const tli_ReduceSpec *spec, const tl_Tensor *self, const tli_Axes *a) {
  if (!spec->nonempty || a->reduced > 0) return true;
  return tli_fail(TL_ESHAPE, "%s: expected at least one element to reduce, got shape %s",
                  spec->name, tli_sizes_str(self));
}

static bool run_passes(const tli_ReduceSpec *spec, tli_Axes *a, tl_Tensor *out) {
  tl_Device device = tli_device(out);
  if (a->reduced == 0)
    return TLI_RUN(device, reduce, .kernel = spec->kernel, .compute = spec->compute,
                   .out = tli_array(out), .in = tli_array(a->in), .outer = out->numel, .n = 0,
                   .inner = 1, .params = {spec->param});
  tli_Run run = tli_axes_run(a);
  tlk_Reduction kernel = spec->kernel;
  tl_DType compute = spec->compute;
  while (!run.last) {
    /* the dtype of intermediate results between the runs */
    tl_DType mid = spec->result == TL_BOOL ? TL_BOOL : compute;
    int64_t n = run.outer * run.inner;
    tl_Tensor *part = tli_empty(mid, tli_device(out), 1, &n);
    bool ok = part && TLI_RUN(device, reduce, .kernel = kernel, .compute = compute,
                              .out = tli_array(part), .in = tli_array(a->in), .outer = run.outer,
                              .n = run.n, .inner = run.inner, .params = {spec->param});
    tli_release(a->in);
    a->in = part;
    if (!ok) return false;
    tli_axes_next(a);
    run = tli_axes_run(a);
    kernel = spec->again;
    compute = tli_dtype_compute(mid);
  }
  return TLI_RUN(device, reduce, .kernel = kernel, .compute = compute, .out = tli_array(out),
                 .in = tli_array(a->in), .outer = run.outer, .n = run.n, .inner = run.inner,
                 .params = {spec->param});
}

/* Multiplies all elements of `out` by k, in place. */
static bool multiply(tl_Tensor *out, int64_t k) {
  static const tli_PointwiseSpec mul = {"mul", TLK_mul,          2, 0, TLI_TYPES_NUMBER, false,
                                        true,  TLI_COMPLEX_TAKEN};
  tl_Tensor *number = tli_number(tli_int(k));
  bool ok = number && tli_pointwise_into(&mul, (tl_Tensor *[]){out, number}, NULL, out);
  tli_release(number);
  return ok;
}

tl_Tensor *tli_reduce(const tli_ReduceSpec *spec, tl_Tensor *self, tl_Ints dims, bool keepdim) {
  tli_Axes a;
  tl_Tensor *out = NULL;
  bool ok = tli_axes_begin(&a, spec->name, self, dims, keepdim, spec->repeats != TLI_EACH) &&
            check_nonempty(spec, self, &a);
  if (ok) out = tli_axes_result(&a, spec->result);
  ok = out && (out->numel == 0 || run_passes(spec, &a, out));
  if (ok && spec->repeats == TLI_TIMES && a.repeats > 1) ok = multiply(out, a.repeats);
  tli_axes_end(&a);
  if (ok) return out;
  tli_release(out);
  return NULL;
}
