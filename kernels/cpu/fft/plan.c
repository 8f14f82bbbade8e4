/*
** plan.c - plans of Fourier transforms: the factors of a length, the tables of roots of unity, and
** a cache of recently used plans.
*/
#include "core/kernel/elementary.h"
#include "kernels/cpu/fft/plan.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/platform.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/fft/lanes.h"
#include "kernels/cpu/fft/line.h"

/* The largest length n whose lines are transformed together by radix passes alone. Longer lines are
** arranged as an n1 x n2 matrix if n has suitable divisors. */
#define PASSES_MOST 4096
/* The smallest number of columns and the largest number of elements of a folded line. */
#define FOLD_LEAST 4
#define FOLD_MOST 4096
/* The smallest length that is arranged as an n1 x n2 matrix if there are few lines. */
#define DIVIDED_LEAST 64

/* ---- lengths ---- */

/* Stores the radices of the passes for length n and returns their number. Returns -1 if n has a
** prime factor that is too large for a pass. */
static int factorize(int64_t n, int64_t *radices) {
  int count = 0, twos = 0;
  for (int64_t r = TLK_FFT_RADIX; r >= 3; r -= 2)
    for (bool prime = r == 3 || r == 5 || r == 7 || (r % 3 != 0 && r % 5 != 0); prime && n % r == 0;
         n /= r)
      radices[count++] = r;
  for (; n % 2 == 0; n /= 2) twos++;
  if (n != 1) return -1;
  int fours = twos % 3 == 1 && twos > 1 ? 2 : twos % 3 == 2 ? 1 : 0;
  for (int eights = (twos - 2 * fours) / 3; eights > 0; eights--) radices[count++] = 8;
  for (int i = 0; i < fours; i++) radices[count++] = 4;
  if (twos == 1) radices[count++] = 2;
  return count;
}

/* Returns the largest divisor of n that is at most the square root of n. */
static int64_t middle_divisor(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) best = d;
  return best;
}

/* Returns the smallest number >= n whose only prime factors are 2, 3 and 5. If n > 256, the number
** is also a multiple of 64. */
static int64_t smooth_from(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  int64_t least = n > 256 ? 64 : 1;
  for (int64_t five = least; five < best; five *= 5)
    for (int64_t three = five; three < best; three *= 3) {
      int64_t two = three;
      while (two < n) two *= 2;
      if (two < best) best = two;
    }
  return best;
}

/* ---- tables ---- */

/* Stores exp(-2 pi i k / n) as element `at` of a table of complex numbers. */
static void put_root(void *table, tl_DType real, int64_t at, int64_t k, int64_t n) {
  const double pi = 3.14159265358979323846;
  /* reduces the angle to at most an eighth of a turn, where sine and cosine are accurate to the
  ** last bit */
  int64_t eighth = (16 * k + n) / (2 * n);
  double rest = -2 * pi * (((double)(8 * k - eighth * n)) / (8 * (double)n));
  double c = tli_cos(rest), s = tli_sin(rest), h = 0.70710678118654752440, re = c, im = s;
  switch (eighth % 8) {
  case 1: re = h * (c + s), im = h * (s - c); break;
  case 2: re = s, im = -c; break;
  case 3: re = h * (s - c), im = -h * (c + s); break;
  case 4: re = -c, im = -s; break;
  case 5: re = -h * (c + s), im = h * (c - s); break;
  case 6: re = -s, im = c; break;
  case 7: re = h * (c - s), im = h * (c + s); break;
  default: break;
  }
  if (real == TL_F32) {
    ((float *)table)[2 * at] = (float)re, ((float *)table)[2 * at + 1] = (float)im;
  } else {
    ((double *)table)[2 * at] = re, ((double *)table)[2 * at + 1] = im;
  }
}

/* Returns the address of a table of n complex numbers, which follows the tables before it. Until
** memory is allocated, only counts the bytes. */
static void *place(tlk_FftPlan *p, int64_t n) {
  size_t bytes = ((size_t)n * 2 * tl_dtype_size(p->part) + 63) / 64 * 64;
  void *at = p->tables ? (char *)p->tables + p->bytes : NULL;
  p->bytes += bytes;
  return at;
}

