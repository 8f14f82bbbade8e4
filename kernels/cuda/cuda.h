/*
** cuda.h - what the files of the CUDA plugin, tlua_cuda.so, share: devices, streams,
** memory, errors. C and C++; what kernels use on the device is in cuda.cuh.
**
** The host's side is C on the runtime's C interface, kernels are CUDA C++ in .cu
** files, a folder for each family of operators. Every kernel of core/kernel/kernel.h is a
** function tlk_<name> here, which launches and returns: nothing but what waits by its
** meaning waits for the device.
*/
#ifndef TLK_CUDA_H
#define TLK_CUDA_H

#include <cuda_runtime_api.h>

#include "core/kernel/kernel.h"
#include "kernels/cuda/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_MAX_DEVICES 32

struct tl_Stream {
  int device, id, priority;
  bool shared; /* others know its handle: work of theirs may come between ours */
  cudaStream_t handle;
};

/* ---- errors ---------------------------------------------------------------------- */

/* Leaves a message "cuda: ..." and returns false. */
bool cuda_fail(tl_ErrorKind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether a call of the runtime succeeded; else leaves a message that names it. */
bool cuda_ok(cudaError_t error, const char *call);
#define CUDA_TRY(call) \
  if (!cuda_ok(call, #call)) return false

/* ---- devices (plugin.c) ---------------------------------------------------------- */

/* Makes a device the calling thread's; false with a message where that fails, as in a
** forked child. To be called before any call of the runtime. */
bool cuda_enter(int device);
/* Where kernels of the context's device note what they find wrong. */
cuda_Word cuda_word(const tlk_Context *cx);
/* Reports the device's fault, if there is one: false with its message. To be called
** after a wait. */
bool cuda_report(int device);
/* Numbers of the device that decide how kernels are launched. */
int cuda_multiprocessors(int device);
/* Dynamic shared memory that a block may be given (allow_shared in cuda.cuh). */
int64_t cuda_shared_bytes(int device);

/* What tells one kind of device from another, for what is kept on disk. Compared as bytes. */
typedef struct cuda_DeviceKind {
  char name[96];
  int64_t major, minor, multiprocessors, memory;
} cuda_DeviceKind;
void cuda_device_kind(int device, cuda_DeviceKind *out);

/* ---- memory (memory.c) ----------------------------------------------------------- */

/* Memory for the calls that a context's stream gets next; given back at once, since
** what reuses it comes later on the stream. NULL with a message. */
void *cuda_scratch(const tlk_Context *cx, int64_t bytes);
void cuda_scratch_free(const tlk_Context *cx, void *data, int64_t bytes);

/* The bytes of an element of a dtype that is filled with a number, repeated (copy.cu). */
int64_t cuda_fill_pattern(int dtype, const tl_Scalar *value);

/* The gradient of a bias, once that before the activation is there (linear.cu). */
bool cuda_bias_gradient(const struct tlk_activation_backward *call);

/* ---- all kernels ------------------------------------------------------------------- */

#define X(name, operands) bool tlk_##name(const struct tlk_##name *call);
TLK_KERNELS(X)
#undef X

#ifdef __cplusplus
}
#endif

#endif
