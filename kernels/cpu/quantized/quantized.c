/*
** quantized.c - products and convolutions of 8-bit integers. First the input is rounded to unsigned
** bytes and padded, unless it consists of bytes already. The channels are the innermost dimension,
** so a window consists of a few contiguous runs of bytes. A tile of the result has up to 6
** positions and 64 channels. Sums are 32-bit integers, so results do not depend on the number of
** threads. Depthwise convolutions are in depthwise.c.
*/
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/quantized/quantized.h"

#define LANES 16      /* number of channels in a panel of weights */
#define PANELS 4      /* number of panels in a tile of the result */
#define POSITIONS 6   /* number of positions in a tile of the result */
#define GROUP 96      /* number of positions in a task */
#define MOST_RUNS 256 /* largest number of runs (contiguous bytes) in a window */

/* ---- rounding the input ---- */

typedef struct Range {
  float low, high;
  bool bad; /* whether an element is NaN */
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

/* Rounds n elements of a row to bytes. Returns whether an element is NaN. */
static bool round_plain(int64_t n, const float *x, float inverse, int32_t zero, uint8_t *to) {
  bool bad = false;
  for (int64_t k = 0; k < n; k++) {
    to[k] = round_one(x[k], inverse, zero);
    bad |= x[k] != x[k];
  }
  return bad;
}

#if HAS_VNNI
static VNNI bool round_vnni(int64_t n, const float *x, float inverse, int32_t zero, uint8_t *to) {
  __m512 by = _mm512_set1_ps(inverse);
  __m512i z = _mm512_set1_epi32(zero);
  __mmask16 bad = 0;
  for (int64_t k = 0; k < n; k += 16) {
    __mmask16 some = tlk_first_of(n - k);
    __m512 v = _mm512_maskz_loadu_ps(some, x + k);
    _mm512_mask_cvtepi32_storeu_epi8(to + k, some, tlk_to_bytes(v, by, z));
    bad |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  }
  return bad != 0;
}

static VNNI Range range_vnni(const float *x, int64_t n) {
  __m512 low = _mm512_setzero_ps(), high = low;
  __mmask16 bad = 0;
  for (int64_t k = 0; k < n; k += 16) {
    __m512 v = _mm512_maskz_loadu_ps(tlk_first_of(n - k), x + k);
    low = _mm512_min_ps(low, v);
    high = _mm512_max_ps(high, v);
    bad |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  }
  return (Range){_mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high), bad != 0};
}
#endif

/* Sets the scale and the zero point of image or row i from the range of its elements. If this range
** is not finite, the scale is NaN, which makes the results NaN. */
static void set_scale(tlk_QuantizedProduct *p, int64_t i, const float *x, int64_t n) {
  Range r;
#if HAS_VNNI
  if (p->vnni)
    r = range_vnni(x, n);
  else
#endif
    r = range_of(x, n);
  if (r.bad || !(r.high - r.low < INFINITY)) {
    p->scales[i] = NAN;
  } else {
    p->scales[i] = r.high > r.low ? (r.high - r.low) / 255 : 1;
    p->zeros[i] = (int32_t)lrintf(-r.low / p->scales[i]);
  }
}

static void scale_all(void *context, int64_t begin, int64_t end) {
  tlk_QuantizedProduct *p = context;
  const tlk_Windows *w = &p->call->windows;
  int64_t n = p->call->channels * (p->call->rows ? 1 : w->in[1] * w->in[2]);
  for (int64_t i = begin; i < end; i++) set_scale(p, i, (const float *)p->call->in + i * n, n);
}

