/*
** packed.c - packs a matrix in panels and multiplies with it. The outer loop runs over panels and
** the inner loop over the rows of a. So a piece of a panel stays in the first-level cache while it
** is multiplied with all rows.
*/
#include "kernels/cpu/matmul/packed.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

#define MOST_COLUMN_BYTES 256 /* largest number of bytes in a row of a packed panel */

bool tlk_pack(tlk_Packed *p, tl_DType dtype, bool trans, int64_t k, int64_t n, const void *b,
              int64_t ldb) {
  p->loops = tlk_product_loops(dtype == TL_F64);
  p->size = dtype == TL_F64 ? 8 : 4;
  p->k = k, p->n = n;
  p->width = tlk_max(p->loops->lanes, tlk_tile_width(p->loops, n));
  p->panels = tlk_ceil_div(n, p->width);
  for (int64_t t = 0; t < TLK_TILE_DEPTH; t++) p->offsets[t] = t;
  int64_t row = p->width * p->size;
  p->bytes = (size_t)(p->panels * k * row);
  if ((p->data = tli_alloc(p->bytes)) == NULL) return false;
  const char *from = b;
  char *to = p->data;
  for (int64_t j = 0; j < n; j += p->width, to += k * row) {
    int64_t cols = tlk_min(p->width, n - j);
    if (cols < p->width) memset(to, 0, (size_t)(k * row));
    if (trans)
      tlk_isa()->move[p->size == 8 ? 3 : 2](to, row, p->size, from + j * ldb * p->size, p->size,
                                            ldb * p->size, k, cols);
    else
      for (int64_t t = 0; t < k; t++)
        memcpy(to + t * row, from + (t * ldb + j) * p->size, (size_t)(cols * p->size));
  }
  return true;
}

void tlk_packed_free(tlk_Packed *p) {
  tli_free(p->data, p->bytes);
  p->data = NULL;
}

/* Stores the sums for the columns of one panel in c, or adds them to c if `add`. */
static void put_rows(const tlk_Packed *p, int64_t rows, int64_t cols, bool add, const char *sums,
                     char *c, int64_t c_step) {
  for (int64_t r = 0; r < rows; r++, sums += p->width * p->size, c += c_step * p->size) {
    if (!add)
      memcpy(c, sums, (size_t)(cols * p->size));
    else if (p->size == 4)
      for (int64_t i = 0; i < cols; i++)
        ((float *)(void *)c)[i] += ((const float *)(const void *)sums)[i];
    else
      for (int64_t i = 0; i < cols; i++)
        ((double *)(void *)c)[i] += ((const double *)(const void *)sums)[i];
  }
}

/* Multiplies n terms of all rows of a by the same n terms of a panel. */
static void sum_terms(const tlk_Packed *p, int64_t rows, int64_t n, const char *a, int64_t a_step,
                      const char *panel, int64_t cols, bool add, char *c, int64_t c_step) {
  const tlk_TileLoops *f = p->loops;
  int vectors = (int)(p->width / f->lanes);
  for (int64_t r = 0; r < rows; r += f->rows) {
    int height = (int)tlk_min(f->rows, rows - r);
    const void *in[TLK_TILE_ROWS];
    for (int i = 0; i < f->rows; i++) in[i] = a + (r + tlk_min(i, height - 1)) * a_step * p->size;
    char *to = c + r * c_step * p->size;
    if (cols == p->width) {
      f->tile(height, vectors, n, p->offsets, in, panel, p->width, add, to, c_step);
    } else {
      char sums[TLK_TILE_ROWS * MOST_COLUMN_BYTES] __attribute__((aligned(64)));
      f->tile(height, vectors, n, p->offsets, in, panel, p->width, false, sums, p->width);
      put_rows(p, height, cols, add, sums, to, c_step);
    }
  }
}

void tlk_packed_product(const tlk_Packed *p, int64_t begin, int64_t end, int64_t rows,
                        const void *a, int64_t a_step, bool add, void *c, int64_t c_step) {
  int64_t row = p->width * p->size;
  for (int64_t j = begin; j < end; j++) {
    const char *panel = p->data + j * p->k * row;
    char *to = (char *)c + j * row;
    int64_t cols = tlk_min(p->width, p->n - j * p->width);
    bool more = add;
    for (int64_t t = 0; t < p->k; t += TLK_TILE_DEPTH, more = true)
      sum_terms(p, rows, tlk_min(TLK_TILE_DEPTH, p->k - t), (const char *)a + t * p->size, a_step,
                panel + t * row, cols, more, to, c_step);
  }
}
