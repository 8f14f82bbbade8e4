/*
** plugin.c - the plugin's entry point, its function tables, the devices, and their errors.
*/
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/rnn/cudnn_rnn.h"
#include "core/device/host.h"

typedef struct Device {
  pthread_mutex_t lock;
  /* whether the device's streams and the memory for its faults exist; the first use of the device
  ** creates them */
  atomic_bool open;
  cuda_Word word;
  /* the stream on which the fault word is cleared, and on which no other work is queued */
  cudaStream_t aside;
  int multiprocessors, shared_bytes;
  _Atomic int64_t waits;
  atomic_bool failed;
  /* the message with which the next wait for the device fails, set by cuda_note_failure
  ** (guarded) */
  char why[1500];
} Device;

const tl_Host *cuda_host;

static int ndevices;
static Device devices[CUDA_MAX_DEVICES];
/* true in a forked child of the process that opened the devices, where CUDA does not work */
static atomic_bool forked;
static _Thread_local int current = -1;

/* ---- errors ---------------------------------------------------------------------- */

bool cuda_fail(tl_ErrorKind kind, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return cuda_host->fail(kind, "cuda: %s", text);
}

/* Returns whether all later calls of the process fail after this error. This is so for hardware
** faults (214) and for the failures of running kernels among the numbers 700 to 719. */
static bool is_final(cudaError_t error) {
  int number = (int)error;
  return number == 214 || number == 700 || number == 702 || number == 710 ||
         (number >= 714 && number <= 719);
}

static int attribute(int device, enum cudaDeviceAttr which) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) cudaGetLastError();
  return value;
}

/* Reports that this build contains no code for the device's architecture. */
static bool no_image(int device) {
  int major = attribute(device, cudaDevAttrComputeCapabilityMajor);
  int minor = attribute(device, cudaDevAttrComputeCapabilityMinor);
  return cuda_fail(TL_EDEVICE,
                   "cuda:%d has compute capability %d.%d, and this build has kernels for %s; "
                   "build with make CUDA_ARCH=\"%s %d%d\"",
                   device, major, minor, TLK_CUDA_ARCH, TLK_CUDA_ARCH, major, minor);
}

bool cuda_ok(cudaError_t error, const char *call) {
  if (error == cudaSuccess) return true;
  cudaGetLastError(); /* clears the runtime's error, because later calls would report it again */
  tl_ErrorKind kind = error == cudaErrorMemoryAllocation ? TL_EMEM : TL_EDEVICE;
  size_t name = strcspn(call, "(");
  if (error == cudaErrorNoKernelImageForDevice && current >= 0) return no_image(current);
  return cuda_fail(kind, "%.*s: %s (%s)%s", (int)name, call, cudaGetErrorString(error),
                   cudaGetErrorName(error),
                   is_final(error) ? "; this process can use no GPU any more" : "");
}

/* ---- devices ----------------------------------------------------------------------- */

/* Clears the fault word when the device is opened and after each report. A separate stream is used,
** because the plugin's streams do not synchronise with the default stream and may be captured. */
static bool clear_word(const Device *d) {
  CUDA_RELAXED;
  CUDA_TRY(cudaMemsetAsync(d->word.taken, 0, sizeof(int), d->aside));
  CUDA_TRY(cudaStreamSynchronize(d->aside));
  return true;
}

static bool open_word(Device *d) {
  void *fault, *taken;
  CUDA_TRY(cudaHostAlloc(&fault, sizeof(tlk_Fault), cudaHostAllocMapped | cudaHostAllocPortable));
  CUDA_TRY(cudaMalloc(&taken, sizeof(int)));
  CUDA_TRY(cudaStreamCreateWithFlags(&d->aside, cudaStreamNonBlocking));
  memset(fault, 0, sizeof(tlk_Fault));
  d->word = (cuda_Word){taken, fault};
  return clear_word(d);
}

/* Returns the largest size of a block's dynamic shared memory. This is the device's limit minus
** room for static arrays, but at most 200 KB, because with more each multiprocessor would run only
** one block at a time. */
static int shared_most(int most) {
  const int enough = 200 * 1024, arrays = 4 * 1024;
  return most - arrays < enough ? most - arrays : enough;
}

