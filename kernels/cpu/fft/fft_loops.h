/*
** fft_loops.h - the loops of transform.h for one type `real`. Each line is in a lane of its own, so
** loops process whole vectors only. The loops use the compilers' vector types, because compilers
** vectorise plain loops only in part. isa/fft_<type>.c includes this file.
*/
#include <string.h>

#include "kernels/cpu/fft/transform.h"
#include "kernels/cpu/vector.h"

enum { LANES = TLK_FFT_LANE_BYTES / sizeof(real), WIDTH = TLK_VECTOR_BYTES / sizeof(real) };

/* VECTOR_WIDTH is WIDTH as a number that the preprocessor can compare; REAL_BYTES is the size of
** `real`. */
#define VECTOR_WIDTH_(bytes, size) VECTOR_WIDTH_##bytes##_##size
#define VECTOR_WIDTH__(bytes, size) VECTOR_WIDTH_(bytes, size)
#define VECTOR_WIDTH VECTOR_WIDTH__(TLK_VECTOR_BYTES, REAL_BYTES)
#define VECTOR_WIDTH_64_4 16
#define VECTOR_WIDTH_64_8 8
#define VECTOR_WIDTH_32_4 8
#define VECTOR_WIDTH_32_8 4
#define VECTOR_WIDTH_16_4 4
#define VECTOR_WIDTH_16_8 2

/* A vector that may be at any address that is aligned for a single number. */
typedef real Vector
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* A Complex is one complex number. A Complexes is a pair of vectors with a complex number in each
** lane. */
typedef struct Complex {
  real re, im;
} Complex;
typedef struct Complexes {
  Vector re, im;
} Complexes;

#define ARITHMETIC(type, name)                                                                 \
  static inline type name##_plus(type a, type b) { return (type){a.re + b.re, a.im + b.im}; }  \
  static inline type name##_minus(type a, type b) { return (type){a.re - b.re, a.im - b.im}; } \
  static inline type name##_times(type a, Complex b) {                                         \
    return (type){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};                       \
  }                                                                                            \
  /* -i times a */                                                                             \
  static inline type name##_turned(type a) { return (type){a.im, -a.re}; }                     \
  static inline type name##_conjugate(type a) { return (type){a.re, -a.im}; }                  \
  static inline type name##_scaled(type a, real s) { return (type){a.re * s, a.im * s}; }
ARITHMETIC(Complex, one)
ARITHMETIC(Complexes, all)
#define plus all_plus
#define minus all_minus
#define times all_times
#define turned all_turned
#define scaled all_scaled

static inline Vector get(const real *p) { return *(const Vector *)(const void *)p; }
static inline void put(real *p, Vector v) { *(Vector *)(void *)p = v; }
static inline Complexes get_both(const real *re, const real *im) {
  return (Complexes){get(re), get(im)};
}
static inline void put_both(real *re, real *im, Complexes v) {
  put(re, v.re);
  put(im, v.im);
}

/* ---- passes ---- */

/* IN(k) reads element k of the group that a pass combines. OUT(k, ...) writes element k of the
** result. */
#define IN(k) get_both(xr + (k)*far + i, xi + (k)*far + i)
#define OUT(k, value) put_both(yr + (k)*apart + i, yi + (k)*apart + i, value)
#define OUT_TURNED(k, value) OUT(k, turn ? times(value, w[(k)-1]) : (value))

