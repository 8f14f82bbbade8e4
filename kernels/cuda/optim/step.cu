/*
** step.cu - steps of optimizers over lists of parameters. One launch updates all parameters of a
** call.
**
** The tensors' addresses are kernel arguments. Each block processes one chunk of one tensor. It
** finds the tensor by binary search in a list that contains the first chunk of each tensor. The
** formulas are in kernels/optim.h.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/optim.h"

#define THREADS 256
#define WIDTH 4                     /* number of elements that a thread processes at a time */
#define CHUNK (THREADS * WIDTH * 4) /* number of elements that a block processes */

/* ---- coefficients -------------------------------------------------------------------------- */

/* Reads a number in float32 or float64. Returns `otherwise` if there is no array. */
DEVICE double number_at(const tlk_Array &a, double otherwise) {
  if (a.data == NULL) return otherwise;
  return a.dtype == TL_F64 ? *static_cast<const double *>(a.data)
                           : (double)*static_cast<const float *>(a.data);
}

template <int family>
__device__ __forceinline__ void compute(const double *options, double lr, double *t, double *c);
enum {
#define X(name, options, clocks) FAMILY_##name,
  TLK_OPTIM_FAMILIES(X)
#undef X
};
#define X(name, options, clocks)                                                                \
  template <>                                                                                   \
  __device__ __forceinline__ void compute<FAMILY_##name>(const double *o, double lr, double *t, \
                                                         double *c) {                           \
    tlm_coefs_##name(o, lr, t, c);                                                              \
  }
TLK_OPTIM_FAMILIES(X)
#undef X

/* Computes the coefficients. Each thread handles one parameter. */
template <int family, int nclocks> __global__ void coefs_kernel(struct tlk_optim_coefs call) {
  int i = threadIdx.x;
  if (i >= call.count || (call.found_inf && *call.found_inf != 0)) return;
  double t[TLK_OPTIM_CLOCKS] = {0, 0, 0}, c[TLK_OPTIM_COEFS] = {0};
  for (int k = 0; k < nclocks; k++) t[k] = *call.clocks[i][k];
  c[0] = call.maximize ? -1 : 1;
  compute<family>(call.options, number_at(call.lr, call.options[0]), t, c);
  for (int k = 0; k < nclocks; k++) *call.clocks[i][k] = t[k];
  for (int k = 0; k < TLK_OPTIM_COEFS; k++) call.coefs[i * TLK_OPTIM_COEFS + k] = c[k];
}

template <int family, int nclocks> static bool launch_coefs(const struct tlk_optim_coefs *call) {
  return launch(call->cx, coefs_kernel<family, nclocks>, dim3(1), 64, 0, *call);
}

/* ---- the step of one element ----------------------------------------------------------------- */

#define X(rule, family, n)                                                                        \
  struct rule##_rule {                                                                            \
    enum { states = n };                                                                          \
    __device__ __forceinline__ static float of(float p, float g, float *s, const float *c) {      \
      return tlm_step_##rule##_f32(p, g, s, s + 1, s + 2, c);                                     \
    }                                                                                             \
    __device__ __forceinline__ static double of(double p, double g, double *s, const double *c) { \
      return tlm_step_##rule##_f64(p, g, s, s + 1, s + 2, c);                                     \
    }                                                                                             \
  };
TLK_OPTIM_RULES(X)
#undef X

/* The argument of the kernel. It has the fields of struct tlk_optim_step that the kernel reads. */
struct Step {
  int32_t first[TLK_OPTIM_TENSORS + 1]; /* for each tensor, the index of its first chunk */
  int8_t param, grad, state;
  const double *coefs;
  double same[TLK_OPTIM_COEFS];
  const float *found_inf;
  tlk_Array grad_scale, clip;
  tlk_OptimTensor tensors[TLK_OPTIM_TENSORS];
};
static_assert(sizeof(Step) <= 4096, "the parameters of a launch");

/* Loads elements i to i + WIDTH - 1, of which only `n` exist, and converts them to C. */
template <class C>
__device__ __forceinline__ void fetch(const void *data, int dtype, int64_t i, int64_t n, C *out) {
  const char *from = static_cast<const char *>(data);
  bool whole = n >= WIDTH && (uintptr_t)data % 16 == 0;
  if (whole && dtype == (sizeof(C) == 8 ? TL_F64 : TL_F32)) {
    const C *at = static_cast<const C *>(data) + i;
    Vector<C, 16 / sizeof(C)> v;
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16 / (int)sizeof(C)) {
      v = *reinterpret_cast<const Vector<C, 16 / sizeof(C)> *>(at + k);
#pragma unroll
      for (int e = 0; e < 16 / (int)sizeof(C); e++) out[k + e] = v.at[e];
    }
    return;
  }
  int bytes = dtype == TL_F64 ? 8 : dtype == TL_F32 ? 4 : 2;
#pragma unroll
  for (int k = 0; k < WIDTH; k++)
    out[k] = k < n ? load_any<C>(from + (i + k) * bytes, dtype) : C(0);
}

