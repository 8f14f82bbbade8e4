/*
** dot.h - the inner loops of products with packed weights, for several instruction sets.
*/
#ifndef TLK_PACKED_DOT_H
#define TLK_PACKED_DOT_H

#include "core/kernel/blocks.h"
#include "kernels/cpu/cpu.h"

enum {
  TLK_TOKENS = 12,     /* number of input rows that are stored together as a block */
  TLK_PANEL_ROWS = 32, /* number of weight rows that are processed together as a panel */
  TLK_GROUPS = TLI_CHUNK / 16
};

/* A chunk of an input row, rounded to 8 bits. The arrays `scale`, `sum` and `offset` have one
** element for each group of the weight's layout. `sum` is the scale times the sum of the group's
** integers. `offset` is that sum of integers times the negative of the layout's zero, the integer
** that stands for 0. */
typedef struct tlk_Rounded {
  int8_t q[TLI_CHUNK];
  float scale[TLK_GROUPS], sum[TLK_GROUPS];
  int32_t offset[TLK_GROUPS];
} tlk_Rounded;

/* A product of weight rows and `count` input rows. Input rows are stored in blocks of TLK_TOKENS:
** chunk c of row t is x[(t / TLK_TOKENS * chunks + c) * TLK_TOKENS + t % TLK_TOKENS]. The product
** of input row t and weight row r is out[t * step + r]. */
typedef struct tlk_PackedRows {
  tli_BlockKind kind;
  const uint8_t *weight; /* the first row of the weight */
  int64_t bytes;         /* size of a weight row in bytes */
  int64_t features, chunks, count, step;
  const tlk_Rounded *x;
  float *out;
  float *sums; /* scratch memory: at least TLK_PANEL_ROWS floats for each input row */
} tlk_PackedRows;

/* A function that computes the products of the first `rows` rows of the weight. */
typedef void tlk_PackedLoops(const tlk_PackedRows *p, int64_t rows);

/* Returns the fastest loops that this processor can run. */
tlk_PackedLoops *tlk_packed_loops(void);

/* A function that rounds a chunk of n elements of an input row to 8 bits. If a block of the
** weight's layout is a whole chunk, all elements have one scale; otherwise each block has its
** own. */
typedef void tlk_RoundChunk(const tli_BlockLayout *layout, const float *x, int n, tlk_Rounded *out);

/* Returns a faster function than `plain` with the same results if this processor has one. */
tlk_RoundChunk *tlk_round_chunk(tlk_RoundChunk *plain);

#endif
