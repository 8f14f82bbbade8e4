/*
** quantized.c - products and convolutions of 8-bit integers. First the input is rounded to unsigned
** bytes with the channels innermost, so that a window consists of a few contiguous runs of bytes. A
** tile of the result has up to 8 positions and 16 channels. Sums are 32-bit integers, so results do
** not depend on the number of threads.
*/
#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_VNNI 1
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#else
#define HAS_VNNI 0
#endif

#define LANES 16      /* number of channels in a tile */
#define POSITIONS 8   /* number of positions in a tile */
#define GROUP 64      /* number of positions in a task */
#define MOST_RUNS 256 /* largest number of runs in a window */

typedef struct Product {
  const struct tlk_quantized *call;
  bool vnni;
  int64_t height, width, channels; /* sizes of `bytes` with padding; channels is a multiple of 4 */
  int64_t pixels;                  /* number of positions in one image; of rows if call->rows */
  int64_t images;                  /* number of images; 1 if call->rows */
  int64_t runs, run;               /* number of runs in a window, number of bytes in a run */
  int64_t groups, panels,
      parts;      /* tasks of an image: groups * parts; panels are split into parts */
  uint8_t *bytes; /* the rounded input (images, height, width, channels) (owned) */
  float *scales;  /* the scale of each image or row (owned) */
  int32_t *zeros; /* the zero point of each image or row (owned) */
} Product;

/* ---- rounding the input ---- */

typedef struct Range {
  float low, high;
  bool bad; /* whether one of the numbers is NaN */
} Range;

static Range range_of(const float *x, int64_t n) {
  Range r = {0, 0, false};
  for (int64_t i = 0; i < n; i++) {
    r.low = x[i] < r.low ? x[i] : r.low;
    r.high = x[i] > r.high ? x[i] : r.high;
    r.bad |= x[i] != x[i];
  }
  return r;
}

static uint8_t round_one(float x, float inverse, int32_t zero) {
  float q = rintf(x * inverse) + (float)zero;
  return (uint8_t)(q > 0 ? (q < 255 ? q : 255) : 0);
}

/* Rounds n elements of a row. */
static void round_plain(int64_t n, const float *x, float inverse, int32_t zero, uint8_t *to) {
  for (int64_t k = 0; k < n; k++) to[k] = round_one(x[k], inverse, zero);
}

/* Rounds a row of an image, n elements of each channel. The channels' rows are `plane` elements
** apart in x; positions are `stride` bytes apart in `to`. */
static void spread_plain(int64_t n, const float *x, int64_t plane, int64_t channels, float inverse,
                         int32_t zero, uint8_t *to, int64_t stride) {
  for (int64_t c = 0; c < channels; c++)
    for (int64_t k = 0; k < n; k++) to[k * stride + c] = round_one(x[c * plane + k], inverse, zero);
}

#if HAS_VNNI
static inline __attribute__((always_inline)) VNNI __m512i round_16(__mmask16 some, const float *x,
                                                                   __m512 inverse, __m512i zero) {
  __m512 q = _mm512_mul_ps(_mm512_maskz_loadu_ps(some, x), inverse);
  /* limits large numbers, which do not fit into integers */
  q = _mm512_min_ps(_mm512_max_ps(q, _mm512_set1_ps(-512)), _mm512_set1_ps(512));
  __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(q), zero);
  return _mm512_min_epi32(_mm512_max_epi32(i, _mm512_setzero_si512()), _mm512_set1_epi32(255));
}

static __mmask16 first_of(int64_t n) {
  unsigned all = 0xFFFF;
  return (__mmask16)(n < 16 ? all >> (16 - n) : all);
}

static VNNI void round_vnni(int64_t n, const float *x, float inverse, int32_t zero, uint8_t *to) {
  __m512 by = _mm512_set1_ps(inverse);
  __m512i z = _mm512_set1_epi32(zero);
  for (int64_t k = 0; k < n; k += 16)
    _mm512_mask_cvtepi32_storeu_epi8(to + k, first_of(n - k),
                                     round_16(first_of(n - k), x + k, by, z));
}

