/*
** kernel.h - the calls of kernels. Operators check, promote, broadcast and
** allocate; kernels do arithmetic on what they are given and know no tensor.
**
** A call is one flat struct: pointers into the device's memory, sizes and
** numbers by value, nothing on the host that the kernel would have to read
** later. So a device may copy the struct into a queue and work it off when it
** likes, and a graph is a list of such structs. A kernel returns false with a
** message when the call could not be made; what it finds wrong in the data is
** a fault (tlk_fault), which a device reports at the next wait.
**
** "Contiguous" means row-major without gaps. A kernel "along a dimension" sees
** its input as contiguous (outer, n, inner) and works along n.
*/
#ifndef TLI_KERNEL_H
#define TLI_KERNEL_H

#include "core/iter.h"
#include "core/random.h"
#include "kernels.h" /* generated: enums of pointwise, reduction and scan kernels */

/* ---- what every kernel gets ------------------------------------------------------ */

/* A stream of a device: what is put on it is worked off in order. */
typedef struct tl_Stream tl_Stream;

/* Who made a call, for the message of a fault. Static strings, or ones that stay
** for good; site is "script.lua:12", or NULL where that is known anyway. */
typedef struct tlk_Blame {
  const char *op, *argument, *site;
} tlk_Blame;

/* What a kernel may find wrong in the data. */
typedef enum tlk_FaultKind {
  TLK_NO_FAULT,
  TLK_FAULT_POSITION, /* `value` is not in [1, size] */
  TLK_FAULT_WRAPPED,  /* nor, where positions may count from the end, in [-size, -1] */
  TLK_FAULT_LABEL,    /* `value` is no label of `size` classes */
  TLK_FAULT_DIVISION, /* of an integer by zero */
  TLK_FAULT_RANGE     /* `number` is not in [low, high] */
} tlk_FaultKind;

typedef struct tlk_Fault {
  tlk_FaultKind kind;
  tlk_Blame blame;
  int64_t value, size;
  double number, low, high;
} tlk_Fault;

/* Where a kernel runs. */
typedef struct tlk_Context {
  tl_Device device;
  tl_Stream *stream; /* NULL on the CPU */
  /* The device's error word, which takes the first fault until it is reported.
  ** NULL on the CPU: a fault there is the failure of the call. */
  tlk_Fault *fault;
} tlk_Context;

/* Notes a fault in the context's error word, or, where there is none, makes it
** the failure of the call. Returns false. */
bool tlk_fault(const tlk_Context *cx, const tlk_Fault *fault);
/* The failure that a fault is. Returns false. */
bool tli_fault_fail(const tlk_Fault *fault);

/* The operator that the calling thread is in, for messages; a static string. */
void tli_set_operator(const char *op);
const char *tli_operator(void);
/* Where the running call was made, "script.lua:12", a string that stays for good;
** set by the binding, NULL without one. */
extern const char *(*_Atomic tli_call_site)(void);
/* The CPU reports a fault at once, when the site is known anyway. */
static inline tlk_Blame tli_blame(tl_Device device, const char *op, const char *argument) {
  const char *(*site)(void) = device.type == TL_CPU ? NULL : tli_call_site;
  return (tlk_Blame){op, argument, site ? site() : NULL};
}

/* Numbers that pointwise kernels and reductions take at most. */
#define TLK_PARAMS 4

/* ---- parts of calls -------------------------------------------------------------- */

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
  tli_Iter it;
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

/* ---- elementwise: operands of any dtype and stride, outputs first ---- */

/* args[0] = (dtype) args[1]: float to integer truncates towards zero, to
** bool is "not zero". */
struct tlk_copy {
  const tlk_Context *cx;
  tli_Iter it;
};

/* args[0] = value. */
struct tlk_fill {
  const tlk_Context *cx;
  tli_Iter it;
  tl_Scalar value;
};