static void lay_out_passes(tlk_FftPlan *p, const int64_t *radices) {
  int64_t left = p->n, span = tlk_fft_lanes(p->part);
  for (int i = 0; i < p->npasses; i++) {
    int64_t r = radices[i], m = left / r;
    void *twiddles = m > 1 ? place(p, m * (r - 1)) : NULL;
    void *roots = r % 2 == 1 && r > 7 ? place(p, r) : NULL;
    p->passes[i] = (tlk_FftPass){r, m, span, m * span, span, twiddles, roots};
    if (twiddles)
      for (int64_t g = 0; g < m; g++)
        for (int64_t k = 1; k < r; k++)
          put_root(twiddles, p->part, g * (r - 1) + k - 1, g * k % left, left);
    if (roots)
      for (int64_t j = 0; j < r; j++) put_root(roots, p->part, j, (r - j) % r, r);
    left = m;
    span *= r;
  }
}

static void lay_out_folded(tlk_FftPlan *p) {
  int64_t m = p->fold->n, lanes = tlk_fft_lanes(p->part), width = tlk_fft_loops(p->part)->width;
  int64_t blocks = tlk_ceil_div(m, width);
  p->fold_twiddles = place(p, blocks * (lanes - 1) * width);
  if (p->tables == NULL) return;
  int64_t at = 0;
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t q = 1; q < lanes; q++, at += 2 * width)
      for (int64_t l = 0; l < width; l++) {
        double root[2] = {0};
        int64_t g = b * width + (tlk_fft_fold_count(p) > 1 ? l % (width / 2) : l);
        put_root(root, TL_F64, 0, q * g % p->n, p->n);
        for (int64_t part = 0; part < 2; part++)
          if (p->part == TL_F32)
            ((float *)p->fold_twiddles)[at + part * width + l] = (float)root[part];
          else
            ((double *)p->fold_twiddles)[at + part * width + l] = root[part];
      }
}

static void lay_out_divided(tlk_FftPlan *p) {
  int64_t n1 = p->columns->n, n2 = p->rows->n, lanes = tlk_fft_lanes(p->part);
  p->blocks = tlk_ceil_div(n2, lanes);
  p->lane_twiddles = place(p, n1 * lanes);
  p->base_twiddles = place(p, n1 * p->blocks);
  if (p->tables == NULL) return;
  for (int64_t k = 0; k < n1; k++) {
    /* for each k there is a row of real parts and a row of imaginary parts */
    for (int64_t l = 0; l < lanes; l++) {
      double root[2] = {0};
      put_root(root, TL_F64, 0, k * l % p->n, p->n);
      for (int64_t part = 0; part < 2; part++) {
        int64_t at = (2 * k + part) * lanes + l;
        if (p->part == TL_F32)
          ((float *)p->lane_twiddles)[at] = (float)root[part];
        else
          ((double *)p->lane_twiddles)[at] = root[part];
      }
    }
    for (int64_t b = 0; b < p->blocks; b++)
      put_root(p->base_twiddles, p->part, k * p->blocks + b, k * b * lanes % p->n, p->n);
  }
}

/* Computes the chirp exp(-pi i j^2 / n), and reserves room for the filter, which make_filter
** computes later. */
static void lay_out_chirp(tlk_FftPlan *p) {
  p->chirp = place(p, p->n);
  p->filter = place(p, p->inner->n);
  if (p->tables == NULL) return;
  for (int64_t j = 0, square = 0; j < p->n; j++) {
    put_root(p->chirp, p->part, j, square, 2 * p->n);
    square = (square + 2 * j + 1) % (2 * p->n);
  }
}

