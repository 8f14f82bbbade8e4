/*
** lib.h - functions that call cuBLASLt, cuDNN, cuFFT and NVRTC. Without a GPU, spec/cuda implements
** these functions with the CPU's kernels. Most functions do the work of a whole kernel and take the
** struct of the kernel's arguments. The caller must not pass arguments that the library cannot
** handle.
*/
#ifndef TLK_CUDA_LIB_H
#define TLK_CUDA_LIB_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies matrices of a floating type. m, n, k and batch must be at least 1. */
bool cuda_lib_gemm(const struct tlk_gemm *call);

/* Multiplies matrices of a half type, and stores the result in the float32 matrix `out` instead of
** c. */
bool cuda_lib_gemm_wide(const struct tlk_gemm *call, float *out);

/* Computes, in one pass, a product followed by bias and activation, or a product and the sums of an
** operand. If cuBLASLt cannot do this, *done stays false and nothing is computed. */
bool cuda_lib_linear(const struct tlk_linear *call, bool *done);

/* These functions compute convolutions whose arrays are not empty, without adding the bias. *done
** stays false if cuDNN is absent or cannot compute the convolution. */
bool cuda_lib_conv(const struct tlk_conv *call, bool *done);
bool cuda_lib_conv_input(const struct tlk_conv_input *call, bool *done);
bool cuda_lib_conv_weight(const struct tlk_conv_weight *call, bool *done);

/* These functions compute attention of half types. *done stays false if cuDNN is absent or cannot
** compute the call. */
bool cuda_lib_attention(const struct tlk_attention *call, bool *done);
bool cuda_lib_attention_backward(const struct tlk_attention_backward *call, bool *done);

/* These functions compute batch norm in training, for channels-last data (inner is 1), but do not
** write the deviation. *done stays false if cuDNN is absent or cannot compute the call. */
bool cuda_lib_batch_norm(const struct tlk_batch_norm *call, bool *done);
bool cuda_lib_batch_norm_backward(const struct tlk_batch_norm_backward *call, bool *done);

/* Describes Fourier transforms of `lines` lines of n > 0 numbers, without a scale. Line l begins at
** element l * in_distance of `in` and at element l * out_distance of `out`. Its elements are
** `stride` apart; `stride` must be 1 if the kind is not COMPLEX. `in` and `out` may be the same
** array if the kind is COMPLEX. The kind TO_REAL overwrites `in`. Addresses are multiples of the
** size of a complex number. */
typedef struct cuda_Fft {
  tlk_FftKind kind;
  /* inverse: the direction; wide: whether the parts of numbers are double instead of float */
  bool inverse, wide;
  int64_t n, lines, stride, in_distance, out_distance;
  void *in, *out;
} cuda_Fft;
bool cuda_lib_fft(const tlk_Context *cx, const cuda_Fft *call);

/* Returns the name and version of the compiler for kernels at run time; NULL if there is none. */
const char *cuda_lib_compiler(void);
/* Compiles a source for a compute capability. The caller must release *code with free(). Returns
** false without a message on failure. */
bool cuda_lib_compile(const char *source, int major, int minor, void **code, size_t *bytes);
/* Loads a kernel by its name from compiled code, which stays loaded. Returns NULL without a message
** on failure. */
void *cuda_lib_load(const void *code, size_t bytes, const char *name);
/* Launches a kernel that has one argument on the context's stream. */
bool cuda_lib_launch(const tlk_Context *cx, void *kernel, unsigned blocks, unsigned threads,
                     const void *argument, size_t bytes);

/* Returns cuDNN's version as a number (91900 means 9.19.0); 0 without cuDNN. */
int64_t cuda_lib_cudnn_version(void);

#ifdef __cplusplus
}
#endif

#endif
