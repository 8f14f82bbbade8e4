/*
** pinned.h - host memory that a device reads and writes by itself, so that a copy
** may go on after the call that asked for it has returned. To get it from a driver, and even
** more to give it back, may take as long as a batch: blocks, of sizes that are powers of two, are
** kept and handed out again.
*/
#ifndef TLI_PINNED_H
#define TLI_PINNED_H

#include "core/device/api.h"
#include "core/tensor/tensor.h"

/* A storage of the CPU for copies to and from devices of that kind. */
tl_Storage *tli_pinned_storage(tl_DeviceType type, int64_t bytes) TL_MUSTCHECK;
/* A row-major tensor over one, contents undefined. */
tl_Tensor *tli_pinned_empty(tl_DeviceType type, tl_DType dtype, int ndim, const int64_t *sizes)
    TL_MUSTCHECK;
bool tli_is_pinned(const tl_Tensor *t);

/* A stream of the device has been given a copy from or to this memory: it is kept until
** that has been made, or by the graph that the stream captures, whoever lets go of it before. */
bool tli_pinned_used(tl_Storage *storage, tl_Device device, tl_Stream *stream) TL_MUSTCHECK;
/* Lets go of what no copy needs any more; also done by the other functions. */
void tli_pinned_reap(void);

/* Blocks that the driver has been asked for, and those of them that are in use. */
typedef struct tli_PinnedStats {
  tl_Stat allocations, allocated_bytes, active_requests, active_bytes;
} tli_PinnedStats;
tli_PinnedStats tli_pinned_stats(tl_DeviceType type);
/* Peaks begin anew from what there is, or sums from 0. */
void tli_pinned_reset_peaks(tl_DeviceType type);
void tli_pinned_reset_sums(tl_DeviceType type);
/* Gives the blocks that are kept back to the driver. */
void tli_pinned_trim(tl_DeviceType type);

#endif
