/*
** reduce.c - implements reduce.h. The arrays are reduced in blocks that fit into the first-level
** cache. Elements are first converted to the dtype's wide type, such as float for float16. Two
** arrays of float32, the common case, are added in one pass.
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

/* The operations on two values of the wide type W. */
#define SUM(W, a, b) ((a) + (b))
#define PRODUCT(W, a, b) ((a) * (b))
#define FLOAT_MIN(W, a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define FLOAT_MAX(W, a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define INT_SUM(W, a, b) ((W)((uint64_t)(a) + (uint64_t)(b)))
#define INT_PRODUCT(W, a, b) ((W)((uint64_t)(a) * (uint64_t)(b)))
#define INT_MIN_(W, a, b) ((a) < (b) ? (a) : (b))
#define INT_MAX_(W, a, b) ((a) > (b) ? (a) : (b))
#define INT_BAND(W, a, b) ((a) & (b))
#define INT_BOR(W, a, b) ((a) | (b))
#define INT_BXOR(W, a, b) ((a) ^ (b))

#define CASE(W, reduction, F)                                    \
  case reduction:                                                \
    for (int64_t i = 0; i < n; i++) acc[i] = F(W, acc[i], b[i]); \
    break;

/* Defines a function that computes acc = acc o b, where "o" is the operation of a reduction. */
#define STEP(name, W, CASES)                                                                  \
  static void step_##name(tli_Reduction r, W *restrict acc, const W *restrict b, int64_t n) { \
    switch (r == TLI_REDUCE_AVG ? TLI_REDUCE_SUM : r) {                                       \
      CASES(W)                                                                                \
    default: break; /* tli_reduction_fits has refused all other reductions */                 \
    }                                                                                         \
  }
#define COMPLEX_CASES(W)       \
  CASE(W, TLI_REDUCE_SUM, SUM) \
  CASE(W, TLI_REDUCE_PRODUCT, PRODUCT)
#define FLOAT_CASES(W)               \
  COMPLEX_CASES(W)                   \
  CASE(W, TLI_REDUCE_MIN, FLOAT_MIN) \
  CASE(W, TLI_REDUCE_MAX, FLOAT_MAX)
#define INT_CASES(W)                       \
  CASE(W, TLI_REDUCE_SUM, INT_SUM)         \
  CASE(W, TLI_REDUCE_PRODUCT, INT_PRODUCT) \
  CASE(W, TLI_REDUCE_MIN, INT_MIN_)        \
  CASE(W, TLI_REDUCE_MAX, INT_MAX_)        \
  CASE(W, TLI_REDUCE_BAND, INT_BAND)       \
  CASE(W, TLI_REDUCE_BOR, INT_BOR)         \
  CASE(W, TLI_REDUCE_BXOR, INT_BXOR)
STEP(float, float, FLOAT_CASES)
STEP(double, double, FLOAT_CASES)
STEP(int32, int32_t, INT_CASES)
STEP(int64, int64_t, INT_CASES)
STEP(c64, tli_C64, COMPLEX_CASES)
STEP(c128, tli_C128, COMPLEX_CASES)
#define STEP_OF(acc) \
  _Generic((acc), float *           \
           : step_float, double *   \
           : step_double, int32_t * \
           : step_int32, int64_t *  \
           : step_int64, tli_C64 *  \
           : step_c64, tli_C128 *   \
           : step_c128)

#define STORE_FLOAT(name, x) tli_write_##name(x)
#define STORE_COMPLEX(name, x) (x)
#define STORE_INT(name, x) ((tli_##name)(x))
#define STORE_BOOL(name, x) ((tli_##name)(x))
#define MEAN_FLOAT(x, k) ((x) / (k))
#define MEAN_COMPLEX(x, k) ((x) / (k))
#define MEAN_INT(x, k) (x)
#define MEAN_BOOL(x, k) (x)

/* Returns the bitwise reduction that has the same effect on bool values as the reduction r. */
static tli_Reduction of_truths(tli_Reduction r) {
  return r == TLI_REDUCE_SUM || r == TLI_REDUCE_MAX       ? TLI_REDUCE_BOR
         : r == TLI_REDUCE_PRODUCT || r == TLI_REDUCE_MIN ? TLI_REDUCE_BAND
                                                          : r;
}

#define DEFINE(name, text, bytes, category, ...)                                                   \
  static void block_##name(tli_Reduction r, void *out, const void *const *from, int k, int64_t at, \
                           int64_t n) {                                                            \
    typedef tli_wide_##name wide;                                                                  \
    wide acc[BLOCK], converted[BLOCK];                                                             \
    if (TLI_##category == TLI_BOOL) r = of_truths(r);                                              \
    const tli_##name *first = (const tli_##name *)from[0] + at;                                    \
    for (int64_t i = 0; i < n; i++) acc[i] = tli_read_##name(first[i]);                            \
    for (int j = 1; j < k; j++) {                                                                  \
      const tli_##name *b = (const tli_##name *)from[j] + at;                                      \
      bool converts = sizeof *b != sizeof *converted;                                              \
      for (int64_t i = 0; converts && i < n; i++) converted[i] = tli_read_##name(b[i]);            \
      STEP_OF(acc)(r, acc, converts ? converted : (const void *)b, n);                             \
    }                                                                                              \
    if (r == TLI_REDUCE_AVG)                                                                       \
      for (int64_t i = 0; i < n; i++) acc[i] = MEAN_##category(acc[i], (wide)k);                   \
    tli_##name *result = (tli_##name *)out + at;                                                   \
    for (int64_t i = 0; i < n; i++) result[i] = STORE_##category(name, acc[i]);                    \
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