/* Rounds n positions of image or row i to bytes, and fills their channels up to p->channels.
** Records whether an element is NaN. */
static void round_positions(tlk_QuantizedProduct *p, int64_t n, const void *x, int64_t i,
                            uint8_t *to) {
  int64_t from = p->call->channels, channels = p->channels;
  int64_t runs = from == channels ? 1 : n, run = from == channels ? n * from : from;
  float inverse = 1 / p->scales[i];
  bool bad = false;
  for (int64_t k = 0; k < runs; k++, to += channels) {
    if (p->call->dtype == TL_U8) memcpy(to, (const uint8_t *)x + k * from, (size_t)run);
#if HAS_VNNI
    else if (p->vnni)
      bad |= round_vnni(run, (const float *)x + k * from, inverse, p->zeros[i], to);
#endif
    else
      bad |= round_plain(run, (const float *)x + k * from, inverse, p->zeros[i], to);
    if (from != channels) memset(to + from, 0, (size_t)(channels - from));
  }
  if (bad) atomic_store_explicit(&p->bad[i], true, memory_order_relaxed);
}

static void round_rows(void *context, int64_t begin, int64_t end) {
  tlk_QuantizedProduct *p = context;
  int64_t n = p->call->channels * (int64_t)tl_dtype_size(p->call->dtype);
  for (int64_t i = begin; i < end; i++)
    round_positions(p, 1, (const char *)p->call->in + i * n, i, p->copy + i * p->channels);
}

/* Quantizes rows of the padded images to integers of 8 bits, from row `begin` up to, but not
** including, row `end`. */
static void round_images(void *context, int64_t begin, int64_t end) {
  tlk_QuantizedProduct *p = context;
  const tlk_Windows *w = &p->call->windows;
  int64_t h = w->in[1], row = p->width * p->channels, edge = w->padding[2] * p->channels;
  int64_t size = (int64_t)tl_dtype_size(p->call->dtype);
  for (int64_t i = begin; i < end; i++) {
    int64_t image = i / p->height, y = i % p->height - w->padding[1];
    uint8_t *to = p->copy + i * row;
    bool inside = y >= 0 && y < h;
    memset(to, p->zeros[image], (size_t)(inside ? edge : row));
    if (!inside) continue;
    memset(to + row - edge, p->zeros[image], (size_t)edge);
    const char *x = p->call->in;
    round_positions(p, w->in[2], x + (image * h + y) * w->in[2] * p->call->channels * size, image,
                    to + edge);
  }
}

/* ---- tiles ---- */

/* A tile. rows[i] is the first byte of the window at position i; weight is an array (panels, depth
** / 4, LANES, 4). */
typedef struct Tile {
  const uint8_t *rows[POSITIONS];
  const int8_t *weight;
  const int64_t *offsets; /* offset of each run from the window's first byte */
  int64_t runs, run;
  int n, panels;
} Tile;

typedef int32_t Sums[POSITIONS][PANELS * LANES];

static void sum_plain(const Tile *t, Sums out) {
  for (int r = 0; r < t->n; r++) memset(out[r], 0, sizeof *out);
  const int8_t *w = t->weight;
  for (int c = 0; c < t->panels * LANES; c += LANES)
    for (int64_t s = 0; s < t->runs; s++)
      for (int64_t k = 0; k < t->run; k += 4, w += 4 * LANES)
        for (int r = 0; r < t->n; r++) {
          const uint8_t *a = t->rows[r] + t->offsets[s] + k;
          for (int i = 0; i < LANES; i++)
            out[r][c + i] +=
                a[0] * w[4 * i] + a[1] * w[4 * i + 1] + a[2] * w[4 * i + 2] + a[3] * w[4 * i + 3];
        }
}

