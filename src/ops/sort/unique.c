/*
** unique.c - distinct elements. Sorting makes equal elements adjacent. All results follow from the
** positions at which runs of equal elements begin.
*/
#include "ops/chain.h"

/* ---- runs ---- */

/* The runs of equal elements in a list of n elements or slices. */
typedef struct Runs {
  tl_Tensor *starts;  /* position of each run's first element, (runs) */
  tl_Tensor *numbers; /* number of the run that contains each element, counted from 1, (n) */
  tl_Tensor *counts;  /* (runs) */
} Runs;

/* Computes the runs from `begins` (n), which is true where a run begins. numbers and counts are
** computed only on request, and are NULL otherwise. */
static bool find_runs(tli_Chain *c, tl_Tensor *begins, bool numbers, bool counts, Runs *r) {
  tl_Tensor *rows = TLI_STEP(c, tlo_nonzero(begins, false));
  r->starts = TLI_STEP(c, tlo_select(rows, 1, 0));
  r->numbers = numbers ? TLI_STEP(c, tlo_cumsum(begins, 0, TL_I64)) : NULL;
  r->counts = NULL;
  if (!counts || c->failed) return !c->failed;
  /* the length of a run is the distance from its start to the start of the next run, or to the
  ** end */
  int64_t n = begins->numel;
  tl_Tensor *end = TLI_STEP(c, tli_empty(TL_I64, tli_device(begins), 1, (int64_t[]){1}));
  if (c->failed || !tli_fill(end, tli_int(n + 1))) c->failed = true;
  tl_Tensor *both[] = {r->starts, end};
  tl_Tensor *bounds = TLI_STEP(c, tlo_cat((tl_Tensors){2, both}, 0));
  int64_t runs = c->failed ? 0 : r->starts->numel;
  tl_Tensor *next = TLI_STEP(c, tlo_narrow(bounds, 0, 1, runs));
  r->counts = chain_sub(c, next, r->starts);
  return !c->failed;
}

/* Returns a mask of the elements (or slices) that begin a run: the first element, and each element
** that differs from the one before it. `list` is (n) or (n, m). */
static tl_Tensor *chain_begins(tli_Chain *c, tl_Tensor *list) {
  int64_t n = list->sizes[0];
  tl_Tensor *first = TLI_STEP(c, tli_empty(TL_BOOL, tli_device(list), 1, (int64_t[]){n > 0}));
  if (c->failed || !tli_fill(first, tli_bool(true))) c->failed = true;
  if (n < 2) return first;
  tl_Tensor *behind = TLI_STEP(c, tlo_narrow(list, 0, 1, n - 1));
  tl_Tensor *before = TLI_STEP(c, tlo_narrow(list, 0, 0, n - 1));
  tl_Tensor *differs = TLI_STEP(c, tlo_ne(behind, before));
  if (list->ndim == 2) {
    int64_t last = 1;
    differs = TLI_STEP(c, tlo_any(differs, (tl_Ints){1, &last}, false));
  }
  tl_Tensor *both[] = {first, differs};
  return TLI_STEP(c, tlo_cat((tl_Tensors){2, both}, 0));
}

/* Ends the chain and moves its results to `out`: first `output`, then `inverse` and `counts` unless
** they are NULL. */
static bool end_with(tli_Chain *c, tl_Tensor *output, tl_Tensor *inverse, tl_Tensor *counts,
                     tl_Tensor **out) {
  bool ok = !c->failed;
  tl_Tensor *results[] = {output, inverse, counts};
  int n = 0;
  for (int i = 0; i < 3; i++) out[i] = NULL;
  for (int i = 0; ok && i < 3; i++)
    if (results[i]) out[n++] = tli_retain(results[i]);
  tli_chain_end(c, NULL);
  return ok;
}

/* Gives each original element the number of its run. `order` has the original positions of the
** sorted elements; it is NULL if the elements were not sorted. */
static tl_Tensor *chain_inverse(tli_Chain *c, tl_Tensor *numbers, tl_Tensor *order) {
  if (order == NULL) return numbers;
  tl_Tensor *empty = TLI_STEP(c, tli_empty_like(numbers, TL_I64));
  if (c->failed || (numbers->numel > 0 && !tli_fill(empty, tli_int(0)))) c->failed = true;
  return TLI_STEP(c, tlo_scatter(empty, 0, order, numbers));
}

/* ---- elements ---- */

static bool distinct(tl_Tensor *self, bool sort, bool inverse, bool counts, tl_Tensor **out) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *sorted[2] = {NULL}, *order = NULL;
  tl_Tensor *list = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){1, &self->numel}));
  if (sort && !c.failed) {
    if (tlo_sort(list, 0, false, true, sorted)) {
      list = tli_keep(&c, sorted[0]);
      order = tli_keep(&c, sorted[1]);
    } else {
      c.failed = true;
    }
  }
  Runs r = {NULL, NULL, NULL};
  tl_Tensor *begins = c.failed ? NULL : chain_begins(&c, list);
  if (!c.failed) find_runs(&c, begins, inverse, counts, &r);
  tl_Tensor *output = TLI_STEP(&c, tlo_index_select(list, 0, r.starts));
  tl_Tensor *back = NULL;
  if (inverse && !c.failed) {
    back = chain_inverse(&c, r.numbers, order);
    back = TLI_STEP(&c, tlo_reshape(back, (tl_Ints){self->ndim, self->sizes}));
  }
  tli_set_grad_mode(mode);
  return end_with(&c, output, back, r.counts, out);
}

