/*
** event.c - events. The driver's event is created when an event is first recorded, on the device of
** the stream that records it.
*/
#include <stdatomic.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

struct tl_Event {
  int device;
  int flags;
  cudaEvent_t handle; /* the driver's event (owned); NULL until the event is recorded */
  /* number of the capture in which the event was last recorded; 0 if it was not recorded in a
  ** capture */
  uint64_t capture;
};

tl_Event *cuda_event(tl_Device device, int flags) {
  tl_Event *event = cuda_host->alloc(sizeof *event);
  if (event) *event = (tl_Event){.device = device.index, .flags = flags};
  return event;
}

cudaEvent_t cuda_event_handle(const tl_Event *event) { return event->handle; }

uint64_t cuda_event_capture(const tl_Event *event) { return event->capture; }

/* Returns false with a message if an event was recorded during a capture, because such an event has
** no time stamp. */
static bool is_outside(const tl_Event *event, const char *what) {
  return event->capture == 0 ||
         cuda_fail(TL_EDEVICE, "%s: the event was recorded while a graph was captured", what);
}

void cuda_event_free(tl_Event *event) {
  if (event->handle && cuda_enter(event->device)) cudaEventDestroy(event->handle);
  cuda_host->free(event, sizeof *event);
}

bool cuda_event_record(tl_Event *event, tl_Stream *stream) {
  if (!cuda_enter(stream->device) || !fusion_settle(stream)) return false;
  if (event->handle == NULL) {
    unsigned flags = event->flags & TL_EVENT_TIMING ? cudaEventDefault : cudaEventDisableTiming;
    if (event->flags & TL_EVENT_BLOCKING) flags |= cudaEventBlockingSync;
    CUDA_TRY(cudaEventCreateWithFlags(&event->handle, flags));
    event->device = stream->device;
  }
  CUDA_TRY(cudaEventRecord(event->handle, stream->handle));
  event->capture = cuda_capture(stream);
  return true;
}

bool cuda_event_sync(tl_Event *event) {
  if (event->handle == NULL) return true;
  if (!cuda_enter(event->device) || !is_outside(event, "waiting")) return false;
  if (cuda_device_captures(event->device))
    return cuda_fail(TL_EDEVICE, "waiting for an event: not possible while a graph is captured");
  cuda_count_wait(event->device);
  CUDA_RELAXED;
  CUDA_TRY(cudaEventSynchronize(event->handle));
  return cuda_report(event->device);
}

bool cuda_event_query(tl_Event *event, bool *done) {
  *done = true;
  if (event->handle == NULL) return true;
  if (!cuda_enter(event->device) || !is_outside(event, "asking an event")) return false;
  CUDA_RELAXED;
  cudaError_t error = cudaEventQuery(event->handle);
  *done = error == cudaSuccess;
  return error == cudaErrorNotReady || cuda_ok(error, "cudaEventQuery");
}

bool cuda_event_elapsed(tl_Event *start, tl_Event *end, double *milliseconds) {
  float elapsed = 0;
  bool started, ended;
  if (!is_outside(start, "elapsed_time") || !is_outside(end, "elapsed_time")) return false;
  if (!(start->flags & end->flags & TL_EVENT_TIMING))
    return cuda_host->fail(TL_EARG, "elapsed_time: both events must have been made with "
                                    "enable_timing = true");
  if (start->handle == NULL || end->handle == NULL)
    return cuda_host->fail(TL_EARG, "elapsed_time: both events must have been recorded");
  if (!cuda_event_query(start, &started) || !cuda_event_query(end, &ended)) return false;
  if (!started || !ended)
    return cuda_host->fail(TL_EARG,
                           "elapsed_time: both events must be completed; synchronize first");
  CUDA_RELAXED;
  CUDA_TRY(cudaEventElapsedTime(&elapsed, start->handle, end->handle));
  *milliseconds = elapsed;
  return true;
}
