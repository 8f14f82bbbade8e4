/*
** stream.c - streams. A device has a default stream, which is not the driver's legacy stream. It
** also has a few streams of each priority, which are given to callers in turn and never destroyed.
** Streams of other libraries can be passed in by the program (cuda_stream_of).
*/
#include <pthread.h>
#include <stdatomic.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

/* Number of streams of each priority. A mask of 64 bits must have a bit for every stream. */
#define POOL 24
#define OTHERS 15
#define FIRST_OTHER (1 + 2 * POOL)

typedef struct Streams {
  /* the default stream, then streams of low priority, of high priority, and of other libraries */
  tl_Stream all[FIRST_OTHER + OTHERS];
  int others; /* number of streams of other libraries; the lock guards it */
  atomic_uint next[2];
  int least, greatest; /* the device's range of priorities */
} Streams;

static Streams streams[CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool make(tl_Stream *stream, int device, int id, int priority) {
  CUDA_RELAXED;
  CUDA_TRY(cudaStreamCreateWithPriority(&stream->handle, cudaStreamNonBlocking, priority));
  stream->device = device;
  stream->id = id;
  return true;
}

bool cuda_streams_open(int device) {
  Streams *s = &streams[device];
  CUDA_TRY(cudaDeviceGetStreamPriorityRange(&s->least, &s->greatest));
  return make(&s->all[0], device, 0, 0);
}

tl_Stream *cuda_stream_by_id(int device, int id) { return &streams[device].all[id]; }

/* Returns the default stream. This works even for a device that cannot be opened, so that a context
** can be made. The first call on such a stream reports the error. */
tl_Stream *cuda_default_stream(tl_Device device) {
  tl_Stream *stream = &streams[device.index].all[0];
  stream->device = device.index;
  cuda_enter(device.index);
  return stream;
}

tl_Stream *cuda_stream(tl_Device device, int priority) {
  Streams *s = &streams[device.index];
  int high = priority < 0;
  if (!cuda_enter(device.index)) return NULL;
  int id = 1 + high * POOL + (int)(atomic_fetch_add(&s->next[high], 1) % POOL);
  pthread_mutex_lock(&lock);
  bool ok =
      s->all[id].handle != NULL || make(&s->all[id], device.index, id, high ? s->greatest : 0);
  pthread_mutex_unlock(&lock);
  return ok ? &s->all[id] : NULL;
}

/* Returns the stream with this handle, and registers it if necessary. The caller holds the lock. */
static tl_Stream *find_stream(Streams *s, int device, cudaStream_t handle) {
  for (int id = 0; id < FIRST_OTHER + s->others; id++)
    if (s->all[id].handle == handle) return &s->all[id];
  if (s->others == OTHERS) {
    cuda_fail(TL_EDEVICE, "at most %d streams of other libraries can be used", OTHERS);
    return NULL;
  }
  tl_Stream *stream = &s->all[FIRST_OTHER + s->others];
  if (cudaStreamGetPriority(handle, &stream->priority) != cudaSuccess) {
    cudaGetLastError();
    cuda_fail(TL_EDEVICE, "%p is not the handle of a stream of cuda:%d", (void *)handle, device);
    return NULL;
  }
  s->others++;
  stream->device = device;
  stream->id = (int)(stream - s->all);
  stream->handle = handle;
  stream->shared = true;
  return stream;
}

tl_Stream *cuda_stream_of(tl_Device device, void *handle) {
  if (!cuda_enter(device.index)) return NULL;
  pthread_mutex_lock(&lock);
  tl_Stream *stream =
      find_stream(&streams[device.index], device.index, handle ? handle : cudaStreamLegacy);
  pthread_mutex_unlock(&lock);
  return stream;
}

/* Returns the driver's handle of a stream. From then on, other libraries may use the handle, so
** calls on the stream are launched at once instead of waiting for fusion (fusion/chain.c). */
void *cuda_stream_handle(const tl_Stream *stream) {
  ((tl_Stream *)(uintptr_t)stream)->shared = true;
  /* if launching the pending calls fails, the error is reported when the graph's capture ends */
  (void)!fusion_settle(stream);
  return stream->handle;
}

int64_t cuda_stream_id(const tl_Stream *stream) { return stream->id; }

int cuda_stream_priority(const tl_Stream *stream) {
  if (stream->id >= FIRST_OTHER) return stream->priority;
  return stream->id > POOL ? streams[stream->device].greatest : 0;
}

void cuda_priority_range(tl_Device device, int *least, int *greatest) {
  *least = *greatest = 0;
  if (!cuda_enter(device.index)) return;
  *least = streams[device.index].least;
  *greatest = streams[device.index].greatest;
}

bool cuda_stream_sync(tl_Stream *stream) {
  if (!cuda_enter(stream->device)) return false;
  if (!cuda_may_wait(stream, "waiting for the device")) return false;
  cuda_count_wait(stream->device);
  CUDA_RELAXED;
  CUDA_TRY(cudaStreamSynchronize(stream->handle));
  return cuda_report(stream->device);
}

bool cuda_stream_query(tl_Stream *stream, bool *done) {
  if (!cuda_enter(stream->device) || !cuda_may_wait(stream, "asking a stream")) return false;
  CUDA_RELAXED;
  cudaError_t error = cudaStreamQuery(stream->handle);
  *done = error == cudaSuccess;
  if (error == cudaErrorNotReady) return true;
  return cuda_ok(error, "cudaStreamQuery") && cuda_report(stream->device);
}

/* Returns whether a stream may wait for an event. If the driver would invalidate the capture
** because of this wait, returns false with a message. */
static bool may_join(const tl_Stream *stream, const tl_Event *event) {
  static const char name[] = "waiting for an event";
  uint64_t ours = cuda_capture(stream), its = cuda_event_capture(event);
  if (ours && !its)
    return cuda_fail(TL_EDEVICE, "%s: it was recorded outside of the graph that is captured", name);
  if (its && !cuda_capture_is_open(its))
    return cuda_fail(TL_EDEVICE, "%s: it was recorded in a capture that has ended; record it again",
                     name);
  return !ours || ours == its ||
         cuda_fail(TL_EDEVICE, "%s: it was recorded in another capture", name);
}

bool cuda_stream_wait(tl_Stream *stream, tl_Event *event) {
  cudaEvent_t handle = cuda_event_handle(event);
  if (!cuda_enter(stream->device)) return false;
  /* if the event was never recorded, there is nothing to wait for */
  if (handle == NULL) return true;
  if (!may_join(stream, event) || !fusion_settle(stream)) return false;
  CUDA_TRY(cudaStreamWaitEvent(stream->handle, handle, 0));
  return true;
}

bool cuda_sync(tl_Device device) {
  if (!cuda_enter(device.index)) return false;
  if (cuda_device_captures(device.index))
    return cuda_fail(TL_EDEVICE, "waiting for the device: not possible while a graph is captured");
  cuda_count_wait(device.index);
  CUDA_RELAXED;
  CUDA_TRY(cudaDeviceSynchronize());
  return cuda_report(device.index);
}
