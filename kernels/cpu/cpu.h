/*
** cpu.h - declarations shared by the files of the CPU back end.
**
** Folders named isa contain the inner loops. They are compiled once for each instruction set, and
** each of these builds fills one table, a tlk_Isa. The other files are drivers, which are compiled
** once. They walk strides, convert dtypes, divide work among threads, and call the loops of the
** best tlk_Isa that this processor supports.
**
** A loop gets contiguous operands of its own type. Drivers pad them, so their number of elements is
** a multiple of TLK_LANES. So every element is computed in a vector, and its result does not depend
** on its address or on the thread.
*/
#ifndef TLK_CPU_H
#define TLK_CPU_H

#include <stdatomic.h>

#include "core/device/backend.h"
#include "core/error.h"

/* The number of elements that a loop processes in one step, which fill a vector of float32 in the
** widest instruction set. */
#define TLK_LANES 16
/* The number of elements that drivers convert or gather at a time, in buffers on the stack. */
#define TLK_CHUNK 1024
/* The smallest number of elements that a thread gets; with fewer, a second thread makes a loop
** slower. */
#define TLK_GRAIN 32768

/* The types that kernels compute in, as indices of the tables of loops. */
enum { TLK_C_I32, TLK_C_I64, TLK_C_F32, TLK_C_F64, TLK_C_C64, TLK_C_C128, TLK_NCOMPUTE };

static inline int tlk_compute_index(tl_DType compute) {
  return compute == TL_F32    ? TLK_C_F32
         : compute == TL_F64  ? TLK_C_F64
         : compute == TL_I64  ? TLK_C_I64
         : compute == TL_C64  ? TLK_C_C64
         : compute == TL_C128 ? TLK_C_C128
                              : TLK_C_I32;
}

/* Holds a position that is out of range if a thread has found one. The struct must be initialised
** with zeros. */
typedef struct tlk_FirstFault {
  atomic_bool found;
  _Atomic int64_t position;
} tlk_FirstFault;

static inline void tlk_note_fault(tlk_FirstFault *fault, int64_t position) {
  atomic_store_explicit(&fault->position, position, memory_order_relaxed);
  atomic_store_explicit(&fault->found, true, memory_order_relaxed);
}

/* Reports `fault` with the position that a thread has found, and returns false. Returns true if no
** thread has found a position out of range. Must be called after all threads have finished. */
static inline bool tlk_no_fault(const tlk_Context *cx, tlk_FirstFault *first, tlk_Fault fault) {
  if (!atomic_load(&first->found)) return true;
  fault.value = atomic_load(&first->position);
  return tlk_fault(cx, &fault);
}

/* Computes args[0][i] = kernel(args[1][i], ...) for i < n, a multiple of TLK_LANES. If the kernel
** has several outputs, args begins with all of them, and there are no parameters. Returns false if
** an integer was divided by 0, which leaves the outputs undefined. */
typedef bool (*tlk_Loop)(int64_t n, void *const *args, const tl_Scalar *params);

/* Loops of rare kernels in float and in double. tlk_rare_fixed has loops for calls whose inputs,
** except the first, are single elements; its entries are NULL for kernels of one input. All
** instruction sets share these loops. */
extern const tlk_Loop tlk_rare_loops[2][TLK_NPOINTWISES], tlk_rare_fixed[2][TLK_NPOINTWISES];

/* Converts n elements from one type to another: dst[i] = (type) src[i]. */
typedef void (*tlk_Convert)(int64_t n, void *dst, const void *src);

/* Copies a two-dimensional piece: dst[r][c] = src[r][c]. Strides are in bytes: s0 from column to
** column, and s1 from row to row. */
typedef void (*tlk_Move)(char *dst, int64_t ds0, int64_t ds1, const char *src, int64_t ss0,
                         int64_t ss1, int64_t cols, int64_t rows);

/* The loops of one reduction in one compute type. `acc` is an array of accumulators with acc_bytes
** bytes each. */
typedef struct tlk_Reducer {
  int64_t acc_bytes; /* size of an accumulator in bytes, at most TLK_ACC_BYTES */
  /* whether elements must be added in order, because the result depends on their positions */
  bool ordered;
  void (*start)(int64_t n, void *acc, const tl_Scalar *params);
  /* Adds n contiguous elements to acc[0]. */
  void (*row)(int64_t n, const void *x, void *acc, const tl_Scalar *params);
  /* Adds the element in row r and column c of x to acc[c], for all r and c. Rows are `stride`
  ** elements apart. */
  void (*columns)(int64_t rows, int64_t cols, int64_t stride, const void *x, void *acc,
                  const tl_Scalar *params);
  /* Joins acc[i] with other[i], for n accumulators. The elements in `other` come after the elements
  ** in acc. */
  void (*join)(int64_t n, void *acc, const void *other);
  /* Converts accumulators to results in the compute type. */
  void (*finish)(int64_t n, void *out, const void *acc, const tl_Scalar *params);
} tlk_Reducer;