static void lay_out(tlk_FftPlan *p, const int64_t *radices) {
  p->bytes = 0;
  if (p->npasses >= 0 && (p->n <= PASSES_MOST || !p->columns)) lay_out_passes(p, radices);
  if (p->fold) lay_out_folded(p);
  if (p->columns) lay_out_divided(p);
  if (p->inner) lay_out_chirp(p);
  if (p->pairs) p->half_roots = place(p, p->n + 1);
  if (p->tables && p->pairs)
    for (int64_t k = 0; k <= p->n; k++) put_root(p->half_roots, p->part, k, k, 2 * p->n);
}

/* ---- plans, whose memory does not count as that of tensors, since it outlives them ---- */

static void free_plan(tlk_FftPlan *p) {
  if (p == NULL) return;
  tlk_fft_give_back(p->fold);
  tlk_fft_give_back(p->columns);
  tlk_fft_give_back(p->rows);
  tlk_fft_give_back(p->inner);
  tli_memory_put(p->tables);
  tli_memory_put(p);
}

/* Computes the filter: the transform of the chirp's conjugate at positions between -n and n,
** divided by the transform's length. */
static bool make_filter(tlk_FftPlan *p) {
  int64_t m = p->inner->n, pair = 2 * (int64_t)tl_dtype_size(p->part);
  size_t bytes = (size_t)(m * pair);
  char *conj = tli_alloc(bytes);
  if (conj == NULL) return tli_fail(TL_EMEM, "fft: out of memory: %zu bytes", bytes);
  memset(conj, 0, bytes);
  for (int64_t j = 0; j < p->n; j++) {
    char *at = conj + j * pair;
    memcpy(at, (char *)p->chirp + j * pair, (size_t)pair);
    if (p->part == TL_F32)
      ((float *)(void *)at)[1] *= -1;
    else
      ((double *)(void *)at)[1] *= -1;
    if (j > 0) memcpy(conj + (m - j) * pair, at, (size_t)pair);
  }
  bool ok = tlk_fft_line(p->inner, conj, p->filter, false, 1.0 / (double)m, NULL);
  tli_free(conj, bytes);
  return ok;
}

static tlk_FftPlan *get_plan(int64_t n, tl_DType real, bool pairs, bool by_passes);

static bool make_parts(tlk_FftPlan *p) {
  if (p->npasses < 0)
    return (p->inner = tlk_fft_plan(smooth_from(2 * p->n - 1), p->part, false)) != NULL;
  int64_t lanes = tlk_fft_lanes(p->part);
  if (p->n % lanes == 0 && p->n >= FOLD_LEAST * lanes && p->n <= FOLD_MOST)
    return (p->fold = tlk_fft_plan(p->n / lanes, p->part, false)) != NULL;
  int64_t n1 = p->n >= DIVIDED_LEAST && !p->by_passes ? middle_divisor(p->n) : 1;
  if (n1 < 4) return true;
  return (p->columns = get_plan(n1, p->part, false, true)) != NULL &&
         (p->rows = get_plan(p->n / n1, p->part, false, true)) != NULL;
}

static size_t bytes_of(const tlk_FftPlan *p) { return p ? p->all_bytes : 0; }

static tlk_FftPlan *new_plan(int64_t n, tl_DType real, bool pairs, bool by_passes) {
  tlk_FftPlan *p = tli_memory_get(64, sizeof *p);
  if (p == NULL) return tli_fail_null(TL_EMEM, "fft: out of memory");
  memset(p, 0, sizeof *p);
  int64_t radices[TLK_FFT_FACTORS];
  p->n = n, p->part = real, p->pairs = pairs, p->by_passes = by_passes;
  p->isa = tlk_isa(), p->users = 1;
  p->npasses = factorize(n, radices);
  bool ok = make_parts(p);
  if (ok) {
    lay_out(p, radices);
    p->all_bytes = p->bytes + bytes_of(p->fold) + bytes_of(p->columns) + bytes_of(p->rows) +
                   bytes_of(p->inner);
    p->tables = p->bytes > 0 ? tli_memory_get(64, p->bytes) : NULL;
    ok = p->bytes == 0 || p->tables ||
         tli_fail(TL_EMEM, "fft: out of memory: %zu bytes of tables", p->bytes);
  }
  if (ok) {
    if (p->tables) lay_out(p, radices);
    if (p->npasses >= 0 && p->n > PASSES_MOST && p->columns) p->npasses = -1;
    ok = p->inner == NULL || make_filter(p);
  }
  if (ok) return p;
  free_plan(p);
  return NULL;
}

