/*
** tensor_test.c - tests making, sharing and freeing tensors, even when memory runs out.
*/
#include "core/tensor/tensor.h"

#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "test.h"

TEST(bad_sizes_are_refused) {
  int64_t many[TL_MAX_DIMS + 1] = {0};
  CHECK(tl_tensor_empty(TL_F32, 2, (int64_t[]){2, -1}) == NULL);
  CHECK_ERROR(TL_EARG, "sizes [2, -1]: expected sizes of at least 0, got -1");
  CHECK(tl_tensor_empty(TL_F32, TL_MAX_DIMS + 1, many) == NULL);
  CHECK_ERROR(TL_EARG, "expected 0 to 16 dimensions, got 17");
  CHECK(tl_tensor_empty(TL_F32, 2, (int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40}) == NULL);
  CHECK_ERROR(TL_EARG, "less than 2^63 bytes");
  CHECK(tl_tensor_empty(TL_F32, 1, (int64_t[]){(int64_t)1 << 58}) == NULL);
  CHECK_ERROR(TL_EMEM, "out of memory");
  CHECK(tl_tensor_empty(TL_NODTYPE, 0, NULL) == NULL);
  CHECK_ERROR(TL_EDTYPE, "expected a dtype");
  CHECK(tli_empty(TL_F32, (tl_Device){TL_CUDA, 0}, 0, NULL) == NULL);
  CHECK_ERROR(TL_EDEVICE, "cuda:0");
}

TEST(data_is_aligned) {
  for (int64_t n = 0; n < 600; n++) {
    tl_Tensor *t = tl_tensor_empty(TL_F64, 1, &n);
    CHECK_AT(n, (uintptr_t)tli_data(t) % TLI_ALIGN == 0);
    CHECK_AT(n, (tl_tensor_data(t) == NULL) == (n == 0));
    memset(tli_data(t), 0xff, (size_t)n * 8);
    tl_tensor_release(t);
  }
  tl_tensor_release(NULL);
}

TEST(views_share) {
  tl_Tensor *t = tl_tensor_empty(TL_I32, 2, (int64_t[]){3, 4});
  int32_t *data = tl_tensor_data(t);
  for (int i = 0; i < 12; i++) data[i] = i;
  tl_Tensor *column = tli_alias(t, 1, (int64_t[]){3}, (int64_t[]){4}, 2);
  CHECK(tl_tensor_ndim(column) == 1 && tl_tensor_numel(column) == 3);
  CHECK(!tl_tensor_is_contiguous(column) && tl_tensor_strides(column)[0] == 4);
  CHECK(*(int32_t *)tl_tensor_data(column) == 2);
  tli_bump(column, "fill_");
  CHECK(tli_version(t) == 1 && strcmp(t->storage->writer, "fill_") == 0);
  tl_Tensor *same = tli_detached(t);
  CHECK(tli_same_sizes(same, t) && tli_contiguous(same) && tli_data(same) == tli_data(t));
  tl_tensor_release(t);
  CHECK(((int32_t *)tl_tensor_data(column))[4] == 6);

  int32_t read[3];
  float floats[3];
  CHECK(tl_tensor_read(column, TL_I32, read, sizeof read));
  CHECK(read[0] == 2 && read[1] == 6 && read[2] == 10);
  CHECK(tl_tensor_read(column, TL_F32, floats, sizeof floats) && floats[2] == 10);
  CHECK(!tl_tensor_read(column, TL_F64, floats, sizeof floats));
  CHECK_ERROR(TL_EARG, "read: expected a buffer for 3 elements of float64, got 12 bytes");
  int32_t whole[12];
  CHECK(tl_tensor_read(same, TL_I32, whole, sizeof whole) && whole[11] == 11);
  tl_tensor_release(column);
  tl_tensor_release(same);
}

TEST(empty_like_keeps_the_order) {
  tl_Tensor *t = tl_tensor_empty(TL_F32, 2, (int64_t[]){3, 4});
  tl_Tensor *turned = tli_alias(t, 2, (int64_t[]){4, 3}, (int64_t[]){1, 4}, 0);
  tl_Tensor *gaps = tli_alias(t, 2, (int64_t[]){2, 3}, (int64_t[]){1, 4}, 0);
  tl_Tensor *a = tli_empty_like(turned, TL_F64), *b = tli_empty_like(gaps, TL_F32);
  CHECK(a->dtype == TL_F64 && a->strides[0] == 1 && a->strides[1] == 4 && !tli_contiguous(a));
  /* the expected strides 1, 2 are those of PyTorch's empty_like(torch.empty(3, 4).t()[:2]) */
  CHECK(b->strides[0] == 1 && b->strides[1] == 2 && tli_same_sizes(b, gaps));
  tl_Tensor *all[] = {t, turned, gaps, a, b};
  for (int k = 0; k < 5; k++) tli_release(all[k]);
}

static int released;
static void *released_context;

static void count_release(void *data, void *context) {
  (void)data;
  released++;
  released_context = context;
}