/* Does the same as spread_plain; writes the bytes of four channels as one word. */
static VNNI void spread_vnni(int64_t n, const float *x, int64_t plane, int64_t channels,
                             float inverse, int32_t zero, uint8_t *to, int64_t stride) {
  __m512 by = _mm512_set1_ps(inverse);
  __m512i z = _mm512_set1_epi32(zero);
  for (int64_t k = 0; k < n; k += 16) {
    __mmask16 some = first_of(n - k);
    int m = n - k < 16 ? (int)(n - k) : 16;
    for (int64_t c = 0; c < channels; c += 4) {
      int32_t words[16];
      __m512i all = _mm512_setzero_si512();
      for (int i = 0; i < 4 && c + i < channels; i++) {
        __m512i q = round_16(some, x + (c + i) * plane + k, by, z);
        all = _mm512_or_si512(all, _mm512_sllv_epi32(q, _mm512_set1_epi32(8 * i)));
      }
      _mm512_storeu_si512(words, all);
      for (int r = 0; r < m; r++) memcpy(to + (k + r) * stride + c, &words[r], 4);
    }
  }
}

static VNNI Range range_vnni(const float *x, int64_t n) {
  __m512 low = _mm512_setzero_ps(), high = low;
  __mmask16 bad = 0;
  for (int64_t k = 0; k < n; k += 16) {
    __m512 v = _mm512_maskz_loadu_ps(first_of(n - k), x + k);
    low = _mm512_min_ps(low, v);
    high = _mm512_max_ps(high, v);
    bad |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  }
  return (Range){_mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high), bad != 0};
}
#endif

/* Sets the scale and the zero point of image or row i. If the input has no finite range, the scale
** is NaN, so the results are NaN. */
static void set_scale(Product *p, int64_t i, const float *x, int64_t n) {
  Range r;
#if HAS_VNNI
  if (p->vnni)
    r = range_vnni(x, n);
  else
#endif
    r = range_of(x, n);
  p->scales[i] = p->call->scale;
  p->zeros[i] = p->call->zero;
  if (r.bad || (p->call->scale == 0 && !(r.high - r.low < INFINITY))) {
    p->scales[i] = NAN;
  } else if (p->call->scale == 0) {
    p->scales[i] = r.high > r.low ? (r.high - r.low) / 255 : 1;
    p->zeros[i] = (int32_t)lrintf(-r.low / p->scales[i]);
  }
}

static void round_row(const Product *p, int64_t n, const float *x, int64_t i, uint8_t *to) {
  float inverse = 1 / p->scales[i];
#if HAS_VNNI
  if (p->vnni) {
    round_vnni(n, x, inverse, p->zeros[i], to);
    return;
  }
#endif
  round_plain(n, x, inverse, p->zeros[i], to);
}

static void round_rows(void *context, int64_t begin, int64_t end) {
  Product *p = context;
  int64_t n = p->call->channels;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)p->call->in + i * n;
    uint8_t *to = p->bytes + i * p->channels;
    set_scale(p, i, x, n);
    round_row(p, n, x, i, to);
    memset(to + n, 0, (size_t)(p->channels - n));
  }
}

static void scale_images(void *context, int64_t begin, int64_t end) {
  Product *p = context;
  int64_t n = p->call->channels * p->call->windows.in[1] * p->call->windows.in[2];
  for (int64_t i = begin; i < end; i++) set_scale(p, i, (const float *)p->call->in + i * n, n);
}

/* Rounds rows `begin` to `end` of the padded images. */
static void round_images(void *context, int64_t begin, int64_t end) {
  Product *p = context;
  const tlk_Windows *w = &p->call->windows;
  int64_t h = w->in[1], wide = w->in[2], channels = p->call->channels, row = p->width * p->channels;
  for (int64_t i = begin; i < end; i++) {
    int64_t image = i / p->height, y = i % p->height - w->padding[1];
    uint8_t *to = p->bytes + i * row;
    int32_t zero = p->zeros[image];
    memset(to, zero, (size_t)row);
    if (y < 0 || y >= h) continue;
    float inverse = 1 / p->scales[image];
    to += w->padding[2] * p->channels;
    const float *x = (const float *)p->call->in + (image * channels * h + y) * wide;
#if HAS_VNNI
    if (p->vnni) {
      spread_vnni(wide, x, h * wide, channels, inverse, zero, to, p->channels);
      continue;
    }
#endif
    spread_plain(wide, x, h * wide, channels, inverse, zero, to, p->channels);
  }
}

