/*
** stream.cc - streams, events and graphs. A stream is a queue. Its work runs at once or, with
** TLUA_EMULATED_LAZY, only when somebody waits; streams then proceed in random order, so that a
** missing wait shows.
*/
#include "spec/cuda/inside.h"
#include "spec/cuda/library.h"

#include <chrono>
#include <memory>
#include <set>
#include <thread>

using namespace emulated;

/* ---- types ------------------------------------------------------------------------------ */

namespace {

/* A point in a stream that an event has recorded. */
struct Point {
  bool reached = false;
  double time = 0; /* in milliseconds */
};
typedef std::shared_ptr<Point> PointRef;

enum Kind { WORK, REACH, WAIT, GATE };
struct Command {
  Kind kind;
  Work work;
  PointRef point;
  std::function<bool()> open; /* for GATE: whether other processes are ready */
};

struct Node {
  Work work;
  int priority;
  std::set<int> after; /* indices of the nodes that must run before */
};
typedef std::vector<Node> Nodes;

struct Capture {
  std::shared_ptr<Nodes> nodes = std::make_shared<Nodes>();
  CUstream_st *origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool spoilt = false;
};
typedef std::shared_ptr<Capture> CaptureRef;

} // namespace

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  unsigned long long id;
  std::deque<Command> queue;
  CaptureRef capture;
  std::set<int> after; /* nodes that the next node must wait for */
};

struct CUevent_st {
  int device;
  unsigned flags;
  PointRef point;     /* the last recorded one, or null */
  CaptureRef capture; /* where it was recorded, or null */
  std::set<int> after;
};

struct CUgraph_st {
  std::shared_ptr<Nodes> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<Nodes> nodes;
  int device;
  bool by_priority;
};

namespace {

template <class T> std::set<T *> &handles() { return *new std::set<T *>(); }
std::set<CUstream_st *> &streams = handles<CUstream_st>();
std::set<CUevent_st *> &events = handles<CUevent_st>();
std::set<CUgraph_st *> &graphs = handles<CUgraph_st>();
std::set<CUgraphExec_st *> &execs = handles<CUgraphExec_st>();
unsigned long long last_id;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

template <class T> bool known(const std::set<T *> &all, T *handle) {
  return all.count(handle) != 0;
}

CUstream_st *stream_new(int device, unsigned flags, int priority) {
  CUstream_st *stream = new CUstream_st();
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = ++last_id;
  streams.insert(stream);
  return stream;
}

/* Returns the legacy default stream, whose handle is 0. */
CUstream_st *legacy(int device) {
  static std::map<int, CUstream_st *> &all = *new std::map<int, CUstream_st *>();
  CUstream_st *&stream = all[device];
  if (stream == nullptr) stream = stream_new(device, cudaStreamDefault, 0);
  return stream;
}

double milliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/* ---- running queued work ------------------------------------------------------------------ */

enum { MOST_QUEUED = 256 };

bool runnable(const CUstream_st *stream) {
  if (stream->queue.empty()) return false;
  const Command &next = stream->queue.front();
  if (next.kind == GATE) return next.open();
  return next.kind != WAIT || next.point->reached;
}

void work_off(CUstream_st *stream) {
  Command command = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (command.kind == WORK) command.work();
  if (command.kind == REACH) {
    command.point->reached = true;
    command.point->time = milliseconds();
  }
}

/* Returns a random stream that can proceed; null if all of them wait for other processes. */
CUstream_st *drawn() {
  CUstream_st *found = nullptr;
  uint64_t seen = 0;
  bool gated = false;
  for (CUstream_st *stream : streams) {
    if (runnable(stream) && draw() % ++seen == 0) found = stream;
    gated = gated || (!stream->queue.empty() && stream->queue.front().kind == GATE);
  }
  if (found == nullptr && !gated) stop("streams wait for each other");
  return found;
}

/* Releases the lock for a moment, so that other threads can take it. */
void nap() {
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  lock.lock();
}

template <class Done> void work_until(CUstream_st *preferred, Done done) {
  while (!done()) {
    bool first = preferred && runnable(preferred) && (!settings.lazy || draw() % 2);
    CUstream_st *next = first ? preferred : drawn();
    if (next)
      work_off(next);
    else
      nap();
  }
}

void work_off_all(CUstream_st *stream) {
  work_until(stream, [=] { return stream->queue.empty(); });
}

void put_command(CUstream_st *stream, Command command) {
  stream->queue.push_back(std::move(command));
  while (!settings.lazy && !stream->queue.empty() && runnable(stream)) work_off(stream);
  if (stream->queue.size() > MOST_QUEUED) work_off_all(stream);
}

/* ---- captures ------------------------------------------------------------------------------ */

void add_node(CUstream_st *stream, Work work) {
  Nodes &nodes = *stream->capture->nodes;
  nodes.push_back({std::move(work), stream->priority, stream->after});
  stream->after = {(int)nodes.size() - 1};
}

void leave_capture(const CaptureRef &capture) {
  for (CUstream_st *stream : streams)
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->after.clear();
    }
}

