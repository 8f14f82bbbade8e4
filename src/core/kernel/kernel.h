/*
** kernel.h - the calls of kernels. Operators check, promote, broadcast and allocate; kernels do
** arithmetic on their arguments and know no tensors.
**
** A call is one flat struct: pointers to the device's memory, sizes and numbers by value, and
** nothing on the host that the kernel would have to read later. So a device may copy the struct to
** a queue and run the call later, and a graph is a list of such structs. A kernel returns false
** with a message if the call could not be made. An error in the data is a fault (tlk_fault), which
** a device reports at the next wait.
**
** "Contiguous" means row-major without gaps. A kernel "along a dimension" sees its input as
** contiguous (outer, n, inner) and works along n.
**
** The file also compiles as C++, since the kernels of GPUs are C++.
*/
#ifndef TLI_KERNEL_H
#define TLI_KERNEL_H

#include "core/kernel/fault.h"
#include "core/kernel/iter.h"
#include "core/kernel/parts.h"
#include "kernels.h" /* generated enums of pointwise, reduction and scan kernels */

/* ---- the context ------------------------------------------------------------------------ */

/* A stream of a device; work queued on a stream runs in order. */
typedef struct tl_Stream tl_Stream;

/* The device and stream on which a kernel runs. */
typedef struct tlk_Context {
  tl_Device device;
  tl_Stream *stream; /* the stream; NULL on the CPU */
  /* The device's fault word, which holds the first fault until it is reported. NULL on the CPU,
  ** where a fault makes the call fail. */
  tlk_Fault *fault;
} tlk_Context;

/* Records a fault in the context's fault word. If there is no fault word, makes the call fail with
** the fault's message. Returns false. */
bool tlk_fault(const tlk_Context *cx, const tlk_Fault *fault);

/* The largest number of numeric parameters of a pointwise kernel or a reduction. */
#define TLK_PARAMS 4

/* ---- elementwise: operands of any dtype and stride, outputs first ---- */

/* Converts elements: args[0] = (dtype) args[1]. Floating to integer truncates towards zero;
** conversion to bool gives true for every value that is not zero. */
struct tlk_copy {
  const tlk_Context *cx;
  tli_Iter it;
};

/* Sets every element of args[0] to `value`. */
struct tlk_fill {
  const tlk_Context *cx;
  tli_Iter it;
  tl_Scalar value;
};

/* Applies a function to each element: args[0] = kernel(args[1], ...). Inputs are converted to
** `compute` (I32, I64, F32 or F64), and the output is converted from it. */
struct tlk_pointwise {
  const tlk_Context *cx;
  tli_Iter it;
  tlk_Pointwise kernel;
  tl_DType compute;
  tl_Scalar params[TLK_PARAMS];
  tlk_FaultSource source;
};

/* Applies an elementwise kernel with several outputs: args[0], ... = kernel(inputs). Outputs come
** first in args; operands may have any dtypes and strides. The arithmetic is in `compute`, F32 or
** F64. */
struct tlk_fused {
  const tlk_Context *cx;
  tli_Iter it;
  tlk_Fused kernel;
  tl_DType compute;
};

/* ---- sequences ---- */

/* Writes an arithmetic sequence.
** out[i] = start + i * step for i < n. If start and step are integers, the arithmetic is in int64
** and wraps around; otherwise it is in float64. out is contiguous. */
struct tlk_iota {
  const tlk_Context *cx;
  tlk_Array out;
  int64_t n;
  tl_Scalar start;
  tl_Scalar step;
};

/* Writes n numbers from start to end with equal steps; both ends are exact. */
struct tlk_linspace {
  const tlk_Context *cx;
  tlk_Array out;
  int64_t n;
  double start, end;
};

/* ---- random numbers ---- */

/* Writes n random numbers to contiguous out. Element i is computed only from its part of block
** `block` + i / tlk_per_block of stream `seed` (tli_philox). A graph must draw different numbers at
** each replay. In a capture, `state` therefore points to two words on the device, {seed, block},
** which are written before each replay. The first word replaces `seed`, and the second is added to
** `block`. */
struct tlk_random {
  const tlk_Context *cx;
  tlk_Distribution distribution;
  tlk_Array out;
  int64_t n;
  uint64_t seed;
  uint64_t block;
  const uint64_t *state; /* {seed, block} on the device; NULL outside of captures */
  tl_Scalar a;
  tl_Scalar b;
};

