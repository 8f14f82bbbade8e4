/*
** capture.h - the engine's side of a device's graph, which is captured on a stream and then
** replayed. The device has the graph's contents. The engine determines where in the stream of
** random numbers each replay begins, and keeps the memory alive that the graph uses.
*/
#ifndef TLI_CAPTURE_H
#define TLI_CAPTURE_H

#include "core/device/generator.h"
#include "core/tensor/tensor.h"

typedef struct tli_Capture tli_Capture;

/* Returns an empty graph; NULL if memory is exhausted. */
tli_Capture *tli_capture_new(void) TL_MUSTCHECK;
/* Ends an open capture and releases the captured work. */
void tli_capture_reset(tli_Capture *c);
void tli_capture_free(tli_Capture *c);

/* Returns the number of a new memory pool, which graphs may share; never 0. */
uint64_t tli_capture_new_pool(void);
uint64_t tli_capture_last_pool(void); /* Returns the largest pool number assigned so far. */
/* Returns the pool of a graph; 0 if no capture was begun. */
uint64_t tli_capture_pool(const tli_Capture *c);

/* Begins to capture work on the current stream of a device. If pool is 0, the graph gets a new
** memory pool. */
bool tli_capture_begin(tli_Capture *c, tl_Device device, uint64_t pool, tl_CaptureMode mode)
    TL_MUSTCHECK;
/* Ends the capture. The current stream must be the one that began the capture; otherwise the call
** fails and the capture stays open. */
bool tli_capture_end(tli_Capture *c) TL_MUSTCHECK;
bool tli_capture_open(const tli_Capture *c);
/* Replays the graph on the current stream of its device, after the previous replay has finished. */
bool tli_capture_replay(tli_Capture *c) TL_MUSTCHECK;

/* Returns the capture that the current stream of a device takes part in, or NULL. */
tli_Capture *tli_capture_of(tl_Device device);
/* Returns the unique number of the capture that the current stream of a device takes part in, or
** 0. */
uint64_t tli_capture_number(tl_Device device);
/* Returns whether the host may wait for the device's current stream. Returns false with a message
** if it must not. */
bool tli_may_wait(tl_Device device) TL_MUSTCHECK;
/* Keeps a storage in host memory alive as long as the graph that the current stream is capturing,
** because the graph's copies read or write this memory at each replay. tli_data keeps device memory
** in the same way. */
void tli_capture_keep_host(tl_Storage *s, tl_Device device);
/* Reserves the next `blocks` blocks of the generator's random numbers for a captured kernel. */
bool tli_capture_draw(tli_Capture *c, tli_Generator *g, uint64_t blocks, tli_Stretch *out)
    TL_MUSTCHECK;

#endif
