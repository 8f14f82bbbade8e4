/*
** norm.h - steps of chains that normalisations share; see chain.h. Statistics are stored in float32
** (float64 for float64): one mean and one reciprocal standard deviation for each group of elements
** that is normalised together.
**
** A derivative has two forms: fused kernels and, while a graph of the gradient is recorded, the
** same formula in differentiable operators.
*/
#ifndef TLI_NORM_H
#define TLI_NORM_H

#include "ops/chain.h"

/* The gradients that a call computes. */
typedef struct Wanted {
  bool input, weight, bias;
} Wanted;

static inline tl_DType stat_dtype(const tl_Tensor *t) {
  return t->dtype == TL_F64 ? TL_F64 : TL_F32;
}

static inline tl_Tensor *chain_cast(tli_Chain *c, tl_Tensor *t, tl_DType dtype) {
  return TLI_STEP(c, tli_contiguous_as(t, dtype));
}

/* Returns n uninitialised numbers on the device of `like`. */
static inline tl_Tensor *chain_empty(tli_Chain *c, tl_DType dtype, const tl_Tensor *like,
                                     int64_t n) {
  return TLI_STEP(c, tli_empty(dtype, tli_device(like), 1, &n));
}

static inline tlk_Array array_of(const tl_Tensor *t) {
  return t ? tli_array(t) : (tlk_Array){NULL, TL_F32};
}

/* Returns whether second derivatives may be needed, so that the gradient must be differentiable. */
static inline bool watched(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight) {
  return tli_recording((tl_Tensor *[]){grad, input, weight}, 3);
}

/* Ends a chain of fused kernels, which run without recording. */
static inline bool unrecorded_end(tli_Chain *c, bool mode, tl_Tensor **out, int n) {
  tli_set_grad_mode(mode);
  return tli_chain_end_all(c, out, n);
}

/* Returns the first result of an operator, and releases the others, which belong to its node. */
static inline tl_Tensor *first_of(bool ok, tl_Tensor **out, int n) {
  if (!ok) return NULL;
  for (int i = 1; i < n; i++) tli_release(out[i]);
  return out[0];
}

/* Computes the gradients, in differentiable operators, of result = normal * weight + bias, with
** normal = (input - mean) * rstd over dims. weight (may be NULL) broadcasts to input; `like`
** has the shape that weight and bias have or would have. Without `centre` the mean counts as 0. */
bool tli_norm_gradients(tli_Chain *c, tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight,
                        const tl_Tensor *like, tl_Ints dims, double eps, bool centre, Wanted want,
                        tl_Tensor **out);

#endif