/* args[0] = kernel(args[1], ...), computed in `compute` (I32, I64, F32 or
** F64), to which inputs are converted and from which the output is. */
struct tlk_pointwise {
  const tlk_Context *cx;
  tli_Iter it;
  tlk_Pointwise kernel;
  tl_DType compute;
  tl_Scalar params[TLK_PARAMS];
  tlk_Blame blame;
};

/* ---- sequences ---- */

/* out[i] = start + i * step for i < n; in int64, with wrap around, if both
** are integers, else in float64. out is contiguous. */
struct tlk_iota {
  const tlk_Context *cx;
  tlk_Array out;
  int64_t n;
  tl_Scalar start;
  tl_Scalar step;
};

/* n numbers from start to end with equal steps; both ends are exact. */
struct tlk_linspace {
  const tlk_Context *cx;
  tlk_Array out;
  int64_t n;
  double start, end;
};

/* ---- random numbers ---- */

/* n numbers into contiguous out. Element i is made of the words that are its
** share of block `block` + i / tlk_per_block of stream `seed` (tli_philox),
** and of nothing else. */
struct tlk_random {
  const tlk_Context *cx;
  tlk_Distribution distribution;
  tlk_Array out;
  int64_t n;
  uint64_t seed;
  uint64_t block;
  tl_Scalar a;
  tl_Scalar b;
};

/* ---- products ---- */

struct tlk_gemm {
  const tlk_Context *cx;
  tlk_Gemm gemm;
};

/* ---- along a dimension ---- */

/* out (outer, inner) = reduction of in (outer, n, inner). Computes in
** `compute` as above; the half types and float32 sum with an error that does
** not grow with n. n == 0 gives the identity. Results do not depend on the
** number of threads. */
struct tlk_reduce {
  const tlk_Context *cx;
  tlk_Reduction kernel;
  tl_DType compute;
  tlk_Array out, in;
  int64_t outer, n, inner;
  tl_Scalar params[TLK_PARAMS];
};

/* Of in (outer, n, inner), n > 0: the largest element along n (the smallest
** unless `largest`; NaN if there is one) and its position, from 1, the first
** of several: values (outer, inner) of in's dtype, which may have data NULL,
** and indices (outer, inner). */
struct tlk_reduce_index {
  const tlk_Context *cx;
  bool largest;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t outer, n, inner;
};

/* Of a floating in (outer, n, inner): the mean along n and the sum of squared
** deviations from it, both (outer, inner), float32 or float64, the second
** may have data NULL. n == 0 gives NaN and 0. */
struct tlk_moments {
  const tlk_Context *cx;
  tlk_Array mean, deviation, in;
  int64_t outer, n, inner;
};

/* out = running reduction of in, both (outer, n, inner), along n: element i
** joins elements 0 to i. Computes in `compute`; sums and products of floating
** types in float64, of integers in int64. indices, of the same shape, receives
** the position, from 1, of the element that counts (the last of several) from
** kernels that pick one; else it is NULL. */
struct tlk_scan {
  const tlk_Context *cx;
  tlk_Scan kernel;
  tl_DType compute;
  tlk_Array out;
  int64_t *indices;
  tlk_Array in;
  int64_t outer, n, inner;
};

/* out = softmax of in (outer, n, inner) along n, or its logarithm; both of
** one floating dtype. The half types are computed in float32. */
struct tlk_softmax {
  const tlk_Context *cx;
  bool log;
  tlk_Array out, in;
  int64_t outer, n, inner;
};

/* The gradient of softmax's input, from its result `out` and the gradient of
** that. */
struct tlk_softmax_backward {
  const tlk_Context *cx;
  bool log;
  tlk_Array grad_in, grad_out, out;
  int64_t outer, n, inner;
};

/* Each of `rows` rows of n elements is shifted to mean 0 and scaled to
** variance 1, then by weight and bias (n elements each, of in's dtype, or
** data NULL): out = (in - mean) * rstd * weight + bias with
** rstd = 1 / sqrt(variance + eps). mean and rstd (rows) are float32, float64
** for float64. With mean.data NULL nothing is shifted, and rstd is that of
** the mean square. */
struct tlk_layer_norm {
  const tlk_Context *cx;
  tlk_Array out, mean, rstd, in, weight, bias;
  int64_t rows, n;
  double eps;
};

