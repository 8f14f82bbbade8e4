/*
** backend.h - a kind of device: its kernels (kernel.h), and, where it has memory
** and a clock of its own, that memory, its streams and its events.
**
** The CPU's table is built in, and the meta device's. Others come from plugins, shared libraries that
** are opened when a device of their kind is first asked for (plugin.c) and stay
** until the process ends. A plugin sees nothing of the engine but tl_Host.
*/
#ifndef TLI_BACKEND_H
#define TLI_BACKEND_H

#include "core/device/api.h"
#include "core/kernel/kernel.h"
#include "core/kernel/lapack.h"
#include "core/tensor/tensor.h"

typedef struct tl_Backend {
  const char *name; /* "cpu", "cuda", "sim", "meta" */
#define X(name, operands) bool (*name)(const struct tlk_##name *call);
  TLK_KERNELS(X)
#undef X
  const tlk_Lapack *lapack;   /* factorizations; NULL where there are none */
  const tl_DeviceApi *device; /* NULL: the CPU */
  bool conv_channels_last;    /* convolutions take tensors that lie so as they are */
} tl_Backend;

/* ---- who makes a call ------------------------------------------------------------ */

/* The operator that the calling thread is in, for messages; a static string. */
void tli_set_operator(const char *op);
const char *tli_operator(void);
/* Code that an operator in the calling thread has called, a finalizer or what packs saved
** tensors, runs between a call with true and one with what that has returned. The operator
** goes on with what it has read of its tensors, so meanwhile none of them may get other
** memory, sizes or strides: tli_may_reshape then fails in the name of `op`. */
bool tli_set_amid(bool amid);
bool tli_may_reshape(const char *op) TL_MUSTCHECK;
/* Where the running call was made, "script.lua:12", a string that stays for good;
** set by the binding, NULL without one. */
extern const char *(*_Atomic tli_call_site)(void);
/* Says that the running call waits for a device; set by the binding, NULL without one. */
extern void (*_Atomic tli_warn_wait)(tl_Device device);
/* While an operator calls others: a fault in what those are given is one in this
** argument, a static string, of the running operator. NULL: no longer. Returns what
** was set before. */
const char *tli_set_blamed(const char *argument);
/* The CPU reports a fault at once, when operator and site are known anyway. */
tlk_Blame tli_blame_late(const char *op, const char *argument);
static inline tlk_Blame tli_blame(tl_Device device, const char *op, const char *argument) {
  return device.type == TL_CPU ? (tlk_Blame){op, argument, NULL} : tli_blame_late(op, argument);
}

/* ---- finding them ---------------------------------------------------------------- */

/* The table of a device. Never NULL for the device of a tensor; for others, which
** may have to be opened first, NULL with TL_EDEVICE and how to get them. */
const tl_Backend *tli_backend_open(tl_Device device);
extern _Atomic(const tl_Backend *) tli_backends[TL_NDEVICETYPES]; /* NULL until opened */
static inline const tl_Backend *tli_backend(tl_Device device) {
  return atomic_load_explicit(&tli_backends[device.type], memory_order_acquire);
}
/* Whether no kind but the CPU was ever opened: then all tensors are there. */
extern atomic_bool tli_devices_opened;
static inline bool tli_only_cpu(void) {
  return !atomic_load_explicit(&tli_devices_opened, memory_order_relaxed);
}
/* Devices of a kind, 0 where there is none, with the reason in tl_error. */
int tli_device_count(tl_DeviceType type);

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

/* ---- plugins --------------------------------------------------------------------- */

/* Two builds fit together if this is the same in both: a hash of everything that
** they share. */
#define TL_PLUGIN_HASH ((uint64_t)TLK_HASH ^ sizeof(tl_Backend) ^ sizeof(tl_DeviceApi) << 20)

/* What users have set for kernels (settings.c), of the process. */
int64_t tli_setting(tl_Setting which);
void tli_set_setting(tl_Setting which, int64_t value);

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
  int64_t (*setting)(tl_Setting which);
  /* Has garbage that may hold tensors collected. To be called without a lock: tensors are freed,
  ** and a finalizer may call operators. */
  void (*collect)(void);
  /* What is kept on disk (disk_cache.h). */
  void *(*cache_load)(const char *kind, const void *key, size_t key_bytes, size_t *bytes);
  bool (*cache_store)(const char *kind, const void *key, size_t key_bytes, const void *data,
                      size_t bytes);
  /* Tells what became of memory, in the thread that had it done; may be called under
  ** the allocator's lock. Cheap unless somebody records the history. */
  void (*memory_event)(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                       int64_t stream_id);
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
/* The meta device's, built in: kernels that compute nothing, on tensors without memory. */
extern const tl_Backend tlk_meta_backend;
/* What the CPU's kernels were chosen for, "x86-64-v3", and what multiplies
** matrices, "OpenBLAS 0.3.21 ...": for people. */
const char *tlk_cpu_isa(void);
const char *tlk_blas_config(void);

#endif