/* Returns whether all captured nodes come before the end of the stream that began the capture. */
bool joined(const Capture &capture) {
  std::set<int> before = capture.origin->after;
  for (int i = (int)capture.nodes->size() - 1; i >= 0; i--) {
    const std::set<int> &after = (*capture.nodes)[(size_t)i].after;
    if (before.count(i)) before.insert(after.begin(), after.end());
  }
  return before.size() == capture.nodes->size();
}

cudaError_t spoil(CUstream_st *stream, cudaError_t error) {
  stream->capture->spoilt = true;
  return error;
}

/* Runs nodes in a random order in which each node comes after those that it depends on and, if
** `by_priority`, after all runnable ones of higher priority (a lower number). */
void run_nodes(const Nodes &nodes, bool by_priority) {
  std::vector<bool> done(nodes.size());
  for (size_t left = nodes.size(); left > 0; left--) {
    size_t chosen = nodes.size(), seen = 0;
    for (size_t i = 0; i < nodes.size(); i++) {
      bool free = !done[i], first = chosen == nodes.size();
      for (int before : nodes[i].after) free = free && done[(size_t)before];
      int higher = by_priority && free && !first ? nodes[chosen].priority - nodes[i].priority : 0;
      if (!free || higher < 0) continue;
      if (higher > 0) seen = 0;
      if (first || higher > 0 || settings.lazy)
        if (draw() % ++seen == 0) chosen = i;
    }
    nodes[chosen].work();
    done[chosen] = true;
  }
}

} // namespace

/* ---- functions for other files ------------------------------------------------------------- */

namespace emulated {

CUstream_st *stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy(current_device);
  return known(streams, handle) ? handle : nullptr;
}

bool capturing(const CUstream_st *stream) { return stream->capture != nullptr; }

cudaError_t put(cudaStream_t handle, Work work) {
  CUstream_st *stream = stream_of(handle);
  if (stream == nullptr || stream->device != current_device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    if (stream->capture->spoilt) return cudaErrorStreamCaptureInvalidated;
    add_node(stream, std::move(work));
    return cudaSuccess;
  }
  if (stream == legacy(stream->device))
    for (CUstream_st *other : streams)
      if (other->device == stream->device && !(other->flags & cudaStreamNonBlocking))
        work_off_all(other);
  put_command(stream, {WORK, std::move(work), nullptr, nullptr});
  return cudaSuccess;
}

cudaError_t finish(CUstream_st *stream) {
  if (stream->capture) return spoil(stream, cudaErrorStreamCaptureUnsupported);
  work_off_all(stream);
  return cudaSuccess;
}

void finish_device(int device) {
  for (CUstream_st *stream : streams)
    if (stream->device == device) work_off_all(stream);
}

