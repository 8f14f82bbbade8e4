/*
** left_out.c - stand-ins for the kernels that a build leaves out (PROFILE=infer has only some
** families). They are weak functions that fail with a message; kernels that are in the build
** replace them.
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
