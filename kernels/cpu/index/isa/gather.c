/*
** gather.c - inner loops of gather and scatter. If neighbouring lines share the index and are
** adjacent, whole rows are copied; otherwise single elements, along the lines or across them,
** whichever is contiguous.
*/
#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/kernel/element.h"
#include "kernels/cpu/index/gather.h"

static void range(int64_t n, const int64_t *x, int64_t *least, int64_t *most) {
  int64_t low = x[0], high = x[0];
  for (int64_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  *least = low;
  *most = high;
}

static inline int64_t load_position(const char *p) {
  int64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* Returns whether lines are adjacent in out and in and share the index. */
static inline bool shared_index(const tlk_Tile *t, int64_t size) {
  return t->lines > 1 && t->line_strides[1] == 0 && t->line_strides[0] == size &&
         (t->line_strides[2] == size || t->line_strides[2] == 0);
}

/* Returns whether the inner loop runs along the lines. */
static inline bool along_first(const tlk_Tile *t) {
  return t->lines == 1 ||
         (t->count > 1 && t->strides[1] != 0 &&
          t->strides[1] <= (t->line_strides[1] ? t->line_strides[1] : t->line_strides[0]));
}

/* Returns whether n positions are in [low, high]; low is at least 1. */
static inline bool all_within(int64_t n, const int64_t *at, int64_t low, int64_t high) {
  uint64_t most = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t from = (uint64_t)at[i] - (uint64_t)low;
    most = from > most ? from : most;
  }
  return most <= (uint64_t)(high - low);
}

/* Returns whether elements of a line are contiguous in all operands. */
static inline bool dense(const tlk_Tile *t, int64_t size) {
  return t->strides[0] == size && t->strides[1] == (int64_t)sizeof(int64_t) &&
         t->strides[2] == size && t->high >= t->low;
}

#define PIECE 512 /* positions that are checked together */
#define AHEAD 4   /* rows whose beginning is prefetched */

static inline void fetch_row(const tlk_Tile *t, int operand, int64_t k) {
  if (k >= t->count) return;
  int64_t at = load_position(t->ptrs[1] + k * t->strides[1]);
  if (at < 1 || at > t->high) return;
  const char *row = t->ptrs[operand] + (at - 1) * t->strides[operand];
  for (int line = 0; line < 4; line++) __builtin_prefetch(row + line * 64);
}

#define GATHER(bits)                                                                             \
  static bool gather_rows_##bits(const tlk_Tile *t, int64_t *bad) {                              \
    size_t bytes = (size_t)t->lines * (bits / 8);                                                \
    for (int64_t k = 0; k < t->count; k++) {                                                     \
      int64_t at = load_position(t->ptrs[1] + k * t->strides[1]);                                \
      if (at < 1 || at > t->high) return *bad = at, false;                                       \
      if (bytes >= 256) fetch_row(t, 2, k + AHEAD);                                              \
      memcpy(t->ptrs[0] + k * t->strides[0], t->ptrs[2] + (at - 1) * t->strides[2], bytes);      \
    }                                                                                            \
    return true;                                                                                 \
  }                                                                                              \
  static bool gather_dense_##bits(const tlk_Tile *t, int64_t line) {                             \
    uint##bits##_t *out = (void *)(t->ptrs[0] + line * t->line_strides[0]);                      \
    const int64_t *index = (const void *)(t->ptrs[1] + line * t->line_strides[1]);               \
    const uint##bits##_t *in = (const void *)(t->ptrs[2] + line * t->line_strides[2]);           \
    for (int64_t k = 0; k < t->count; k += PIECE) {                                              \
      int64_t n = t->count - k < PIECE ? t->count - k : PIECE;                                   \
      if (!all_within(n, index + k, 1, t->high)) return false;                                   \
      TLK_IVDEP                                                                                  \
      for (int64_t i = k; i < k + n; i++) out[i] = in[index[i] - 1];                             \
    }                                                                                            \
    return true;                                                                                 \
  }                                                                                              \
  static bool gather_##bits(const tlk_Tile *t, int64_t *bad) {                                   \
    if (shared_index(t, bits / 8) && t->line_strides[2] != 0) return gather_rows_##bits(t, bad); \
    bool along = along_first(t);                                                                 \
    int64_t outer = along ? t->lines : t->count, inner = along ? t->count : t->lines;            \
    const int64_t *so = along ? t->line_strides : t->strides;                                    \
    const int64_t *si = along ? t->strides : t->line_strides;                                    \
    int64_t step = t->strides[2], in_outer = along ? t->line_strides[2] : 0;                     \
    int64_t in_inner = along ? 0 : t->line_strides[2];                                           \
    bool tight = along && dense(t, bits / 8);                                                    \
    for (int64_t i = 0; i < outer; i++) {                                                        \
      if (tight && gather_dense_##bits(t, i))                                                    \
        continue; /* otherwise the loop below finds the bad position */                          \
      char *out = t->ptrs[0] + i * so[0];                                                        \
      const char *index = t->ptrs[1] + i * so[1], *in = t->ptrs[2] + i * in_outer;               \
      for (int64_t k = 0; k < inner; k++) {                                                      \
        int64_t at = load_position(index + k * si[1]);                                           \
        if (at < 1 || at > t->high) return *bad = at, false;                                     \
        memcpy(out + k * si[0], in + k * in_inner + (at - 1) * step, bits / 8);                  \
      }                                                                                          \
    }                                                                                            \
    return true;                                                                                 \
  }