#if HAS_VNNI
/* Computes sums of products for n positions and `panels` panels of the tile. Callers pass constants
** for both, for which the inlined function is optimised, so the sums stay in registers. */
static inline __attribute__((always_inline)) VNNI void sum_some(const Tile *t, int n, int panels,
                                                                Sums out) {
  __m512i sums[POSITIONS][PANELS];
  for (int r = 0; r < n; r++)
    for (int v = 0; v < panels; v++) sums[r][v] = _mm512_setzero_si512();
  const int8_t *w = t->weight;
  int64_t panel = t->runs * t->run * LANES;
  for (int64_t s = 0; s < t->runs; s++) {
    const uint8_t *x[POSITIONS];
    for (int r = 0; r < n; r++) x[r] = t->rows[r] + t->offsets[s];
    for (int64_t k = 0; k < t->run; k += 4, w += 4 * LANES) {
      __m512i b[PANELS];
      for (int v = 0; v < panels; v++) b[v] = _mm512_loadu_si512(w + v * panel);
      for (int r = 0; r < n; r++) {
        int32_t a;
        memcpy(&a, x[r] + k, sizeof a);
        __m512i all = _mm512_set1_epi32(a);
        for (int v = 0; v < panels; v++) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], all, b[v]);
      }
    }
  }
  for (int r = 0; r < n; r++)
    for (int v = 0; v < panels; v++) _mm512_storeu_si512(out[r] + v * LANES, sums[r][v]);
}

/* Computes the sums of a tile. If the product has only one position, each panel of weights is used
** only once, so the panels are read from memory one after the other. */
static VNNI void sum_vnni(const Tile *t, bool alone, Sums out) {
  if (alone) {
    for (int v = 0; v < t->panels; v++) {
      Tile one = *t;
      one.weight += v * t->runs * t->run * LANES;
      sum_some(&one, 1, 1, (int32_t(*)[PANELS * LANES])(out[0] + v * LANES));
    }
    return;
  }
  switch (t->panels) {
  case 1: sum_some(t, POSITIONS, 1, out); break;
  case 2: sum_some(t, POSITIONS, 2, out); break;
  case 3: sum_some(t, POSITIONS, 3, out); break;
  default: sum_some(t, POSITIONS, PANELS, out);
  }
}
#endif

/* Returns the offset in bytes of the window of position i from the beginning of its image. */
static int64_t position_at(const tlk_QuantizedProduct *p, int64_t i) {
  const tlk_Windows *w = &p->call->windows;
  if (p->flat) return i * p->channels;
  return (i / w->out[2] * w->stride[1] * p->width + i % w->out[2] * w->stride[2]) * p->channels;
}

void tlk_quantized_write(const tlk_QuantizedProduct *p, int64_t image, int64_t at, int64_t channel,
                         int cols, const int32_t *sums) {
  const struct tlk_quantized *call = p->call;
  float row[PANELS * LANES], scale = p->scales[image];
  int32_t zero = p->zeros[image];
  for (int c = 0; c < cols; c++)
    row[c] =
        (float)(sums[c] - zero * call->sums[channel + c]) * (scale * call->scales[channel + c]);
  at = at * call->n + channel;
  for (int c = 0; call->bias && c < cols; c++) row[c] += call->bias[channel + c];
  for (int c = 0; call->other && c < cols; c++) row[c] += call->other[at + c];
  for (int c = 0; c < cols; c++) {
    row[c] = row[c] < call->low ? call->low : row[c];
    row[c] = row[c] > call->high ? call->high : row[c];
  }
  if (call->out_dtype == TL_U8)
    round_plain(cols, row, 1 / call->out_scale, call->out_zero, (uint8_t *)call->out + at);
  else
    memcpy((float *)call->out + at, row, (size_t)cols * sizeof *row);
}

#if HAS_VNNI
/* The constants of a tile's channels, for all positions that have the same scale. */
typedef struct Constants {
  __m512i less[PANELS];
  __m512 factors[PANELS], bias[PANELS];
  __mmask16 some[PANELS];
} Constants;

/* Loads the scales of the channels from `channel` on, for the image or row with the number `of`. */
static inline __attribute__((always_inline)) VNNI void
load_scales(const tlk_QuantizedProduct *p, int64_t of, int64_t channel, int panels, Constants *c) {
  __m512i zero = _mm512_set1_epi32(p->zeros[of]);
  __m512 scale = _mm512_set1_ps(p->scales[of]);
  for (int v = 0; v < panels; v++) {
    int64_t k = channel + v * LANES;
    c->less[v] = _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(c->some[v], p->call->sums + k), zero);
    c->factors[v] = _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(c->some[v], p->call->scales + k));
  }
}

