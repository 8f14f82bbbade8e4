/*
** complex_loops.h - elementwise loops that compute in complex numbers of one type.
** isa/pointwise_<type>.c includes this file after it has defined TLK_PART (the type of a number's
** parts), TLK_OF(name) (the function of the C library for that type) and TLK_TYPE (the suffix of
** names). kernels/complex.h contains the function that is applied to each element.
**
** Compilers vectorise badly if real and imaginary parts alternate in memory. So a loop first splits
** a block of numbers into an array of real parts and an array of imaginary parts, and joins the
** parts of the results at the end. A loop that calls a function of the C library for each number
** does not split the numbers.
*/
#include <complex.h>
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/elementary.h"

#ifdef TLK_PORTABLE /* all other kernels that call the C library are refused by tlk_pointwise */
#define cabs(x) tli_hypot(creal(x), cimag(x))
#define cabsf(x) ((float)tli_hypot((double)crealf(x), (double)cimagf(x)))
#define carg(x) tli_atan2(cimag(x), creal(x))
#define cargf(x) ((float)tli_atan2((double)cimagf(x), (double)crealf(x)))
#else /* the C library has vector forms of these functions */
#define cabs(x) hypot(creal(x), cimag(x))
#define cabsf(x) tlk_hypotf(crealf(x), cimagf(x))
#define carg(x) atan2(cimag(x), creal(x))
#define cargf(x) tlk_atan2f(cimagf(x), crealf(x))
#endif

typedef TLK_PART R;
typedef _Complex TLK_PART T;
#define TLK_COMPLEX_FN static inline

static inline R re(T x) { return TLK_OF(creal)(x); }
static inline R im(T x) { return TLK_OF(cimag)(x); }
static inline T pair(R real, R imag) { return __builtin_complex(real, imag); }

/* ---- blocks of numbers ---- */

enum { BLOCK = 8 * TLK_LANES };

typedef struct {
  R re[BLOCK], im[BLOCK];
} Parts;

/* Keeps the compiler from inlining `take` and `give` into each kernel, which would enlarge the
** code. */
#define APART static __attribute__((noinline))

APART void take(Parts *to, const T *from, int64_t n) {
  const R *parts = (const R *)from;
  n -= n % TLK_LANES;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) {
    to->re[i] = parts[2 * i];
    to->im[i] = parts[2 * i + 1];
  }
}

APART void give(T *to, const Parts *from, int64_t n) {
  R *parts = (R *)to;
  n -= n % TLK_LANES;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) {
    parts[2 * i] = from->re[i];
    parts[2 * i + 1] = from->im[i];
  }
}

/* These macros store results of each type: KEEP_<type> the result of one element, and GIVE_<type>
** the results of a block. */
#define KEEP_T(...)      \
  T value = __VA_ARGS__; \
  r.re[i] = re(value);   \
  r.im[i] = im(value);
#define KEEP_R(...) out[at + i] = (__VA_ARGS__);
#define KEEP_uint8_t(...) out[at + i] = (__VA_ARGS__);
#define GIVE_T give(out + at, &r, m);
#define GIVE_R
#define GIVE_uint8_t

/* ---- the kernels ---- */

/* Declares p, which is the first parameter as a complex number. */
#define PARAMETER_(params)                                          \
  T p = pair((R)tli_to_double((params)[0]), (R)((params)[0].imag)); \
  (void)p
#define BEGIN_(name, result)                                                       \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    PARAMETER_(params);                                                            \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    Parts r;                                                                       \
    (void)r;                                                                       \
    for (int64_t at = 0; at < n; at += BLOCK) {                                    \
      int64_t m = n - at < BLOCK ? n - at : BLOCK;                                 \
      m -= m % TLK_LANES;
#define END_(result) \
  GIVE_##result      \
  }                  \
  return true;       \
  }
/* Declares a block with the parts of the k-th argument's numbers. */
#define TAKE_(block, k) \
  Parts block;          \
  take(&block, (const T *)args[k] + at, m);
#define OF_(block) pair(block.re[i], block.im[i])

#define Z1(name, result, ...)       \
  BEGIN_(name, result)              \
  TAKE_(f, 1)                       \
  TLK_IVDEP                         \
  for (int64_t i = 0; i < m; i++) { \
    T x = OF_(f);                   \
    KEEP_##result(__VA_ARGS__)      \
  }                                 \
  END_(result)
#define Z2(name, result, ...)       \
  BEGIN_(name, result)              \
  TAKE_(f, 1)                       \
  TAKE_(g, 2)                       \
  TLK_IVDEP                         \
  for (int64_t i = 0; i < m; i++) { \
    T a = OF_(f), b = OF_(g);       \
    KEEP_##result(__VA_ARGS__)      \
  }                                 \
  END_(result)
#define Z3(name, result, ...)             \
  BEGIN_(name, result)                    \
  TAKE_(f, 1)                             \
  TAKE_(g, 2)                             \
  TAKE_(h, 3)                             \
  TLK_IVDEP                               \
  for (int64_t i = 0; i < m; i++) {       \
    T a = OF_(f), b = OF_(g), c = OF_(h); \
    KEEP_##result(__VA_ARGS__)            \
  }                                       \
  END_(result)

#define WHOLE_(name, result, inputs, ...)                                          \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    PARAMETER_(params);                                                            \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    for (int64_t i = 0; i < n; i++) {                                              \
      inputs;                                                                      \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }
#define NUMBER_(k) ((const T *)args[k])[i]
#define C1(name, result, ...) WHOLE_(name, result, T x = NUMBER_(1), __VA_ARGS__)
#define C2(name, result, ...) WHOLE_(name, result, T a = NUMBER_(1); T b = NUMBER_(2), __VA_ARGS__)

#include "kernels/complex.h"

#define TABLE_(type) TLK_ISA_NAME(tlk_loops_##type)
#define TABLE(type) TABLE_(type)
extern const tlk_Loop TABLE(TLK_TYPE)[TLK_NPOINTWISES];
const tlk_Loop TABLE(TLK_TYPE)[TLK_NPOINTWISES] = {
#define X(name, inputs, result) [TLK_##name] = loop_##name,
    TLK_COMPLEX_POINTWISES(X)
#undef X
};
