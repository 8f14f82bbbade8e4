/*
** dlpack.c - tests the export and import of tensors by DLPack's structs. This file declares the
** structs again, from DLPack's specification, to check their layout.
** */
#include <stdint.h>

#include "test.h"
#include "tlua.h"

typedef struct DLTensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
};

/* With 64-bit pointers, a struct has this size only if its fields have the right offsets. */
_Static_assert(sizeof(void *) != 8 || sizeof(DLTensor) == 48, "DLPack's layout");

TEST(handing_out_shares_the_memory) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, NULL, NULL);
  struct DLManagedTensor *m = tl_tensor_to_dlpack(t);
  CHECK(m != NULL);
  const DLTensor *dl = &m->dl_tensor;
  CHECK((char *)dl->data + dl->byte_offset == (char *)data);
  CHECK(dl->device.type == 1 && dl->device.id == 0);
  CHECK(dl->dtype.code == 2 && dl->dtype.bits == 32 && dl->dtype.lanes == 1);
  CHECK(dl->ndim == 2 && dl->shape[0] == 3 && dl->shape[1] == 2);
  CHECK(dl->strides[0] == 1 && dl->strides[1] == 3);
  tl_tensor_release(t);
  /* the exported struct keeps the tensor alive, although the caller has released its reference */
  CHECK(dl->shape[0] == 3);
  m->deleter(m);
}

static int releases;

static void count_release(void *data, void *context) {
  (void)data;
  (void)context;
  releases++;
}

TEST(an_exported_tensor_keeps_its_memory) {
  double data[2] = {1, 2};
  releases = 0;
  tl_Tensor *t = tl_tensor_wrap(data, TL_F64, 1, (int64_t[]){2}, NULL, count_release, NULL);
  struct DLManagedTensorVersioned *m = tl_tensor_to_dlpack_versioned(t);
  CHECK(m != NULL && m->major == 1 && m->flags == 0);
  tl_tensor_release(t);
  CHECK(releases == 0);
  m->deleter(m);
  CHECK(releases == 1);
}

static int deleted, deleted_versioned;

static void delete_plain(struct DLManagedTensor *self) {
  (void)self;
  deleted++;
}

static void delete_versioned(struct DLManagedTensorVersioned *self) {
  (void)self;
  deleted_versioned++;
}

/* Memory for a matrix (2, 3) of int32, which begins 4 bytes after the start of the array. */
static int32_t ints[7] = {-1, 1, 2, 3, 4, 5, 6};
static int64_t shape[2] = {2, 3}, strides[2] = {3, 1};

static DLTensor matrix(void) { return (DLTensor){ints, {1, 0}, 2, {0, 32, 1}, shape, strides, 4}; }

TEST(taking_in_calls_the_deleter_once_after_the_last_view) {
  deleted = 0;
  struct DLManagedTensor m = {matrix(), NULL, delete_plain};
  tl_Tensor *t = tl_tensor_from_dlpack(&m);
  CHECK(t != NULL && tl_tensor_data(t) == ints + 1);
  CHECK(tl_tensor_dtype(t) == TL_I32 && tl_tensor_ndim(t) == 2 && tl_tensor_is_contiguous(t));
  double out[6];
  CHECK(tl_tensor_read(t, TL_F64, out, sizeof out));
  for (int i = 0; i < 6; i++) CHECK(out[i] == i + 1);
  tl_tensor_retain(t);
  tl_tensor_release(t);
  CHECK(deleted == 0);
  tl_tensor_release(t);
  CHECK(deleted == 1);
}

TEST(no_strides_are_row_major_and_no_deleter_is_fine) {
  deleted_versioned = 0;
  struct DLManagedTensorVersioned m = {1, 3, NULL, delete_versioned, 0, matrix()};
  m.dl_tensor.strides = NULL;
  tl_Tensor *t = tl_tensor_from_dlpack_versioned(&m);
  CHECK(t != NULL && tl_tensor_strides(t)[0] == 3 && tl_tensor_strides(t)[1] == 1);
  tl_tensor_release(t);
  CHECK(deleted_versioned == 1);
  m.deleter = NULL;
  t = tl_tensor_from_dlpack_versioned(&m);
  CHECK(t != NULL);
  tl_tensor_release(t);
}

