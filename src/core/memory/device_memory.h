/*
** device_memory.h - allocates memory of a device for tensors, and handles requests that fail
** because the memory is exhausted.
*/
#ifndef TLI_DEVICE_MEMORY_H
#define TLI_DEVICE_MEMORY_H

#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "tlua.h"

/* Allocates memory of a device for the current stream. If memory is exhausted even after garbage
** collection, returns NULL; the error is TL_EMEM, and its message has the statistics of the
** memory. */
void *tli_device_alloc(tl_Device device, int64_t bytes);
void tli_device_free(tl_Device device, void *data, int64_t bytes);
/* Sets the hook (borrowed) that serves the calling thread's requests for memory of a device instead
** of the device's allocator; NULL removes the hook. Returns the previous hook. */
tli_AllocHook *tli_device_divert(tl_Device device, tli_AllocHook *hook);
/* A function that collects garbage while the calling thread runs an operator, because garbage
** may hold tensors. It returns false if no garbage can be collected now. If `lacking` is true,
** an allocation has failed, and the function also releases caches. Otherwise it collects only a
** part of a large heap. The binding sets this pointer; NULL means that there is no garbage to
** collect. */
extern bool (*_Atomic tli_collect_garbage)(bool lacking);
/* Returns whether this thread's last failure was an allocation by tli_device_alloc. If so, another
** attempt is futile, because tli_device_alloc has already collected garbage. */
bool tli_device_exhausted(void);
/* Returns how often a device's memory was exhausted since the last call of
** tli_device_reset_ooms. */
int64_t tli_device_ooms(tl_Device device);
void tli_device_reset_ooms(tl_Device device);

#endif
