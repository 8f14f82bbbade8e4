/*
** portable.h - tells which kernels must fail while tl_set_portable demands the same bits on every
** machine.
*/
#ifndef TLI_PORTABLE_H
#define TLI_PORTABLE_H

#include "core/device/backend.h"

/* Returns whether an elementwise kernel calls a function of the C library whose bits differ between
** machines. */
bool tli_calls_library(tlk_Pointwise kernel, tl_DType compute);

#endif
