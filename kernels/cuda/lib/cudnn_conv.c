/*
** cudnn_conv.c - convolutions by cuDNN. Convolutions of float32 use TF32 only if the user allows it
** (torch.backends.cudnn.allow_tf32).
*/
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"
#include "kernels/cuda/lib/lib.h"

typedef enum Which { FORWARD, INPUT, WEIGHT } Which;

typedef struct Key {
  int64_t which;
  tlk_Conv conv;
  int64_t alignment, tf32, deterministic, benchmark;
} Key;

/* A convolution and its arrays, indexed by Which: in, weight and out. */
typedef struct Call {
  const tlk_Context *cx;
  const tlk_Conv *conv;
  Which which;
  void *arrays[3];
} Call;

static const int64_t ids[] = {1, 2, 3};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Returns the padding at the end of dimension d that the call's number of windows requires. If some
** elements at the end are in no window, this is 0. */
static int64_t end_padding(const tlk_Windows *w, int d) {
  int64_t reach = (w->out[d] - 1) * w->stride[d] + w->dilation[d] * (w->kernel[d] - 1) + 1;
  int64_t missing = reach - w->in[d] - w->padding[d];
  return missing > 0 ? missing : 0;
}

static cudnnBackendDescriptor_t describe(cuda_DnnGraph *g, const tlk_Conv *c, int first, int rank) {
  const tlk_Windows *w = &c->windows;
  cudnnDataType_t compute = c->dtype == TL_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  int64_t end[3], spatial = rank;
  for (int d = 0; d < 3; d++) end[d] = end_padding(w, d);
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  cuda_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &spatial);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, rank, w->padding + first);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, rank, end + first);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, rank, w->stride + first);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, rank, w->dilation + first);
  cuda_dnn_finish(g, d);
  return d;
}

/* cuDNN's names for each operation and for its tensors, indexed by Which. */
static const struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t in, weight, out, conv, alpha, beta;
} names[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static void set_number(cuda_DnnGraph *g, cudnnBackendDescriptor_t d,
                       cudnnBackendAttributeName_t name, tl_DType dtype, double value) {
  float single = (float)value;
  if (dtype == TL_F64)
    cuda_dnn_set(g, d, name, CUDNN_TYPE_DOUBLE, 1, &value);
  else
    cuda_dnn_set(g, d, name, CUDNN_TYPE_FLOAT, 1, &single);
}

/* Adds a tensor (count, channels, sizes...). The first of the three sizes is left out if dimension
** 0 is trivial (cuda_dnn_first). */
static cudnnBackendDescriptor_t array(cuda_DnnGraph *g, const Key *key, int id, int64_t count,
                                      int64_t channels, const int64_t *sizes) {
  int first = cuda_dnn_first(&key->conv.windows), rank = 3 - first;
  int64_t all[5] = {count, channels};
  memcpy(all + 2, sizes + first, (size_t)rank * sizeof *sizes);
  cudnnDataType_t type = cuda_dnn_type(key->conv.dtype);
  if (!key->conv.channels_last) return cuda_dnn_tensor(g, id, type, 2 + rank, all, key->alignment);
  int64_t strides[5] = {0, 1}, step = channels;
  for (int d = 1 + rank; d > 1; d--) strides[d] = step, step *= all[d];
  strides[0] = step;
  return cuda_dnn_strided(g, id, type, 2 + rank, all, strides, key->alignment, CUDNN_REAL);
}

static cudnnBackendDescriptor_t conv_graph(cuda_DnnGraph *g, const void *at) {
  const Key *key = at;
  const tlk_Conv *c = &key->conv;
  const tlk_Windows *w = &c->windows;
  const struct Names *n = &names[key->which];
  int first = cuda_dnn_first(w);
  cudnnBackendDescriptor_t in = array(g, key, 1, c->batch, c->channels_in, w->in);
  cudnnBackendDescriptor_t weight =
      array(g, key, 2, c->channels_out, c->channels_in / c->groups, w->kernel);
  cudnnBackendDescriptor_t out = array(g, key, 3, c->batch, c->channels_out, w->out);
  cudnnBackendDescriptor_t conv = describe(g, c, first, 3 - first);
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, n->operation);
  cuda_dnn_set_descriptor(g, d, n->in, in);
  cuda_dnn_set_descriptor(g, d, n->weight, weight);
  cuda_dnn_set_descriptor(g, d, n->out, out);
  cuda_dnn_set_descriptor(g, d, n->conv, conv);
  set_number(g, d, n->alpha, c->dtype, 1);
  set_number(g, d, n->beta, c->dtype, 0);
  cuda_dnn_finish(g, d);
  return cuda_dnn_of(g, 1, &d);
}

#define BIT(note) (1u << CUDNN_NUMERICAL_NOTE_##note)
/* cuDNN's numerical notes of Winograd algorithms, which lose precision: some bits with tiles of 4 x
** 4, and more bits with larger tiles. */
#define WINOGRADS \
  (BIT(WINOGRAD) | BIT(WINOGRAD_TILE_4x4) | BIT(WINOGRAD_TILE_6x6) | BIT(WINOGRAD_TILE_13x13))

/* Returns the numerical notes that the engines to use must not have. cuDNN defines these flags. */
static uint32_t avoid(const Key *key) {
  uint32_t bits = key->deterministic ? BIT(NONDETERMINISTIC) : 0;
  if (key->conv.dtype == TL_F64) return bits | WINOGRADS;
  bool exact = key->conv.dtype == TL_F32 && !key->tf32;
  return bits | (exact ? BIT(TENSOR_CORE) | BIT(DOWN_CONVERT_INPUTS) | WINOGRADS : 0);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Makes the key of a call. Keys are compared as bytes, so the struct Key must have no padding. */
static Key key_of(const Call *call) {
  Key key = {.conv = *call->conv};
  uintptr_t addresses = 16;
  for (int i = 0; i < 3; i++) addresses |= (uintptr_t)call->arrays[i];
  key.alignment = (int64_t)1 << __builtin_ctzll(addresses);
  key.which = call->which;
  key.tf32 = cuda_host->setting(TL_CUDNN_TF32);
  key.deterministic =
      cuda_host->setting(TL_CUDNN_DETERMINISTIC) || cuda_host->setting(TL_DETERMINISTIC) != 0;
  key.benchmark = cuda_host->setting(TL_CUDNN_BENCHMARK);
  return key;
}

static bool convolve(const Call *call, bool *done) {
  Key key = key_of(call);
  return cuda_dnn_run(&(cuda_DnnWork){.cx = call->cx,
                                      .key = &key,
                                      .key_bytes = sizeof key,
                                      .graph = conv_graph,
                                      .avoid = avoid(&key),
                                      .benchmark = key.benchmark != 0,
                                      .n = 3,
                                      .ids = ids,
                                      .arrays = call->arrays},
                      done);
}

static void *writable(const void *p) { return (void *)(uintptr_t)p; }

bool cuda_lib_conv(const struct tlk_conv *c, bool *done) {
  Call call = {c->cx, &c->conv, FORWARD, {writable(c->in), writable(c->weight), c->out}};
  return convolve(&call, done);
}

bool cuda_lib_conv_input(const struct tlk_conv_input *c, bool *done) {
  Call call = {c->cx, &c->conv, INPUT, {c->grad_in, writable(c->weight), writable(c->grad_out)}};
  return convolve(&call, done);
}

bool cuda_lib_conv_weight(const struct tlk_conv_weight *c, bool *done) {
  Call call = {c->cx, &c->conv, WEIGHT, {writable(c->in), c->grad_weight, writable(c->grad_out)}};
  return convolve(&call, done);
}
