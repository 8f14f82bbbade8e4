/*
** loops.h - macros for templates of loops. A file of such loops defines `real`, TYPE (f32 for
** float) and TEMPLATE (the path of the template), and then includes a generated header, such as
** each_pointwise.h. This header includes the template once for each kernel that TAKES selects.
*/
#ifndef TLK_LOOPS_H
#define TLK_LOOPS_H

#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

/* TLK_IN_<type>_<list> expands to its arguments if the list of types (third column of the generated
** list) includes the compute type, otherwise to nothing. Rare kernels are not in the tables of
** instruction sets, because rare.c has their loops. */
#define TLK_IN_f32_NUMBER(...) __VA_ARGS__
#define TLK_IN_f32_FLOATING(...) __VA_ARGS__
#define TLK_IN_f32_RARE(...)
#define TLK_IN_f32_INTEGER(...)
#define TLK_IN_f64_NUMBER(...) __VA_ARGS__
#define TLK_IN_f64_FLOATING(...) __VA_ARGS__
#define TLK_IN_f64_RARE(...)
#define TLK_IN_f64_INTEGER(...)
#define TLK_IN_i32_NUMBER(...) __VA_ARGS__
#define TLK_IN_i32_FLOATING(...)
#define TLK_IN_i32_RARE(...)
#define TLK_IN_i32_INTEGER(...) __VA_ARGS__
#define TLK_IN_i64_NUMBER(...) __VA_ARGS__
#define TLK_IN_i64_FLOATING(...)
#define TLK_IN_i64_RARE(...)
#define TLK_IN_i64_INTEGER(...) __VA_ARGS__

#define TLK_RESULT_SAME(type) type
#define TLK_RESULT_BOOL(type) uint8_t

static inline float tlk_param_f32(tl_Scalar s) { return (float)tli_to_double(s); }
static inline double tlk_param_f64(tl_Scalar s) { return tli_to_double(s); }
static inline int64_t tlk_param_i64(tl_Scalar s) {
  if (s.kind != TL_FLOATING) return s.i;
  return s.f >= -0x1p63 && s.f < 0x1p63 ? (int64_t)s.f : INT64_MIN;
}
static inline int32_t tlk_param_i32(tl_Scalar s) { return (int32_t)tlk_param_i64(s); }

/* Expands to "1 + 0" if TYPE belongs to a type list, otherwise to " + 0", for use in #if. */
#define TAKES(types) TLK_PASTE_3_(TLK_IN, TYPE, types)(1) + 0

/* Forms a name from the kernel and the type: TLK_OWN(loop) is loop_<kernel>_<type>. */
#define TLK_OWN(name) TLK_PASTE_3_(name, NAME, TYPE)
/* Forms the name of a function or constant that math.h defines for the kernel and the type. */
#define TLM_OWN(name) TLK_PASTE_4_(tlm, NAME, TYPE, name)

/* Begins the body of a loop: converts the parameters to the loop's type and stores them in the
** array p. */
#define TLK_READ_PARAMS                                                            \
  enum { nparams = TLM_OWN(params) };                                              \
  real p[nparams + 1];                                                             \
  p[nparams] = 0;                                                                  \
  for (int k = 0; k < nparams; k++) p[k] = TLK_PASTE_(tlk_param, TYPE)(params[k]); \
  (void)params;

#if defined(__clang__)
#define TLK_VECTOR TLK_IVDEP
#else
/* keeps gcc from unrolling a row of TLK_LANES into sixteen scalar statements */
#define TLK_VECTOR _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif

/* These macros expand to the entry of one kernel in the table of loops of type s, or to nothing if
** the kernel has no such loop. */
#define TLK_LOOP_ENTRY(s, name, types) TLK_IN_##s##_##types([TLK_##name] = loop_##name##_##s, )
#define TLK_FIXED1_(s, name)
#define TLK_FIXED2_(s, name) [TLK_##name] = fixed_##name##_##s,
#define TLK_FIXED3_(s, name) TLK_FIXED2_(s, name)
#define TLK_FIXED_ENTRY(s, name, inputs, types) TLK_IN_##s##_##types(TLK_FIXED##inputs##_(s, name))

#endif
