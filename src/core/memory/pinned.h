/*
** pinned.h - host memory that a device reads and writes directly, so that a copy can complete after
** the call that started it has returned. A driver may need as long as a training step to allocate
** such memory, and longer to free it. So blocks are kept for reuse; their sizes are powers of two.
*/
#ifndef TLI_PINNED_H
#define TLI_PINNED_H

#include "core/device/api.h"
#include "core/tensor/tensor.h"

/* Returns a CPU storage in pinned memory for copies to and from devices of the given type. */
tl_Storage *tli_pinned_storage(tl_DeviceType type, int64_t bytes) TL_MUSTCHECK;
/* Returns an uninitialised row-major tensor in pinned memory. */
tl_Tensor *tli_pinned_empty(tl_DeviceType type, tl_DType dtype, int ndim, const int64_t *sizes)
    TL_MUSTCHECK;
bool tli_is_pinned(const tl_Tensor *t);

/* Records that a copy from or to this memory was queued on a stream of the device. The memory lives
** until the copy is complete, even if all other owners release it. If the stream is capturing, the
** captured graph keeps the memory. */
bool tli_pinned_used(tl_Storage *storage, tl_Device device, tl_Stream *stream) TL_MUSTCHECK;
/* Releases the memory of completed copies. tli_pinned_storage and tli_pinned_empty do so, too,
** before they allocate. */
void tli_pinned_reap(void);

/* Statistics of the blocks that the driver has allocated, and of the blocks in use. */
typedef struct tli_PinnedStats {
  tl_Stat allocations, allocated_bytes, active_requests, active_bytes;
} tli_PinnedStats;
tli_PinnedStats tli_pinned_stats(tl_DeviceType type);
/* tli_pinned_reset_peaks sets the peaks in a device type's statistics to the current values.
** tli_pinned_reset_sums sets the sums in the statistics to 0. */
void tli_pinned_reset_peaks(tl_DeviceType type);
void tli_pinned_reset_sums(tl_DeviceType type);
/* Returns free blocks to the driver. */
void tli_pinned_trim(tl_DeviceType type);

#endif
