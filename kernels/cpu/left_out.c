/*
** left_out.c - functions in place of the kernels that a build leaves out: PROFILE=infer has only
** some families of kernels. These functions fail with a message. They are weak symbols, so the
** linker prefers the kernels that the build contains.
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

#ifdef TLI_RUNTIME
#define X(name, operands)                                                              \
  bool tlk_left_out_##name(const struct tlk_##name *call);                             \
  bool tlk_left_out_##name(const struct tlk_##name *call) {                            \
    (void)call;                                                                        \
    return tli_fail(TL_EARG, "the kernel " #name " is not in this program's library"); \
  }
TLK_KERNELS(X)
#undef X
#endif