/* ---- the cache: a plan is freed when newer ones need its place ---- */

#define CACHED 32
#define CACHED_BYTES ((size_t)64 << 20)

static tli_Mutex guard = TLI_MUTEX_INIT;
/* the plans in the cache (owned), which the lock `guard` protects */
static tlk_FftPlan *cached[CACHED];
static size_t cached_bytes;   /* guarded */
static int64_t clock_of_uses; /* guarded */

static tlk_FftPlan *find(int64_t n, tl_DType real, bool pairs, bool by_passes) {
  for (int i = 0; i < CACHED; i++)
    if (cached[i] && cached[i]->n == n && cached[i]->part == real && cached[i]->pairs == pairs &&
        cached[i]->by_passes == by_passes && cached[i]->isa == tlk_isa())
      return cached[i];
  return NULL;
}

/* Removes from the cache the plan that has been unused for the longest time, and returns it.
** Returns NULL if all plans are in use. */
static tlk_FftPlan *take_oldest(void) {
  int oldest = -1;
  for (int i = 0; i < CACHED; i++)
    if (cached[i] && cached[i]->users == 0 && (oldest < 0 || cached[i]->age < cached[oldest]->age))
      oldest = i;
  if (oldest < 0) return NULL;
  tlk_FftPlan *p = cached[oldest];
  cached[oldest] = NULL;
  cached_bytes -= p->all_bytes;
  return p;
}

static bool enter(tlk_FftPlan *p) {
  for (int i = 0; i < CACHED; i++)
    if (cached[i] == NULL) {
      cached[i] = p;
      cached_bytes += p->all_bytes;
      return true;
    }
  return false;
}

static bool is_cached(const tlk_FftPlan *p) {
  for (int i = 0; i < CACHED; i++)
    if (cached[i] == p) return true;
  return false;
}

static tlk_FftPlan *get_plan(int64_t n, tl_DType real, bool pairs, bool by_passes) {
  /* a plan of a shorter length has passes in any case */
  by_passes = by_passes && n > PASSES_MOST;
  tli_mutex_lock(&guard);
  tlk_FftPlan *p = find(n, real, pairs, by_passes);
  if (p) p->users++, p->age = ++clock_of_uses;
  tli_mutex_unlock(&guard);
  return p ? p : new_plan(n, real, pairs, by_passes);
}

tlk_FftPlan *tlk_fft_plan(int64_t n, tl_DType real, bool pairs) {
  return get_plan(n, real, pairs, false);
}

void tlk_fft_give_back(tlk_FftPlan *p) {
  if (p == NULL) return;
  tlk_FftPlan *dropped[CACHED + 1];
  int n = 0;
  tli_mutex_lock(&guard);
  p->users--;
  /* a plan outside the cache belongs to this call, so it is put into the cache or freed */
  if (!is_cached(p)) {
    bool fits =
        p->all_bytes <= CACHED_BYTES / 2 && find(p->n, p->part, p->pairs, p->by_passes) == NULL;
    p->age = ++clock_of_uses;
    if (!fits || !enter(p)) {
      tlk_FftPlan *oldest = fits ? take_oldest() : NULL;
      if (oldest) dropped[n++] = oldest;
      if (!oldest || !enter(p)) dropped[n++] = p;
    }
    while (cached_bytes > CACHED_BYTES && n < CACHED) {
      tlk_FftPlan *oldest = take_oldest();
      if (oldest == NULL) break;
      dropped[n++] = oldest;
    }
  }
  tli_mutex_unlock(&guard);
  for (int i = 0; i < n; i++) free_plan(dropped[i]);
}
