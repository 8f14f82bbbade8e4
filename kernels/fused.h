/*
** fused.h - formulas of elementwise kernels that have several outputs or more inputs than the
** kernels of math.h. The CPU and the GPU share these formulas. The function of a kernel is
** tlf_<kernel>_<f32|f64>, and it gets pointers to its outputs. TLK_FUSED in core/kernel/parts.h
** lists the kernels.
*/
#ifndef TLF_FUSED_H
#define TLF_FUSED_H

#include "kernels/math.h"

/* SwiGLU (N. Shazeer, "GLU Variants Improve Transformer", 2020) is a * silu(b), where silu(b) = b *
** s and s = 1 / (1 + exp(-b)). Its gradients are
**
**   grad_a = grad b s,  grad_b = grad a s (1 + b (1 - s))
**
** A rotation turns the pair (a, b) by the angle whose cosine is c and whose sine is s. Its gradient
** is the rotation by the negative angle, and so is its inverse.
**
** A gate of a recurrent cell is s * b with s = sigmoid(a), or s * t with t = tanh(b). Its gradients
** are computed from s and b, or from s and t. */
#define TLF_DEFINE(k, T)                                                                    \
  TLM_FN void tlf_swiglu_##k(T a, T b, T *out) { *out = a * (b / (1 + exp(-b))); }          \
  TLM_FN void tlf_swiglu_bias_##k(T a, T b, T bias_a, T bias_b, T *out) {                   \
    tlf_swiglu_##k(a + bias_a, b + bias_b, out);                                            \
  }                                                                                         \
  TLM_FN void tlf_swiglu_backward_##k(T grad, T a, T b, T *grad_a, T *grad_b) {             \
    T s = 1 / (1 + exp(-b));                                                                \
    *grad_a = grad * (b * s);                                                               \
    *grad_b = grad * a * s * (1 + b * (1 - s));                                             \
  }                                                                                         \
  TLM_FN void tlf_swiglu_bias_backward_##k(T grad, T a, T b, T bias_a, T bias_b, T *grad_a, \
                                           T *grad_b) {                                     \
    tlf_swiglu_backward_##k(grad, a + bias_a, b + bias_b, grad_a, grad_b);                  \
  }                                                                                         \
  TLM_FN void tlf_rotate_##k(T a, T b, T c, T s, T *x, T *y) {                              \
    *x = TLM_MULTIPLY_ADD(a, c, -(b * s));                                                  \
    *y = TLM_MULTIPLY_ADD(b, c, a * s);                                                     \
  }                                                                                         \
  TLM_FN void tlf_rotate_back_##k(T a, T b, T c, T s, T *x, T *y) {                         \
    tlf_rotate_##k(a, b, c, -s, x, y);                                                      \
  }                                                                                         \
  TLM_FN void tlf_gate_backward_##k(T grad, T s, T b, T *grad_a, T *grad_b) {               \
    *grad_a = grad * b * (1 - s) * s;                                                       \
    *grad_b = grad * s;                                                                     \
  }                                                                                         \
  TLM_FN void tlf_gate_tanh_backward_##k(T grad, T s, T t, T *grad_a, T *grad_b) {          \
    *grad_a = grad * t * (1 - s) * s;                                                       \
    *grad_b = grad * s * (1 - t * t);                                                       \
  }

TLF_DEFINE(f32, float)
TLF_DEFINE(f64, double)

#endif
