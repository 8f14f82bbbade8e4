/*
** backend.h - the table of a kind of device: its kernels (kernel.h) and, for a device with memory
** and a clock of its own, the functions for memory, streams and events.
**
** The tables of the CPU and of the meta device are built in. Other tables come from plugins
** (host.h). A plugin is a shared library. It is opened when a device of its kind is used for the
** first time, and stays open until the process ends.
*/
#ifndef TLI_BACKEND_H
#define TLI_BACKEND_H

#include "core/device/api.h"
#include "core/kernel/kernel.h"
#include "core/kernel/lapack.h"
#include "core/tensor/tensor.h"

typedef struct tl_Backend {
  const char *name; /* "cpu", "cuda", "sim" or "meta" */
#define X(name, operands) bool (*name)(const struct tlk_##name *call);
  TLK_KERNELS(X)
#undef X
  /* table of LAPACK's factorizations; if it is NULL, device->lapack may return one */
  const tlk_Lapack *lapack;
  const tl_DeviceApi *device; /* table of functions besides kernels; NULL for the CPU */
  bool conv_channels_last;    /* whether convolutions support channels-last tensors */
} tl_Backend;

/* ---- finding devices -------------------------------------------------------------- */

/* Returns the table of a device, and opens the device's plugin if necessary. For a tensor's device
** the result is never NULL. For any other device it may be NULL with TL_EDEVICE; the message then
** says why there is no such device. */
const tl_Backend *tli_backend_open(tl_Device device);
/* the table of each kind of device; NULL until the kind's plugin is opened */
extern _Atomic(const tl_Backend *) tli_backends[TL_NDEVICETYPES];
static inline const tl_Backend *tli_backend(tl_Device device) {
  return atomic_load_explicit(&tli_backends[device.type], memory_order_acquire);
}
/* Whether a device other than the CPU was opened. As long as this is false, all tensors are on the
** CPU. */
extern atomic_bool tli_devices_opened;
static inline bool tli_only_cpu(void) {
  return !atomic_load_explicit(&tli_devices_opened, memory_order_relaxed);
}
/* Returns the number of devices of a kind. If there are none, tl_error explains why. */
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
/* Overrides the current stream of a device until the guard is closed. If tli_set_stream is called
** with the overridden stream meanwhile, the guard's stream becomes current instead. Guards can be
** nested. */
typedef struct tli_StreamGuard {
  tl_Device device;
  tl_Stream *before, *stream;
  struct tli_StreamGuard *outer;
} tli_StreamGuard;
void tli_stream_guard(tli_StreamGuard *s, tl_Device device, tl_Stream *stream);
void tli_stream_guard_end(const tli_StreamGuard *s);
/* Makes `next` wait for `first`: work that is queued on `next` from now on runs after the work that
** is already queued on `first`. */
bool tli_stream_follow(tl_Device device, tl_Stream *next, tl_Stream *first) TL_MUSTCHECK;
/* Returns the device on which the calling thread creates tensors if a call names no device. */
tl_Device tli_default_device(void);
void tli_set_default_device(tl_Device device);
/* Returns the number of the device that the name "cuda" (without a number) means in the calling
** thread. */
int tli_current_device(tl_DeviceType type);
void tli_set_current_device(tl_DeviceType type, int index);

/* The CPU's table of kernels. The first call of a kernel chooses the best instruction set of this
** CPU. */
extern const tl_Backend tlk_cpu_backend;
/* The meta device's table of kernels. They compute nothing; their tensors have no memory. */
extern const tl_Backend tlk_meta_backend;
/* These functions return texts for users: the instruction set of the CPU's kernels, such as
** "x86-64-v3", and the BLAS library, such as "OpenBLAS 0.3.21 ...". */
const char *tlk_cpu_isa(void);
/* Makes the CPU's kernels use only loops that give the same bits on every machine, or the fastest
** loops again. No operator may run meanwhile. Returns false, without a message, if this build has
** no such loops. */
bool tlk_cpu_set_portable(bool on) TL_MUSTCHECK;
/* Returns whether the CPU's kernels use only loops that give the same bits on every machine. If so,
** no other library may compute a result, and no loop may be used whose bits depend on the
** processor, such as one with fused multiply-adds. */
bool tlk_portable(void);
const char *tlk_blas_config(void);

#endif
