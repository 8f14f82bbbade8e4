/*
** complex_loops.h - elementwise loops that compute in complex numbers of one type.
** isa/pointwise_<type>.c includes this file after it has defined TLK_PART (the type of a number's
** parts), TLK_OF(name) (the function of the C library for that type) and TLK_TYPE (the suffix of
** names). The functions of each element are in kernels/complex.h.
*/
#include <complex.h>
#include <math.h>

#include "core/kernel/elementary.h"
#include "kernels/cpu/cpu.h"

#ifdef TLK_PORTABLE /* tlk_pointwise refuses kernels that call other functions of the C library */
#define cabs(x) tli_hypot(creal(x), cimag(x))
#define cabsf(x) ((float)tli_hypot((double)crealf(x), (double)cimagf(x)))
#define carg(x) tli_atan2(cimag(x), creal(x))
#define cargf(x) ((float)tli_atan2((double)cimagf(x), (double)crealf(x)))
#endif

typedef TLK_PART R;
typedef _Complex TLK_PART T;
#define TLK_COMPLEX_FN static inline

static inline R re(T x) { return TLK_OF(creal)(x); }
static inline R im(T x) { return TLK_OF(cimag)(x); }

static inline T pair(R real, R imag) {
  union {
    R parts[2];
    T number;
  } z = {{real, imag}};
  return z.number;
}

/* ---- the kernels ---- */

#define Z1(name, result, ...)                                                      \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    (void)params;                                                                  \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    const T *in = args[1];                                                         \
    for (int64_t i = 0; i < n; i++) {                                              \
      T x = in[i];                                                                 \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }
/* Declares p, the first parameter as a complex number. */
#define PARAMETER_(params)                                          \
  T p = pair((R)tli_to_double((params)[0]), (R)((params)[0].imag)); \
  (void)p
#define Z2(name, result, ...)                                                      \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    PARAMETER_(params);                                                            \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    const T *first = args[1], *second = args[2];                                   \
    TLK_IVDEP                                                                      \
    for (int64_t i = 0; i < n; i++) {                                              \
      T a = first[i], b = second[i];                                               \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }
#define Z3(name, result, ...)                                                      \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    PARAMETER_(params);                                                            \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    const T *first = args[1], *second = args[2], *third = args[3];                 \
    TLK_IVDEP                                                                      \
    for (int64_t i = 0; i < n; i++) {                                              \
      T a = first[i], b = second[i], c = third[i];                                 \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }

#include "kernels/complex.h"

#define TABLE_(type) TLK_ISA_NAME(tlk_loops_##type)
#define TABLE(type) TABLE_(type)
extern const tlk_Loop TABLE(TLK_TYPE)[TLK_NPOINTWISES];
const tlk_Loop TABLE(TLK_TYPE)[TLK_NPOINTWISES] = {
#define X(name, inputs, result) [TLK_##name] = loop_##name,
    TLK_COMPLEX_POINTWISES(X)
#undef X
};
