/*
** pending.h - while a graph is captured, a device may keep elementwise calls pending, to queue them
** as one kernel. That kernel need not store results that are freed before it is queued. But scripts
** free a tensor only when garbage is collected. So before each call the engine asks the device
** whether the call would queue such a kernel (`pending` in api.h). If it would, the engine first
** collects garbage.
*/
#ifndef TLI_PENDING_H
#define TLI_PENDING_H

#include "core/device/api.h"

/* If `on` is true, the kernels of a kind of device ask the device about pending results before they
** run; otherwise they run without asking. The caller holds the lock of the list of captures. */
void tli_watch_pending(tl_DeviceType type, bool on);
/* Collects garbage if work other than a kernel, such as an event on the stream, would make the
** device store pending results that may be garbage. */
void tli_collect_pending(tl_Device device, const tl_Stream *stream);

#endif
