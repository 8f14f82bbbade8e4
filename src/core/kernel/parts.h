/*
** parts.h - structs that the calls in kernel.h have in common: arrays, the sizes of products,
** convolutions, windows, attention and recurrent networks, and enumerations of variants of kernels.
*/
#ifndef TLI_KERNEL_PARTS_H
#define TLI_KERNEL_PARTS_H

#include "core/kernel/iter.h"
#include "core/kernel/random.h"

/* An array and its dtype. */
typedef struct tlk_Array {
  void *data;
  tl_DType dtype;
} tlk_Array;

/* Products of `batch` pairs of row-major matrices. For each pair
**   c (m, n) = alpha * op(a) (m, k) @ op(b) (k, n) + beta * c
** where op transposes a if trans_a is set, and b if trans_b is set. In memory, the rows of a matrix
** are lda, ldb or ldc elements apart, and the matrices of a batch are stride_a, stride_b or
** stride_c elements apart. stride_a and stride_b may be 0. If beta is 0, the old c is not read. All
** three matrices have one dtype; half types are summed in float32. m, n, k may be 0. */
typedef struct tlk_Gemm {
  tl_DType dtype;
  bool trans_a, trans_b;
  int64_t m, n, k;
  tl_Scalar alpha, beta;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
  int64_t batch;
  int64_t stride_a, stride_b, stride_c;
} tlk_Gemm;

/* The elementwise operation at the end of a matrix product. */
typedef enum tlk_Activation {
  TLK_ACTIVATION_NONE,
  TLK_ACTIVATION_RELU,
  TLK_ACTIVATION_GELU,
  TLK_ACTIVATION_GELU_TANH
} tlk_Activation;

/* The kinds of Fourier transforms: from complex to complex, real to complex, complex to real
** numbers. */
typedef enum tlk_FftKind { TLK_FFT_COMPLEX, TLK_FFT_FROM_REAL, TLK_FFT_TO_REAL } tlk_FftKind;

/* Windows that slide over the last three dimensions of an array (planes, in[0], in[1], in[2]). If a
** tensor has fewer dimensions, the leading sizes are 1. Window o along a dimension begins at o *
** stride - padding; the window's elements are `dilation` apart. */
typedef struct tlk_Windows {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
} tlk_Windows;

/* A convolution: in (batch, channels_in, in...), weight (channels_out, channels_in / groups,
** kernel...), out (batch, channels_out, out...), all contiguous with one floating dtype; half types
** are summed in float32. If channels_last is set, the second dimension of each array is the
** innermost in memory. Only back ends that support this layout (tl_Backend.conv_channels_last) get
** such calls. */
typedef struct tlk_Conv {
  tlk_Windows windows;
  tl_DType dtype;
  /* 0 or 1. It is not a bool, because plans are looked up by the bytes of this struct, so the
  ** struct must have no padding */
  int32_t channels_last;
  int64_t batch, groups, channels_in, channels_out;
} tlk_Conv;

/* An array (batch, heads, rows, size). The elements of a row are contiguous; the strides batch,
** head and row are in elements and may be 0. */
typedef struct tlk_HeadRows {
  void *data;
  int64_t batch, head, row;
} tlk_HeadRows;

/* One number for each pair of a query and a key, as an array (batch, heads, queries, keys). Strides
** are in elements and may be 0. */
typedef struct tlk_HeadPairs {
  tlk_Array array;
  int64_t batch, head, query, key;
} tlk_HeadPairs;

