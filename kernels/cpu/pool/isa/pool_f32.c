/* pool_f32.c - max and average pooling of planes of float. */
#include <stdint.h>

typedef float Element, real;
#define LOWEST -INFINITY
#define IS_NAN(x) isnan(x)
#define BLOCK 16
#include "kernels/cpu/pool/average_loops.h"
#include "kernels/cpu/pool/max_loops.h"

extern const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_f32);
const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_f32) = {
    .max = pool_max, .average = average, .spread = spread};