/* ---- tiles ---- */

/* A tile. rows[i] is the first byte of the window at position i; weight is (depth / 4, LANES,
** 4). */
typedef struct Tile {
  const uint8_t *rows[POSITIONS];
  const int8_t *weight;
  const int64_t *offsets; /* the offset of each run from the window's first byte */
  int64_t runs, run;
  int n;
} Tile;

static void sum_plain(const Tile *t, int32_t out[POSITIONS][LANES]) {
  memset(out, 0, (size_t)t->n * sizeof *out);
  for (int r = 0; r < t->n; r++) {
    const int8_t *w = t->weight;
    for (int64_t s = 0; s < t->runs; s++)
      for (int64_t k = 0; k < t->run; k += 4, w += 4 * LANES) {
        const uint8_t *a = t->rows[r] + t->offsets[s] + k;
        for (int c = 0; c < LANES; c++)
          out[r][c] +=
              a[0] * w[4 * c] + a[1] * w[4 * c + 1] + a[2] * w[4 * c + 2] + a[3] * w[4 * c + 3];
      }
  }
}

#if HAS_VNNI
static inline __attribute__((always_inline)) VNNI void sum_some(const Tile *t, int n,
                                                                int32_t out[POSITIONS][LANES]) {
  __m512i sums[POSITIONS];
  for (int r = 0; r < n; r++) sums[r] = _mm512_setzero_si512();
  const int8_t *w = t->weight;
  for (int64_t s = 0; s < t->runs; s++)
    for (int64_t k = 0; k < t->run; k += 4, w += 4 * LANES) {
      __m512i b = _mm512_loadu_si512(w);
      for (int r = 0; r < n; r++) {
        int32_t a;
        memcpy(&a, t->rows[r] + t->offsets[s] + k, sizeof a);
        sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_set1_epi32(a), b);
      }
    }
  for (int r = 0; r < n; r++) _mm512_storeu_si512(out[r], sums[r]);
}

static VNNI void sum_vnni(const Tile *t, int32_t out[POSITIONS][LANES]) {
  switch (t->n) { /* with a constant number of positions, the sums stay in registers */
  case 1: sum_some(t, 1, out); break;
  case 2: sum_some(t, 2, out); break;
  case 4: sum_some(t, 4, out); break;
  default: sum_some(t, POSITIONS, out);
  }
}
#endif

/* Returns the offset of the first byte of a position's window within an image. */
static int64_t position_at(const Product *p, int64_t i) {
  const tlk_Windows *w = &p->call->windows;
  if (p->call->rows) return i * p->channels;
  return (i / w->out[2] * w->stride[1] * p->width + i % w->out[2] * w->stride[2]) * p->channels;
}

/* Writes a tile of the result. */
static void write_tile(const Product *p, int64_t image, int64_t first, int n, int64_t panel,
                       int32_t sums[POSITIONS][LANES]) {
  const struct tlk_quantized *call = p->call;
  int64_t channel = panel * LANES;
  int cols = (int)tlk_min(LANES, call->n - channel);
  float tile[POSITIONS][LANES];
  for (int r = 0; r < n; r++) {
    int64_t of = call->rows ? first + r : image;
    int32_t zero = p->zeros[of];
    for (int c = 0; c < cols; c++) {
      float x = (float)(sums[r][c] - zero * call->sums[channel + c]);
      x = x * (p->scales[of] * call->scales[channel + c]);
      if (call->bias) x += call->bias[channel + c];
      tile[r][c] = call->relu && x < 0 ? 0 : x;
    }
  }
  float *out = call->out;
  if (call->rows) {
    for (int r = 0; r < n; r++)
      memcpy(out + (first + r) * call->n + channel, tile[r], (size_t)cols * sizeof **tile);
    return;
  }
  out += (image * call->n + channel) * p->pixels + first;
  for (int c = 0; c < cols; c++)
    for (int r = 0; r < n; r++) out[c * p->pixels + r] = tile[r][c];
}