static bool open_device(Device *d, int device) {
  int most = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&d->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  CUDA_TRY(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  d->shared_bytes = shared_most(most);
  return open_word(d) && cuda_streams_open(device) && cuda_memory_open(device);
}

/* Creates the objects that a device needs when it is used for the first time. Does nothing
** later. */
static bool open_once(int device) {
  Device *d = &devices[device];
  CUDA_RELAXED;
  pthread_mutex_lock(&d->lock);
  bool ok = atomic_load(&d->open) || open_device(d, device);
  if (ok) atomic_store(&d->open, true);
  pthread_mutex_unlock(&d->lock);
  return ok;
}

bool cuda_enter(int device) {
  if (atomic_load_explicit(&forked, memory_order_relaxed))
    return cuda_fail(TL_EDEVICE, "a forked process cannot use its parent's devices; open them "
                                 "after the fork");
  if (current != device) {
    CUDA_TRY(cudaSetDevice(device));
    current = device;
  }
  return atomic_load_explicit(&devices[device].open, memory_order_acquire) || open_once(device);
}

cuda_Word cuda_word(const tlk_Context *cx) { return devices[cx->device.index].word; }

void cuda_device_kind(int device, cuda_DeviceKind *out) {
  struct cudaDeviceProp p;
  memset(out, 0, sizeof *out);
  if (!cuda_ok(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties")) return;
  snprintf(out->name, sizeof out->name, "%.90s", p.name);
  out->major = p.major;
  out->minor = p.minor;
  out->multiprocessors = p.multiProcessorCount;
  out->memory = (int64_t)p.totalGlobalMem;
}

int cuda_multiprocessors(int device) { return devices[device].multiprocessors; }

int64_t cuda_shared_bytes(int device) { return devices[device].shared_bytes; }

int cuda_device_count(void) { return ndevices; }

void cuda_count_wait(int device) {
  atomic_fetch_add_explicit(&devices[device].waits, 1, memory_order_relaxed);
}

void cuda_note_failure(int device, const char *why) {
  Device *d = &devices[device];
  pthread_mutex_lock(&d->lock);
  snprintf(d->why, sizeof d->why, "%s", why);
  atomic_store(&d->failed, true);
  pthread_mutex_unlock(&d->lock);
}

static bool report_failure(Device *d) {
  pthread_mutex_lock(&d->lock);
  bool noted = atomic_exchange(&d->failed, false);
  if (noted) cuda_host->fail(TL_EIO, "%s", d->why);
  pthread_mutex_unlock(&d->lock);
  return !noted;
}

bool cuda_report(int device) {
  Device *d = &devices[device];
  volatile tlk_Fault *noted = d->word.fault;
  if (atomic_load_explicit(&d->failed, memory_order_relaxed) && !report_failure(d)) return false;
  if (noted->kind == TLK_NO_FAULT) return true;
  pthread_mutex_lock(&d->lock);
  tlk_Fault fault = *d->word.fault;
  noted->kind = TLK_NO_FAULT;
  bool cleared = clear_word(d);
  pthread_mutex_unlock(&d->lock);
  if (!cleared) return false;
  return fault.kind == TLK_NO_FAULT || cuda_host->fault_fail(&fault);
}

/* ---- the function tables ---------------------------------------------------------------- */

static void write_uuid(const struct cudaDeviceProp *p, char *out) {
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
    out += snprintf(out, 3, "%02x", (unsigned char)p->uuid.bytes[i]);
  }
}

static bool properties(int index, tl_DeviceProperties *out) {
  struct cudaDeviceProp p;
  CUDA_TRY(cudaGetDeviceProperties(&p, index));
  *out = (tl_DeviceProperties){.total_memory = (int64_t)p.totalGlobalMem,
                               .major = p.major,
                               .minor = p.minor,
                               .multi_processor_count = p.multiProcessorCount,
                               .warp_size = p.warpSize,
                               .max_threads_per_block = p.maxThreadsPerBlock,
                               .max_threads_per_multi_processor = p.maxThreadsPerMultiProcessor,
                               .regs_per_multiprocessor = p.regsPerMultiprocessor,
                               .L2_cache_size = p.l2CacheSize,
                               .shared_memory_per_block = (int64_t)p.sharedMemPerBlock,
                               .shared_memory_per_block_optin = (int64_t)p.sharedMemPerBlockOptin,
                               .shared_memory_per_multiprocessor =
                                   (int64_t)p.sharedMemPerMultiprocessor,
                               .clock_rate = attribute(index, cudaDevAttrClockRate),
                               .memory_clock_rate = attribute(index, cudaDevAttrMemoryClockRate),
                               .memory_bus_width = p.memoryBusWidth,
                               .pci_bus_id = p.pciBusID,
                               .pci_device_id = p.pciDeviceID,
                               .pci_domain_id = p.pciDomainID,
                               .is_integrated = p.integrated != 0,
                               .is_multi_gpu_board = p.isMultiGpuBoard != 0,
                               .bf16 = p.major >= 8};
  snprintf(out->name, sizeof out->name, "%.120s", p.name);
  write_uuid(&p, out->uuid);
  return true;
}

static bool can_access_peer(int device, int peer) {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, device, peer) != cudaSuccess) cudaGetLastError();
  return can != 0;
}

