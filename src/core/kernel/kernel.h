/*
** kernel.h - the calls of kernels. Operators check and promote their operands, broadcast them, and
** allocate results. Kernels do arithmetic on arrays and know no tensors.
**
** A call is one flat struct. It has pointers to the device's memory, and sizes and numbers by
** value; it has no pointers to host memory that the kernel would have to read later. So a device
** may copy the struct to a queue and run the call later, and a graph is a list of such structs. A
** kernel returns false with a message if the call could not be made. An error in the data is a
** fault (tlk_fault), which a device reports at the next wait.
**
** "Contiguous" means row-major without gaps. A kernel "along a dimension" sees its input as
** contiguous (outer, n, inner) and works along n.
**
** The file also compiles as C++, since the kernels of GPUs are C++.
*/
#ifndef TLI_KERNEL_H
#define TLI_KERNEL_H

#include "core/kernel/fault.h"
#include "core/kernel/image_kernels.h"
#include "core/kernel/iter.h"
#include "core/kernel/parts.h"
#include "kernels.h" /* enums of the pointwise, reduction and scan kernels (generated) */

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

/* Applies a function to each element: args[0] = kernel(args[1], ...). Inputs are converted to the
** dtype `compute` (I32, I64, F32, F64, C64 or C128), and the result is converted to the output's
** dtype. */
struct tlk_pointwise {
  const tlk_Context *cx;
  tli_Iter it;
  tlk_Pointwise kernel;
  tl_DType compute;
  tl_Scalar params[TLK_PARAMS];
  tlk_FaultSource source;
};

/* Applies an elementwise kernel with several outputs: args[0], ... = kernel(inputs). The outputs
** come first in args; operands may have any dtypes and strides. The arithmetic is in the dtype
** `compute`, F32 or F64. */
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

/* Writes n numbers from start to end with equal steps; both ends are exact.
** out[i] = fma(step, i, start) for i < n / 2, else fma(-step, n - 1 - i, end), computed in the
** dtype `compute`, which is F32 or F64. */
struct tlk_linspace {
  const tlk_Context *cx;
  tlk_Array out;
  int64_t n;
  double start, end, step;
  tl_DType compute;
};

/* ---- random numbers ---- */

/* Writes n random numbers to contiguous out. Element i is computed only from its part of block
** `block` + i / tlk_per_block of the stream of random words `seed` (tli_philox). A captured graph
** must draw different numbers at each replay. So in a capture, `state` points to two words on the
** device, {seed, block}, which are written before each replay. The kernel uses the first word
** instead of `seed`, and adds the second word to `block`. */
struct tlk_random {
  const tlk_Context *cx;
  tlk_Distribution distribution;
  tlk_Array out;
  int64_t n;
  uint64_t seed;
  uint64_t block;
  const uint64_t *state; /* the words {seed, block} on the device; NULL outside of captures */
  tl_Scalar a;
  tl_Scalar b;
};

/* Adds dropout of `in` to residual. out = residual + in * m / (1 - p). For element i, m is 1 if
** word i % 4 of block `block` + i / 4 of the stream `seed` is less than (1 - p) * 2^32; otherwise m
** is 0 (as for TLK_BERNOULLI). All arrays are contiguous with n elements and one floating dtype. If
** residual.data is NULL, the residual is 0. The residual is not scaled. If p is 1, out is residual,
** or NaN where `in` is not finite. */
struct tlk_dropout {
  const tlk_Context *cx;
  tlk_Array out, in, residual;
  int64_t n;
  double p;
  uint64_t seed, block;
  /* during a capture, two words on the device, as in tlk_random; otherwise NULL */
  const uint64_t *state;
};

/* ---- products ---- */

struct tlk_gemm {
  const tlk_Context *cx;
  tlk_Gemm gemm;
};

/* Computes a linear layer with its activation in one pass. c = activation(inner), where inner is
** gemm's product + bias. gemm is one product of a floating dtype with k > 0 and beta 0. bias has n
** elements or is NULL. If `inner` is not NULL, inner (m, n) is stored there with c's row stride. If
** `sums` is not NULL, it receives the m sums of op(a)'s rows; a must then be dense. Bias and the
** three results have gemm's dtype. Half types are rounded only at the end, but for gelu by erf a
** GPU may also round the argument. */
struct tlk_linear {
  const tlk_Context *cx;
  tlk_Gemm gemm;
  const void *bias;
  tlk_Activation activation;
  void *inner, *sums;
};

/* Computes the gradients before an activation: grad_in (rows, n) = grad_out * activation'(inner).
** If the data of grad_bias is not NULL, grad_bias (n) receives the sum of grad_in's rows. `saved`
** is the result of relu or the argument of gelu. All arrays are contiguous and have one floating
** dtype. */
struct tlk_activation_backward {
  const tlk_Context *cx;
  tlk_Activation activation;
  tlk_Array grad_in, grad_bias, grad_out, saved;
  int64_t rows, n;
};

