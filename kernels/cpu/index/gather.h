/*
** gather.h - the inner loops of gather and scatter, see core/kernel/kernel.h. A tile consists of a
** few adjacent lines, or of a stretch of each.
*/
#ifndef TLK_GATHER_H
#define TLK_GATHER_H

#include "kernels/cpu/cpu.h"

/* The operands of tlk_IndexCall: out, index, in. */
typedef struct tlk_Tile {
  char *ptrs[3];
  int64_t lines;
  int64_t line_strides[3]; /* bytes from one line to the next, for each operand */
  int64_t count;
  int64_t strides[3]; /* bytes from one element of a line to the next, for each operand */
  /* for gather, positions in [1, high] are valid; for scatter, positions in [low, high] are written
  ** and others skipped */
  int64_t low, high;
} tlk_Tile;

/* Gathers or scatters a tile. If a position is out of range, returns false and sets *bad to it. */
typedef bool (*tlk_GatherLoop)(const tlk_Tile *tile, int64_t *bad);
typedef void (*tlk_ScatterLoop)(const tlk_Tile *tile);

typedef struct tlk_IndexLoops {
  void (*range)(int64_t n, const int64_t *x, int64_t *least, int64_t *most);
  tlk_GatherLoop gather[5]; /* gather[i] moves elements of 1 << i bytes */
  tlk_ScatterLoop set[5];   /* set[i] moves elements of 1 << i bytes */
  /* loops by tlk_Join, without TLK_JOIN_SET, and by compute type */
  tlk_ScatterLoop join[TLK_JOIN_MIN + 1][TLK_NCOMPUTE];
} tlk_IndexLoops;

#endif
