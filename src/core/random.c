/*
** random.c - where in its stream a generator stands. The numbers themselves
** are computed where they are needed, see tli_philox.
*/
#include "core/random.h"

void tli_generator_seed(tli_Generator *g, uint64_t seed) {
  g->seed = seed;
  g->offset = 0;
}

uint64_t tli_generator_take(tli_Generator *g, int64_t n, int per_block) {
  uint64_t first = g->offset;
  if (n > 0) g->offset += (uint64_t)((n - 1) / per_block + 1);
  return first;
}
