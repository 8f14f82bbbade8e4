/*
** cuda.h - declarations shared by the files of the CUDA plugin, tlua_cuda.so: devices, streams,
** memory, errors. This header is valid C and C++; device code is in cuda.cuh.
**
** Host code is C and uses the C interface of the CUDA runtime. Kernels are CUDA C++ in .cu files,
** in one folder for each family of operators. For each kernel of core/kernel/kernel.h there is a
** function tlk_<name> that launches the kernel and returns. These functions wait for the device
** only if waiting is their purpose.
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
  /* whether another library has been given the stream's handle and may queue work at any time */
  bool shared;
  cudaStream_t handle;
};

/* ---- errors ---------------------------------------------------------------------- */

/* Sets the error message "cuda: ..." and returns false. */
bool cuda_fail(tl_ErrorKind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether a runtime call succeeded; on failure sets a message that contains `call`. */
bool cuda_ok(cudaError_t error, const char *call);
#define CUDA_TRY(call) \
  if (!cuda_ok(call, #call)) return false

/* ---- devices (plugin.c) ---------------------------------------------------------- */

/* Makes a device current for the calling thread, which must happen before any other call of the
** runtime. Returns false with a message on failure, for instance in a forked child. */
bool cuda_enter(int device);
/* Returns the word in which kernels of the context's device record faults. */
cuda_Word cuda_word(const tlk_Context *cx);
/* Returns false with a message if the device's kernels have recorded a fault. The caller must have
** waited for the device. */
bool cuda_report(int device);
/* Returns the number of multiprocessors of a device. */
int cuda_multiprocessors(int device);
/* Returns the largest number of bytes of dynamic shared memory that a block can have (see
** allow_shared in cuda.cuh). */
int64_t cuda_shared_bytes(int device);

/* Describes a model of device. The struct is part of the keys of cuDNN's plans on disk, and keys
** are compared byte by byte. */
typedef struct cuda_DeviceKind {
  char name[96];
  int64_t major, minor, multiprocessors, memory;
} cuda_DeviceKind;
void cuda_device_kind(int device, cuda_DeviceKind *out);

/* The ways of computing whose calls are counted, as X(counter, name). torch.backends.cudnn.stats()
** and similar functions return the counts under these names. */
#define CUDA_COUNTERS(X)                   \
  X(CONV_CUDNN, "cudnn.convolution")       \
  X(CONV_OWN, "cudnn.convolution_own")     \
  X(ATTENTION_CUDNN, "cudnn.attention")    \
  X(ATTENTION_OWN, "cudnn.attention_own")  \
  X(NORM_CUDNN, "cudnn.batch_norm")        \
  X(NORM_OWN, "cudnn.batch_norm_own")      \
  X(RNN_CUDNN, "cudnn.rnn")                \
  X(RNN_OWN, "cudnn.rnn_own")              \
  X(FUSION_KERNELS, "fusion.kernels")      \
  X(FUSION_REFUSED, "fusion.unfused")      \
  X(NCCL_BUFFERS, "nccl.buffers")          \
  X(NCCL_REFUSED, "nccl.refused_buffers")  \
  X(LINEAR_EPILOGUE, "cublaslt.epilogues") \
  X(LINEAR_SEPARATE, "cublaslt.separate_epilogues")
typedef enum cuda_Counter {
#define X(name, text) CUDA_##name,
  CUDA_COUNTERS(X)
#undef X
      CUDA_NCOUNTERS
} cuda_Counter;
void cuda_count(cuda_Counter which);
/* Counts a call in the counter `library` if `done`, otherwise in the next counter, which counts the
** calls of our own kernels. Returns `done`. */
bool cuda_counted(cuda_Counter library, bool done);

/* ---- memory (memory.c) ----------------------------------------------------------- */

/* Allocates memory for the next calls on the context's stream. The caller may free the memory as
** soon as these calls are queued, because the memory is reused only by later work on that stream.
** Returns NULL with a message on failure. */
void *cuda_scratch(const tlk_Context *cx, int64_t bytes);
void cuda_scratch_free(const tlk_Context *cx, void *data, int64_t bytes);

/* Returns 8 bytes that consist of copies of the value, converted to the dtype (copy.cu). */
int64_t cuda_fill_pattern(int dtype, const tl_Scalar *value);

/* Computes the gradient of the bias: sums the gradients of the activation's arguments, which
** grad_in must already contain (linear.cu). */
bool cuda_bias_gradient(const struct tlk_activation_backward *call);

/* Sets the error message that no kernel reads elements of the dtype, and returns false. */
bool cuda_no_dtype(int dtype);
/* Returns whether the kernels of the device can read the dtype of each operand; otherwise fails.
** Complex types are allowed only if `complex`. */
bool cuda_takes_loop(const char *kernel, const tli_Iter *it, bool complex);

/* ---- all kernels ------------------------------------------------------------------- */

#define X(name, operands) bool tlk_##name(const struct tlk_##name *call);
TLK_KERNELS(X)
#undef X

#ifdef __cplusplus
}
#endif

#endif