/* Adds dropout of `in` to residual.
** out = residual + in * m / (1 - p). For element i, m is 1 if word i % 4 of block `block` + i / 4
** of stream `seed` is less than (1 - p) * 2^32, as for TLK_BERNOULLI, otherwise 0. All arrays are
** contiguous with n elements and one floating dtype. If residual.data is NULL, the residual is 0.
** The residual is not scaled. If p is 1, out is residual, or NaN where `in` is not finite. */
struct tlk_dropout {
  const tlk_Context *cx;
  tlk_Array out, in, residual;
  int64_t n;
  double p;
  uint64_t seed, block;
  const uint64_t *state; /* the state of the random words, as in tlk_random */
};

/* ---- products ---- */

struct tlk_gemm {
  const tlk_Context *cx;
  tlk_Gemm gemm;
};

/* Computes a linear layer with its activation in one pass.
** c = activation(inner), where inner = gemm's product + bias. gemm is one product of a floating
** dtype with k > 0 and beta 0; bias has n elements, or is NULL. inner (m, n), unless it is NULL, is
** written with c's row stride. sums (m), unless it is NULL, receives the sums of op(a)'s rows, for
** a dense a. Bias and the three results have gemm's dtype. Half types are rounded at the end; for
** gelu by erf, a GPU may also round the argument. */
struct tlk_linear {
  const tlk_Context *cx;
  tlk_Gemm gemm;
  const void *bias;
  tlk_Activation activation;
  void *inner, *sums;
};

/* Computes the gradients before an activation: grad_in (rows, n) = grad_out * activation'(inner),
** and grad_bias (n) = the sum of grad_in's rows, unless grad_bias's data is NULL. `saved` is the
** result of relu or the argument of gelu. All arrays are contiguous and have one floating dtype. */
struct tlk_activation_backward {
  const tlk_Context *cx;
  tlk_Activation activation;
  tlk_Array grad_in, grad_bias, grad_out, saved;
  int64_t rows, n;
};

/* ---- Fourier transforms ---- */

/* Computes Fourier transforms along n > 0 of contiguous arrays: out[k] = scale times the sum over j
** of in[j] exp(-2 pi i j k / n), with + in the exponent if `inverse`. Complex arrays have dtype C64
** or C128; real arrays have the dtype of the complex arrays' parts.
**   COMPLEX: in and out (outer, n, inner) may be one array.
**   FROM_REAL: in (outer, n) is real, out (outer, n / 2 + 1); not inverse, inner is 1.
**   TO_REAL: in (outer, n / 2 + 1) is the first half of a Hermitian line; its imaginary parts at 0
**   and at n / 2 are taken as 0. out (outer, n) is real; inverse, inner is 1. */
struct tlk_fft {
  const tlk_Context *cx;
  tlk_FftKind kind;
  bool inverse;
  tlk_Array out, in;
  int64_t outer, n, inner;
  double scale;
};

/* ---- products of sparse matrices ---- */

typedef enum tlk_CsrKind { TLK_CSR_PRODUCT, TLK_CSR_TRANSPOSED, TLK_CSR_SAMPLED } tlk_CsrKind;

/* Products with a sparse matrix (rows, across) in CSR form (compressed sparse rows). Row i has the
** elements e from pointers[i] to pointers[i + 1] - 1, and element e is in column columns[e].
** Positions count from 1: pointers are from 1 to nnz + 1, columns from 1 to `across`. The dense
** matrices are row-major and have out's dtype, F32 or F64.
**   PRODUCT: out (rows, k) = the matrix, with values (nnz), times right (across, k).
**   TRANSPOSED: out (across, k) = the matrix's transpose times left (rows, k).
**   SAMPLED: out (nnz): the product of row i of left (rows, k) and row j of right (across, k) for
**   each element (i, j). */
struct tlk_csr {
  const tlk_Context *cx;
  tlk_CsrKind kind;
  tlk_Array out;
  const int64_t *pointers, *columns;
  const void *values, *left, *right;
  int64_t rows, across, nnz, k;
  tlk_FaultSource of_pointers, of_columns;
};

/* ---- along a dimension ---- */