#define TLK_ACC_BYTES 24

/* The accumulators of the reductions whose `finish` is NULL: tlk_Best for the smallest or largest
** element, and tlk_Moments for mean and variance. */
typedef struct tlk_Best {
  int64_t seen;  /* number of elements so far */
  int64_t index; /* position of the best element, counted from 0; -1 if there is none */
  union {
    double f; /* value of the best element, for floating types */
    int64_t i;
  } value;
} tlk_Best;

typedef struct tlk_Moments {
  double count, mean;
  double deviation; /* sum of squared deviations from the mean */
} tlk_Moments;

/* Softmax of rows (rows, n) along n, or of strips (n, cols) along n. Rows of strips are in_step and
** out_step elements apart. `out` may be the same array as `in`. */
typedef struct tlk_Softmax {
  void (*rows)(bool log, int64_t rows, int64_t n, const void *in, void *out);
  void (*columns)(bool log, int64_t n, int64_t cols, const void *in, int64_t in_step, void *out,
                  int64_t out_step);
  /* Computes grad_in from `out` and from `grad`, the gradient of out. grad_in may be the same array
  ** as `out` or `grad`. */
  void (*rows_back)(bool log, int64_t rows, int64_t n, const void *grad, const void *out,
                    void *grad_in);
  void (*columns_back)(bool log, int64_t n, int64_t cols, const void *grad, const void *out,
                       int64_t step, void *grad_in, int64_t in_step);
} tlk_Softmax;

/* Scans of a row, or of `cols` columns. Rows of `in`, `out` and `indices` are `step` elements
** apart. Long columns are scanned by several calls. Two arrays keep the state between calls:
** `state` has TLK_ACC_BYTES for each column, and `where` has the position that was picked last in
** each column. `at` is the position of the call's first row, counted from 1. `out` is in the
** compute type; `indices` may be NULL. */
typedef struct tlk_Scanner {
  void (*start)(int64_t cols, void *state);
  void (*run)(int64_t rows, int64_t cols, int64_t step, const void *in, void *out,
              int64_t indices_step, int64_t *indices, int64_t at, void *state, int64_t *where);
} tlk_Scanner;

/* largest number of columns in a strip, chosen so that data that is read twice stays in the
** cache */
#define TLK_SOFTMAX_COLS 128

/* Normalisation of one row (layer_norm in core/kernel/kernel.h). `weight` and `bias` may be NULL.
** If `shift` is false, the mean is taken as 0. */
typedef struct tlk_Norm {
  void (*row)(int64_t n, const void *in, void *out, const void *weight, const void *bias,
              double eps, bool shift, double *mean, double *rstd);
  void (*row_back)(int64_t n, const void *grad, const void *in, const void *weight, double mean,
                   double rstd, bool shift, void *grad_in);
  /* Adds the contributions of up to 4 rows to grad_weight and grad_bias. Either may be NULL. */
  void (*weight_back)(int64_t rows, int64_t n, const void *grad, const void *in, const double *mean,
                      const double *rstd, double *grad_weight, double *grad_bias);
} tlk_Norm;

/* Computes random numbers from up to TLK_RANDOM_BLOCKS blocks of the stream `seed`. The caller
** converts them to `dtype`. Returns the type of the numbers in `out`: F32, F64 or I64. */
enum { TLK_RANDOM_BLOCKS = 64 };
typedef tl_DType (*tlk_RandomFn)(tlk_Distribution d, tl_DType dtype, uint64_t seed, uint64_t block,
                                 int blocks, tl_Scalar a, tl_Scalar b, void *out);

