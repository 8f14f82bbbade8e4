/*
** portable.c - implements portable.h. The lists name kernels without the prefix TLK_. Otherwise the
** generator of small libraries (src/gen/main.lua) would count the names as uses of these kernels.
*/
#include "core/kernel/portable.h"

#include "core/tensor/dtype.h"

/* clang-format off */
#define OF_COMPLEX(X)                                                               \
  X(pow) X(sqrt) X(rsqrt) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p)  \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh)     \
  X(acosh) X(atanh) X(sigmoid) X(sinc) X(silu) X(silu_backward) X(logaddexp)        \
  X(tanhshrink)
#define OF_REAL(X) X(bessel_j0) X(bessel_j1) X(bessel_y0) X(bessel_y1)
/* clang-format on */

bool tli_calls_library(tlk_Pointwise kernel, tl_DType compute) {
#define X(name) || kernel == TLK_##name
  return tli_is_complex(compute) ? false OF_COMPLEX(X) : false OF_REAL(X);
#undef X
}
