/*
** fold_loops.h - the loops of transform.h for a line that is transformed alone, for one type
** `real`. fft_loops.h includes this file.
*/

#define UNROLL _Pragma("GCC unroll 16")

/* ---- shuffles ---- */

/* Reads WIDTH / 2 complex numbers at each of two addresses. */
static inline Complexes take_two(const real *p, const real *q) {
#ifdef SHUFFLES
  Vector a = get(p), b = get(q);
  return (Complexes){PASTE(PICK_, VECTOR_WIDTH)(a, b, 0), PASTE(PICK_, VECTOR_WIDTH)(a, b, 1)};
#else
  Complexes v;
  for (int l = 0; l < WIDTH / 2; l++) {
    v.re[l] = p[2 * l], v.im[l] = p[2 * l + 1];
    v.re[l + WIDTH / 2] = q[2 * l], v.im[l + WIDTH / 2] = q[2 * l + 1];
  }
  return v;
#endif
}

/* Reads WIDTH complex numbers from memory. */
static inline Complexes take(const real *p) { return take_two(p, p + WIDTH); }

/* Writes WIDTH complex numbers to memory. */
static inline void give(real *p, Complexes v) {
#ifdef SHUFFLES
  put(p, PASTE(MIX_, VECTOR_WIDTH)(v.re, v.im, 0));
  put(p + WIDTH, PASTE(MIX_, VECTOR_WIDTH)(v.re, v.im, WIDTH / 2));
#else
  for (int l = 0; l < WIDTH; l++) p[2 * l] = v.re[l], p[2 * l + 1] = v.im[l];
#endif
}

static inline Vector reversed(Vector v) {
#ifdef SHUFFLES
  return PASTE(REVERSE_, VECTOR_WIDTH)(v);
#else
  Vector r;
  for (int l = 0; l < WIDTH; l++) r[l] = v[WIDTH - 1 - l];
  return r;
#endif
}

static inline Complexes both_reversed(Complexes v) {
  return (Complexes){reversed(v.re), reversed(v.im)};
}

/* Transposes WIDTH vectors. Each step interleaves the vectors of the first half with those of the
** second half, which rotates the bits of a number's position by one; log2(WIDTH) steps exchange
** rows and columns. */
static inline __attribute__((always_inline)) void transpose(Vector v[WIDTH]) {
#ifdef SHUFFLES
  UNROLL for (int step = 1; step < WIDTH; step *= 2) {
    Vector t[WIDTH];
    UNROLL for (int i = 0; i < WIDTH / 2; i++) {
      t[2 * i] = PASTE(MIX_, VECTOR_WIDTH)(v[i], v[i + WIDTH / 2], 0);
      t[2 * i + 1] = PASTE(MIX_, VECTOR_WIDTH)(v[i], v[i + WIDTH / 2], WIDTH / 2);
    }
    UNROLL for (int i = 0; i < WIDTH; i++) v[i] = t[i];
  }
#else
  Vector t[WIDTH];
  for (int i = 0; i < WIDTH; i++)
    for (int l = 0; l < WIDTH; l++) t[l][i] = v[i][l];
  memcpy(v, t, sizeof t);
#endif
}