/* ---- Fourier transforms ---- */

/* Computes Fourier transforms along n of contiguous arrays; n is positive. out[k] = scale times the
** sum over j of in[j] exp(-2 pi i j k / n). If `inverse` is set, the exponent is positive. Complex
** arrays have dtype C64 or C128; real arrays have the dtype of a complex number's parts.
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

/* Multiplies with a sparse matrix (rows, across) in CSR form (compressed sparse rows). Row i has
** the elements e from pointers[i] to pointers[i + 1] - 1, and element e is in column columns[e].
** Positions count from 1: pointers are from 1 to nnz + 1, columns from 1 to `across`. The dense
** matrices are row-major and have out's dtype, F32 or F64.
**   PRODUCT: out (rows, k) = the matrix, with values (nnz), times right (across, k).
**   TRANSPOSED: out (across, k) = the matrix's transpose times left (rows, k).
**   SAMPLED: out (nnz) has, for each element (i, j) of the matrix, the product of row i of left
**   (rows, k) and row j of right (across, k). */
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
** arithmetic is in `compute`, as in tlk_pointwise. Sums of half types and float32 have errors that
** do not grow with n. If n is 0, the results are the neutral element of the reduction. Results do
** not depend on the number of threads. */
struct tlk_reduce {
  const tlk_Context *cx;
  tlk_Reduction kernel;
  tl_DType compute;
  tlk_Array out, in;
  int64_t outer, n, inner;
  tl_Scalar params[TLK_PARAMS];
};

/* Finds the largest element of `in` (outer, n, inner) along n, or the smallest if `largest` is
** false. `values` (outer, inner) has the elements, with the dtype of `in`; `indices` (outer, inner)
** has their positions, counted from 1. If several elements are equal, the first is the result. If
** there is a NaN, it is the result. n is at least 1. If the data of `values` is NULL, only the
** positions are stored. */
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
** only the mean is stored. If n is 0, the mean is NaN and the sum 0. */
struct tlk_moments {
  const tlk_Context *cx;
  tlk_Array mean, deviation, in;
  int64_t outer, n, inner;
};

/* Computes the scan of `in` along n: element i of `out` combines elements 0 to i of `in`. Both
** arrays are (outer, n, inner). The arithmetic is in `compute`, except sums and products: they are
** in float64 for floating types and in int64 for integers. If the kernel picks an element (such as
** a maximum), `indices`, which has the same shape, receives the element's position, counted from 1;
** if several elements are equal, it is the last position. For other kernels `indices` is NULL. */
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

/* Computes attention. out[i] = the sum over j of weight[i][j] * value[j], with the weights of
** struct tlk_Attention. norm (batch, heads, queries) is saved for attention_backward. It has the
** log-sum-exp of each query's scores, or 0 for a query that sees no key. It is contiguous and has
** dtype float32 (float64 for float64). */
struct tlk_attention {
  const tlk_Context *cx;
  tlk_Attention attention;
  tlk_HeadRows out;
  void *norm;
};

/* The cached keys and values of one sequence, and where the sequence's new keys and values are.
** Each array is (kv_heads, capacity, size) with rows of one dtype. If the dtype is int8, every 32
** elements share a float16 scale, stored in an array (kv_heads, capacity, size / 32). The first
** `used` rows are filled. The sequence's `count` new rows begin at row `first` of the call's query,
** key and value. */
typedef struct tlk_Cache {
  void *keys, *values;
  uint16_t *key_scales, *value_scales;
  int64_t capacity, used, first, count;
} tlk_Cache;

/* Appends new keys and values to caches, and computes the attention of each new query to its own
** sequence's keys, up to the query's own position. If `window` is positive, a query sees only the
** last `window` of these keys. query, key, value and out are float32, of batch 1. `stored` is the
** dtype of the caches: float32, float16 or int8. */
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
** gradient is added to grad_mask, in float32 (float64 for float64). If a stride of grad_mask is 0,
** the gradient is summed over that dimension. The stride of the dimension of keys must not be 0.
** The results do not depend on the number of threads. */
struct tlk_attention_backward {
  const tlk_Context *cx;
  tlk_Attention attention;
  tlk_HeadRows grad_query, grad_key, grad_value;
  tlk_HeadPairs grad_mask;
  tlk_HeadRows grad_out, out;
  const void *norm;
};