/* Its gradients; grad_in, grad_weight and grad_bias may have data NULL. The
** result does not depend on the number of threads. */
struct tlk_layer_norm_backward {
  const tlk_Context *cx;
  tlk_Array grad_in, grad_weight, grad_bias, grad_out, in, mean, rstd, weight;
  int64_t rows, n;
};

/* ---- channels of (outer, channels, inner); what there is one of for each
** channel is float32, or float64 where the data is ---- */

/* The mean of each channel and the sum of squared deviations from it. */
struct tlk_channel_moments {
  const tlk_Context *cx;
  void *mean, *deviation;
  tlk_Array in;
  int64_t outer, channels, inner;
};

/* For each channel the sum of grad and of grad * (in - mean). */
struct tlk_channel_products {
  const tlk_Context *cx;
  void *sum, *product;
  tlk_Array grad, in;
  const void *mean;
  int64_t outer, channels, inner;
};

/* out = (in - mean) * scale + shift + other * factor; mean and shift may be
** NULL, other.data and factor, too. All arrays have one dtype. */
struct tlk_channel_affine {
  const tlk_Context *cx;
  tlk_Array out, in;
  const void *mean, *scale, *shift;
  tlk_Array other;
  const void *factor;
  int64_t outer, channels, inner;
};

/* ---- classes; all arrays have in's type ---- */

/* loss (outer, inner) = -weight[target] * log-probability of target; weights
** = weight[target]; both are 0 where the label does not count. norm (outer,
** inner) = log of the sum of exponentials, for logits. A label that is no class is
** a fault. */
struct tlk_class_loss {
  const tlk_Context *cx;
  tlk_Classes classes;
  tlk_Array loss;
  void *weights, *norm;
  tlk_Array in;
  tlk_Blame blame;
};

/* The gradient of in; `in` and norm are read for logits only. */
struct tlk_class_loss_backward {
  const tlk_Context *cx;
  tlk_Classes classes;
  tlk_Array grad_in, grad_loss;
  const void *in, *norm;
};

/* ---- sequences of labels; all arrays are float32, or float64 ---- */

/* loss (batch) = -log of the probability of the labels; alpha (batch, time,
** 2 longest + 1) = log of that of their beginnings, blanks between. */
struct tlk_ctc_loss {
  const tlk_Context *cx;
  tlk_Ctc ctc;
  tlk_Array loss;
  void *alpha;
  const void *log_probs;
};

/* The gradient of the logits whose log_softmax log_probs is; 0 past a
** sequence's end. */
struct tlk_ctc_loss_backward {
  const tlk_Context *cx;
  tlk_Ctc ctc;
  tlk_Array grad_in;
  const void *grad_loss, *loss, *alpha, *log_probs;
};

/* ---- positions ---- */

/* A fault unless all n elements of index lie in [1, size], or in [-size, -1] if
** `wrap`. */
struct tlk_check_index {
  const tlk_Context *cx;
  const int64_t *index;
  int64_t n, size;
  bool wrap;
  tlk_Blame blame;
};

/* A fault unless all n elements of in, float32 or float64, lie in [low, high]; NaN
** does not. */
struct tlk_check_range {
  const tlk_Context *cx;
  tlk_Array in;
  int64_t n;
  double low, high;
  tlk_Blame blame;
};

/* Operands out, index (int64), in: out = in at the position that index
** holds. One that is out of range is a fault. */
struct tlk_gather {
  const tlk_Context *cx;
  tlk_IndexCall index;
  tlk_Blame blame;
};

/* Operands out, index (int64), in, of which out is indexed: out at the
** position that index holds is joined with in, in the order of the lines.
** Lines that differ must not share elements of out. Positions out of range, which
** check_index finds, are passed over. */
struct tlk_scatter {
  const tlk_Context *cx;
  tlk_IndexCall index;
  tlk_Join join;
};

