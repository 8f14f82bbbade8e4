/*
** minus_log.h - the logarithm of a uniform number, for the CPU and for GPUs.
*/
#ifndef TLK_MINUS_LOG_H
#define TLK_MINUS_LOG_H

#include "kernels/cpu/elementary_f32.h"

/* Returns -log x for the uniform number x = (w + 1/2) / 2^32. The number's distance from the nearer
** end of (0, 1) has one rounding, and log(1 + f) takes f from it where x is near 1: so the result
** keeps its relative precision at both ends and is never 0. */
TLK_F32_FN float tlk_minus_log(uint32_t w) {
  float distance = ((float)(w >> 31 ? ~w : w) + 0.5f) * 0x1p-32f;
  tlk_Split s = tlk_split_fast(w >> 31 ? 1 - distance : distance);
  s.f = s.e == 0 ? -distance : s.f; /* only numbers above sqrt(1/2) have the exponent 0 */
  return -tlk_log_join(s);
}

#endif
