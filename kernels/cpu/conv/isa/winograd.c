/*
** winograd.c - the transforms of winograd_loops.h. Each transform applies a small matrix to the
** columns of a square and then to the rows. The interpolation points come in pairs p and -p, so the
** even part and the odd part of a polynomial are computed once for two rows of the matrix.
*/
#include "kernels/cpu/conv/winograd_loops.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

#define LANES ((int)(TLK_VECTOR_BYTES / sizeof(float)))

typedef float Vec __attribute__((vector_size(TLK_VECTOR_BYTES)));
/* A vector that may be at any address, without alignment. */
typedef float LooseVec
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(float)), may_alias));

static inline Vec load(const float *p) { return *(const LooseVec *)p; }
static inline void store(float *p, Vec v) { *(LooseVec *)p = v; }

/* The interpolation points P and Q and their squares, which are exact in float. */
#define P 0.625f
#define Q 1.5f
#define PP (P * P)
#define QQ (Q * Q)
/* For each of the points 0, P and Q: the reciprocal of the product of its distances from the other
** finite points. */
#define AT_0 (1 / (PP * QQ))
#define AT_P (1 / (2 * PP * (PP - QQ)))
#define AT_Q (1 / (2 * QQ * (QQ - PP)))

/* Transforms one row or column d of a patch. Result i is the sum of d times the coefficients of a
** polynomial that is 0 at all interpolation points except point i. */
static inline void patch_line(const Vec d[6], Vec v[6]) {
  Vec even_p = d[4] - QQ * d[2], odd_p = P * (d[3] - QQ * d[1]);
  Vec even_q = d[4] - PP * d[2], odd_q = Q * (d[3] - PP * d[1]);
  v[0] = d[4] - (PP + QQ) * d[2] + PP * QQ * d[0];
  v[1] = even_p + odd_p;
  v[2] = even_p - odd_p;
  v[3] = even_q + odd_q;
  v[4] = even_q - odd_q;
  v[5] = d[5] - (PP + QQ) * d[3] + PP * QQ * d[1];
}

/* Evaluates the polynomial with coefficients g at the interpolation points, and multiplies each
** value by the weight of its point. */
static inline void kernel_line(const Vec g[3], Vec v[6]) {
  Vec even_p = AT_P * (g[0] + PP * g[2]), odd_p = AT_P * P * g[1];
  Vec even_q = AT_Q * (g[0] + QQ * g[2]), odd_q = AT_Q * Q * g[1];
  v[0] = AT_0 * g[0];
  v[1] = even_p + odd_p;
  v[2] = even_p - odd_p;
  v[3] = even_q + odd_q;
  v[4] = even_q - odd_q;
  v[5] = g[2];
}

/* Evaluates a polynomial at the interpolation points. Its coefficients g are one row or column of a
** tile. */
static inline void tile_line(const Vec g[4], Vec v[6]) {
  Vec even_p = g[0] + PP * g[2], odd_p = P * (g[1] + PP * g[3]);
  Vec even_q = g[0] + QQ * g[2], odd_q = Q * (g[1] + QQ * g[3]);
  v[0] = g[0];
  v[1] = even_p + odd_p;
  v[2] = even_p - odd_p;
  v[3] = even_q + odd_q;
  v[4] = even_q - odd_q;
  v[5] = g[3];
}

/* Multiplies m by the transpose of the matrix that tile_line multiplies by. */
static inline void result_line(const Vec m[6], Vec y[4]) {
  Vec even_p = m[1] + m[2], odd_p = P * (m[1] - m[2]);
  Vec even_q = m[3] + m[4], odd_q = Q * (m[3] - m[4]);
  y[0] = m[0] + even_p + even_q;
  y[1] = odd_p + odd_q;
  y[2] = PP * even_p + QQ * even_q;
  y[3] = PP * odd_p + QQ * odd_q + m[5];
}

/* Multiplies s by the transpose of the matrix that kernel_line multiplies by. */
static inline void gradient_line(const Vec s[6], Vec w[3]) {
  Vec even_p = AT_P * (s[1] + s[2]), even_q = AT_Q * (s[3] + s[4]);
  w[0] = AT_0 * s[0] + even_p + even_q;
  w[1] = AT_P * P * (s[1] - s[2]) + AT_Q * Q * (s[3] - s[4]);
  w[2] = PP * even_p + QQ * even_q + s[5];
}

