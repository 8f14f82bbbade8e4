/*
** left_out.c - kernels that a build leaves out (PROFILE=infer has those of some families): these
** weak functions fail with a message and give way to the kernels that are there.
*/
#include "core/error.h"
#include "kernels/cpu/cpu.h"

#define X(name, operands)                                                          \
  __attribute__((weak)) bool tlk_##name(const struct tlk_##name *call) {           \
    (void)call;                                                                    \
    return tli_fail(TL_EARG, #name ": not in this build (PROFILE=infer); add the " \
                                   "family of its kernel to KERNEL_FAMILIES");     \
  }
TLK_KERNELS(X)
#undef X
