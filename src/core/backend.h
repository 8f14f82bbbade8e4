/*
** backend.h - a kind of device: its kernels (kernel.h), and, where it has memory
** and a clock of its own, that memory, its streams and its events.
**
** The CPU's table is built in. Others come from plugins, shared libraries that
** are opened when a device of their kind is first asked for (plugin.c) and stay
** until the process ends. A plugin sees nothing of the engine but tl_Host.
*/
#ifndef TLI_BACKEND_H
#define TLI_BACKEND_H

#include "core/kernel.h"
#include "core/lapack.h"

/* A point of a stream's work, and work recorded for replay. */
typedef struct tl_Event tl_Event;
typedef struct tl_Graph tl_Graph;

/* Bytes from one place to another. */
struct tlk_transfer {
  const tlk_Context *cx; /* of the device, or of the one that receives */
  tl_Device to, from;    /* the CPU and a device, or two devices of one kind */
  void *dst;
  const void *src;
  int64_t bytes;
  bool async;             /* may return before the bytes have moved: host memory is pinned */
  tl_Stream *from_stream; /* of a device that sends: where the bytes were written */
};

typedef struct tl_DeviceProperties {
  char name[128];
  int64_t total_memory; /* bytes */
  int major, minor;     /* the compute capability; 0 where there is no such thing */
  int multi_processor_count;
} tl_DeviceProperties;

/* In bytes, but for the counts. */
typedef struct tl_MemoryStats {
  int64_t allocated, allocated_peak; /* by tensors */
  int64_t reserved, reserved_peak;   /* the same and what is kept for reuse */
  int64_t active_blocks, allocations, frees, retries, ooms;
  int64_t largest_free, total;
} tl_MemoryStats;

/* What is the device's own business. All may be called from any thread. What can
** fail returns false or NULL with a message; whatever waits for the device also
** reports the fault in its error word. */
typedef struct tl_DeviceApi {
  int (*count)(void);
  bool (*properties)(int index, tl_DeviceProperties *out);

  /* A block belongs to the stream it was asked for on: it may be handed out
  ** again as soon as it is freed, since what uses it next comes later on that
  ** stream. Other streams that use it must be made known by record_stream. */
  void *(*alloc)(const tlk_Context *cx, int64_t bytes);
  void (*free)(tl_Device device, void *data, int64_t bytes);
  bool (*record_stream)(tl_Device device, void *data, tl_Stream *stream);
  bool (*transfer)(const struct tlk_transfer *call);
  /* Gives memory that is kept for reuse back. */
  bool (*trim)(tl_Device device);
  bool (*memory_stats)(tl_Device device, tl_MemoryStats *out);
  bool (*reset_peaks)(tl_Device device);
  /* Host memory that the device reads without a copy of the driver's. */
  void *(*pinned_alloc)(int64_t bytes);
  void (*pinned_free)(void *data, int64_t bytes);

  /* Streams stay for good: a device hands a few out in turn. */
  tl_Stream *(*default_stream)(tl_Device device);
  tl_Stream *(*stream)(tl_Device device, int priority);
  int64_t (*stream_id)(const tl_Stream *stream);
  bool (*stream_sync)(tl_Stream *stream);
  bool (*stream_query)(tl_Stream *stream, bool *done);
  bool (*stream_wait)(tl_Stream *stream, tl_Event *event);
  bool (*sync)(tl_Device device);

  tl_Event *(*event)(tl_Device device, bool timing);
  void (*event_free)(tl_Event *event);
  bool (*event_record)(tl_Event *event, tl_Stream *stream);
  bool (*event_sync)(tl_Event *event);
  bool (*event_query)(tl_Event *event, bool *done);
  bool (*event_elapsed)(tl_Event *start, tl_Event *end, double *milliseconds);

  /* Between the two calls what is put on the stream is recorded, not run; what
  ** is allocated meanwhile stays the graph's. */
  bool (*capture_begin)(tl_Stream *stream);
  tl_Graph *(*capture_end)(tl_Stream *stream);
  bool (*capturing)(const tl_Stream *stream);
  bool (*graph_launch)(tl_Graph *graph, tl_Stream *stream);
  void (*graph_free)(tl_Graph *graph);

  /* How often the host has waited for the device so far. */
  int64_t (*waits)(tl_Device device);
  /* Settings of the kind's own; NULL where there are none. */
  bool (*configure)(const char *key, int64_t value);
} tl_DeviceApi;

