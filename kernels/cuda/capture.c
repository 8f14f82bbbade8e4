/*
** capture.c - captures work into graphs and replays them. A stream takes part in a capture if it
** began the capture or waited for an event that was recorded in it. The driver keeps track of this,
** and reports the id of the capture that a stream takes part in.
*/
#include <pthread.h>
#include <stdatomic.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

/* A capture that has begun and has not ended. */
typedef struct Capture {
  struct Capture *next;
  unsigned long long id; /* the driver's id of the capture */
  uint64_t pool;
  tl_Stream *stream; /* the stream that began the capture */
} Capture;

struct tl_Graph {
  int device;
  uint64_t pool;
  uint64_t launched; /* bit mask of the streams on which the graph has been launched */
  cudaGraphExec_t exec;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Capture *captures; /* owned */
static atomic_int open_captures;

/* Returns the pool of the capture with the given id; 0 if this plugin has no such capture. */
static uint64_t pool_of(unsigned long long id) {
  uint64_t pool = 0;
  pthread_mutex_lock(&lock);
  for (const Capture *c = captures; c; c = c->next)
    if (c->id == id) pool = c->pool;
  pthread_mutex_unlock(&lock);
  return pool;
}

bool cuda_capture_is_open(uint64_t number) { return pool_of(number) != 0; }

/* Asks the driver for the capture that a stream takes part in. In CUDA 13, the driver's function
** has one more argument, for the edges of the captured graph. */
static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                unsigned long long *id) {
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
#else
  return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL);
#endif
}

/* Returns the driver's id of the capture that a stream takes part in; 0 if there is none. */
static unsigned long long id_of(const tl_Stream *stream) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (capture_info(stream->handle, &status, &id) != cudaSuccess) cudaGetLastError();
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

uint64_t cuda_capture(const tl_Stream *stream) {
  if (atomic_load_explicit(&open_captures, memory_order_relaxed) == 0) return 0;
  return cuda_enter(stream->device) ? id_of(stream) : 0;
}

uint64_t cuda_capture_pool(const tl_Stream *stream) {
  uint64_t number = cuda_capture(stream);
  return number ? pool_of(number) : 0;
}

bool cuda_device_captures(int device) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const Capture *c = captures; c; c = c->next) found = found || c->stream->device == device;
  pthread_mutex_unlock(&lock);
  return found;
}

bool cuda_may_wait(const tl_Stream *stream, const char *what) {
  return cuda_capture(stream) == 0 ||
         cuda_fail(TL_EDEVICE, "%s: not possible while a graph is captured", what);
}

static int exchange(enum cudaStreamCaptureMode mode) {
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) cudaGetLastError();
  return (int)mode;
}

int cuda_relax(void) { return exchange(cudaStreamCaptureModeRelaxed); }

void cuda_unrelax(const int *mode) { exchange((enum cudaStreamCaptureMode) * mode); }

static enum cudaStreamCaptureMode mode_of(tl_CaptureMode mode) {
  return mode == TL_CAPTURE_GLOBAL         ? cudaStreamCaptureModeGlobal
         : mode == TL_CAPTURE_THREAD_LOCAL ? cudaStreamCaptureModeThreadLocal
                                           : cudaStreamCaptureModeRelaxed;
}

/* Registers a capture. Fails if the driver does not report the capture's id, because captures are
** looked up by their ids. */
static bool add(Capture *c, tl_Stream *stream, uint64_t pool) {
  *c = (Capture){.id = id_of(stream), .pool = pool, .stream = stream};
  if (c->id == 0)
    return cuda_fail(TL_EDEVICE,
                     "cudaStreamGetCaptureInfo: the stream has no capture after its begin");
  pthread_mutex_lock(&lock);
  c->next = captures;
  captures = c;
  pthread_mutex_unlock(&lock);
  atomic_fetch_add(&open_captures, 1);
  return true;
}

static void destroy(cudaGraph_t recorded) {
  CUDA_RELAXED;
  if (recorded) cudaGraphDestroy(recorded);
}

