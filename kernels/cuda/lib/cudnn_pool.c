/*
** cudnn_pool.c - average pooling by cuDNN, forward and backward.
**
** cuDNN is not used for these; our own kernels compute them: * maxima: 9.19's kernels start at
** the lowest finite number and return it for a window of -inf, and
**   their positions are relative to windows, whereas max_pool's gradient needs positions in planes;
** * adaptive windows and other divisors, which its descriptor cannot express; * more windows
** than fit into input and padding (ceil_mode): its engines use the same padding at
**   both ends;
** * float64, and tensors of 2^31 elements and more: there are no engines; * deterministic
** results: the notes on its engines do not promise them. Data is channels-first; the caller has
** converted channels_last tensors.
*/
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"
#include "kernels/cuda/lib/lib.h"

enum { POOL_IN = 1, POOL_OUT };

typedef struct PoolKey {
  int64_t kind, backward, dtype, batch, channels, include_pad, alignment;
  tlk_Windows windows;
} PoolKey;
_Static_assert(sizeof(PoolKey) <= CUDNN_KEY, "");

/* ---- graphs ---------------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t planes(cuda_DnnGraph *g, const PoolKey *k, int64_t id,
                                       const int64_t *sizes) {
  int first = cuda_dnn_first(&k->windows), rank = 3 - first;
  int64_t all[5] = {k->batch, k->channels};
  memcpy(all + 2, sizes + first, (size_t)rank * sizeof *sizes);
  return cuda_dnn_tensor(g, id, cuda_dnn_type((tl_DType)k->dtype), 2 + rank, all, k->alignment);
}

static cudnnBackendDescriptor_t describe_pool(cuda_DnnGraph *g, const PoolKey *k) {
  const tlk_Windows *w = &k->windows;
  int first = cuda_dnn_first(w), rank = 3 - first;
  cudnnResampleMode_t mode = k->include_pad ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                            : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
  cudnnPaddingMode_t padding = CUDNN_ZERO_PAD;
  int64_t spatial = rank;
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode);
  cuda_dnn_set(g, d, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  cuda_dnn_set(g, d, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
  cuda_dnn_set(g, d, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, &padding);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 1, &spatial);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, rank, w->kernel + first);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_RESAMPLE_STRIDES, rank, w->stride + first);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, rank, w->padding + first);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, rank, w->padding + first);
  cuda_dnn_finish(g, d);
  return d;
}

static cudnnBackendDescriptor_t pool_graph(cuda_DnnGraph *g, const void *at) {
  static const struct {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t in, out, how;
  } names[] = {
      {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC,
       CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC},
      {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
       CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC},
  };
  const PoolKey *k = at;
  cudnnBackendDescriptor_t in = planes(g, k, POOL_IN, k->windows.in);
  cudnnBackendDescriptor_t out = planes(g, k, POOL_OUT, k->windows.out);
  cudnnBackendDescriptor_t how = describe_pool(g, k);
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, names[k->backward].operation);
  cuda_dnn_set_descriptor(g, d, names[k->backward].in, in);
  cuda_dnn_set_descriptor(g, d, names[k->backward].out, out);
  cuda_dnn_set_descriptor(g, d, names[k->backward].how, how);
  cuda_dnn_finish(g, d);
  return cuda_dnn_of(g, 1, &d);
}

/* ---- the calls -------------------------------------------------------------------------------------- */

static int64_t product_of(const int64_t *v) { return v[0] * v[1] * v[2]; }

/* Returns whether cuDNN has an engine for this call that counts the elements of windows as our
** kernels do. */
static bool is_average(const tlk_Pool *p, tl_DType dtype) {
  const tlk_Windows *w = &p->windows;
  bool all =
      (dtype == TL_F32 || dtype == TL_F16 || dtype == TL_BF16) && !p->adaptive && p->divisor == 0;
  for (int d = 0; d < 3 && all; d++)
    all = (w->in[d] + 2 * w->padding[d] - w->kernel[d]) / w->stride[d] + 1 == w->out[d];
  return all && product_of(w->in) < INT32_MAX / p->planes &&
         product_of(w->out) < INT32_MAX / p->planes;
}

/* Keys are compared as bytes. The planes are split into two dimensions, because a grid has at
** most 65535 blocks along one. */
static bool key_of_pool(const tlk_Pool *p, tl_DType dtype, bool backward, const void *in,
                        const void *out, PoolKey *k) {
  uintptr_t addresses = 16 | (uintptr_t)in | (uintptr_t)out;
  memset(k, 0, sizeof *k);
  k->kind = CUDNN_POOLS;
  k->backward = backward;
  k->dtype = dtype;
  /* the largest power of 2 that divides the number of planes */
  k->channels = p->planes & -p->planes;
  if (k->channels > 1024) k->channels = 1024;
  k->batch = p->planes / k->channels;
  k->include_pad = p->include_pad;
  k->alignment = (int64_t)1 << __builtin_ctzll(addresses);
  k->windows = p->windows;
  return k->batch <= UINT16_MAX && is_average(p, dtype);
}

static bool run_pool(const tlk_Context *cx, const PoolKey *key, const void *in, const void *out,
                     bool *done) {
  static const int64_t numbers[] = {POOL_IN, POOL_OUT};
  void *const arrays[] = {(void *)(uintptr_t)in, (void *)(uintptr_t)out};
  return cuda_dnn_run(&(cuda_DnnWork){.cx = cx,
                                      .key = key,
                                      .key_bytes = sizeof *key,
                                      .graph = pool_graph,
                                      .n = 2,
                                      .ids = numbers,
                                      .arrays = arrays},
                      done);
}

bool cuda_lib_avg_pool(const struct tlk_avg_pool *c, bool *done) {
  PoolKey key;
  *done = false;
  return !cuda_dnn_may_differ() ||
         !key_of_pool(&c->pool, c->in.dtype, false, c->in.data, c->out.data, &key) ||
         run_pool(c->cx, &key, c->in.data, c->out.data, done);
}

bool cuda_lib_avg_pool_backward(const struct tlk_avg_pool_backward *c, bool *done) {
  PoolKey key;
  *done = false;
  return !cuda_dnn_may_differ() ||
         !key_of_pool(&c->pool, c->grad_in.dtype, true, c->grad_in.data, c->grad_out.data, &key) ||
         run_pool(c->cx, &key, c->grad_in.data, c->grad_out.data, done);
}