/* Defines a pass of radix r by its butterfly. `turn` tells whether the pass multiplies by twiddle
** factors. */
#define PASS(r, ...)                                                                \
  static inline __attribute__((always_inline)) void radix_##r##_any(                \
      const tlk_FftPass *p, tlk_FftPiece from, tlk_FftPiece to, const bool turn) {  \
    const int64_t span = p->span, far = p->far, apart = p->apart;                   \
    const Complex *w = p->twiddles;                                                 \
    for (int64_t g = 0; g < p->m; g++, w += (r)-1) {                                \
      const real *restrict xr = (const real *)from.re + g * span;                   \
      const real *restrict xi = (const real *)from.im + g * span;                   \
      real *restrict yr = (real *)to.re + g * (r)*span;                             \
      real *restrict yi = (real *)to.im + g * (r)*span;                             \
      for (int64_t i = 0; i < span; i += WIDTH) __VA_ARGS__                         \
    }                                                                               \
  }                                                                                 \
  static void radix_##r(const tlk_FftPass *p, tlk_FftPiece from, tlk_FftPiece to) { \
    if (p->twiddles)                                                                \
      radix_##r##_any(p, from, to, true);                                           \
    else                                                                            \
      radix_##r##_any(p, from, to, false);                                          \
  }

PASS(2, {
  Complexes a = IN(0), b = IN(1);
  OUT(0, plus(a, b));
  OUT_TURNED(1, minus(a, b));
})

PASS(4, {
  Complexes a = IN(0), b = IN(1), c = IN(2), d = IN(3);
  Complexes s = plus(a, c), t = minus(a, c), u = plus(b, d), v = turned(minus(b, d));
  OUT(0, plus(s, u));
  OUT_TURNED(1, plus(t, v));
  OUT_TURNED(2, minus(s, u));
  OUT_TURNED(3, minus(t, v));
})

#define SQRT_HALF ((real)0.70710678118654752440)

/* Transforms 8 elements. */
static inline __attribute__((always_inline)) void transform_8(Complexes v[8]) {
  Complexes b0 = plus(v[0], v[4]), b4 = minus(v[0], v[4]);
  Complexes b2 = plus(v[2], v[6]), b6 = turned(minus(v[2], v[6]));
  Complexes b1 = plus(v[1], v[5]), b5 = minus(v[1], v[5]);
  Complexes b3 = plus(v[3], v[7]), b7 = turned(minus(v[3], v[7]));
  Complexes c0 = plus(b0, b2), c2 = minus(b0, b2), c1 = plus(b1, b3), c3 = turned(minus(b1, b3));
  Complexes c4 = plus(b4, b6), c6 = minus(b4, b6), d5 = plus(b5, b7), d7 = minus(b5, b7);
  Complexes c5 = scaled(((Complexes){d5.re + d5.im, d5.im - d5.re}), SQRT_HALF);
  Complexes c7 = scaled(((Complexes){d7.im - d7.re, -d7.re - d7.im}), SQRT_HALF);
  v[0] = plus(c0, c1), v[4] = minus(c0, c1);
  v[1] = plus(c4, c5), v[5] = minus(c4, c5);
  v[2] = plus(c2, c3), v[6] = minus(c2, c3);
  v[3] = plus(c6, c7), v[7] = minus(c6, c7);
}

PASS(8, {
  Complexes v[8] = {IN(0), IN(1), IN(2), IN(3), IN(4), IN(5), IN(6), IN(7)};
  transform_8(v);
  OUT(0, v[0]);
  OUT_TURNED(1, v[1]);
  OUT_TURNED(2, v[2]);
  OUT_TURNED(3, v[3]);
  OUT_TURNED(4, v[4]);
  OUT_TURNED(5, v[5]);
  OUT_TURNED(6, v[6]);
  OUT_TURNED(7, v[7]);
})

/* Passes of an odd radix r use the sums s_j = x_j + x_{r-j} and the differences d_j = x_j - x_{r-j}
** for 0 < j < r/2. Let A be x_0 plus the sum of cos(2 pi j k / r) s_j, and B the sum of sin(2 pi j
** k / r) d_j. Then result k is A - iB, and result r - k is A + iB. */

PASS(3, {
  const real c1 = (real)-0.5, s1 = (real)0.86602540378443864676;
  Complexes x = IN(0), y = IN(1), z = IN(2), s = plus(y, z), d = turned(scaled(minus(y, z), s1));
  Complexes a = plus(x, scaled(s, c1));
  OUT(0, plus(x, s));
  OUT_TURNED(1, plus(a, d));
  OUT_TURNED(2, minus(a, d));
})

