/*
** pointwise_loops.h - the loops around one scalar function of math.h. loops.h explains how this
** file is included. NAME, INPUTS and RESULT are the kernel's entries in the generated list.
**
** A kernel of several inputs has two loops. `loop` is for arrays, and `fixed` is for calls whose
** inputs, except the first, are single elements. `fixed` reads each single element from an array of
** TLK_LANES copies (unless the kernel has a fast path), because compilers would otherwise move
** parts of the function out of the loop and then fail to vectorise the rest.
*/
#define RESULT_TYPE TLK_PASTE_(TLK_RESULT, RESULT)(real)
#define OF TLK_OWN(tlm)
#define LOOP(kind) static bool TLK_OWN(kind)(int64_t n, void *const *args, const tl_Scalar *params)
#define FAST_OF TLK_PASTE_(tlk_fast, NAME)
#define FAST_RANGE TLK_PASTE_(tlk_fast_range, NAME)
#define FAST_LIMIT TLK_PASTE_(TLK_FAST_LIMIT, NAME)

#if TLK_OWN(TLK_FAST) && INPUTS == 1
LOOP(loop) {
  TLK_READ_PARAMS
  n -= n % TLK_LANES;
  for (int64_t at = 0; at < n; at += TLK_FAST_BLOCK) {
    int64_t m = n - at < TLK_FAST_BLOCK ? n - at : TLK_FAST_BLOCK;
    real *out = (real *)args[0] + at;
    const real *x = (const real *)args[1] + at;
    uint32_t most = 0;
    m -= m % TLK_LANES;
    for (int64_t i = 0; i < m; i++) {
      uint32_t reach = FAST_RANGE(x[i]);
      most = reach > most ? reach : most;
    }
    if (most >= FAST_LIMIT) {
      TLK_IVDEP
      for (int64_t i = 0; i < m; i++) out[i] = OF(x[i], p);
    } else {
      TLK_IVDEP
      for (int64_t i = 0; i < m; i++) out[i] = FAST_OF(x[i]);
    }
  }
  return true;
}

#elif TLK_OWN(TLK_FAST)
/* `single` tells that the second input is a single element. Callers pass a constant for it, for
** which the inlined function is optimised. */
static inline __attribute__((always_inline)) bool
TLK_OWN(blocks)(int64_t n, void *const *args, const tl_Scalar *params, bool single) {
  TLK_READ_PARAMS
  n -= n % TLK_LANES;
  for (int64_t at = 0; at < n; at += TLK_FAST_BLOCK) {
    int64_t m = n - at < TLK_FAST_BLOCK ? n - at : TLK_FAST_BLOCK;
    real *out = (real *)args[0] + at;
    const real *a = (const real *)args[1] + at;
    const real *b = (const real *)args[2] + at;
    const real second = *(const real *)args[2];
    uint32_t most = 0;
    m -= m % TLK_LANES;
    for (int64_t i = 0; i < m; i++) {
      uint32_t reach = FAST_RANGE(a[i], single ? second : b[i]);
      most = reach > most ? reach : most;
    }
    if (most >= FAST_LIMIT) {
      TLK_IVDEP
      for (int64_t i = 0; i < m; i++) out[i] = OF(a[i], single ? second : b[i], p);
    } else {
      TLK_IVDEP
      for (int64_t i = 0; i < m; i++) out[i] = FAST_OF(a[i], single ? second : b[i]);
    }
  }
  return true;
}
LOOP(loop) { return TLK_OWN(blocks)(n, args, params, false); }
LOOP(fixed) { return TLK_OWN(blocks)(n, args, params, true); }

#else
#if INPUTS == 1
#define OPERANDS(i, k) a[i]
#elif INPUTS == 2
#define OPERANDS(i, k) a[i], b[k]
#else
#define OPERANDS(i, k) a[i], b[k], c[k]
#endif

LOOP(loop) {
  TLK_READ_PARAMS
  n -= n % TLK_LANES;
  RESULT_TYPE *out = args[0];
  const real *a = args[1];
#if INPUTS > 1
  const real *b = args[2];
  if (TLM_OWN(divides)) {
    int zeros = 0;
    for (int64_t i = 0; i < n; i++) zeros |= b[i] == 0;
    if (zeros) return false;
  }
#endif
#if INPUTS > 2
  const real *c = args[3];
#endif
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) out[i] = (RESULT_TYPE)OF(OPERANDS(i, i), p);
  return true;
}

#if INPUTS > 1
LOOP(fixed) {
  TLK_READ_PARAMS
  n -= n % TLK_LANES;
  RESULT_TYPE *out = args[0];
  const real *a = args[1];
  real b[TLK_LANES];
  for (int k = 0; k < TLK_LANES; k++) b[k] = *(const real *)args[2];
  if (TLM_OWN(divides) && b[0] == 0) return false;
#if INPUTS > 2
  real c[TLK_LANES];
  for (int k = 0; k < TLK_LANES; k++) c[k] = *(const real *)args[3];
#endif
  for (int64_t i = 0; i < n; i += TLK_LANES) {
    TLK_VECTOR
    for (int k = 0; k < TLK_LANES; k++) out[i + k] = (RESULT_TYPE)OF(OPERANDS(i + k, k), p);
  }
  return true;
}
#endif
#undef OPERANDS
#endif

#undef RESULT_TYPE
#undef OF
#undef LOOP
#undef FAST_OF
#undef FAST_RANGE
#undef FAST_LIMIT
