/*
** iter_test.c - tests the iterator, which merges the dimensions of a loop. It must visit the same
** elements as plain nested loops over the shape, with as few dimensions as the memory layout
** allows.
*/
#include "core/kernel/iter.h"
#include "core/tensor/tensor.h"

#include <stdlib.h>

#include "test.h"

enum { OPERANDS = 3 };

/* Stores one tuple for each visited element: the addresses of all operands. */
typedef struct Trace {
  int nargs;
  int64_t n;
  const tli_Iter *it;
  char *(*tuples)[OPERANDS];
} Trace;

static bool record_row(void *context, char **ptrs, int64_t n) {
  Trace *t = context;
  CHECK(n > 0 && (t->it->ndim == 0 || n <= t->it->sizes[0]));
  for (int64_t i = 0; i < n; i++, t->n++)
    for (int k = 0; k < t->nargs; k++)
      t->tuples[t->n][k] = ptrs[k] + (t->it->ndim ? i * t->it->args[k].strides[0] : 0);
  /* kernels may change the pointers that they get, so this function does */
  for (int k = 0; k < t->nargs; k++) ptrs[k] = NULL;
  return true;
}

/* Returns the address of an operand's element at a row-major index into `shape`. */
static char *address(const tl_Tensor *t, int ndim, const int64_t *shape, int64_t position) {
  char *p = tli_data(t);
  for (int d = ndim - 1; d >= 0; d--) {
    int64_t at = position % shape[d];
    position /= shape[d];
    int own = d - (ndim - t->ndim);
    if (own >= 0 && t->sizes[own] != 1)
      p += at * t->strides[own] * (int64_t)tl_dtype_size((tl_DType)t->dtype);
  }
  return p;
}

static int by_address(const void *a, const void *b) {
  return memcmp(a, b, sizeof(char *) * OPERANDS);
}

static void naive(Trace *out, tl_Tensor **args, int ndim, const int64_t *shape, int64_t numel) {
  for (out->n = 0; out->n < numel; out->n++)
    for (int k = 0; k < out->nargs; k++)
      out->tuples[out->n][k] = address(args[k], ndim, shape, out->n);
}

/* Makes a view whose dimensions are in random order. It may have gaps, and sizes of 1 that are
** broadcast. */
static tl_Tensor *random_operand(int ndim, const int64_t *shape, bool output) {
  static const tl_DType dtypes[] = {TL_F32, TL_F64, TL_U8};
  int drop = output || ndim == 0 ? 0 : (int)test_random(ndim + 1);
  int n = test_random(3) == 0 ? ndim - drop : ndim;
  int64_t sizes[TL_MAX_DIMS] = {0}, strides[TL_MAX_DIMS] = {0};
  for (int d = 0; d < n; d++) {
    sizes[d] = shape[d + ndim - n];
    if (!output && test_random(4) == 0) sizes[d] = 1;
  }
  int order[TL_MAX_DIMS] = {0};
  for (int d = 0; d < n; d++) order[d] = d;
  if (test_random(2))
    for (int d = n - 1; d > 0; d--) {
      int other = (int)test_random(d + 1), t = order[d];
      order[d] = order[other];
      order[other] = t;
    }
  int64_t stride = 1;
  for (int d = n - 1; d >= 0; d--) {
    if (test_random(5) == 0) stride++;
    strides[order[d]] = stride;
    stride *= sizes[order[d]];
  }
  tl_Tensor *whole = tli_empty(dtypes[test_random(3)], TLI_CPU, 1, (int64_t[]){stride + 2});
  tl_Tensor *view = tli_alias(whole, n, sizes, strides, test_random(2));
  tli_release(whole);
  return view;
}

static void random_case(int round) {
  int ndim = (int)test_random(6);
  int64_t shape[TL_MAX_DIMS] = {0}, numel = 1;
  for (int d = 0; d < ndim; d++) {
    shape[d] = test_random(40) == 0 ? 0 : 1 + test_random(4);
    numel *= shape[d];
  }
  int nargs = 1 + (int)test_random(OPERANDS);
  tl_Tensor *args[OPERANDS];
  for (int k = 0; k < nargs; k++) args[k] = random_operand(ndim, shape, k == 0);

  tli_Iter it;
  tli_iter_build(&it, ndim, shape, args, nargs);
  CHECK_AT(round, it.numel == numel && it.nargs == nargs && it.ndim <= ndim);

  size_t bytes = sizeof(char *) * OPERANDS * (size_t)(numel + 1);
  Trace expected = {nargs, 0, &it, calloc(1, bytes)}, got = {nargs, 0, &it, calloc(1, bytes)};
  naive(&expected, args, ndim, shape, numel);
  /* Visits the loop in two parts, as two threads would do that share the elements. */
  int64_t cut = numel > 0 ? test_random(numel + 1) : 0;
  CHECK_AT(round, tli_iter_rows(&it, 0, cut, record_row, &got));
  CHECK_AT(round, got.n == cut);
  CHECK_AT(round, tli_iter_rows(&it, cut, numel, record_row, &got));
  CHECK_AT(round, got.n == numel);
  qsort(expected.tuples, (size_t)numel, sizeof *expected.tuples, by_address);
  qsort(got.tuples, (size_t)numel, sizeof *got.tuples, by_address);
  CHECK_AT(round, memcmp(expected.tuples, got.tuples, bytes) == 0);
  if (tli_iter_flat(&it))
    for (int k = 0; it.ndim > 0 && k < nargs; k++)
      CHECK_AT(round, it.args[k].strides[0] == 0 ||
                          it.args[k].strides[0] == (int64_t)tl_dtype_size(it.args[k].dtype));

  free(expected.tuples);
  free(got.tuples);
  for (int k = 0; k < nargs; k++) tli_release(args[k]);
}

