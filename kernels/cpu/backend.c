/*
** backend.c - the CPU's table of kernels, and the choice of an instruction set: the widest one that
** was built and that this processor supports.
*/
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "isas.h" /* generated header that defines TLK_ISAS */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"

/* ---- instruction sets ------------------------------------------------------------ */

/* Conditions that tell whether this processor supports an instruction set. To add a set, add its
** condition here and its compiler flags to the Makefile. The Makefile writes isas.h, whose
** TLK_ISAS(X) lists the linked sets, best first, as X(v4) X(v3) X(v2). f16c, lzcnt and movbe are
** not tested, because no name for them is known to all compilers; every processor with avx2 and
** bmi2 has them. */
#define TLK_HAS_base true
#define TLK_HAS_native true
#define TLK_HAS_portable true
#define TLK_HAS_v2 true
#define TLK_HAS_v3                                                    \
  (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && \
   __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
#define TLK_HAS_v4                                                                          \
  (TLK_HAS_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && \
   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&              \
   __builtin_cpu_supports("avx512vl"))

#define X(name) \
  static bool has_##name(void) { return TLK_HAS_##name; }
TLK_ISAS(X)
#undef X

#define X(name) extern const tlk_Isa tlk_isa_##name;
TLK_ISAS(X)
#undef X

static const struct Set {
  const tlk_Isa *isa;
  bool (*usable)(void);
} sets[] = {
#define X(name) {&tlk_isa_##name, has_##name},
    TLK_ISAS(X)
#undef X
};
enum { NSETS = sizeof sets / sizeof sets[0] };

static _Atomic(const tlk_Isa *) chosen;

/* Returns the instruction set named by the environment variable TLUA_ISA if that set was built and
** is supported, otherwise the best supported set. */
static const tlk_Isa *choose(void) {
#ifdef __x86_64__
  __builtin_cpu_init();
#endif
  const char *wish = getenv("TLUA_ISA");
  /* the name ends at "+"; dot.c reads the suffix after it */
  size_t n = wish ? strcspn(wish, "+") : 0;
  for (int i = 0; n > 0 && i < NSETS; i++)
    if (strlen(sets[i].isa->name) == n && strncmp(sets[i].isa->name, wish, n) == 0 &&
        sets[i].usable())
      return sets[i].isa;
  for (int i = 0; i < NSETS - 1; i++)
    if (sets[i].usable()) return sets[i].isa;
  /* the build requires this set of every processor, so it is used without a check */
  return sets[NSETS - 1].isa;
}

/* Returns the best set that gives the same results on all processors; NULL if none was built. */
static const tlk_Isa *choose_portable(void) {
  for (int i = 0; i < NSETS; i++)
    if (sets[i].isa->portable && (i == NSETS - 1 || sets[i].usable())) return sets[i].isa;
  return NULL;
}

static atomic_bool portable;

bool tlk_portable(void) { return atomic_load_explicit(&portable, memory_order_relaxed); }

/* the loops for the best instruction set of this machine, kept here while the portable loops are in
** use; otherwise NULL */
static _Atomic(const tlk_Isa *) best;

bool tlk_cpu_set_portable(bool on) {
  const tlk_Isa *isa = on ? choose_portable() : choose();
  if (isa == NULL) return false;
  atomic_store(&best, on ? choose() : NULL);
  atomic_store(&portable, on);
  atomic_store(&chosen, isa);
  return true;
}

const tlk_Isa *tlk_isa(void) {
  const tlk_Isa *isa = atomic_load_explicit(&chosen, memory_order_acquire);
  if (isa == NULL) {
    isa = choose();
    atomic_store_explicit(&chosen, isa, memory_order_release);
  }
  return isa;
}

/* The loops of a wider instruction set, compiled without fused multiply-add. TLK_BUILT_<set> tells
** whether the build contains such loops. */
typedef struct Unfused {
  const tlk_Isa *isa;
  const tlk_TileLoops *tile[2];
} Unfused;

#ifdef TLK_BUILT_v4u
extern const tlk_TileLoops tlk_tile_f32_v4u, tlk_tile_f64_v4u;
#endif
#ifdef TLK_BUILT_v3u
extern const tlk_TileLoops tlk_tile_f32_v3u, tlk_tile_f64_v3u;
#endif

const tlk_TileLoops *tlk_product_loops(bool wide) {
  static const Unfused unfused[] = {
#ifdef TLK_BUILT_v4u
      {&tlk_isa_v4, {&tlk_tile_f32_v4u, &tlk_tile_f64_v4u}},
#endif
#ifdef TLK_BUILT_v3u
      {&tlk_isa_v3, {&tlk_tile_f32_v3u, &tlk_tile_f64_v3u}},
#endif
      {NULL, {NULL, NULL}}};
  const tlk_Isa *isa = atomic_load_explicit(&best, memory_order_relaxed);
  for (const Unfused *u = unfused; isa && u->isa; u++)
    if (u->isa == isa) return u->tile[wide];
  return tlk_isa()->tile[wide];
}

/* ---- the table ------------------------------------------------------------------- */

#ifdef TLI_INFER /* a build for inference has no factorizations */
#pragma weak tlk_cpu_lapack
#endif
/* a library built for one program leaves out the kernels that the program does not call */
#ifdef TLI_RUNTIME
#include "runtime_kernels.h"
#define KEPT(name) TLK_KEPT_##name
#define X(name, operands) bool tlk_left_out_##name(const struct tlk_##name *call);
TLK_KERNELS(X)
#undef X
#else
#define KEPT(name) tlk_##name
#endif
const tl_Backend tlk_cpu_backend = {
    .name = "cpu",
#define X(name, operands) .name = KEPT(name),
    TLK_KERNELS(X)
#undef X
        .lapack = &tlk_cpu_lapack,
};
