/* pool_i32.c - pooling of planes of int32_t. */
#include <stdint.h>

typedef int32_t Element;
#define LOWEST INT32_MIN
#define IS_NAN(x) false
#include "kernels/cpu/pool/max_loops.h"

extern const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_i32);
const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_i32) = {.max = pool_max};
