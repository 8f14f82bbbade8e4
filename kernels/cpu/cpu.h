/*
** cpu.h - what the CPU back end's files share.
**
** Folders called isa hold the inner loops, compiled once per instruction set;
** each build fills one tlk_Isa. The other files are the drivers, compiled once:
** they walk strides, convert dtypes, cut work for threads, and call the loops
** of the best tlk_Isa that this processor has.
**
** A loop gets contiguous operands in its own type, in a number that is a
** multiple of TLK_LANES: drivers pad the last few elements. So every element
** takes the vector path, and its result does not depend on where in memory it
** lies or which thread computes it.
*/
#ifndef TLK_CPU_H
#define TLK_CPU_H

#include <stdatomic.h>

#include "core/device/backend.h"
#include "core/error.h"

/* Elements by which loops advance: a vector of float32 in the widest set. */
#define TLK_LANES 16
/* Elements that drivers convert or gather at a time, in buffers on the stack. */
#define TLK_CHUNK 1024
/* Elements below which a second thread does not pay. */
#define TLK_GRAIN 32768

/* Types that kernels compute in. ORDER COMPUTE */
enum { TLK_C_I32, TLK_C_I64, TLK_C_F32, TLK_C_F64, TLK_NCOMPUTE };

static inline int tlk_compute_index(tl_DType compute) {
  return compute == TL_F32   ? TLK_C_F32
         : compute == TL_F64 ? TLK_C_F64
         : compute == TL_I64 ? TLK_C_I64
                             : TLK_C_I32;
}

/* A position that is out of range, if any thread has met one; begins as zeros. */
typedef struct tlk_FirstFault {
  atomic_bool found;
  _Atomic int64_t position;
} tlk_FirstFault;

static inline void tlk_note_fault(tlk_FirstFault *fault, int64_t position) {
  atomic_store_explicit(&fault->position, position, memory_order_relaxed);
  atomic_store_explicit(&fault->found, true, memory_order_relaxed);
}

/* After all threads are done: true if none was found; else `fault`, of the value
** found, goes where the context says. */
static inline bool tlk_no_fault(const tlk_Context *cx, tlk_FirstFault *first, tlk_Fault fault) {
  if (!atomic_load(&first->found)) return true;
  fault.value = atomic_load(&first->position);
  return tlk_fault(cx, &fault);
}

/* args[0][i] = kernel(args[1][i], ...) for i < n, a multiple of TLK_LANES. Kernels of
** several outputs have these first, and take no parameters.
** False when an integer was to be divided by 0; outputs are undefined then. */
typedef bool (*tlk_Loop)(int64_t n, void *const *args, const tl_Scalar *params);

/* dst[i] = (type) src[i]; any n. */
typedef void (*tlk_Convert)(int64_t n, void *dst, const void *src);

/* dst[r][c] = src[r][c] with strides in bytes: s0 along c, s1 along r. */
typedef void (*tlk_Move)(char *dst, int64_t ds0, int64_t ds1, const char *src, int64_t ss0,
                         int64_t ss1, int64_t cols, int64_t rows);

/* One reduction in one compute type. `acc` is an array of accumulators, of
** acc_bytes each. */
typedef struct tlk_Reducer {
  int64_t acc_bytes; /* at most TLK_ACC_BYTES */
  bool ordered;      /* elements must come in order: the position counts */
  void (*start)(int64_t n, void *acc, const tl_Scalar *params);
  /* Joins n contiguous elements into acc[0]. */
  void (*row)(int64_t n, const void *x, void *acc, const tl_Scalar *params);
  /* Joins row r, column c of x into acc[c]; rows are `stride` elements apart. */
  void (*columns)(int64_t rows, int64_t cols, int64_t stride, const void *x, void *acc,
                  const tl_Scalar *params);
  /* acc[i] joined with other[i], whose elements come after acc's. */
  void (*join)(int64_t n, void *acc, const void *other);
  /* The results, in the compute type. */
  void (*finish)(int64_t n, void *out, const void *acc, const tl_Scalar *params);
} tlk_Reducer;

#define TLK_ACC_BYTES 24

/* The accumulators of two reducers that have no `finish`. */
typedef struct tlk_Best {
  int64_t seen;  /* elements so far */
  int64_t index; /* of the best one, from 0; -1 if there is none */
  union {
    double f; /* floating types */
    int64_t i;
  } value;
} tlk_Best;

typedef struct tlk_Moments {
  double count, mean;
  double deviation; /* sum of squared deviations from the mean */
} tlk_Moments;

/* Softmax of rows (rows, n), or along n of strips (n, cols) with rows of in and
** out in_step and out_step elements apart. out may be in. */
typedef struct tlk_Softmax {
  void (*rows)(bool log, int64_t rows, int64_t n, const void *in, void *out);
  void (*columns)(bool log, int64_t n, int64_t cols, const void *in, int64_t in_step, void *out,
                  int64_t out_step);
  /* The gradient of in, from that of out and out itself; may be either. */
  void (*rows_back)(bool log, int64_t rows, int64_t n, const void *grad, const void *out,
                    void *grad_in);
  void (*columns_back)(bool log, int64_t n, int64_t cols, const void *grad, const void *out,
                       int64_t step, void *grad_in, int64_t in_step);
} tlk_Softmax;