/* Reduces along a dimension: `out` (outer, inner) is the reduction of `in` (outer, n, inner). The
** arithmetic is in `compute`, as in tlk_pointwise. The error of sums of half types and float32 does
** not grow with n. n == 0 gives the neutral element. Results do not depend on the number of
** threads. */
struct tlk_reduce {
  const tlk_Context *cx;
  tlk_Reduction kernel;
  tl_DType compute;
  tlk_Array out, in;
  int64_t outer, n, inner;
  tl_Scalar params[TLK_PARAMS];
};

/* Finds the largest element of `in` (outer, n, inner) along n, or the smallest without `largest`.
** `values` (outer, inner) has the elements, with the dtype of `in`; `indices` (outer, inner) has
** their positions, counted from 1. Of equal elements, the first is found; NaN is found before any
** number. n is at least 1. If the data of `values` is NULL, only the positions are stored. */
struct tlk_reduce_index {
  const tlk_Context *cx;
  bool largest;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t outer, n, inner;
};

/* For a floating array `in` (outer, n, inner), computes the mean along n and the sum of squared
** deviations from that mean, both (outer, inner) in float32 or float64. If the sum's data is NULL,
** only the mean is stored. n == 0 gives NaN and 0. */
struct tlk_moments {
  const tlk_Context *cx;
  tlk_Array mean, deviation, in;
  int64_t outer, n, inner;
};

/* Computes the scan of `in` along n: element i of `out` combines elements 0 to i of `in`. Both
** arrays are (outer, n, inner). The arithmetic is in `compute`, but sums and products of floating
** types are in float64, and those of integers in int64. For kernels that pick an element,
** `indices`, of the same shape, receives the element's position, counted from 1 (the last position
** of equal elements); for other kernels it is NULL. */
struct tlk_scan {
  const tlk_Context *cx;
  tlk_Scan kernel;
  tl_DType compute;
  tlk_Array out;
  int64_t *indices;
  tlk_Array in;
  int64_t outer, n, inner;
};

/* Computes softmax or log-softmax along n: out = softmax(in), both (outer, n, inner) with one
** floating dtype. Half types are computed in float32. */
struct tlk_softmax {
  const tlk_Context *cx;
  bool log;
  tlk_Array out, in;
  int64_t outer, n, inner;
};

/* Computes the gradient of softmax's input from softmax's result `out` and the gradient of
** `out`. */
struct tlk_softmax_backward {
  const tlk_Context *cx;
  bool log;
  tlk_Array grad_in, grad_out, out;
  int64_t outer, n, inner;
};

/* Computes attention.
** out[i] = the sum over j of weight[i][j] * value[j]. norm (batch, heads, queries) is saved for
** attention_backward. It holds the log-sum-exp of each query's scores, or 0 for a query that sees
** nothing, and is contiguous, in float32 (float64 for float64). */
struct tlk_attention {
  const tlk_Context *cx;
  tlk_Attention attention;
  tlk_HeadRows out;
  void *norm;
};

/* The keys and values of one sequence, and the new ones. Each array is (kv_heads, capacity, size) with
** rows of one dtype; if this is int8, each 32 elements share a scale in float16, in arrays
** (kv_heads, capacity, size / 32). The first `used` rows are filled. The sequence's `count` new rows
** begin at row `first` of the call's query, key and value. */
typedef struct tlk_Cache {
  void *keys, *values;
  uint16_t *key_scales, *value_scales;
  int64_t capacity, used, first, count;
} tlk_Cache;

/* Appends new keys and values to caches, and computes the attention of each new query to its own
** sequence's keys, up to the query's own position. If `window` is positive, only the last `window`
** of these are seen. query, key, value and out are float32, of batch 1. `stored` is the dtype of the
** caches: float32, float16 or int8. */
enum { TLK_CACHES = 32 /* the largest number of caches in a call */ };
struct tlk_cached_attention {
  const tlk_Context *cx;
  tl_DType stored;
  int32_t count;
  tlk_HeadRows out, query, key, value;
  int64_t heads, kv_heads, size, window;
  double scale;
  tlk_Cache caches[TLK_CACHES];
};

/* Computes the gradients of attention; a gradient whose `data` is NULL is not computed. The mask's
** gradient is added to grad_mask, in float32 (float64 for float64). A stride of 0 in grad_mask sums
** over that dimension; the dimension of keys must have a stride other than 0. The results do not
** depend on the number of threads. */
struct tlk_attention_backward {
  const tlk_Context *cx;
  tlk_Attention attention;
  tlk_HeadRows grad_query, grad_key, grad_value;
  tlk_HeadPairs grad_mask;
  tlk_HeadRows grad_out, out;
  const void *norm;
};

