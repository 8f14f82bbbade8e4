/*
** shape_test.c - tests sizes, strides, dimensions and broadcasting.
*/
#include "core/tensor/tensor.h"

#include "test.h"

#define SIZES(...) \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static tl_Tensor *empty(int ndim, const int64_t *sizes) {
  return tli_empty(TL_F32, TLI_CPU, ndim, sizes);
}

TEST(numel_refuses_overflow) {
  CHECK(tli_numel(0, NULL, 8) == 1);
  CHECK(tli_numel(SIZES(2, 3, 4), 4) == 24);
  CHECK(tli_numel(SIZES(2, 0, 4), 4) == 0);
  CHECK(tli_numel(SIZES(2, -3), 4) == -1);
  CHECK(tli_numel(SIZES(0, -3), 4) == -1);
  CHECK(tli_numel(SIZES(INT64_MAX), 1) == INT64_MAX);
  CHECK(tli_numel(SIZES(INT64_MAX), 2) == -1);
  CHECK(tli_numel(SIZES((int64_t)1 << 32, (int64_t)1 << 31), 1) == -1);
  CHECK(tli_numel(SIZES((int64_t)1 << 31, (int64_t)1 << 31), 8) == -1);
  CHECK(tli_numel(SIZES(0, (int64_t)1 << 40, (int64_t)1 << 40), 4) == -1);
}

static bool contiguous(int ndim, const int64_t *sizes, const int64_t *strides) {
  tl_Tensor t = {.flags = 0};
  tli_set_geometry(&t, ndim, sizes, strides);
  return tli_contiguous(&t);
}

TEST(contiguity) {
  CHECK(contiguous(0, NULL, NULL));
  CHECK(contiguous(2, (int64_t[]){2, 3}, (int64_t[]){3, 1}));
  CHECK(!contiguous(2, (int64_t[]){2, 3}, (int64_t[]){1, 2}));
  CHECK(!contiguous(2, (int64_t[]){2, 3}, (int64_t[]){4, 1}));
  CHECK(!contiguous(2, (int64_t[]){2, 3}, (int64_t[]){0, 1}));
  /* a dimension of size 1 may have any stride */
  CHECK(contiguous(3, (int64_t[]){2, 1, 3}, (int64_t[]){3, 99, 1}));
  /* an empty tensor may have any strides */
  CHECK(contiguous(2, (int64_t[]){0, 3}, (int64_t[]){1, 5}));
}

static bool dense(int ndim, const int64_t *sizes, const int64_t *strides) {
  tl_Tensor t = {.flags = 0};
  tli_set_geometry(&t, ndim, sizes, strides);
  return tli_dense(&t);
}

static bool overlaps(int ndim, const int64_t *sizes, const int64_t *strides) {
  tl_Tensor t = {.flags = 0};
  tli_set_geometry(&t, ndim, sizes, strides);
  return tli_overlaps_itself(&t);
}

TEST(density_and_overlap) {
  CHECK(dense(2, (int64_t[]){2, 3}, (int64_t[]){1, 2}));
  CHECK(dense(4, (int64_t[]){2, 3, 4, 5}, (int64_t[]){60, 1, 15, 3}));
  CHECK(!dense(2, (int64_t[]){2, 3}, (int64_t[]){1, 3}));
  CHECK(!dense(2, (int64_t[]){2, 3}, (int64_t[]){0, 1}));
  CHECK(!overlaps(2, (int64_t[]){2, 3}, (int64_t[]){1, 3}));
  CHECK(overlaps(2, (int64_t[]){2, 3}, (int64_t[]){0, 1}));
  /* the windows of a sliding window share elements */
  CHECK(overlaps(2, (int64_t[]){4, 3}, (int64_t[]){1, 1}));
  CHECK(!overlaps(2, (int64_t[]){1, 3}, (int64_t[]){0, 1}));
  CHECK(!overlaps(2, (int64_t[]){0, 3}, (int64_t[]){0, 0}));
}

