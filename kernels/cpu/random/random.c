/*
** random.c - fills an array with random numbers, a few blocks of the stream at a time. The numbers
** do not depend on the number of threads.
*/
#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

/* isa/random.c computes blocks in multiples of this number, so that its loops fill whole vectors */
#define LEAST 16

typedef struct Draw {
  tlk_Distribution distribution;
  tlk_Array out;
  int64_t n;
  uint64_t seed, block;
  tl_Scalar a, b;
} Draw;

/* Draws the numbers of groups [begin, end). Each group has TLK_RANDOM_BLOCKS blocks. */
static void run(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  const tlk_Isa *isa = tlk_isa();
  int64_t size = tli_dtype_bytes[d->out.dtype];
  int per_block = tlk_per_block(d->distribution, d->out.dtype);
  int64_t group = TLK_RANDOM_BLOCKS * per_block;
  _Alignas(64) char buffer[TLK_RANDOM_BLOCKS * 4 * sizeof(double)];
  for (int64_t g = begin; g < end; g++) {
    uint64_t block = d->block + (uint64_t)g * TLK_RANDOM_BLOCKS;
    int64_t at = g * group;
    int64_t n = tlk_min(d->n - at, group);
    int blocks = (int)(tlk_ceil_div(n, per_block * LEAST) * LEAST);
    tl_DType made =
        isa->random(d->distribution, d->out.dtype, d->seed, block, blocks, d->a, d->b, buffer);
    isa->convert[made][d->out.dtype](n, (char *)d->out.data + at * size, buffer);
  }
}

bool tlk_random(const struct tlk_random *call) {
  Draw d = {call->distribution, call->out, call->n, call->seed, call->block, call->a, call->b};
  if (call->state) {
    d.seed = call->state[0];
    d.block += call->state[1];
  }
  int64_t group = TLK_RANDOM_BLOCKS * tlk_per_block(call->distribution, call->out.dtype);
  return tli_parallel_try((call->n + group - 1) / group, TLK_GRAIN / group, run, &d);
}