static inline Complexes product(Complexes a, Complexes b) {
  return (Complexes){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* ---- the first pass of a folded line ---- */

static inline __attribute__((always_inline)) void transform_4(Complexes *a, Complexes *b,
                                                              Complexes *c, Complexes *d) {
  Complexes s = plus(*a, *c), t = minus(*a, *c), u = plus(*b, *d), v = turned(minus(*b, *d));
  *a = plus(s, u);
  *b = plus(t, v);
  *c = minus(s, u);
  *d = minus(t, v);
}

#if REAL_BYTES == 4
/* Transforms 16 elements as a matrix (4, 4): first its columns, then its rows. The matrix then has
** element q of the result in row q % 4 and column q / 4. */
static inline __attribute__((always_inline)) void transform_lanes(Complexes v[LANES]) {
  const real c = (real)0.92387953251128675613, s = (real)0.38268343236508977173;
  const Complex roots[10] = {{1, 0},  {c, -s}, {SQRT_HALF, -SQRT_HALF},  {s, -c},
                             {0, -1}, {0, 0},  {-SQRT_HALF, -SQRT_HALF}, {0, 0},
                             {0, 0},  {-c, s}};
  UNROLL for (int k = 0; k < 4; k++) transform_4(&v[k], &v[k + 4], &v[k + 8], &v[k + 12]);
  UNROLL for (int q = 1; q < 4; q++) {
    UNROLL for (int k = 1; k < 4; k++) {
      if (q * k == 4)
        v[4 * q + k] = turned(v[4 * q + k]);
      else
        v[4 * q + k] = times(v[4 * q + k], roots[q * k]);
    }
  }
  UNROLL for (int q = 0; q < 4; q++)
      transform_4(&v[4 * q], &v[4 * q + 1], &v[4 * q + 2], &v[4 * q + 3]);
}
#define PLACE(q) ((q) % 4 * 4 + (q) / 4)
#else
static inline __attribute__((always_inline)) void transform_lanes(Complexes v[LANES]) {
  transform_8(v);
}
#define PLACE(q) (q)
#endif

/* Writes element q of the transforms of WIDTH columns as lane q of WIDTH rows. */
static inline __attribute__((always_inline)) void fold_out(const Complexes v[LANES], real *re,
                                                           real *im) {
  UNROLL for (int q = 0; q < LANES; q += WIDTH) {
    Vector t[WIDTH];
    UNROLL for (int i = 0; i < WIDTH; i++) t[i] = v[PLACE(q + i)].re;
    transpose(t);
    UNROLL for (int i = 0; i < WIDTH; i++) put(re + i * LANES + q, t[i]);
    UNROLL for (int i = 0; i < WIDTH; i++) t[i] = v[PLACE(q + i)].im;
    transpose(t);
    UNROLL for (int i = 0; i < WIDTH; i++) put(im + i * LANES + q, t[i]);
  }
}

/* Computes the first pass (see `fold` in transform.h) for WIDTH columns, whose elements are in
** v. */
static inline __attribute__((always_inline)) void fold_columns(Complexes v[LANES], real sign,
                                                               const real *w, real *re, real *im) {
  UNROLL for (int k = 0; k < LANES; k++) v[k].im *= sign;
  transform_lanes(v);
  UNROLL for (int q = 1; q < LANES; q++, w += 2 * WIDTH) v[PLACE(q)] =
      product(v[PLACE(q)], get_both(w, w + WIDTH));
  fold_out(v, re, im);
}

static void fold_one(int64_t m, const real *x, bool followed, real sign, const real *w,
                     tlk_FftPiece to) {
  real *re = to.re, *im = to.im, copy[2 * WIDTH] = {0};
  for (int64_t g = 0; g < m; g += WIDTH, re += WIDTH * LANES, im += WIDTH * LANES) {
    const real *last = x + 2 * ((LANES - 1) * m + g);
    if (!followed && g + WIDTH > m) last = memcpy(copy, last, (size_t)(2 * (m - g)) * sizeof(real));
    Complexes v[LANES];
    UNROLL for (int k = 0; k < LANES; k++) v[k] = take(k < LANES - 1 ? x + 2 * (k * m + g) : last);
    fold_columns(v, sign, w, re, im);
    w += (LANES - 1) * 2 * WIDTH;
  }
}

#if VECTOR_WIDTH >= 8
/* Computes the first pass of two lines at once. Each line has at most WIDTH / 2 columns, so both
** fit into one vector. */
static void fold_two(int64_t m, const real *x, int64_t apart, bool followed, real sign,
                     const real *w, tlk_FftPiece to) {
  real copy[2 * WIDTH] = {0};
  const real *last = x + 2 * (LANES - 1) * m, *second = last + apart;
  if (!followed && m < WIDTH / 2) {
    last = memcpy(copy, last, (size_t)(2 * m) * sizeof(real));
    second = memcpy(copy + WIDTH, second, (size_t)(2 * m) * sizeof(real));
  }
  Complexes v[LANES];
  UNROLL for (int k = 0; k < LANES; k++) {
    const real *at = x + 2 * k * m;
    v[k] = k < LANES - 1 ? take_two(at, at + apart) : take_two(last, second);
  }
  fold_columns(v, sign, w, to.re, to.im);
}
#endif

static void fold(int64_t m, const void *in, int64_t apart, bool followed, double sign,
                 const void *twiddles, tlk_FftPiece to) {
#if VECTOR_WIDTH >= 8
  if (2 * m <= WIDTH) {
    fold_two(m, in, apart, followed, (real)sign, twiddles, to);
    return;
  }
#endif
  (void)apart;
  fold_one(m, in, followed, (real)sign, twiddles, to);
}

/* ---- the results of a folded line ---- */

static void line_out(int64_t n, tlk_FftPiece from, double scale, double sign, void *out) {
  const real *re = from.re, *im = from.im;
  real *to = out, r = (real)scale, i = (real)(scale * sign);
  for (int64_t k = 0; k < n; k += WIDTH) {
    give(to + 2 * k, (Complexes){get(re + k) * r, get(im + k) * i});
  }
}

/* Multiplies the imaginary parts of v by in_sign, and then multiplies v by the complex numbers at
** w. Real parts of the product are multiplied by scale, and imaginary parts by out_scale. */
static inline Complexes multiplied(Complexes v, real in_sign, const real *w, real scale,
                                   real out_scale) {
  v.im *= in_sign;
  v = product(v, take(w));
  return (Complexes){v.re * scale, v.im * out_scale};
}

/* Defines the body of a function that multiplies a line by f->factors. FROM reads WIDTH elements
** from element k on. LAST reads the last elements, of which there are fewer. These are multiplied
** in buffers, because whole vectors would reach beyond the arrays. */
#define MULTIPLY(FROM, LAST)                                                  \
  const real *w = f->factors;                                                 \
  real *to = out, in_sign = (real)f->in_sign, scale = (real)f->scale;         \
  real out_scale = (real)(f->scale * f->out_sign);                            \
  int64_t k = 0;                                                              \
  for (; k + WIDTH <= n; k += WIDTH)                                          \
    give(to + 2 * k, multiplied(FROM, in_sign, w + 2 * k, scale, out_scale)); \
  if (k == n) return;                                                         \
  real factors[2 * WIDTH] = {0}, last[2 * WIDTH] = {0};                       \
  size_t bytes = (size_t)(2 * (n - k)) * sizeof(real);                        \
  memcpy(factors, w + 2 * k, bytes);                                          \
  give(last, multiplied(LAST, in_sign, factors, scale, out_scale));           \
  memcpy(to + 2 * k, last, bytes);

static void line_multiply(int64_t n, const void *in, const tlk_FftFactors *f, void *out) {
  const real *x = in;
  MULTIPLY(take(x + 2 * k), take(memcpy(last, x + 2 * k, bytes)))
}

static void line_product(int64_t n, tlk_FftPiece from, const tlk_FftFactors *f, void *out) {
  const real *re = from.re, *im = from.im;
  MULTIPLY(get_both(re + k, im + k), get_both(re + k, im + k))
}

/* ---- lines of real signals of odd length ---- */

static void line_widen(int64_t n, const void *in, void *out) {
  const real *x = in;
  real *to = out;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) to[2 * k] = x[k], to[2 * k + 1] = 0;
}

static void line_mirror(int64_t n, const void *in, void *out) {
  const real *x = in;
  real *to = out;
  to[0] = x[0], to[1] = 0;
  TLK_IVDEP
  for (int64_t k = 1; k <= n / 2; k++) {
    to[2 * k] = to[2 * (n - k)] = x[2 * k];
    to[2 * k + 1] = x[2 * k + 1], to[2 * (n - k) + 1] = -x[2 * k + 1];
  }
}

static void line_real(int64_t n, const void *in, void *out) {
  const real *x = in;
  real *to = out;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) to[k] = x[2 * k];
}