TEST(random_shapes) {
  for (int round = 0; round < 20000; round++) random_case(round);
}

static tl_Tensor *permuted(tl_Tensor *t, const int *order) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < t->ndim; d++) {
    sizes[d] = t->sizes[order[d]];
    strides[d] = t->strides[order[d]];
  }
  return tli_alias(t, t->ndim, sizes, strides, 0);
}

TEST(same_layout_is_one_loop) {
  tl_Tensor *a = tli_empty(TL_F32, TLI_CPU, 4, (int64_t[]){2, 3, 4, 5});
  tl_Tensor *b = tli_empty(TL_F64, TLI_CPU, 4, (int64_t[]){2, 3, 4, 5});
  tl_Tensor *args[] = {permuted(a, (int[]){0, 2, 3, 1}), permuted(b, (int[]){0, 2, 3, 1})};
  tli_Iter it;
  tli_iter_build(&it, 4, args[0]->sizes, args, 2);
  CHECK(it.ndim == 1 && it.sizes[0] == 120 && tli_iter_flat(&it));
  tli_release(args[0]);
  tli_release(args[1]);
  tli_release(a);
  tli_release(b);
}

TEST(output_decides_the_order) {
  tl_Tensor *a = tli_empty(TL_F32, TLI_CPU, 2, (int64_t[]){3, 4});
  tl_Tensor *t = permuted(a, (int[]){1, 0});
  tl_Tensor *b = tli_empty(TL_F32, TLI_CPU, 2, (int64_t[]){4, 3});
  tli_Iter it;
  tli_iter_build(&it, 2, b->sizes, (tl_Tensor *[]){b, t}, 2);
  CHECK(it.ndim == 2 && it.sizes[0] == 3 && it.args[0].strides[0] == 4);
  tli_iter_build(&it, 2, b->sizes, (tl_Tensor *[]){t, b}, 2);
  CHECK(it.ndim == 2 && it.sizes[0] == 4 && it.args[0].strides[0] == 4);
  CHECK(!tli_iter_flat(&it));
  tli_release(a);
  tli_release(t);
  tli_release(b);
}

TEST(scalars_stay_flat) {
  tl_Tensor *a = tli_empty(TL_F32, TLI_CPU, 2, (int64_t[]){3, 4});
  tl_Tensor *s = tli_number(tli_float(2));
  tl_Tensor *row = tli_empty(TL_F32, TLI_CPU, 1, (int64_t[]){4});
  tli_Iter it;
  tli_iter_build(&it, 2, a->sizes, (tl_Tensor *[]){a, s}, 2);
  CHECK(it.ndim == 1 && it.args[1].strides[0] == 0 && tli_iter_flat(&it));
  tli_iter_build(&it, 2, a->sizes, (tl_Tensor *[]){a, row}, 2);
  CHECK(it.ndim == 2 && it.args[1].strides[1] == 0 && !tli_iter_flat(&it));
  tli_release(a);
  tli_release(s);
  tli_release(row);
}

static bool stop(void *context, char **ptrs, int64_t n) {
  (void)ptrs;
  (void)n;
  return ++*(int *)context < 2;
}

TEST(failure_stops_the_walk) {
  tl_Tensor *a = tli_empty(TL_F32, TLI_CPU, 2, (int64_t[]){5, 4});
  tl_Tensor *gap = tli_alias(a, 2, (int64_t[]){5, 2}, (int64_t[]){4, 1}, 0);
  tli_Iter it;
  int calls = 0;
  tli_iter_build(&it, 2, gap->sizes, &gap, 1);
  CHECK(!tli_iter_rows(&it, 0, it.numel, stop, &calls) && calls == 2);
  tli_release(a);
  tli_release(gap);
}

int main(void) { return test_all(); }