TEST(dimensions_from_either_end) {
  CHECK(tli_dim("sum", 2, 3) == 2 && tli_dim("sum", -3, 3) == 0);
  CHECK(tli_dim("sum", 0, 0) == 0 && tli_dim("sum", -1, 0) == 0);
  CHECK(tli_dim("sum", 3, 3) == -1);
  CHECK_ERROR(TL_EINDEX, "sum: dimension 3 is out of range for 3 dimensions: expected 0 to 2 or");
  char text[256];
  tli_error_translate(tli_error_raw(), 1, text, sizeof text);
  CHECK(strstr(text, "dimension 4 is out of range for 3 dimensions: expected 1 to 3 or -3 to -1"));
  CHECK(tli_dim("sum", -4, 3) == -1 && tli_dim("sum", 1, 0) == -1);
  CHECK(tli_dim("sum", INT64_MIN, 3) == -1 && tli_dim("sum", INT64_MAX, 3) == -1);

  CHECK(tli_position("select", 4, 5) == 4 && tli_position("select", -5, 5) == 0);
  CHECK(tli_position("select", 5, 5) == -1);
  CHECK_ERROR(TL_EINDEX, "select: index 5 is out of range: expected 0 to 4 or -5 to -1");
  CHECK(tli_position("select", 0, 0) == -1);
  CHECK_ERROR(TL_EINDEX, "the dimension is empty");
}

TEST(broadcasting) {
  tl_Tensor *a = empty(SIZES(5, 1, 3)), *b = empty(SIZES(4, 1)), *c = empty(0, NULL);
  tl_Tensor *d = empty(SIZES(2, 3)), *e = empty(SIZES(1, 0));
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  CHECK(tli_broadcast_shape("add", (tl_Tensor *[]){c, b, a}, 3, &ndim, sizes));
  CHECK(ndim == 3 && sizes[0] == 5 && sizes[1] == 4 && sizes[2] == 3);
  CHECK(tli_broadcast_shape("add", (tl_Tensor *[]){c, c}, 2, &ndim, sizes) && ndim == 0);
  CHECK(tli_broadcast_shape("add", (tl_Tensor *[]){b, e}, 2, &ndim, sizes));
  CHECK(ndim == 2 && sizes[0] == 4 && sizes[1] == 0);
  CHECK(!tli_broadcast_shape("add", (tl_Tensor *[]){d, e}, 2, &ndim, sizes));
  CHECK(!tli_broadcast_shape("add", (tl_Tensor *[]){b, a, d}, 3, &ndim, sizes));
  CHECK_ERROR(TL_ESHAPE, "add: shapes [5, 4, 3] and [2, 3] do not broadcast: expected equal "
                         "sizes, or 1, in dimension -2, got 4 and 2");
  CHECK(tli_expandable(2, b->sizes, 3, (int64_t[]){7, 4, 9}));
  CHECK(!tli_expandable(2, b->sizes, 1, (int64_t[]){4}));
  CHECK(!tli_expandable(2, d->sizes, 2, (int64_t[]){3, 3}));
  CHECK(tli_expandable(0, NULL, 0, NULL));
  tl_Tensor *all[] = {a, b, c, d, e};
  for (int k = 0; k < 5; k++) tli_release(all[k]);
}

TEST(text) {
  CHECK(strcmp(tli_shape_str(0, NULL), "[]") == 0);
  CHECK(strcmp(tli_shape_str(SIZES(2, -3, 4)), "[2, -3, 4]") == 0);
  int64_t longest[TL_MAX_DIMS];
  for (int d = 0; d < TL_MAX_DIMS; d++) longest[d] = INT64_MIN;
  CHECK(strlen(tli_shape_str(TL_MAX_DIMS, longest)) == TL_MAX_DIMS * 22);
  CHECK(strcmp(tli_device_str(TLI_CPU), "cpu") == 0);
  CHECK(strcmp(tli_device_str((tl_Device){TL_CUDA, 3}), "cuda:3") == 0);
}

int main(void) { return test_all(); }
