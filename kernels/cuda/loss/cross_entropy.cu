/*
** cross_entropy.cu - cross-entropy with class labels. Log-sum-exp takes one pass: the running sum
** is rescaled whenever a new maximum is found.
*/
#include "kernels/cuda/walk.cuh"

namespace {

/* ---- the loss ------------------------------------------------------------------------------- */

/* The running maximum, and the sum of exp(element - maximum) so far. */
template <class T> struct Exponentials {
  double sum;
  T most;

  /* Returns the number that is subtracted from the elements: the maximum, or 0 if the maximum is
  ** -inf. */
  __device__ __forceinline__ static T base(T most) { return most == -(T)INFINITY ? 0 : most; }
  __device__ __forceinline__ double from(T largest) const {
    return sum == 0 || most == largest ? sum : sum * exp_as(base(most) - base(largest), T());
  }
};

template <class T> struct ClassLoss {
  typedef T C;
  typedef Exponentials<T> A;
  enum { inputs = 1, blocks = 2 };
  tlk_Classes k;
  const T *in;
  T *loss, *weights;
  double *norm;
  cuda_Word word;
  tlk_FaultSource source;

  __device__ __forceinline__ A start() const { return A{0, -(T)INFINITY}; }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const T (&x)[1][K], int64_t, int64_t, int64_t) const {
    T most = acc.most, e[K];
#pragma unroll
    for (int i = 0; i < K; i++) most = x[0][i] > most ? x[0][i] : most;
    acc = A{acc.from(most), most};
#pragma unroll
    for (int i = 0; i < K; i++) e[i] = exp_as(x[0][i] - A::base(most), T());
    acc.sum += sum_of(e);
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const {
    T most = a.most > b.most ? a.most : b.most;
    return A{a.from(most) + b.from(most), most};
  }
  __device__ __forceinline__ void store(int64_t sample, const A &acc) const {
    finish(sample, (double)A::base(acc.most) + log(acc.sum));
  }
  __device__ __forceinline__ void finish(int64_t sample, double total) const {
    int64_t label = k.target[sample], o = sample / k.inner, i = sample - o * k.inner;
    double weight = 0, value = 0;
    if (k.logits) norm[sample] = total;
    if (label != k.ignore && label >= 1 && label <= k.classes) {
      weight = k.weight ? (double)static_cast<const T *>(k.weight)[label - 1] : 1;
      value = (double)in[(o * k.classes + label - 1) * k.inner + i];
      if (k.logits) value -= total;
      value *= -weight;
    } else if (label != k.ignore) {
      tlk_Fault fault = {};
      fault.kind = TLK_FAULT_LABEL;
      fault.source = source;
      fault.value = label;
      fault.size = k.classes;
      note_fault(word, fault);
    }
    loss[sample] = (T)value;
    weights[sample] = (T)weight;
  }
};

template <class T>
__global__ void __launch_bounds__(LINE_THREADS)
    finish_loss_kernel(int64_t samples, const __grid_constant__ ClassLoss<T> op) {
  for (int64_t i = thread_index(); i < samples; i += thread_count()) op.finish(i, 0);
}

template <class T> bool run_loss(const struct tlk_class_loss *call) {
  const tlk_Classes &k = call->classes;
  ClassLoss<T> op = {k,
                     (const T *)call->in.data,
                     (T *)call->loss.data,
                     (T *)call->weights,
                     (double *)call->norm,
                     cuda_word(call->cx),
                     call->source};
  int64_t samples = k.outer * k.inner;
  if (k.logits) return reduce_lines(call->cx, source_of(call->in), k.outer, k.classes, k.inner, op);
  return launch(call->cx, finish_loss_kernel<T>, dim3(blocks_for(call->cx, samples, LINE_THREADS)),
                LINE_THREADS, 0, samples, op);
}

/* ---- its gradient ---------------------------------------------------------------------------- */

template <class T> struct ClassLossBackward {
  enum { inputs = 1, twice = false };
  tlk_Classes k;
  const T *grad;
  const double *norm;
  T *out;

  /* Returns the gradient of a sample's loss, multiplied by the sample's weight. *label becomes 0 if
  ** the sample is ignored. */
  __device__ __forceinline__ T factor_of(int64_t sample, int64_t *label) const {
    *label = k.target[sample];
    if (*label == k.ignore) *label = 0;
    if (*label < 1 || *label > k.classes) return 0;
    T weight = k.weight ? static_cast<const T *>(k.weight)[*label - 1] : 1;
    return (T)((double)weight * (double)grad[sample]);
  }
  template <class W> __device__ __forceinline__ void run(W &w, int64_t sample) const {
    int64_t label = 0;
    double total = w.valid ? norm[sample] : 0;
    T factor = w.valid ? factor_of(sample, &label) : 0, high = (T)total, low = (T)(total - high);
    w.read([&](auto &x, int64_t at) {
      int64_t i = at;
      for (T &e : x[0]) {
        e = exp_as(e - high - low, T()) * factor - (i == label - 1 ? factor : 0);
        i++;
      }
      w.put(at, x[0]);
    });
  }
  /* Stores the gradient of a sample's log-probabilities, which is 0 except at the label. */
  __device__ __forceinline__ void put_label(int64_t sample) const {
    int64_t label, o = sample / k.inner, i = sample - o * k.inner;
    T factor = factor_of(sample, &label);
    if (label >= 1 && label <= k.classes)
      out[(o * k.classes + label - 1) * k.inner + i] = 0 - factor;
  }
};

template <class T>
__global__ void __launch_bounds__(LINE_THREADS)
    put_labels_kernel(int64_t samples, const __grid_constant__ ClassLossBackward<T> a) {
  for (int64_t i = thread_index(); i < samples; i += thread_count()) a.put_label(i);
}

template <class T> bool run_backward(const struct tlk_class_loss_backward *call) {
  const tlk_Classes &k = call->classes;
  ClassLossBackward<T> a = {k, (const T *)call->grad_loss.data, (const double *)call->norm,
                            (T *)call->grad_in.data};
  int64_t samples = k.outer * k.inner;
  if (samples == 0 || k.classes == 0) return true;
  Walk<1> g = {
      {(const char *)call->in}, (char *)call->grad_in.data, k.outer, k.classes, k.inner, 0, 0};
  if (k.logits) return k.inner == 1 ? run_rows<T>(call->cx, g, a) : run_columns<T>(call->cx, g, a);
  if (!cuda_enter(call->cx->device.index)) return false;
  CUDA_TRY(cudaMemsetAsync(a.out, 0, (size_t)(samples * k.classes) * sizeof(T),
                           call->cx->stream->handle));
  return launch(call->cx, put_labels_kernel<T>, dim3(blocks_for(call->cx, samples, LINE_THREADS)),
                LINE_THREADS, 0, samples, a);
}

} // namespace

bool tlk_class_loss(const struct tlk_class_loss *call) {
  return call->in.dtype == TL_F64 ? run_loss<double>(call) : run_loss<float>(call);
}

bool tlk_class_loss_backward(const struct tlk_class_loss_backward *call) {
  return call->grad_in.dtype == TL_F64 ? run_backward<double>(call) : run_backward<float>(call);
}
