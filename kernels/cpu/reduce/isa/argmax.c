/*
** argmax.c - the largest or smallest element and its position. NaN wins over every number;
** among equal elements the first wins.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

#define BLOCK 1024 /* elements that are searched again when one of them is a new best */
#define STRIP 64   /* columns that are processed together */

/* `x yields held` is true if x does not replace held; it is false if either is NaN. `member` is
** the union's member, `pos` an integer of the type's size. */
#define BEST(name, type, pos, member, yields)                                                      \
  static inline type better_##name(type held, type x) {                                            \
    type m = x yields held ? held : x;                                                             \
    return held == held ? m : held;                                                                \
  }                                                                                                \
  /* Returns the best of n contiguous elements, n > 0. */                                          \
  static type extreme_##name(int64_t n, const type *x) {                                           \
    enum { LANES = 32 };                                                                           \
    type best = x[0];                                                                              \
    int64_t i = 0;                                                                                 \
    if (n >= LANES) {                                                                              \
      type lane[LANES];                                                                            \
      for (int k = 0; k < LANES; k++) lane[k] = x[k];                                              \
      for (i = LANES; i + LANES <= n; i += LANES)                                                  \
        for (int k = 0; k < LANES; k++) lane[k] = better_##name(lane[k], x[i + k]);                \
      for (int half = LANES / 2; half > 0; half /= 2)                                              \
        for (int k = 0; k < half; k++) lane[k] = better_##name(lane[k], lane[k + half]);           \
      best = lane[0];                                                                              \
    }                                                                                              \
    for (; i < n; i++) best = better_##name(best, x[i]);                                           \
    return best;                                                                                   \
  }                                                                                                \
  /* Returns the first position of `best`, which occurs: finds the lanes, then the element. */     \
  static int64_t find_##name(int64_t n, const type *x, type best) {                                \
    enum { LANES = 32 };                                                                           \
    int64_t i = 0;                                                                                 \
    if (best != best) {                                                                            \
      while (x[i] == x[i]) i++;                                                                    \
      return i;                                                                                    \
    }                                                                                              \
    for (; i + LANES <= n; i += LANES) {                                                           \
      pos found = 0;                                                                               \
      for (int k = 0; k < LANES; k++) found |= x[i + k] == best;                                   \
      if (found) break;                                                                            \
    }                                                                                              \
    while (x[i] != best) i++;                                                                      \
    return i;                                                                                      \
  }                                                                                                \
  /* Whether x replaces the element in acc. */                                                     \
  static inline bool replaces_##name(const tlk_Best *acc, type x) {                                \
    type held = (type)acc->value.member;                                                           \
    return acc->index < 0 || (held == held && !(x yields held));                                   \
  }                                                                                                \
  static void row_##name(int64_t n, const void *x_, void *acc_, const tl_Scalar *params) {         \
    (void)params;                                                                                  \
    tlk_Best *acc = acc_;                                                                          \
    const type *x = x_;                                                                            \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                    \
      int64_t piece = n - at < BLOCK ? n - at : BLOCK;                                             \
      type best = extreme_##name(piece, x + at);                                                   \
      if (!replaces_##name(acc, best)) continue;                                                   \
      acc->value.member = best;                                                                    \
      acc->index = acc->seen + at + find_##name(piece, x + at, best);                              \
    }                                                                                              \
    acc->seen += n;                                                                                \
  }                                                                                                \
  static void strip_##name(int64_t rows, int64_t cols, int64_t stride, const type *x,              \
                           tlk_Best *acc) {                                                        \
    type held[STRIP];                                                                              \
    pos where[STRIP];                                                                              \
    for (int64_t c = 0; c < cols; c++) {                                                           \
      held[c] = x[c];                                                                              \
      where[c] = 0;                                                                                \
    }                                                                                              \
    for (int64_t r = 1; r < rows; r++) {                                                           \
      const type *row = x + r * stride;                                                            \
      TLK_IVDEP                                                                                    \
      for (int64_t c = 0; c < cols; c++) {                                                         \
        pos p = row[c] yields held[c] ? where[c] : (pos)r;                                         \
        where[c] = held[c] == held[c] ? p : where[c];                                              \
        held[c] = better_##name(held[c], row[c]);                                                  \
      }                                                                                            \
    }                                                                                              \
    for (int64_t c = 0; c < cols; c++) {                                                           \
      if (replaces_##name(&acc[c], held[c])) {                                                     \
        acc[c].value.member = held[c];                                                             \
        acc[c].index = acc[c].seen + where[c];                                                     \
      }                                                                                            \
      acc[c].seen += rows;                                                                         \
    }                                                                                              \
  }                                                                                                \
  static void columns_##name(int64_t rows, int64_t cols, int64_t stride, const void *x, void *acc, \
                             const tl_Scalar *params) {                                            \
    (void)params;                                                                                  \
    if (rows == 0) return;                                                                         \
    for (int64_t c = 0; c < cols; c += STRIP)                                                      \
      strip_##name(rows, cols - c < STRIP ? cols - c : STRIP, stride, (const type *)x + c,         \
                   (tlk_Best *)acc + c);                                                           \
  }                                                                                                \
  static void join_##name(int64_t n, void *acc_, const void *other_) {                             \
    tlk_Best *acc = acc_;                                                                          \
    const tlk_Best *other = other_;                                                                \
    for (int64_t i = 0; i < n; i++) {                                                              \
      if (other[i].index >= 0 && replaces_##name(&acc[i], (type)other[i].value.member)) {          \
        acc[i].value = other[i].value;                                                             \
        acc[i].index = acc[i].seen + other[i].index;                                               \
      }                                                                                            \
      acc[i].seen += other[i].seen;                                                                \
    }                                                                                              \
  }

static void start(int64_t n, void *acc, const tl_Scalar *params) {
  (void)params;
  tlk_Best *best = acc;
  for (int64_t i = 0; i < n; i++) best[i] = (tlk_Best){.seen = 0, .index = -1};
}

BEST(max_i32, int32_t, int32_t, i, <=)
BEST(max_i64, int64_t, int64_t, i, <=)
BEST(max_f32, float, int32_t, f, <=)
BEST(max_f64, double, int64_t, f, <=)
BEST(min_i32, int32_t, int32_t, i, >=)
BEST(min_i64, int64_t, int64_t, i, >=)
BEST(min_f32, float, int32_t, f, >=)
BEST(min_f64, double, int64_t, f, >=)

#define ENTRY(name) \
  { sizeof(tlk_Best), true, start, row_##name, columns_##name, join_##name, NULL }

extern const tlk_Reducer TLK_ISA_NAME(tlk_best)[2][TLK_NCOMPUTE];
const tlk_Reducer TLK_ISA_NAME(tlk_best)[2][TLK_NCOMPUTE] = {
    {ENTRY(min_i32), ENTRY(min_i64), ENTRY(min_f32), ENTRY(min_f64)}, /* ORDER COMPUTE */
    {ENTRY(max_i32), ENTRY(max_i64), ENTRY(max_f32), ENTRY(max_f64)},
};
