/*
** generator.h - where a program stands in its streams of random numbers. All devices draw
** from the CPU's stream, so that a program draws the same numbers wherever it runs, until
** a device is seeded by itself: from then on, to the next seed for all, it has its own.
*/
#ifndef TLI_GENERATOR_H
#define TLI_GENERATOR_H

#include <stdatomic.h>

#include "core/device/api.h"

typedef struct tli_Generator {
  atomic_int refs; /* 0: a part of something that outlives its users */
  uint64_t seed;
  uint64_t offset;              /* the next unused block of four 32-bit numbers */
  bool own;                     /* of a device's: it has been seeded by itself */
  struct tli_Generator *family; /* of the default one: the devices' (tli_generator_of) */
} tli_Generator;

/* How many a family has. */
#define TLI_FAMILY ((TL_NDEVICETYPES - 1) * TL_MAX_DEVICES)

/* With one reference; NULL on lack of memory. */
tli_Generator *tli_generator_new(void) TL_MUSTCHECK;
tli_Generator *tli_generator_retain(tli_Generator *g);
void tli_generator_release(tli_Generator *g); /* NULL is fine */

static inline void tli_generator_seed(tli_Generator *g, uint64_t seed) {
  g->seed = seed;
  g->offset = 0;
}
/* Seeds a default one, from which all devices draw again. */
void tli_generator_seed_all(tli_Generator *g, uint64_t seed);
/* The one that a device draws from: of a family its own, if it has one, else the family's
** head; of any other that one. */
static inline tli_Generator *tli_generator_of(tli_Generator *g, tl_Device device) {
  if (g->family == NULL || device.type == TL_CPU) return g;
  tli_Generator *own = &g->family[(device.type - 1) * TL_MAX_DEVICES + device.index];
  return own->own ? own : g;
}
/* The device's own from now on; it begins where the default one stands. */
static inline tli_Generator *tli_generator_own(tli_Generator *g, tl_Device device) {
  tli_Generator *now = tli_generator_of(g, device);
  if (g->family == NULL || device.type == TL_CPU || now != g) return now;
  tli_Generator *own = &g->family[(device.type - 1) * TL_MAX_DEVICES + device.index];
  own->seed = g->seed;
  own->offset = g->offset;
  own->own = true;
  return own;
}

static inline uint64_t tli_generator_blocks(int64_t n, int per_block) {
  return n > 0 ? (uint64_t)((n - 1) / per_block + 1) : 0;
}
/* Reserves the blocks that n numbers need (`per_block` of them come from one
** block of four words) and returns the first block's number. */
static inline uint64_t tli_generator_take(tli_Generator *g, int64_t n, int per_block) {
  uint64_t first = g->offset;
  g->offset += tli_generator_blocks(n, per_block);
  return first;
}

/* Where n numbers of a device's kernel come from (struct tlk_random). In a capture
** they are counted from where the generator stands when the graph is replayed; who draws
** them once more later retains `state`, which the graph lets go of when it is reset. */
typedef struct tli_Stretch {
  uint64_t seed, block;
  tl_Tensor *state; /* borrowed; int64 (2), {seed, block}; NULL: none */
} tli_Stretch;
/* The meta device draws none. */
bool tli_generator_stretch(tli_Generator *g, tl_Device device, int64_t n, int per_block,
                           tli_Stretch *out) TL_MUSTCHECK;

#endif
