/*
** gather.h - the inner loops of gather and scatter (see core/kernel/kernel.h). A tile consists of a
** few adjacent lines, or of the same part of each of these lines.
*/
#ifndef TLK_GATHER_H
#define TLK_GATHER_H

#include "kernels/cpu/cpu.h"

/* A tile. The three entries of each array belong to the operands of tlk_IndexCall, in this order:
** out, index, in. */
typedef struct tlk_Tile {
  char *ptrs[3];
  int64_t lines;
  int64_t line_strides[3]; /* distance from one line to the next in each operand, in bytes */
  int64_t count;
  /* distance from one element of a line to the next in each operand, in bytes */
  int64_t strides[3];
  /* gather accepts positions in [1, high]; scatter writes positions in [low, high] and skips all
  ** others */
  int64_t low, high;
} tlk_Tile;

/* Gathers a tile. If a position is out of range, stores it in *bad and returns false. */
typedef bool (*tlk_GatherLoop)(const tlk_Tile *tile, int64_t *bad);
typedef void (*tlk_ScatterLoop)(const tlk_Tile *tile);

typedef struct tlk_IndexLoops {
  void (*range)(int64_t n, const int64_t *x, int64_t *least, int64_t *most);
  tlk_GatherLoop gather[5]; /* gather[i] moves elements of 1 << i bytes */
  tlk_ScatterLoop set[5];   /* set[i] moves elements of 1 << i bytes */
  /* loops indexed by tlk_Join (except TLK_JOIN_SET) and by compute type */
  tlk_ScatterLoop join[TLK_JOIN_MIN + 1][TLK_NCOMPUTE];
} tlk_IndexLoops;

#endif
