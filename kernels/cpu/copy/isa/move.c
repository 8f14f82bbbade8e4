/*
** move.c - copies of two-dimensional pieces between any strides, by the size of an element
** alone: rows by memcpy, broadcast elements by filling, transposed pieces in squares that stay
** in registers.
*/
#include <string.h>

#include "kernels/cpu/cpu.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

/* Side of the squares of transposed pieces, by element size. Compilers turn squares of 8 into
** register shuffles, but not squares of 16. */
#define SIDE_8 8
#define SIDE_16 8
#define SIDE_64 8
#define SIDE_128 4

/* Copies the columns of a square of src to the rows of dst. */
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
/* Copies a part of a square: the first `rows` rows and `cols` columns of dst. */
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
TURN(128)
TURN_PART(8)
TURN_PART(16)
TURN_PART(64)
TURN_PART(128)

#ifdef __AVX__
#ifdef __AVX512F__
#define SIDE_32 16
#define WIDE(name) _mm512_##name
#define WIDEN _mm512_castps128_ps512
#define PUT _mm512_insertf32x4
typedef __m512 Wide;
#else
#define SIDE_32 8
#define WIDE(name) _mm256_##name
#define WIDEN _mm256_castps128_ps256
#define PUT _mm256_insertf128_ps
typedef __m256 Wide;
#endif

static inline __m128 four(const char *src) {
  return _mm_loadu_ps((const float *)(const void *)src);
}

/* Loads four elements each of columns 0, 4, 8 ... into one vector. Inserting from memory needs
** no shuffle unit, of which a processor has only one. */
static inline Wide fours(const char *src, int64_t ss0) {
  Wide v = PUT(WIDEN(four(src)), four(src + 4 * ss0), 1);
#ifdef __AVX512F__
  v = PUT(PUT(v, four(src + 8 * ss0), 2), four(src + 12 * ss0), 3);
#endif
  return v;
}

/* Transposes four vectors of `fours`, for columns 0, 1, 2 and 3 and every fourth column after each,
** to four rows. */
static inline void turn_fours(const Wide in[4], Wide rows[4]) {
  Wide low01 = WIDE(unpacklo_ps)(in[0], in[1]), low23 = WIDE(unpacklo_ps)(in[2], in[3]);
  Wide high01 = WIDE(unpackhi_ps)(in[0], in[1]), high23 = WIDE(unpackhi_ps)(in[2], in[3]);
  rows[0] = WIDE(shuffle_ps)(low01, low23, 0x44);
  rows[1] = WIDE(shuffle_ps)(low01, low23, 0xee);
  rows[2] = WIDE(shuffle_ps)(high01, high23, 0x44);
  rows[3] = WIDE(shuffle_ps)(high01, high23, 0xee);
}

/* Columns of src this far apart are in pages of their own, more streams than the hardware
** prefetches; so AHEAD bytes of each are prefetched. */
#define FAR 4096
#define AHEAD 256

static inline void turn_32(char *dst, int64_t ds1, const char *src, int64_t ss0) {
  if (ss0 >= FAR)
#pragma GCC unroll 16
    for (int c = 0; c < SIDE_32; c++) __builtin_prefetch(src + c * ss0 + AHEAD);
  for (int r = 0; r < SIDE_32; r += 4, src += 16, dst += 4 * ds1) {
    Wide in[4], rows[4];
    for (int c = 0; c < 4; c++) in[c] = fours(src + c * ss0, ss0);
    turn_fours(in, rows);
    for (int i = 0; i < 4; i++) WIDE(storeu_ps)((float *)(void *)(dst + i * ds1), rows[i]);
  }
}
#else
#define SIDE_32 8
TURN(32)
#endif

#ifdef __AVX512F__
/* Like fours with fewer columns and elements; the rest is 0. */
static inline Wide part_of_fours(const char *src, int64_t ss0, int64_t cols, __mmask8 in) {
  Wide v = WIDE(setzero_ps)();
  if (cols > 0) v = PUT(v, _mm_maskz_loadu_ps(in, src), 0);
  if (cols > 4) v = PUT(v, _mm_maskz_loadu_ps(in, src + 4 * ss0), 1);
  if (cols > 8) v = PUT(v, _mm_maskz_loadu_ps(in, src + 8 * ss0), 2);
  if (cols > 12) v = PUT(v, _mm_maskz_loadu_ps(in, src + 12 * ss0), 3);
  return v;
}

static void turn_part_32(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols,
                         int64_t rows) {
  __mmask16 out = (__mmask16)((1u << cols) - 1);
  for (; rows > 0; rows -= 4, src += 16, dst += 4 * ds1) {
    __mmask8 in = (__mmask8)(rows < 4 ? (1u << rows) - 1 : 15);
    Wide columns[4], turned[4];
    for (int c = 0; c < 4; c++) columns[c] = part_of_fours(src + c * ss0, ss0, cols - c, in);
    turn_fours(columns, turned);
    for (int i = 0; i < 4 && i < rows; i++) _mm512_mask_storeu_ps(dst + i * ds1, out, turned[i]);
  }
}
#else
TURN_PART(32)
#endif

#define MOVE(bits)                                                                                 \
  static void fill_row_##bits(char *dst, int64_t cols, const char *src) {                          \
    uint##bits##_t value;                                                                          \
    memcpy(&value, src, sizeof value);                                                             \
    uint##bits##_t *out = (uint##bits##_t *)(void *)dst;                                           \
    for (int64_t c = 0; c < cols; c++) out[c] = value;                                             \
  }                                                                                                \
  /* Transposes a piece whose elements are contiguous along c in dst and along r in src. */        \
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
MOVE(128)

extern const tlk_Move TLK_ISA_NAME(tlk_move)[5];
const tlk_Move TLK_ISA_NAME(tlk_move)[5] = {move_8, move_16, move_32, move_64, move_128};
