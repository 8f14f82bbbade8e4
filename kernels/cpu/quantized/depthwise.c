/*
** depthwise.c - depthwise convolutions of 8-bit integers, in which each channel of the result
** depends on one channel of the input. The elements of a kernel's column are taken four at a time
** (a quad), so that one instruction multiplies and adds the four bytes of each channel. The last
** quad of a column is padded with zeros.
*/
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/quantized/quantized.h"

#define WIDE 64       /* number of channels that are processed together as a block */
#define MOST_QUADS 16 /* largest number of quads in a kernel for which there is a fast loop */

/* Returns the number of quads in a column of the kernel. */
static int64_t quads_of(const tlk_Windows *w) { return tlk_ceil_div(w->kernel[1], 4); }

/* Returns the first byte of the window at a position of the result. */
static const uint8_t *window_at(const tlk_QuantizedProduct *p, int64_t image, int64_t y,
                                int64_t x) {
  const tlk_Windows *w = &p->call->windows;
  int64_t row = (image * p->height + y * w->stride[1]) * p->width + x * w->stride[2];
  return p->bytes + row * p->channels;
}

/* Returns the offset of a kernel element from the window's first byte. An element that only pads a
** quad gets the offset of the quad's first element, because its byte is multiplied by zero. */
static int64_t offset_of(const tlk_QuantizedProduct *p, int64_t column, int64_t quad, int r) {
  const tlk_Windows *w = &p->call->windows;
  int64_t row = 4 * quad + r < w->kernel[1] ? 4 * quad + r : 4 * quad;
  return (row * w->dilation[1] * p->width + column * w->dilation[2]) * p->channels;
}

/* Computes `cols` channels of a row of results, from channel `col` on. */
static void run_plain(const tlk_QuantizedProduct *p, int64_t image, int64_t y, int64_t col,
                      int cols) {
  const struct tlk_quantized *call = p->call;
  const tlk_Windows *w = &call->windows;
  int64_t quads = quads_of(w);
  for (int64_t x = 0; x < w->out[2]; x++) {
    const uint8_t *in = window_at(p, image, y, x) + col;
    int32_t sums[WIDE] = {0};
    for (int64_t e = 0; e < w->kernel[2] * quads; e++) {
      const int8_t *weight = call->weight + (e * call->n + col) * 4;
      for (int r = 0; r < 4; r++) {
        const uint8_t *bytes = in + offset_of(p, e / quads, e % quads, r);
        for (int c = 0; c < cols; c++) sums[c] += bytes[c] * weight[4 * c + r];
      }
    }
    int64_t at = (image * w->out[1] + y) * w->out[2] + x;
    tlk_quantized_write(p, image, at, col, cols, sums);
  }
}

#if HAS_VNNI
/* The constants of a block of channels. The vectors hold the channels in the order in which
** sum_window computes their sums: vector q has the q-th quarter of each group of 16 channels. The
** sums begin with `start`, the negative products of the weights and the input's zero point. */
typedef struct Block {
  __m512i weights[MOST_QUADS][4], start[4];
  __m512 factors[4], bias[4];
  int64_t offsets[MOST_QUADS][4];
  int n; /* number of quads in the kernel */
  __mmask64 some;
} Block;

/* Transposes the quarters of four vectors: exchanges the i-th quarter of vector k and the k-th
** quarter of vector i. */
static inline __attribute__((always_inline)) VNNI void exchange(__m512i v[4]) {
  __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
  __m512i c = _mm512_shuffle_i32x4(v[0], v[1], 0xEE), d = _mm512_shuffle_i32x4(v[2], v[3], 0xEE);
  v[0] = _mm512_shuffle_i32x4(a, b, 0x88), v[1] = _mm512_shuffle_i32x4(a, b, 0xDD);
  v[2] = _mm512_shuffle_i32x4(c, d, 0x88), v[3] = _mm512_shuffle_i32x4(c, d, 0xDD);
}

/* Loads the first `cols` of 64 numbers of 4 bytes, in the order that Block describes. */
static VNNI void load_block(const void *from, int cols, __m512i to[4]) {
  for (int v = 0; v < 4; v++) {
    __mmask16 some = cols > 16 * v ? tlk_first_of(cols - 16 * v) : 0;
    to[v] = _mm512_maskz_loadu_epi32(some, (const int32_t *)from + 16 * v);
  }
  exchange(to);
}

