/*
** list.cu - reductions and scaling of lists of tensors, and gradient clipping. Each block processes
** one part of one tensor, which has TLK_LIST_PART elements. The elements of a part are added in the
** same order on every device.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/optim.h"

#define THREADS 512

/* ---- parts ---------------------------------------------------------------------------------- */

/* The tensors of a call, and their division into parts. Each block of the launch processes one
** part; parts are counted over all tensors. For each tensor: the index of its first part, the
** number of its elements, and its data. first[count] is the number of all parts. */
struct Parts {
  int32_t count;
  int32_t first[TLK_LIST_TENSORS + 1];
  int64_t n[TLK_LIST_TENSORS];
  void *data[TLK_LIST_TENSORS];
};

DEVICE int tensor_of(const Parts &p, int32_t part) {
  int low = 0, high = p.count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (p.first[middle] <= part)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Returns the index of the block's tensor, and sets the block's range of elements [*begin,
** *end). */
DEVICE int own_part(const Parts &p, int64_t *begin, int64_t *end) {
  int i = tensor_of(p, (int32_t)blockIdx.x);
  *begin = (int64_t)((int32_t)blockIdx.x - p.first[i]) * TLK_LIST_PART;
  *end = *begin + TLK_LIST_PART < p.n[i] ? *begin + TLK_LIST_PART : p.n[i];
  return i;
}

/* Calls f(element) for each element of the block's part. Loads vectors of 16 bytes where the
** address is aligned. If `stores`, f may change the element, and the changed element is stored. */
template <bool stores, class S, class F>
__device__ __forceinline__ void visit(S *x, int64_t begin, int64_t end, F f) {
  enum { N = 16 / sizeof(S) };
  S *part = x + begin;
  int64_t n = end - begin, vectors = (uintptr_t)part % 16 == 0 ? n / N : 0;
#pragma unroll 2
  for (int64_t v = threadIdx.x; v < vectors; v += THREADS) {
    Vector<S, N> *at = reinterpret_cast<Vector<S, N> *>(part) + v, several = *at;
#pragma unroll
    for (int e = 0; e < N; e++) f(several.at[e]);
    if (stores) *at = several;
  }
  for (int64_t i = vectors * N + threadIdx.x; i < n; i += THREADS) {
    S one = part[i];
    f(one);
    if (stores) part[i] = one;
  }
}

static Parts parts_of(int32_t count, const int64_t *n, void *const *data) {
  Parts p = {};
  int64_t parts = 0;
  p.count = count;
  for (int i = 0; i < count; i++) {
    p.first[i] = (int32_t)parts;
    p.n[i] = n[i];
    p.data[i] = data[i];
    parts += divide_up(n[i], TLK_LIST_PART);
  }
  p.first[count] = (int32_t)parts;
  return p;
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* A reduction of math.h for norms that computes in type C. */
#define REDUCTION(name, s, type)                                                                  \
  struct name##_##s {                                                                             \
    typedef type C;                                                                               \
    typedef tlm_##name##_##s##_acc A;                                                             \
    __device__ __forceinline__ static A start(const C *p) { return tlm_##name##_##s##_start(p); } \
    __device__ __forceinline__ static A enter(C x, const C *p) {                                  \
      return (A)tlm_##name##_##s##_enter(x, p);                                                   \
    }                                                                                             \
    __device__ __forceinline__ static A join(A a, A b) { return tlm_##name##_##s##_join(a, b); }  \
  };
#define REDUCTIONS(name) REDUCTION(name, f32, float) REDUCTION(name, f64, double)
REDUCTIONS(sum_abs)
REDUCTIONS(sum_square)
REDUCTIONS(sum_power)
REDUCTIONS(amax_abs)
REDUCTIONS(amin_abs)
REDUCTIONS(count_nonzero)

/* For each tensor, the index of its first partial result. */
struct Firsts {
  int64_t first[TLK_LIST_TENSORS];
};

template <class R, class S>
__global__ void __launch_bounds__(THREADS)
    reduce_kernel(const __grid_constant__ Parts p, const __grid_constant__ Firsts to,
                  typename R::C param, double *partials) {
  typedef typename R::C C;
  __shared__ typename R::A shared[WARP];
  int64_t begin, end;
  int which = own_part(p, &begin, &end);
  typename R::A acc = R::start(&param);
  visit<false>(static_cast<S *>(p.data[which]), begin, end,
               [&](S x) { acc = R::join(acc, R::enter((C)widen(x), &param)); });
  acc = block_reduce(
      acc, [](typename R::A a, typename R::A b) { return R::join(a, b); }, shared);
  if (threadIdx.x == 0) partials[to.first[which] + begin / TLK_LIST_PART] = (double)acc;
}

template <class R, class S> static bool reduce_as(const struct tlk_list_reduce *call) {
  Parts p = parts_of(call->count, call->n, const_cast<void *const *>(call->data));
  Firsts to = {};
  double param =
      call->params[0].kind == TL_FLOATING ? call->params[0].f : (double)call->params[0].i;
  memcpy(to.first, call->first, sizeof to.first);
  return launch(call->cx, reduce_kernel<R, S>, dim3((unsigned)p.first[p.count]), THREADS, 0, p, to,
                (typename R::C)param, call->partials);
}

/* Launches a reduction. F is its struct for float, D its struct for double. */
template <class F, class D> static bool reduce(const struct tlk_list_reduce *call) {
  switch (call->dtype) {
  case TL_F64: return reduce_as<D, double>(call);
  case TL_F32: return reduce_as<F, float>(call);
  case TL_F16: return reduce_as<F, f16>(call);
  default: return reduce_as<F, bf16>(call);
  }
}

bool tlk_list_reduce(const struct tlk_list_reduce *call) {
  switch (call->kernel) {
#define CASE(name) \
  case TLK_reduction_##name: return reduce<name##_f32, name##_f64>(call);
    CASE(sum_abs)
    CASE(sum_square)
    CASE(sum_power)
    CASE(amax_abs)
    CASE(amin_abs)
    CASE(count_nonzero)
#undef CASE
  default: return cuda_fail(TL_EARG, "there is no such reduction of lists");
  }
}

/* ---- scaling --------------------------------------------------------------------------------- */

template <class S>
__global__ void __launch_bounds__(THREADS)
    scale_kernel(const __grid_constant__ Parts p, tlk_Array scale, float *found_inf) {
  typedef decltype(widen(S())) C;
  int64_t begin, end;
  int which = own_part(p, &begin, &end);
  C factor = scale.dtype == TL_F64 ? (C) * static_cast<const double *>(scale.data)
                                   : (C) * static_cast<const float *>(scale.data);
  bool odd = false;
  visit<true>(static_cast<S *>(p.data[which]), begin, end, [&](S &x) {
    C wide = widen(x);
    odd = odd || !(wide - wide == 0);
    x = narrow<S>(wide * factor);
  });
  if (odd && found_inf) *found_inf = 1;
}

bool tlk_list_scale(const struct tlk_list_scale *call) {
  Parts p = parts_of(call->count, call->n, call->data);
  dim3 grid((unsigned)p.first[p.count]);
  WITH_FLOATING(
      call->dtype, S,
      return launch(call->cx, scale_kernel<S>, grid, THREADS, 0, p, call->scale, call->found_inf))
  return true;
}

/* ---- clipping -------------------------------------------------------------------------------- */

DEVICE double number_of(const tlk_Array &a) {
  return a.dtype == TL_F64 ? *static_cast<const double *>(a.data)
                           : (double)*static_cast<const float *>(a.data);
}

/* Computes the factor by which gradients are clipped. Runs in one block. */
__global__ void __launch_bounds__(THREADS) clip_kernel(struct tlk_list_clip call) {
  __shared__ double shared[WARP];
  bool largest = call.power == (double)INFINITY;
  auto join = [largest](double a, double b) { return largest ? TLM_LARGER(a, b) : a + b; };
  double sum = 0;
  for (int64_t i = threadIdx.x; i < call.count; i += THREADS) sum = join(sum, call.partials[i]);
  sum = block_reduce(sum, join, shared);
  if (threadIdx.x != 0) return;
  double norm = tlm_norm_of(sum, call.power);
  if (call.grad_scale.data) norm /= number_of(call.grad_scale);
  *call.found_inf = norm - norm == 0 ? 0.0f : 1.0f;
  if (call.dtype == TL_F64) {
    *static_cast<double *>(call.norm) = norm;
    *static_cast<double *>(call.factor) = tlm_clip_f64(norm, call.max_norm);
  } else {
    *static_cast<float *>(call.norm) = (float)norm;
    *static_cast<float *>(call.factor) = tlm_clip_f32((float)norm, (float)call.max_norm);
  }
}

bool tlk_list_clip(const struct tlk_list_clip *call) {
  return launch(call->cx, clip_kernel, dim3(1), THREADS, 0, *call);
}