GATHER(8)
GATHER(16)
GATHER(32)
GATHER(64)
GATHER(128)

/* a is the present value, b the new one. */
#define SCATTER(name, type, expression)                                               \
  static void name##_dense(const tlk_Tile *t, int64_t line) {                         \
    type *out = (void *)(t->ptrs[0] + line * t->line_strides[0]);                     \
    const int64_t *index = (const void *)(t->ptrs[1] + line * t->line_strides[1]);    \
    const type *in = (const void *)(t->ptrs[2] + line * t->line_strides[2]);          \
    uint64_t most = (uint64_t)(t->high - t->low);                                     \
    for (int64_t k = 0; k < t->count; k++) {                                          \
      int64_t at = index[k];                                                          \
      if ((uint64_t)at - (uint64_t)t->low > most) continue;                           \
      type a = out[at - 1], b = in[k];                                                \
      (void)a;                                                                        \
      out[at - 1] = expression;                                                       \
    }                                                                                 \
  }                                                                                   \
  static void name##_rows(const tlk_Tile *t) {                                        \
    for (int64_t k = 0; k < t->count; k++) {                                          \
      int64_t at = load_position(t->ptrs[1] + k * t->strides[1]);                     \
      if (at < t->low || at > t->high) continue;                                      \
      type *out = (type *)(void *)(t->ptrs[0] + (at - 1) * t->strides[0]);            \
      const type *in = (const type *)(const void *)(t->ptrs[2] + k * t->strides[2]);  \
      if (t->line_strides[2] == 0) {                                                  \
        type b = in[0];                                                               \
        for (int64_t i = 0; i < t->lines; i++) {                                      \
          type a = out[i];                                                            \
          (void)a;                                                                    \
          out[i] = expression;                                                        \
        }                                                                             \
        continue;                                                                     \
      }                                                                               \
      TLK_IVDEP                                                                       \
      for (int64_t i = 0; i < t->lines; i++) {                                        \
        type a = out[i], b = in[i];                                                   \
        (void)a;                                                                      \
        out[i] = expression;                                                          \
      }                                                                               \
    }                                                                                 \
  }                                                                                   \
  static void name(const tlk_Tile *t) {                                               \
    if (shared_index(t, sizeof(type))) {                                              \
      name##_rows(t);                                                                 \
      return;                                                                         \
    }                                                                                 \
    bool along = along_first(t);                                                      \
    int64_t outer = along ? t->lines : t->count, inner = along ? t->count : t->lines; \
    const int64_t *so = along ? t->line_strides : t->strides;                         \
    const int64_t *si = along ? t->strides : t->line_strides;                         \
    int64_t step = t->strides[0], out_outer = along ? t->line_strides[0] : 0;         \
    int64_t out_inner = along ? 0 : t->line_strides[0];                               \
    bool tight = along && dense(t, sizeof(type));                                     \
    for (int64_t i = 0; i < outer; i++) {                                             \
      if (tight) {                                                                    \
        name##_dense(t, i);                                                           \
        continue;                                                                     \
      }                                                                               \
      char *line = t->ptrs[0] + i * out_outer;                                        \
      const char *index = t->ptrs[1] + i * so[1], *in = t->ptrs[2] + i * so[2];       \
      for (int64_t k = 0; k < inner; k++) {                                           \
        int64_t at = load_position(index + k * si[1]);                                \
        if (at < t->low || at > t->high) continue;                                    \
        char *place = line + k * out_inner + (at - 1) * step;                         \
        type a, b, result;                                                            \
        memcpy(&a, place, sizeof a);                                                  \
        memcpy(&b, in + k * si[2], sizeof b);                                         \
        (void)a;                                                                      \
        result = expression;                                                          \
        memcpy(place, &result, sizeof result);                                        \
      }                                                                               \
    }                                                                                 \
  }

