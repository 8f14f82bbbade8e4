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

/* 91900 is 9.19.0; 0 without cuDNN. */
int64_t cuda_lib_cudnn_version(void);

#ifdef __cplusplus
}
#endif

#endif