/* Does the same as tlk_quantized_write for the n positions of a tile. Callers pass a constant for
** `panels`, for which the inlined function is optimised. */
static inline __attribute__((always_inline)) VNNI void write_some(const tlk_QuantizedProduct *p,
                                                                  int64_t image, int64_t first,
                                                                  int n, int64_t channel, int cols,
                                                                  int panels, Sums sums) {
  const struct tlk_quantized *call = p->call;
  const float *other = call->other;
  void *out = call->out;
  bool rows = call->rows, to_bytes = call->out_dtype == TL_U8;
  int64_t at = (image * p->pixels + first) * call->n + channel, step = call->n;
  tlk_ByteLimits limits = tlk_byte_limits(call);
  __m512 low = _mm512_set1_ps(call->low), high = _mm512_set1_ps(call->high);
  /* packing the vectors interleaves their quarters, and this order restores the sequence */
  __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __mmask64 bytes = cols < 64 ? ((__mmask64)1 << cols) - 1 : ~(__mmask64)0;
  Constants c;
  for (int v = 0; v < panels; v++) {
    c.some[v] = tlk_first_of(cols - v * LANES);
    c.bias[v] = call->bias ? _mm512_maskz_loadu_ps(c.some[v], call->bias + channel + v * LANES)
                           : _mm512_setzero_ps();
  }
  load_scales(p, rows ? first : image, channel, panels, &c);
  for (int r = 0; r < n; r++, at += step) {
    __m512 x[PANELS];
    if (rows && r > 0) load_scales(p, first + r, channel, panels, &c);
    for (int v = 0; v < panels; v++) {
      __m512i sum = _mm512_sub_epi32(_mm512_loadu_si512(sums[r] + v * LANES), c.less[v]);
      x[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), c.factors[v], c.bias[v]);
      if (other)
        x[v] = _mm512_add_ps(x[v], _mm512_maskz_loadu_ps(c.some[v], other + at + v * LANES));
    }
    if (to_bytes) {
      __m512i all = _mm512_permutexvar_epi32(order, tlk_bytes_of(panels, x, &limits));
      _mm512_mask_storeu_epi8((uint8_t *)out + at, bytes, all);
      continue;
    }
    for (int v = 0; v < panels; v++) {
      /* the order of operands matters: the result is NaN if the second operand is NaN */
      x[v] = _mm512_min_ps(high, _mm512_max_ps(low, x[v]));
      _mm512_mask_storeu_ps((float *)out + at + v * LANES, c.some[v], x[v]);
    }
  }
}

static VNNI void write_vnni(const tlk_QuantizedProduct *p, int64_t image, int64_t first, int n,
                            int64_t channel, int cols, int panels, Sums sums) {
  switch (panels) {
  case 1: write_some(p, image, first, n, channel, cols, 1, sums); break;
  case 2: write_some(p, image, first, n, channel, cols, 2, sums); break;
  case 3: write_some(p, image, first, n, channel, cols, 3, sums); break;
  default: write_some(p, image, first, n, channel, cols, PANELS, sums);
  }
}
#endif

static void run_tile(const tlk_QuantizedProduct *p, Tile *t, int64_t image, int64_t first,
                     int64_t panel) {
  Sums sums;
  const uint8_t *bytes = p->bytes + image * p->height * p->width * p->channels;
  for (int r = 0; r < POSITIONS; r++)
    t->rows[r] = bytes + position_at(p, first + tlk_min(r, t->n - 1));
  t->weight = p->call->weight + panel * t->runs * t->run * LANES;
  int64_t channel = panel * LANES;
  int cols = (int)tlk_min(t->panels * LANES, p->call->n - channel);
#if HAS_VNNI
  if (p->vnni) {
    sum_vnni(t, p->pixels == 1, sums);
    write_vnni(p, image, first, t->n, channel, cols, t->panels, sums);
    return;
  }
#endif
  sum_plain(t, sums);
  for (int r = 0; r < t->n; r++)
    tlk_quantized_write(p, p->call->rows ? first + r : image, image * p->pixels + first + r,
                        channel, cols, sums[r]);
}

