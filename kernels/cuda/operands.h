/*
** operands.h - the dtype by which each kernel chooses its code. Before each launch, plugin.c checks
** that there are kernels for this dtype, so that no kernel misreads elements of a dtype that it
** does not know.
*/
#ifndef TLK_CUDA_OPERANDS_H
#define TLK_CUDA_OPERANDS_H

#include "kernels/cuda/cuda.h"

/* A list of X(name, dtype) for all FLAT kernels, which are those without a tli_Iter. dtype is the
** dtype that the kernel `name` reads, as an expression of `call`. If a kernel is missing in this
** list, plugin.c does not compile. */
#define CUDA_FLAT_DTYPES(X)                               \
  X(iota, call->out.dtype)                                \
  X(linspace, call->out.dtype)                            \
  X(random, call->out.dtype)                              \
  X(dropout, call->in.dtype)                              \
  X(gemm, call->gemm.dtype)                               \
  X(linear, call->gemm.dtype)                             \
  X(activation_backward, call->grad_in.dtype)             \
  X(csr, call->out.dtype)                                 \
  X(packed_linear, call->out.dtype)                       \
  X(cached_attention, call->stored)                       \
  X(reduce, call->in.dtype)                               \
  X(reduce_index, call->in.dtype)                         \
  X(moments, call->in.dtype)                              \
  X(scan, call->in.dtype)                                 \
  X(softmax, call->in.dtype)                              \
  X(softmax_backward, call->grad_in.dtype)                \
  X(attention, call->attention.dtype)                     \
  X(attention_backward, call->attention.dtype)            \
  X(layer_norm, call->in.dtype)                           \
  X(layer_norm_backward, call->in.dtype)                  \
  X(channel_moments, call->in.dtype)                      \
  X(channel_products, call->in.dtype)                     \
  X(channel_affine, call->in.dtype)                       \
  X(batch_norm, call->in.dtype)                           \
  X(batch_norm_backward, call->in.dtype)                  \
  X(class_loss, call->in.dtype)                           \
  X(class_loss_backward, call->grad_in.dtype)             \
  X(ctc_loss, call->loss.dtype)                           \
  X(ctc_loss_backward, call->grad_in.dtype)               \
  X(check_index, TL_I64)                                  \
  X(check_range, call->in.dtype)                          \
  X(search, call->sorted.dtype)                           \
  X(sort, call->in.dtype)                                 \
  X(topk, call->in.dtype)                                 \
  X(select_rank, call->in.dtype)                          \
  X(mode, call->in.dtype)                                 \
  X(row_order, call->in.dtype)                            \
  X(conv, call->conv.dtype)                               \
  X(conv_input, call->conv.dtype)                         \
  X(conv_weight, call->conv.dtype)                        \
  X(conv_packed, call->conv.dtype)                        \
  X(quantized, call->dtype)                               \
  X(max_pool, call->in.dtype)                             \
  X(avg_pool, call->in.dtype)                             \
  X(avg_pool_backward, call->grad_in.dtype)               \
  X(resample, call->in.dtype)                             \
  X(grid_sample, call->in.dtype)                          \
  X(roi_pool, call->images.dtype)                         \
  X(im2col, call->in.dtype)                               \
  X(col2im, call->in.dtype)                               \
  X(optim_coefs, call->lr.data ? call->lr.dtype : TL_F32) \
  X(optim_step, call->param)                              \
  X(list_reduce, call->dtype)                             \
  X(list_scale, call->dtype)                              \
  X(list_clip, call->dtype)                               \
  X(rnn, call->rnn.dtype)                                 \
  X(rnn_backward, call->rnn.dtype)
/* The FLAT kernels that may also be called for complex numbers. */
#define CUDA_FLAT_ANY_DTYPES(X)    \
  X(fft, call->in.dtype)           \
  X(count_nonzero, call->in.dtype) \
  X(nonzero, call->in.dtype)

#endif