/* Computes layer norm or RMS norm. Each of `rows` rows of n elements is shifted to mean 0 and
** scaled to variance 1, then scaled by weight and shifted by bias: out = (in - mean) * rstd *
** weight + bias with rstd = 1 / sqrt(variance + eps). weight and bias have n elements each, of in's
** dtype. If their data is NULL, the weight is 1 or the bias 0. mean and rstd (rows) are float32, or
** float64 for float64. If mean.data is NULL, nothing is shifted, and rstd is computed from the mean
** square. If residual.data is not NULL, the input is the sum of `in` and residual, rounded to in's
** dtype, and is also stored in `sum`. */
struct tlk_layer_norm {
  const tlk_Context *cx;
  tlk_Array out, mean, rstd, in, weight, bias;
  tlk_Array residual, sum;
  int64_t rows, n;
  double eps;
};

/* Computes the gradients of layer_norm; a gradient whose `data` is NULL is not computed. `in` is
** the input that was normalised. If the data of grad_sum is not NULL, it is added to grad_in. The
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

/* Applies an affine map to each channel. out = (in - mean) * scale + shift + other * factor. If
** mean, shift, other.data or factor is NULL, zeros are used in its place. All arrays have one
** dtype. */
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
** mean and deviation are the results of channel_moments. If weight is NULL, 1 is used in its place;
** if bias is NULL, 0. */
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

/* Computes the cross-entropy or the negative log-likelihood of each sample. loss (outer, inner) =
** -weight[target] * log-probability of target, and weights = weight[target]; both are 0 for ignored
** labels. If the input is logits, norm (outer, inner) receives the log-sum-exp. A label outside of
** the classes is a fault. */
struct tlk_class_loss {
  const tlk_Context *cx;
  tlk_Classes classes;
  tlk_Array loss;
  void *weights, *norm;
  tlk_Array in;
  tlk_FaultSource source;
};

/* Computes the gradient of class_loss's input. Reads `in` and norm only if the input is logits,
** because the gradient of log-probabilities does not depend on them. */
struct tlk_class_loss_backward {
  const tlk_Context *cx;
  tlk_Classes classes;
  tlk_Array grad_in, grad_loss;
  const void *in, *norm;
};

/* ---- sequences of labels; all arrays are float32, or float64 ---- */

/* Computes the CTC loss of each sample. loss (batch) is -log of the probability of the labels.
** alpha (batch, time, 2 longest + 1) is the log of the probability of each prefix of the labels,
** with blanks between the labels. */
struct tlk_ctc_loss {
  const tlk_Context *cx;
  tlk_Ctc ctc;
  tlk_Array loss;
  void *alpha;
  const void *log_probs;
};

/* Computes the gradient of ctc_loss's input before log_softmax: the gradient of the logits whose
** log_softmax is log_probs. The gradient is 0 after a sequence's end. */
struct tlk_ctc_loss_backward {
  const tlk_Context *cx;
  tlk_Ctc ctc;
  tlk_Array grad_in;
  const void *grad_loss, *loss, *alpha, *log_probs;
};

/* ---- positions ---- */

/* Checks that all n elements of `index` are in [1, size], or also in [-size, -1] if `wrap` is set.
** An element out of range is a fault. */
struct tlk_check_index {
  const tlk_Context *cx;
  const int64_t *index;
  int64_t n, size;
  bool wrap;
  tlk_FaultSource source;
};

/* Checks that all n elements of the float32 or float64 array `in` are in [low, high]. An element
** out of range is a fault; NaN is out of range. */
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
** operands are `out`, `index` and `in`. The elements of one line (tlk_IndexCall) are combined one
** after the other. Different lines must not share elements of out. Positions out of range are
** skipped; check_index finds them. */
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

/* Lists the positions of the elements that are not zero, in order, in out (count, ndim). A row of
** out has a position in each dimension of the given shape, counted from 1. If ndim is 0, the array
** has one element. */
struct tlk_nonzero {
  const tlk_Context *cx;
  int64_t *out;
  tlk_Array in;
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
};

/* Finds insertion positions in `rows` rows of n ascending elements for m values each. A position,
** counted from 1, is that of the first element that is not smaller than the value or, if `right` is
** set, of the first element that is larger. NaN is larger than all numbers. Values and rows have
** one compute dtype. */
struct tlk_search {
  const tlk_Context *cx;
  int64_t *out;
  tlk_Array sorted, values;
  int64_t rows, n, m;
  bool right;
};

/* ---- order; NaN is larger than every number, -0 equals 0 ---- */

