/*
** packed_linear.c - products with weights in quantized blocks of GGUF files. Input rows are rounded
** to 8 bits as in llama.cpp. Weight rows are unpacked to integers one chunk at a time, so that a
** chunk stays in the cache. Each element of the result is computed by one thread, so results do not
** depend on the number of threads.
*/
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/packed/dot.h"

/* The largest number of input rows that are rounded at a time, a multiple of TLK_TOKENS. */
enum { MOST_TOKENS = 504 };

typedef struct Call {
  const struct tlk_packed_linear *call;
  tlk_PackedRows rows;
  tlk_PackedLoops *loops;
  tlk_RoundChunk *round;
  tlk_Rounded *rounded;
  int64_t first, count; /* the first input row and the number of rows */
  int64_t chunks;
  atomic_bool exhausted;
} Call;

static int64_t row_bytes(const struct tlk_packed_linear *l) {
  if (l->kind < TLI_BLOCK_COUNT) {
    const tli_BlockLayout *layout = &tli_block_layouts[l->kind];
    return l->features / layout->elements * layout->bytes;
  }
  return 2 * l->features;
}

/* ---- rounding the input ---------------------------------------------------------- */

/* Rounds n elements to 8 bits and returns their common scale, which is NaN if an element is not
** finite. The rules are those of llama.cpp: if n is 256, the element with the largest absolute
** value becomes -127; for smaller n, the scale is rounded to float16 if float16 can represent it.
** The array q must contain zeros. */
static float round_group(const float *x, int n, int8_t *q) {
  uint32_t most = 0, sign = 0;
  for (int i = 0; i < n; i++) {
    uint32_t bits = tli_float_bits(x[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  if (most == 0) return 0;
  if (most >= 0x7f800000u) return NAN;
  if (n == TLI_CHUNK)
    for (int i = n; i-- > 0;)
      if ((tli_float_bits(x[i]) & 0x7fffffffu) == most) sign = tli_float_bits(x[i]) ^ 0x80000000u;
  float by = 127.0f / tli_bits_float(most);
  if (isinf(by)) return 0; /* the elements are too small to have a scale, so they stay zero */
  if (sign >> 31) by = -by;
  for (int i = 0; i < n; i++) q[i] = (int8_t)nearbyintf(x[i] * by);
  if (n == TLI_CHUNK) return 1.0f / by;
  float scale = tli_bits_float(most) / 127.0f;
  bool fits = scale > 6.2e-5f && scale < 65000.0f;
  return fits ? tli_f16_to_f32(tli_f32_to_f16(scale)) : scale;
}

static void round_chunk(const tli_BlockLayout *layout, const float *x, int n, tlk_Rounded *out) {
  memset(out, 0, sizeof *out);
  int group = layout->group, together = layout->elements;
  for (int i = 0; i < n; i += together) {
    float scale = round_group(x + i, together, out->q + i);
    for (int g = i / group; g < (i + together) / group; g++) {
      int sum = 0;
      for (int k = 0; k < group; k++) sum += out->q[g * group + k];
      out->scale[g] = scale;
      out->sum[g] = scale * (float)sum;
      out->offset[g] = -layout->zero * sum;
    }
  }
}

static void round_rows(void *context, int64_t begin, int64_t end) {
  const Call *c = context;
  const struct tlk_packed_linear *l = c->call;
  for (int64_t t = begin; t < end; t++) {
    const float *x = (const float *)l->in + (c->first + t) * l->features;
    for (int64_t k = 0; k < c->chunks; k++)
      c->round(&tli_block_layouts[l->kind], x + k * TLI_CHUNK,
               (int)tlk_min(TLI_CHUNK, l->features - k * TLI_CHUNK),
               &c->rounded[(t / TLK_TOKENS * c->chunks + k) * TLK_TOKENS + t % TLK_TOKENS]);
  }
}

/* ---- products -------------------------------------------------------------------- */

static void multiply_rows(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  const struct tlk_packed_linear *l = c->call;
  int64_t first = begin * TLK_PANEL_ROWS, stop = tlk_min(end * TLK_PANEL_ROWS, l->outputs);
  int64_t tokens = tlk_ceil_div(c->count, TLK_TOKENS) * TLK_TOKENS;
  size_t bytes = (size_t)(tokens * TLK_PANEL_ROWS) * sizeof(float);
  tlk_PackedRows p = c->rows;
  p.weight += first * p.bytes;
  p.out += c->first * l->outputs + first;
  p.sums = tli_alloc(bytes);
  if (p.sums)
    c->loops(&p, stop - first);
  else
    atomic_store_explicit(&c->exhausted, true, memory_order_relaxed);
  tli_free(p.sums, bytes);
}

static bool multiply_packed(const struct tlk_packed_linear *l) {
  Call c = {.call = l, .loops = tlk_packed_loops(), .round = tlk_round_chunk(round_chunk)};
  int64_t most = tlk_min(tlk_ceil_div(l->rows, TLK_TOKENS) * TLK_TOKENS, MOST_TOKENS);
  c.chunks = tlk_ceil_div(l->features, TLI_CHUNK);
  size_t bytes = (size_t)(most * c.chunks) * sizeof(tlk_Rounded);
  c.rounded = tli_alloc(bytes);
  if (c.rounded == NULL) return false;
  if (most > l->rows) memset(c.rounded, 0, bytes);
  c.rows = (tlk_PackedRows){.kind = (tli_BlockKind)l->kind,
                            .weight = l->weight,
                            .bytes = row_bytes(l),
                            .features = l->features,
                            .chunks = c.chunks,
                            .step = l->outputs,
                            .x = c.rounded,
                            .out = l->out.data};
  bool ok = true;
  for (c.first = 0; ok && c.first < l->rows; c.first += MOST_TOKENS) {
    c.rows.count = c.count = tlk_min(MOST_TOKENS, l->rows - c.first);
    int64_t work = c.count * l->features * TLK_PANEL_ROWS;
    tli_parallel_for(c.count, tlk_max(1, TLK_GRAIN / l->features), round_rows, &c);
    ok = tli_parallel_try(tlk_ceil_div(l->outputs, TLK_PANEL_ROWS),
                          tlk_max(1, 4 * TLK_GRAIN / work), multiply_rows, &c);
  }
  if (ok && atomic_load(&c.exhausted)) ok = tli_fail(TL_EMEM, "packed_linear: out of memory");
  tli_free(c.rounded, bytes);
  return ok;
}

/* ---- half types ------------------------------------------------------------------ */

static inline void unpack_half(int kind, const uint16_t *from, int64_t n, float *to) {
  if (kind == TLK_PACKED_F16)
    for (int64_t i = 0; i < n; i++) to[i] = tli_f16_to_f32(tli_file_u16(from + i));
  else
    for (int64_t i = 0; i < n; i++) to[i] = tli_bf16_to_f32(tli_file_u16(from + i));
}

/* Returns a dot product. 16 partial sums allow the compiler to vectorize the loop. */
static float dot_floats(const float *a, const float *b, int n) {
  float sums[16] = {0}, sum = 0;
  int i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) sums[k] += a[i + k] * b[i + k];
  for (int k = 0; k < 16; k++) sum += sums[k];
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void multiply_halves(void *context, int64_t begin, int64_t end) {
  const struct tlk_packed_linear *l = context;
  float w[TLI_CHUNK], *out = l->out.data;
  for (int64_t r = begin; r < end; r++) {
    const uint16_t *row = (const uint16_t *)l->weight + r * l->features;
    for (int64_t k = 0; k < l->features; k += TLI_CHUNK) {
      int n = (int)tlk_min(TLI_CHUNK, l->features - k);
      unpack_half(l->kind, row + k, n, w);
      for (int64_t t = 0; t < l->rows; t++) {
        float sum = dot_floats(w, (const float *)l->in + t * l->features + k, n);
        out[t * l->outputs + r] = k == 0 ? sum : out[t * l->outputs + r] + sum;
      }
    }
  }
}

/* ---- unpacking ------------------------------------------------------------------- */

static void unpack_rows(void *context, int64_t begin, int64_t end) {
  const struct tlk_packed_linear *l = context;
  int64_t bytes = row_bytes(l);
  for (int64_t r = begin; r < end; r++) {
    const uint8_t *row = (const uint8_t *)l->weight + r * bytes;
    float *out = (float *)l->out.data + r * l->features;
    if (l->kind >= TLK_PACKED_F16)
      unpack_half(l->kind, (const uint16_t *)(const void *)row, l->features, out);
    else
      tli_dequantize((tli_BlockKind)l->kind, row, l->features, out);
  }
}

bool tlk_packed_linear(const struct tlk_packed_linear *call) {
  int64_t grain = tlk_max(1, TLK_GRAIN / tlk_max(1, call->features * tlk_max(1, call->rows)));
  if (call->in == NULL)
    return tli_parallel_try(call->outputs, grain, unpack_rows, (void *)(uintptr_t)call);
  if (call->kind >= TLK_PACKED_F16)
    return tli_parallel_try(call->outputs, grain, multiply_halves, (void *)(uintptr_t)call);
  return multiply_packed(call);
}
