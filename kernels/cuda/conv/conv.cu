/*
** conv.cu - convolution and its gradients, for calls that cuDNN does not compute. Most convolutions
** are matrix products of each sample's windows (im2col) and the weight. In grouped convolutions
** these products would be small, so direct kernels compute them with one thread for each element.
** Channels-last tensors are copied to channels-first order for these kernels, and the results are
** copied back. The order in which a sum is added depends only on the sizes.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/lib/lib.h"

/* the im2col matrices of all samples in a chunk have at most this number of bytes; a chunk has as
** many samples as fit */
#define SCRATCH_MOST ((int64_t)256 << 20)
#define THREADS 256

static int64_t volume(const int64_t *sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/* The type in which sums of a stored type are accumulated. */
template <class S> struct Sum { typedef float type; };
template <> struct Sum<double> { typedef double type; };

/* ---- kernels of grouped convolutions --------------------------------------------------------- */

/* The arguments of the kernels: the sizes of one group, and the windows. */
struct Groups {
  tlk_Windows w;
  int64_t batch, groups, in, out; /* in, out: number of channels in one group */
  int64_t in_volume, out_volume, kernel_volume;
};

/* Converts a flat position to three coordinates. */
DEVICE void split(int64_t at, const int64_t *sizes, int64_t out[3]) {
  out[2] = at % sizes[2];
  out[1] = at / sizes[2] % sizes[1];
  out[0] = at / sizes[2] / sizes[1];
}

/* Returns the position in the plane of the element that `tap` of window `at` reads; -1 if it is
** padding. */
DEVICE int64_t source_of(const tlk_Windows &w, const int64_t at[3], int64_t tap) {
  int64_t t[3], position = 0;
  split(tap, w.kernel, t);
#pragma unroll
  for (int d = 0; d < 3; d++) {
    int64_t x = at[d] * w.stride[d] - w.padding[d] + t[d] * w.dilation[d];
    if (x < 0 || x >= w.in[d]) return -1;
    position = position * w.in[d] + x;
  }
  return position;
}

/* Returns the window whose element `tap` is at position `at` of the plane; -1 if there is none. */
DEVICE int64_t window_of(const tlk_Windows &w, const int64_t at[3], int64_t tap) {
  int64_t t[3], window = 0;
  split(tap, w.kernel, t);
#pragma unroll
  for (int d = 0; d < 3; d++) {
    int64_t x = at[d] + w.padding[d] - t[d] * w.dilation[d];
    if (x < 0 || x % w.stride[d] != 0 || x / w.stride[d] >= w.out[d]) return -1;
    window = window * w.out[d] + x / w.stride[d];
  }
  return window;
}

/* Computes the output of a grouped convolution, an array (batch, groups * out, positions). Each
** thread computes one element. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(Groups g, S *out, const S *in, const S *weight, const S *bias) {
  typedef typename Sum<S>::type A;
  int64_t n = g.batch * g.groups * g.out * g.out_volume;
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    int64_t at[3], plane = i / g.out_volume, channel = plane % (g.groups * g.out);
    int64_t first = (plane / (g.groups * g.out) * g.groups + channel / g.out) * g.in;
    const S *w = weight + channel * g.in * g.kernel_volume;
    A sum = bias ? (A)widen(bias[channel]) : A(0);
    split(i % g.out_volume, g.w.out, at);
    for (int64_t tap = 0; tap < g.kernel_volume; tap++) {
      int64_t from = source_of(g.w, at, tap);
      for (int64_t c = 0; c < g.in && from >= 0; c++)
        sum +=
            (A)widen(in[(first + c) * g.in_volume + from]) * (A)widen(w[c * g.kernel_volume + tap]);
    }
    out[i] = narrow<S>(sum);
  }
}

/* Computes the gradient of the input, an array (batch, groups * in, positions). Each thread
** computes one element. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    input_kernel(Groups g, S *grad_in, const S *grad_out, const S *weight) {
  typedef typename Sum<S>::type A;
  int64_t n = g.batch * g.groups * g.in * g.in_volume;
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    int64_t at[3], plane = i / g.in_volume, channel = plane % (g.groups * g.in);
    int64_t group = channel / g.in, first = (plane / (g.groups * g.in) * g.groups + group) * g.out;
    A sum = 0;
    split(i % g.in_volume, g.w.in, at);
    for (int64_t tap = 0; tap < g.kernel_volume; tap++) {
      int64_t window = window_of(g.w, at, tap);
      for (int64_t c = 0; c < g.out && window >= 0; c++)
        sum +=
            (A)widen(grad_out[(first + c) * g.out_volume + window]) *
            (A)widen(weight[((group * g.out + c) * g.in + channel % g.in) * g.kernel_volume + tap]);
    }
    grad_in[i] = narrow<S>(sum);
  }
}

/* Computes the gradient of the weight, an array (groups * out, in, kernel elements). Each block
** computes one element. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    weight_kernel(Groups g, S *grad_weight, const S *in, const S *grad_out) {
  typedef typename Sum<S>::type A;
  __shared__ A shared[WARP];
  int64_t elements = g.groups * g.out * g.in * g.kernel_volume;
  for (int64_t i = blockIdx.x; i < elements; i += gridDim.x) {
    int64_t tap = i % g.kernel_volume, c = i / g.kernel_volume % g.in;
    int64_t channel = i / g.kernel_volume / g.in;
    A sum = 0;
    for (int64_t j = threadIdx.x; j < g.batch * g.out_volume; j += blockDim.x) {
      int64_t at[3], sample = j / g.out_volume;
      split(j % g.out_volume, g.w.out, at);
      int64_t from = source_of(g.w, at, tap);
      if (from < 0) continue;
      int64_t plane = (sample * g.groups + channel / g.out) * g.in + c;
      sum += (A)widen(in[plane * g.in_volume + from]) *
             (A)widen(
                 grad_out[(sample * g.groups * g.out + channel) * g.out_volume + j % g.out_volume]);
    }
    sum = block_reduce(
        sum, [](A a, A b) { return a + b; }, shared);
    if (threadIdx.x == 0) grad_weight[i] = narrow<S>(sum);
  }
}

/* Adds each channel's bias to out (rows, channels). A thread processes N channels of several rows
** and reads their bias once; `across` threads cover the channels of a row. */
template <int N, class S>
__global__ void __launch_bounds__(THREADS)
    bias_rows_kernel(S *out, const S *bias, int64_t rows, int64_t channels, int across) {
  typedef typename Sum<S>::type A;
  int64_t c = ((int64_t)blockIdx.x * across + threadIdx.x % across) * N, down = THREADS / across;
  if (c >= channels) return;
  A add[N];
#pragma unroll
  for (int e = 0; e < N; e++) add[e] = (A)widen(bias[c + e]);
  for (int64_t row = blockIdx.y * down + threadIdx.x / across; row < rows;
       row += gridDim.y * down) {
    Vector<S, N> *at = reinterpret_cast<Vector<S, N> *>(out + row * channels + c), x = *at;
#pragma unroll
    for (int e = 0; e < N; e++) x.at[e] = narrow<S>((A)widen(x.at[e]) + add[e]);
    *at = x;
  }
}

/* Adds each channel's bias to out (batch, channels, size). `across` threads cover a plane. */
template <int N, class S>
__global__ void __launch_bounds__(THREADS)
    bias_planes_kernel(S *out, const S *bias, int64_t batch, int64_t channels, int64_t size,
                       int across) {
  typedef typename Sum<S>::type A;
  int64_t i = ((int64_t)blockIdx.x * across + threadIdx.x % across) * N, down = THREADS / across;
  if (i >= size) return;
  for (int64_t c = blockIdx.y * down + threadIdx.x / across; c < channels; c += gridDim.y * down) {
    A add = (A)widen(bias[c]);
    for (int64_t sample = blockIdx.z; sample < batch; sample += gridDim.z) {
      S *plane = out + (sample * channels + c) * size;
      Vector<S, N> *at = reinterpret_cast<Vector<S, N> *>(plane + i), x = *at;
#pragma unroll
      for (int e = 0; e < N; e++) x.at[e] = narrow<S>((A)widen(x.at[e]) + add);
      *at = x;
    }
  }
}

/* ---- launchers ------------------------------------------------------------------------------- */

static Groups groups_of(const tlk_Conv &c) {
  return {c.windows,
          c.batch,
          c.groups,
          c.channels_in / c.groups,
          c.channels_out / c.groups,
          volume(c.windows.in),
          volume(c.windows.out),
          volume(c.windows.kernel)};
}

static bool forward_groups(const struct tlk_conv *call) {
  Groups g = groups_of(call->conv);
  unsigned grid = blocks_for(call->cx, g.batch * g.groups * g.out * g.out_volume, THREADS, 16);
  WITH_FLOATING(call->conv.dtype, S,
                return launch(call->cx, forward_kernel<S>, dim3(grid), THREADS, 0, g,
                              (S *)call->out, (const S *)call->in, (const S *)call->weight,
                              (const S *)call->bias))
  return true;
}

static bool input_groups(const struct tlk_conv_input *call) {
  Groups g = groups_of(call->conv);
  unsigned grid = blocks_for(call->cx, g.batch * g.groups * g.in * g.in_volume, THREADS, 16);
  WITH_FLOATING(call->conv.dtype, S,
                return launch(call->cx, input_kernel<S>, dim3(grid), THREADS, 0, g,
                              (S *)call->grad_in, (const S *)call->grad_out,
                              (const S *)call->weight))
  return true;
}

static bool weight_groups(const struct tlk_conv_weight *call) {
  Groups g = groups_of(call->conv);
  unsigned grid = blocks_for(call->cx, g.groups * g.out * g.in * g.kernel_volume, 1, 32);
  WITH_FLOATING(call->conv.dtype, S,
                return launch(call->cx, weight_kernel<S>, dim3(grid), THREADS, 0, g,
                              (S *)call->grad_weight, (const S *)call->in,
                              (const S *)call->grad_out))
  return true;
}

static unsigned limited(int64_t n) { return (unsigned)(n < 65535 ? n : 65535); }

/* Returns the number of threads that cover n elements if each thread processes `each` elements. The
** result is a power of 2, and at most the size of a block. */
static int threads_across(int64_t n, int64_t each) {
  int across = 1;
  while (across < THREADS && across * each < n) across *= 2;
  return across;
}

template <int N, class S>
static bool add_to_rows(const struct tlk_conv *call, int64_t rows, int64_t channels) {
  int across = threads_across(channels, N);
  dim3 grid((unsigned)divide_up(channels, across * N), limited(divide_up(rows, THREADS / across)));
  return launch(call->cx, bias_rows_kernel<N, S>, grid, THREADS, 0, (S *)call->out,
                (const S *)call->bias, rows, channels, across);
}

template <int N, class S> static bool add_to_planes(const struct tlk_conv *call, int64_t size) {
  int64_t batch = call->conv.batch, channels = call->conv.channels_out;
  int across = threads_across(size, N);
  dim3 grid((unsigned)divide_up(size, across * N), limited(divide_up(channels, THREADS / across)),
            limited(batch));
  return launch(call->cx, bias_planes_kernel<N, S>, grid, THREADS, 0, (S *)call->out,
                (const S *)call->bias, batch, channels, size, across);
}

template <class S> static bool add_bias_to(const struct tlk_conv *call) {
  const tlk_Conv &c = call->conv;
  enum { N = 16 / sizeof(S) };
  int64_t size = volume(c.windows.out), channels = c.channels_out;
  bool vectors = aligned(call->out, 16) && (c.channels_last ? channels : size) % N == 0;
  if (c.channels_last)
    return vectors ? add_to_rows<N, S>(call, c.batch * size, channels)
                   : add_to_rows<1, S>(call, c.batch * size, channels);
  return vectors ? add_to_planes<N, S>(call, size) : add_to_planes<1, S>(call, size);
}

static bool add_bias(const struct tlk_conv *call) {
  if (call->bias == NULL) return true;
  WITH_FLOATING(call->conv.dtype, S, return add_bias_to<S>(call))
  return true;
}

/* ---- im2col and matrix products -------------------------------------------------------------- */

/* The sizes of the im2col matrix (terms, windows) of a convolution without groups. */
struct Columns {
  int64_t terms, windows, chunk; /* `chunk` is the number of samples that are processed together */
  Columns(const tlk_Conv &c)
      : terms(c.channels_in * volume(c.windows.kernel)), windows(volume(c.windows.out)) {
    int64_t bytes = terms * windows * dtype_bytes(c.dtype);
    chunk = bytes > 0 ? SCRATCH_MOST / bytes : 1;
    chunk = chunk < 1 ? 1 : chunk < c.batch ? chunk : c.batch;
  }
};

static char *at(const void *array, int64_t elements, int dtype) {
  return (char *)(uintptr_t)array + elements * dtype_bytes(dtype);
}

static bool unfold(const tlk_Context *cx, const tlk_Conv &c, void *cols, const void *in,
                   int64_t samples) {
  struct tlk_im2col call = {};
  call.cx = cx;
  call.windows = c.windows;
  call.planes = samples * c.channels_in;
  call.cols = {cols, c.dtype};
  call.in = {(void *)(uintptr_t)in, c.dtype};
  return tlk_im2col(&call);
}

static bool fold(const tlk_Context *cx, const tlk_Conv &c, void *in, void *cols, int64_t samples) {
  struct tlk_col2im call = {};
  call.cx = cx;
  call.windows = c.windows;
  call.planes = samples * c.channels_in;
  call.in = {in, c.dtype};
  call.cols = {cols, c.dtype};
  return tlk_col2im(&call);
}

static tl_Scalar number(double value) {
  tl_Scalar s = {};
  s.kind = TL_FLOATING;
  s.f = value;
  return s;
}

/* Describes a product of contiguous row-major matrices. The matrices of a batch lie one after
** another. */
static struct tlk_gemm product(const tlk_Context *cx, int dtype, int64_t m, int64_t n, int64_t k) {
  struct tlk_gemm call = {};
  tlk_Gemm &g = call.gemm;
  call.cx = cx;
  g.dtype = (tl_DType)dtype;
  g.m = m, g.n = n, g.k = k;
  g.lda = k, g.ldb = n, g.ldc = n;
  g.alpha = number(1);
  g.beta = number(0);
  g.batch = 1;
  return call;
}

static bool forward_product(const struct tlk_conv *call) {
  const tlk_Conv &c = call->conv;
  Columns size(c);
  Scratch cols(call->cx, size.chunk * size.terms * size.windows * dtype_bytes(c.dtype));
  if (cols.data == NULL) return false;
  for (int64_t i = 0; i < c.batch; i += size.chunk) {
    int64_t samples = c.batch - i < size.chunk ? c.batch - i : size.chunk;
    struct tlk_gemm p = product(call->cx, c.dtype, c.channels_out, size.windows, size.terms);
    p.gemm.a = call->weight;
    p.gemm.b = cols.data;
    p.gemm.c = at(call->out, i * c.channels_out * size.windows, c.dtype);
    p.gemm.batch = samples;
    p.gemm.stride_b = size.terms * size.windows;
    p.gemm.stride_c = c.channels_out * size.windows;
    const void *in = at(call->in, i * c.channels_in * volume(c.windows.in), c.dtype);
    if (!unfold(call->cx, c, cols.data, in, samples) || !tlk_gemm(&p)) return false;
  }
  return add_bias(call);
}

static bool input_product(const struct tlk_conv_input *call) {
  const tlk_Conv &c = call->conv;
  Columns size(c);
  Scratch cols(call->cx, size.chunk * size.terms * size.windows * dtype_bytes(c.dtype));
  if (cols.data == NULL) return false;
  for (int64_t i = 0; i < c.batch; i += size.chunk) {
    int64_t samples = c.batch - i < size.chunk ? c.batch - i : size.chunk;
    struct tlk_gemm p = product(call->cx, c.dtype, size.terms, size.windows, c.channels_out);
    p.gemm.trans_a = true;
    p.gemm.lda = size.terms;
    p.gemm.a = call->weight;
    p.gemm.b = at(call->grad_out, i * c.channels_out * size.windows, c.dtype);
    p.gemm.c = cols.data;
    p.gemm.batch = samples;
    p.gemm.stride_b = c.channels_out * size.windows;
    p.gemm.stride_c = size.terms * size.windows;
    void *in = at(call->grad_in, i * c.channels_in * volume(c.windows.in), c.dtype);
    if (!tlk_gemm(&p) || !fold(call->cx, c, in, cols.data, samples)) return false;
  }
  return true;
}

/* Computes the gradient of the weight. The matrix products of all samples are summed in the dtype
** of the data. */
static bool weight_product(const struct tlk_conv_weight *call) {
  const tlk_Conv &c = call->conv;
  Columns size(c);
  Scratch cols(call->cx, size.chunk * size.terms * size.windows * dtype_bytes(c.dtype));
  if (cols.data == NULL) return false;
  for (int64_t i = 0; i < c.batch; i++) {
    int64_t samples = c.batch - i < size.chunk ? c.batch - i : size.chunk, k = i % size.chunk;
    const void *in = at(call->in, i * c.channels_in * volume(c.windows.in), c.dtype);
    if (k == 0 && !unfold(call->cx, c, cols.data, in, samples)) return false;
    struct tlk_gemm p = product(call->cx, c.dtype, c.channels_out, size.terms, size.windows);
    p.gemm.trans_b = true;
    p.gemm.ldb = size.windows;
    p.gemm.a = at(call->grad_out, i * c.channels_out * size.windows, c.dtype);
    p.gemm.b = at(cols.data, k * size.terms * size.windows, c.dtype);
    p.gemm.c = call->grad_weight;
    p.gemm.beta = number(i == 0 ? 0 : 1);
    if (!tlk_gemm(&p)) return false;
  }
  return true;
}

/* Converts n elements from one dtype to another. */
static bool convert(const tlk_Context *cx, void *to, int to_dtype, const void *from, int from_dtype,
                    int64_t n) {
  struct tlk_copy call = {};
  call.cx = cx;
  call.it.nargs = 2;
  call.it.ndim = 1;
  call.it.numel = call.it.sizes[0] = n;
  call.it.args[0].data = (char *)to;
  call.it.args[0].dtype = (tl_DType)to_dtype;
  call.it.args[0].strides[0] = dtype_bytes(to_dtype);
  call.it.args[1].data = (char *)(uintptr_t)from;
  call.it.args[1].dtype = (tl_DType)from_dtype;
  call.it.args[1].strides[0] = dtype_bytes(from_dtype);
  return tlk_copy(&call);
}

/* Computes the gradient of the weight for half types. Products are summed in float32, so that the
** sum over samples is rounded only once. */
static bool weight_in_float(const struct tlk_conv_weight *call) {
  const tlk_Conv &c = call->conv;
  int64_t in = c.batch * c.channels_in * volume(c.windows.in);
  int64_t out = c.batch * c.channels_out * volume(c.windows.out);
  int64_t weight = c.channels_out * c.channels_in * volume(c.windows.kernel);
  Scratch scratch(call->cx, (in + out + weight) * (int64_t)sizeof(float));
  float *wide_in = (float *)scratch.data, *wide_out = wide_in + in, *wide = wide_out + out;
  struct tlk_conv_weight in_float = *call;
  if (wide_in == NULL) return false;
  in_float.conv.dtype = TL_F32;
  in_float.grad_weight = wide;
  in_float.in = wide_in;
  in_float.grad_out = wide_out;
  return convert(call->cx, wide_in, TL_F32, call->in, c.dtype, in) &&
         convert(call->cx, wide_out, TL_F32, call->grad_out, c.dtype, out) &&
         weight_product(&in_float) &&
         convert(call->cx, call->grad_weight, c.dtype, wide, TL_F32, weight);
}

/* ---- channels last --------------------------------------------------------------------------- */

/* Copies an array (count, channels, elements) from channels-last to channels-first order or, if
** `into_rows` is false, back. */
static bool relay(const tlk_Context *cx, int dtype, int64_t count, int64_t channels,
                  int64_t elements, void *to, const void *from, bool into_rows) {
  const int64_t size = dtype_bytes(dtype), whole = channels * elements * size;
  const int64_t rows[] = {size, elements * size, whole}, last[] = {channels * size, size, whole};
  const int64_t sizes[] = {elements, channels, count};
  struct tlk_copy call = {};
  call.cx = cx;
  call.it.nargs = 2;
  call.it.ndim = 3;
  call.it.numel = count * channels * elements;
  call.it.args[0].data = (char *)to;
  call.it.args[1].data = (char *)(uintptr_t)from;
  for (int i = 0; i < 2; i++) call.it.args[i].dtype = (tl_DType)dtype;
  for (int d = 0; d < 3; d++) {
    call.it.sizes[d] = sizes[d];
    call.it.args[0].strides[d] = into_rows ? rows[d] : last[d];
    call.it.args[1].strides[d] = into_rows ? last[d] : rows[d];
  }
  return tlk_copy(&call);
}

/* Channels-first copies of a convolution's input, weight and output. */
struct InRows {
  tlk_Conv conv;
  const tlk_Context *cx;
  int64_t in_count, weight_count, out_count;
  Scratch scratch;
  char *in, *weight, *out;
  InRows(const tlk_Context *context, const tlk_Conv &c)
      : conv(c), cx(context), in_count(c.batch * c.channels_in * volume(c.windows.in)),
        weight_count(c.channels_out * (c.channels_in / c.groups) * volume(c.windows.kernel)),
        out_count(c.batch * c.channels_out * volume(c.windows.out)),
        scratch(context, (in_count + weight_count + out_count) * dtype_bytes(c.dtype)) {
    conv.channels_last = false;
    in = (char *)scratch.data;
    weight = at(in, in_count, c.dtype);
    out = at(weight, weight_count, c.dtype);
  }
  bool move_in(void *to, const void *from, bool into_rows) const {
    return relay(cx, conv.dtype, conv.batch, conv.channels_in, volume(conv.windows.in), to, from,
                 into_rows);
  }
  bool move_weight(void *to, const void *from, bool into_rows) const {
    return relay(cx, conv.dtype, conv.channels_out, conv.channels_in / conv.groups,
                 volume(conv.windows.kernel), to, from, into_rows);
  }
  bool move_out(void *to, const void *from, bool into_rows) const {
    return relay(cx, conv.dtype, conv.batch, conv.channels_out, volume(conv.windows.out), to, from,
                 into_rows);
  }
};

static bool forward_in_rows(const struct tlk_conv *call) {
  InRows r(call->cx, call->conv);
  struct tlk_conv rows = *call;
  rows.conv = r.conv;
  rows.in = r.in, rows.weight = r.weight, rows.out = r.out;
  return r.in && r.move_in(r.in, call->in, true) && r.move_weight(r.weight, call->weight, true) &&
         tlk_conv(&rows) && r.move_out(call->out, r.out, false);
}

static bool input_in_rows(const struct tlk_conv_input *call) {
  InRows r(call->cx, call->conv);
  struct tlk_conv_input rows = *call;
  rows.conv = r.conv;
  rows.grad_in = r.in, rows.weight = r.weight, rows.grad_out = r.out;
  return r.in && r.move_out(r.out, call->grad_out, true) &&
         r.move_weight(r.weight, call->weight, true) && tlk_conv_input(&rows) &&
         r.move_in(call->grad_in, r.in, false);
}

static bool weight_in_rows(const struct tlk_conv_weight *call) {
  InRows r(call->cx, call->conv);
  struct tlk_conv_weight rows = *call;
  rows.conv = r.conv;
  rows.in = r.in, rows.grad_weight = r.weight, rows.grad_out = r.out;
  return r.in && r.move_in(r.in, call->in, true) && r.move_out(r.out, call->grad_out, true) &&
         tlk_conv_weight(&rows) && r.move_weight(call->grad_weight, r.weight, false);
}

/* ---- entries of the kernel table ------------------------------------------------------------- */

static bool fill_zero(const tlk_Context *cx, void *out, int64_t bytes) {
  return cuda_ok(cudaMemsetAsync(out, 0, (size_t)bytes, cx->stream->handle), "cudaMemsetAsync");
}

bool tlk_conv(const struct tlk_conv *call) {
  const tlk_Conv &c = call->conv;
  int64_t n = c.batch * c.channels_out * volume(c.windows.out);
  bool done = false;
  if (n == 0) return true;
  if (c.channels_in > 0 && !cuda_lib_conv(call, &done)) return false;
  if (cuda_counted(CUDA_CONV_CUDNN, done)) return add_bias(call);
  if (c.channels_last) return forward_in_rows(call);
  return c.groups == 1 && c.channels_in > 0 ? forward_product(call) : forward_groups(call);
}

bool tlk_conv_input(const struct tlk_conv_input *call) {
  const tlk_Conv &c = call->conv;
  int64_t n = c.batch * c.channels_in * volume(c.windows.in);
  bool done = false;
  if (n == 0) return true;
  if (c.channels_out == 0 || volume(c.windows.out) == 0)
    return cuda_enter(call->cx->device.index) &&
           fill_zero(call->cx, call->grad_in, n * dtype_bytes(c.dtype));
  if (!cuda_lib_conv_input(call, &done)) return false;
  if (cuda_counted(CUDA_CONV_CUDNN, done)) return true;
  if (c.channels_last) return input_in_rows(call);
  return c.groups == 1 ? input_product(call) : input_groups(call);
}

bool tlk_conv_weight(const struct tlk_conv_weight *call) {
  const tlk_Conv &c = call->conv;
  int64_t n = c.channels_out * (c.channels_in / c.groups) * volume(c.windows.kernel);
  bool done = false;
  if (n == 0) return true;
  if (c.batch == 0 || volume(c.windows.out) == 0)
    return cuda_enter(call->cx->device.index) &&
           fill_zero(call->cx, call->grad_weight, n * dtype_bytes(c.dtype));
  if (!cuda_lib_conv_weight(call, &done)) return false;
  if (cuda_counted(CUDA_CONV_CUDNN, done)) return true;
  if (c.channels_last) return weight_in_rows(call);
  if (c.groups > 1) return weight_groups(call);
  return c.dtype == TL_F16 || c.dtype == TL_BF16 ? weight_in_float(call) : weight_product(call);
}
