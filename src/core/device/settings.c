/*
** settings.c - implements settings.h: the settings of the process, and the settings of those
** threads that have called tli_own_settings.
*/
#include "core/device/settings.h"

#include <stdatomic.h>

#include "core/device/backend.h"
#include "core/error.h"

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

static _Thread_local int64_t own[TL_NSETTINGS];
static _Thread_local bool has_own;

static int64_t of_process(tl_Setting which) {
  return atomic_load_explicit(&settings[which], memory_order_relaxed);
}

void tli_own_settings(void) {
  for (int i = 0; i < TL_NSETTINGS; i++) own[i] = of_process((tl_Setting)i);
  has_own = true;
}

int64_t tli_setting(tl_Setting which) { return has_own ? own[which] : of_process(which); }

bool tl_set_portable(bool on) {
  return tlk_cpu_set_portable(on) ||
         tli_fail(TL_EDEVICE, "set_portable: this library was built for one kind of processor, "
                              "without loops that give the same bits on all (ISAS of make)");
}

void tli_set_setting(tl_Setting which, int64_t value) {
  if (has_own)
    own[which] = value;
  else
    atomic_store_explicit(&settings[which], value, memory_order_relaxed);
}
