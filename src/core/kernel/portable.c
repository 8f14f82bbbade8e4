/*
** portable.c - says which elementwise kernels have no form that gives the same bits on every
** machine. The small libraries of PROFILE leave it out: they have the kernels that a file names.
*/
#include "core/kernel/portable.h"

#include "core/tensor/dtype.h"

/* Returns whether a kernel of complex numbers calls the C library's elementary functions. */
static bool calls_library(tlk_Pointwise kernel) {
  switch (kernel) {
  case TLK_pow:
  case TLK_sqrt:
  case TLK_rsqrt:
  case TLK_exp:
  case TLK_exp2:
  case TLK_expm1:
  case TLK_log:
  case TLK_log2:
  case TLK_log10:
  case TLK_log1p:
  case TLK_sin:
  case TLK_cos:
  case TLK_tan:
  case TLK_asin:
  case TLK_acos:
  case TLK_atan:
  case TLK_sinh:
  case TLK_cosh:
  case TLK_tanh:
  case TLK_asinh:
  case TLK_acosh:
  case TLK_atanh:
  case TLK_sigmoid:
  case TLK_sinc:
  case TLK_silu:
  case TLK_silu_backward:
  case TLK_logaddexp:
  case TLK_tanhshrink: return true;
  default: return false;
  }
}

/* Returns whether a kernel of real numbers calls a function of the C library that has no form of
** our own. */
static bool calls_bessel(tlk_Pointwise kernel) {
  return kernel == TLK_bessel_j0 || kernel == TLK_bessel_j1 || kernel == TLK_bessel_y0 ||
         kernel == TLK_bessel_y1;
}

bool tli_calls_library(tlk_Pointwise kernel, tl_DType compute) {
  return tli_is_complex(compute) ? calls_library(kernel) : calls_bessel(kernel);
}
