/*
** tensor.c - tests tensors that use a host's memory, without any Lua state.
*/
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "test.h"
#include "tlua.h"

typedef struct Owner {
  int calls;
  void *data;
} Owner;

static void on_release(void *data, void *context) {
  Owner *owner = context;
  owner->calls++;
  owner->data = data;
}

TEST(wrapping_does_not_copy) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  Owner owner = {0, NULL};
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 2, (int64_t[]){2, 3}, NULL, on_release, &owner);
  CHECK(t != NULL);
  CHECK(tl_tensor_data(t) == data);
  CHECK(tl_tensor_ndim(t) == 2 && tl_tensor_sizes(t)[0] == 2 && tl_tensor_sizes(t)[1] == 3);
  CHECK(tl_tensor_strides(t)[0] == 3 && tl_tensor_strides(t)[1] == 1);
  CHECK(tl_tensor_numel(t) == 6 && tl_tensor_is_contiguous(t));
  CHECK(tl_tensor_dtype(t) == TL_F32 && tl_tensor_device(t).type == TL_CPU);
  data[5] = 60;
  float out[6];
  CHECK(tl_tensor_read(t, TL_F32, out, sizeof out));
  CHECK(out[0] == 1 && out[5] == 60);
  CHECK(owner.calls == 0);
  tl_tensor_release(t);
  CHECK(owner.calls == 1 && owner.data == data);
}

TEST(the_last_reference_releases) {
  float data[1] = {1};
  Owner owner = {0, NULL};
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 1, (int64_t[]){1}, NULL, on_release, &owner);
  CHECK(tl_tensor_retain(t) == t);
  tl_tensor_release(t);
  CHECK(owner.calls == 0);
  tl_tensor_release(t);
  CHECK(owner.calls == 1);
  tl_tensor_release(NULL);
}

TEST(strides_describe_any_layout) {
  int32_t data[6] = {1, 2, 3, 4, 5, 6};
  /* strides of 1 and 3 make this tensor the transpose of a (2, 3) matrix */
  tl_Tensor *t = tl_tensor_wrap(data, TL_I32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, NULL, NULL);
  CHECK(t != NULL && !tl_tensor_is_contiguous(t));
  double out[6];
  CHECK(tl_tensor_read(t, TL_F64, out, sizeof out));
  double expected[6] = {1, 4, 2, 5, 3, 6};
  for (int i = 0; i < 6; i++) CHECK(out[i] == expected[i]);
  tl_tensor_release(t);
}

TEST(reading_converts_and_checks_the_size) {
  float data[3] = {-1.5f, 0, NAN};
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 1, (int64_t[]){3}, NULL, NULL, NULL);
  int64_t whole[3];
  CHECK(tl_tensor_read(t, TL_I64, whole, sizeof whole));
  CHECK(whole[0] == -1 && whole[1] == 0);
  bool truth[3];
  CHECK(tl_tensor_read(t, TL_BOOL, truth, sizeof truth));
  CHECK(truth[0] && !truth[1] && truth[2]);
  CHECK(!tl_tensor_read(t, TL_F32, data, sizeof data - 1));
  CHECK(!tl_tensor_read(t, TL_F64, data, sizeof data));
  tl_tensor_release(t);
}

TEST(empty_and_zero_dimensional_tensors) {
  tl_Tensor *none = tl_tensor_empty(TL_F64, 2, (int64_t[]){0, 5});
  CHECK(none != NULL && tl_tensor_numel(none) == 0);
  CHECK(tl_tensor_read(none, TL_F64, &(double){0}, 0));
  tl_tensor_release(none);
  tl_Tensor *one = tl_tensor_empty(TL_I8, 0, NULL);
  CHECK(one != NULL && tl_tensor_numel(one) == 1);
  *(int8_t *)tl_tensor_data(one) = -7;
  double out;
  CHECK(tl_tensor_read(one, TL_F64, &out, sizeof out) && out == -7);
  tl_tensor_release(one);
}

