/* pool_i64.c - pooling of planes of int64_t. */
#include <stdint.h>

typedef int64_t Element;
#define LOWEST INT64_MIN
#define IS_NAN(x) false
#include "kernels/cpu/pool/max_loops.h"

extern const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_i64);
const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_i64) = {.max = pool_max};
