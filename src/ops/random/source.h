/*
** source.h - random numbers in double precision, for operators that draw on the CPU and need a
** varying number of random numbers for each element.
*/
#ifndef TLI_SOURCE_H
#define TLI_SOURCE_H

#include <math.h>

#include "ops/common.h"

/* An endless sequence of uniform numbers for one element. The first numbers come from the element's
** own block of the generator's stream. That block is also the seed of a second stream, from which
** all further numbers come. An element's numbers therefore do not depend on the number of
** threads. */
typedef struct tli_Source {
  uint64_t seed, next;
  uint32_t words[4];
  int left; /* number of unused 64-bit words in the current block */
} tli_Source;

static inline uint64_t source_word(const tli_Source *s, int i) {
  return s->words[2 * i] | (uint64_t)s->words[2 * i + 1] << 32;
}

static inline tli_Source source_of(uint64_t seed, uint64_t block) {
  tli_Source s = {.left = 2};
  tli_philox(seed, block, s.words);
  s.seed = source_word(&s, 0);
  return s;
}

/* Returns the next number, which is in (0, 1). */
static inline double source_uniform(tli_Source *s) {
  if (s->left == 0) {
    tli_philox(s->seed, s->next++, s->words);
    s->left = 2;
  }
  return ((double)(source_word(s, --s->left) >> 12) + 0.5) * 0x1p-52;
}

#endif