TEST(foreign_memory) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int token;
  int64_t sizes[] = {2, 2};
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 2, sizes, (int64_t[]){3, 1}, count_release, &token);
  CHECK(t != NULL && tl_tensor_data(t) == data && !tl_tensor_is_contiguous(t));
  CHECK(t->storage->bytes == 5 * (int64_t)sizeof(float));
  tl_Tensor *view = tli_detached(t);
  tl_tensor_release(t);
  CHECK(released == 0);
  float read[4];
  CHECK(tl_tensor_read(view, TL_F32, read, sizeof read) && read[2] == 3);
  tl_tensor_release(view);
  CHECK(released == 1 && released_context == &token);

  t = tl_tensor_wrap(data, TL_F32, 2, sizes, NULL, NULL, NULL);
  CHECK(t != NULL && tl_tensor_is_contiguous(t));
  tl_tensor_release(t);
  t = tl_tensor_wrap(NULL, TL_F32, 1, (int64_t[]){0}, NULL, count_release, NULL);
  CHECK(t != NULL && tl_tensor_data(t) == NULL);
  tl_tensor_release(t);
  CHECK(released == 2);
}

TEST(bad_foreign_memory) {
  double data[4];
  int64_t sizes[] = {2, 2};
  released = 0;
#define REFUSED(...) (tl_tensor_wrap(__VA_ARGS__, count_release, NULL) == NULL)
  CHECK(REFUSED(NULL, TL_F32, 2, sizes, NULL));
  CHECK_ERROR(TL_EARG, "wrap: expected memory");
  CHECK(REFUSED((char *)data + 1, TL_F32, 2, sizes, NULL));
  CHECK_ERROR(TL_EARG, "aligned to 4 bytes for float32");
  CHECK(REFUSED(data, TL_F32, 2, sizes, ((int64_t[]){-2, 1})));
  CHECK_ERROR(TL_EARG, "wrap: strides [-2, 1] for sizes [2, 2]");
  CHECK(REFUSED(data, TL_F32, 2, sizes, ((int64_t[]){INT64_MAX, 1})));
  CHECK(REFUSED(data, TL_F32, 2, sizes, ((int64_t[]){INT64_MAX / 4, 1})));
  CHECK(REFUSED(data, TL_F32, 2, ((int64_t[]){2, -2}), NULL));
  for (int n = 1; n <= 2; n++) {
    tli_alloc_fail_at(n);
    CHECK_AT(n, REFUSED(data, TL_F32, 2, sizes, NULL));
  }
  CHECK(released == 0);
}

/* Tests that nothing leaks if any single allocation fails. */
TEST(failing_allocations) {
  int64_t used = tl_memory_used();
  for (int64_t size = 8; size < 100000; size *= 100) {
    int n = 1;
    for (;; n++) {
      tli_alloc_fail_at(n);
      tl_Tensor *t = tl_tensor_empty(TL_F32, 1, &size);
      tli_alloc_fail_at(0);
      tli_release(t);
      CHECK_AT(n, tl_memory_used() == used);
      if (t) break;
      CHECK_ERROR(TL_EMEM, "out of memory");
    }
    CHECK_AT(size, n == (size * 4 <= TLI_INLINE_BYTES ? 3 : 4));
  }
  tl_Tensor *t = tl_tensor_empty(TL_F32, 0, NULL);
  tli_alloc_fail_at(1);
  CHECK(tli_detached(t) == NULL && tli_unique(t));
  CHECK(atomic_load(&t->storage->refs) == 1);
  tli_alloc_fail_at(1);
  CHECK(tli_number(tli_int(1)) == NULL);
  tli_alloc_fail_at(1);
  CHECK(tli_empty_like(t, TL_F64) == NULL);
  tli_release(t);
  CHECK(tl_memory_used() == used);
}

TEST(long_chains_of_bases) {
  int64_t used = tl_memory_used();
  tl_Tensor *t = tl_tensor_empty(TL_F32, 0, NULL);
  for (int i = 0; i < 300000; i++) {
    tl_Tensor *view = tli_detached(t);
    view->base = t;
    t = view;
  }
  tli_release(t);
  CHECK(tl_memory_used() == used);
}

/* Tests foreign memory that happens to begin right behind the block with the storage's header. */
TEST(foreign_memory_behind_the_header) {
  int64_t used = tl_memory_used();
  tl_Storage *s = tli_storage_wrap(TLI_CPU, &used, 56, NULL, NULL);
  s->data = s->small;
  tli_storage_release(s);
  CHECK(tl_memory_used() == used);
}

TEST(ledgers) {
  int64_t used = tl_memory_used();
  tli_Ledger *l = tli_ledger_new(), *other = tli_ledger_new();
  tl_Tensor *t = tl_tensor_empty(TL_F32, 1, (int64_t[]){1000});
  CHECK(tli_storage_charge(t->storage, l));
  CHECK(!tli_storage_charge(t->storage, other) && !tli_storage_charge(t->storage, l));
  CHECK(atomic_load(&l->live[TL_CPU]) == 4000 && atomic_load(&other->live[TL_CPU]) == 0);
  tli_ledger_release(other);
  tli_ledger_release(l); /* the storage keeps the ledger alive */
  CHECK(atomic_load(&l->live[TL_CPU]) == 4000);
  tli_release(t);
  CHECK(tl_memory_used() == used);
}

TEST(version) { CHECK(strcmp(tl_version(), TL_VERSION) == 0); }

int main(void) { return test_all(); }
