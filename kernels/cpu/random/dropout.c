/*
** dropout.c - dropout in one pass. Random words are drawn in groups of blocks. The mask is not
** stored, because the backward pass draws the same random words again.
*/
#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

/* number of elements whose random words are drawn together as a group */
#define GROUP (4 * TLK_RANDOM_BLOCKS)

typedef struct Drop {
  const tlk_Isa *isa;
  tlk_Loop addcmul; /* loop that computes residual + scale * in * mask */
  tl_DType dtype, compute;
  char *out;
  const char *in, *residual; /* the input, and the residual, which may be NULL */
  int64_t n;
  tl_Scalar keep, scale;
  uint64_t seed, block;
} Drop;

typedef struct Buffers {
  _Alignas(64) char mask[GROUP * sizeof(double)];
  _Alignas(64) char in[GROUP * sizeof(double)];
  _Alignas(64) char residual[GROUP * sizeof(double)];
  _Alignas(64) char out[GROUP * sizeof(double)];
} Buffers;

/* Returns n elements in the compute type. They are copied to the buffer if they have another type,
** or if there are too few for a loop. */
static const void *fetch(const Drop *d, const char *from, int64_t n, char *buffer) {
  if (d->dtype == d->compute && n == GROUP) return from;
  d->isa->convert[d->dtype][d->compute](n, buffer, from);
  return buffer;
}

/* Returns the mask of a group, which consists of random ones and zeros in the compute type. */
static const void *masks(const Drop *d, int64_t group, Buffers *b) {
  uint64_t block = d->block + (uint64_t)group * TLK_RANDOM_BLOCKS;
  char *drawn = d->compute == TL_F64 ? b->out : b->mask;
  d->isa->random(TLK_BERNOULLI, TL_F32, d->seed, block, TLK_RANDOM_BLOCKS, d->keep, tli_none(),
                 drawn);
  if (d->compute == TL_F64) d->isa->convert[TL_F32][TL_F64](GROUP, b->mask, drawn);
  return b->mask;
}

static void run(void *context, int64_t begin, int64_t end) {
  const Drop *d = context;
  int64_t size = tli_dtype_bytes[d->dtype];
  Buffers b;
  memset(b.in, 0, sizeof b.in);
  memset(b.residual, 0, sizeof b.residual);
  for (int64_t g = begin; g < end; g++) {
    int64_t at = g * GROUP, n = tlk_min(d->n - at, GROUP);
    bool direct = d->dtype == d->compute && n == GROUP;
    const void *mask = masks(d, g, &b);
    const void *in = fetch(d, d->in + at * size, n, b.in);
    const void *residual =
        d->residual ? fetch(d, d->residual + at * size, n, b.residual) : b.residual;
    char *out = direct ? d->out + at * size : b.out;
    d->addcmul(GROUP,
               (void *const[]){out, (void *)(uintptr_t)residual, (void *)(uintptr_t)in,
                               (void *)(uintptr_t)mask},
               &d->scale);
    if (!direct) d->isa->convert[d->compute][d->dtype](n, d->out + at * size, out);
  }
}

bool tlk_dropout(const struct tlk_dropout *call) {
  Drop d = {.isa = tlk_isa(),
            .dtype = call->in.dtype,
            .compute = tli_dtype_compute(call->in.dtype),
            .out = call->out.data,
            .in = call->in.data,
            .residual = call->residual.data,
            .n = call->n,
            .keep = tli_float(1 - call->p),
            .scale = tli_float(call->p < 1 ? 1 / (1 - call->p) : 0),
            .seed = call->state ? call->state[0] : call->seed,
            .block = call->block + (call->state ? call->state[1] : 0)};
  d.addcmul = d.isa->loops[tlk_compute_index(d.compute)][TLK_addcmul];
  return tli_parallel_try(tlk_ceil_div(call->n, GROUP), TLK_GRAIN / GROUP, run, &d);
}
