/*
** block_walk.h - divides an elementwise loop into two-dimensional blocks: `cols` elements along
** dimension 0 by `rows` along dimension 1, fewer at the edges. Blocks are numbered with dimension 0
** varying fastest, and threads share them by their numbers. The size of a block depends on the loop
** alone.
*/
#ifndef TLK_BLOCK_WALK_H
#define TLK_BLOCK_WALK_H

#include "core/kernel/iter.h"

typedef struct tlk_Blocks {
  const tli_Iter *it;
  int64_t sizes[2];
  int64_t cols, rows;   /* number of columns and number of rows in a whole block */
  int64_t across, down; /* number of blocks along dimension 0, and along dimension 1 */
  int64_t count;
} tlk_Blocks;

typedef struct tlk_Block {
  char *ptrs[TLI_ITER_MAX];
  int64_t cols, rows;
} tlk_Block;

static inline int64_t tlk_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t tlk_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tlk_max(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t tlk_stride(const tli_IterArg *arg, int dim, int ndim) {
  return dim < ndim ? arg->strides[dim] : 0;
}

/* Divides a loop into blocks of at most cols x rows. numel must not be 0. */
static inline tlk_Blocks tlk_blocks(const tli_Iter *it, int64_t cols, int64_t rows) {
  tlk_Blocks b = {.it = it, .count = 1};
  for (int d = 0; d < 2; d++) b.sizes[d] = d < it->ndim ? it->sizes[d] : 1;
  b.cols = tlk_min(cols, b.sizes[0]);
  b.rows = tlk_min(rows, b.sizes[1]);
  b.across = tlk_ceil_div(b.sizes[0], b.cols);
  b.down = tlk_ceil_div(b.sizes[1], b.rows);
  b.count = b.across * b.down;
  for (int d = 2; d < it->ndim; d++) b.count *= it->sizes[d];
  return b;
}

static inline tlk_Block tlk_block_at(const tlk_Blocks *b, int64_t index) {
  const tli_Iter *it = b->it;
  tlk_Block block;
  int64_t c0 = index % b->across * b->cols;
  index /= b->across;
  int64_t r0 = index % b->down * b->rows;
  index /= b->down;
  block.cols = tlk_min(b->cols, b->sizes[0] - c0);
  block.rows = tlk_min(b->rows, b->sizes[1] - r0);
  for (int k = 0; k < it->nargs; k++) {
    const tli_IterArg *arg = &it->args[k];
    block.ptrs[k] =
        arg->data + (c0 != 0 ? c0 * arg->strides[0] : 0) + (r0 != 0 ? r0 * arg->strides[1] : 0);
  }
  for (int d = 2; d < it->ndim; d++) {
    int64_t at = index % it->sizes[d];
    index /= it->sizes[d];
    for (int k = 0; k < it->nargs; k++) block.ptrs[k] += at * it->args[k].strides[d];
  }
  return block;
}

/* Returns whether some operand is contiguous along dimension 1 instead of dimension 0. The blocks
** of such a loop are roughly square, so that whole cache lines of every operand are read and
** written. */
static inline bool tlk_transposed(const tli_Iter *it) {
  if (it->ndim < 2 || it->sizes[0] < 8 || it->sizes[1] < 8) return false;
  for (int k = 0; k < it->nargs; k++) {
    int64_t s0 = it->args[k].strides[0], s1 = it->args[k].strides[1];
    if (s0 != 0 && s1 != 0 && s1 < s0) return true;
  }
  return false;
}

#endif
