/*
** move.c - copies of two-dimensional pieces between any strides, by the size
** of an element alone: rows by memcpy, broadcast elements by filling,
** transposed pieces in squares that stay in registers.
*/
#include <string.h>

#include "kernels/cpu/cpu.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* Transposed pieces are cut into squares with sides of so many elements; the
** compiler turns those of 8 into shuffles of registers, not those of 16. */
#define SIDE_8 8
#define SIDE_16 8
#define SIDE_64 8

/* The rows of a square at dst = its columns at src. */
#define TURN(bits)                                                                       \
  static inline void turn_##bits(char *dst, int64_t ds1, const char *src, int64_t ss0) { \
    enum { SIDE = SIDE_##bits };                                                         \
    uint##bits##_t square[SIDE][SIDE];                                                   \
    for (int c = 0; c < SIDE; c++) {                                                     \
      const uint##bits##_t *in = (const uint##bits##_t *)(const void *)(src + c * ss0);  \
      for (int r = 0; r < SIDE; r++) square[r][c] = in[r];                               \
    }                                                                                    \
    for (int r = 0; r < SIDE; r++) memcpy(dst + r * ds1, square[r], sizeof square[r]);   \
  }
/* The same for a part of a square: the first `rows` rows and `cols` columns of
** dst. */
#define TURN_PART(bits)                                                                            \
  static void turn_part_##bits(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols, \
                               int64_t rows) {                                                     \
    for (int64_t r = 0; r < rows; r++)                                                             \
      for (int64_t c = 0; c < cols; c++)                                                           \
        memcpy(dst + r * ds1 + c * (bits / 8), src + c * ss0 + r * (bits / 8), bits / 8);          \
  }
TURN(8)
TURN(16)
TURN(64)
TURN_PART(8)
TURN_PART(16)
TURN_PART(64)

#ifdef __AVX512F__
#define SIDE_32 16

/* clang-format off */
#define LANES(f, s) _mm512_setr_epi32(f(0, s), f(1, s), f(2, s), f(3, s), f(4, s), f(5, s), \
  f(6, s), f(7, s), f(8, s), f(9, s), f(10, s), f(11, s), f(12, s), f(13, s), f(14, s), f(15, s))
/* clang-format on */
#define LOW(lane, s) ((lane) & (s) ? 16 + (lane) - (s) : (lane))
#define HIGH(lane, s) ((lane) & (s) ? 16 + (lane) : (lane) + (s))

/* Swaps the quarters of all squares with sides of 2 s. */
#define SWAP(rows, s)                                                     \
  _Pragma("GCC unroll 16") for (int r = 0; r < 16; r++) if (!(r & (s))) { \
    __m512i a = rows[r], b = rows[r + (s)];                               \
    rows[r] = _mm512_permutex2var_epi32(a, LANES(LOW, s), b);             \
    rows[r + (s)] = _mm512_permutex2var_epi32(a, LANES(HIGH, s), b);      \
  }

static inline void turn_rows(__m512i rows[16]) {
  SWAP(rows, 8)
  SWAP(rows, 4)
  SWAP(rows, 2)
  SWAP(rows, 1)
}

/* Columns of src this far apart, each in pages of its own, are more streams than the processor
** reads ahead by itself; so many bytes of each are asked for in time. */
#define FAR 4096
#define AHEAD 256

static inline void turn_32(char *dst, int64_t ds1, const char *src, int64_t ss0) {
  __m512i v[16];
  if (ss0 >= FAR)
#pragma GCC unroll 16
    for (int c = 0; c < 16; c++) __builtin_prefetch(src + c * ss0 + AHEAD);
#pragma GCC unroll 16
  for (int c = 0; c < 16; c++) v[c] = _mm512_loadu_si512(src + c * ss0);
  turn_rows(v);
#pragma GCC unroll 16
  for (int r = 0; r < 16; r++) _mm512_storeu_si512(dst + r * ds1, v[r]);
}

static void turn_part_32(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols,
                         int64_t rows) {
  __mmask16 in = (__mmask16)((1u << rows) - 1), out = (__mmask16)((1u << cols) - 1);
  __m512i v[16];
#pragma GCC unroll 16
  for (int c = 0; c < 16; c++)
    v[c] = c < cols ? _mm512_maskz_loadu_epi32(in, src + c * ss0) : _mm512_setzero_si512();
  turn_rows(v);
#pragma GCC unroll 16
  for (int r = 0; r < 16; r++)
    if (r < rows) _mm512_mask_storeu_epi32(dst + r * ds1, out, v[r]);
}
#else
#define SIDE_32 8
TURN(32)
TURN_PART(32)
#endif

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
    const int64_t side = SIDE_##bits, size = bits / 8;                                             \
    for (int64_t r = 0; r < rows; r += side)                                                       \
      for (int64_t c = 0; c < cols; c += side) {                                                   \
        char *to = dst + r * ds1 + c * size;                                                       \
        const char *from = src + c * ss0 + r * size;                                               \
        if (r + side <= rows && c + side <= cols)                                                  \
          turn_##bits(to, ds1, from, ss0);                                                         \
        else                                                                                       \
          turn_part_##bits(to, ds1, from, ss0, cols - c < side ? cols - c : side,                  \
                           rows - r < side ? rows - r : side);                                     \
      }                                                                                            \
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
