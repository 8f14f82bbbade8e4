/*
** reduce.c - implements reduce.h. The arrays are reduced in blocks that fit into the first-level
** cache, in the dtype's wide type. Two arrays, the common case, are added in one pass.
*/
#include "dist/reduce.h"

#include "core/kernel/element.h"
#include "core/error.h"

const char *const tli_reduction_names[] = {
#define X(name, text) text,
    TLI_REDUCTIONS(X)
#undef X
};

bool tli_reduction_fits(const char *op, tli_Reduction r, tl_DType dtype) {
  bool floating = tli_is_inexact(dtype), bitwise = r >= TLI_REDUCE_BAND;
  if (tli_is_stored(dtype))
    return tli_fail(TL_EDTYPE, "%s: not implemented for '%s'", op, tl_dtype_name(dtype));
  if (tli_is_complex(dtype) && (r == TLI_REDUCE_MIN || r == TLI_REDUCE_MAX))
    return tli_fail(TL_EDTYPE, "%s: op: '%s' does not take complex tensors", op,
                    tli_reduction_names[r]);
  if (r == TLI_REDUCE_AVG ? floating : !(bitwise && floating)) return true;
  return tli_fail(TL_EDTYPE, "%s: op: expected %s tensors for '%s', got %s", op,
                  bitwise ? "integer or bool" : "floating-point", tli_reduction_names[r],
                  tl_dtype_name(dtype));
}

enum { BLOCK = 2048 };

/* The arithmetic of floating types; a and b have the wide type. */
#define FLOAT_SUM(W, a, b) ((a) + (b))
#define FLOAT_PRODUCT(W, a, b) ((a) * (b))
#define FLOAT_MIN(W, a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define FLOAT_MAX(W, a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
/* never called, since bitwise reductions of floats are refused earlier */
#define FLOAT_BAND(W, a, b) ((void)(a), (b))
/* never called, since bitwise reductions of floats are refused earlier */
#define FLOAT_BOR(W, a, b) ((void)(a), (b))
/* never called, since bitwise reductions of floats are refused earlier */
#define FLOAT_BXOR(W, a, b) ((void)(a), (b))
#define FLOAT_STORE(name, x) tli_write_##name(x)
#define FLOAT_MEAN(x, k) ((x) / (k))

#define COMPLEX_SUM(W, a, b) FLOAT_SUM(W, a, b)
#define COMPLEX_PRODUCT(W, a, b) FLOAT_PRODUCT(W, a, b)
/* never called, since such reductions of complex numbers are refused earlier */
#define COMPLEX_REFUSED(W, a, b) ((void)(a), (b))
#define COMPLEX_STORE(name, x) (x)
#define COMPLEX_MEAN(x, k) ((x) / (k))

#define INT_SUM(W, a, b) ((W)((uint64_t)(a) + (uint64_t)(b)))
#define INT_PRODUCT(W, a, b) ((W)((uint64_t)(a) * (uint64_t)(b)))
#define INT_MIN_(W, a, b) ((a) < (b) ? (a) : (b))
#define INT_MAX_(W, a, b) ((a) > (b) ? (a) : (b))
#define INT_BAND(W, a, b) ((a) & (b))
#define INT_BOR(W, a, b) ((a) | (b))
#define INT_BXOR(W, a, b) ((a) ^ (b))
#define INT_STORE(name, x) ((tli_##name)(x))
#define INT_MEAN(x, k) (x)

#define BOOL_SUM(W, a, b) ((a) | (b))
#define BOOL_PRODUCT(W, a, b) ((a) & (b))
#define BOOL_MIN(W, a, b) ((a) & (b))
#define BOOL_MAX(W, a, b) ((a) | (b))
#define BOOL_BAND(W, a, b) ((a) & (b))
#define BOOL_BOR(W, a, b) ((a) | (b))
#define BOOL_BXOR(W, a, b) ((a) ^ (b))
#define BOOL_STORE(name, x) ((tli_##name)(x))
#define BOOL_MEAN(x, k) (x)

#define LOOP(name, F)                           \
  for (int64_t i = 0; i < n; i++) {             \
    wide x = acc[i], y = tli_read_##name(b[i]); \
    acc[i] = F(wide, x, y);                     \
  }                                             \
  break;

