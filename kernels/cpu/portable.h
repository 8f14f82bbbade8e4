/*
** portable.h - kernels that the mode of tl_set_portable refuses.
*/
#ifndef TLK_CPU_PORTABLE_H
#define TLK_CPU_PORTABLE_H

#include "kernels/cpu/cpu.h"

/* Returns whether an elementwise kernel calls a function of the C library whose bits differ between
** machines. */
bool tlk_calls_library(tlk_Pointwise kernel, tl_DType compute);

#endif
