/*
** elementary.h - elementary functions of double that give the same bits on every machine. They use
** only operations whose results IEEE 754 defines: sums, products, quotients, square roots and
** roundings. Errors are below 2.1 units in the last place; erfc's are below 4 and lgamma's below 8,
** and larger near the negative zeros of lgamma. Two kinds of code call the C library instead: the
** loops for particular instruction sets (kernels/cpu/elementary.h), because it is faster, and the
** small libraries that PROFILE builds, because size matters more there. All other code calls these
** functions.
*/
#ifndef TLI_ELEMENTARY_H
#define TLI_ELEMENTARY_H

/* clang-format off */
#define TLI_ELEMENTARY1(X)                                                       \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan)  \
  X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh)     \
  X(erf) X(erfc)
#define TLI_ELEMENTARY2(X) X(pow) X(atan2) X(hypot)
/* clang-format on */

#ifdef TLI_INFER
#include <math.h>
#define X(name) \
  static inline double tli_##name(double x) { return name(x); }
TLI_ELEMENTARY1(X)
X(lgamma)
#undef X
#define X(name) \
  static inline double tli_##name(double x, double y) { return name(x, y); }
TLI_ELEMENTARY2(X)
#undef X
#else
#define X(name) double tli_##name(double x);
TLI_ELEMENTARY1(X)
X(lgamma)
#undef X
#define X(name) double tli_##name(double x, double y);
TLI_ELEMENTARY2(X)
#undef X
#endif

#endif