/* Attention. Query i of a head gives key j the score
**   scale * (query[i] . key[j]) + mask[i][j]
** and softmax over all keys turns scores into weights. A bool mask hides the keys where it is
** false, as a score of -inf does. If the mask's data is NULL, there is no mask. If `causal` is set,
** query i sees only keys 0 to i. A query that sees no key has weights of 0.
**
** Dropout: for query i of head h of sample b, let r = (b * heads + h) * queries + i. The weight of
** key j is multiplied by 1 / (1 - dropout) if word j % 4 of block `block` + r * ceil(keys / 4) + j
** / 4 of the stream `seed` (tli_philox) is less than (1 - dropout) * 2^32, otherwise by 0.
**
** All arrays except the mask have one floating dtype; half types are computed in float32. Only
** `size` may be 0; all other sizes are positive. */
typedef struct tlk_Attention {
  tl_DType dtype;
  int64_t batch, heads;
  /* number of key/value heads, a divisor of heads; consecutive query heads share a key/value
  ** head */
  int64_t kv_heads;
  int64_t queries, keys;
  /* size is the row size of query and key; value_size is the row size of value and result */
  int64_t size, value_size;
  tlk_HeadRows query, key, value;
  tlk_HeadPairs mask;
  bool causal;
  double scale, dropout;
  uint64_t seed, block;
  /* During a capture, points to two words on the device that replace seed and block, as in struct
  ** tlk_random; otherwise NULL. */
  const uint64_t *state;
} tlk_Attention;

/* The windows of a pooling operator, the number of planes (images of one channel) that they slide
** over, and options. */
typedef struct tlk_Pool {
  tlk_Windows windows;
  int64_t planes;
  /* whether pooling is adaptive: window o is then [floor(o * in / out), ceil((o + 1) * in /
  ** out)) */
  bool adaptive;
  bool include_pad; /* whether averages count positions in the padding as zeros */
  int64_t divisor;  /* divisor of averages; 0 means the number of elements */
} tlk_Pool;

/* A linear map along one dimension, from an array (outer, in, inner) to an array (outer, out,
** inner). Element i of the result is the sum of weights[t] times element at[t] of the input, for t
** from first[i] to first[i + 1] - 1. */
typedef struct tlk_Resample {
  int64_t outer, in, out, inner;
  int64_t terms; /* number of terms of each sum; 0 if this number varies */
  const int32_t *first, *at;
  const double *weights;
} tlk_Resample;

/* Describes lines of elements for gather and scatter kernels. `it` is a loop over the lines, with
** one step for each line; the comment on each kernel names its operands. Along a line, operand k
** has `count` elements, which are strides[k] bytes apart. The indexed operand has n positions along
** a line, counted from 1. */
typedef struct tlk_IndexCall {
  tli_Iter it;
  int64_t count;
  int64_t n;
  int64_t strides[3];
} tlk_IndexCall;

/* Predictions (outer, classes, inner) in float32 or float64, and one label, counted from 1, for
** each of (outer, inner). */
typedef struct tlk_Classes {
  int64_t outer, classes, inner;
  const int64_t *target; /* class labels, (outer, inner) */
  /* weight of each class, of the same dtype as the predictions; NULL means 1 */
  const void *weight;
  int64_t ignore; /* the label of samples that do not count */
  /* whether the predictions are logits; otherwise they are log-probabilities */
  bool logits;
} tlk_Classes;

/* Sequences for connectionist temporal classification: log-probabilities (time, batch, classes),
** labels (batch, longest), counted from 1, and the number of labels of each sequence. */
typedef struct tlk_Ctc {
  int64_t time, batch, classes, longest;
  const int64_t *targets, *input_lengths, *target_lengths;
  int64_t blank; /* from 1 */
} tlk_Ctc;

/* The kinds of recurrent networks, in cuDNN's order. */
typedef enum tlk_RnnMode { TLK_RNN_RELU, TLK_RNN_TANH, TLK_RNN_LSTM, TLK_RNN_GRU } tlk_RnnMode;

/* Returns the number of gates of a kind of network: weights have `gates` * hidden rows. The gates
** are in the order of PyTorch and cuDNN: input, forget, cell, output for an LSTM, and reset,
** update, new for a GRU. */
static inline int64_t tlk_rnn_gates(tlk_RnnMode mode) {
  return mode == TLK_RNN_LSTM ? 4 : mode == TLK_RNN_GRU ? 3 : 1;
}

