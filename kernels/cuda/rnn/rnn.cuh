/*
** rnn.cuh - code that the forward pass and the backward pass of a recurrent layer share. A step is
** a matrix product with the states, followed by one kernel. A layer therefore takes a few launches
** for each step, and the host never waits for the device.
**
** The number of samples in a step is stored on the device (tlk_Rnn.offsets). The host does not know
** it, so the host launches products for the whole batch. States also have one row for each sample;
** if a sample does not take part in a step, its row does not change.
**
** A row of gates has the same layout as on the CPU. For GRU the row is: new, reset, update, and the
** state's part of new. In this order the gates that the state contributes to are adjacent columns.
*/
#ifndef TLK_CUDA_RNN_CUH
#define TLK_CUDA_RNN_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/lib/lib.h"

#define RNN_THREADS 128

/* ---- steps ------------------------------------------------------------------------------ */

/* Step `t` of a layer, as an argument of kernels. */
struct RnnStep {
  const int64_t *offsets; /* first row of each step; NULL if all sequences have the same length */
  int64_t t, steps, batch;
  bool reverse;

  __device__ __forceinline__ int64_t first_of(int64_t step) const {
    return offsets ? offsets[step] : step * batch;
  }
  __device__ __forceinline__ int64_t count_of(int64_t step) const {
    return offsets ? offsets[step + 1] - offsets[step] : batch;
  }
  __device__ __forceinline__ int64_t first() const { return first_of(t); }
  __device__ __forceinline__ int64_t count() const { return count_of(t); }
  /* Returns the row of sample n in the previous step; -1 if the sample's sequence begins with this
  ** step. */
  __device__ __forceinline__ int64_t before(int64_t n) const {
    int64_t from = reverse ? t + 1 : t - 1;
    if (from < 0 || from >= steps || n >= count_of(from)) return -1;
    return first_of(from) + n;
  }
};

static inline RnnStep rnn_step(const tlk_Rnn &r, int64_t t) {
  return {r.offsets, t, r.steps, r.batch, r.reverse};
}

/* A part of weight_ih: `rows` rows from `row` on. They compute adjacent columns in a row of gates,
** from `column` on. */
struct RnnPart {
  int64_t row, rows, column;
};

struct RnnLayout {
  /* number of columns in a row of gates; this and all other numbers in the struct are multiples of
  ** `hidden` */
  int64_t width;
  RnnPart state; /* the columns that weight_hh computes */
  int inputs;
  RnnPart input[2]; /* the columns that weight_ih computes */
};

static inline RnnLayout rnn_layout(tlk_RnnMode mode) {
  if (mode == TLK_RNN_GRU) return {4, {0, 3, 1}, 2, {{0, 2, 1}, {2, 1, 0}}};
  int64_t gates = tlk_rnn_gates(mode);
  return {gates, {0, gates, 0}, 1, {{0, gates, 0}, {0, 0, 0}}};
}

/* ---- arrays kept for the backward pass --------------------------------------------------- */

/* The compute type of a stored type. */
template <class S> struct RnnWide { typedef float type; };
template <> struct RnnWide<double> { typedef double type; };

/* The arrays of a reserve, each with all rows, in the order that tlk_rnn_reserve uses. */
template <class C> struct RnnReserve { C *gates, *cell, *tanh_cell, *unprojected; };

template <class C> static RnnReserve<C> rnn_reserve(const tlk_Rnn &r, const void *reserve) {
  RnnReserve<C> v = {};
  int64_t column = r.rows * r.hidden, width = rnn_layout(r.mode).width;
  if (reserve == NULL || width == 1) return v;
  v.gates = (C *)(uintptr_t)reserve;
  v.cell = v.gates + width * column;
  v.tanh_cell = v.cell + column;
  v.unprojected = v.tanh_cell + column;
  return v;
}

/* ---- small kernels ---------------------------------------------------------------------- */

/* Copies and converts n numbers, or writes zeros if `from` is NULL. */
template <class To, class From>
__global__ void __launch_bounds__(RNN_THREADS)
    rnn_move_kernel(To *to, const From *from, int64_t n) {
  typedef typename RnnWide<To>::type C;
  for (int64_t i = thread_index(); i < n; i += thread_count())
    to[i] = narrow<To>(from ? (C)widen(from[i]) : C(0));
}

template <class To, class From>
static bool rnn_move(const tlk_Context *cx, To *to, const From *from, int64_t n) {
  unsigned grid = blocks_for(cx, n, RNN_THREADS, 16);
  if ((const void *)to == (const void *)from) return true;
  return launch(cx, rnn_move_kernel<To, From>, dim3(grid), RNN_THREADS, 0, to, from, n);
}

/* ---- products ----------------------------------------------------------------------------- */

/* A product of row-major matrices of type S. They are contiguous except for the leading dimensions
** that are given. */
template <class S> struct RnnProduct {
  const tlk_Context *cx;
  struct tlk_gemm call;

  RnnProduct(const tlk_Context *context, tl_DType dtype, int64_t m, int64_t n, int64_t k)
      : cx(context), call() {
    call.cx = context;
    call.gemm.dtype = dtype;
    call.gemm.m = m, call.gemm.n = n, call.gemm.k = k;
    call.gemm.batch = 1;
  }
  RnnProduct &a(const S *data, int64_t ld, bool trans = false) {
    call.gemm.a = data, call.gemm.lda = ld, call.gemm.trans_a = trans;
    return *this;
  }
  RnnProduct &b(const S *data, int64_t ld, bool trans = false) {
    call.gemm.b = data, call.gemm.ldb = ld, call.gemm.trans_b = trans;
    return *this;
  }
  /* Stores the product in c or, if `add`, adds it to c. */
  bool into(S *c, int64_t ld, bool add = false) {
    set(ld, add);
    call.gemm.c = c;
    return tlk_gemm(&call);
  }
  /* Computes the product as `into` does, but the result is float32 if S is a half type. */
  bool into_wide(double *c, int64_t ld, bool add = false) { return into((S *)(void *)c, ld, add); }
  bool into_wide(float *c, int64_t ld, bool add = false) {
    const tlk_Gemm &g = call.gemm;
    if (sizeof(S) == sizeof(float)) return into((S *)(void *)c, ld, add);
    if (g.m == 0 || g.n == 0) return true;
    set(ld, add);
    if (g.k > 0) return cuda_lib_gemm_wide(&call, c);
    call.gemm.dtype = TL_F32;
    call.gemm.c = c;
    return tlk_gemm(&call); /* an empty product adds nothing */
  }

private:
  void set(int64_t ld, bool add) {
    call.gemm.ldc = ld;
    call.gemm.alpha.kind = call.gemm.beta.kind = TL_FLOATING;
    call.gemm.alpha.f = 1;
    call.gemm.beta.f = add ? 1 : 0;
  }
};

#endif