PASS(5, {
  const real c1 = (real)0.30901699437494742410, c2 = (real)-0.80901699437494742410;
  const real s1 = (real)0.95105651629515357212, s2 = (real)0.58778525229247312917;
  Complexes x = IN(0), x1 = IN(1), x2 = IN(2), x3 = IN(3), x4 = IN(4);
  Complexes p1 = plus(x1, x4), p2 = plus(x2, x3), d1 = minus(x1, x4), d2 = minus(x2, x3);
  Complexes a1 = plus(x, plus(scaled(p1, c1), scaled(p2, c2)));
  Complexes a2 = plus(x, plus(scaled(p1, c2), scaled(p2, c1)));
  Complexes b1 = turned(plus(scaled(d1, s1), scaled(d2, s2)));
  Complexes b2 = turned(minus(scaled(d1, s2), scaled(d2, s1)));
  OUT(0, plus(x, plus(p1, p2)));
  OUT_TURNED(1, plus(a1, b1));
  OUT_TURNED(2, plus(a2, b2));
  OUT_TURNED(3, minus(a2, b2));
  OUT_TURNED(4, minus(a1, b1));
})

/* Returns p x + q y + r z. */
static inline Complexes sum_of_3(Complexes x, real p, Complexes y, real q, Complexes z, real r) {
  return (Complexes){x.re * p + y.re * q + z.re * r, x.im * p + y.im * q + z.im * r};
}

PASS(7, {
  const real c1 = (real)0.62348980185873353053, c2 = (real)-0.22252093395631440429;
  const real c3 = (real)-0.90096886790241912624, s1 = (real)0.78183148246802980871;
  const real s2 = (real)0.97492791218182360702, s3 = (real)0.43388373911755812048;
  Complexes x = IN(0), x1 = IN(1), x2 = IN(2), x3 = IN(3), x4 = IN(4), x5 = IN(5), x6 = IN(6);
  Complexes p1 = plus(x1, x6), p2 = plus(x2, x5), p3 = plus(x3, x4);
  Complexes d1 = minus(x1, x6), d2 = minus(x2, x5), d3 = minus(x3, x4);
  Complexes a1 = plus(x, sum_of_3(p1, c1, p2, c2, p3, c3));
  Complexes a2 = plus(x, sum_of_3(p1, c2, p2, c3, p3, c1));
  Complexes a3 = plus(x, sum_of_3(p1, c3, p2, c1, p3, c2));
  Complexes b1 = turned(sum_of_3(d1, s1, d2, s2, d3, s3));
  Complexes b2 = turned(sum_of_3(d1, s2, d2, -s3, d3, -s1));
  Complexes b3 = turned(sum_of_3(d1, s3, d2, -s1, d3, s2));
  OUT(0, plus(plus(x, p1), plus(p2, p3)));
  OUT_TURNED(1, plus(a1, b1));
  OUT_TURNED(2, plus(a2, b2));
  OUT_TURNED(3, plus(a3, b3));
  OUT_TURNED(4, minus(a3, b3));
  OUT_TURNED(5, minus(a2, b2));
  OUT_TURNED(6, minus(a1, b1));
})