/* Defines a function that transforms a square. It applies `line` to the columns of the square with
** side `from`, and then to the rows of the result, which becomes a square with side `to`. */
#define SQUARE(name, line, from, to)                                                      \
  static inline __attribute__((always_inline)) void name(const Vec *in, Vec *out) {       \
    Vec half[(to) * (from)];                                                              \
    _Pragma("GCC unroll 6") for (int c = 0; c < (from); c++) {                            \
      Vec x[from], y[to];                                                                 \
      _Pragma("GCC unroll 6") for (int r = 0; r < (from); r++) x[r] = in[r * (from) + c]; \
      line(x, y);                                                                         \
      _Pragma("GCC unroll 6") for (int r = 0; r < (to); r++) half[r * (from) + c] = y[r]; \
    }                                                                                     \
    _Pragma("GCC unroll 6") for (int r = 0; r < (to); r++)                                \
        line(half + r * (from), out + r * (to));                                          \
  }
SQUARE(patch_square, patch_line, 6, 6)
SQUARE(kernel_square, kernel_line, 3, 6)
SQUARE(tile_square, tile_line, 4, 6)
SQUARE(result_square, result_line, 6, 4)
SQUARE(gradient_square, gradient_line, 6, 3)

static inline __attribute__((always_inline)) void load_points(const float *in, int64_t plane,
                                                              Vec m[TLK_POINTS]) {
#pragma GCC unroll 36
  for (int k = 0; k < TLK_POINTS; k++) m[k] = load(in + k * plane);
}

static inline __attribute__((always_inline)) void store_points(float *out, int64_t plane,
                                                               const Vec v[TLK_POINTS]) {
#pragma GCC unroll 36
  for (int k = 0; k < TLK_POINTS; k++) store(out + k * plane, v[k]);
}

static void patches(int64_t n, const float *in, int64_t row, float *out, int64_t step,
                    int64_t plane) {
  for (int64_t i = 0; i < n; i++, in += TLK_TILE * LANES, out += step) {
    Vec d[TLK_POINTS], v[TLK_POINTS];
#pragma GCC unroll 36
    for (int k = 0; k < TLK_POINTS; k++) d[k] = load(in + k / 6 * row + k % 6 * LANES);
    patch_square(d, v);
    store_points(out, plane, v);
  }
}

static void tiles(int64_t n, const float *in, int64_t row, float *out, int64_t step,
                  int64_t plane) {
  for (int64_t i = 0; i < n; i++, in += TLK_TILE * LANES, out += step) {
    Vec g[16], v[TLK_POINTS];
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) g[k] = load(in + k / 4 * row + k % 4 * LANES);
    tile_square(g, v);
    store_points(out, plane, v);
  }
}

static void kernels(int64_t n, const float *in, int64_t in_step, bool turned, float *out,
                    int64_t step, int64_t plane) {
  int64_t to_next = turned ? -in_step : in_step;
  for (int64_t i = 0; i < n; i++, in += 9 * in_step, out += step) {
    const float *first = turned ? in + 8 * in_step : in;
    Vec g[9], v[TLK_POINTS];
#pragma GCC unroll 9
    for (int k = 0; k < 9; k++) g[k] = load(first + k * to_next);
    kernel_square(g, v);
    store_points(out, plane, v);
  }
}

/* Returns `sum` if v is finite, otherwise NaN. So NaN in the final sum tells that a result was not
** finite. */
static inline Vec watch(Vec sum, Vec v) { return sum + v * 0; }

static bool all_zero(Vec sum) {
  bool zero = true;
  for (int k = 0; k < LANES; k++) zero = zero && sum[k] == 0;
  return zero;
}

static bool results(int64_t n, const float *in, int64_t step, int64_t plane, const float *bias,
                    int64_t rows, int64_t cols, float *out, int64_t row) {
  Vec sum = {0}, more = bias ? load(bias) : (Vec){0};
  for (int64_t i = 0; i < n && cols > 0; i++, in += step, out += TLK_TILE * LANES, cols -= 4) {
    Vec m[TLK_POINTS], y[16];
    load_points(in, plane, m);
    result_square(m, y);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
      if (k / 4 >= rows || k % 4 >= cols) continue;
      sum = watch(sum, y[k]);
      store(out + k / 4 * row + k % 4 * LANES, y[k] + more);
    }
  }
  return all_zero(sum);
}

static bool gradients(int64_t n, const float *in, int64_t step, int64_t plane, float *out,
                      int64_t out_step) {
  Vec sum = {0};
  for (int64_t i = 0; i < n; i++, in += step, out += 9 * out_step) {
    Vec s[TLK_POINTS], w[9];
    load_points(in, plane, s);
    gradient_square(s, w);
#pragma GCC unroll 9
    for (int k = 0; k < 9; k++) {
      sum = watch(sum, w[k]);
      store(out + k * out_step, w[k]);
    }
  }
  return all_zero(sum);
}

extern const tlk_WinogradLoops TLK_ISA_NAME(tlk_winograd_loops);
const tlk_WinogradLoops TLK_ISA_NAME(tlk_winograd_loops) = {LANES,   patches, tiles,
                                                            kernels, results, gradients};
