/*
** scatter_loops.h - the loops of scatter for one type. isa/gather.c includes this file for each
** type after it has defined `real` (the type) and TYPE (the suffix of its names). UNSIGNED is the
** unsigned type in which integers are added, so that sums wrap around. ORDERED is defined for types
** that have a maximum, which complex numbers lack.
*/
#define OWN(name) TLK_PASTE_(name, TYPE)
/* The functions are inlined so that the parameter `join` becomes a constant in each. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

#ifdef UNSIGNED
#define IS_NAN(x) false
#else
#define IS_NAN(x) isnan(x)
#endif

/* Returns the value of an element a after b has been scattered to its position. */
ALWAYS_INLINE real OWN(joined)(tlk_Join join, real a, real b) {
  (void)a;
  switch (join) {
#ifdef UNSIGNED
  case TLK_JOIN_ADD: return (real)((UNSIGNED)a + (UNSIGNED)b);
  case TLK_JOIN_MUL: return (real)((UNSIGNED)a * (UNSIGNED)b);
#elif !defined(ONLY_SET)
  case TLK_JOIN_ADD: return a + b;
  case TLK_JOIN_MUL: return a * b;
#endif
#ifdef ORDERED
  case TLK_JOIN_MAX: return a > b || IS_NAN(a) ? a : b;
  case TLK_JOIN_MIN: return a < b || IS_NAN(a) ? a : b;
#endif
  default: return b;
  }
}

ALWAYS_INLINE void OWN(dense)(const tlk_Tile *t, tlk_Join join, int64_t line) {
  real *out = (void *)(t->ptrs[0] + line * t->line_strides[0]);
  const int64_t *index = (const void *)(t->ptrs[1] + line * t->line_strides[1]);
  const real *in = (const void *)(t->ptrs[2] + line * t->line_strides[2]);
  uint64_t most = (uint64_t)(t->high - t->low);
  for (int64_t k = 0; k < t->count; k++) {
    int64_t at = index[k];
    if ((uint64_t)at - (uint64_t)t->low > most) continue;
    real a = out[at - 1], b = in[k];
    out[at - 1] = OWN(joined)(join, a, b);
  }
}

ALWAYS_INLINE void OWN(rows)(const tlk_Tile *t, tlk_Join join) {
  for (int64_t k = 0; k < t->count; k++) {
    int64_t at = load_position(t->ptrs[1] + k * t->strides[1]);
    if (at < t->low || at > t->high) continue;
    real *out = (real *)(void *)(t->ptrs[0] + (at - 1) * t->strides[0]);
    const real *in = (const real *)(const void *)(t->ptrs[2] + k * t->strides[2]);
    if (t->line_strides[2] == 0) {
      real b = in[0];
      for (int64_t i = 0; i < t->lines; i++) {
        real a = out[i];
        out[i] = OWN(joined)(join, a, b);
      }
      continue;
    }
    TLK_IVDEP
    for (int64_t i = 0; i < t->lines; i++) {
      real a = out[i], b = in[i];
      out[i] = OWN(joined)(join, a, b);
    }
  }
}

ALWAYS_INLINE void OWN(scatter)(const tlk_Tile *t, tlk_Join join) {
  if (shared_index(t, sizeof(real))) {
    OWN(rows)(t, join);
    return;
  }
  bool along = along_first(t);
  int64_t outer = along ? t->lines : t->count, inner = along ? t->count : t->lines;
  const int64_t *so = along ? t->line_strides : t->strides;
  const int64_t *si = along ? t->strides : t->line_strides;
  int64_t step = t->strides[0], out_outer = along ? t->line_strides[0] : 0;
  int64_t out_inner = along ? 0 : t->line_strides[0];
  bool tight = along && dense(t, sizeof(real));
  for (int64_t i = 0; i < outer; i++) {
    if (tight) {
      OWN(dense)(t, join, i);
      continue;
    }
    char *line = t->ptrs[0] + i * out_outer;
    const char *index = t->ptrs[1] + i * so[1], *in = t->ptrs[2] + i * so[2];
    for (int64_t k = 0; k < inner; k++) {
      int64_t at = load_position(index + k * si[1]);
      if (at < t->low || at > t->high) continue;
      char *place = line + k * out_inner + (at - 1) * step;
      real a, b, result;
      memcpy(&a, place, sizeof a);
      memcpy(&b, in + k * si[2], sizeof b);
      result = OWN(joined)(join, a, b);
      memcpy(place, &result, sizeof result);
    }
  }
}

#ifdef ONLY_SET
static void OWN(set)(const tlk_Tile *t) { OWN(scatter)(t, TLK_JOIN_SET); }
#else
static void OWN(add)(const tlk_Tile *t) { OWN(scatter)(t, TLK_JOIN_ADD); }
static void OWN(mul)(const tlk_Tile *t) { OWN(scatter)(t, TLK_JOIN_MUL); }
#endif
#ifdef ORDERED
static void OWN(max)(const tlk_Tile *t) { OWN(scatter)(t, TLK_JOIN_MAX); }
static void OWN(min)(const tlk_Tile *t) { OWN(scatter)(t, TLK_JOIN_MIN); }
#endif

#undef OWN
#undef IS_NAN
#undef ALWAYS_INLINE
#undef real
#undef TYPE
#undef UNSIGNED