static void run_tasks(void *context, int64_t begin, int64_t end) {
  const tlk_QuantizedProduct *p = context;
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
    for (int64_t panel = from, panels; panel < to; panel += panels) {
      /* divides the panels evenly among tiles */
      panels = tlk_ceil_div(to - panel, tlk_ceil_div(to - panel, PANELS));
      for (int64_t i = group * GROUP; i < last; i += POSITIONS) {
        Tile t = {.offsets = offsets, .runs = p->runs, .run = p->run, .panels = (int)panels};
        t.n = (int)tlk_min(POSITIONS, last - i);
        run_tile(p, &t, image, i, panel);
      }
    }
  }
}

/* ---- calls ---- */

static void describe(tlk_QuantizedProduct *p) {
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
  p->flat = call->rows || (w->out[2] == p->width && w->stride[1] == 1 && w->stride[2] == 1);
  p->groups = tlk_ceil_div(p->pixels, GROUP);
  p->parts = p->groups * p->images < 8 ? tlk_min(tlk_ceil_div(p->panels, PANELS), 8) : 1;
#if HAS_VNNI
  p->vnni = strstr(tlk_isa()->name, "v4") && __builtin_cpu_supports("avx512vnni");
#endif
}

bool tlk_quantized(const struct tlk_quantized *call) {
  tlk_QuantizedProduct p = {.call = call};
  describe(&p);
  if (p.runs > MOST_RUNS)
    return tli_fail(TL_ESHAPE, "quantized convolution: expected a kernel of at most 256 rows");
  int64_t scaled = call->rows ? call->batch : p.images;
  const tlk_Windows *w = &call->windows;
  bool in_place = call->dtype == TL_U8 && p.channels == call->channels &&
                  (call->rows || w->padding[1] + w->padding[2] == 0);
  size_t size = in_place ? 0 : (size_t)(p.images * p.height * p.width * p.channels);
  size_t extra = (size_t)scaled * (sizeof *p.scales + sizeof *p.zeros + sizeof *p.bad);
  char *memory = tli_alloc(size + extra);
  if (memory == NULL) return false;
  p.scales = (float *)(void *)memory;
  p.zeros = (int32_t *)(void *)(p.scales + scaled);
  p.bad = (atomic_bool *)(p.zeros + scaled);
  p.copy = (uint8_t *)(p.bad + scaled);
  p.bytes = in_place ? call->in : p.copy;
  for (int64_t i = 0; i < scaled; i++) {
    p.scales[i] = call->scale, p.zeros[i] = call->zero;
    atomic_init(&p.bad[i], false);
  }
  if (call->scale == 0) tli_parallel_for(scaled, 1 + 16384 / p.channels, scale_all, &p);
  if (call->rows && !in_place)
    tli_parallel_for(call->batch, 1 + 16384 / p.channels, round_rows, &p);
  else if (!in_place)
    tli_parallel_for(p.images * p.height, 1 + 16384 / (p.width * p.channels), round_images, &p);
  for (int64_t i = 0; i < scaled; i++)
    if (p.bad[i]) p.scales[i] = NAN;
  if (call->depthwise) {
    tlk_quantized_channels(&p);
    tli_free(memory, size + extra);
    return true;
  }
  int64_t tasks = p.images * p.groups * p.parts;
  int64_t work = tlk_min(GROUP, p.pixels) * p.runs * p.run * call->n / p.parts;
  tli_parallel_for(tasks, 1 + 65536 / tlk_max(work / 16, 1), run_tasks, &p);
  tli_free(memory, size + extra);
  return true;
}
