/*
** dot.h - the inner loops of products with packed weights, for each set of instructions.
*/
#ifndef TLK_PACKED_DOT_H
#define TLK_PACKED_DOT_H

#include "core/kernel/blocks.h"
#include "kernels/cpu/cpu.h"

enum {
  TLK_TOKENS = 8,      /* number of rows of the input whose sums stay in registers */
  TLK_PANEL_ROWS = 16, /* number of rows of the weight in a panel */
  TLK_GROUPS = TLI_CHUNK / 16
};

/* A chunk of a row of the input, rounded to 8 bits. `scale` and `sum` have an element for each
** group of the weight's layout; `sum` is the scale times the sum of the group's integers. */
typedef struct tlk_Rounded {
  int8_t q[TLI_CHUNK];
  float scale[TLK_GROUPS], sum[TLK_GROUPS];
} tlk_Rounded;

/* A product of rows of a weight and `count` rows of the input, which are stored in blocks of
** TLK_TOKENS rows: chunk c of row t is x[(t / TLK_TOKENS * chunks + c) * TLK_TOKENS +
** t % TLK_TOKENS]. Element (t, r) of the result is out[t * step + r]. */
typedef struct tlk_PackedRows {
  tli_BlockKind kind;
  const uint8_t *weight; /* the first row */
  int64_t bytes;         /* size of a row */
  int64_t features, chunks, count, step;
  const tlk_Rounded *x;
  float *out;
  float *sums; /* scratch memory: TLK_PANEL_ROWS floats for each row of the input, or more */
} tlk_PackedRows;

/* Computes the results of `rows` rows of the weight. */
typedef void tlk_PackedLoops(const tlk_PackedRows *p, int64_t rows);

/* Returns the loops for this processor. */
tlk_PackedLoops *tlk_packed_loops(void);

#endif
