/*
** settings.c - what users have set for kernels. One of the process, as for threads.
*/
#include "core/backend.h"

static _Atomic int64_t settings[TL_NSETTINGS] = {
    [TL_MATMUL_REDUCED_FP16] = 1,
    [TL_MATMUL_REDUCED_BF16] = 1,
    [TL_CUDNN_ENABLED] = 1,
    [TL_CUDNN_TF32] = 1,
    [TL_CUDNN_BENCHMARK_LIMIT] = 10,
    [TL_FILL_UNINITIALIZED] = 1,
    [TL_DISK_CACHE] = 1,
    [TL_FUSION] = 1,
    [TL_SDP_BACKENDS] = TL_SDP_MATH | TL_SDP_FLASH | TL_SDP_EFFICIENT | TL_SDP_CUDNN,
};

int64_t tli_setting(tl_Setting which) {
  return atomic_load_explicit(&settings[which], memory_order_relaxed);
}

void tli_set_setting(tl_Setting which, int64_t value) {
  atomic_store_explicit(&settings[which], value, memory_order_relaxed);
}
