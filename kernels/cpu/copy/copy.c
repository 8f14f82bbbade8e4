/*
** copy.c - copies between any strides and dtypes, and filling. If both dtypes are the same, a copy
** moves bytes: all at once if both arrays are contiguous, otherwise in blocks. The blocks are
** roughly square if one array is transposed.
*/
#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

typedef struct Move {
  tlk_Move move;
  const tli_Iter *it;
  tlk_Blocks blocks;
} Move;

/* a thread copies at least this number of bytes; with fewer, a second thread makes a copy slower */
#define COPY_BYTES (256 * 1024)

static void copy_bytes(void *context, int64_t begin, int64_t end) {
  const tli_Iter *it = context;
  memmove(it->args[0].data + begin, it->args[1].data + begin, (size_t)(end - begin));
}

static void move_blocks(void *context, int64_t begin, int64_t end) {
  const Move *m = context;
  const tli_IterArg *dst = &m->it->args[0], *src = &m->it->args[1];
  int ndim = m->it->ndim;
  for (int64_t i = begin; i < end; i++) {
    tlk_Block block = tlk_block_at(&m->blocks, i);
    m->move(block.ptrs[0], tlk_stride(dst, 0, ndim), tlk_stride(dst, 1, ndim), block.ptrs[1],
            tlk_stride(src, 0, ndim), tlk_stride(src, 1, ndim), block.cols, block.rows);
  }
}

/* Returns whether the copy divides elements that alternate in the source, such as the colours of
** pixels, among fewer than 8 rows. A block then has at least four of these rows, if there are as
** many, so that the source is read once or twice. */
static bool is_split(const tli_Iter *it) {
  const int64_t *from = it->args[1].strides;
  return it->ndim > 1 && it->sizes[1] < 8 && from[1] > 0 && from[1] < from[0];
}

static bool move_strided(const tli_Iter *it, tl_DType dtype) {
  Move m = {.move = tlk_isa()->move[tlk_log2_size(dtype)], .it = it};
  bool transposed = tlk_transposed(it);
  int64_t width = it->ndim > 0 ? it->sizes[0] : 1;
  int64_t cols = transposed ? 64 : is_split(it) ? TLK_GRAIN / 8 : TLK_GRAIN / 2;
  m.blocks =
      tlk_blocks(it, cols, transposed ? 64 : tlk_max(1, TLK_GRAIN / 2 / tlk_min(width, cols)));
  int64_t each = m.blocks.cols * m.blocks.rows;
  return tli_parallel_try(m.blocks.count, tlk_max(1, TLK_GRAIN / each), move_blocks, &m);
}

static bool both_contiguous(const tli_Iter *it, int64_t size) {
  return it->ndim == 0 ||
         (it->ndim == 1 && it->args[0].strides[0] == size && it->args[1].strides[0] == size);
}

bool tlk_copy(const struct tlk_copy *call) {
  if (call->it.numel == 0) return true;
  tl_DType dtype = call->it.args[0].dtype;
  int64_t size = (int64_t)tl_dtype_size(dtype);
  if (dtype != call->it.args[1].dtype) return tlk_convert_elements(&call->it);
  if (both_contiguous(&call->it, size))
    return tli_parallel_try(call->it.numel * size, COPY_BYTES, copy_bytes,
                            (void *)(intptr_t)&call->it);
  return move_strided(&call->it, dtype);
}

bool tlk_fill(const struct tlk_fill *call) {
  if (call->it.numel == 0) return true;
  tl_DType dtype = call->it.args[0].dtype;
  int64_t size = (int64_t)tl_dtype_size(dtype);
  _Alignas(16) char element[16];
  tli_store(element, dtype, call->value);
  bool zero = true;
  for (int64_t i = 0; i < size; i++) zero = zero && element[i] == 0;
  if (zero && call->it.ndim == 1 && call->it.args[0].strides[0] == size &&
      call->it.numel * size <= COPY_BYTES) {
    memset(call->it.args[0].data, 0, (size_t)(call->it.numel * size));
    return true;
  }
  tli_Iter with_source = call->it;
  with_source.nargs = 2;
  with_source.args[1] = (tli_IterArg){.data = element, .dtype = dtype};
  return move_strided(&with_source, dtype);
}