/* One layer of a recurrent network in one direction, over whole sequences. Data is stored as (rows,
** size), one step after the other. Step t has rows offsets[t] to offsets[t + 1] - 1; if offsets is
** NULL, every step has `batch` rows. Row n of a step belongs to sample n. Later steps never have
** more rows than earlier steps, so samples are ordered by descending length. The first step has
** `batch` rows. All arrays are contiguous with one floating dtype; half types are computed in
** float32. */
typedef struct tlk_Rnn {
  tlk_RnnMode mode;
  tl_DType dtype;
  bool reverse; /* whether each sequence runs from its last step to its first */
  /* number of steps, batch size, and total number of rows over all steps */
  int64_t steps, batch, rows;
  /* the sizes of a row; output equals hidden unless there is a projection */
  int64_t input, hidden, output;
  /* first row of each step, (steps + 1); NULL if all steps have `batch` rows */
  const int64_t *offsets;
  const void *weight_ih;         /* input weights, (gates * hidden, input) */
  const void *weight_hh;         /* recurrent weights, (gates * hidden, output) */
  const void *weight_hr;         /* LSTM's projection, (output, hidden); NULL if there is none */
  const void *bias_ih, *bias_hh; /* biases, (gates * hidden); NULL means 0 */
} tlk_Rnn;

/* Returns the number of bytes that the forward pass stores for the backward pass, unless the device
** defines a size itself (tl_DeviceApi.rnn_reserve). The stored values are float32 (float64 for
** float64). For each row, an LSTM stores the gates, the cell, the cell's tanh and, if there is a
** projection, the output before the projection. A GRU stores the new, reset and update gates, and
** the state's part of the new gate. */
static inline int64_t tlk_rnn_reserve(const tlk_Rnn *r) {
  int64_t lstm = r->weight_hr ? 7 : 6;
  int64_t sizes = r->mode == TLK_RNN_LSTM ? lstm : r->mode == TLK_RNN_GRU ? 4 : 0;
  return r->rows * sizes * r->hidden * (r->dtype == TL_F64 ? 8 : 4);
}

/* Elementwise kernels with several outputs, or with more inputs than pointwise kernels, as
** X(kernel, outputs, inputs). All of them compute in float or double; kernels/fused.h has the
** formulas.
**
**   swiglu, swiglu_bias   out from a, b, and biases of both
**   ..._backward          grad_a, grad_b from grad and the same inputs
**   rotate, rotate_back   x, y from a, b, cos, sin: (a, b) rotated by an angle, and back
**   gate_backward         grad_a, grad_b from grad, s, b: the gradients of s b, where s = sigmoid(a)
**   gate_tanh_backward    grad_a, grad_b from grad, s, t: those of s t, where t = tanh(b) */
#define TLK_FUSED_RESULTS(X) \
  X(swiglu, 1, 2)            \
  X(swiglu_bias, 1, 4)       \
  X(rotate, 2, 4)            \
  X(rotate_back, 2, 4)
#define TLK_FUSED_GRADIENTS(X)  \
  X(swiglu_backward, 2, 3)      \
  X(swiglu_bias_backward, 2, 5) \
  X(gate_backward, 2, 3)        \
  X(gate_tanh_backward, 2, 3)
#define TLK_FUSED(X) TLK_FUSED_RESULTS(X) TLK_FUSED_GRADIENTS(X)
typedef enum tlk_Fused {
#define X(name, outputs, inputs) TLK_FUSED_##name,
  TLK_FUSED(X)
#undef X
      TLK_NFUSED
} tlk_Fused;

/* How scatter combines a new element with the element that is already there. */
typedef enum tlk_Join {
  TLK_JOIN_SET,
  TLK_JOIN_ADD,
  TLK_JOIN_MUL,
  TLK_JOIN_MAX,
  TLK_JOIN_MIN
} tlk_Join;

/* The distributions of random numbers; their parameters are a and b. */
typedef enum tlk_Distribution {
  TLK_UNIFORM,     /* [a, b) */
  TLK_NORMAL,      /* normal, with mean a and standard deviation b */
  TLK_LOG_NORMAL,  /* exp of a normal number with mean a and standard deviation b */
  TLK_EXPONENTIAL, /* exponential, with rate a; never 0 */
  TLK_CAUCHY,      /* Cauchy, with median a and half width b */
  /* number of trials until the first success, if a trial succeeds with probability a */
  TLK_GEOMETRIC,
  TLK_BERNOULLI, /* 1 with probability a, otherwise 0 */
  TLK_INTEGER    /* one of the b integers that begin with a; b is unsigned, and 0 means 2^64 */
} tlk_Distribution;