/* Computes layer norm or RMS norm.
** Each of `rows` rows of n elements is shifted to mean 0 and scaled to variance 1, then scaled by
** weight and shifted by bias: out = (in - mean) * rstd * weight + bias with rstd = 1 /
** sqrt(variance + eps). weight and bias have n elements each, of in's dtype; data NULL means a
** weight of 1 or a bias of 0. mean and rstd (rows) are float32, or float64 for float64. If
** mean.data is NULL, nothing is shifted, and rstd is computed from the mean square. If
** residual.data is given, the input is the sum of `in` and residual, rounded to in's dtype; this
** sum is stored in `sum`. */
struct tlk_layer_norm {
  const tlk_Context *cx;
  tlk_Array out, mean, rstd, in, weight, bias;
  tlk_Array residual, sum;
  int64_t rows, n;
  double eps;
};

/* Computes the gradients of layer_norm; a gradient whose `data` is NULL is not computed. `in` is
** the input that was normalised; grad_sum, unless its data is NULL, is added to grad_in. The
** results do not depend on the number of threads. */
struct tlk_layer_norm_backward {
  const tlk_Context *cx;
  tlk_Array grad_in, grad_weight, grad_bias, grad_out, in, mean, rstd, weight;
  tlk_Array grad_sum;
  int64_t rows, n;
};

/* ---- channels of (outer, channels, inner); values for each channel are float32, or float64 if
** the data is ---- */

/* Computes the mean of each channel, and the sum of squared deviations from that mean. */
struct tlk_channel_moments {
  const tlk_Context *cx;
  void *mean, *deviation;
  tlk_Array in;
  int64_t outer, channels, inner;
};

/* Computes, for each channel, the sums of grad and of grad * (in - mean). */
struct tlk_channel_products {
  const tlk_Context *cx;
  void *sum, *product;
  tlk_Array grad, in;
  const void *mean;
  int64_t outer, channels, inner;
};

/* Applies an affine map to each channel.
** out = (in - mean) * scale + shift + other * factor. If mean, shift, other.data or factor is NULL,
** its values are 0. All arrays have one dtype. */
struct tlk_channel_affine {
  const tlk_Context *cx;
  tlk_Array out, in;
  const void *mean, *scale, *shift;
  tlk_Array other;
  const void *factor;
  int64_t outer, channels, inner;
};

/* Computes training batch norm with n = outer * inner elements for each channel:
**   rstd = 1 / sqrt(deviation / n + eps), out = (in - mean) * rstd * weight + bias
** mean and deviation are the results of channel_moments. A weight of NULL means 1, a bias of NULL
** means 0. */
struct tlk_batch_norm {
  const tlk_Context *cx;
  tlk_Array out;
  void *mean, *deviation, *rstd;
  tlk_Array in;
  const void *weight, *bias;
  double eps;
  int64_t outer, channels, inner;
};

/* Computes the gradients of batch_norm. If the data of grad_in is NULL, grad_in is not computed. */
struct tlk_batch_norm_backward {
  const tlk_Context *cx;
  tlk_Array grad_in;
  void *grad_weight, *grad_bias;
  tlk_Array grad_out, in;
  const void *mean, *rstd, *weight;
  int64_t outer, channels, inner;
};

/* ---- classes; all arrays have in's type, norm is double ---- */

/* Computes the cross-entropy or the negative log-likelihood of each sample.
** loss (outer, inner) = -weight[target] * log-probability of target, and weights = weight[target];
** both are 0 for ignored labels. norm (outer, inner) = log-sum-exp, for logits. A label outside of
** the classes is a fault. */
struct tlk_class_loss {
  const tlk_Context *cx;
  tlk_Classes classes;
  tlk_Array loss;
  void *weights, *norm;
  tlk_Array in;
  tlk_FaultSource source;
};

/* Computes the gradient of class_loss's input. Reads `in` and norm only if the input is logits. */
struct tlk_class_loss_backward {
  const tlk_Context *cx;
  tlk_Classes classes;
  tlk_Array grad_in, grad_loss;
  const void *in, *norm;
};

/* ---- sequences of labels; all arrays are float32, or float64 ---- */

