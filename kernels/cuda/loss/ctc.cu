/*
** ctc.cu - connectionist temporal classification (see kernels/cpu/loss/ctc.c). Each sample is
** computed by one block, whose threads share the states of a frame. Sums are computed in double.
*/
#include "kernels/cuda/line_reduce.cuh"

namespace {

#define CTC_THREADS 256

/* One sample of the batch, with functions that read the sample's labels and probabilities. */
template <class T> struct Sample {
  const tlk_Ctc &c;
  const T *log_probs;
  int64_t sample, frames, states;

  __device__ __forceinline__ Sample(const tlk_Ctc &call, const T *probs, int64_t at)
      : c(call), log_probs(probs), sample(at), frames(call.input_lengths[at]),
        states(2 * call.target_lengths[at] + 1) {}

  /* Returns the class of a state; even states are blanks. */
  __device__ __forceinline__ int64_t class_of(int64_t s) const {
    return (s % 2 == 0 ? c.blank : c.targets[sample * c.longest + s / 2]) - 1;
  }
  /* Returns whether a path may skip the blank before this state. It may if the labels on both sides
  ** of the blank differ. */
  __device__ __forceinline__ bool may_skip(int64_t s) const {
    return s % 2 == 1 && s >= 2 && class_of(s) != class_of(s - 2);
  }
  __device__ __forceinline__ int64_t row(int64_t t) const {
    return (t * c.batch + sample) * c.classes;
  }
  __device__ __forceinline__ double log_prob(int64_t t, int64_t k) const {
    return (double)log_probs[row(t) + k];
  }
  __device__ __forceinline__ int64_t alpha_at(int64_t t, int64_t s) const {
    return (sample * c.time + t) * (2 * c.longest + 1) + s;
  }
};

static __device__ __noinline__ double add_logs(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  return high == -INFINITY ? high : high + log1p(exp(low - high));
}

template <class T>
__global__ void __launch_bounds__(CTC_THREADS, 2)
    ctc_kernel(const __grid_constant__ tlk_Ctc c, const T *log_probs, T *alpha, T *loss) {
  for (int64_t sample = blockIdx.x; sample < c.batch; sample += gridDim.x) {
    Sample<T> x(c, log_probs, sample);
    for (int64_t t = 0; t < x.frames; t++) {
      const T *before = alpha + x.alpha_at(t - 1, 0);
      for (int64_t s = threadIdx.x; s < x.states; s += CTC_THREADS) {
        double sum = s < 2 ? 0 : -INFINITY;
        if (t > 0) {
          sum = (double)before[s];
          if (s >= 1) sum = add_logs(sum, (double)before[s - 1]);
          if (x.may_skip(s)) sum = add_logs(sum, (double)before[s - 2]);
        }
        alpha[x.alpha_at(t, s)] = (T)(sum + x.log_prob(t, x.class_of(s)));
      }
      __syncthreads();
    }
    if (threadIdx.x != 0) continue;
    double total = x.frames == 0 && x.states == 1 ? 0 : -INFINITY;
    for (int64_t s = x.states - 1; x.frames > 0 && s >= 0 && s >= x.states - 2; s--)
      total = add_logs(total, (double)alpha[x.alpha_at(x.frames - 1, s)]);
    loss[sample] = (T)-total;
  }
}

/* ---- the gradient -------------------------------------------------------------------------- */

/* Links the states that have the same label. links[s] is the next state with the label of s, or 0
** if there is none. SAYS_FIRST is added if s is the label's first state. States that are blanks get
** SAYS_BLANK. */
#define SAYS_BLANK -1
#define SAYS_FIRST (1 << 30)

template <class T> __device__ __forceinline__ void link_states(const Sample<T> &x, int32_t *links) {
  for (int64_t s = threadIdx.x; s < x.states; s += CTC_THREADS) {
    int64_t k = x.class_of(s), to = s + 2;
    bool first = true;
    for (int64_t p = 1; p < s && first; p += 2) first = x.class_of(p) != k;
    while (to < x.states && x.class_of(to) != k) to += 2;
    links[s] = (to < x.states ? (int32_t)to : 0) | (first ? SAYS_FIRST : 0);
    if (k == x.c.blank - 1) links[s] = SAYS_BLANK;
  }
}

/* Computes beta of frame t from beta of frame t + 1 for all states, and then the sum of alpha and
** beta. */
template <class T>
__device__ __forceinline__ void step_back(const Sample<T> &x, int64_t t, const T *alpha,
                                          const double *after, double *beta, double *both) {
  bool last = t == x.frames - 1;
  for (int64_t s = threadIdx.x; s < x.states; s += CTC_THREADS) {
    double sum = last ? (s >= x.states - 2 ? 0 : -INFINITY) : after[s];
    if (!last && s + 1 < x.states) sum = add_logs(sum, after[s + 1]);
    if (!last && s + 2 < x.states && x.may_skip(s + 2)) sum = add_logs(sum, after[s + 2]);
    beta[s] = sum + x.log_prob(t, x.class_of(s));
    both[s] = (double)alpha[x.alpha_at(t, s)] + beta[s];
  }
}

/* Converts the sums of a frame to gradients. */
template <class T> struct Gradient {
  T *grad;
  double factor, loss;

  /* Stores the gradient for class k. `through` is the logarithm of the total probability of all
  ** alignments that emit class k in this frame. */
  __device__ __forceinline__ void put(const Sample<T> &x, int64_t t, int64_t k,
                                      double through) const {
    double log = x.log_prob(t, k), share = through == -INFINITY ? 0 : exp(through + loss - log);
    grad[x.row(t) + k] = (T)(factor == 0 ? 0 : factor * (exp(log) - share));
  }
};

template <class T>
__device__ __forceinline__ void frame_gradient(const Sample<T> &x, int64_t t,
                                               const Gradient<T> &gradient, const int32_t *links,
                                               const double *both, double *shared) {
  double blank = -INFINITY;
  for (int64_t k = threadIdx.x; k < x.c.classes; k += CTC_THREADS) gradient.put(x, t, k, -INFINITY);
  __syncthreads(); /* this barrier also separates step_back from the code below */
  for (int64_t s = threadIdx.x; s < x.states; s += CTC_THREADS) {
    if (links[s] == SAYS_BLANK) {
      blank = add_logs(blank, both[s]);
    } else if (links[s] & SAYS_FIRST) {
      double through = -INFINITY;
      int64_t at = s;
      do {
        through = add_logs(through, both[at]);
        at = links[at] & ~SAYS_FIRST;
      } while (at != 0);
      gradient.put(x, t, x.class_of(s), through);
    }
  }
  blank = block_reduce(
      blank, [](double a, double b) { return add_logs(a, b); }, shared);
  if (threadIdx.x == 0) gradient.put(x, t, x.c.blank - 1, blank);
}

/* Computes the samples, each in a block of its own. `memory` has room for four numbers for each
** state of each sample. */
template <class T>
__global__ void __launch_bounds__(CTC_THREADS, 2)
    ctc_backward_kernel(const __grid_constant__ tlk_Ctc c, const T *log_probs, const T *alpha,
                        const T *loss, const T *grad_loss, double *memory, T *grad) {
  __shared__ double shared[CTC_THREADS / WARP];
  for (int64_t sample = blockIdx.x; sample < c.batch; sample += gridDim.x) {
    Sample<T> x(c, log_probs, sample);
    Gradient<T> gradient = {grad, (double)grad_loss[sample], (double)loss[sample]};
    int64_t room = 2 * c.longest + 1;
    double *beta = memory + sample * 4 * room, *both = beta + 2 * room;
    int32_t *links = reinterpret_cast<int32_t *>(beta + 3 * room);
    link_states(x, links);
    for (int64_t t = x.frames; t < c.time; t++)
      for (int64_t k = threadIdx.x; k < c.classes; k += CTC_THREADS) grad[x.row(t) + k] = 0;
    for (int64_t t = x.frames - 1; t >= 0; t--) {
      step_back(x, t, alpha, beta + (t + 1) % 2 * room, beta + t % 2 * room, both);
      frame_gradient(x, t, gradient, links, both, shared);
    }
  }
}

template <class T> bool run_loss(const struct tlk_ctc_loss *call) {
  unsigned grid = blocks_for(call->cx, call->ctc.batch, 1);
  return launch(call->cx, ctc_kernel<T>, dim3(grid), CTC_THREADS, 0, call->ctc,
                (const T *)call->log_probs, (T *)call->alpha, (T *)call->loss.data);
}

template <class T> bool run_backward(const struct tlk_ctc_loss_backward *call) {
  const tlk_Ctc &c = call->ctc;
  Scratch memory(call->cx, c.batch * 4 * (2 * c.longest + 1) * (int64_t)sizeof(double));
  unsigned grid = blocks_for(call->cx, c.batch, 1);
  return memory.data &&
         launch(call->cx, ctc_backward_kernel<T>, dim3(grid), CTC_THREADS, 0, c,
                (const T *)call->log_probs, (const T *)call->alpha, (const T *)call->loss,
                (const T *)call->grad_loss, (double *)memory.data, (T *)call->grad_in.data);
}

} // namespace

bool tlk_ctc_loss(const struct tlk_ctc_loss *call) {
  return call->loss.dtype == TL_F64 ? run_loss<double>(call) : run_loss<float>(call);
}

bool tlk_ctc_loss_backward(const struct tlk_ctc_loss_backward *call) {
  return call->grad_in.dtype == TL_F64 ? run_backward<double>(call) : run_backward<float>(call);
}
