/*
** norm.h - chain steps (see chain.h) for normalisations. Statistics are stored in float32 (float64
** for float64 inputs). They are a mean and a reciprocal standard deviation (rstd) for each group of
** elements that is normalised together.
**
** Derivatives have two forms. Usually fused kernels compute them. While a graph of the gradient is
** recorded, differentiable operators compute the same formulas.
*/
#ifndef TLI_NORM_H
#define TLI_NORM_H

#include "ops/chain.h"

/* The gradients that a call must compute. */
typedef struct Wanted {
  bool input, weight, bias;
} Wanted;

static inline tl_DType stat_dtype(const tl_Tensor *t) {
  return t->dtype == TL_F64 ? TL_F64 : TL_F32;
}

static inline tl_Tensor *chain_cast(tli_Chain *c, tl_Tensor *t, tl_DType dtype) {
  return TLI_STEP(c, tli_contiguous_as(t, dtype));
}

/* Returns an uninitialised vector of n numbers on the device of `like`. */
static inline tl_Tensor *chain_empty(tli_Chain *c, tl_DType dtype, const tl_Tensor *like,
                                     int64_t n) {
  return TLI_STEP(c, tli_empty(dtype, tli_device(like), 1, &n));
}

static inline tlk_Array array_of(const tl_Tensor *t) {
  return t ? tli_array(t) : (tlk_Array){NULL, TL_F32};
}

/* Returns whether a derivative of the gradient may be needed. In this case differentiable operators
** must compute the gradient. */
static inline bool watched(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight) {
  return tli_recording((tl_Tensor *[]){grad, input, weight}, 3);
}

/* Ends a chain of fused kernels, which has run with recording switched off, and restores the
** previous grad mode, `mode`. */
static inline bool unrecorded_end(tli_Chain *c, bool mode, tl_Tensor **out, int n) {
  tli_set_grad_mode(mode);
  return tli_chain_end_all(c, out, n);
}

/* Returns the first of n results and releases the others, which the operator returns only so that
** its graph node can save them. */
static inline tl_Tensor *first_of(bool ok, tl_Tensor **out, int n) {
  if (!ok) return NULL;
  for (int i = 1; i < n; i++) tli_release(out[i]);
  return out[0];
}

/* Computes the gradients of result = normal * weight + bias by differentiable operators, where
** normal = (input - mean) * rstd over dims. If `centre` is false, the mean is taken to be 0.
** `weight` may be NULL and broadcasts to input; `like` has the shape of weight and bias, even if
** these are absent. */
bool tli_norm_gradients(tli_Chain *c, tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight,
                        const tl_Tensor *like, tl_Ints dims, double eps, bool centre, Wanted want,
                        tl_Tensor **out);

#endif