/* Computes the CTC loss of each sample.
** loss (batch) = -log of the probability of the labels. alpha (batch, time, 2 longest + 1) = log of
** the probability of the prefixes of the labels, with blanks between the labels. */
struct tlk_ctc_loss {
  const tlk_Context *cx;
  tlk_Ctc ctc;
  tlk_Array loss;
  void *alpha;
  const void *log_probs;
};

/* Computes the gradient of the logits whose log_softmax is log_probs. The gradient is 0 past a
** sequence's end. */
struct tlk_ctc_loss_backward {
  const tlk_Context *cx;
  tlk_Ctc ctc;
  tlk_Array grad_in;
  const void *grad_loss, *loss, *alpha, *log_probs;
};

/* ---- positions ---- */

/* Finds a fault unless all n elements of index are in [1, size], or in [-size, -1] if `wrap`. */
struct tlk_check_index {
  const tlk_Context *cx;
  const int64_t *index;
  int64_t n, size;
  bool wrap;
  tlk_FaultSource source;
};

/* Finds a fault unless all n elements of the float32 or float64 array `in` are in [low, high]. NaN
** counts as out of range. */
struct tlk_check_range {
  const tlk_Context *cx;
  tlk_Array in;
  int64_t n;
  double low, high;
  tlk_FaultSource source;
};

/* Gathers elements: `out` receives the elements of `in` at the positions in `index`. The operands
** are `out`, `index` (int64) and `in`. A position out of range is a fault. */
struct tlk_gather {
  const tlk_Context *cx;
  tlk_IndexCall index;
  tlk_FaultSource source;
};

/* Combines elements of `out`, at the positions in `index` (int64), with elements of `in`. The
** operands are `out`, `index` and `in`. The elements of a line are combined in their order.
** Different lines must not share elements of out. Positions out of range are skipped; check_index
** finds them. */
struct tlk_scatter {
  const tlk_Context *cx;
  tlk_IndexCall index;
  tlk_Join join;
};

/* Counts the elements that are not zero. */
struct tlk_count_nonzero {
  const tlk_Context *cx;
  tlk_Array in;
  int64_t n;
  int64_t *count;
};

/* Lists the positions, counted from 1, of the elements that are not zero, in order, within an array
** of the given shape: out (count, ndim). ndim 0 means a shape of one element. */
struct tlk_nonzero {
  const tlk_Context *cx;
  int64_t *out;
  tlk_Array in;
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
};

/* For each of m values in each of `rows` rows, finds the position, counted from 1, at which to
** insert the value into the row of n ascending elements: before the first element that is not
** smaller or, if `right`, before the first that is larger. NaN is larger than all numbers. Values
** and rows have one compute dtype. */
struct tlk_search {
  const tlk_Context *cx;
  int64_t *out;
  tlk_Array sorted, values;
  int64_t rows, n, m;
  bool right;
};

/* ---- order; NaN is larger than every number, -0 equals 0 ---- */