/* ---- slices ---- */

tl_Tensor *tli_op_row_order(tl_Tensor *self) {
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  tl_Tensor *order = in ? tli_empty(TL_I64, tli_device(in), 1, in->sizes) : NULL;
  if (order && order->numel > 0 &&
      !TLI_RUN(tli_device(in), row_order, .order = tli_data(order), .in = tli_array(in),
               .n = in->sizes[0], .m = in->numel / in->sizes[0])) {
    tli_release(order);
    order = NULL;
  }
  tli_release(in);
  return order;
}

static bool distinct_slices(const char *op, tl_Tensor *self, bool sort, bool inverse, bool counts,
                            int64_t dim, tl_Tensor **out) {
  if (self->ndim == 0)
    return tli_fail(TL_EARG, "%s: dim: a tensor without dimensions has no slices", op);
  int d = tli_dim(op, dim, self->ndim);
  TL_TRY(d >= 0);
  int64_t n = self->sizes[d], m = n > 0 ? self->numel / n : 0;
  if (n > 0 && m == 0)
    return tli_fail(TL_ESHAPE, "%s: dim: slices along " TLI_POS " are empty, got shape %s", op,
                    (int64_t)d, tli_sizes_str(self));
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *moved =
      TLI_STEP(&c, tlo_movedim(self, (tl_Ints){1, (int64_t[]){d}}, (tl_Ints){1, (int64_t[]){0}}));
  tl_Tensor *rows = TLI_STEP(&c, tlo_reshape(moved, (tl_Ints){2, (int64_t[]){n, m}}));
  tl_Tensor *order = sort ? TLI_STEP(&c, tlo_row_order(rows)) : NULL;
  tl_Tensor *list = order ? TLI_STEP(&c, tlo_index_select(rows, 0, order)) : rows;
  Runs r = {NULL, NULL, NULL};
  tl_Tensor *begins = c.failed ? NULL : chain_begins(&c, list);
  if (!c.failed) find_runs(&c, begins, inverse, counts, &r);
  tl_Tensor *at = r.starts;
  if (order) at = TLI_STEP(&c, tlo_index_select(order, 0, r.starts));
  tl_Tensor *output = TLI_STEP(&c, tlo_index_select(self, d, at));
  tl_Tensor *back = inverse && !c.failed ? chain_inverse(&c, r.numbers, order) : NULL;
  tli_set_grad_mode(mode);
  return end_with(&c, output, back, r.counts, out);
}

bool tlo_unique(tl_Tensor *self, bool sorted, bool return_inverse, bool return_counts, int64_t dim,
                tl_Tensor **out) {
  (void)sorted; /* `sorted` has no effect, because the result is always sorted */
  if (dim == TLI_NOINT) return distinct(self, true, return_inverse, return_counts, out);
  return distinct_slices("unique", self, true, return_inverse, return_counts, dim, out);
}

bool tlo_unique_consecutive(tl_Tensor *self, bool return_inverse, bool return_counts, int64_t dim,
                            tl_Tensor **out) {
  if (dim == TLI_NOINT) return distinct(self, false, return_inverse, return_counts, out);
  return distinct_slices("unique_consecutive", self, false, return_inverse, return_counts, dim,
                         out);
}

/* ---- isin ---- */

tl_Tensor *tlo_isin(tl_Tensor *elements, tl_Tensor *test_elements, bool assume_unique,
                    bool invert) {
  (void)assume_unique;
  tli_Chain c = {0};
  tl_Tensor *both[] = {elements, test_elements}, *sorted[2] = {NULL};
  tl_DType dtype = tli_result_dtype(both, 2);
  tl_Device device = tli_device(tli_device(elements).type == TL_CPU ? test_elements : elements);
  elements = TLI_STEP(&c, tli_operand_on(elements, device));
  test_elements = TLI_STEP(&c, tli_operand_on(test_elements, device));
  if (c.failed) return tli_chain_end(&c, NULL);
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *what = TLI_STEP(&c, tlo_to_dtype(elements, dtype));
  tl_Tensor *list = TLI_STEP(&c, tlo_to_dtype(test_elements, dtype));
  list = TLI_STEP(&c, tlo_reshape(list, (tl_Ints){1, (int64_t[]){test_elements->numel}}));
  tl_Tensor *found = NULL;
  if (c.failed || test_elements->numel == 0) {
    found = TLI_STEP(&c, tli_empty(TL_BOOL, tli_device(elements), elements->ndim, elements->sizes));
    if (!c.failed && !tli_fill(found, tli_bool(false))) c.failed = true;
  } else if (tlo_sort(list, 0, false, true, sorted)) {
    tli_keep(&c, sorted[0]);
    tli_keep(&c, sorted[1]);
    tl_Tensor *at = TLI_STEP(&c, tlo_search(sorted[0], what, false));
    tl_Tensor *most = TLI_STEP(&c, tli_number(tli_int(list->numel)));
    at = TLI_STEP(&c, tlo_clamp_max(at, most));
    tl_Tensor *nearest = TLI_STEP(&c, tlo_take(sorted[0], at));
    found = TLI_STEP(&c, tlo_eq(nearest, what));
  } else {
    c.failed = true;
  }
  if (invert) found = TLI_STEP(&c, tlo_logical_not(found));
  tli_set_grad_mode(mode);
  return tli_chain_end(&c, found);
}
