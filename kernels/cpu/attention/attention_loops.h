/*
** attention_loops.h - the loops of attention.h for one type: attention_<type>.c defines `real`
** and includes this file.
*/
#include "core/kernel/random.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementary.h"

/* The number of columns for which random words are computed at a time. With 16, gcc would unroll
** the loops instead of making vectors of them. */
#define WORDS 32
#define LOWEST (sizeof(real) == 4 ? -(double)FLT_MAX : -DBL_MAX)

/* Returns e^x. x is at most 0, apart from rounding errors. Returns 0 for -inf and if the result is
** very small. */
static inline float power_f32(float x) {
  tlk_Power p = tlk_exp_parts_fast(x < -TLK_EXP_LIMIT ? -TLK_EXP_LIMIT : x);
  float y = (1 + p.r * (1 + p.r * p.q)) * tlk_from_bits((uint32_t)(p.n + 127) << 23);
  return x < -TLK_EXP_LIMIT ? 0 : y;
}
static inline double power_f64(double x) { return exp(x); }
#define POWER(x) _Generic((x), float : power_f32, double : power_f64)(x)

/* Computes each column's maximum. The maximum may ignore NaN, because the exponentials that follow
** propagate NaN. */
static void largest_of(int64_t keys, int64_t cols, const real *scores, real *largest) {
  int64_t j = 0;
  for (; j + 4 <= keys; j += 4, scores += 4 * cols) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      real a = scores[c] > scores[cols + c] ? scores[c] : scores[cols + c];
      real b =
          scores[2 * cols + c] > scores[3 * cols + c] ? scores[2 * cols + c] : scores[3 * cols + c];
      a = a > largest[c] ? a : largest[c];
      largest[c] = b > a ? b : a;
    }
  }
  for (; j < keys; j++, scores += cols) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) largest[c] = scores[c] > largest[c] ? scores[c] : largest[c];
  }
}

static void softmax(int64_t keys, int64_t cols, void *scores, void *largest_, void *sum_,
                    void *factor_) {
  real *x = scores, *largest = largest_, *sum = sum_, *factor = factor_;
  /* These sums are over one block of keys only, because a long sum in float loses digits. Adding a
  ** block's sum to the sum of all blocks costs a single rounding. */
  real block[TLK_ATTENTION_QUERIES] = {0};
  memcpy(factor, largest, (size_t)cols * sizeof(real));
  largest_of(keys, cols, x, largest);
  for (int64_t j = 0; j < keys; j++, x += cols) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      real e = POWER(x[c] - largest[c]);
      x[c] = e;
      block[c] += e;
    }
  }
  for (int64_t c = 0; c < cols; c++) {
    factor[c] = POWER(factor[c] - largest[c]);
    sum[c] = sum[c] * factor[c] + block[c];
  }
}

static void gradient(int64_t keys, int64_t cols, void *scores, void *grads, const void *keep_,
                     const void *norm_, const void *delta_) {
  real *x = scores, *g = grads;
  const real *keep = keep_, *norm = norm_, *delta = delta_;
  for (int64_t j = 0; j < keys; j++, x += cols, g += cols) {
    if (keep == NULL) {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++) {
        real weight = POWER(x[c] - norm[c]);
        x[c] = weight;
        g[c] = weight * (g[c] - delta[c]);
      }
      continue;
    }
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      real weight = POWER(x[c] - norm[c]);
      x[c] = weight * keep[c];
      g[c] = weight * (g[c] * keep[c] - delta[c]);
    }
    keep += cols;
  }
}

static void add(int64_t n, void *x_, const void *y_) {
  real *x = x_;
  const real *y = y_;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void multiply(int64_t n, void *x_, const void *y_) {
  real *x = x_;
  const real *y = y_;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) x[i] *= y[i];
}

static void scale(int64_t n, void *x_, double factor) {
  real *x = x_;
  for (int64_t i = 0; i < n; i++) x[i] *= (real)factor;
}

static double dot(int64_t n, const void *x_, const void *y_) {
  const real *x = x_, *y = y_;
  real lane[TLK_LANES] = {0};
  int64_t i = 0;
  for (; i + TLK_LANES <= n; i += TLK_LANES)
    for (int k = 0; k < TLK_LANES; k++) lane[k] += x[i + k] * y[i + k];
  double sum = 0;
  for (; i < n; i++) sum += (double)(x[i] * y[i]);
  for (int k = 0; k < TLK_LANES; k++) sum += (double)lane[k];
  return sum;
}

static bool mask(bool truth, int64_t keys, int64_t n, int64_t cols, void *x_) {
  int seen = 0;
  for (int64_t j = 0; j < keys; j++) {
    real *x = (real *)x_ + j * cols;
    for (int64_t c = 0; c < n && truth; c++) x[c] = x[c] != 0 ? 0 : -(real)INFINITY;
    for (int64_t c = 0; c < n; c++) seen |= !(x[c] == -(real)INFINITY);
    for (int64_t c = n; c < cols; c++) x[c] = 0;
  }
  return seen != 0;
}

static void hide(int64_t keys, int64_t cols, int64_t first, void *scores) {
  for (int64_t j = 0; j < keys; j++) {
    int64_t n = first + j < cols ? first + j : cols;
    for (int64_t c = 0; c < n; c++) ((real *)scores)[j * cols + c] = -(real)INFINITY;
  }
}

/* Computes the random words of dropout for a block of keys and WORDS columns. The words equal those
** of tli_philox. */
static inline void words_of(uint64_t seed, const uint64_t *blocks, uint32_t words[4][WORDS]) {
  uint32_t(*w)[WORDS] = words, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int c = 0; c < WORDS; c++) {
    w[0][c] = (uint32_t)blocks[c];
    w[1][c] = (uint32_t)(blocks[c] >> 32);
    w[2][c] = w[3][c] = 0;
  }
  for (int round = 0; round < 10; round++) {
    for (int c = 0; c < WORDS; c++) {
      uint64_t p0 = (uint64_t)w[0][c] * 0xD2511F53u, p1 = (uint64_t)w[2][c] * 0xCD9E8D57u;
      w[0][c] = (uint32_t)(p1 >> 32) ^ w[1][c] ^ k0;
      w[1][c] = (uint32_t)p1;
      w[2][c] = (uint32_t)(p0 >> 32) ^ w[3][c] ^ k1;
      w[3][c] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

static void keep(int64_t keys, int64_t cols, uint64_t seed, uint64_t block, uint64_t step, double p,
                 void *out) {
  uint64_t below = (uint64_t)((1 - p) * 0x1p32);
  uint32_t last = (uint32_t)(below - 1);
  real by = below > 0 ? (real)(1 / (1 - p)) : 0;
  for (int64_t j = 0; j < keys; j += 4, block++) {
    for (int64_t c = 0; c < cols; c += WORDS) {
      uint64_t blocks[WORDS];
      uint32_t words[4][WORDS];
      for (int k = 0; k < WORDS; k++) blocks[k] = block + (uint64_t)(c + k) * step;
      words_of(seed, blocks, words);
      int64_t n = cols - c < WORDS ? cols - c : WORDS;
      for (int64_t r = 0; r < 4; r++) {
        real *to = (real *)out + (j + r) * cols + c;
        for (int64_t k = 0; k < n; k++) to[k] = words[r][k] <= last ? by : 0;
      }
    }
  }
}

#define ATTENTION_LOOPS \
  { LOWEST, softmax, gradient, mask, hide, keep, add, multiply, scale, dot, ONE_QUERY }