/* Sorts each of `rows` rows of n elements stably. Also stores the elements' earlier positions,
** counted from 1. A result whose `data` is NULL is not stored. */
struct tlk_sort {
  const tlk_Context *cx;
  bool descending;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* Finds the k elements that would come first if each row were sorted, and their positions. k is at
** most n. */
struct tlk_topk {
  const tlk_Context *cx;
  bool descending;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n, k;
};

/* Finds, in each row, the element that has rank `rank`, counted from 0, and its position. If rank
** is -1, finds the lower median: the first NaN if the row has one or, if `skip_nan` is set, the
** median of the elements that are not NaN. n is positive. */
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
** elements are equally frequent, the smallest of them is the result. n is positive. */
struct tlk_mode {
  const tlk_Context *cx;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* Stores the positions of n rows of m elements in lexicographic order; the sort is stable. */
struct tlk_row_order {
  const tlk_Context *cx;
  int64_t *order;
  tlk_Array in;
  int64_t n, m;
};

/* ---- lists of tensors, for optimizers ---- */

/* Computes the coefficients (count, TLK_OPTIM_COEFS) of an optimizer's rule, one row for each
** parameter, and advances the parameters' clocks (their step counts). If *found_inf is not 0, the
** kernel changes nothing. If the data of lr is not NULL, lr (float32 or float64) replaces
** options[0]. */
struct tlk_optim_coefs {
  const tlk_Context *cx;
  tlk_OptimRule rule;
  bool maximize; /* whether the step maximises instead of minimising */
  int32_t count;
  double options[TLK_OPTIM_OPTIONS];
  tlk_Array lr;
  const float *found_inf; /* if *found_inf is not 0, the step is skipped; NULL counts as 0 */
  double *clocks[TLK_OPTIM_TENSORS][TLK_OPTIM_CLOCKS];
  double *coefs;
};

/* Updates `count` parameters by a rule, in float64 if the parameters are float64, otherwise in
** float32. If *found_inf is not 0, the kernel changes nothing. Each tensor has its own
** coefficients; if coefs is NULL, all tensors use `same`. Gradients are first divided by
** grad_scale and multiplied by clip. Both are numbers in float32 or float64, and are 1 if their
** data is NULL. */
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

/* TLK_LIST_TENSORS is the largest number of tensors in a call of list_reduce or list_scale.
** TLK_LIST_PART is the number of elements that one partial result combines. */
enum { TLK_LIST_TENSORS = 128, TLK_LIST_PART = 65536 };

/* Reduces a list of tensors to partial results. partials[first[i] + k] is the reduction of part k
** of tensor i. A tensor occupies its memory without gaps. A part is TLK_LIST_PART elements that are
** adjacent in memory; only the last part may be shorter. The kernels are those for norms: sum_abs,
** sum_square, sum_power, amax_abs, amin_abs, count_nonzero. The parts, and the order in which they
** are added, depend only on the tensors' sizes. */
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

/* Multiplies every element of a list of tensors by scale, a number in float32 or float64. The
** product is computed in float64 if the tensors are float64, otherwise in float32. If an element
** was not finite before, *found_inf becomes 1; found_inf may be NULL. */
struct tlk_list_scale {
  const tlk_Context *cx;
  tl_DType dtype;
  int32_t count;
  tlk_Array scale;
  float *found_inf;
  void *data[TLK_LIST_TENSORS];
  int64_t n[TLK_LIST_TENSORS];
};

/* Computes the factor for clipping from list_reduce's partial results. The norm is the
** `power`-th root of the sum of these results, or their maximum if `power` is infinite. If the
** data of grad_scale is not NULL, the norm is divided by it. factor = max_norm / (norm + 1e-6),
** but at most 1. Norm and factor have the dtype `dtype`, float32 or float64, and everything
** after the division is computed in it. *found_inf becomes 1 if the norm before rounding is not
** finite, otherwise 0. */
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

/* Runs one layer of a recurrent network over whole sequences. out (rows, output) = the states after
** each step; hn (batch, output) = the states after each sample's last step; cn (batch, hidden) = an
** LSTM's final cell states. h0 and c0, which have the sizes of hn and cn, are the initial states;
** NULL means 0. `reserve` receives *kept bytes for the backward pass, and may be NULL if no
** backward pass follows. A device that has several layouts for `reserve` stores the size of the
** chosen layout in *kept before the call returns. */
struct tlk_rnn {
  const tlk_Context *cx;
  tlk_Rnn rnn;
  void *out, *hn, *cn, *reserve;
  int64_t *kept;
  const void *in, *h0, *c0;
};

/* Computes the gradients of a recurrent layer. Any gradient may be NULL. If a result is NULL, this
** gradient is not computed. If grad_out, grad_hn or grad_cn is NULL, it counts as a gradient of 0.
** `kept` is the value of *kept after the forward pass. Sums over rows do not depend on the number
** of threads. */
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

/* The list of all kernels, as X(name, operands). `operands` is ITER if the call begins with a
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
  X(roi_pool, FLAT)            \
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
