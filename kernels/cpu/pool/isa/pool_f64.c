/* pool_f64.c - max and average pooling of planes of double. */
#include <stdint.h>

typedef double Element, real;
#define LOWEST -INFINITY
#define IS_NAN(x) isnan(x)
#include "kernels/cpu/pool/average_loops.h"
#include "kernels/cpu/pool/max_loops.h"

extern const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_f64);
const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_f64) = {
    .max = pool_max, .average = average, .spread = spread};
