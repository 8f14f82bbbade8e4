/*
** lib.h - what stands on cuBLASLt, cuDNN, cuSOLVER and CUB. Without a GPU spec/cuda
** answers these functions with the CPU's kernels. Each is a whole kernel's work and
** takes its struct; what a library cannot do the caller does not ask it.
*/
#ifndef TLK_CUDA_LIB_H
#define TLK_CUDA_LIB_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Products of floating types; m, n, k and batch are at least 1. */
bool cuda_lib_gemm(const struct tlk_gemm *call);

/* The same of a half type with a result in float32, which out takes instead of c. */
bool cuda_lib_gemm_wide(const struct tlk_gemm *call, float *out);

/* Convolutions, none of whose arrays is empty. Where cuDNN is not there, or does not do
** this one, *done stays false. The bias is not added. */
bool cuda_lib_conv(const struct tlk_conv *call, bool *done);
bool cuda_lib_conv_input(const struct tlk_conv_input *call, bool *done);
bool cuda_lib_conv_weight(const struct tlk_conv_weight *call, bool *done);

/* Attention of the half types. Where cuDNN is not there, or does not do this one, *done stays
** false. */
bool cuda_lib_attention(const struct tlk_attention *call, bool *done);
bool cuda_lib_attention_backward(const struct tlk_attention_backward *call, bool *done);

/* Batch norm while training, of channels that lie last (inner is 1). Where cuDNN is not there, or
** does not do this one, *done stays false. The deviation is not written. */
bool cuda_lib_batch_norm(const struct tlk_batch_norm *call, bool *done);
bool cuda_lib_batch_norm_backward(const struct tlk_batch_norm_backward *call, bool *done);

/* Averages of windows, of at least one plane, which are not the whole of it. Where cuDNN is not
** there, or does not do these, *done stays false. */
bool cuda_lib_avg_pool(const struct tlk_avg_pool *call, bool *done);
bool cuda_lib_avg_pool_backward(const struct tlk_avg_pool_backward *call, bool *done);

/* Kernels that are compiled while the program runs. What compiles them, by name and version;
** NULL: nothing. */
const char *cuda_lib_compiler(void);
/* Code for a compute capability, in a block for free(). Fails without a message. */
bool cuda_lib_compile(const char *source, int major, int minor, void **code, size_t *bytes);
/* The kernel of that name in some code, for good; NULL, without a message, if there is none. */
void *cuda_lib_load(const void *code, size_t bytes, const char *name);
/* Puts a kernel with one argument on the context's stream. */
bool cuda_lib_launch(const tlk_Context *cx, void *kernel, unsigned blocks, unsigned threads,
                     const void *argument, size_t bytes);

/* 91900 is 9.19.0; 0 without cuDNN. */
int64_t cuda_lib_cudnn_version(void);

#ifdef __cplusplus
}
#endif

#endif
