/*
** plugin.h - declarations shared by the plugin's host files: the functions for devices, streams and
** events that implement tl_DeviceApi.
*/
#ifndef TLK_CUDA_PLUGIN_H
#define TLK_CUDA_PLUGIN_H

#include "core/device/backend.h"
#include "core/device/host.h"
#include "kernels/cuda/cuda.h"

extern const tl_Host *cuda_host;

/* Makes the next wait for the device fail with the message `why`. */
void cuda_note_failure(int device, const char *why);
/* Counts that the host has waited for the device. */
void cuda_count_wait(int device);
int cuda_device_count(void);

/* ---- stream.c ---- */

bool cuda_streams_open(int device);
tl_Stream *cuda_stream_by_id(int device, int id);
tl_Stream *cuda_default_stream(tl_Device device);
tl_Stream *cuda_stream(tl_Device device, int priority);
void cuda_priority_range(tl_Device device, int *least, int *greatest);
tl_Stream *cuda_stream_of(tl_Device device, void *handle);
void *cuda_stream_handle(const tl_Stream *stream);
int64_t cuda_stream_id(const tl_Stream *stream);
int cuda_stream_priority(const tl_Stream *stream);
bool cuda_stream_sync(tl_Stream *stream);
bool cuda_stream_query(tl_Stream *stream, bool *done);
bool cuda_stream_wait(tl_Stream *stream, tl_Event *event);
bool cuda_sync(tl_Device device);

/* ---- event.c ---- */

tl_Event *cuda_event(tl_Device device, int flags);
void cuda_event_free(tl_Event *event);
bool cuda_event_record(tl_Event *event, tl_Stream *stream);
bool cuda_event_sync(tl_Event *event);
bool cuda_event_query(tl_Event *event, bool *done);
bool cuda_event_elapsed(tl_Event *start, tl_Event *end, double *milliseconds);
cudaEvent_t cuda_event_handle(const tl_Event *event);
/* Returns the number of the capture in which the event was last recorded; 0 if there is none. */
uint64_t cuda_event_capture(const tl_Event *event);

/* ---- capture.c ---- */

bool cuda_capture_begin(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode);
tl_Graph *cuda_capture_end(tl_Stream *stream);
/* These functions return the number, and the pool, of the capture that a stream takes part in; 0 if
** there is none. */
uint64_t cuda_capture(const tl_Stream *stream);
uint64_t cuda_capture_pool(const tl_Stream *stream);
/* Returns whether the capture with the given number is open. */
bool cuda_capture_is_open(uint64_t number);
/* Returns whether a capture of the device is open. */
bool cuda_device_captures(int device);
/* Fails with a message if the stream takes part in a capture. */
bool cuda_may_wait(const tl_Stream *stream, const char *what);
/* Lets the calling thread make calls that are forbidden during captures of this thread and during
** global captures of any thread: allocating, querying events, and creating and destroying handles
** and graphs. Without this macro, such a call fails and invalidates the captures. The permission
** ends with the enclosing block. Write this macro among the declarations of a block, after
** cuda_enter. */
#define CUDA_RELAXED                                            \
  __attribute__((cleanup(cuda_unrelax), unused)) int relaxed_ = \
      cuda_relax() /* the thread's previous capture mode, which the end of the block restores */
int cuda_relax(void);
void cuda_unrelax(const int *mode);
bool cuda_graph_launch(tl_Graph *graph, tl_Stream *stream);
void cuda_graph_free(tl_Graph *graph);

/* ---- memory.c ---- */

bool cuda_memory_open(int device);
void *cuda_alloc(const tlk_Context *cx, int64_t bytes);
void cuda_free(tl_Device device, void *data, int64_t bytes);
bool cuda_record_stream(tl_Device device, void *data, tl_Stream *stream);
bool cuda_trim(tl_Device device);
bool cuda_memory_stats(tl_Device device, tl_MemoryStats *out);
bool cuda_reset_peaks(tl_Device device);
bool cuda_reset_sums(tl_Device device);
bool cuda_memory_info(tl_Device device, int64_t *free_bytes, int64_t *total);
bool cuda_set_memory_limit(tl_Device device, int64_t bytes);
bool cuda_memory_blocks(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                        void *to);
void *cuda_pinned_alloc(int64_t bytes);
void cuda_pinned_free(void *data, int64_t bytes);
/* These functions add and remove a holder of a graph pool: a capture or a graph. `launched` is a
** bit mask of the streams on which the holder's graph was launched. */
bool cuda_memory_hold(int device, uint64_t pool);
void cuda_memory_let_go(int device, uint64_t pool, uint64_t launched);
/* Changes the number of open captures of the device. `change` is 1 when a capture begins and -1
** when it ends. */
void cuda_memory_capture(int device, int change);

/* ---- lib/cupti.c ---- */

/* Implements tl_DeviceApi.activities. */
bool cuda_activities(void (*note)(const tl_Activity *activity), int64_t *now);

/* ---- nccl.c ---- */

const tl_CommApi *cuda_comms(void);
/* NCCL's version as a number, such as 22807 for 2.28.7; 0 without NCCL */
int64_t cuda_nccl_version(void);

/* ---- linalg/cusolver.c ---- */

const tlk_Lapack *cuda_lapack(void);
/* cuSOLVER's version as a number, such as 120004 for 12.0.4; 0 without cuSOLVER */
int64_t cuda_cusolver_version(void);

/* ---- transfer.c ---- */

bool cuda_transfer(const struct tlk_transfer *call);

#endif
