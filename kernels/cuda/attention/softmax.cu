/*
** softmax.cu - softmax, log-softmax, and their gradients. The maximum is subtracted first, so
** nothing overflows. The sum of each vector is accumulated in a double.
*/
#include "kernels/cuda/walk.cuh"

namespace {

struct Softmax {
  enum { inputs = 1, twice = true };
  bool log_too;

  template <class W> __device__ __forceinline__ void run(W &w, int64_t) const {
    typedef typename W::C C;
    typedef typename W::Stored S;
    C most = -(C)INFINITY;
    w.read([&](auto &x, int64_t) {
      for (C e : x[0]) most = e > most ? e : most;
    });
    most = w.join(most, Larger());
    double sum = 0;
    w.again([&](auto &x, int64_t) {
      for (C &e : x[0]) e = exp_as(e - most, S());
      sum += sum_of(x[0]);
    });
    sum = w.join(sum, Add());
    C shift = (C)(log_too ? log(sum) : 1 / sum);
    w.again([&](auto &x, int64_t at) {
      for (C &e : x[0]) e = log_too ? (e - most) - shift : exp_as(e - most, S()) * shift;
      w.put(at, x[0]);
    });
  }
};

struct SoftmaxBackward {
  /* The inputs are the gradient of the result, and the result. `twice` is true, because both are
  ** read a second time (walk.cuh). */
  enum { inputs = 2, twice = true };
  bool log_too;

  template <class W> __device__ __forceinline__ void run(W &w, int64_t) const {
    typedef typename W::C C;
    typedef typename W::Stored S;
    double total = 0;
    w.read([&](auto &x, int64_t) {
      int k = 0;
      if (!log_too)
        for (C y : x[1]) x[0][k++] *= y;
      total += sum_of(x[0]);
    });
    C sum = (C)w.join(total, Add());
    w.again([&](auto &x, int64_t at) {
      int k = 0;
      for (C y : x[1]) {
        x[0][k] = log_too ? x[0][k] - exp_as(y, S()) * sum : (x[0][k] - sum) * y;
        k++;
      }
      w.put(at, x[0]);
    });
  }
};

} // namespace

bool tlk_softmax(const struct tlk_softmax *call) {
  if (call->n == 0) return true;
  Walk<1> g = {{(const char *)call->in.data},
               (char *)call->out.data,
               call->outer,
               call->n,
               call->inner,
               0,
               0};
  return walk_lines(call->cx, call->in.dtype, g, Softmax{call->log});
}

bool tlk_softmax_backward(const struct tlk_softmax_backward *call) {
  if (call->n == 0) return true;
  Walk<2> g = {{(const char *)call->grad_out.data, (const char *)call->out.data},
               (char *)call->grad_in.data,
               call->outer,
               call->n,
               call->inner,
               0,
               0};
  return walk_lines(call->cx, call->out.dtype, g, SoftmaxBackward{call->log});
}
