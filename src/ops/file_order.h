/*
** file_order.h - tensors as they stand in files: row-major and little-endian.
*/
#ifndef TLI_FILE_ORDER_H
#define TLI_FILE_ORDER_H

#include "core/kernel/byte_order.h"
#include "ops/common.h"

/* Returns a CPU tensor with the elements of `t` in the order of files. On a little-endian machine
** this may be `t` itself, with one more reference. */
static inline tl_Tensor *tli_in_file_order(tl_Tensor *t) {
  tl_DType dtype = (tl_DType)t->dtype;
  tl_Tensor *plain = tli_contiguous_as(t, dtype);
  if (!TLI_BIG_ENDIAN || plain == NULL) return plain;
  tl_Tensor *copy = tli_clone_for("clone", plain);
  tli_release(plain);
  if (copy) tli_swap_for_file(tli_data(copy), copy->numel, dtype);
  return copy;
}

#endif