/* Sorts each of `rows` rows of n elements stably. Also returns the positions of the elements,
** counted from 1. A result whose `data` is NULL is not stored. */
struct tlk_sort {
  const tlk_Context *cx;
  bool descending;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* Returns the first k elements, k <= n, that sorting each row would give, and their positions. */
struct tlk_topk {
  const tlk_Context *cx;
  bool descending;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n, k;
};

/* Finds the element of rank `rank`, counted from 0, of each row, and the element's position. Rank
** -1 means the lower median: the first NaN if the row has one or, if `skip_nan`, the median of the
** elements that are not NaN. n > 0. */
struct tlk_select_rank {
  const tlk_Context *cx;
  int64_t rank;
  bool skip_nan;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* Finds the most frequent element of each row, and the last position of that element. If several
** elements are equally frequent, the smallest of them is the result. n > 0. */
struct tlk_mode {
  const tlk_Context *cx;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* Returns the positions of n rows of m elements in lexicographic order; the sort is stable. */
struct tlk_row_order {
  const tlk_Context *cx;
  int64_t *order;
  tlk_Array in;
  int64_t n, m;
};

/* ---- windows; arrays are contiguous ---- */

/* Computes a convolution: out = in * weight + bias; bias (channels_out) is NULL if there is
** none. */
struct tlk_conv {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *out;
  const void *in, *weight, *bias;
};

/* Computes a convolution of two-dimensional images in float32: max(low, min(high, in * weight + bias
** + other)), where other may be NULL. Images are channels-last. With as many groups as channels, the
** weight is (kernel, channels) and bias (channels). With one group, rows and columns of the weight
** (kernel, channels_in, channels_out) are divided into panels of up to 64 columns, each of which is
** contiguous. Panels are multiples of 16 columns, and the first ones are 16 wider if need be; the
** last columns of weight and bias are then zeros that belong to no channel. Without a weight, the
** results are the largest elements of the windows. */
struct tlk_conv_packed {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *out;
  const void *in, *weight, *bias, *other;
  float low, high;
};

/* Computes a linear layer or a convolution of 8-bit integers. With `rows`, in is (batch, channels)
** and out (batch, n); otherwise they are images, which are channels-last. The input is rounded to
** bytes, x / scale + zero; if scale is 0, both are computed from the range of each row or image.
** weight (ceil(n / 16), depth / 4, 16, 4) has panels of 16 channels; in the depth, the window's
** elements are outermost, and the channels are padded to a multiple of 4. With `depthwise`, each of
** the n channels is computed from that channel alone, and weight is (kernel width,
** ceil(kernel height / 4), n, 4). scales and sums (n) have each channel's scale and the sum of its
** integers; bias (n) may be NULL, and so may `other`, which has the form of out and is added. Results
** are limited to the range from low to high. out is float32, or bytes as `in` can be, with their own
** scale and zero. */
struct tlk_quantized {
  const tlk_Context *cx;
  int32_t rows;
  tl_DType dtype, out_dtype; /* of in and out: float32 or uint8; bytes are rounded already */
  float scale, out_scale, low, high;
  int32_t zero, out_zero;
  int32_t depthwise;
  tlk_Windows windows;
  int64_t batch, channels, n;
  const void *in;
  const float *other;
  void *out;
  const int8_t *weight;
  const float *scales, *bias;
  const int32_t *sums;
};

/* Computes the gradients of a convolution's input and weight. */
struct tlk_conv_input {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *grad_in;
  const void *grad_out, *weight;
};

struct tlk_conv_weight {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *grad_weight;
  const void *in, *grad_out;
};

/* Finds the maximum of each window and the maximum's position in its plane, counted from 1. The
** maximum is NaN if the window contains a NaN. Padding is ignored. */
struct tlk_max_pool {
  const tlk_Context *cx;
  tlk_Pool pool;
  tlk_Array out;
  int64_t *indices;
  tlk_Array in;
};

struct tlk_avg_pool {
  const tlk_Context *cx;
  tlk_Pool pool;
  tlk_Array out, in;
};

struct tlk_avg_pool_backward {
  const tlk_Context *cx;
  tlk_Pool pool;
  tlk_Array grad_in, grad_out;
};

/* Resamples float32 or float64 data along one dimension, on the CPU also uint8, with weights that
** are rounded to 16 bits as in PyTorch. */
struct tlk_resample {
  const tlk_Context *cx;
  tlk_Resample resample;
  tlk_Array out, in;
};

/* Samples float32 images (images, channels, size[1], size[0]) at the places of `grid` (images,
** places, 2), to (images, channels, places). The position of coordinate x along dimension d
** is (x + 1) * scale[d] - shift, from 0; d is 0 for columns, whose coordinate is first. A sample is
** bilinear, or the nearest element. Beyond the image there are zeros, or the border's elements. All
** sums are fused multiply-adds, in the order of PyTorch's kernels for vectors. */
struct tlk_grid_sample {
  const tlk_Context *cx;
  int64_t images, channels, places, size[2];
  double scale[2], shift;
  int32_t nearest, border; /* 0 or 1 */
  tlk_Array out, in, grid;
};

/* Copies windows to columns: cols (planes, kernel..., out...) receives the elements of each window
** of `in` (planes, in...), and 0 in the padding. col2im adds the elements of cols to `in`, at the
** windows' positions. */
struct tlk_im2col {
  const tlk_Context *cx;
  tlk_Windows windows;
  int64_t planes;
  tlk_Array cols, in;
};

struct tlk_col2im {
  const tlk_Context *cx;
  tlk_Windows windows;
  int64_t planes;
  tlk_Array in, cols;
};

/* ---- lists of tensors, for optimizers ---- */

/* Computes the coefficients (count, TLK_OPTIM_COEFS) of an optimizer's rule, one row for each
** parameter, and advances the parameters' clocks (their step counts). If *found_inf is not 0,
** nothing changes. Unless lr's data is NULL, lr (float32 or float64) replaces options[0]. */
struct tlk_optim_coefs {
  const tlk_Context *cx;
  tlk_OptimRule rule;
  bool maximize; /* whether the step maximises instead of minimising */
  int32_t count;
  double options[TLK_OPTIM_OPTIONS];
  tlk_Array lr;
  const float *found_inf; /* the step is skipped if *found_inf is not 0; NULL means 0 */
  double *clocks[TLK_OPTIM_TENSORS][TLK_OPTIM_CLOCKS];
  double *coefs;
};

/* Steps `count` parameters by a rule, in float64 if the parameters are float64, otherwise in
** float32. If *found_inf is not 0, nothing changes. Each tensor has its own coefficients or, if
** coefs is NULL, all use `same`. Gradients are first divided by grad_scale and multiplied by clip;
** both are numbers in float32 or float64, and count as 1 if their data is NULL. */
struct tlk_optim_step {
  const tlk_Context *cx;
  tlk_OptimRule rule;
  tl_DType param, grad, state; /* dtypes of parameters, gradients and states; master is float32 */
  int32_t count;
  const double *coefs;
  double same[TLK_OPTIM_COEFS];
  const float *found_inf;
  tlk_Array grad_scale, clip;
  tlk_OptimTensor tensors[TLK_OPTIM_TENSORS];
};

/* The largest number of tensors in a call of list_reduce or list_scale, and the number of elements
** that make one partial result. */
enum { TLK_LIST_TENSORS = 128, TLK_LIST_PART = 65536 };

/* Reduces a list of tensors to partial results.
** partials[first[i] + k] = kernel of elements [k, k + 1) * TLK_LIST_PART of tensor i, whose
** elements are dense in any order. The kernels are those for norms: sum_abs, sum_square, sum_power,
** amax_abs, amin_abs, count_nonzero. The parts, and the order in which they are added, depend only
** on the tensors' sizes. */
struct tlk_list_reduce {
  const tlk_Context *cx;
  tlk_Reduction kernel;
  tl_Scalar params[1];
  tl_DType dtype;
  int32_t count;
  double *partials;
  const void *data[TLK_LIST_TENSORS];
  int64_t n[TLK_LIST_TENSORS], first[TLK_LIST_TENSORS];
};

/* Multiplies every element by scale, a number in float32 or float64. The product is computed in
** float64 if the tensors are float64, otherwise in float32. If an element was not finite before,
** *found_inf becomes 1; found_inf may be NULL. */
struct tlk_list_scale {
  const tlk_Context *cx;
  tl_DType dtype;
  int32_t count;
  tlk_Array scale;
  float *found_inf;
  void *data[TLK_LIST_TENSORS];
  int64_t n[TLK_LIST_TENSORS];
};

/* Computes the factor for clipping from list_reduce's partial results. The norm is the `power`-th
** root of their sum, or their maximum if `power` is infinite, divided by grad_scale unless
** grad_scale's data is NULL. factor = max_norm / (norm + 1e-6), at most 1. Norm and factor have
** `dtype`, float32 or float64, in which everything after the division is computed. *found_inf = 1
** if the norm before rounding is not finite, otherwise 0. */
struct tlk_list_clip {
  const tlk_Context *cx;
  tl_DType dtype;
  int64_t count;
  const double *partials;
  double power, max_norm;
  tlk_Array grad_scale;
  void *norm, *factor;
  float *found_inf;
};

/* ---- recurrent networks ---- */

/* Runs one layer of a recurrent network over whole sequences.
** out (rows, output) = the states after each step; hn (batch, output) = the states after each
** sample's last step; cn (batch, hidden) = an LSTM's final cell states. h0 and c0, of the same
** sizes as hn and cn, are the initial states; NULL means 0. `reserve` receives *kept bytes for the
** backward pass; it may be NULL if no backward pass follows. A device that has several layouts of
** the reserve stores the size of the chosen one in *kept before the call returns. */
struct tlk_rnn {
  const tlk_Context *cx;
  tlk_Rnn rnn;
  void *out, *hn, *cn, *reserve;
  int64_t *kept;
  const void *in, *h0, *c0;
};

/* Computes the gradients of a recurrent layer. Any gradient may be NULL: a NULL among the results
** means that this gradient is not computed, and a NULL in place of grad_out, grad_hn or grad_cn
** counts as a gradient of 0. `kept` is the value of *kept after the forward pass. Sums over rows do
** not depend on the number of threads. */
struct tlk_rnn_backward {
  const tlk_Context *cx;
  tlk_Rnn rnn;
  void *grad_in, *grad_h0, *grad_c0;
  void *grad_weight_ih, *grad_weight_hh, *grad_weight_hr, *grad_bias_ih, *grad_bias_hh;
  const void *grad_out, *grad_hn, *grad_cn;
  const void *in, *h0, *c0, *out, *reserve;
  int64_t kept;
};

/* Multiplies rows by the transpose of a packed weight: out is (rows, outputs). `kind` is the
** weight's layout, a tli_BlockKind or one of the constants below. If `in` is NULL, unpacks the
** weight: out is (outputs, features). */
enum { TLK_PACKED_F16 = 64, TLK_PACKED_BF16 };
struct tlk_packed_linear {
  const tlk_Context *cx;
  tlk_Array out;
  const void *in, *weight;
  int kind;
  int64_t rows, outputs, features;
};

/* ---- the list of kernels ------------------------------------------------------------------ */

/* X(name, operands): the list of all kernels. `operands` is ITER if the call begins with a
** tli_Iter, otherwise FLAT. Each kernel has a struct tlk_<name>, a member of tl_Backend, and a
** function tlk_<name> in the CPU's back end. */
#define TLK_KERNELS(X)         \
  X(copy, ITER)                \
  X(fill, ITER)                \
  X(pointwise, ITER)           \
  X(fused, ITER)               \
  X(iota, FLAT)                \
  X(linspace, FLAT)            \
  X(random, FLAT)              \
  X(dropout, FLAT)             \
  X(gemm, FLAT)                \
  X(linear, FLAT)              \
  X(activation_backward, FLAT) \
  X(packed_linear, FLAT)       \
  X(cached_attention, FLAT)    \
  X(fft, FLAT)                 \
  X(csr, FLAT)                 \
  X(reduce, FLAT)              \
  X(reduce_index, FLAT)        \
  X(moments, FLAT)             \
  X(scan, FLAT)                \
  X(softmax, FLAT)             \
  X(softmax_backward, FLAT)    \
  X(attention, FLAT)           \
  X(attention_backward, FLAT)  \
  X(layer_norm, FLAT)          \
  X(layer_norm_backward, FLAT) \
  X(channel_moments, FLAT)     \
  X(channel_products, FLAT)    \
  X(channel_affine, FLAT)      \
  X(batch_norm, FLAT)          \
  X(batch_norm_backward, FLAT) \
  X(class_loss, FLAT)          \
  X(class_loss_backward, FLAT) \
  X(ctc_loss, FLAT)            \
  X(ctc_loss_backward, FLAT)   \
  X(check_index, FLAT)         \
  X(check_range, FLAT)         \
  X(gather, ITER)              \
  X(scatter, ITER)             \
  X(count_nonzero, FLAT)       \
  X(nonzero, FLAT)             \
  X(search, FLAT)              \
  X(sort, FLAT)                \
  X(topk, FLAT)                \
  X(select_rank, FLAT)         \
  X(mode, FLAT)                \
  X(row_order, FLAT)           \
  X(conv, FLAT)                \
  X(conv_input, FLAT)          \
  X(conv_weight, FLAT)         \
  X(conv_packed, FLAT)         \
  X(quantized, FLAT)           \
  X(max_pool, FLAT)            \
  X(avg_pool, FLAT)            \
  X(avg_pool_backward, FLAT)   \
  X(resample, FLAT)            \
  X(grid_sample, FLAT)         \
  X(im2col, FLAT)              \
  X(col2im, FLAT)              \
  X(optim_coefs, FLAT)         \
  X(optim_step, FLAT)          \
  X(list_reduce, FLAT)         \
  X(list_scale, FLAT)          \
  X(list_clip, FLAT)           \
  X(rnn, FLAT)                 \
  X(rnn_backward, FLAT)

/* The numbers of the kernels, such as TLK_KERNEL_gemm. */
typedef enum tlk_Kernel {
#define X(name, operands) TLK_KERNEL_##name,
  TLK_KERNELS(X)
#undef X
} tlk_Kernel;

#endif