/* Spoils captures that forbid the present call, and returns an error if there are any: this
** thread's, and global captures of any thread. */
cudaError_t forbidden_while_capturing() {
  cudaError_t error = cudaSuccess;
  if (thread_mode == cudaStreamCaptureModeRelaxed) return error;
  for (CUstream_st *stream : streams) {
    const Capture *c = stream->capture.get();
    if (c == nullptr || c->mode == cudaStreamCaptureModeRelaxed) continue;
    bool ours = c->thread == std::this_thread::get_id();
    bool global =
        c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (ours || global) error = spoil(stream, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t forbidden_beside_captures(int device) {
  cudaError_t error = cudaSuccess;
  for (CUstream_st *stream : streams)
    if (stream->capture && stream->device == device)
      error = spoil(stream, cudaErrorStreamCaptureUnsupported);
  return error;
}

} // namespace emulated

/* ---- streams --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  return call(__func__, [&] {
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *out = stream_new(current_device, flags, std::max(-5, std::min(0, priority)));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *out) {
  return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

/* Calls work(stream) if the handle denotes a stream. */
template <class W> static cudaError_t with_stream(const char *name, cudaStream_t handle, W work) {
  return call(name, [&] {
    CUstream_st *stream = stream_of(handle);
    return stream ? work(stream) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call_free(__func__, [&] {
    if (!known(streams, handle)) return cudaErrorInvalidResourceHandle;
    if (handle->capture) handle->capture->spoilt = true;
    work_off_all(handle);
    streams.erase(handle);
    delete handle;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
  return with_stream(__func__, handle, [&](CUstream_st *stream) {
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags) {
  return with_stream(__func__, handle, [&](CUstream_st *stream) {
    *flags = stream->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id) {
  return with_stream(__func__, handle, [&](CUstream_st *stream) {
    *id = stream->id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(__func__, handle, finish);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(__func__, handle, [](CUstream_st *stream) {
    if (stream->capture) return spoil(stream, cudaErrorStreamCaptureUnsupported);
    if (runnable(stream) && draw() % 2) work_off(stream); /* time passes */
    return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data) {
  return call(__func__, [&] { return put(stream, [=] { fn(data); }); });
}

/* Queues work that involves other processes, for replacements of libraries such as NCCL. `ready` is
** polled until it returns true. In a graph, only `begin` is recorded. */
extern "C" __attribute__((visibility("default"))) int
emulated_exchange(cudaStream_t handle, void (*begin)(void *), int (*ready)(void *),
                  void (*end)(void *), void *data) {
  return call(__func__, [&] {
    cudaError_t error = put(handle, [=] { begin(data); });
    if (error != cudaSuccess || capturing(stream_of(handle))) return error;
    put_command(stream_of(handle), {GATE, nullptr, nullptr, [=] { return ready(data) != 0; }});
    return put(handle, [=] { end(data); });
  });
}

/* ---- captures -------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
  return with_stream(__func__, handle, [&](CUstream_st *stream) {
    if (stream->capture) return cudaErrorIllegalState;
    if (stream == legacy(stream->device)) return cudaErrorStreamCaptureUnsupported;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->after.clear();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  *graph = nullptr;
  return with_stream(__func__, handle, [&](CUstream_st *stream) {
    CaptureRef c = stream->capture;
    if (c == nullptr) return cudaErrorIllegalState;
    if (c->origin != stream) return spoil(stream, cudaErrorStreamCaptureUnmatched);
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
      return spoil(stream, cudaErrorStreamCaptureWrongThread);
    cudaError_t error = c->spoilt     ? cudaErrorStreamCaptureInvalidated
                        : !joined(*c) ? cudaErrorStreamCaptureUnjoined
                                      : cudaSuccess;
    leave_capture(c);
    if (error != cudaSuccess) return error;
    *graph = new CUgraph_st{c->nodes};
    graphs.insert(*graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
  return with_stream(__func__, handle, [&](CUstream_st *stream) {
    *status = !stream->capture          ? cudaStreamCaptureStatusNone
              : stream->capture->spoilt ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *, const void **,
                                     const void **, size_t *) {
  cudaError_t error = cudaStreamIsCapturing(handle, status);
  return error != cudaSuccess ? error : with_stream(__func__, handle, [&](CUstream_st *stream) {
    *id = (unsigned long long)(uintptr_t)stream->capture.get();
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

/* ---- events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  return call(__func__, [&] {
    *out = new CUevent_st();
    (*out)->device = current_device;
    (*out)->flags = flags;
    events.insert(*out);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t *out) {
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call_free(__func__, [&] {
    if (events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

template <class W> static cudaError_t with_event(const char *name, cudaEvent_t event, W work) {
  return call(name, [&] { return known(events, event) ? work() : cudaErrorInvalidResourceHandle; });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return with_event(__func__, event, [&] {
    CUstream_st *stream = stream_of(handle);
    if (stream == nullptr || stream->device != event->device) return cudaErrorInvalidResourceHandle;
    event->capture = stream->capture;
    event->after = stream->after;
    event->point = nullptr;
    if (stream->capture)
      return stream->capture->spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    event->point = std::make_shared<Point>();
    put_command(stream, {REACH, nullptr, event->point, nullptr});
    return cudaSuccess;
  });
}

/* Makes a stream that waits for an event of a capture part of that capture. */
static cudaError_t wait_captured(CUstream_st *stream, const CUevent_st &event) {
  if (stream->capture && stream->capture->spoilt) return cudaErrorStreamCaptureInvalidated;
  if (event.capture == nullptr) return spoil(stream, cudaErrorStreamCaptureIsolation);
  if (event.capture->origin->capture != event.capture) return cudaErrorCapturedEvent;
  if (stream->capture && stream->capture != event.capture)
    return spoil(stream, cudaErrorStreamCaptureMerge);
  stream->capture = event.capture;
  stream->after.insert(event.after.begin(), event.after.end());
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return with_event(__func__, event, [&] {
    CUstream_st *stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture || event->capture) return wait_captured(stream, *event);
    if (event->point) put_command(stream, {WAIT, nullptr, event->point, nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_event(__func__, event, [&] {
    if (event->capture) return cudaErrorCapturedEvent;
    if (event->point) work_until(nullptr, [=] { return event->point->reached; });
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_event(__func__, event, [&] {
    if (event->capture) return cudaErrorCapturedEvent;
    if (event->point == nullptr || event->point->reached) return cudaSuccess;
    CUstream_st *next = draw() % 2 ? drawn() : nullptr; /* time passes */
    if (next) work_off(next);
    return event->point->reached ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t start, cudaEvent_t end) {
  return with_event(__func__, start, [&] {
    if (!known(events, end) || ((start->flags | end->flags) & cudaEventDisableTiming) ||
        !start->point || !end->point)
      return cudaErrorInvalidResourceHandle;
    if (!start->point->reached || !end->point->reached) return cudaErrorNotReady;
    *out = (float)(end->point->time - start->point->time);
    return cudaSuccess;
  });
}

/* ---- graphs ---------------------------------------------------------------------------------- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags) {
  return call(__func__, [&] {
    if (!known(graphs, graph)) return cudaErrorInvalidValue;
    bool by_priority = (flags & cudaGraphInstantiateFlagUseNodePriority) != 0;
    *out = new CUgraphExec_st{graph->nodes, current_device, by_priority};
    execs.insert(*out);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count) {
  return call(__func__, [&] {
    if (!known(graphs, graph)) return cudaErrorInvalidValue;
    *count = graph->nodes->size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return call(__func__, [&] { return known(execs, exec) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call(__func__, [&] {
    if (!known(execs, exec)) return cudaErrorInvalidValue;
    std::shared_ptr<Nodes> nodes = exec->nodes;
    bool by_priority = exec->by_priority;
    return put(stream, [=] { run_nodes(*nodes, by_priority); });
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call_free(__func__, [&] {
    if (execs.erase(exec) == 0) return cudaErrorInvalidValue;
    delete exec;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call_free(__func__, [&] {
    if (graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

/* ---- host functions -------------------------------------------------------------------------- */

cudaError_t tlk_emulated_put(cudaStream_t stream, void (*run)(void *data), const void *data,
                             size_t bytes) {
  std::string original(static_cast<const char *>(data), bytes);
  return call(__func__, [&] {
    return put(stream, [run, original] {
      std::string copy = original;
      run(&copy[0]);
    });
  });
}
