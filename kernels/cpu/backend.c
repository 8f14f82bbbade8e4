/*
** backend.c - the CPU's table of kernels, and the choice of the instruction
** set: the widest of those built that this processor has.
*/
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "kernels/cpu/cpu.h"

/* ---- instruction sets ------------------------------------------------------------ */

/* Best first: X(name, whether the processor has it). The Makefile builds either these
** three or one, TLK_ONE_ISA. */
#ifdef TLK_ONE_ISA
#define TLK_ONE(X, isa) X(isa, true)
#define TLK_ISAS(X) TLK_ONE(X, TLK_ONE_ISA)
#else
/* f16c, lzcnt and movbe have no name that all compilers know; every processor
** with avx2 and bmi2 has them. */
static bool has_v3(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}
#define TLK_ISAS(X)                                                                            \
  X(v4, has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && \
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&        \
            __builtin_cpu_supports("avx512vl"))                                                \
  X(v3, has_v3())                                                                              \
  X(v2, true)
#endif

#define X(name, condition) \
  static bool can_##name(void) { return condition; }
TLK_ISAS(X)
#undef X

#define X(name, condition) extern const tlk_Isa tlk_isa_##name;
TLK_ISAS(X)
#undef X

static const struct Set {
  const tlk_Isa *isa;
  bool (*usable)(void);
} sets[] = {
#define X(name, condition) {&tlk_isa_##name, can_##name},
    TLK_ISAS(X)
#undef X
};
enum { NSETS = sizeof sets / sizeof sets[0] };

static _Atomic(const tlk_Isa *) chosen;

/* The one that TLUA_ISA names, if it is built and the processor has it, or the best. */
static const tlk_Isa *choose(void) {
  const char *wish = getenv("TLUA_ISA");
  for (int i = 0; wish != NULL && i < NSETS; i++)
    if (strcmp(sets[i].isa->name, wish) == 0 && sets[i].usable()) return sets[i].isa;
  int i = 0;
  while (!sets[i].usable()) i++; /* the last one always is */
  return sets[i].isa;
}

const tlk_Isa *tlk_isa(void) {
  const tlk_Isa *isa = atomic_load_explicit(&chosen, memory_order_acquire);
  if (isa == NULL) {
    isa = choose();
    atomic_store_explicit(&chosen, isa, memory_order_release);
  }
  return isa;
}

const char *tlk_cpu_isa(void) { return tlk_isa()->name; }

/* ---- the table ------------------------------------------------------------------- */

const tl_Backend tlk_cpu_backend = {
    .name = "cpu",
#define X(name, operands) .name = tlk_##name,
    TLK_KERNELS(X)
#undef X
        .lapack = &tlk_cpu_lapack,
};
