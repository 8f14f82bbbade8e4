/*
** cudnn_rnn.h - computes recurrent layers with cuDNN, for rnn.cu and backward.cu.
*/
#ifndef TLK_CUDA_CUDNN_RNN_H
#define TLK_CUDA_CUDNN_RNN_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Implements tl_DeviceApi.rnn_reserve: returns the size of a reserve that is large enough for our
** kernels and, if cuDNN supports the layer, for cuDNN as well. */
int64_t cuda_dnn_rnn_reserve(tl_Device device, const tlk_Rnn *rnn);

/* Returns whether a reserve was filled by cuDNN. The size of such a reserve is odd; the size of a
** reserve of our own kernels is even. */
static inline bool cuda_dnn_rnn_kept(int64_t kept) { return kept % 2 != 0; }

/* Runs the forward pass. *done stays false if cuDNN is absent or disabled, or does not support this
** layer; the caller must then compute the results itself. */
bool cuda_dnn_rnn(const struct tlk_rnn *call, bool *done);
/* Runs the backward pass on a reserve that cuDNN has filled. */
bool cuda_dnn_rnn_backward(const struct tlk_rnn_backward *call);

/* Copies an array (steps, ...) with its steps in reverse order. A step has `n` elements of 4 bytes
** if `wide`, otherwise of 2 bytes (rnn.cu). */
bool cuda_rnn_flip(const tlk_Context *cx, void *to, const void *from, int64_t steps, int64_t n,
                   bool wide);

#ifdef __cplusplus
}
#endif

#endif