SCATTER(set_8, uint8_t, b)
SCATTER(set_16, uint16_t, b)
SCATTER(set_32, uint32_t, b)
SCATTER(set_64, uint64_t, b)
SCATTER(set_128, uint128_t, b)

#define FLOATING(s, type)                           \
  SCATTER(add_##s, type, a + b)                     \
  SCATTER(mul_##s, type, a *b)                      \
  SCATTER(max_##s, type, a > b || isnan(a) ? a : b) \
  SCATTER(min_##s, type, a < b || isnan(a) ? a : b)
#define INTEGER(s, type, wide)                      \
  SCATTER(add_##s, type, (type)((wide)a + (wide)b)) \
  SCATTER(mul_##s, type, (type)((wide)a * (wide)b)) \
  SCATTER(max_##s, type, a > b ? a : b)             \
  SCATTER(min_##s, type, a < b ? a : b)

FLOATING(f32, float)
FLOATING(f64, double)
INTEGER(i32, int32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)

#define JOINS(name, ...)                                                          \
  {                                                                               \
    [TLK_C_I32] = name##_i32, [TLK_C_I64] = name##_i64, [TLK_C_F32] = name##_f32, \
    [TLK_C_F64] = name##_f64, __VA_ARGS__                                         \
  }
#ifdef TLI_INFER /* there are no complex tensors */
#define COMPLEX_JOINS(name) JOINS(name, )
#else
SCATTER(add_c64, tli_C64, a + b)
SCATTER(mul_c64, tli_C64, a *b)
SCATTER(add_c128, tli_C128, a + b)
SCATTER(mul_c128, tli_C128, a *b)
#define COMPLEX_JOINS(name) JOINS(name, [TLK_C_C64] = name##_c64, [TLK_C_C128] = name##_c128)
#endif

extern const tlk_IndexLoops TLK_ISA_NAME(tlk_index_loops);
const tlk_IndexLoops TLK_ISA_NAME(tlk_index_loops) = {
    .range = range,
    .gather = {gather_8, gather_16, gather_32, gather_64, gather_128},
    .set = {set_8, set_16, set_32, set_64, set_128},
    .join = {[TLK_JOIN_ADD] = COMPLEX_JOINS(add),
             [TLK_JOIN_MUL] = COMPLEX_JOINS(mul),
             [TLK_JOIN_MAX] = JOINS(max, ),
             [TLK_JOIN_MIN] = JOINS(min, )},
};