/* Computes a pass of any odd radix. roots[j] is (cos, sin)(2 pi j / r). */
static void odd(const tlk_FftPass *p, tlk_FftPiece from, tlk_FftPiece to) {
  const int64_t r = p->radix, span = p->span, far = p->far, apart = p->apart, half = (r - 1) / 2;
  const Complex *roots = p->roots, *w = p->twiddles, unit = {1, 0};
  Complexes sum[TLK_FFT_RADIX / 2 + 1], diff[TLK_FFT_RADIX / 2 + 1];
  for (int64_t g = 0; g < p->m; g++)
    for (int64_t i = 0; i < span; i += WIDTH) {
      const real *xr = (const real *)from.re + g * span, *xi = (const real *)from.im + g * span;
      real *yr = (real *)to.re + g * r * span, *yi = (real *)to.im + g * r * span;
      Complexes first = IN(0), whole = first;
      for (int64_t j = 1; j <= half; j++) {
        Complexes a = IN(j), b = IN(r - j);
        sum[j] = plus(a, b);
        diff[j] = minus(a, b);
        whole = plus(whole, sum[j]);
      }
      OUT(0, whole);
      for (int64_t k = 1; k <= half; k++) {
        Complexes even = first, rest = scaled(diff[1], roots[k].im);
        for (int64_t j = 1, at = k; j <= half; j++, at = at + k >= r ? at + k - r : at + k) {
          even = plus(even, scaled(sum[j], roots[at].re));
          if (j > 1) rest = plus(rest, scaled(diff[j], roots[at].im));
        }
        rest = turned(rest);
        OUT(k, times(plus(even, rest), w ? w[g * (r - 1) + k - 1] : unit));
        OUT(r - k, times(minus(even, rest), w ? w[g * (r - 1) + r - k - 1] : unit));
      }
    }
}

static void pass(const tlk_FftPass *p, tlk_FftPiece from, tlk_FftPiece to) {
  switch (p->radix) {
  case 2: radix_2(p, from, to); break;
  case 3: radix_3(p, from, to); break;
  case 4: radix_4(p, from, to); break;
  case 5: radix_5(p, from, to); break;
  case 7: radix_7(p, from, to); break;
  case 8: radix_8(p, from, to); break;
  default: odd(p, from, to);
  }
}

/* ---- rows of lines ---- */

