/*
** lib.h - kernels that are built on cuBLASLt, cuDNN, cuSOLVER and NVRTC. Without a GPU, spec/cuda
** implements these functions with the CPU's kernels. Each function does the work of a whole kernel
** and takes the kernel's struct; callers must not pass arguments that the library cannot handle.
*/
#ifndef TLK_CUDA_LIB_H
#define TLK_CUDA_LIB_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies matrices of a floating type; m, n, k and batch are at least 1. */
bool cuda_lib_gemm(const struct tlk_gemm *call);

/* Multiplies matrices of a half type into the float32 matrix `out` instead of c. */
bool cuda_lib_gemm_wide(const struct tlk_gemm *call, float *out);

/* Computes a product with bias and activation, or with sums, in one pass. *done stays false, and
** nothing is computed, if cuBLASLt cannot do that. */
bool cuda_lib_linear(const struct tlk_linear *call, bool *done);

/* Compute convolutions without empty arrays; the bias is not added. *done stays false if cuDNN is
** absent or cannot compute the convolution. */
bool cuda_lib_conv(const struct tlk_conv *call, bool *done);
bool cuda_lib_conv_input(const struct tlk_conv_input *call, bool *done);
bool cuda_lib_conv_weight(const struct tlk_conv_weight *call, bool *done);

/* Compute attention of half types. *done stays false if cuDNN is absent or cannot compute the
** call. */
bool cuda_lib_attention(const struct tlk_attention *call, bool *done);
bool cuda_lib_attention_backward(const struct tlk_attention_backward *call, bool *done);

/* Compute training batch norm of channels-last data (inner is 1). The deviation is not written.
** *done stays false if cuDNN is absent or cannot compute the call. */
bool cuda_lib_batch_norm(const struct tlk_batch_norm *call, bool *done);
bool cuda_lib_batch_norm_backward(const struct tlk_batch_norm_backward *call, bool *done);

/* Compiles kernels at run time: returns the compiler's name and version, or NULL if there is
** none. */
const char *cuda_lib_compiler(void);
/* Compiles for a compute capability; the caller releases *code with free(). Fails without a
** message. */
bool cuda_lib_compile(const char *source, int major, int minor, void **code, size_t *bytes);
/* Loads a kernel by name from compiled code; the code stays loaded. Returns NULL without a message
** on failure. */
void *cuda_lib_load(const void *code, size_t bytes, const char *name);
/* Launches a kernel that has one argument on the context's stream. */
bool cuda_lib_launch(const tlk_Context *cx, void *kernel, unsigned blocks, unsigned threads,
                     const void *argument, size_t bytes);

/* Returns cuDNN's version, 91900 for 9.19.0, or 0 without cuDNN. */
int64_t cuda_lib_cudnn_version(void);

#ifdef __cplusplus
}
#endif

#endif