template <class C>
__device__ __forceinline__ void put(void *data, int dtype, int64_t i, int64_t n, const C *in) {
  char *to = static_cast<char *>(data);
  bool whole = n >= WIDTH && (uintptr_t)data % 16 == 0;
  if (whole && dtype == (sizeof(C) == 8 ? TL_F64 : TL_F32)) {
    C *at = static_cast<C *>(data) + i;
    Vector<C, 16 / sizeof(C)> v;
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16 / (int)sizeof(C)) {
#pragma unroll
      for (int e = 0; e < 16 / (int)sizeof(C); e++) v.at[e] = in[k + e];
      *reinterpret_cast<Vector<C, 16 / sizeof(C)> *>(at + k) = v;
    }
    return;
  }
  int bytes = dtype == TL_F64 ? 8 : dtype == TL_F32 ? 4 : 2;
#pragma unroll
  for (int k = 0; k < WIDTH; k++)
    if (k < n) store_any<C>(to + (i + k) * bytes, dtype, in[k]);
}

template <class Rule, class C>
__device__ __forceinline__ void step_elements(const Step &s, const tlk_OptimTensor &t, int64_t i,
                                              C factor, const C *coefs) {
  C p[WIDTH], g[WIDTH], state[TLK_OPTIM_STATES][WIDTH];
  int64_t n = t.n - i;
  void *param = t.master ? t.master : t.param;
  int dtype = t.master ? (int)TL_F32 : s.param;
  fetch<C>(param, dtype, i, n, p);
  fetch<C>(t.grad, s.grad, i, n, g);
#pragma unroll
  for (int k = 0; k < Rule::states; k++) fetch<C>(t.state[k], s.state, i, n, state[k]);
#pragma unroll
  for (int e = 0; e < WIDTH; e++) {
    C own[TLK_OPTIM_STATES] = {0, 0, 0};
#pragma unroll
    for (int k = 0; k < Rule::states; k++) own[k] = state[k][e];
    p[e] = Rule::of(p[e], g[e] * factor, own, coefs);
#pragma unroll
    for (int k = 0; k < Rule::states; k++) state[k][e] = own[k];
  }
  put<C>(param, dtype, i, n, p);
#pragma unroll
  for (int k = 0; k < Rule::states; k++) put<C>(t.state[k], s.state, i, n, state[k]);
  if (t.master && t.param) put<C>(t.param, s.param, i, n, p);
}

/* Returns the tensor that a chunk belongs to. */
DEVICE int tensor_of(const Step &s, int32_t chunk) {
  int low = 0, high = TLK_OPTIM_TENSORS;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (s.first[middle] <= chunk)
      low = middle;
    else
      high = middle;
  }
  return low;
}

template <class Rule, class C>
__global__ void __launch_bounds__(THREADS) step_kernel(const __grid_constant__ Step s) {
  if (s.found_inf && *s.found_inf != 0) return;
  int which = tensor_of(s, (int32_t)blockIdx.x);
  const tlk_OptimTensor &t = s.tensors[which];
  const double *from = s.coefs ? s.coefs + which * TLK_OPTIM_COEFS : s.same;
  C coefs[TLK_OPTIM_COEFS];
  for (int k = 0; k < TLK_OPTIM_COEFS; k++) coefs[k] = (C)from[k];
  double factor = number_at(s.clip, 1) / number_at(s.grad_scale, 1) * from[0];
  int64_t begin = (int64_t)((int32_t)blockIdx.x - s.first[which]) * CHUNK;
  int64_t end = begin + CHUNK < t.n ? begin + CHUNK : t.n;
  for (int64_t i = begin + threadIdx.x * WIDTH; i < end; i += THREADS * WIDTH)
    step_elements<Rule, C>(s, t, i, (C)factor, coefs);
}

/* ---- launchers ------------------------------------------------------------------------------- */

template <class Rule>
static bool launch_step(const struct tlk_optim_step *call, const Step &s, unsigned chunks) {
  if (call->param == TL_F64)
    return launch(call->cx, step_kernel<Rule, double>, dim3(chunks), THREADS, 0, s);
  return launch(call->cx, step_kernel<Rule, float>, dim3(chunks), THREADS, 0, s);
}

bool tlk_optim_coefs(const struct tlk_optim_coefs *call) {
  typedef bool (*Launch)(const struct tlk_optim_coefs *);
  enum {
#define X(name, options, clocks) CLOCKS_##name = clocks,
    TLK_OPTIM_FAMILIES(X)
#undef X
  };
  static const Launch launches[] = {
#define X(rule, family, states) launch_coefs<FAMILY_##family, CLOCKS_##family>,
      TLK_OPTIM_RULES(X)
#undef X
  };
  return launches[call->rule](call);
}

bool tlk_optim_step(const struct tlk_optim_step *call) {
  typedef bool (*Launch)(const struct tlk_optim_step *, const Step &, unsigned);
  static const Launch launches[] = {
#define X(rule, family, states) launch_step<rule##_rule>,
      TLK_OPTIM_RULES(X)
#undef X
  };
  Step s = {};
  s.param = (int8_t)call->param;
  s.grad = (int8_t)call->grad;
  s.state = (int8_t)call->state;
  s.coefs = call->coefs;
  memcpy(s.same, call->same, sizeof s.same);
  s.found_inf = call->found_inf;
  s.grad_scale = call->grad_scale;
  s.clip = call->clip;
  memcpy(s.tensors, call->tensors, (size_t)call->count * sizeof *s.tensors);
  int64_t chunks = 0;
  for (int i = 0; i <= TLK_OPTIM_TENSORS; i++) {
    s.first[i] = (int32_t)chunks;
    if (i < call->count) chunks += divide_up(call->tensors[i].n, CHUNK);
  }
  return launches[call->rule](call, s, (unsigned)chunks);
}