/* A scan of a row, or of `cols` columns: rows of in, out and indices are `step`
** elements apart. State goes from one call to the next: `state`, TLK_ACC_BYTES
** for each column, and `where`, the position picked last. `at` is the position,
** from 1, of the first row. out is in the compute type, indices may be NULL. */
typedef struct tlk_Scanner {
  void (*start)(int64_t cols, void *state);
  void (*run)(int64_t rows, int64_t cols, int64_t step, const void *in, void *out,
              int64_t indices_step, int64_t *indices, int64_t at, void *state, int64_t *where);
} tlk_Scanner;

#define TLK_SOFTMAX_COLS 128 /* of a strip at most: what is read twice stays in cache */

/* Normalisation of one row; see layer_norm in core/kernel/kernel.h. weight and bias
** may be NULL; without `shift` the mean is taken as 0. */
typedef struct tlk_Norm {
  void (*row)(int64_t n, const void *in, void *out, const void *weight, const void *bias,
              double eps, bool shift, double *mean, double *rstd);
  void (*row_back)(int64_t n, const void *grad, const void *in, const void *weight, double mean,
                   double rstd, bool shift, void *grad_in);
  /* Adds the gradients of weight and bias from up to 4 rows to sums; either
  ** may be NULL. */
  void (*weight_back)(int64_t rows, int64_t n, const void *grad, const void *in, const double *mean,
                      const double *rstd, double *grad_weight, double *grad_bias);
} tlk_Norm;

/* The numbers of some blocks, TLK_RANDOM_BLOCKS at most, of the stream `seed`,
** made for `dtype`, into out; in the type that is returned: F32, F64 or I64. */
enum { TLK_RANDOM_BLOCKS = 64 };
typedef tl_DType (*tlk_RandomFn)(tlk_Distribution d, tl_DType dtype, uint64_t seed, uint64_t block,
                                 int blocks, tl_Scalar a, tl_Scalar b, void *out);

typedef struct tlk_Isa {
  const char *name;
  const tlk_Loop *loops[TLK_NCOMPUTE];       /* by tlk_Pointwise; NULL where not defined */
  const tlk_Loop *fixed[TLK_NCOMPUTE];       /* the same for inputs that are one element each,
                                                but for the first; NULL for kernels of one */
  const tlk_Loop *fused[2];                  /* by tlk_Fused; of float, of double */
  const tlk_Reducer *reducers[TLK_NCOMPUTE]; /* by tlk_Reduction */
  const tlk_Reducer (*best)[TLK_NCOMPUTE];   /* [0]: smallest, [1]: largest */
  const tlk_Reducer *moments;                /* of float, of double */
  const tlk_Scanner *scanners[TLK_NCOMPUTE]; /* by tlk_Scan */
  const tlk_Softmax *softmax;                /* the same */
  const tlk_Norm *norm;                      /* the same */
  const tlk_Convert (*convert)[TL_NDTYPES];  /* [from][to] */
  const tlk_Move *move;                      /* by log2 of the element's size */
  tlk_RandomFn random;
  const struct tlk_IndexLoops *index;            /* gather.h */
  const struct tlk_PoolLoops *pool;              /* pool.h */
  const struct tlk_ResampleLoops *resample;      /* resample.h: of float, of double */
  const struct tlk_ConvLoops *conv[2];           /* conv.h: of float, of double */
  const struct tlk_TileLoops *tile[2];           /* tile.h: the same */
  const struct tlk_AttentionLoops *attention[2]; /* attention.h: the same */
  const struct tlk_WinogradLoops *winograd;      /* winograd_loops.h: of float */
  const struct tlk_ChannelLoops *channels;       /* channels.h: of float, of double */
  const struct tlk_ClassLoops *classes;          /* cross_entropy.h: the same */
  const struct tlk_OptimLoops *optim;            /* optim.h: the same */
  const struct tlk_RnnLoops *rnn;                /* rnn.h: the same */
} tlk_Isa;

/* The set in use. */
const tlk_Isa *tlk_isa(void);

static inline int tlk_log2_size(tl_DType dtype) {
  size_t size = tl_dtype_size(dtype);
  return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
}

/* Names in files that are compiled once per set. */
#ifdef TLK_ISA
#define TLK_PASTE2_(a, b) a##_##b
#define TLK_PASTE_(a, b) TLK_PASTE2_(a, b)
#define TLK_ISA_NAME(name) TLK_PASTE_(name, TLK_ISA)
#define TLK_STRING2_(x) #x
#define TLK_STRING_(x) TLK_STRING2_(x)
#endif

/* Before a loop whose iterations do not depend on each other. Operands may be
** the same array (in place), which `restrict` would forbid.
**
** clang has no pragma that only assumes: this one also orders vectors, and warns
** where they cannot be had. Which loops those are (calls of exp and its like, a
** loop inside) hangs on clang's version, the processor and the C library, so it
** says nothing about our code. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define TLK_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TLK_IVDEP _Pragma("GCC ivdep")
#endif

/* The members of the table. */
#define X(name, operands) bool tlk_##name(const struct tlk_##name *call);
TLK_KERNELS(X)
#undef X

/* args[0] = (dtype) args[1] where the dtypes differ. */
bool tlk_convert_elements(const tli_Iter *it);

#endif
