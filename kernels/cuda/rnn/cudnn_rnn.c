/*
** cudnn_rnn.c - recurrent layers by cuDNN.
**
** As in PyTorch, cuDNN is used whenever possible, because it fuses work that our kernels launch
** separately for each step. cuDNN requires that all sequences have the same length and that the
** dtype is float32 or a half type. If results must be deterministic, cuDNN is not used, because it
** does not promise determinism (see "cudnn_rnn_determinism" in PyTorch's documentation). cuDNN must
** not be initialised during a capture, so a capture uses cuDNN only if cuDNN has already run
** outside of captures.
**
** A call computes one layer in one direction. cuDNN only runs forward in time, so the sequences of
** a reversed layer are flipped before and after the call.
**
** Parameters are copied to the places in cuDNN's weight space that cuDNN reports; the gates have
** the same order there as in tlk_rnn_gates. Layers of float32 use TF32 only if the user allows it.
*/
#include "kernels/cuda/rnn/cudnn_rnn.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "kernels/cuda/lib/cudnn.h"

/* The parameters of a layer, or their gradients. An entry is NULL if the layer has no such
** parameter, or if its gradient is not wanted. */
enum { WEIGHT_IH, WEIGHT_HH, WEIGHT_HR, BIAS_IH, BIAS_HH, PARAMS };

/* The descriptors of a layer. After a call of cuDNN has failed, further calls are skipped. */
typedef struct Layer {
  const cuda_Cudnn *lib;
  const tlk_Rnn *r;
  int device;
  cudnnHandle_t handle;
  cudnnStatus_t status;
  const char *failed; /* name of the call that failed with `status` */
  cudnnDropoutDescriptor_t dropout;
  cudnnRNNDescriptor_t rnn;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t h, c, matrix, bias;
  size_t weights, work, reserve; /* bytes */
} Layer;