static VNNI void prepare(const tlk_QuantizedProduct *p, int64_t image, int64_t col, int cols,
                         Block *b) {
  const struct tlk_quantized *call = p->call;
  int64_t quads = quads_of(&call->windows);
  __m512i sums[4], scales[4], bias[4] = {0};
  b->n = (int)(quads * call->windows.kernel[2]);
  b->some = cols < WIDE ? ((__mmask64)1 << cols) - 1 : ~(__mmask64)0;
  for (int e = 0; e < b->n; e++) {
    load_block(call->weight + (e * call->n + col) * 4, cols, b->weights[e]);
    for (int r = 0; r < 4; r++) b->offsets[e][r] = offset_of(p, e / quads, e % quads, r);
  }
  load_block(call->sums + col, cols, sums);
  load_block(call->scales + col, cols, scales);
  if (call->bias) load_block(call->bias + col, cols, bias);
  for (int v = 0; v < 4; v++) {
    b->start[v] = _mm512_mullo_epi32(sums[v], _mm512_set1_epi32(-p->zeros[image]));
    b->factors[v] = _mm512_mul_ps(_mm512_castsi512_ps(scales[v]), _mm512_set1_ps(p->scales[image]));
    b->bias[v] = call->bias ? _mm512_castsi512_ps(bias[v]) : _mm512_setzero_ps();
  }
}

/* Loads the four elements of a quad for each channel, in the order that Block describes. Callers
** pass a constant for `full`, for which the inlined function is optimised. */
static inline __attribute__((always_inline)) VNNI void
load_quad(const Block *b, bool full, const uint8_t *in, const int64_t *offsets, __m512i to[4]) {
  __m512i x[4];
  for (int r = 0; r < 4; r++) {
    const uint8_t *from = in + offsets[r];
    x[r] = full ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(b->some, from);
  }
  __m512i first = _mm512_unpacklo_epi8(x[0], x[1]), second = _mm512_unpacklo_epi8(x[2], x[3]);
  __m512i third = _mm512_unpackhi_epi8(x[0], x[1]), fourth = _mm512_unpackhi_epi8(x[2], x[3]);
  to[0] = _mm512_unpacklo_epi16(first, second), to[1] = _mm512_unpackhi_epi16(first, second);
  to[2] = _mm512_unpacklo_epi16(third, fourth), to[3] = _mm512_unpackhi_epi16(third, fourth);
}

/* Computes the sums of the products of a window. If `stride` is not 0, the kernel has three
** adjacent columns of one quad; `quads` has the first 3 - stride of them, and receives those of the
** next window. Callers pass constants for `full` and `stride`, for which the inlined function is
** optimised. */
static inline __attribute__((always_inline)) VNNI void sum_window(const Block *b, bool full,
                                                                  int stride, const uint8_t *in,
                                                                  __m512i quads[3][4],
                                                                  __m512i sums[4]) {
  for (int v = 0; v < 4; v++) sums[v] = b->start[v];
  if (stride == 0) {
    for (int e = 0; e < b->n; e++) {
      load_quad(b, full, in, b->offsets[e], quads[0]);
      for (int v = 0; v < 4; v++)
        sums[v] = _mm512_dpbusd_epi32(sums[v], quads[0][v], b->weights[e][v]);
    }
    return;
  }
  for (int e = 0; e < 3; e++) {
    if (e >= 3 - stride) load_quad(b, full, in, b->offsets[e], quads[e]);
    for (int v = 0; v < 4; v++)
      sums[v] = _mm512_dpbusd_epi32(sums[v], quads[e][v], b->weights[e][v]);
  }
  for (int e = stride; e < 3; e++)
    for (int v = 0; v < 4; v++) quads[e - stride][v] = quads[e][v];
}

/* Writes the results of one position as floating-point numbers. */
static VNNI void write_numbers(const struct tlk_quantized *call, int64_t at, int cols,
                               const __m512 x[4]) {
  __m512i out[4];
  for (int v = 0; v < 4; v++) out[v] = _mm512_castps_si512(x[v]);
  exchange(out);
  for (int v = 0; 16 * v < cols; v++) {
    __mmask16 some = tlk_first_of(cols - 16 * v);
    __m512 y = _mm512_castsi512_ps(out[v]);
    /* the order of operands matters: the result is NaN if the second operand is NaN */
    y = _mm512_min_ps(_mm512_set1_ps(call->high), _mm512_max_ps(_mm512_set1_ps(call->low), y));
    _mm512_mask_storeu_ps((float *)call->out + at + 16 * v, some, y);
  }
}