TEST(the_stride_of_one_element_says_nothing) {
  int64_t one[2] = {1, 3}, odd[2] = {-7, 1};
  struct DLManagedTensor m = {matrix(), NULL, NULL};
  m.dl_tensor.shape = one;
  m.dl_tensor.strides = odd;
  tl_Tensor *t = tl_tensor_from_dlpack(&m);
  CHECK(t != NULL && tl_tensor_is_contiguous(t));
  tl_tensor_release(t);
}

TEST(empty_and_zero_dimensional_tensors) {
  int64_t none[2] = {0, 3};
  struct DLManagedTensor m = {matrix(), NULL, NULL};
  m.dl_tensor.shape = none;
  m.dl_tensor.data = NULL;
  tl_Tensor *t = tl_tensor_from_dlpack(&m);
  CHECK(t != NULL && tl_tensor_numel(t) == 0 && tl_tensor_sizes(t)[1] == 3);
  struct DLManagedTensor *back = tl_tensor_to_dlpack(t);
  CHECK(back != NULL && back->dl_tensor.data == NULL && back->dl_tensor.shape[0] == 0);
  back->deleter(back);
  tl_tensor_release(t);
  m = (struct DLManagedTensor){matrix(), NULL, NULL};
  m.dl_tensor.ndim = 0;
  m.dl_tensor.shape = m.dl_tensor.strides = NULL;
  t = tl_tensor_from_dlpack(&m);
  double out;
  CHECK(t != NULL && tl_tensor_read(t, TL_F64, &out, sizeof out) && out == 1);
  tl_tensor_release(t);
}

TEST(every_dtype_comes_back) {
  /* Maps tlua's dtypes to their codes and bits in DLPack. */
  static const struct {
    tl_DType dtype;
    int code, bits;
  } rows[] = {{TL_F32, 2, 32}, {TL_F64, 2, 64}, {TL_F16, 2, 16}, {TL_BF16, 4, 16}, {TL_I8, 0, 8},
              {TL_I16, 0, 16}, {TL_I32, 0, 32}, {TL_I64, 0, 64}, {TL_U8, 1, 8},    {TL_BOOL, 6, 8}};
  for (int i = 0; i < 10; i++) {
    tl_Tensor *t = tl_tensor_empty(rows[i].dtype, 1, (int64_t[]){3});
    struct DLManagedTensor *m = tl_tensor_to_dlpack(t);
    CHECK_AT(i, m != NULL && m->dl_tensor.dtype.code == rows[i].code);
    CHECK_AT(i, m->dl_tensor.dtype.bits == rows[i].bits && m->dl_tensor.dtype.lanes == 1);
    tl_Tensor *same = tl_tensor_from_dlpack(m);
    CHECK_AT(i, tl_tensor_dtype(same) == rows[i].dtype);
    CHECK_AT(i, tl_tensor_data(same) == tl_tensor_data(t));
    tl_tensor_release(t);
    tl_tensor_release(same);
  }
}

/* Checks that an import is refused. The refused struct must still belong to the caller, so its
** deleter must not have been called. */
static void refuse(DLTensor dl, tl_ErrorKind kind, const char *part) {
  deleted = 0;
  struct DLManagedTensor m = {dl, NULL, delete_plain};
  CHECK(tl_tensor_from_dlpack(&m) == NULL);
  CHECK_ERROR(kind, part);
  CHECK(deleted == 0);
}

