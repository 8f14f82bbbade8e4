/*
** backend.h - a kind of device: its kernels (kernel.h), and, where it has memory
** and a clock of its own, that memory, its streams and its events.
**
** The CPU's table is built in, and the meta device's. Others come from plugins (host.h), shared
** libraries that are opened when a device of their kind is first asked for and stay until the
** process ends.
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
  const tlk_Lapack *lapack;   /* factorizations; may be NULL */
  const tl_DeviceApi *device; /* NULL for the CPU */
  bool conv_channels_last;    /* convolutions support channels-last tensors */
} tl_Backend;

/* ---- finding devices -------------------------------------------------------------- */

/* Returns the table of a device. It is never NULL for the device of a tensor. For others, which
** may have to be opened first, it may be NULL with TL_EDEVICE and a message that says how to
** get them. */
const tl_Backend *tli_backend_open(tl_Device device);
extern _Atomic(const tl_Backend *) tli_backends[TL_NDEVICETYPES]; /* NULL until opened */
static inline const tl_Backend *tli_backend(tl_Device device) {
  return atomic_load_explicit(&tli_backends[device.type], memory_order_acquire);
}
/* Whether no device besides the CPU was ever opened, so that all tensors are on the CPU. */
extern atomic_bool tli_devices_opened;
static inline bool tli_only_cpu(void) {
  return !atomic_load_explicit(&tli_devices_opened, memory_order_relaxed);
}
/* Returns the number of devices of a kind; if it is 0, tl_error has the reason. */
int tli_device_count(tl_DeviceType type);

/* Returns the context of the calling thread's current stream of a device. */
const tlk_Context *tli_context_of(tl_Device device);
extern const tlk_Context tli_cpu_context;
static inline const tlk_Context *tli_context(tl_Device device) {
  return device.type == TL_CPU ? &tli_cpu_context : tli_context_of(device);
}

/* Runs a kernel on a device, on the current stream:
**   TLI_RUN(device, softmax, .log = true, .out = ..., ...) */
#define TLI_RUN(on, kernel, ...) \
  tli_backend(on)->kernel(&(struct tlk_##kernel){.cx = tli_context(on), __VA_ARGS__})

/* Returns the calling thread's current stream of a device, initially the default stream. */
tl_Stream *tli_stream(tl_Device device);
void tli_set_stream(tl_Device device, tl_Stream *stream);
/* Overrides the current stream for a while, also if the calling thread's modes are loaded
** meanwhile: they then refer to the stream that was current before. Overrides can be nested. */
typedef struct tli_StreamGuard {
  tl_Device device;
  tl_Stream *before, *stream;
  struct tli_StreamGuard *outer;
} tli_StreamGuard;
void tli_stream_guard(tli_StreamGuard *s, tl_Device device, tl_Stream *stream);
void tli_stream_guard_end(const tli_StreamGuard *s);
/* Work queued on `next` from now on runs after the work that `first` has so far. */
bool tli_stream_follow(tl_Device device, tl_Stream *next, tl_Stream *first) TL_MUSTCHECK;
/* The device of new tensors of the calling thread, if none is given. */
tl_Device tli_default_device(void);
void tli_set_default_device(tl_Device device);
/* The device that "cuda" without a number means in the calling thread. */
int tli_current_device(tl_DeviceType type);
void tli_set_current_device(tl_DeviceType type, int index);

/* The CPU's table. The best instruction set is chosen on the first call. */
extern const tl_Backend tlk_cpu_backend;
/* The meta device's table: kernels that compute nothing, on tensors without memory. */
extern const tl_Backend tlk_meta_backend;
/* The instruction set of the CPU's kernels, "x86-64-v3", and the BLAS, "OpenBLAS 0.3.21 ...":
** text for users. */
const char *tlk_cpu_isa(void);
const char *tlk_blas_config(void);

#endif
