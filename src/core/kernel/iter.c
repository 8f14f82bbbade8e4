/*
** iter.c - reduces an elementwise loop to as few dimensions as the operands' strides allow. The
** strides of the first operand (usually the output) determine the order of the dimensions, so that
** results are written in memory order; where its strides are equal or 0, the next operand decides.
*/
#include "core/kernel/iter.h"

#include <string.h>

#include "core/tensor/tensor.h"

static void set_strides(tli_IterArg *arg, const tl_Tensor *t, int ndim, const int64_t *shape,
                        const int *kept, int nkept) {
  int64_t element = tli_dtype_bytes[t->dtype];
  int skip = ndim - t->ndim; /* number of leading dimensions that t lacks because it is broadcast */
  for (int k = 0; k < nkept; k++) {
    int d = kept[k] - skip;
    bool broadcast = d < 0 || (t->sizes[d] == 1 && shape[kept[k]] != 1);
    arg->strides[k] = broadcast ? 0 : t->strides[d] * element;
  }
}

/* Returns 1 if the loop over dimension a should be outside of the loop over dimension b, -1 if it
** should be inside, and 0 if the order does not matter. */
static int compare(const tli_Iter *it, int a, int b) {
  for (int k = 0; k < it->nargs; k++) {
    int64_t sa = it->args[k].strides[a], sb = it->args[k].strides[b];
    if (sa == 0 || sb == 0 || sa == sb) continue;
    return sa > sb ? 1 : -1;
  }
  return 0;
}

static void swap_int64(int64_t *v, int a, int b) {
  int64_t t = v[a];
  v[a] = v[b];
  v[b] = t;
}

static void swap_dims(tli_Iter *it, int a, int b) {
  swap_int64(it->sizes, a, b);
  for (int k = 0; k < it->nargs; k++) swap_int64(it->args[k].strides, a, b);
}

/* Sorts the dimensions by insertion. Pairs without an order are skipped, because `compare` is not a
** total order if operands are broadcast. */
static void sort_dims(tli_Iter *it) {
  for (int i = 1; i < it->ndim; i++) {
    int at = i;
    for (int k = i - 1; k >= 0; k--) {
      int order = compare(it, k, at);
      if (order < 0) break;
      if (order == 0) continue;
      swap_dims(it, k, at);
      at = k;
    }
  }
}

/* Returns whether dimensions a and b can be merged. For every operand, a step along b must be as
** long as all of dimension a. */
static bool mergeable(const tli_Iter *it, int a, int b) {
  for (int k = 0; k < it->nargs; k++)
    if (it->args[k].strides[b] != it->args[k].strides[a] * it->sizes[a]) return false;
  return true;
}

static void merge_dims(tli_Iter *it) {
  int last = 0;
  for (int d = 1; d < it->ndim; d++) {
    if (mergeable(it, last, d)) {
      it->sizes[last] *= it->sizes[d];
    } else if (++last != d) {
      it->sizes[last] = it->sizes[d];
      for (int k = 0; k < it->nargs; k++) it->args[k].strides[last] = it->args[k].strides[d];
    }
  }
  it->ndim = last + 1;
}

/* Records the operands' memory. Returns whether the loop needs only one dimension, because each
** operand is row-major or has one element. */
static bool set_args(tli_Iter *it, tl_Tensor *const *args) {
  bool linear = true;
  for (int k = 0; k < it->nargs; k++) {
    const tl_Tensor *t = args[k];
    tli_IterArg *arg = &it->args[k];
    arg->data = tli_data(t);
    arg->dtype = (tl_DType)t->dtype;
    arg->strides[0] = t->numel == 1 ? 0 : tli_dtype_bytes[t->dtype];
    linear = linear && (t->numel == 1 || (tli_contiguous(t) && t->numel == it->numel));
  }
  return linear;
}