/* PICK(a, b, k) takes every second number of the vectors a and b, from number k on. MIX(a, b, k)
** takes numbers from a and b in turn, from number k of each on. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES 1
#endif
#endif

#if defined(SHUFFLES) && TLK_VECTOR_BYTES == 64
#define PICK_16(a, b, k)                                                                       \
  __builtin_shufflevector(a, b, k, 2 + k, 4 + k, 6 + k, 8 + k, 10 + k, 12 + k, 14 + k, 16 + k, \
                          18 + k, 20 + k, 22 + k, 24 + k, 26 + k, 28 + k, 30 + k)
#define PICK_8(a, b, k) \
  __builtin_shufflevector(a, b, k, 2 + k, 4 + k, 6 + k, 8 + k, 10 + k, 12 + k, 14 + k)
#define MIX_16(a, b, k)                                                                        \
  __builtin_shufflevector(a, b, k, 16 + k, k + 1, 17 + k, k + 2, 18 + k, k + 3, 19 + k, k + 4, \
                          20 + k, k + 5, 21 + k, k + 6, 22 + k, k + 7, 23 + k)
#define MIX_8(a, b, k) \
  __builtin_shufflevector(a, b, k, 8 + k, k + 1, 9 + k, k + 2, 10 + k, k + 3, 11 + k)
#elif defined(SHUFFLES) && TLK_VECTOR_BYTES == 32
#define PICK_8(a, b, k) \
  __builtin_shufflevector(a, b, k, 2 + k, 4 + k, 6 + k, 8 + k, 10 + k, 12 + k, 14 + k)
#define PICK_4(a, b, k) __builtin_shufflevector(a, b, k, 2 + k, 4 + k, 6 + k)
#define MIX_8(a, b, k) \
  __builtin_shufflevector(a, b, k, 8 + k, k + 1, 9 + k, k + 2, 10 + k, k + 3, 11 + k)
#define MIX_4(a, b, k) __builtin_shufflevector(a, b, k, 4 + k, k + 1, 5 + k)
#elif defined(SHUFFLES)
#define PICK_4(a, b, k) __builtin_shufflevector(a, b, k, 2 + k, 4 + k, 6 + k)
#define PICK_2(a, b, k) __builtin_shufflevector(a, b, k, 2 + k)
#define MIX_4(a, b, k) __builtin_shufflevector(a, b, k, 4 + k, k + 1, 5 + k)
#define MIX_2(a, b, k) __builtin_shufflevector(a, b, k, 2 + k)
#endif

#ifdef SHUFFLES
#define REVERSE_16(a) \
  __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define REVERSE_8(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#define REVERSE_4(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#define REVERSE_2(a) __builtin_shufflevector(a, a, 1, 0)
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

static void split(int64_t rows, const void *in, int64_t stride, tlk_FftPiece to) {
  const real *from = in;
  real *re = to.re, *im = to.im;
  for (int64_t j = 0; j < rows; j++, from += 2 * stride, re += LANES, im += LANES)
#ifdef SHUFFLES
    for (int l = 0; l < LANES; l += WIDTH) {
      Vector a = get(from + 2 * l), b = get(from + 2 * l + WIDTH);
      put(re + l, PASTE(PICK_, VECTOR_WIDTH)(a, b, 0));
      put(im + l, PASTE(PICK_, VECTOR_WIDTH)(a, b, 1));
    }
#else
    for (int l = 0; l < LANES; l++) re[l] = from[2 * l], im[l] = from[2 * l + 1];
#endif
}

static void join(int64_t rows, tlk_FftPiece from, double scale, void *out, int64_t stride) {
  const real *re = from.re, *im = from.im;
  real *to = out, s = (real)scale;
  for (int64_t j = 0; j < rows; j++, to += 2 * stride, re += LANES, im += LANES)
#ifdef SHUFFLES
    for (int l = 0; l < LANES; l += WIDTH) {
      Vector a = get(re + l) * s, b = get(im + l) * s;
      put(to + 2 * l, PASTE(MIX_, VECTOR_WIDTH)(a, b, 0));
      put(to + 2 * l + WIDTH, PASTE(MIX_, VECTOR_WIDTH)(a, b, WIDTH / 2));
    }
#else
    for (int l = 0; l < LANES; l++) to[2 * l] = re[l] * s, to[2 * l + 1] = im[l] * s;
#endif
}

static void scale_rows(int64_t rows, const void *in, double factor, void *out) {
  const real *from = in;
  real *to = out;
  for (int64_t i = 0; i < rows * LANES; i += WIDTH) put(to + i, get(from + i) * (real)factor);
}

static void multiply(int64_t rows, const void *factors, int64_t stride, tlk_FftPiece piece) {
  const Complex *w = factors;
  real *re = piece.re, *im = piece.im;
  for (int64_t j = 0; j < rows; j++, w += stride, re += LANES, im += LANES)
    for (int l = 0; l < LANES; l += WIDTH)
      put_both(re + l, im + l, times(get_both(re + l, im + l), *w));
}

static void twist(int64_t rows, const void *lanes, const void *base, int64_t stride,
                  tlk_FftPiece piece) {
  const Complex *w = base;
  const real *t = lanes;
  real *re = piece.re, *im = piece.im;
  for (int64_t j = 0; j < rows; j++, w += stride, t += 2 * LANES, re += LANES, im += LANES)
    for (int l = 0; l < LANES; l += WIDTH) {
      Complexes a = get_both(re + l, im + l), f = times(get_both(t + l, t + LANES + l), *w);
      Complexes v = {a.re * f.re - a.im * f.im, a.re * f.im + a.im * f.re};
      put_both(re + l, im + l, v);
    }
}

/* ---- real signals ---- */

/* Defines a function that unpacks or packs real signals. `unpack` converts elements k and h - k of
** the pairs' transform to elements of the signal's transform. `pack` converts them back, multiplied
** by 2. */
#define UNPACKING(type, name)                                             \
  static inline void name##_unpack(type *low, type *high, Complex root) { \
    type a = name##_scaled(*low, (real)0.5);                              \
    type b = name##_scaled(name##_conjugate(*high), (real)0.5);           \
    type even = name##_plus(a, b);                                        \
    type rest = name##_times(name##_turned(name##_minus(a, b)), root);    \
    *low = name##_plus(even, rest);                                       \
    *high = name##_conjugate(name##_minus(even, rest));                   \
  }                                                                       \
  static inline void name##_pack(type *low, type *high, Complex root) {   \
    type a = *low, b = name##_conjugate(*high), sum = name##_plus(a, b);  \
    type v = name##_times(name##_minus(a, b), one_conjugate(root));       \
    type rest = {-v.im, v.re};                                            \
    *low = name##_plus(sum, rest);                                        \
    *high = name##_conjugate(name##_minus(sum, rest));                    \
  }
