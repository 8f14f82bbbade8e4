/* tile_f64.c - the loops of tile_loops.h in double. */
typedef double real;
#define NUMBERS 2 /* the number of doubles in 16 bytes */
#include "kernels/cpu/matmul/tile_loops.h"

extern const tlk_TileLoops TLK_ISA_NAME(tlk_tile_f64);
const tlk_TileLoops TLK_ISA_NAME(tlk_tile_f64) = PANEL_LOOPS;
