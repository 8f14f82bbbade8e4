/*
** portable.h - kernels that the mode of tl_set_portable refuses.
*/
#ifndef TLI_PORTABLE_H
#define TLI_PORTABLE_H

#include "core/device/backend.h"

/* Returns whether an elementwise kernel calls a function of the C library whose bits differ between
** machines. */
bool tli_calls_library(tlk_Pointwise kernel, tl_DType compute);

#endif
