/*
** generator.h - generators of random numbers; a generator is a position in a stream of random
** numbers. All devices draw from the same stream as the CPU, so a program draws the same numbers on
** any device. A device that is seeded separately has a stream of its own until all devices are
** seeded again.
*/
#ifndef TLI_GENERATOR_H
#define TLI_GENERATOR_H

#include <stdatomic.h>

#include "core/device/api.h"

typedef struct tli_Generator {
  /* reference count; 0 for a generator that is part of a longer-lived object */
  atomic_int refs;
  uint64_t seed;
  uint64_t offset; /* number of the next unused block of four 32-bit numbers */
  bool own;        /* whether a device's generator was seeded separately */
  /* only in the default generator: an array of TLI_FAMILY generators, one per device */
  struct tli_Generator *family;
} tli_Generator;

/* The number of generators in the array `family`, one for each device other than the CPU. */
#define TLI_FAMILY ((TL_NDEVICETYPES - 1) * TL_MAX_DEVICES)

/* Returns a generator with one reference; NULL if memory is exhausted. */
tli_Generator *tli_generator_new(void) TL_MUSTCHECK;
tli_Generator *tli_generator_retain(tli_Generator *g);
/* Releases a reference to a generator. Accepts NULL. */
void tli_generator_release(tli_Generator *g);

static inline void tli_generator_seed(tli_Generator *g, uint64_t seed) {
  g->seed = seed;
  g->offset = 0;
}
/* Seeds a default generator. From now on all devices draw from it again. */
void tli_generator_seed_all(tli_Generator *g, uint64_t seed);
/* Returns the generator that a device draws from. If g is a default generator, a device that has a
** generator of its own draws from its own generator, and every other device draws from g. If g is
** not a default generator, all devices draw from g. */
static inline tli_Generator *tli_generator_of(tli_Generator *g, tl_Device device) {
  if (g->family == NULL || device.type == TL_CPU) return g;
  tli_Generator *own = &g->family[(device.type - 1) * TL_MAX_DEVICES + device.index];
  return own->own ? own : g;
}
/* Gives a device its own generator, which begins at the position of the default generator. */
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
/* Reserves the blocks for n numbers and returns the number of the first block. One block of four
** words yields `per_block` numbers. */
static inline uint64_t tli_generator_take(tli_Generator *g, int64_t n, int per_block) {
  uint64_t first = g->offset;
  g->offset += tli_generator_blocks(n, per_block);
  return first;
}

/* The part of the stream from which a kernel computes n numbers (struct tlk_random). In a
** capture, this part is relative to the generator's position at replay. Code that will draw the
** same numbers again holds its own reference to `state`, because a graph releases this tensor
** when it is reset. */
typedef struct tli_Stretch {
  uint64_t seed, block;
  tl_Tensor *state; /* int64 tensor (2) with {seed, block} (borrowed); NULL outside of captures */
} tli_Stretch;
/* Reserves n numbers of the generator's stream. On the meta device, reserves none. */
bool tli_generator_stretch(tli_Generator *g, tl_Device device, int64_t n, int per_block,
                           tli_Stretch *out) TL_MUSTCHECK;

#endif
