/*
** resample_u8.c - resampling bytes along one dimension. Lines are processed in tiles whose columns
** are contiguous, so that a vector instruction multiplies a weight by bytes of all lines at once.
*/
#include <string.h>

#include "kernels/cpu/vision/resample.h"

enum { LINES = TLK_RESAMPLE_LINES, SIDE = 16 };

typedef uint8_t Bytes __attribute__((vector_size(SIDE)));

/* Adds weight * x[r] to each sum. The function is not inlined, because GCC does not vectorise the
** loop inside other loops. */
static __attribute__((noinline)) void add_weighted(int32_t weight, const uint8_t *restrict x,
                                                   int32_t *restrict sum) {
  for (int r = 0; r < LINES; r++) sum[r] += weight * x[r];
}

/* Computes LINES sums: each adds up `terms` products of weights[t] and the bytes at x + at[t] *
** step. */
static __attribute__((noinline)) void sum_up(int64_t terms, const int32_t *at,
                                             const int16_t *weights, int digits, const uint8_t *x,
                                             int64_t step, uint8_t *restrict out) {
  int32_t sum[LINES];
  for (int r = 0; r < LINES; r++) sum[r] = 1 << (digits - 1);
  for (int64_t t = 0; t < terms; t++) add_weighted(weights[t], x + at[t] * step, sum);
  for (int r = 0; r < LINES; r++) {
    int32_t v = sum[r] >> digits;
    out[r] = (uint8_t)(v < 0 ? 0 : v > UINT8_MAX ? UINT8_MAX : v);
  }
}

static void row(int64_t n, int64_t terms, const int32_t *at, const int16_t *weights, int digits,
                const uint8_t *in, uint8_t *out) {
  for (int64_t c = 0; c < n && n >= LINES; c += LINES) {
    int64_t from = c + LINES <= n ? c : n - LINES;
    sum_up(terms, at, weights, digits, in + from, n, out + from);
  }
  for (int64_t c = 0; c < n && n < LINES; c++) {
    int32_t sum = 1 << (digits - 1);
    for (int64_t t = 0; t < terms; t++) sum += weights[t] * in[at[t] * n + c];
    sum >>= digits;
    out[c] = (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
  }
}

/* Interleaves the halves of pairs of rows. Four rounds of this transpose a square. */
static inline __attribute__((always_inline)) void interleave(const Bytes *a, Bytes *b) {
  for (int i = 0; i < SIDE / 2; i++) {
    Bytes x = a[i], y = a[i + SIDE / 2];
    b[2 * i] =
        __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    b[2 * i + 1] =
        __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
}

/* Transposes a square of SIDE x SIDE bytes. Rows are `from` bytes apart in the source and `to`
** bytes apart in the result. */
static __attribute__((noinline)) void transpose_square(const uint8_t *in, int64_t from,
                                                       uint8_t *out, int64_t to) {
  Bytes a[SIDE], b[SIDE];
  for (int r = 0; r < SIDE; r++) memcpy(&a[r], in + r * from, SIDE);
  interleave(a, b);
  interleave(b, a);
  interleave(a, b);
  interleave(b, a);
  for (int r = 0; r < SIDE; r++) memcpy(out + r * to, &a[r], SIDE);
}

/* Transposes the bytes that are left beside the squares one by one. The empty assembler statement
** keeps the compiler from vectorising the loop, which would be slower. */
static __attribute__((noinline)) void transpose_rest(int64_t rows, int64_t columns,
                                                     const uint8_t *in, int64_t from, uint8_t *out,
                                                     int64_t to) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) {
      uint32_t byte = in[r * from + c];
      __asm__("" : "+r"(byte));
      out[c * to + r] = (uint8_t)byte;
    }
}

/* Transposes rows x columns bytes. Rows are `from` bytes apart in the source and `to` bytes apart
** in the result. */
static __attribute__((noinline)) void transpose(int64_t rows, int64_t columns, const uint8_t *in,
                                                int64_t from, uint8_t *out, int64_t to) {
  int64_t whole = columns - columns % SIDE, r = 0;
  for (; r + SIDE <= rows; r += SIDE) {
    for (int64_t c = 0; c < whole; c += SIDE)
      transpose_square(in + r * from + c, from, out + c * to + r, to);
    transpose_rest(SIDE, columns - whole, in + r * from + whole, from, out + whole * to + r, to);
  }
  transpose_rest(rows - r, columns, in + r * from, from, out + r, to);
}

static void lines(int64_t lines, int64_t n, int64_t from, const int32_t *first, const int32_t *at,
                  const int16_t *weights, int digits, const uint8_t *in, uint8_t *tile,
                  uint8_t *out) {
  transpose(lines, from, in, from, tile, LINES);
  for (int64_t begin = 0; begin < n; begin += SIDE) {
    uint8_t block[SIDE * LINES];
    int64_t m = n - begin < SIDE ? n - begin : SIDE;
    for (int64_t i = 0; i < m; i++) {
      int32_t t = first[begin + i];
      sum_up(first[begin + i + 1] - t, at + t, weights + t, digits, tile, LINES, block + i * LINES);
    }
    transpose(m, lines, block, LINES, out + begin, n);
  }
}

extern const tlk_ResampleBytes TLK_ISA_NAME(tlk_resample_u8);
const tlk_ResampleBytes TLK_ISA_NAME(tlk_resample_u8) = {row, lines};