static inline __attribute__((always_inline)) VNNI void run_row(const tlk_QuantizedProduct *p,
                                                               const Block *b, bool full,
                                                               int stride, int64_t image, int64_t y,
                                                               int64_t col, int cols) {
  const struct tlk_quantized *call = p->call;
  const tlk_Windows *w = &call->windows;
  const uint8_t *in = window_at(p, image, y, 0) + col;
  int64_t step = w->stride[2] * p->channels;
  int64_t at = (image * w->out[1] + y) * w->out[2] * call->n + col;
  tlk_ByteLimits limits = tlk_byte_limits(call);
  __m512i quads[3][4];
  for (int e = 0; stride > 0 && e < 3 - stride; e++)
    load_quad(b, full, in, b->offsets[e], quads[e]);
  for (int64_t k = 0; k < w->out[2]; k++, in += step, at += call->n) {
    __m512i sums[4];
    __m512 x[4];
    sum_window(b, full, stride, in, quads, sums);
    for (int v = 0; v < 4; v++)
      x[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[v]), b->factors[v], b->bias[v]);
    if (call->out_dtype != TL_U8) {
      write_numbers(call, at, cols, x);
      continue;
    }
    __m512i bytes = tlk_bytes_of(4, x, &limits);
    if (full)
      _mm512_storeu_si512((uint8_t *)call->out + at, bytes);
    else
      _mm512_mask_storeu_epi8((uint8_t *)call->out + at, b->some, bytes);
  }
}

/* Computes rows [begin, end) of an image for the channels of a block. */
static VNNI void run_vnni(const tlk_QuantizedProduct *p, int64_t image, int64_t begin, int64_t end,
                          int64_t col, int cols) {
  Block b;
  prepare(p, image, col, cols, &b);
  const tlk_Windows *w = &p->call->windows;
  bool three = b.n == 3 && w->kernel[2] == 3 && w->dilation[2] == 1;
  int64_t stride = three && w->stride[2] <= 2 ? w->stride[2] : 0;
  for (int64_t y = begin; y < end; y++)
    if (cols < WIDE && stride == 1)
      run_row(p, &b, false, 1, image, y, col, cols);
    else if (cols < WIDE)
      run_row(p, &b, false, 0, image, y, col, cols);
    else if (stride == 1)
      run_row(p, &b, true, 1, image, y, col, cols);
    else if (stride == 2)
      run_row(p, &b, true, 2, image, y, col, cols);
    else
      run_row(p, &b, true, 0, image, y, col, cols);
}
#endif

/* Computes the rows of results from `begin` to `end`. The numbers of rows run through all
** images. */
static void run_rows(void *context, int64_t begin, int64_t end) {
  const tlk_QuantizedProduct *p = context;
  const tlk_Windows *w = &p->call->windows;
  bool fast = p->vnni && w->kernel[2] * quads_of(w) <= MOST_QUADS && p->call->other == NULL;
  for (int64_t row = begin, next; row < end; row = next) {
    int64_t image = row / w->out[1], y = row % w->out[1];
    next = tlk_min(end, (image + 1) * w->out[1]);
    for (int64_t col = 0; col < p->call->n; col += WIDE) {
      int cols = (int)tlk_min(WIDE, p->call->n - col);
#if HAS_VNNI
      if (fast) {
        run_vnni(p, image, y, y + next - row, col, cols);
        continue;
      }
#endif
      for (int64_t i = 0; i < next - row; i++) run_plain(p, image, y + i, col, cols);
    }
  }
  (void)fast;
}

void tlk_quantized_channels(const tlk_QuantizedProduct *p) {
  const tlk_Windows *w = &p->call->windows;
  int64_t work = w->out[2] * w->kernel[1] * w->kernel[2] * p->call->n;
  tli_parallel_for(p->images * w->out[1], 1 + (1 << 18) / tlk_max(work, 1), run_rows,
                   (void *)(uintptr_t)p);
}
