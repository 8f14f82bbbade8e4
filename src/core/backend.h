/*
** backend.h - what a device can do: a table of kernels. Operators check,
** promote, broadcast and allocate; kernels do arithmetic on what they are
** given and know no tensor. A member that can fail returns false with a
** message; "contiguous" means row-major without gaps.
**
** Common letters: a kernel "along a dimension" sees its input as contiguous
** (outer, n, inner) and works along n.
*/
#ifndef TLI_BACKEND_H
#define TLI_BACKEND_H

#include "core/iter.h"
#include "core/lapack.h"
#include "core/random.h"
#include "kernels.h" /* generated: enums of pointwise, reduction and scan kernels */

/* Bytes with their type, as kernels take them. */
typedef struct tlk_Array {
  void *data;
  tl_DType dtype;
} tlk_Array;

/* Products of `batch` pairs of row-major matrices: for each one
**   c (m, n) = alpha * op(a) (m, k) @ op(b) (k, n) + beta * c
** where op transposes if trans_a, trans_b is set. Rows of a matrix as it lies
** in memory are lda, ldb, ldc elements apart, matrices of a batch stride_a,
** stride_b, stride_c elements; stride_a and stride_b may be 0. With beta 0 the
** old c is not read. All three have one dtype; the half types are summed in
** float32. m, n, k may be 0. */
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

/* Windows that slide over the last three dimensions of (planes, in[0], in[1],
** in[2]); tensors of fewer dimensions have leading ones. Window o along a
** dimension begins at o * stride - padding; its elements are `dilation` apart. */
typedef struct tlk_Windows {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
} tlk_Windows;

/* A convolution: in (batch, channels_in, in...), weight (channels_out,
** channels_in / groups, kernel...), out (batch, channels_out, out...), all
** contiguous and of one floating dtype; the half types are summed in float32. */
typedef struct tlk_Conv {
  tlk_Windows windows;
  tl_DType dtype;
  int64_t batch, groups, channels_in, channels_out;
} tlk_Conv;

/* Pooling of `planes` planes. */
typedef struct tlk_Pool {
  tlk_Windows windows;
  int64_t planes;
  bool adaptive;    /* window o is [floor(o in / out), ceil((o + 1) in / out)) */
  bool include_pad; /* averages count what lies in the padding, as zeros */
  int64_t divisor;  /* of averages; 0: the number of elements */
} tlk_Pool;

/* A linear map along one dimension: in (outer, in, inner) to (outer, out,
** inner), element i of which is the sum over first[i] <= t < first[i + 1] of
** weights[t] times element at[t]. */
typedef struct tlk_Resample {
  int64_t outer, in, out, inner;
  int64_t terms; /* of every sum; 0: they differ */
  const int32_t *first, *at;
  const double *weights;
} tlk_Resample;

/* Lines of elements for gather and scatter: `it` walks over the lines, with
** operands in the order that the kernel names; along a line operand k's
** `count` elements are strides[k] bytes apart. One operand is the indexed one:
** it has n positions along a line, counted from 1. */
typedef struct tlk_IndexCall {
  const tli_Iter *it;
  int64_t count;
  int64_t n;
  int64_t strides[3];
} tlk_IndexCall;

/* Predictions in (outer, classes, inner), float32 or float64, and one label,
** counted from 1, for each of (outer, inner). */
typedef struct tlk_Classes {
  int64_t outer, classes, inner;
  const int64_t *target; /* (outer, inner) */
  const void *weight;    /* one per class, of the data's type; NULL: 1 */
  int64_t ignore;        /* a label that does not count */
  bool logits;           /* the data are logits, else log-probabilities */
} tlk_Classes;

/* Sequences for connectionist temporal classification: log-probabilities (time,
** batch, classes) and labels, counted from 1, (batch, longest) with their
** numbers. */
typedef struct tlk_Ctc {
  int64_t time, batch, classes, longest;
  const int64_t *targets, *input_lengths, *target_lengths;
  int64_t blank; /* from 1 */
} tlk_Ctc;

/* How scatter joins an element with what is there. */
typedef enum tlk_Join {
  TLK_JOIN_SET,
  TLK_JOIN_ADD,
  TLK_JOIN_MUL,
  TLK_JOIN_MAX,
  TLK_JOIN_MIN
} tlk_Join;