/* The number of elements that are not zero. */
struct tlk_count_nonzero {
  const tlk_Context *cx;
  tlk_Array in;
  int64_t n;
  int64_t *count;
};

/* Their positions in the given shape, from 1, in order: out (count, ndim);
** ndim 0 is taken as a shape of one element. */
struct tlk_nonzero {
  const tlk_Context *cx;
  int64_t *out;
  tlk_Array in;
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
};

/* For each of m values in each of `rows` rows: where it would go, from 1, in
** its row of n ascending elements: before the first that is not smaller, or,
** if right, that is larger. NaN is larger than all. Both of one dtype to
** compute in. */
struct tlk_search {
  const tlk_Context *cx;
  int64_t *out;
  tlk_Array sorted, values;
  int64_t rows, n, m;
  bool right;
};

/* ---- order; NaN is larger than every number, -0 equals 0 ---- */

/* Each of `rows` rows of n elements sorted, stably; and the positions of the
** elements, from 1. Either result may be NULL (data NULL). */
struct tlk_sort {
  const tlk_Context *cx;
  bool descending;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* The k first elements of each row so sorted, k <= n. */
struct tlk_topk {
  const tlk_Context *cx;
  bool descending;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n, k;
};

/* Of each row the element of rank `rank`, from 0, and its position; with
** rank -1 the lower median: NaN, the first, if there is one, or, if `skip_nan`,
** of what is no NaN. n > 0. */
struct tlk_select_rank {
  const tlk_Context *cx;
  int64_t rank;
  bool skip_nan;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* Of each row the most frequent element, the smallest of several, and its
** last position. n > 0. */
struct tlk_mode {
  const tlk_Context *cx;
  tlk_Array values;
  int64_t *indices;
  tlk_Array in;
  int64_t rows, n;
};

/* The positions of n rows of m elements in lexicographic order, stably. */
struct tlk_row_order {
  const tlk_Context *cx;
  int64_t *order;
  tlk_Array in;
  int64_t n, m;
};

/* ---- windows; arrays are contiguous ---- */

/* out = in * weight + bias; bias (channels_out) may be NULL. */
struct tlk_conv {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *out;
  const void *in, *weight, *bias;
};

/* The gradients of its input and weight. */
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

/* The largest element of each window, NaN if there is one, and its position
** in its plane, from 1; the padding does not count. */
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

/* Of float32 or float64. */
struct tlk_resample {
  const tlk_Context *cx;
  tlk_Resample resample;
  tlk_Array out, in;
};

/* cols (planes, kernel..., out...) = the elements of each window of in
** (planes, in...), 0 in the padding; and in = the sum of cols back into
** their places. */
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

/* ---- all of them ----------------------------------------------------------------- */

/* X(name, operands): ITER if the call begins with a tli_Iter, else FLAT. For
** each there is a struct tlk_<name>, a member of tl_Backend, and in the CPU's
** back end a function tlk_<name>. */
#define TLK_KERNELS(X)         \
  X(copy, ITER)                \
  X(fill, ITER)                \
  X(pointwise, ITER)           \
  X(iota, FLAT)                \
  X(linspace, FLAT)            \
  X(random, FLAT)              \
  X(gemm, FLAT)                \
  X(reduce, FLAT)              \
  X(reduce_index, FLAT)        \
  X(moments, FLAT)             \
  X(scan, FLAT)                \
  X(softmax, FLAT)             \
  X(softmax_backward, FLAT)    \
  X(layer_norm, FLAT)          \
  X(layer_norm_backward, FLAT) \
  X(channel_moments, FLAT)     \
  X(channel_products, FLAT)    \
  X(channel_affine, FLAT)      \
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
  X(max_pool, FLAT)            \
  X(avg_pool, FLAT)            \
  X(avg_pool_backward, FLAT)   \
  X(resample, FLAT)            \
  X(im2col, FLAT)              \
  X(col2im, FLAT)

#endif