/* Computes acc = acc o b, where "o" is the operation, for each reduction of a category. */
#define CASES(name, SUM_, PRODUCT_, MIN_, MAX_, BAND_, BOR_, BXOR_) \
  switch (r) {                                                      \
  case TLI_REDUCE_SUM:                                              \
  case TLI_REDUCE_AVG: LOOP(name, SUM_)                             \
  case TLI_REDUCE_PRODUCT: LOOP(name, PRODUCT_)                     \
  case TLI_REDUCE_MIN: LOOP(name, MIN_)                             \
  case TLI_REDUCE_MAX: LOOP(name, MAX_)                             \
  case TLI_REDUCE_BAND: LOOP(name, BAND_)                           \
  case TLI_REDUCE_BOR: LOOP(name, BOR_)                             \
  default: LOOP(name, BXOR_)                                        \
  }

#define CASES_FLOAT(name) \
  CASES(name, FLOAT_SUM, FLOAT_PRODUCT, FLOAT_MIN, FLOAT_MAX, FLOAT_BAND, FLOAT_BOR, FLOAT_BXOR)
#define CASES_COMPLEX(name)                                                                    \
  CASES(name, COMPLEX_SUM, COMPLEX_PRODUCT, COMPLEX_REFUSED, COMPLEX_REFUSED, COMPLEX_REFUSED, \
        COMPLEX_REFUSED, COMPLEX_REFUSED)
#define CASES_INT(name) \
  CASES(name, INT_SUM, INT_PRODUCT, INT_MIN_, INT_MAX_, INT_BAND, INT_BOR, INT_BXOR)
#define CASES_BOOL(name) \
  CASES(name, BOOL_SUM, BOOL_PRODUCT, BOOL_MIN, BOOL_MAX, BOOL_BAND, BOOL_BOR, BOOL_BXOR)

#define DEFINE(name, text, bytes, category, ...)                                                   \
  static void step_##name(tli_Reduction r, tli_wide_##name *restrict acc,                          \
                          const tli_##name *restrict b, int64_t n) {                               \
    typedef tli_wide_##name wide;                                                                  \
    CASES_##category(name)                                                                         \
  }                                                                                                \
  static void block_##name(tli_Reduction r, void *out, const void *const *from, int k, int64_t at, \
                           int64_t n) {                                                            \
    tli_wide_##name acc[BLOCK];                                                                    \
    const tli_##name *first = (const tli_##name *)from[0] + at;                                    \
    tli_##name *to = (tli_##name *)out + at;                                                       \
    for (int64_t i = 0; i < n; i++) acc[i] = tli_read_##name(first[i]);                            \
    for (int j = 1; j < k; j++) step_##name(r, acc, (const tli_##name *)from[j] + at, n);          \
    if (r == TLI_REDUCE_AVG)                                                                       \
      for (int64_t i = 0; i < n; i++) acc[i] = category##_MEAN(acc[i], (tli_wide_##name)k);        \
    for (int64_t i = 0; i < n; i++) to[i] = category##_STORE(name, acc[i]);                        \
  }
TL_DTYPES(DEFINE, )

typedef void (*BlockFn)(tli_Reduction r, void *out, const void *const *from, int k, int64_t at,
                        int64_t n);
static const BlockFn blocks[TL_NDTYPES] = {
#define X(name, ...) block_##name,
    TL_DTYPES(X, )
#undef X
};

/* Computes the sum or the mean of two float arrays, the most frequent reductions. */
static void add_two(float *out, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}
static void average_two(float *out, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = (a[i] + b[i]) * 0.5f;
}

void tli_reduce_arrays(tl_DType dtype, tli_Reduction r, void *out, const void *const *from, int k,
                       int64_t n) {
  if (dtype == TL_F32 && k == 2 && r <= TLI_REDUCE_AVG) {
    (r == TLI_REDUCE_SUM ? add_two : average_two)(out, from[0], from[1], n);
    return;
  }
  for (int64_t at = 0; at < n; at += BLOCK)
    blocks[dtype](r, out, from, k, at, n - at < BLOCK ? n - at : BLOCK);
}
