/* index_call.c - see index_call.h. */
#include "ops/index/index_call.h"

tl_Tensor *tli_index_int64(const char *op, tl_Tensor *index) {
  if (tli_dtype_category((tl_DType)index->dtype) != TLI_INT)
    return tli_fail_null(TL_EDTYPE, "%s: index: expected positions as integers, got %s", op,
                         tl_dtype_name((tl_DType)index->dtype));
  return tli_contiguous_as(index, TL_I64);
}

static bool bad_position(const char *op, int64_t bad, int64_t size, bool wrap) {
  if (size == 0)
    return tli_fail(TL_EINDEX,
                    "%s: index: position %" PRId64 " is out of range: the dimension is "
                    "empty",
                    op, bad);
  if (wrap)
    return tli_fail(TL_EINDEX,
                    "%s: index: position %" PRId64 " is out of range: expected 1 to %" PRId64
                    " or -%" PRId64 " to -1",
                    op, bad, size, size);
  return tli_fail(TL_EINDEX,
                  "%s: index: position %" PRId64 " is out of range: expected 1 to %" PRId64, op,
                  bad, size);
}

bool tli_check_index(const char *op, const tl_Tensor *index, int64_t size, bool wrap) {
  int64_t bad = 0;
  if (index->numel == 0) return true;
  return tli_backend(tli_device(index))
             ->check_index(tli_data(index), index->numel, size, wrap, &bad) ||
         bad_position(op, bad, size, wrap);
}

tl_Tensor *tli_wrap_index(const char *op, tl_Tensor *index, int64_t size) {
  tl_Tensor *at = tli_index_int64(op, index);
  int64_t bad;
  if (at == NULL || at->numel == 0 ||
      tli_backend(tli_device(at))->check_index(tli_data(at), at->numel, size, false, &bad))
    return at;
  tl_Tensor *plain =
      tli_check_index(op, at, size, true) ? tlo_unwrap_position(at, tli_int(size)) : NULL;
  tli_release(at);
  return plain;
}

tl_Tensor *tli_unaliased(tl_Tensor *t, const tl_Tensor *written) {
  if (t->storage != written->storage) return tli_retain(t);
  return tli_clone_for("scatter", t);
}

/* The kernels' form of the operands; `it` must live as long as the result. */
static tlk_IndexCall call_of(tli_Iter *it, const tli_Operand operands[3], int ndim,
                             const int64_t *sizes, int64_t count, int64_t n) {
  tl_Tensor parts[3], *args[3];
  tlk_IndexCall call = {.it = it, .count = count, .n = n};
  for (int k = 0; k < 3; k++) {
    parts[k] = *operands[k].tensor;
    args[k] = &parts[k];
    tli_set_geometry(&parts[k], ndim, sizes, operands[k].strides);
    call.strides[k] = operands[k].along * tli_dtype_bytes[parts[k].dtype];
  }
  tli_iter_build(it, ndim, sizes, args, 3);
  return call;
}

bool tli_gather(const char *op, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                int64_t count, int64_t n) {
  tli_Iter it;
  tlk_IndexCall call = call_of(&it, operands, ndim, sizes, count, n);
  if (it.numel == 0 || count == 0) return true;
  int64_t bad = 0;
  return tli_backend(tli_device(operands[0].tensor))->gather(&call, &bad) ||
         bad_position(op, bad, n, false);
}

bool tli_scatter(tlk_Join join, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                 int64_t count, int64_t n) {
  tli_Iter it;
  tlk_IndexCall call = call_of(&it, operands, ndim, sizes, count, n);
  if (it.numel == 0 || count == 0) return true;
  return tli_backend(tli_device(operands[0].tensor))->scatter(join, &call);
}

bool tli_scatter_upcasts(tlk_Join join, const tl_Tensor *out) {
  tl_DType dtype = (tl_DType)out->dtype;
  return join != TLK_JOIN_SET && tli_dtype_compute(dtype) != dtype;
}