/* ---- lines of real signals of even length ---- */

static void line_unpack(int64_t h, const void *roots, tlk_FftPiece from, double scale, void *out) {
  const real *re = from.re, *im = from.im, *w = roots;
  real *to = out, s = (real)scale;
  for (int64_t k = 1; k <= h / 2; k += WIDTH) {
    int64_t to_k = h - k - WIDTH + 1;
    Complexes low = get_both(re + k, im + k), root = take(w + 2 * k);
    Complexes high = both_reversed(get_both(re + to_k, im + to_k));
    Complexes a = scaled(low, (real)0.5 * s);
    Complexes b = scaled(all_conjugate(high), (real)0.5 * s);
    Complexes even = plus(a, b), rest = product(turned(minus(a, b)), root);
    give(to + 2 * k, plus(even, rest));
    give(to + 2 * to_k, both_reversed(all_conjugate(minus(even, rest))));
  }
  real first = re[0] * s, second = im[0] * s;
  to[0] = first + second, to[1] = 0;
  to[2 * h] = first - second, to[2 * h + 1] = 0;
}

static void line_pack(int64_t h, const void *roots, const void *in, void *out) {
  const real *x = in, *w = roots;
  real *to = out;
  for (int64_t k = 1; k <= h / 2; k += WIDTH) {
    int64_t to_k = h - k - WIDTH + 1;
    Complexes low = take(x + 2 * k), root = all_conjugate(take(w + 2 * k));
    Complexes high = all_conjugate(both_reversed(take(x + 2 * to_k)));
    Complexes sum = plus(low, high), v = product(minus(low, high), root);
    Complexes rest = {-v.im, v.re};
    give(to + 2 * k, plus(sum, rest));
    give(to + 2 * to_k, both_reversed(all_conjugate(minus(sum, rest))));
  }
  to[0] = x[0] + x[2 * h], to[1] = x[0] - x[2 * h];
}
