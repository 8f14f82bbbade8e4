/*
** cudnn_norm.c - training batch norm by cuDNN, forward and backward, for channels-last data. cuDNN
** compiles a kernel for the given sizes, which keeps the elements in registers or shared memory
** while it sums them.
**
** Our own kernels, not cuDNN, compute these cases:
**  - channels-first data: cuDNN's engines copy the tensor to channels-last and back;
**  - evaluation: cuDNN 9.19 has no engine for it, and our kernel needs one pass;
**  - updating running statistics: cuDNN needs separate memory for the new statistics, while our
**    kernels update them in place;
**  - layers without weight and bias, float64, tensors of 2^31 elements and more, and channels or
**    addresses that are no multiples of 16 bytes: there are no engines;
**  - deterministic results: the notes on cuDNN's engines do not promise them;
**  - more than MOST_SIZES different sizes in one program: compiling each takes half a second.
**
** cuDNN 9.19's kernels combine means and deviations by Welford's method, as our kernels do. cuDNN's
** kernels synchronise through a counter in the workspace, which must be 0 when a kernel begins.
*/
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"
#include "kernels/cuda/lib/lib.h"

#define MOST_SIZES 64

/* Ids of the tensors. */
enum {
  NORM_IN = 1,
  NORM_OUT,
  NORM_MEAN,
  NORM_RSTD,
  NORM_WEIGHT,
  NORM_BIAS,
  NORM_EPS,
  NORM_GRAD_OUT,
  NORM_GRAD_IN,
  NORM_GRAD_WEIGHT,
  NORM_GRAD_BIAS
};

typedef struct NormKey {
  int64_t kind, backward, dtype, rows, channels;
} NormKey;

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Adds a tensor (1, C, 1, rows), in which the last dimension has all elements of a channel. */
static cudnnBackendDescriptor_t elements(cuda_DnnGraph *g, const NormKey *k, int64_t id) {
  cudnnDataType_t type = cuda_dnn_type((tl_DType)k->dtype);
  const int64_t sizes[] = {1, k->channels, 1, k->rows};
  const int64_t strides[] = {k->rows * k->channels, 1, k->rows * k->channels, k->channels};
  return cuda_dnn_strided(g, id, type, 4, sizes, strides, 16, CUDNN_REAL);
}

static cudnnBackendDescriptor_t per_channel(cuda_DnnGraph *g, const NormKey *k, int64_t id) {
  const int64_t sizes[] = {1, k->channels, 1, 1};
  const int64_t strides[] = {k->channels, 1, k->channels, k->channels};
  return cuda_dnn_strided(g, id, CUDNN_DATA_FLOAT, 4, sizes, strides, 16, CUDNN_REAL);
}

static cudnnBackendDescriptor_t norm_forward(cuda_DnnGraph *g, const NormKey *k) {
  static const int64_t one[] = {1, 1, 1, 1};
  cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
  const struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptor_t tensor;
  } parts[] = {
      {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, elements(g, k, NORM_IN)},
      {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, per_channel(g, k, NORM_MEAN)},
      {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, per_channel(g, k, NORM_RSTD)},
      {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, per_channel(g, k, NORM_WEIGHT)},
      {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, per_channel(g, k, NORM_BIAS)},
      {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
       cuda_dnn_strided(g, NORM_EPS, CUDNN_DATA_FLOAT, 4, one, one, 16, CUDNN_BY_VALUE)},
      {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, elements(g, k, NORM_OUT)},
  };
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
  cuda_dnn_set(g, d, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    cuda_dnn_set_descriptor(g, d, parts[i].name, parts[i].tensor);
  return d;
}

static cudnnBackendDescriptor_t norm_backward(cuda_DnnGraph *g, const NormKey *k) {
  cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  const struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptor_t tensor;
  } parts[] = {
      {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, elements(g, k, NORM_IN)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, per_channel(g, k, NORM_MEAN)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, per_channel(g, k, NORM_RSTD)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, elements(g, k, NORM_GRAD_OUT)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, per_channel(g, k, NORM_WEIGHT)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, per_channel(g, k, NORM_GRAD_WEIGHT)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, per_channel(g, k, NORM_GRAD_BIAS)},
      {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, elements(g, k, NORM_GRAD_IN)},
  };
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    cuda_dnn_set_descriptor(g, d, parts[i].name, parts[i].tensor);
  return d;
}