#if HAS_VNNI
/* Writes four positions of the channels of a tile: channel 4 * l + j is lane l of v[j]. */
static inline __attribute__((always_inline)) VNNI void write_lanes(const __m512 *v, float *out,
                                                                   int64_t stride) {
  for (int j = 0; j < 4; j++) {
    _mm_storeu_ps(out + j * stride, _mm512_extractf32x4_ps(v[j], 0));
    _mm_storeu_ps(out + (4 + j) * stride, _mm512_extractf32x4_ps(v[j], 1));
    _mm_storeu_ps(out + (8 + j) * stride, _mm512_extractf32x4_ps(v[j], 2));
    _mm_storeu_ps(out + (12 + j) * stride, _mm512_extractf32x4_ps(v[j], 3));
  }
}

/* Transposes the 4 x 4 elements in each 128-bit lane of v[0] to v[3]. */
static inline __attribute__((always_inline)) VNNI void turn(__m512 *v) {
  __m512 a = _mm512_unpacklo_ps(v[0], v[1]), b = _mm512_unpackhi_ps(v[0], v[1]);
  __m512 c = _mm512_unpacklo_ps(v[2], v[3]), d = _mm512_unpackhi_ps(v[2], v[3]);
  v[0] = _mm512_shuffle_ps(a, c, 0x44);
  v[1] = _mm512_shuffle_ps(a, c, 0xEE);
  v[2] = _mm512_shuffle_ps(b, d, 0x44);
  v[3] = _mm512_shuffle_ps(b, d, 0xEE);
}

/* Does the same as write_tile, for a complete tile of an image. */
static VNNI void write_vnni(const Product *p, int64_t image, int64_t first, int64_t panel,
                            int32_t sums[POSITIONS][LANES]) {
  const struct tlk_quantized *call = p->call;
  int64_t channel = panel * LANES;
  __m512i less = _mm512_mullo_epi32(_mm512_loadu_si512(call->sums + channel),
                                    _mm512_set1_epi32(p->zeros[image]));
  __m512 scale =
      _mm512_mul_ps(_mm512_loadu_ps(call->scales + channel), _mm512_set1_ps(p->scales[image]));
  __m512 bias = call->bias ? _mm512_loadu_ps(call->bias + channel) : _mm512_setzero_ps();
  __m512 v[POSITIONS];
  for (int r = 0; r < POSITIONS; r++) {
    __m512i sum = _mm512_sub_epi32(_mm512_loadu_si512(sums[r]), less);
    v[r] = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), bias);
    /* the operands' order matters: the result is NaN if the second one is NaN */
    if (call->relu) v[r] = _mm512_max_ps(_mm512_setzero_ps(), v[r]);
  }
  turn(v);
  turn(v + 4);
  float *out = (float *)call->out + (image * call->n + channel) * p->pixels + first;
  write_lanes(v, out, p->pixels);
  write_lanes(v + 4, out + 4, p->pixels);
}
#endif

static void run_tile(const Product *p, Tile *t, int64_t image, int64_t first, int64_t panel) {
  int32_t sums[POSITIONS][LANES];
  const uint8_t *bytes = p->bytes + image * p->height * p->width * p->channels;
  int n = t->n;
  for (int r = 0; r < POSITIONS; r++)
    t->rows[r] = bytes + position_at(p, first + tlk_min(r, n - 1));
  t->weight = p->call->weight + panel * t->runs * t->run * LANES;
#if HAS_VNNI
  if (p->vnni) {
    t->n = n > 4 ? POSITIONS : n > 2 ? 4 : n;
    sum_vnni(t, sums);
    if (n == POSITIONS && !p->call->rows && (panel + 1) * LANES <= p->call->n) {
      write_vnni(p, image, first, panel, sums);
      return;
    }
  } else
#endif
    sum_plain(t, sums);
  write_tile(p, image, first, n, panel, sums);
}

