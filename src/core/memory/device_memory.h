/*
** device_memory.h - a device's memory for tensors: asking for it, and what happens when there is
** none left.
*/
#ifndef TLI_DEVICE_MEMORY_H
#define TLI_DEVICE_MEMORY_H

#include <stdatomic.h>

#include "tlua.h"

/* A device's memory for the current stream. Where there is none even after the collector
** has worked, NULL with TL_EMEM and the figures. */
void *tli_device_alloc(tl_Device device, int64_t bytes);
/* Has garbage that may hold tensors collected, in the midst of the calling thread's operator;
** false if that is not possible now. Where memory is `lacking`, all that is cached is given
** back as well; else a heap that is too large to be searched often is searched in part. Set by
** the binding; NULL without one. */
extern bool (*_Atomic tli_collect_garbage)(bool lacking);
/* Whether this thread's last failure came after that: trying again is of no use. */
bool tli_device_exhausted(void);
/* How often tli_device_alloc has failed. */
int64_t tli_device_ooms(tl_Device device);
void tli_device_reset_ooms(tl_Device device);

#endif
