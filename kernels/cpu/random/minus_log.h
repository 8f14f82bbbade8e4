/*
** minus_log.h - the logarithm of a uniform number, for the CPU and for GPUs.
*/
#ifndef TLK_MINUS_LOG_H
#define TLK_MINUS_LOG_H

#include "kernels/cpu/elementary_f32.h"

/* Returns -log x for the uniform number x = (w + 1/2) / 2^32. The distance from x to the nearer end
** of (0, 1) is rounded only once. Near 1, f in log(1 + f) is computed from this distance. So the
** result keeps its relative precision at both ends and is never 0. */
TLK_F32_FN float tlk_minus_log(uint32_t w) {
  float distance = ((float)(w >> 31 ? ~w : w) + 0.5f) * 0x1p-32f;
  tlk_Split s = tlk_split_fast(w >> 31 ? 1 - distance : distance);
  s.f = s.e == 0 ? -distance : s.f; /* the exponent is 0 only for numbers above sqrt(1/2) */
  return -tlk_log_join(s);
}

#endif
