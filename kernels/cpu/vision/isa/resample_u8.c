/*
** resample_u8.c - resampling bytes along one dimension. Along the last dimension, a vector has a
** few neighbouring elements of several lines. If the elements of a sum are too far apart for this,
** lines are transposed in tiles, so that a vector multiplies a weight by bytes of all lines at
** once.
*/
#include <string.h>

#ifdef __SSSE3__
#include <immintrin.h>
#endif

#include "kernels/cpu/vector.h"
#include "kernels/cpu/vision/resample.h"

enum { LINES = TLK_RESAMPLE_LINES, SIDE = 16 };

typedef uint8_t Bytes __attribute__((vector_size(SIDE)));

static inline uint8_t byte_of(int32_t sum, int digits) {
  sum >>= digits;
  return (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
}

#ifdef __SSSE3__

/* A vector of Wide has LANES groups of 16 bytes. */
#ifdef __AVX512BW__
#define OF(name) _mm512_##name
typedef __m512i Wide;
#elif defined __AVX2__
#define OF(name) _mm256_##name
typedef __m256i Wide;
#else
#define OF(name) _mm_##name
typedef __m128i Wide;
#endif
enum { LANES = sizeof(Wide) / 16 };

static inline __m128i load(const void *from) { return _mm_loadu_si128((const __m128i *)from); }

static inline Wide load_wide(const void *from) {
  Wide v;
  memcpy(&v, from, sizeof v);
  return v;
}

/* Rounds four vectors of sums to one vector of bytes. */
static inline Wide round_sums(const Wide sum[4], int digits) {
  __m128i n = _mm_cvtsi32_si128(digits);
  Wide low = OF(packs_epi32)(OF(sra_epi32)(sum[0], n), OF(sra_epi32)(sum[1], n));
  Wide high = OF(packs_epi32)(OF(sra_epi32)(sum[2], n), OF(sra_epi32)(sum[3], n));
  return OF(packus_epi16)(low, high);
}

/* Computes sizeof(Wide) sums: each adds up `terms` products of weights[t] and the bytes at x +
** at[t] * step. An instruction adds the products of two terms. */
static inline Wide wide_sums(int64_t terms, const int32_t *at, const int16_t *weights, int digits,
                             const uint8_t *x, int64_t step) {
  Wide zero = OF(set1_epi32)(0), half = OF(set1_epi32)(1 << (digits - 1));
  Wide sum[4] = {half, half, half, half};
  for (int64_t t = 0; t < terms; t += 2) {
    bool pair = t + 1 < terms;
    Wide a = load_wide(x + at[t] * step), b = pair ? load_wide(x + at[t + 1] * step) : zero;
    int32_t second = pair ? weights[t + 1] : 0;
    Wide w = OF(set1_epi32)((int32_t)((uint32_t)second << 16 | (uint16_t)weights[t]));
    Wide low = OF(unpacklo_epi8)(a, b), high = OF(unpackhi_epi8)(a, b);
    sum[0] = OF(add_epi32)(sum[0], OF(madd_epi16)(OF(unpacklo_epi8)(low, zero), w));
    sum[1] = OF(add_epi32)(sum[1], OF(madd_epi16)(OF(unpackhi_epi8)(low, zero), w));
    sum[2] = OF(add_epi32)(sum[2], OF(madd_epi16)(OF(unpacklo_epi8)(high, zero), w));
    sum[3] = OF(add_epi32)(sum[3], OF(madd_epi16)(OF(unpackhi_epi8)(high, zero), w));
  }
  return round_sums(sum, digits);
}

/* Computes LINES sums, one for each line. */
static __attribute__((noinline)) void sum_up(int64_t terms, const int32_t *at,
                                             const int16_t *weights, int digits, const uint8_t *x,
                                             int64_t step, uint8_t *restrict out) {
  for (size_t r = 0; r < LINES; r += sizeof(Wide)) {
    Wide bytes = wide_sums(terms, at, weights, digits, x + r, step);
    memcpy(out + r, &bytes, sizeof bytes);
  }
}

/* Loads 16 bytes of each of LANES lines. */
static inline Wide load_lanes(const uint8_t *const *from, int64_t at) {
#ifdef __AVX512BW__
  Wide v = _mm512_castsi128_si512(load(from[0] + at));
  v = _mm512_inserti32x4(v, load(from[1] + at), 1);
  v = _mm512_inserti32x4(v, load(from[2] + at), 2);
  return _mm512_inserti32x4(v, load(from[3] + at), 3);
#elif defined __AVX2__
  Wide v = _mm256_castsi128_si256(load(from[0] + at));
  return _mm256_inserti128_si256(v, load(from[1] + at), 1);
#else
  return load(from[0] + at);
#endif
}

static inline void store_lanes(uint8_t *const *to, int64_t at, Wide v) {
  Bytes lanes[LANES];
  memcpy(lanes, &v, sizeof v);
  for (int i = 0; i < LANES; i++) memcpy(to[i] + at, &lanes[i], sizeof lanes[i]);
}

/* Copies 16 bytes to each lane. */
static inline Wide repeat(const void *from) {
#ifdef __AVX512BW__
  return _mm512_broadcast_i32x4(load(from));
#elif defined __AVX2__
  return _mm256_broadcastsi128_si256(load(from));
#else
  return load(from);
#endif
}

static void near_lines(int64_t lines, int64_t n, int64_t from, int64_t steps,
                       const tlk_ResampleStep *all, int digits, const uint8_t *in, uint8_t *out) {
  for (int64_t line = 0; line < lines; line += LANES) {
    const uint8_t *x[LANES];
    uint8_t *to[LANES];
    for (int i = 0; i < LANES; i++) {
      int64_t own = line + i < lines ? line + i : lines - 1; /* the last line may be repeated */
      x[i] = in + own * from;
      to[i] = out + own * n;
    }
    const tlk_ResampleStep *step = all;
    for (int64_t begin = 0; begin < n; begin += SIDE) {
      Wide sum[4];
      for (int k = 0; k < 4; k++) {
        int32_t at = step->at;
        Wide v = load_lanes(x, at);
        sum[k] = OF(set1_epi32)(1 << (digits - 1));
        for (int64_t s = 0; s < steps; s++, step++) {
          if (step->at != at) v = load_lanes(x, at = step->at);
          Wide terms = OF(shuffle_epi8)(v, repeat(step->places));
          sum[k] = OF(add_epi32)(sum[k], OF(madd_epi16)(terms, repeat(step->weights)));
        }
      }
      store_lanes(to, begin + SIDE <= n ? begin : n - SIDE, round_sums(sum, digits));
    }
  }
}

#else

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
  for (int r = 0; r < LINES; r++) out[r] = byte_of(sum[r], digits);
}

#define near_lines NULL

#endif

static void row(int64_t n, int64_t terms, const int32_t *at, const int16_t *weights, int digits,
                const uint8_t *in, uint8_t *out) {
  for (int64_t c = 0; c < n && n >= LINES; c += LINES) {
    int64_t from = c + LINES <= n ? c : n - LINES;
    sum_up(terms, at, weights, digits, in + from, n, out + from);
  }
  for (int64_t c = 0; c < n && n < LINES; c++) {
    int32_t sum = 1 << (digits - 1);
    for (int64_t t = 0; t < terms; t++) sum += weights[t] * in[at[t] * n + c];
    out[c] = byte_of(sum, digits);
  }
}

/* Interleaves the halves of pairs of rows. Four rounds of this transpose a square. */
static inline __attribute__((always_inline)) void interleave(const Bytes *a, Bytes *b) {
  for (int i = 0; i < SIDE / 2; i++) {
    Bytes x = a[i], y = a[i + SIDE / 2];
    b[2 * i] = TLK_SHUFFLE(Bytes, x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    b[2 * i + 1] =
        TLK_SHUFFLE(Bytes, x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
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
const tlk_ResampleBytes TLK_ISA_NAME(tlk_resample_u8) = {row, lines, near_lines};