/* Distributions of random numbers, with the meaning of their parameters. */
typedef enum tlk_Distribution {
  TLK_UNIFORM,     /* [a, b) */
  TLK_NORMAL,      /* mean a, standard deviation b */
  TLK_LOG_NORMAL,  /* e to the power of that */
  TLK_EXPONENTIAL, /* rate a; never 0 */
  TLK_CAUCHY,      /* median a, half width b */
  TLK_GEOMETRIC,   /* trials until the first success of probability a */
  TLK_BERNOULLI,   /* 1 with probability a, else 0 */
  TLK_INTEGER      /* one of b integers from a on; b is unsigned, 0 means 2^64 */
} tlk_Distribution;

/* How many elements share a block of four random words. */
static inline int tlk_per_block(tlk_Distribution d, tl_DType dtype) {
  bool wide = d == TLK_INTEGER || (dtype == TL_F64 && d < TLK_GEOMETRIC);
  return wide ? 2 : 4;
}

typedef struct tl_Backend {
  const char *name;
  int (*count)(void); /* devices of this kind; NULL: one */

  /* Memory on the device; NULL for the CPU, see core/alloc.h. */
  void *(*alloc)(tl_Device device, int64_t bytes);
  void (*free)(tl_Device device, void *data, int64_t bytes);
  /* Copies bytes to or from the CPU, or between devices of this kind. NULL for
  ** the CPU itself. */
  bool (*transfer)(tl_Device to, void *dst, tl_Device from, const void *src, int64_t bytes);

  /* ---- elementwise: operands of any dtype and stride, outputs first ---- */

  /* args[0] = (dtype) args[1]: float to integer truncates towards zero, to
  ** bool is "not zero". */
  bool (*copy)(const tli_Iter *it);
  /* args[0] = value. */
  bool (*fill)(const tli_Iter *it, tl_Scalar value);
  /* args[0] = kernel(args[1], ...), computed in `compute` (I32, I64, F32 or
  ** F64), to which inputs are converted and from which the output is. */
  bool (*pointwise)(tlk_Pointwise kernel, tl_DType compute, const tli_Iter *it,
                    const tl_Scalar *params);

  /* ---- sequences ---- */

  /* out[i] = start + i * step for i < n; in int64, with wrap around, if both
  ** are integers, else in float64. out is contiguous. */
  bool (*iota)(tlk_Array out, int64_t n, tl_Scalar start, tl_Scalar step);
  /* n numbers from start to end with equal steps; both ends are exact. */
  bool (*linspace)(tlk_Array out, int64_t n, double start, double end);

  /* ---- random numbers ---- */

  /* n numbers into contiguous out. Element i is made of the words that are its
  ** share of block `block` + i / tlk_per_block of stream `seed` (tli_philox),
  ** and of nothing else. */
  bool (*random)(tlk_Distribution distribution, tlk_Array out, int64_t n, uint64_t seed,
                 uint64_t block, tl_Scalar a, tl_Scalar b);

  /* ---- products ---- */

  bool (*gemm)(const tlk_Gemm *call);
  /* Factorizations; NULL where there are none. */
  const tlk_Lapack *lapack;

  /* ---- along a dimension ---- */

  /* out (outer, inner) = reduction of in (outer, n, inner). Computes in
  ** `compute` as above; the half types and float32 sum with an error that does
  ** not grow with n. n == 0 gives the identity. Results do not depend on the
  ** number of threads. */
  bool (*reduce)(tlk_Reduction kernel, tl_DType compute, tlk_Array out, tlk_Array in, int64_t outer,
                 int64_t n, int64_t inner, const tl_Scalar *params);

  /* Of in (outer, n, inner), n > 0: the largest element along n (the smallest
  ** unless `largest`; NaN if there is one) and its position, from 1, the first
  ** of several: values (outer, inner) of in's dtype, which may have data NULL,
  ** and indices (outer, inner). */
  bool (*reduce_index)(bool largest, tlk_Array values, int64_t *indices, tlk_Array in,
                       int64_t outer, int64_t n, int64_t inner);
  /* Of a floating in (outer, n, inner): the mean along n and the sum of squared
  ** deviations from it, both (outer, inner), float32 or float64, the second
  ** may have data NULL. n == 0 gives NaN and 0. */
  bool (*moments)(tlk_Array mean, tlk_Array deviation, tlk_Array in, int64_t outer, int64_t n,
                  int64_t inner);

  /* out = running reduction of in, both (outer, n, inner), along n: element i
  ** joins elements 0 to i. Computes in `compute`; sums and products of floating
  ** types in float64, of integers in int64. indices, of the same shape, receives
  ** the position, from 1, of the element that counts (the last of several) from
  ** kernels that pick one; else it is NULL. */
  bool (*scan)(tlk_Scan kernel, tl_DType compute, tlk_Array out, int64_t *indices, tlk_Array in,
               int64_t outer, int64_t n, int64_t inner);

  /* out = softmax of in (outer, n, inner) along n, or its logarithm; both of
  ** one floating dtype. The half types are computed in float32. */
  bool (*softmax)(bool log, tlk_Array out, tlk_Array in, int64_t outer, int64_t n, int64_t inner);
  /* The gradient of softmax's input, from its result `out` and the gradient of
  ** that. */
  bool (*softmax_backward)(bool log, tlk_Array grad_in, tlk_Array grad_out, tlk_Array out,
                           int64_t outer, int64_t n, int64_t inner);

  /* Each of `rows` rows of n elements is shifted to mean 0 and scaled to
  ** variance 1, then by weight and bias (n elements each, of in's dtype, or
  ** data NULL): out = (in - mean) * rstd * weight + bias with
  ** rstd = 1 / sqrt(variance + eps). mean and rstd (rows) are float32, float64
  ** for float64. With mean.data NULL nothing is shifted, and rstd is that of
  ** the mean square. */
  bool (*layer_norm)(tlk_Array out, tlk_Array mean, tlk_Array rstd, tlk_Array in, tlk_Array weight,
                     tlk_Array bias, int64_t rows, int64_t n, double eps);
  /* Its gradients; grad_in, grad_weight and grad_bias may have data NULL. The
  ** result does not depend on the number of threads. */
  bool (*layer_norm_backward)(tlk_Array grad_in, tlk_Array grad_weight, tlk_Array grad_bias,
                              tlk_Array grad_out, tlk_Array in, tlk_Array mean, tlk_Array rstd,
                              tlk_Array weight, int64_t rows, int64_t n);

  /* ---- channels of (outer, channels, inner); what there is one of for each
  ** channel is float32, or float64 where the data is ---- */

  /* The mean of each channel and the sum of squared deviations from it. */
  bool (*channel_moments)(void *mean, void *deviation, tlk_Array in, int64_t outer,
                          int64_t channels, int64_t inner);
  /* For each channel the sum of grad and of grad * (in - mean). */
  bool (*channel_products)(void *sum, void *product, tlk_Array grad, tlk_Array in, const void *mean,
                           int64_t outer, int64_t channels, int64_t inner);
  /* out = (in - mean) * scale + shift + other * factor; mean and shift may be
  ** NULL, other.data and factor, too. All arrays have one dtype. */
  bool (*channel_affine)(tlk_Array out, tlk_Array in, const void *mean, const void *scale,
                         const void *shift, tlk_Array other, const void *factor, int64_t outer,
                         int64_t channels, int64_t inner);

  /* ---- classes; all arrays have in's type ---- */

  /* loss (outer, inner) = -weight[target] * log-probability of target; weights
  ** = weight[target]; both are 0 where the label does not count. norm (outer,
  ** inner) = log of the sum of exponentials, for logits. False without message
  ** and one of the offending labels in *bad, if one is no class. */
  bool (*class_loss)(const tlk_Classes *call, tlk_Array loss, void *weights, void *norm,
                     tlk_Array in, int64_t *bad);
  /* The gradient of in; `in` and norm are read for logits only. */
  bool (*class_loss_backward)(const tlk_Classes *call, tlk_Array grad_in, tlk_Array grad_loss,
                              const void *in, const void *norm);

  /* ---- sequences of labels; all arrays are float32, or float64 ---- */

  /* loss (batch) = -log of the probability of the labels; alpha (batch, time,
  ** 2 longest + 1) = log of that of their beginnings, blanks between. */
  bool (*ctc_loss)(const tlk_Ctc *call, tlk_Array loss, void *alpha, const void *log_probs);
  /* The gradient of the logits whose log_softmax log_probs is; 0 past a
  ** sequence's end. */
  bool (*ctc_loss_backward)(const tlk_Ctc *call, tlk_Array grad_in, const void *grad_loss,
                            const void *loss, const void *alpha, const void *log_probs);

  /* ---- positions ---- */

  /* Whether all n elements of index lie in [1, size], or in [-size, -1] if
  ** `wrap`; if not, *bad is one that does not. No message. */
  bool (*check_index)(const int64_t *index, int64_t n, int64_t size, bool wrap, int64_t *bad);
  /* Operands out, index (int64), in: out = in at the position that index
  ** holds. False without message, and one of the offending positions in *bad,
  ** if one is out of range. */
  bool (*gather)(const tlk_IndexCall *call, int64_t *bad);
  /* Operands out, index (int64), in, of which out is indexed: out at the
  ** position that index holds is joined with in, in the order of the lines.
  ** Lines that differ must not share elements of out. Positions must have been
  ** checked. */
  bool (*scatter)(tlk_Join join, const tlk_IndexCall *call);
  /* The number of elements that are not zero. */
  bool (*count_nonzero)(tlk_Array in, int64_t n, int64_t *count);
  /* Their positions in the given shape, from 1, in order: out (count, ndim);
  ** ndim 0 is taken as a shape of one element. */
  bool (*nonzero)(int64_t *out, tlk_Array in, int ndim, const int64_t *sizes);

  /* For each of m values in each of `rows` rows: where it would go, from 1, in
  ** its row of n ascending elements: before the first that is not smaller, or,
  ** if right, that is larger. NaN is larger than all. Both of one dtype to
  ** compute in. */
  bool (*search)(int64_t *out, tlk_Array sorted, tlk_Array values, int64_t rows, int64_t n,
                 int64_t m, bool right);

  /* ---- order; NaN is larger than every number, -0 equals 0 ---- */

  /* Each of `rows` rows of n elements sorted, stably; and the positions of the
  ** elements, from 1. Either result may be NULL (data NULL). */
  bool (*sort)(bool descending, tlk_Array values, int64_t *indices, tlk_Array in, int64_t rows,
               int64_t n);
  /* The k first elements of each row so sorted, k <= n. */
  bool (*topk)(bool descending, tlk_Array values, int64_t *indices, tlk_Array in, int64_t rows,
               int64_t n, int64_t k);
  /* Of each row the element of rank `rank`, from 0, and its position; with
  ** rank -1 the lower median: NaN, the first, if there is one, or, if `skip_nan`,
  ** of what is no NaN. n > 0. */
  bool (*select_rank)(int64_t rank, bool skip_nan, tlk_Array values, int64_t *indices, tlk_Array in,
                      int64_t rows, int64_t n);
  /* Of each row the most frequent element, the smallest of several, and its
  ** last position. n > 0. */
  bool (*mode)(tlk_Array values, int64_t *indices, tlk_Array in, int64_t rows, int64_t n);
  /* The positions of n rows of m elements in lexicographic order, stably. */
  bool (*row_order)(int64_t *order, tlk_Array in, int64_t n, int64_t m);

  /* ---- windows; arrays are contiguous ---- */

  /* out = in * weight + bias; bias (channels_out) may be NULL. */
  bool (*conv)(const tlk_Conv *conv, void *out, const void *in, const void *weight,
               const void *bias);
  /* The gradients of its input and weight. */
  bool (*conv_input)(const tlk_Conv *conv, void *grad_in, const void *grad_out, const void *weight);
  bool (*conv_weight)(const tlk_Conv *conv, void *grad_weight, const void *in,
                      const void *grad_out);
  /* The largest element of each window, NaN if there is one, and its position
  ** in its plane, from 1; the padding does not count. */
  bool (*max_pool)(const tlk_Pool *pool, tlk_Array out, int64_t *indices, tlk_Array in);
  bool (*avg_pool)(const tlk_Pool *pool, tlk_Array out, tlk_Array in);
  bool (*avg_pool_backward)(const tlk_Pool *pool, tlk_Array grad_in, tlk_Array grad_out);
  /* Of float32 or float64. */
  bool (*resample)(const tlk_Resample *r, tlk_Array out, tlk_Array in);
  /* cols (planes, kernel..., out...) = the elements of each window of in
  ** (planes, in...), 0 in the padding; and in = the sum of cols back into
  ** their places. */
  bool (*im2col)(const tlk_Windows *w, int64_t planes, tlk_Array cols, tlk_Array in);
  bool (*col2im)(const tlk_Windows *w, int64_t planes, tlk_Array in, tlk_Array cols);
} tl_Backend;

/* The table of a device; never NULL for a device of an existing tensor, for
** others NULL with TL_EDEVICE. */
const tl_Backend *tli_backend(tl_Device device);
/* Devices of a kind, 0 where the kind is not known. */
int tli_device_count(tl_DeviceType type);
/* Makes a kind of device known; `backend` must stay for good. */
void tli_backend_register(tl_DeviceType type, const tl_Backend *backend);

/* The CPU's, built in. The best instruction set is chosen on the first call.*/
const tl_Backend *tlk_cpu_backend(void);
/* What the CPU's kernels were chosen for, "x86-64-v3", and what multiplies
** matrices, "OpenBLAS 0.3.21 ...": for people. */
const char *tlk_cpu_isa(void);
const char *tlk_blas_config(void);

#endif
