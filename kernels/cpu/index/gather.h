/*
** gather.h - the inner loops of gather and scatter, see core/kernel/kernel.h. A tile
** is some lines side by side and a stretch of each.
*/
#ifndef TLK_GATHER_H
#define TLK_GATHER_H

#include "kernels/cpu/cpu.h"

/* Operands as tlk_IndexCall has them: out, index, in. */
typedef struct tlk_Tile {
  char *ptrs[3];
  int64_t lines;
  int64_t line_strides[3]; /* bytes from a line to the next */
  int64_t count;
  int64_t strides[3]; /* bytes from an element of a line to the next */
  int64_t low, high;  /* gather: positions in [1, high] are right; scatter: those
                      ** in [low, high] are written, others passed over */
} tlk_Tile;

/* False, with one in *bad, if a position is out of range. */
typedef bool (*tlk_GatherLoop)(const tlk_Tile *tile, int64_t *bad);
typedef void (*tlk_ScatterLoop)(const tlk_Tile *tile);

typedef struct tlk_IndexLoops {
  void (*range)(int64_t n, const int64_t *x, int64_t *least, int64_t *most);
  tlk_GatherLoop gather[4];                             /* by log2 of the element's size */
  tlk_ScatterLoop set[4];                               /* likewise */
  tlk_ScatterLoop join[TLK_JOIN_MIN + 1][TLK_NCOMPUTE]; /* but for TLK_JOIN_SET */
} tlk_IndexLoops;

#endif
