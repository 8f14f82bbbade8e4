/*
** move.c - copies of two-dimensional pieces between any strides, by the size
** of an element alone: rows by memcpy, broadcast elements by filling,
** transposed pieces in tiles that stay in registers and first-level cache.
*/
#include <string.h>

#include "kernels/cpu/cpu.h"

/* A tile is TILE x TILE elements; 8 of 8 bytes fill a cache line. */
#define TILE 16

#define MOVE(bits)                                                                                 \
  static void fill_row_##bits(char *dst, int64_t cols, const char *src) {                          \
    uint##bits##_t value;                                                                          \
    memcpy(&value, src, sizeof value);                                                             \
    uint##bits##_t *out = (uint##bits##_t *)(void *)dst;                                           \
    for (int64_t c = 0; c < cols; c++) out[c] = value;                                             \
  }                                                                                                \
  /* Elements lie side by side along c in dst and along r in src. */                               \
  static void transpose_##bits(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols, \
                               int64_t rows) {                                                     \
    int64_t r0 = 0;                                                                                \
    for (; r0 + TILE <= rows; r0 += TILE) {                                                        \
      int64_t c0 = 0;                                                                              \
      for (; c0 + TILE <= cols; c0 += TILE) {                                                      \
        uint##bits##_t tile[TILE][TILE];                                                           \
        for (int c = 0; c < TILE; c++) {                                                           \
          const uint##bits##_t *in =                                                               \
              (const uint##bits##_t *)(const void *)(src + (c0 + c) * ss0) + r0;                   \
          for (int r = 0; r < TILE; r++) tile[r][c] = in[r];                                       \
        }                                                                                          \
        for (int r = 0; r < TILE; r++)                                                             \
          memcpy(dst + (r0 + r) * ds1 + c0 * (bits / 8), tile[r], sizeof tile[r]);                 \
      }                                                                                            \
      for (int64_t r = r0; r < r0 + TILE; r++)                                                     \
        for (int64_t c = c0; c < cols; c++)                                                        \
          memcpy(dst + r * ds1 + c * (bits / 8), src + c * ss0 + r * (bits / 8), bits / 8);        \
    }                                                                                              \
    for (; r0 < rows; r0++)                                                                        \
      for (int64_t c = 0; c < cols; c++)                                                           \
        memcpy(dst + r0 * ds1 + c * (bits / 8), src + c * ss0 + r0 * (bits / 8), bits / 8);        \
  }                                                                                                \
  static void move_##bits(char *dst, int64_t ds0, int64_t ds1, const char *src, int64_t ss0,       \
                          int64_t ss1, int64_t cols, int64_t rows) {                               \
    const int64_t size = bits / 8;                                                                 \
    if (ds0 == size && ss1 == size && ss0 != size && ss0 != 0 && rows > 1) {                       \
      transpose_##bits(dst, ds1, src, ss0, cols, rows);                                            \
      return;                                                                                      \
    }                                                                                              \
    if (ds1 == size && ss0 == size && ds0 != size && ss1 != 0 && cols > 1 && rows > 1) {           \
      transpose_##bits(dst, ds0, src, ss1, rows, cols);                                            \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t r = 0; r < rows; r++, dst += ds1, src += ss1) {                                   \
      if (ds0 == size && ss0 == size) {                                                            \
        memcpy(dst, src, (size_t)(cols * size));                                                   \
      } else if (ds0 == size && ss0 == 0) {                                                        \
        fill_row_##bits(dst, cols, src);                                                           \
      } else {                                                                                     \
        char *d = dst;                                                                             \
        const char *s = src;                                                                       \
        for (int64_t c = 0; c < cols; c++, d += ds0, s += ss0) memcpy(d, s, bits / 8);             \
      }                                                                                            \
    }                                                                                              \
  }

MOVE(8)
MOVE(16)
MOVE(32)
MOVE(64)

extern const tlk_Move TLK_ISA_NAME(tlk_move)[4];
const tlk_Move TLK_ISA_NAME(tlk_move)[4] = {move_8, move_16, move_32, move_64};