static cudnnBackendDescriptor_t norm_graph(cuda_DnnGraph *g, const void *at) {
  const NormKey *key = at;
  cudnnBackendDescriptor_t d = key->backward ? norm_backward(g, key) : norm_forward(g, key);
  cuda_dnn_finish(g, d);
  return cuda_dnn_of(g, 1, &d);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* A call: the key of its plan, and the arrays with the ids of their tensors in the plan. */
typedef struct NormCall {
  NormKey key;
  int n;
  int64_t ids[8];
  void *arrays[8];
  float eps;
} NormCall;

static void give_array(NormCall *c, int64_t id, const void *data) {
  c->ids[c->n] = id;
  c->arrays[c->n++] = (void *)(uintptr_t)data;
}

/* Returns whether cuDNN has an engine for this call. The conditions are those of the list at the
** top of this file. */
static bool is_for_engines(const NormCall *c, int64_t inner) {
  const NormKey *k = &c->key;
  int64_t vector = k->dtype == TL_F32 ? 4 : 8;
  bool fits = inner == 1 && k->channels > 0 && k->channels % vector == 0 && k->rows > 1 &&
              k->rows <= INT32_MAX / k->channels &&
              (k->dtype == TL_F32 || k->dtype == TL_F16 || k->dtype == TL_BF16);
  for (int i = 0; fits && i < c->n; i++)
    fits = c->ids[i] == NORM_EPS || (c->arrays[i] && (uintptr_t)c->arrays[i] % 16 == 0);
  return fits;
}

static bool run_norm(const tlk_Context *cx, const NormCall *c, bool *done) {
  return cuda_dnn_run(&(cuda_DnnWork){.cx = cx,
                                      .key = &c->key,
                                      .key_bytes = sizeof c->key,
                                      .graph = norm_graph,
                                      .sizes = MOST_SIZES,
                                      .zeroed = true,
                                      .n = c->n,
                                      .ids = c->ids,
                                      .arrays = c->arrays},
                      done);
}

static NormCall forward_call(const struct tlk_batch_norm *b) {
  NormCall c = {.key = {CUDNN_NORMS, false, b->in.dtype, b->outer, b->channels}};
  c.eps = (float)b->eps;
  give_array(&c, NORM_IN, b->in.data);
  give_array(&c, NORM_OUT, b->out.data);
  give_array(&c, NORM_MEAN, b->mean);
  give_array(&c, NORM_RSTD, b->rstd);
  give_array(&c, NORM_WEIGHT, b->weight);
  give_array(&c, NORM_BIAS, b->bias);
  return c;
}

static NormCall backward_call(const struct tlk_batch_norm_backward *b) {
  NormCall c = {.key = {CUDNN_NORMS, true, b->in.dtype, b->outer, b->channels}};
  give_array(&c, NORM_IN, b->in.data);
  give_array(&c, NORM_MEAN, b->mean);
  give_array(&c, NORM_RSTD, b->rstd);
  give_array(&c, NORM_WEIGHT, b->weight);
  give_array(&c, NORM_GRAD_OUT, b->grad_out.data);
  give_array(&c, NORM_GRAD_IN, b->grad_in.data);
  give_array(&c, NORM_GRAD_WEIGHT, b->grad_weight);
  give_array(&c, NORM_GRAD_BIAS, b->grad_bias);
  return c;
}

bool cuda_lib_batch_norm(const struct tlk_batch_norm *call, bool *done) {
  NormCall c = forward_call(call);
  *done = false;
  if (!cuda_dnn_may_differ() || !is_for_engines(&c, call->inner)) return true;
  give_array(&c, NORM_EPS, &c.eps);
  return run_norm(call->cx, &c, done);
}

bool cuda_lib_batch_norm_backward(const struct tlk_batch_norm_backward *call, bool *done) {
  NormCall c = backward_call(call);
  *done = false;
  return !cuda_dnn_may_differ() || !is_for_engines(&c, call->inner) || run_norm(call->cx, &c, done);
}