TEST(unsupported_memory_is_refused) {
  DLTensor dl = matrix();
  /* code 5 stands for complex numbers; with 16 bits, a number has two 8-bit floats, which tlua
  ** lacks */
  dl.dtype.code = 5;
  dl.dtype.bits = 16;
  refuse(dl, TL_EDTYPE, "from_dlpack: no dtype for DLPack's type with code 5, 16 bits, 1 lanes");
  dl = matrix();
  dl.dtype.lanes = 4;
  refuse(dl, TL_EDTYPE, "4 lanes");
  dl = matrix();
  dl.device.type = 7; /* Vulkan */
  refuse(dl, TL_EDEVICE, "expected a device of type CPU or CUDA, got type 7");
  dl = matrix();
  dl.device.type = 2;
  dl.device.id = 1000;
  refuse(dl, TL_EDEVICE, "device number 1000");
  dl = matrix();
  dl.ndim = TL_MAX_DIMS + 1;
  refuse(dl, TL_EARG, "expected 0 to 16 dimensions, got 17");
  dl = matrix();
  dl.ndim = -1;
  refuse(dl, TL_EARG, "dimensions, got -1");
  dl = matrix();
  dl.shape = NULL;
  refuse(dl, TL_EARG, "sizes: expected 2 of them, got NULL");
  dl = matrix();
  dl.data = NULL;
  refuse(dl, TL_EARG, "from_dlpack: expected memory, got NULL");
  dl = matrix();
  dl.byte_offset = 2;
  refuse(dl, TL_EARG, "from_dlpack: expected memory aligned to 4 bytes for int32");
  int64_t back[2] = {-3, 1};
  dl = matrix();
  dl.strides = back;
  refuse(dl, TL_EARG, "from_dlpack: strides [-3, 1]");
  int64_t wide[2] = {INT64_MAX, 1}, wider[2] = {1, INT64_MAX / 16};
  dl.strides = wide;
  refuse(dl, TL_EARG, "from_dlpack: strides [9223372036854775807, 1]");
  /* The tensor has fewer than 2^63 bytes, but it would extend past the end of the address space. */
  dl.strides = wider;
  dl.data = (void *)(UINTPTR_MAX - 1023);
  dl.byte_offset = 0;
  refuse(dl, TL_EARG, "got an address so close to the end of the address space");
  int64_t many[2] = {INT64_MAX / 2, 3}, negative[2] = {2, -3};
  dl = matrix();
  dl.shape = many;
  refuse(dl, TL_EARG, "[4611686018427387903, 3]");
  dl.shape = negative;
  refuse(dl, TL_EARG, "[2, -3]");
  dl = matrix();
  dl.byte_offset = UINT64_MAX - 3;
  refuse(dl, TL_EARG, "from_dlpack: byte_offset 18446744073709551612 leads out of all memory");
  dl.byte_offset = UINT64_C(1) << 63;
  refuse(dl, TL_EARG, "from_dlpack: byte_offset 9223372036854775808 leads out of all memory");
  dl = matrix();
  dl.dtype.bits = 0;
  refuse(dl, TL_EDTYPE, "0 bits");
  dl = matrix();
  dl.dtype.lanes = 0;
  refuse(dl, TL_EDTYPE, "0 lanes");
  CHECK(tl_tensor_from_dlpack(NULL) == NULL && tl_tensor_from_dlpack_versioned(NULL) == NULL);
  CHECK(tl_tensor_to_dlpack(NULL) == NULL && tl_tensor_to_dlpack_versioned(NULL) == NULL);
  CHECK_ERROR(TL_EARG, "to_dlpack: expected a tensor, got NULL");
}

TEST(read_only_memory_and_other_versions_are_refused) {
  deleted_versioned = 0;
  struct DLManagedTensorVersioned m = {1, 0, NULL, delete_versioned, 1, matrix()};
  CHECK(tl_tensor_from_dlpack_versioned(&m) == NULL);
  CHECK_ERROR(TL_EARG, "from_dlpack: the memory is read-only");
  m.flags = 0;
  m.major = 2;
  CHECK(tl_tensor_from_dlpack_versioned(&m) == NULL);
  CHECK_ERROR(TL_EARG, "from_dlpack: expected DLPack's version 1, got 2.0");
  CHECK(deleted_versioned == 0);
}

int main(void) { return test_all(); }
