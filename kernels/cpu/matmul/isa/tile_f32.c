/* tile_f32.c - the loops of tile_loops.h in float. */
typedef float real;
#define NUMBERS 4 /* the number of floats in 16 bytes */
#include "kernels/cpu/matmul/tile_loops.h"

extern const tlk_TileLoops TLK_ISA_NAME(tlk_tile_f32);
const tlk_TileLoops TLK_ISA_NAME(tlk_tile_f32) = PANEL_LOOPS;
