/*
** capture.h - a graph of a device as the engine sees it: captured on a stream, then
** replayed. A backend knows what is in it; here is what each replay needs beside, which
** is where its random numbers begin.
*/
#ifndef TLI_CAPTURE_H
#define TLI_CAPTURE_H

#include "core/device/generator.h"
#include "core/tensor/tensor.h"

typedef struct tli_Capture tli_Capture;

/* A graph in which nothing has been captured; NULL on lack of memory. */
tli_Capture *tli_capture_new(void) TL_MUSTCHECK;
/* Ends a capture that is open and lets go of what was captured. */
void tli_capture_reset(tli_Capture *c);
void tli_capture_free(tli_Capture *c);

/* Memory that graphs may share, by its number; never 0. */
uint64_t tli_capture_new_pool(void);
uint64_t tli_capture_last_pool(void); /* numbers up to it were given */
/* That of a graph; 0 where nothing was captured. */
uint64_t tli_capture_pool(const tli_Capture *c);

/* Captures on the current stream of a device until the end; a pool of 0 is one of its own. */
bool tli_capture_begin(tli_Capture *c, tl_Device device, uint64_t pool, tl_CaptureMode mode)
    TL_MUSTCHECK;
/* With the stream current that it was begun on; elsewhere it stays open. */
bool tli_capture_end(tli_Capture *c) TL_MUSTCHECK;
bool tli_capture_open(const tli_Capture *c);
/* On the current stream of its device, after the last replay. */
bool tli_capture_replay(tli_Capture *c) TL_MUSTCHECK;

/* The capture that the current stream of a device takes part in; NULL: none. */
tli_Capture *tli_capture_of(tl_Device device);
/* Its number, which no other capture has; 0: none. */
uint64_t tli_capture_number(tl_Device device);
/* Whether the host may wait for the device's current stream; else false with a message. */
bool tli_may_wait(tl_Device device) TL_MUSTCHECK;
/* Memory of the host, which copies of the current stream's capture read or write at each
** replay: kept, as what lies on the device is (tli_data). */
void tli_capture_keep_host(tl_Storage *s, tl_Device device);
/* Random numbers within a capture. */
bool tli_capture_draw(tli_Capture *c, tli_Generator *g, uint64_t blocks, tli_Stretch *out)
    TL_MUSTCHECK;

#endif