typedef struct tl_Backend {
  const char *name; /* "cpu", "cuda", "sim" */
#define X(name, operands) bool (*name)(const struct tlk_##name *call);
  TLK_KERNELS(X)
#undef X
  const tlk_Lapack *lapack;   /* factorizations; NULL where there are none */
  const tl_DeviceApi *device; /* NULL: the CPU */
} tl_Backend;

/* ---- finding them ---------------------------------------------------------------- */

/* The table of a device. Never NULL for the device of a tensor; for others, which
** may have to be opened first, NULL with TL_EDEVICE and how to get them. */
const tl_Backend *tli_backend_open(tl_Device device);
extern _Atomic(const tl_Backend *) tli_backends[TL_NDEVICETYPES]; /* NULL until opened */
static inline const tl_Backend *tli_backend(tl_Device device) {
  return atomic_load_explicit(&tli_backends[device.type], memory_order_acquire);
}
/* Devices of a kind, 0 where there is none, with the reason in tl_error. */
int tli_device_count(tl_DeviceType type);

#define TL_MAX_DEVICES 32 /* of a kind */

/* The context of the calling thread's current stream of a device. */
const tlk_Context *tli_context_of(tl_Device device);
extern const tlk_Context tli_cpu_context;
static inline const tlk_Context *tli_context(tl_Device device) {
  return device.type == TL_CPU ? &tli_cpu_context : tli_context_of(device);
}

/* Runs a kernel on a device, on the current stream:
**   TLI_RUN(device, softmax, .log = true, .out = ..., ...) */
#define TLI_RUN(on, kernel, ...) \
  tli_backend(on)->kernel(&(struct tlk_##kernel){.cx = tli_context(on), __VA_ARGS__})

/* The calling thread's current stream of a device, the default one at first. */
tl_Stream *tli_stream(tl_Device device);
void tli_set_stream(tl_Device device, tl_Stream *stream);
/* Makes a stream current for a while, also where the calling thread's modes are
** loaded meanwhile: they then mean it by the stream that was current before. Nests. */
typedef struct tli_StandIn {
  tl_Device device;
  tl_Stream *before, *stream;
  struct tli_StandIn *outer;
} tli_StandIn;
void tli_stand_in(tli_StandIn *s, tl_Device device, tl_Stream *stream);
void tli_stand_in_end(const tli_StandIn *s);
/* What `next` is given from now on comes after what `first` has been given so far. */
bool tli_stream_follow(tl_Device device, tl_Stream *next, tl_Stream *first) TL_MUSTCHECK;
/* Where new tensors of the calling thread go that name no device. */
tl_Device tli_default_device(void);
void tli_set_default_device(tl_Device device);
/* The device that "cuda" means to the calling thread, without a number. */
int tli_current_device(tl_DeviceType type);
void tli_set_current_device(tl_DeviceType type, int index);

/* ---- plugins --------------------------------------------------------------------- */

/* Two builds fit together if this is the same in both: a hash of everything that
** they share. */
#define TL_PLUGIN_HASH ((uint64_t)TLK_HASH ^ sizeof(tl_Backend) ^ sizeof(tl_DeviceApi) << 20)

/* What a plugin may use of the engine. */
typedef struct tl_Host {
  uint64_t hash;
  const tl_Backend *cpu;
  void *(*alloc)(size_t bytes);
  void (*free)(void *block, size_t bytes);
  bool (*fail)(tl_ErrorKind kind, const char *format, ...);
  bool (*fault_fail)(const tlk_Fault *fault);
  const char *(*error)(void);
  tl_ErrorKind (*error_kind)(void);
  const char *(*running)(void); /* the operator that the calling thread is in */
} tl_Host;

typedef struct tl_Plugin {
  uint64_t hash; /* stays the first member in all versions to come */
  const tl_Backend *backend;
} tl_Plugin;

/* The one function that a plugin exports, under this name. The plugin's table
** stays valid for good; NULL, with a message by host->fail, where the plugin finds
** no device. Called once. */
#define TL_PLUGIN_ENTRY "tlua_plugin_open"
typedef const tl_Plugin *(*tl_PluginOpen)(const tl_Host *host);
TL_API const tl_Plugin *tlua_plugin_open(const tl_Host *host);

/* The CPU's, built in. The best instruction set is chosen on the first call. */
extern const tl_Backend tlk_cpu_backend;
/* What the CPU's kernels were chosen for, "x86-64-v3", and what multiplies
** matrices, "OpenBLAS 0.3.21 ...": for people. */
const char *tlk_cpu_isa(void);
const char *tlk_blas_config(void);

#endif