UNPACKING(Complex, one)
UNPACKING(Complexes, all)

static void from_pairs(int64_t h, const void *roots, tlk_FftPiece piece) {
  const Complex *w = roots;
  real *re = piece.re, *im = piece.im;
  for (int l = 0; l < LANES; l += WIDTH) {
    Vector a = get(re + l), b = get(im + l), zero = a - a;
    put_both(re + l, im + l, (Complexes){a + b, zero});
    put_both(re + h * LANES + l, im + h * LANES + l, (Complexes){a - b, zero});
  }
  for (int64_t k = 1; k <= h / 2; k++)
    for (int l = 0; l < LANES; l += WIDTH) {
      int64_t at = k * LANES + l, to = (h - k) * LANES + l;
      Complexes low = get_both(re + at, im + at), high = get_both(re + to, im + to);
      all_unpack(&low, &high, w[k]);
      put_both(re + to, im + to, high);
      put_both(re + at, im + at, low);
    }
}

static void to_pairs(int64_t h, const void *roots, tlk_FftPiece piece) {
  const Complex *w = roots;
  real *re = piece.re, *im = piece.im;
  for (int l = 0; l < LANES; l += WIDTH) {
    Vector a = get(re + l), b = get(re + h * LANES + l);
    put_both(re + l, im + l, (Complexes){a + b, a - b});
  }
  for (int64_t k = 1; k <= h / 2; k++)
    for (int l = 0; l < LANES; l += WIDTH) {
      int64_t at = k * LANES + l, to = (h - k) * LANES + l;
      Complexes low = get_both(re + at, im + at), high = get_both(re + to, im + to);
      all_pack(&low, &high, w[k]);
      put_both(re + to, im + to, high);
      put_both(re + at, im + at, low);
    }
}

static void line_from_pairs(int64_t h, const void *roots, void *line) {
  const Complex *w = roots;
  Complex *x = line, first = x[0];
  x[0] = (Complex){first.re + first.im, 0};
  x[h] = (Complex){first.re - first.im, 0};
  for (int64_t k = 1; k <= h / 2; k++) {
    Complex low = x[k], high = x[h - k];
    one_unpack(&low, &high, w[k]);
    x[h - k] = high, x[k] = low;
  }
}

static void line_to_pairs(int64_t h, const void *roots, void *line) {
  const Complex *w = roots;
  Complex *x = line;
  x[0] = (Complex){x[0].re + x[h].re, x[0].re - x[h].re};
  for (int64_t k = 1; k <= h / 2; k++) {
    Complex low = x[k], high = x[h - k];
    one_pack(&low, &high, w[k]);
    x[h - k] = high, x[k] = low;
  }
}

#include "kernels/cpu/fft/fold_loops.h"

#define FFT_LOOPS                                                                             \
  {                                                                                           \
    .width = WIDTH, .pass = pass, .split = split, .join = join, .scale = scale_rows,          \
    .multiply = multiply, .twist = twist, .from_pairs = from_pairs, .to_pairs = to_pairs,     \
    .line_from_pairs = line_from_pairs, .line_to_pairs = line_to_pairs,                       \
    .line_multiply = line_multiply, .line_widen = line_widen, .line_mirror = line_mirror,     \
    .line_real = line_real, .fold = fold, .line_out = line_out, .line_product = line_product, \
    .line_unpack = line_unpack, .line_pack = line_pack                                        \
  }
