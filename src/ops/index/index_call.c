/* index_call.c - implements index_call.h: prepares indices and operands for kernel calls. */
#include "ops/index/index_call.h"

tl_Tensor *tli_index_int64(const char *op, tl_Tensor *index) {
  if (tli_dtype_category((tl_DType)index->dtype) != TLI_INT || tli_is_stored(index->dtype))
    return tli_fail_null(TL_EDTYPE, "%s: index: expected positions as int64 or int32, got %s", op,
                         tl_dtype_name((tl_DType)index->dtype));
  return tli_contiguous_as(index, TL_I64);
}

bool tli_check_index(const char *op, const char *argument, const tl_Tensor *index, int64_t size,
                     bool wrap) {
  if (index->numel == 0) return true;
  tl_Device device = tli_device(index);
  return TLI_RUN(device, check_index, .index = tli_data(index), .n = index->numel, .size = size,
                 .wrap = wrap, .source = tli_fault_source(device, op, argument));
}

tl_Tensor *tli_wrap_index(const char *op, const char *argument, tl_Tensor *index, int64_t size) {
  tl_Tensor *at = tli_index_int64(op, index);
  if (at == NULL || at->numel == 0) return at;
  /* usually no position is negative, and `at` needs no conversion; on other devices this check
  ** would make the host wait */
  if (tli_device(at).type == TL_CPU && tli_check_index(op, argument, at, size, false)) return at;
  tl_Tensor *plain =
      tli_check_index(op, argument, at, size, true) ? tlo_unwrap_position(at, tli_int(size)) : NULL;
  tli_release(at);
  return plain;
}

tl_Tensor *tli_unaliased(tl_Tensor *t, const tl_Tensor *written) {
  if (t->storage != written->storage) return tli_retain(t);
  return tli_clone_for("scatter", t);
}

/* Describes the operands in the form that the kernels take. */
static void lines_of(tlk_IndexCall *lines, const tli_Operand operands[3], int ndim,
                     const int64_t *sizes, int64_t count, int64_t n) {
  tl_Tensor parts[3], *args[3];
  lines->count = count;
  lines->n = n;
  for (int k = 0; k < 3; k++) {
    parts[k] = *operands[k].tensor;
    args[k] = &parts[k];
    tli_set_geometry(&parts[k], ndim, sizes, operands[k].strides);
    lines->strides[k] = operands[k].along * tli_dtype_bytes[parts[k].dtype];
  }
  tli_iter_build(&lines->it, ndim, sizes, args, 3);
}

bool tli_gather(const char *op, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                int64_t count, int64_t n) {
  tl_Device device = tli_device(operands[0].tensor);
  struct tlk_gather call;
  call.cx = tli_context(device);
  call.source = tli_fault_source(device, op, "index");
  lines_of(&call.index, operands, ndim, sizes, count, n);
  return call.index.it.numel == 0 || count == 0 || tli_backend(device)->gather(&call);
}

bool tli_scatter(tlk_Join join, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                 int64_t count, int64_t n) {
  tl_Device device = tli_device(operands[0].tensor);
  struct tlk_scatter call;
  call.cx = tli_context(device);
  call.join = join;
  lines_of(&call.index, operands, ndim, sizes, count, n);
  return call.index.it.numel == 0 || count == 0 || tli_backend(device)->scatter(&call);
}

bool tli_scatter_upcasts(tlk_Join join, const tl_Tensor *out) {
  tl_DType dtype = (tl_DType)out->dtype;
  return join != TLK_JOIN_SET && tli_dtype_compute(dtype) != dtype;
}