/* Returns NVRTC's version as a number (13000 for "nvrtc 13.0"); 0 without NVRTC. */
static int64_t nvrtc_version(void) {
  const char *compiler = cuda_lib_compiler();
  int major, minor;
  bool known = compiler && sscanf(compiler, "nvrtc %d.%d", &major, &minor) == 2;
  return known ? major * 1000 + minor * 10 : 0;
}

static int64_t library_version(const char *name) {
  int version = 0;
  if (strcmp(name, "cuda") == 0) cudaRuntimeGetVersion(&version);
  if (strcmp(name, "driver") == 0) cudaDriverGetVersion(&version);
  if (strcmp(name, "nccl") == 0) return cuda_nccl_version();
  if (strcmp(name, "nvrtc") == 0) return nvrtc_version();
  if (strcmp(name, "cudnn") == 0) return cuda_lib_cudnn_version();
  if (strcmp(name, "cusolver") == 0) return cuda_cusolver_version();
  return version;
}

/* ---- counters ---------------------------------------------------------------------------- */

static _Atomic int64_t counters[CUDA_NCOUNTERS];

void cuda_count(cuda_Counter which) {
  atomic_fetch_add_explicit(&counters[which], 1, memory_order_relaxed);
}

bool cuda_counted(cuda_Counter library, bool done) {
  cuda_count(done ? library : library + 1);
  return done;
}

static const char *counter(int index, int64_t *count) {
  static const char *const names[] = {
#define X(name, text) text,
      CUDA_COUNTERS(X)
#undef X
  };
  if (index >= CUDA_NCOUNTERS) return NULL;
  *count = atomic_load_explicit(&counters[index], memory_order_relaxed);
  return names[index];
}

static int64_t waits(tl_Device device) { return atomic_load(&devices[device.index].waits); }

static const tl_DeviceApi api = {
    .count = cuda_device_count,
    .properties = properties,
    .can_access_peer = can_access_peer,
    .library_version = library_version,
    .architectures = TLK_CUDA_ARCH " compute_" TLK_CUDA_PTX,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .record_stream = cuda_record_stream,
    .transfer = cuda_transfer,
    .trim = cuda_trim,
    .memory_stats = cuda_memory_stats,
    .reset_peaks = cuda_reset_peaks,
    .reset_sums = cuda_reset_sums,
    .memory_info = cuda_memory_info,
    .set_memory_limit = cuda_set_memory_limit,
    .memory_blocks = cuda_memory_blocks,
    .pinned_alloc = cuda_pinned_alloc,
    .pinned_free = cuda_pinned_free,
    .default_stream = cuda_default_stream,
    .stream = cuda_stream,
    .priority_range = cuda_priority_range,
    .stream_of = cuda_stream_of,
    .stream_handle = cuda_stream_handle,
    .stream_id = cuda_stream_id,
    .stream_priority = cuda_stream_priority,
    .stream_sync = cuda_stream_sync,
    .stream_query = cuda_stream_query,
    .stream_wait = cuda_stream_wait,
    .sync = cuda_sync,
    .event = cuda_event,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_sync = cuda_event_sync,
    .event_query = cuda_event_query,
    .event_elapsed = cuda_event_elapsed,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .capture = cuda_capture,
    .pending = fusion_pending,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
    .rnn_reserve = cuda_dnn_rnn_reserve,
    .counter = counter,
    .waits = waits,
#ifndef TLK_EMULATED /* the emulation on the CPU has no activities to record */
    .activities = cuda_activities,
#endif
    .comms = cuda_comms,
    .lapack = cuda_lapack,
};

#ifndef TLK_EMULATED /* the emulation in spec/cuda defines all kernels */
/* Defines weak functions that fail, in place of kernels that this build lacks. */
#define X(name, operands)                                                       \
  __attribute__((weak)) bool tlk_##name(const struct tlk_##name *call) {        \
    (void)call;                                                                 \
    return cuda_fail(TL_EDEVICE, "%s: there is no kernel for this yet", #name); \
  }
TLK_KERNELS(X)
#undef X
#endif

/* ---- dtypes -------------------------------------------------------------------------------- */

static const char *dtype_name(int dtype) {
  static const char *const names[] = {
#define X(name, text, ...) [TL_##name] = text,
      TL_DTYPES(X, ) TL_STORED_DTYPES(X, )
#undef X
  };
  return dtype >= 0 && dtype < TL_NDTYPES ? names[dtype] : "no dtype";
}

bool cuda_no_dtype(int dtype) {
  return cuda_fail(TL_EDTYPE, "there is no kernel for %s", dtype_name(dtype));
}

static bool takes(const char *kernel, int dtype, bool complex) {
  bool known =
      (dtype >= TL_F32 && dtype <= TL_BOOL) || (complex && (dtype == TL_C64 || dtype == TL_C128));
  return known || cuda_fail(TL_EDTYPE, "%s: there is no kernel for %s", kernel, dtype_name(dtype));
}