static void run_tasks(void *context, int64_t begin, int64_t end) {
  const Product *p = context;
  const tlk_Windows *w = &p->call->windows;
  int64_t offsets[MOST_RUNS];
  bool wide = p->runs == w->kernel[1] * w->kernel[2];
  for (int64_t s = 0; s < p->runs; s++) {
    int64_t y = wide ? s / w->kernel[2] : s, x = wide ? s % w->kernel[2] : 0;
    offsets[s] = (y * w->dilation[1] * p->width + x * w->dilation[2]) * p->channels;
  }
  for (int64_t task = begin; task < end; task++) {
    int64_t part = task % p->parts, group = task / p->parts % p->groups;
    int64_t image = task / p->parts / p->groups;
    int64_t from = p->panels * part / p->parts, to = p->panels * (part + 1) / p->parts;
    int64_t last = tlk_min((group + 1) * GROUP, p->pixels);
    for (int64_t panel = from; panel < to; panel++)
      for (int64_t i = group * GROUP; i < last; i += POSITIONS) {
        Tile t = {.offsets = offsets, .runs = p->runs, .run = p->run};
        t.n = (int)tlk_min(POSITIONS, last - i);
        run_tile(p, &t, image, i, panel);
      }
  }
}

/* ---- calls ---- */

static void describe(Product *p) {
  const struct tlk_quantized *call = p->call;
  const tlk_Windows *w = &call->windows;
  p->channels = (call->channels + 3) / 4 * 4;
  p->panels = tlk_ceil_div(call->n, LANES);
  if (call->rows) {
    p->images = 1, p->height = call->batch, p->width = 1, p->pixels = call->batch;
    p->runs = 1, p->run = p->channels;
  } else {
    bool dense = w->dilation[2] == 1;
    p->images = call->batch;
    p->height = w->in[1] + 2 * w->padding[1], p->width = w->in[2] + 2 * w->padding[2];
    p->pixels = w->out[1] * w->out[2];
    p->runs = w->kernel[1] * (dense ? 1 : w->kernel[2]);
    p->run = (dense ? w->kernel[2] : 1) * p->channels;
  }
  p->groups = tlk_ceil_div(p->pixels, GROUP);
  p->parts = p->groups * p->images < 8 ? tlk_min(p->panels, 8) : 1;
#if HAS_VNNI
  p->vnni = strstr(tlk_isa()->name, "v4") && __builtin_cpu_supports("avx512vnni");
#endif
}

bool tlk_quantized(const struct tlk_quantized *call) {
  Product p = {.call = call};
  describe(&p);
  if (p.runs > MOST_RUNS)
    return tli_fail(TL_ESHAPE, "quantized convolution: expected a kernel of at most 256 rows");
  int64_t scaled = call->rows ? call->batch : p.images;
  size_t size = (size_t)(p.images * p.height * p.width * p.channels);
  size_t extra = (size_t)scaled * (sizeof *p.scales + sizeof *p.zeros);
  char *memory = tli_alloc(size + extra);
  if (memory == NULL) return false;
  p.scales = (float *)(void *)memory;
  p.zeros = (int32_t *)(void *)(p.scales + scaled);
  p.bytes = (uint8_t *)(p.zeros + scaled);
  if (call->rows) {
    tli_parallel_for(call->batch, 1 + 16384 / p.channels, round_rows, &p);
  } else {
    tli_parallel_for(p.images, 1, scale_images, &p);
    tli_parallel_for(p.images * p.height, 1 + 16384 / (p.width * p.channels), round_images, &p);
  }
  int64_t tasks = p.images * p.groups * p.parts;
  int64_t work = tlk_min(GROUP, p.pixels) * p.runs * p.run * call->n / p.parts;
  tli_parallel_for(tasks, 1 + 65536 / tlk_max(work / 16, 1), run_tasks, &p);
  tli_free(memory, size + extra);
  return true;
}