static bool begin(Capture *c, tl_Stream *stream, uint64_t pool, tl_CaptureMode mode) {
  cudaGraph_t recorded = NULL;
  CUDA_TRY(cudaStreamBeginCapture(stream->handle, mode_of(mode)));
  if (add(c, stream, pool)) return true;
  if (cudaStreamEndCapture(stream->handle, &recorded) != cudaSuccess) cudaGetLastError();
  destroy(recorded);
  return false;
}

/* Takes the capture that the stream began out of the list, and returns it. Returns NULL if the
** stream began none. */
static Capture *take(const tl_Stream *stream) {
  pthread_mutex_lock(&lock);
  Capture **at = &captures;
  while (*at && (*at)->stream != stream) at = &(*at)->next;
  Capture *c = *at;
  if (c) *at = c->next;
  pthread_mutex_unlock(&lock);
  if (c) atomic_fetch_sub(&open_captures, 1);
  return c;
}

bool cuda_capture_begin(tl_Stream *stream, uint64_t pool, tl_CaptureMode mode) {
  if (!cuda_enter(stream->device) || !cuda_may_wait(stream, "capturing") ||
      !cuda_memory_hold(stream->device, pool))
    return false;
  Capture *c = cuda_host->alloc(sizeof *c);
  cuda_memory_capture(stream->device, 1);
  if (c && begin(c, stream, pool, mode)) return true;
  if (c) cuda_host->free(c, sizeof *c);
  cuda_memory_capture(stream->device, -1);
  cuda_memory_let_go(stream->device, pool, 0);
  return false;
}

/* Makes an executable graph. The flag gives each node the priority of the stream on which it was
** captured. Without it, all nodes would get the priority of the stream on which the graph is
** launched. */
static bool instantiate(tl_Graph *graph, cudaGraph_t recorded) {
  CUDA_RELAXED;
  CUDA_TRY(cudaGraphInstantiate(&graph->exec, recorded, cudaGraphInstantiateFlagUseNodePriority));
  return true;
}

/* Ends a capture. The capture's reference to its pool passes to the graph. */
tl_Graph *cuda_capture_end(tl_Stream *stream) {
  cudaGraph_t recorded = NULL;
  if (!cuda_enter(stream->device)) return NULL;
  Capture *c = take(stream);
  if (c == NULL) {
    cuda_fail(TL_EDEVICE, "no graph is being captured on this stream");
    return NULL;
  }
  bool settled = fusion_settle_all(c->id);
  tl_Graph *graph = cuda_host->alloc(sizeof *graph);
  if (graph) *graph = (tl_Graph){.device = stream->device, .pool = c->pool};
  bool ok = cuda_ok(cudaStreamEndCapture(stream->handle, &recorded), "cudaStreamEndCapture") &&
            settled && graph && instantiate(graph, recorded);
  destroy(recorded);
  cuda_memory_capture(stream->device, -1);
  if (!ok) cuda_memory_let_go(stream->device, c->pool, 0);
  cuda_host->free(c, sizeof *c);
  if (ok) return graph;
  if (graph) cuda_host->free(graph, sizeof *graph);
  return NULL;
}

bool cuda_graph_launch(tl_Graph *graph, tl_Stream *stream) {
  if (!cuda_enter(stream->device) || !cuda_may_wait(stream, "replaying a graph")) return false;
  CUDA_TRY(cudaGraphLaunch(graph->exec, stream->handle));
  graph->launched |= (uint64_t)1 << stream->id;
  return true;
}

/* Frees a graph. A launch that is still running completes, because the driver keeps the resources
** that the launch needs. */
void cuda_graph_free(tl_Graph *graph) {
  if (cuda_enter(graph->device)) {
    CUDA_RELAXED;
    cudaGraphExecDestroy(graph->exec);
  }
  cuda_memory_let_go(graph->device, graph->pool, graph->launched);
  cuda_host->free(graph, sizeof *graph);
}