/* Returns the number of elements that share a block of four random words. */
static inline int tlk_per_block(tlk_Distribution d, tl_DType dtype) {
  bool wide = d == TLK_INTEGER || (dtype == TL_F64 && d < TLK_GEOMETRIC);
  return wide ? 2 : 4;
}

/* The rules of optimizers, as X(rule, family, states). A rule computes a parameter's step from the
** gradient and from `states` tensors that it keeps for each parameter. TLK_OPTIM_FAMILIES has the
** families of rules, as X(family, options, clocks): the numeric options of a rule, with the
** learning rate first, and the counters ("clocks") that advance with each step, such as the step
** count. kernels/optim.h describes rules and families and has the formulas. */
#define TLK_OPTIM_RULES(X)                 \
  X(sgd, sgd, 0)                           \
  X(sgd_momentum, sgd, 1)                  \
  X(sgd_nesterov, sgd, 1)                  \
  X(adam, adam, 2)                         \
  X(amsgrad, adam, 3)                      \
  X(nadam, nadam, 2)                       \
  X(radam, radam, 2)                       \
  X(adamax, adamax, 2)                     \
  X(adagrad, adagrad, 1)                   \
  X(adadelta, adadelta, 2)                 \
  X(rmsprop, rmsprop, 1)                   \
  X(rmsprop_momentum, rmsprop, 2)          \
  X(rmsprop_centered, rmsprop, 2)          \
  X(rmsprop_centered_momentum, rmsprop, 3) \
  X(rprop, rprop, 2)                       \
  X(asgd, asgd, 1)                         \
  X(lion, lion, 1)                         \
  X(muon, muon, 1)                         \
  X(muon_nesterov, muon, 1)                \
  X(lerp, lerp, 0)
#define TLK_OPTIM_FAMILIES(X) \
  X(sgd, 6, 0)                \
  X(adam, 6, 1)               \
  X(nadam, 7, 2)              \
  X(radam, 6, 1)              \
  X(adamax, 5, 1)             \
  X(adagrad, 4, 1)            \
  X(adadelta, 4, 1)           \
  X(rmsprop, 5, 1)            \
  X(rprop, 5, 1)              \
  X(asgd, 5, 3)               \
  X(lion, 4, 0)               \
  X(muon, 2, 0)               \
  X(lerp, 1, 0)

typedef enum tlk_OptimRule {
#define X(rule, family, states) TLK_OPTIM_##rule,
  TLK_OPTIM_RULES(X)
#undef X
      TLK_NOPTIM_RULES
} tlk_OptimRule;

enum {
  TLK_OPTIM_OPTIONS = 7,
  TLK_OPTIM_CLOCKS = 3,
  TLK_OPTIM_STATES = 3,
  /* the largest number of coefficients that a rule computes from options and step counts */
  TLK_OPTIM_COEFS = 12,
  /* The largest number of tensors in one call. The tensors' addresses are part of the call. A list
  ** in device memory would have to be copied there before each step, because the gradients'
  ** addresses change each time, and a graph that has captured the step would have to keep the list.
  ** 56 tensors of 56 bytes fit into the 4 KB that CUDA allows for kernel parameters (32 KB in the
  ** latest versions), and leave 700 bytes for the table in which a block finds its tensor. */
  TLK_OPTIM_TENSORS = 56
};

/* The addresses of a parameter, its gradient and its states, each with n elements. They are
** contiguous, or they are dense with the same order of dimensions in all operands. */
typedef struct tlk_OptimTensor {
  void *param;
  const void *grad;
  void *state[TLK_OPTIM_STATES];
  /* the parameter in float32, from which `param` is rounded; NULL if there is none */
  float *master;
  int64_t n;
} tlk_OptimTensor;

#endif