#define ASK(l, call, ...)                                            \
  do {                                                               \
    if (good(l)) note_status(l, (l)->lib->call(__VA_ARGS__), #call); \
  } while (0)

static bool good(const Layer *l) { return l->status == CUDNN_STATUS_SUCCESS; }
static void note_status(Layer *l, cudnnStatus_t status, const char *call) {
  if (!good(l)) return;
  l->status = status;
  l->failed = call;
}

/* For each device, whether cuDNN has run a layer outside of captures. */
static atomic_bool ready[CUDA_MAX_DEVICES];

/* ---- conditions ------------------------------------------------------------------------------ */

static bool covers(int device, const tlk_Rnn *r) {
  const int64_t sizes[] = {r->steps, r->batch, r->input, r->hidden, r->output};
  bool narrow = r->dtype == TL_F16 || r->dtype == TL_BF16;
  if (r->offsets || r->rows == 0 || !(narrow || r->dtype == TL_F32)) return false;
  for (int i = 0; i < 5; i++)
    if (sizes[i] < 1 || sizes[i] > INT_MAX) return false;
  if ((r->bias_ih == NULL) != (r->bias_hh == NULL)) return false;
  if (r->weight_hr ? r->output >= r->hidden : r->output != r->hidden) return false;
  if (!cuda_host->setting(TL_CUDNN_ENABLED) || cuda_host->setting(TL_CUDNN_DETERMINISTIC) ||
      cuda_host->setting(TL_DETERMINISTIC))
    return false;
  return atomic_load(&ready[device]) || !cuda_device_captures(device);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static cudnnDataType_t type_of(const tlk_Rnn *r) {
  return r->dtype == TL_F32   ? CUDNN_DATA_FLOAT
         : r->dtype == TL_F16 ? CUDNN_DATA_HALF
                              : CUDNN_DATA_BFLOAT16;
}

static cudnnMathType_t math_of(const tlk_Rnn *r) {
  if (r->dtype != TL_F32) return CUDNN_TENSOR_OP_MATH;
  return cuda_host->setting(TL_CUDNN_TF32) ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

static void describe_layer(Layer *l) {
  static const cudnnRNNMode_t modes[] = {[TLK_RNN_RELU] = CUDNN_RNN_RELU,
                                         [TLK_RNN_TANH] = CUDNN_RNN_TANH,
                                         [TLK_RNN_LSTM] = CUDNN_LSTM,
                                         [TLK_RNN_GRU] = CUDNN_GRU};
  const tlk_Rnn *r = l->r;
  ASK(l, cudnnCreateDropoutDescriptor, &l->dropout);
  ASK(l, cudnnSetDropoutDescriptor, l->dropout, l->handle, 0, NULL, 0, 0);
  ASK(l, cudnnCreateRNNDescriptor, &l->rnn);
  ASK(l, cudnnSetRNNDescriptor_v8, l->rnn, CUDNN_RNN_ALGO_STANDARD, modes[r->mode],
      r->bias_ih ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
      CUDNN_LINEAR_INPUT, type_of(r), CUDNN_DATA_FLOAT, math_of(r), (int32_t)r->input,
      (int32_t)r->hidden, (int32_t)r->output, 1, l->dropout, CUDNN_RNN_PADDED_IO_DISABLED);
}

/* Describes a sequence array (steps, batch, size), in which all sequences have the same length. */
static void describe_sequences(Layer *l, cudnnRNNDataDescriptor_t *to, int64_t size) {
  const tlk_Rnn *r = l->r;
  size_t bytes = (size_t)r->batch * sizeof(int);
  int *lengths = cuda_host->alloc(bytes);
  if (lengths == NULL) {
    note_status(l, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "malloc");
    return;
  }
  for (int64_t i = 0; i < r->batch; i++) lengths[i] = (int)r->steps;
  ASK(l, cudnnCreateRNNDataDescriptor, to);
  ASK(l, cudnnSetRNNDataDescriptor, *to, type_of(r), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
      (int)r->steps, (int)r->batch, (int)size, lengths, NULL);
  cuda_host->free(lengths, bytes);
}

/* Describes the states (1, batch, size) of one layer. */
static void describe_state(Layer *l, cudnnTensorDescriptor_t *to, int64_t size) {
  const int64_t batch = l->r->batch;
  if (batch * size > INT_MAX)
    note_status(l, CUDNN_STATUS_NOT_SUPPORTED, "cudnnSetTensorNdDescriptor");
  const int sizes[] = {1, (int)batch, (int)size}, strides[] = {(int)(batch * size), (int)size, 1};
  ASK(l, cudnnCreateTensorDescriptor, to);
  ASK(l, cudnnSetTensorNdDescriptor, *to, type_of(l->r), 3, sizes, strides);
}

/* Describes a layer to cuDNN. Returns false if there is no handle of cuDNN. If the result is true,
** good(l) tells whether cuDNN supports the layer, and the caller must call end(l) in either
** case. */
static bool begin(Layer *l, int device, const tlk_Rnn *r, bool training) {
  *l = (Layer){.lib = cuda_cudnn(), .r = r, .device = device, .status = CUDNN_STATUS_SUCCESS};
  l->handle = cuda_dnn_enter(device);
  if (l->handle == NULL) return false;
  describe_layer(l);
  describe_sequences(l, &l->x, r->input);
  describe_sequences(l, &l->y, r->output);
  describe_state(l, &l->h, r->output);
  if (r->mode == TLK_RNN_LSTM) describe_state(l, &l->c, r->hidden);
  ASK(l, cudnnCreateTensorDescriptor, &l->matrix);
  ASK(l, cudnnCreateTensorDescriptor, &l->bias);
  ASK(l, cudnnGetRNNWeightSpaceSize, l->handle, l->rnn, &l->weights);
  ASK(l, cudnnGetRNNTempSpaceSizes, l->handle, l->rnn,
      training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, l->x, &l->work,
      training ? &l->reserve : NULL);
  return true;
}

static void end(Layer *l) {
  cudnnTensorDescriptor_t tensors[] = {l->h, l->c, l->matrix, l->bias};
  for (int i = 0; i < 4; i++)
    if (tensors[i]) l->lib->cudnnDestroyTensorDescriptor(tensors[i]);
  if (l->x) l->lib->cudnnDestroyRNNDataDescriptor(l->x);
  if (l->y) l->lib->cudnnDestroyRNNDataDescriptor(l->y);
  if (l->rnn) l->lib->cudnnDestroyRNNDescriptor(l->rnn);
  if (l->dropout) l->lib->cudnnDestroyDropoutDescriptor(l->dropout);
  cuda_dnn_leave(l->device);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Divides one block of scratch memory into arrays, each at a multiple of 256 bytes. Arrays that are
** not needed are NULL. The caller divides the block twice: the first time `base` is NULL and only
** the bytes are counted; the second time the pointers are set. */
typedef struct Arena {
  char *base;
  int64_t bytes;
} Arena;

static void *take(Arena *a, bool needed, int64_t bytes) {
  int64_t at = a->bytes;
  if (!needed) return NULL;
  a->bytes += (bytes + 255) / 256 * 256;
  return a->base ? a->base + at : NULL;
}

static bool copy(const tlk_Context *cx, void *to, const void *from, size_t bytes) {
  CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cx->stream->handle));
  return true;
}

static bool clear(const tlk_Context *cx, void *to, size_t bytes) {
  CUDA_TRY(cudaMemsetAsync(to, 0, bytes, cx->stream->handle));
  return true;
}

static bool flip(const tlk_Context *cx, const tlk_Rnn *r, void *to, const void *from,
                 int64_t size) {
  return cuda_rnn_flip(cx, to, from, r->steps, r->batch * size, r->dtype == TL_F32);
}

static int64_t element(const tlk_Rnn *r) { return r->dtype == TL_F32 ? 4 : 2; }

/* ---- parameters ------------------------------------------------------------------------------ */

/* A pending copy. Copies of adjacent ranges are merged to one. */
typedef struct Copies {
  const tlk_Context *cx;
  char *to;
  const char *from;
  size_t bytes;
} Copies;

static bool flush(Copies *c) {
  bool ok = c->bytes == 0 || copy(c->cx, c->to, c->from, c->bytes);
  c->bytes = 0;
  return ok;
}

static bool add_copy(Copies *c, void *to, const void *from, size_t bytes) {
  bool goes_on = c->bytes > 0 && c->to + c->bytes == to && c->from + c->bytes == from;
  if (!goes_on && !flush(c)) return false;
  if (!goes_on) c->to = to, c->from = from;
  c->bytes += bytes;
  return true;
}

/* Records a failure unless the descriptor describes a row-major array (1, rows, columns). */
static void check_shape(Layer *l, cudnnTensorDescriptor_t d, const void *data, int64_t rows,
                        int64_t columns) {
  cudnnDataType_t type;
  int n = 0, sizes[3] = {0}, strides[3] = {0};
  ASK(l, cudnnGetTensorNdDescriptor, d, 3, &type, &n, sizes, strides);
  if (good(l) && !(data && n == 3 && sizes[0] == 1 && sizes[1] == rows && sizes[2] == columns &&
                   strides[1] == columns && strides[2] == 1))
    note_status(l, CUDNN_STATUS_NOT_SUPPORTED, "cudnnGetRNNWeightParams");
}

/* Copies parameters to the weight space or, with `back`, from it. cuDNN numbers its matrices
** ("linear layers"): first those that the gates multiply by the input, then those for the state; 8
** is the projection. */
static bool copy_params(Layer *l, const tlk_Context *cx, void *space, void *const *params,
                        bool back) {
  const tlk_Rnn *r = l->r;
  const int gates = (int)tlk_rnn_gates(r->mode), last = r->weight_hr ? 9 : 2 * gates;
  Copies copies[2] = {{.cx = cx}, {.cx = cx}}; /* pending copies: of matrices, and of biases */
  for (int i = 0; i < last; i++) {
    bool state = i >= gates, projection = i == 8;
    int64_t gate = projection ? 0 : i % gates, rows = projection ? r->output : r->hidden;
    int64_t columns = projection ? r->hidden : state ? r->output : r->input;
    void *theirs[2] = {NULL, NULL};
    ASK(l, cudnnGetRNNWeightParams, l->handle, l->rnn, 0, l->weights, space, i, l->matrix,
        &theirs[0], l->bias, &theirs[1]);
    for (int k = 0; k < (r->bias_ih && !projection ? 2 : 1); k++) {
      char *ours = params[k ? BIAS_IH + state : projection ? WEIGHT_HR : WEIGHT_IH + state];
      int64_t n = k ? 1 : columns;
      check_shape(l, k ? l->bias : l->matrix, theirs[k], rows, n);
      if (!good(l)) return true;
      if (ours == NULL) continue;
      ours += gate * rows * n * element(r);
      if (!add_copy(&copies[k], back ? ours : theirs[k], back ? theirs[k] : ours,
                    (size_t)(rows * n * element(r))))
        return false;
    }
  }
  return flush(&copies[0]) && flush(&copies[1]);
}

static bool load_params(Layer *l, const tlk_Context *cx, void *space) {
  const tlk_Rnn *r = l->r;
  const void *params[PARAMS] = {r->weight_ih, r->weight_hh, r->weight_hr, r->bias_ih, r->bias_hh};
  void *at[PARAMS];
  for (int i = 0; i < PARAMS; i++) at[i] = (void *)(uintptr_t)params[i];
  return copy_params(l, cx, space, at, false);
}

/* ---- forward --------------------------------------------------------------------------------- */

int64_t cuda_dnn_rnn_reserve(tl_Device device, const tlk_Rnn *r) {
  int64_t bytes = tlk_rnn_reserve(r);
  Layer l;
  if (!covers(device.index, r) || !cuda_enter(device.index) || !begin(&l, device.index, r, true))
    return bytes;
  if (good(&l)) bytes = ((int64_t)l.reserve > bytes ? (int64_t)l.reserve : bytes) | 1;
  end(&l);
  return bytes;
}

/* The arrays of the forward pass that are not arguments of the call. */
typedef struct Forward {
  void *weights, *work, *x, *y; /* x, y: the input and output sequences in reverse order */
} Forward;

static void place_forward(Forward *f, const Layer *l, Arena *a) {
  const tlk_Rnn *r = l->r;
  f->weights = take(a, true, (int64_t)l->weights);
  f->work = take(a, l->work > 0, (int64_t)l->work);
  f->x = take(a, r->reverse, r->rows * r->input * element(r));
  f->y = take(a, r->reverse, r->rows * r->output * element(r));
}

static bool run_forward(Layer *l, const struct tlk_rnn *c, const Forward *f) {
  const tlk_Rnn *r = l->r;
  const tlk_Context *cx = c->cx;
  void *y = r->reverse ? f->y : c->out;
  if (!load_params(l, cx, f->weights)) return false;
  if (r->reverse && !flip(cx, r, f->x, c->in, r->input)) return false;
  ASK(l, cudnnRNNForward, l->handle, l->rnn,
      c->reserve ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, NULL, l->x,
      r->reverse ? f->x : c->in, l->y, y, l->h, c->h0, c->hn, l->c, l->c ? c->c0 : NULL,
      l->c ? c->cn : NULL, l->weights, f->weights, l->work, f->work, l->reserve, c->reserve);
  return !good(l) || !r->reverse || flip(cx, r, c->out, y, r->output);
}

static bool forward(Layer *l, const struct tlk_rnn *c) {
  Forward f;
  Arena arena = {NULL, 0};
  ASK(l, cudnnSetStream, l->handle, c->cx->stream->handle);
  if (!good(l) || (c->reserve && *c->kept < (int64_t)l->reserve)) return true;
  place_forward(&f, l, &arena);
  int64_t bytes = arena.bytes;
  void *scratch = cuda_scratch(c->cx, bytes);
  if (scratch == NULL) return false;
  place_forward(&f, l, &(Arena){scratch, 0});
  bool ok = run_forward(l, c, &f);
  cuda_scratch_free(c->cx, scratch, bytes);
  return ok;
}

bool cuda_dnn_rnn(const struct tlk_rnn *c, bool *done) {
  int device = c->cx->device.index;
  Layer l;
  *done = false;
  if ((c->reserve && !cuda_dnn_rnn_kept(*c->kept)) || !covers(device, &c->rnn)) return true;
  if (!cuda_enter(device)) return false;
  if (!begin(&l, device, &c->rnn, c->reserve != NULL)) return true;
  bool ok = forward(&l, c);
  *done = ok && good(&l);
  end(&l);
  if (*done && !cuda_device_captures(device)) atomic_store(&ready[device], true);
  return ok;
}

/* ---- backward -------------------------------------------------------------------------------- */

typedef struct Backward {
  void *weights, *grads, *work, *reserve;
  void *x, *y, *grad_y, *grad_x;
  bool wants_params;
} Backward;

static void place_backward(Backward *b, const Layer *l, const struct tlk_rnn_backward *c,
                           Arena *a) {
  const tlk_Rnn *r = l->r;
  int64_t in = r->rows * r->input * element(r), out = r->rows * r->output * element(r);
  b->weights = take(a, true, (int64_t)l->weights);
  b->grads = take(a, b->wants_params, (int64_t)l->weights);
  b->work = take(a, l->work > 0, (int64_t)l->work);
  b->reserve = take(a, true, (int64_t)l->reserve);
  b->x = take(a, b->wants_params && r->reverse, in);
  b->y = take(a, r->reverse, out);
  b->grad_y = take(a, r->reverse || c->grad_out == NULL, out);
  b->grad_x = take(a, r->reverse || c->grad_in == NULL, in);
}

/* Prepares the inputs in the order in which cuDNN reads them. cuDNN gets a copy of the reserve,
** because it writes to the reserve, and a second backward pass may still need the original. */
static bool prepare(const struct tlk_rnn_backward *c, const Layer *l, const Backward *b) {
  const tlk_Rnn *r = l->r;
  const tlk_Context *cx = c->cx;
  size_t out = (size_t)(r->rows * r->output * element(r));
  if (!copy(cx, b->reserve, c->reserve, l->reserve)) return false;
  if (c->grad_out == NULL && !clear(cx, b->grad_y, out)) return false;
  if (!r->reverse) return true;
  return flip(cx, r, b->y, c->out, r->output) && (!b->x || flip(cx, r, b->x, c->in, r->input)) &&
         (!c->grad_out || flip(cx, r, b->grad_y, c->grad_out, r->output));
}

/* Computes the gradients of the parameters. This must happen after the gradients of the data are
** computed, because that pass leaves intermediate results in the reserve. */
static bool params_back(Layer *l, const struct tlk_rnn_backward *c, const Backward *b,
                        const void *y) {
  void *const grads[PARAMS] = {c->grad_weight_ih, c->grad_weight_hh, c->grad_weight_hr,
                               c->grad_bias_ih, c->grad_bias_hh};
  /* cuDNN adds to the gradients, so they are set to zero first */
  if (!clear(c->cx, b->grads, l->weights)) return false;
  ASK(l, cudnnRNNBackwardWeights_v8, l->handle, l->rnn, CUDNN_WGRAD_MODE_ADD, NULL, l->x,
      b->x ? b->x : c->in, l->h, c->h0, l->y, y, l->weights, b->grads, l->work, b->work, l->reserve,
      b->reserve);
  return copy_params(l, c->cx, b->grads, grads, true);
}

static bool run_backward(Layer *l, const struct tlk_rnn_backward *c, const Backward *b) {
  const tlk_Rnn *r = l->r;
  const void *y = b->y ? b->y : c->out;
  if (!load_params(l, c->cx, b->weights) || !prepare(c, l, b)) return false;
  ASK(l, cudnnRNNBackwardData_v8, l->handle, l->rnn, NULL, l->y, y,
      b->grad_y ? b->grad_y : c->grad_out, l->x, b->grad_x ? b->grad_x : c->grad_in, l->h, c->h0,
      c->grad_hn, c->grad_h0, l->c, l->c ? c->c0 : NULL, l->c ? c->grad_cn : NULL,
      l->c ? c->grad_c0 : NULL, l->weights, b->weights, l->work, b->work, l->reserve, b->reserve);
  if (!good(l)) return true;
  if (r->reverse && c->grad_in && !flip(c->cx, r, c->grad_in, b->grad_x, r->input)) return false;
  return !b->wants_params || params_back(l, c, b, y);
}

static bool backward(Layer *l, const struct tlk_rnn_backward *c) {
  Backward b = {.wants_params = c->grad_weight_ih || c->grad_weight_hh || c->grad_weight_hr ||
                                c->grad_bias_ih || c->grad_bias_hh};
  Arena arena = {NULL, 0};
  ASK(l, cudnnSetStream, l->handle, c->cx->stream->handle);
  if (good(l) && c->kept < (int64_t)l->reserve)
    note_status(l, CUDNN_STATUS_BAD_PARAM, "cudnnGetRNNTempSpaceSizes");
  if (!good(l)) return true;
  place_backward(&b, l, c, &arena);
  int64_t bytes = arena.bytes;
  void *scratch = cuda_scratch(c->cx, bytes);
  if (scratch == NULL) return false;
  place_backward(&b, l, c, &(Arena){scratch, 0});
  bool ok = run_backward(l, c, &b);
  cuda_scratch_free(c->cx, scratch, bytes);
  return ok;
}

bool cuda_dnn_rnn_backward(const struct tlk_rnn_backward *c) {
  int device = c->cx->device.index;
  Layer l;
  if (!cuda_enter(device)) return false;
  if (!begin(&l, device, &c->rnn, true))
    return cuda_fail(TL_EDEVICE, "cudnnCreate: no handle for the gradient of a layer that cuDNN "
                                 "computed");
  bool ok = backward(&l, c), done = good(&l);
  const char *why = done ? "" : l.lib->cudnnGetErrorString(l.status);
  end(&l);
  return ok && (done || cuda_fail(TL_EDEVICE, "%s: %s", l.failed, why));
}