bool cuda_takes_loop(const char *kernel, const tli_Iter *it, bool complex) {
  for (int k = 0; k < it->nargs; k++)
    if (!takes(kernel, it->args[k].dtype, complex)) return false;
  return true;
}

#define X(name, dtype)                                      \
  static bool takes_##name(const struct tlk_##name *call) { \
    (void)call;                                             \
    return takes(#name, dtype, false);                      \
  }
CUDA_FLAT_DTYPES(X)
#undef X
#define X(name, dtype) \
  static bool takes_##name(const struct tlk_##name *call) { return takes(#name, dtype, true); }
CUDA_FLAT_ANY_DTYPES(X)
#undef X
#define TAKES_FLAT(name, call) takes_##name(call)
#define TAKES_ITER(name, call) cuda_takes_loop(#name, &(call)->TLK_LOOP_##name, true)
#define TAKES_REAL(name, call) cuda_takes_loop(#name, &(call)->TLK_LOOP_##name, false)
#define TLK_LOOP_copy it
#define TLK_LOOP_fill it
#define TLK_LOOP_pointwise it
#define TLK_LOOP_fused it
#define TLK_LOOP_gather index.it
#define TLK_LOOP_scatter index.it

/* Defines the functions of the kernel table. Each function first launches the chain of elementwise
** calls that is pending on the stream, and then the kernel. */
#define X(name, operands)                                                                       \
  static bool launch_##name(const struct tlk_##name *call) {                                    \
    return TAKES_##operands(name, call) && fusion_settle(call->cx->stream) && tlk_##name(call); \
  }
TLK_KERNELS(X)
#undef X

/* Defines the functions of the kernel table for elementwise calls. Such a call may join the pending
** chain instead of being launched. */
#define JOIN(name, kind, TAKES)                                                                 \
  static bool join_##name(const struct tlk_##name *call) {                                      \
    bool taken;                                                                                 \
    return TAKES(name, call) && fusion_take(kind, call, &taken) && (taken || tlk_##name(call)); \
  }
JOIN(pointwise, FUSION_POINTWISE, TAKES_ITER)
JOIN(fused, FUSION_FUSED, TAKES_REAL)
JOIN(copy, FUSION_COPY, TAKES_ITER)
JOIN(fill, FUSION_FILL, TAKES_ITER)
JOIN(dropout, FUSION_DROPOUT, TAKES_FLAT)
#undef JOIN

/* Computes the gradient of an activation, which may join a chain, and then sums the gradient of the
** bias. */
static bool join_activation_backward(const struct tlk_activation_backward *call) {
  bool taken;
  if (!takes_activation_backward(call) || !fusion_take_activation(call, &taken)) return false;
  if (!taken) return tlk_activation_backward(call);
  return call->grad_bias.data == NULL ||
         (fusion_settle(call->cx->stream) && cuda_bias_gradient(call));
}

static tl_Backend backend = {
    .name = "cuda",
#define X(name, operands) .name = launch_##name,
    TLK_KERNELS(X)
#undef X
        .device = &api,
    .conv_channels_last = true,
};

static void join_chains(void) {
  backend.pointwise = join_pointwise;
  backend.fused = join_fused;
  backend.copy = join_copy;
  backend.fill = join_fill;
  backend.dropout = join_dropout;
  backend.activation_backward = join_activation_backward;
}

/* ---- the entry point ------------------------------------------------------------------ */

static const tl_Plugin plugin = {.hash = TL_PLUGIN_HASH, .backend = &backend};

static void in_child(void) { atomic_store(&forked, true); }

/* Fails with a message that tells why there is no device and what the user can do about it. */
static bool no_device(cudaError_t error) {
  switch (error) {
  case cudaErrorInsufficientDriver:
  case cudaErrorStubLibrary:
    return cuda_fail(TL_EDEVICE,
                     "no driver was found that is new enough for CUDA %d.%d; install "
                     "NVIDIA's driver",
                     CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  case cudaErrorNoDevice:
  case cudaSuccess: return cuda_fail(TL_EDEVICE, "the driver finds no GPU");
  default: return cuda_ok(error, "cudaGetDeviceCount");
  }
}

const tl_Plugin *tlua_plugin_open(const tl_Host *host) {
  int count = 0;
  cuda_host = host;
  /* the host compares the hashes of both interfaces, and reports if they differ */
  if (host->hash != plugin.hash) return &plugin;
  join_chains();
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    no_device(error);
    return NULL;
  }
  ndevices = count < CUDA_MAX_DEVICES ? count : CUDA_MAX_DEVICES;
  for (int i = 0; i < ndevices; i++) pthread_mutex_init(&devices[i].lock, NULL);
  pthread_atfork(NULL, NULL, in_child);
  return &plugin;
}