TEST(bad_sizes_are_refused) {
  float data[4];
  Owner owner = {0, NULL};
  int64_t many[TL_MAX_DIMS + 1];
  for (int i = 0; i <= TL_MAX_DIMS; i++) many[i] = 1;
  CHECK(tl_tensor_empty(TL_F32, 1, (int64_t[]){-1}) == NULL && tl_error()[0] != '\0');
  CHECK(tl_tensor_empty(TL_F32, TL_MAX_DIMS + 1, many) == NULL);
  CHECK(tl_tensor_empty(TL_F32, -1, many) == NULL);
  CHECK(tl_tensor_empty(TL_F32, 2, (int64_t[]){INT64_MAX, 2}) == NULL);
  CHECK(tl_tensor_empty(TL_F64, 1, (int64_t[]){INT64_MAX / 4}) == NULL);
  CHECK(tl_tensor_wrap(data, TL_F32, 1, (int64_t[]){-4}, NULL, on_release, &owner) == NULL);
  CHECK(tl_tensor_wrap(data, TL_F32, 1, (int64_t[]){4}, (int64_t[]){-1}, on_release, &owner) ==
        NULL);
  CHECK(owner.calls == 0);
}

TEST(a_limit_holds_allocations_back) {
  tl_memory_trim();
  int64_t used = tl_memory_used();
  tl_set_memory_limit(used + (1 << 20));
  CHECK(tl_tensor_empty(TL_U8, 1, (int64_t[]){8 << 20}) == NULL);
  CHECK(tl_error_kind() == TL_EMEM);
  tl_Tensor *small = tl_tensor_empty(TL_U8, 1, (int64_t[]){1 << 19});
  CHECK(small != NULL && tl_memory_used() >= used + (1 << 19));
  tl_tensor_release(small);
  tl_set_memory_limit(0);
  CHECK(tl_memory_used() == used);
  tl_memory_trim();
  CHECK(tl_memory_cached() == 0);
}

TEST(names) {
  CHECK(strcmp(tl_version(), TL_VERSION) == 0);
  CHECK(strcmp(tl_dtype_name(TL_F32), "float32") == 0 && tl_dtype_size(TL_F32) == 4);
  CHECK(strcmp(tl_dtype_name(TL_BOOL), "bool") == 0 && tl_dtype_size(TL_BOOL) == 1);
  CHECK(!tl_set_num_threads(0));
  CHECK(tl_set_num_threads(2) && tl_get_num_threads() == 2);
}

/* Tests that functions accept NULL arguments, which a host passes on if it does not check the
** results of failed calls. */
TEST(null_is_never_fatal) {
  tl_tensor_release(NULL);
  CHECK(tl_tensor_retain(NULL) == NULL);
  CHECK(tl_tensor_dtype(NULL) == TL_NODTYPE && tl_tensor_device(NULL).type == -1);
  CHECK(tl_tensor_ndim(NULL) == 0 && tl_tensor_numel(NULL) == 0);
  CHECK(tl_tensor_sizes(NULL) == NULL && tl_tensor_strides(NULL) == NULL);
  CHECK(!tl_tensor_is_contiguous(NULL) && tl_tensor_data(NULL) == NULL);
  float data[2] = {1, 2};
  CHECK(!tl_tensor_read(NULL, TL_F32, data, sizeof data));
  CHECK_ERROR(TL_EARG, "read: expected a tensor, got NULL");
  CHECK(!tl_tensor_read(NULL, TL_F32, NULL, 0));
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 1, (int64_t[]){2}, NULL, NULL, NULL);
  CHECK(!tl_tensor_read(t, TL_F32, NULL, sizeof data));
  CHECK_ERROR(TL_EARG, "read: expected a buffer, got NULL");
  tl_tensor_release(t);
  CHECK(tl_tensor_empty(TL_F32, 2, NULL) == NULL);
  CHECK_ERROR(TL_EARG, "sizes: expected 2 of them, got NULL");
  CHECK(tl_tensor_wrap(data, TL_F32, 1, NULL, NULL, NULL, NULL) == NULL);
  CHECK_ERROR(TL_EARG, "sizes");
  CHECK(tl_tensor_wrap(NULL, TL_F32, 1, (int64_t[]){2}, NULL, NULL, NULL) == NULL);
  t = tl_tensor_empty(TL_F32, 0, NULL);
  CHECK(t != NULL && tl_tensor_numel(t) == 1);
  tl_tensor_release(t);
  CHECK(strcmp(tl_dtype_name((tl_DType)77), "none") == 0 && tl_dtype_size(TL_NODTYPE) == 0);
}

int main(void) { return test_all(); }
