/*
** cudnn_rnn.h - recurrent layers by cuDNN, for rnn.cu and backward.cu.
*/
#ifndef TLK_CUDA_CUDNN_RNN_H
#define TLK_CUDA_CUDNN_RNN_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tl_DeviceApi.rnn_reserve: room for cuDNN's reserve and for ours where cuDNN can do the layer,
** else for ours. */
int64_t cuda_dnn_rnn_reserve(tl_Device device, const tlk_Rnn *rnn);

/* Whether a reserve of so many bytes is cuDNN's: an odd number is, an even one is ours. */
static inline bool cuda_dnn_rnn_kept(int64_t kept) { return kept % 2 != 0; }

/* Where cuDNN is not there or not wanted, or does not do this layer, *done stays false; whatever
** was written is then to be written again. */
bool cuda_dnn_rnn(const struct tlk_rnn *call, bool *done);
/* Of a reserve that is cuDNN's. */
bool cuda_dnn_rnn_backward(const struct tlk_rnn_backward *call);

/* to (steps, ...) = from with its steps in the reverse order; a step has `n` elements of 4 bytes,
** or of 2 (rnn.cu). */
bool cuda_rnn_flip(const tlk_Context *cx, void *to, const void *from, int64_t steps, int64_t n,
                   bool wide);

#ifdef __cplusplus
}
#endif

#endif