/* Passes operands that are numbers on the CPU by value, because kernels of another device cannot
** read them. */
static void take_numbers(tli_Iter *it, tl_Tensor *const *args) {
  for (int k = 1; k < it->nargs; k++) {
    if (tli_device(args[k]).type != TL_CPU) continue;
    TL_ASSERT(args[k]->numel <= 1);
    if (args[k]->numel == 1)
      memcpy(it->args[k].stored, tli_data(args[k]), tli_dtype_bytes[args[k]->dtype]);
    it->args[k].data = NULL;
  }
}

void tli_iter_build(tli_Iter *it, int ndim, const int64_t *shape, tl_Tensor *const *args,
                    int nargs) {
  TL_ASSERT(nargs <= TLI_ITER_MAX);
  it->nargs = nargs;
  it->ndim = 0;
  it->numel = 1;
  for (int d = 0; d < ndim; d++) it->numel *= shape[d];
  bool linear = set_args(it, args);
  if (tli_device(args[0]).type != TL_CPU) take_numbers(it, args);
  if (it->numel <= 1) return;
  if (linear) {
    it->ndim = 1;
    it->sizes[0] = it->numel;
    return;
  }

  int kept[TL_MAX_DIMS]; /* the dimensions with more than one element, innermost first */
  for (int d = ndim - 1; d >= 0; d--) {
    if (shape[d] == 1) continue;
    it->sizes[it->ndim] = shape[d];
    kept[it->ndim++] = d;
  }
  for (int k = 0; k < nargs; k++) set_strides(&it->args[k], args[k], ndim, shape, kept, it->ndim);
  sort_dims(it);
  merge_dims(it);
}

bool tli_iter_flat(const tli_Iter *it) {
  if (it->ndim == 0) return true;
  if (it->ndim > 1) return false;
  for (int k = 0; k < it->nargs; k++) {
    int64_t stride = it->args[k].strides[0];
    if (stride != 0 && stride != tli_dtype_bytes[it->args[k].dtype]) return false;
  }
  return true;
}

/* ---- iterating ---- */

typedef struct Walk {
  const tli_Iter *it;
  /* position of the current row in each dimension; at[0] is not used, since rows run along
  ** dimension 0 */
  int64_t at[TL_MAX_DIMS];
  char *start[TLI_ITER_MAX]; /* address of each operand's first element in the current row */
} Walk;

static void walk_to_row(Walk *w, const tli_Iter *it, int64_t row) {
  w->it = it;
  for (int k = 0; k < it->nargs; k++) w->start[k] = it->args[k].data;
  for (int d = 1; d < it->ndim; d++) {
    w->at[d] = row % it->sizes[d];
    row /= it->sizes[d];
    for (int k = 0; k < it->nargs; k++) w->start[k] += w->at[d] * it->args[k].strides[d];
  }
}

static void walk_next_row(Walk *w) {
  const tli_Iter *it = w->it;
  for (int d = 1; d < it->ndim; d++) {
    bool carry = ++w->at[d] == it->sizes[d];
    int64_t step = carry ? 1 - it->sizes[d] : 1;
    for (int k = 0; k < it->nargs; k++) w->start[k] += step * it->args[k].strides[d];
    if (!carry) return;
    w->at[d] = 0;
  }
}

bool tli_iter_rows(const tli_Iter *it, int64_t begin, int64_t end, tli_RowFn run, void *context) {
  if (begin >= end) return true;
  int64_t length = it->ndim > 0 ? it->sizes[0] : 1;
  Walk w;
  walk_to_row(&w, it, begin / length);
  int64_t first = begin % length; /* position within the first row */
  for (;;) {
    int64_t n = length - first < end - begin ? length - first : end - begin;
    char *ptrs[TLI_ITER_MAX]; /* a copy, since `run` may change the pointers */
    for (int k = 0; k < it->nargs; k++)
      ptrs[k] = w.start[k] + (first ? first * it->args[k].strides[0] : 0);
    TL_TRY(run(context, ptrs, n));
    begin += n;
    if (begin >= end) return true;
    walk_next_row(&w);
    first = 0;
  }
}