typedef struct tlk_Isa {
  const char *name;
  /* whether the loops give the same bits on every machine, because they were compiled without fused
  ** multiply-add and call no elementary function of the C library */
  bool portable;
  /* loops indexed by tlk_Pointwise; NULL for kernels that are rare or not defined for the type */
  const tlk_Loop *loops[TLK_NCOMPUTE];
  /* loops for calls whose inputs, except the first, are single elements; NULL for kernels of one
  ** input, and for complex types */
  const tlk_Loop *fixed[TLK_NCOMPUTE];
  const tlk_Loop *fused[2]; /* loops for float and for double, indexed by tlk_Fused */
  /* reductions, indexed by compute type and by tlk_Reduction */
  const tlk_Reducer *reducers[TLK_NCOMPUTE];
  /* indexed by compute type; element 0 of each array finds the smallest element, element 1 the
  ** largest */
  const tlk_Reducer *best[TLK_NCOMPUTE];
  const tlk_Reducer *moments[2]; /* moments for float and for double */
  /* Adds n contiguous pairs of float, or of double, to the pair `sums`. NULL in a build for
  ** inference, which has no complex tensors. */
  void (*sum_pairs[2])(int64_t n, const void *x, double *sums);
  const tlk_Scanner *scanners[TLK_NCOMPUTE]; /* scans, indexed by compute type and by tlk_Scan */
  const tlk_Softmax *softmax[2];             /* softmax for float and for double */
  const tlk_Norm *norm[2];                   /* normalisation for float and for double */
  /* conversions, indexed by source dtype and by target dtype */
  const tlk_Convert (*convert)[TL_NDTYPES];
  const tlk_Move *move; /* move[i] copies pieces whose elements have 1 << i bytes */
  tlk_RandomFn random;
  const struct tlk_IndexLoops *index;             /* gather.h */
  const struct tlk_PoolLoops *pool[TLK_NCOMPUTE]; /* pool.h */
  const struct tlk_ResampleLoops *resample[2];    /* loops of resample.h for float and for double */
  const struct tlk_ResampleBytes *resample_bytes; /* loops of resample.h for uint8 */
  const struct tlk_ConvLoops *conv[2];            /* loops of conv.h for float and for double */
  const struct tlk_PackedLoops *packed;           /* loops of packed.h for float */
  const struct tlk_TileLoops *tile[2];            /* loops of tile.h for float and for double */
  const struct tlk_AttentionLoops *attention[2]; /* loops of attention.h for float and for double */
  const struct tlk_WinogradLoops *winograd;      /* loops of winograd_loops.h for float */
  const struct tlk_ChannelLoops *channels[2];    /* loops of channels.h for float and for double */
  const struct tlk_ClassLoops *classes[2]; /* loops of cross_entropy.h for float and for double */
  const struct tlk_OptimLoops *optim;      /* loops of optim.h for float and for double */
  const struct tlk_RnnLoops *rnn[2];       /* loops of layer.h for float and for double */
  const struct tlk_FftLoops *fft[2];       /* loops of fft/transform.h for float and for double */
  const struct tlk_CsrLoops *csr[2];       /* loops of csr.h for float and for double */
} tlk_Isa;

/* Returns the instruction set in use. */
const tlk_Isa *tlk_isa(void);

/* An element of 16 bytes, for loops that only copy it. The name has the form of C's integer types,
** because macros build such names. */
typedef struct uint128_t {
  uint64_t at[2];
} uint128_t;

static inline int tlk_log2_size(tl_DType dtype) {
  size_t size = tl_dtype_size(dtype);
  return size == 16 ? 4 : size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
}

#define TLK_PASTE2_(a, b) a##_##b
#define TLK_PASTE_(a, b) TLK_PASTE2_(a, b)
#define TLK_PASTE3_(a, b, c) a##_##b##_##c
#define TLK_PASTE_3_(a, b, c) TLK_PASTE3_(a, b, c)
#define TLK_PASTE4_(a, b, c, d) a##_##b##_##c##_##d
#define TLK_PASTE_4_(a, b, c, d) TLK_PASTE4_(a, b, c, d)
/* TLK_ISA_NAME appends the name of the instruction set to a name, for files that are compiled once
** for each instruction set. */
#ifdef TLK_ISA
#define TLK_ISA_NAME(name) TLK_PASTE_(name, TLK_ISA)
#define TLK_STRING2_(x) #x
#define TLK_STRING_(x) TLK_STRING2_(x)
#endif

/* Must precede a loop whose iterations are independent. Operands may be the same array, which
** `restrict` would not allow.
**
** clang has no pragma that only asserts independence. Its pragma also demands vectors, and clang
** warns if it cannot make them, as in loops that call exp and similar functions or contain an inner
** loop. The warning depends on clang's version, the processor and the C library, so it says nothing
** about our code. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define TLK_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TLK_IVDEP _Pragma("GCC ivdep")
#endif

/* The functions in the CPU's table of kernels. */
#define X(name, operands) bool tlk_##name(const struct tlk_##name *call);
TLK_KERNELS(X)
#undef X

/* Converts args[1] to the dtype of args[0]. The dtypes must differ. */
bool tlk_convert_elements(const tli_Iter *it);

#endif
