/*
** cudnn.c - implements, for the emulated build, cuDNN's functions for recurrent layers (one layer,
** forward only) by the formulas in cuDNN's documentation. Each call checks the documented
** requirements: descriptors are set and consistent, sizes agree, addresses are valid and aligned. A
** program that violates a requirement is ended. The computation (cudnn_math.c) is queued on the
** stream, and accesses memory only when the stream reaches it.
**
** In the weight space, the matrices of the input's gates are adjacent, but there are gaps between
** those of the state's gates. Code that assumes the same layout for both fails.
**
** TLUA_EMULATED_CUDNN=1 logs each call on stderr and, at exit, the number of remaining descriptors;
** with 0 there is no cuDNN. TLUA_EMULATED_CUDNN_FAIL names a file with a number n: the n-th call
** after n was written fails.
*/
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"
#include "spec/cuda/cudnn_rnn.h"
#include "spec/cuda/library.h"

struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int n, sizes[3], strides[3];
};
struct cudnnDropoutStruct {
  bool set;
};
struct cudnnRNNStruct {
  bool set;
  RnnShape shape;
};
struct cudnnRNNDataStruct {
  bool set;
  cudnnDataType_t type;
  int steps, batch, size;
};

/* ---- logging, refusing, and failing on request ----------------------------------------------- */

static atomic_int descriptors;

static bool is_set(const char *variable, const char *value) {
  const char *text = getenv(variable);
  return text && strcmp(text, value) == 0;
}

static bool tells(void) { return is_set("TLUA_EMULATED_CUDNN", "1"); }

__attribute__((destructor)) static void tell_what_is_left(void) {
  if (tells()) fprintf(stderr, "cuDNN: %d descriptors are left\n", atomic_load(&descriptors));
}

/* Returns whether this call must fail. TLUA_EMULATED_CUDNN_FAIL names a file with a number n;
** the n-th call after that file was written fails. */
static bool is_the_one(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int which, calls;
  const char *path = getenv("TLUA_EMULATED_CUDNN_FAIL");
  FILE *file = path ? fopen(path, "r") : NULL;
  int n = 0;
  if (file == NULL) return false;
  if (fscanf(file, "%d", &n) != 1) n = 0;
  fclose(file);
  pthread_mutex_lock(&lock);
  if (n != which) which = n, calls = 0;
  bool yes = ++calls == n;
  pthread_mutex_unlock(&lock);
  return yes;
}

/* Logs a call, and returns whether the call must fail. */
static bool fails(const char *call) {
  bool fail = is_the_one();
  if (tells()) fprintf(stderr, "%s%s\n", call, fail ? " fails" : "");
  return fail;
}
#define MAY_FAIL \
  if (fails(__func__)) return CUDNN_STATUS_NOT_SUPPORTED

static void demand(bool ok, const char *call, const char *what) {
  if (ok) return;
  fprintf(stderr, "emulated %s: expected %s\n", call, what);
  abort();
}
#define DEMAND(condition, what) demand(condition, __func__, what)

/* ---- descriptors ----------------------------------------------------------------------------- */

#define DESCRIPTOR(Name)                                                      \
  cudnnStatus_t cudnnCreate##Name##Descriptor(cudnn##Name##Descriptor_t *d) { \
    MAY_FAIL;                                                                 \
    *d = calloc(1, sizeof **d);                                               \
    atomic_fetch_add(&descriptors, 1);                                        \
    return CUDNN_STATUS_SUCCESS;                                              \
  }                                                                           \
  cudnnStatus_t cudnnDestroy##Name##Descriptor(cudnn##Name##Descriptor_t d) { \
    DEMAND(d, "a descriptor");                                                \
    free(d);                                                                  \
    atomic_fetch_sub(&descriptors, 1);                                        \
    return CUDNN_STATUS_SUCCESS;                                              \
  }
DESCRIPTOR(Tensor)
DESCRIPTOR(Dropout)
DESCRIPTOR(RNN)
DESCRIPTOR(RNNData)

static bool is_type(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n,
                                         const int sizes[], const int strides[]) {
  MAY_FAIL;
  DEMAND(d && is_type(type) && n == 3, "three dimensions of a type that it knows");
  for (int i = 0; i < 3; i++) DEMAND(sizes[i] > 0 && strides[i] > 0, "positive numbers");
  d->type = type, d->n = n;
  memcpy(d->sizes, sizes, sizeof d->sizes);
  memcpy(d->strides, strides, sizeof d->strides);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t d, int room, cudnnDataType_t *type,
                                         int *n, int sizes[], int strides[]) {
  MAY_FAIL;
  DEMAND(d && room >= 3 && type && n && sizes && strides, "a descriptor and room for it");
  *type = d->type, *n = d->n;
  memcpy(sizes, d->sizes, sizeof d->sizes);
  memcpy(strides, d->strides, sizeof d->strides);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t d, cudnnHandle_t handle,
                                        float dropout, void *states, size_t bytes,
                                        unsigned long long seed) {
  MAY_FAIL;
  (void)seed;
  DEMAND(d && handle && dropout == 0 && !states && bytes == 0, "no dropout");
  d->set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t d, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t how,
                                       cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, int32_t input, int32_t hidden,
                                       int32_t projected, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  MAY_FAIL;
  DEMAND(d && dropout && dropout->set, "descriptors");
  DEMAND(algo == CUDNN_RNN_ALGO_STANDARD && direction == CUDNN_UNIDIRECTIONAL && layers == 1 &&
             how == CUDNN_LINEAR_INPUT && flags == CUDNN_RNN_PADDED_IO_DISABLED,
         "one layer that goes forward over packed sequences");
  DEMAND(bias == CUDNN_RNN_NO_BIAS || bias == CUDNN_RNN_DOUBLE_BIAS, "no bias or two");
  DEMAND(is_type(type) && precision == CUDNN_DATA_FLOAT, "a type, computed in float");
  DEMAND(type == CUDNN_DATA_FLOAT ? math == CUDNN_DEFAULT_MATH || math == CUDNN_FMA_MATH
                                  : math == CUDNN_TENSOR_OP_MATH,
         "mathematics that suit the type");
  DEMAND(input > 0 && hidden > 0 && projected > 0 && projected <= hidden, "positive sizes");
  DEMAND(mode == CUDNN_LSTM || projected == hidden, "a projection of LSTM alone");
  int gates = mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1;
  d->shape = (RnnShape){.mode = mode,
                        .type = type,
                        .gates = gates,
                        .tf32 = type == CUDNN_DATA_FLOAT && math == CUDNN_DEFAULT_MATH,
                        .biases = bias == CUDNN_RNN_DOUBLE_BIAS,
                        .input = input,
                        .hidden = hidden,
                        .output = projected};
  d->set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch, int size,
                                        const int lengths[], void *fill) {
  MAY_FAIL;
  (void)fill;
  DEMAND(d && is_type(type) && steps > 0 && batch > 0 && size > 0, "a type and positive sizes");
  DEMAND(layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, "the layout without padding");
  for (int i = 0; i < batch; i++) DEMAND(lengths[i] == steps, "sequences of one length");
  *d = (struct cudnnRNNDataStruct){true, type, steps, batch, size};
  return CUDNN_STATUS_SUCCESS;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t element(const RnnShape *s) { return s->type == CUDNN_DATA_FLOAT ? 4 : 2; }

size_t rnn_params(const RnnShape *s, int id, size_t *matrix, size_t *bias) {
  const int last = s->output < s->hidden ? 9 : 2 * s->gates;
  size_t at = 0;
  for (int part = 0; part < 2; part++) /* the matrices come first, then the biases */
    for (int i = 0; i < last; i++) {
      bool state = i >= s->gates, projection = i == 8;
      int rows = projection ? s->output : s->hidden;
      int columns = projection ? s->hidden : state ? s->output : s->input;
      if (part == 1 && (projection || !s->biases)) continue;
      if (i == id) *(part ? bias : matrix) = at;
      at += element(s) * (size_t)rows * (size_t)(part ? 1 : columns);
      if (state) at = (at + 63) / 64 * 64 + 64;
    }
  return at;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         size_t *bytes) {
  MAY_FAIL;
  DEMAND(handle && rnn && rnn->set && bytes, "a handle and a descriptor");
  *bytes = rnn_params(&rnn->shape, -1, NULL, NULL);
  return CUDNN_STATUS_SUCCESS;
}

static bool is_aligned(const void *p, size_t bytes) { return p && (uintptr_t)p % bytes == 0; }

/* Describes an array of shape (1, rows, columns). If `there` is false, describes a missing
** array. */
static void tell_shape(cudnnTensorDescriptor_t d, const RnnShape *s, bool there, int rows,
                       int columns) {
  *d = (struct cudnnTensorStruct){s->type, 3, {1, rows, columns}, {rows * columns, columns, 1}};
  if (!there) *d = (struct cudnnTensorStruct){.type = s->type};
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer,
                                      size_t bytes, const void *space, int32_t id,
                                      cudnnTensorDescriptor_t matrix_is, void **matrix,
                                      cudnnTensorDescriptor_t bias_is, void **bias) {
  MAY_FAIL;
  DEMAND(handle && rnn && rnn->set && layer == 0, "a handle and a descriptor of one layer");
  const RnnShape *s = &rnn->shape;
  bool projection = id == 8, projects = s->output < s->hidden;
  DEMAND(id >= 0 && (id < 2 * s->gates || (projection && projects)), "a linear layer");
  DEMAND(is_aligned(space, 16) && bytes == rnn_params(s, -1, NULL, NULL), "a weight space");
  DEMAND(matrix_is && matrix && bias_is && bias, "room for what is told");
  size_t at = 0, bias_at = 0;
  rnn_params(s, id, &at, &bias_at);
  bool has_bias = s->biases && !projection;
  tell_shape(matrix_is, s, true, projection ? s->output : s->hidden,
             projection       ? s->hidden
             : id >= s->gates ? s->output
                              : s->input);
  tell_shape(bias_is, s, has_bias, s->hidden, 1);
  *matrix = (char *)(uintptr_t)space + at;
  *bias = has_bias ? (char *)(uintptr_t)space + bias_at : NULL;
  return CUDNN_STATUS_SUCCESS;
}

static size_t reserve_bytes(const RnnShape *s, cudnnRNNDataDescriptor_t x) {
  return sizeof(double) * (1 + (size_t)x->steps * (size_t)x->batch * rnn_record(s)) + 5;
}
static size_t work_bytes(cudnnRNNDataDescriptor_t x) { return 100 + (size_t)x->batch; }

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t *work, size_t *reserve) {
  MAY_FAIL;
  DEMAND(handle && rnn && rnn->set && x && x->set && work, "a handle and descriptors");
  DEMAND(x->size == rnn->shape.input && x->type == rnn->shape.type, "the layer's input");
  DEMAND(mode == CUDNN_FWD_MODE_INFERENCE || reserve, "room for the reserve's size");
  *work = work_bytes(x);
  if (reserve) *reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(&rnn->shape, x) : 0;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- the passes ------------------------------------------------------------------------------ */

/* The arguments that all three passes share. */
typedef struct RnnCall {
  const char *call;
  cudnnHandle_t handle;
  cudnnRNNDescriptor_t rnn;
  const int32_t *device_lengths;
  cudnnRNNDataDescriptor_t x, y;
  /* h and c are the states; the pass that computes weight gradients has no c */
  cudnnTensorDescriptor_t h, c;
  size_t weight_bytes, work_bytes, reserve_bytes;
  const void *weights, *work, *reserve;
  bool trains, states_of_cells;
} RnnCall;

static bool is_state(cudnnTensorDescriptor_t d, const RnnCall *t, int size) {
  int batch = t->x->batch;
  return d && d->n == 3 && d->type == t->rnn->shape.type && d->sizes[0] == 1 &&
         d->sizes[1] == batch && d->sizes[2] == size && d->strides[0] == batch * size &&
         d->strides[1] == size && d->strides[2] == 1;
}

static bool is_data(cudnnRNNDataDescriptor_t d, const RnnCall *t, int size) {
  return d && d->set && d->type == t->rnn->shape.type && d->size == size &&
         d->steps == t->x->steps && d->batch == t->x->batch;
}

static RnnJob check(const RnnCall *t) {
#define WANT(condition, what) demand(condition, t->call, what)
  WANT(t->handle && t->rnn && t->rnn->set && t->x, "a handle and descriptors");
  const RnnShape *s = &t->rnn->shape;
  WANT(t->device_lengths == NULL, "no lengths on the device (since 8.9.1)");
  WANT(is_data(t->x, t, s->input) && is_data(t->y, t, s->output), "data of the layer's sizes");
  WANT(is_state(t->h, t, s->output), "a state of (1, batch, output)");
  WANT(!t->states_of_cells || (s->mode == CUDNN_LSTM ? is_state(t->c, t, s->hidden) : !t->c),
       "of LSTM alone cells of (1, batch, hidden)");
  WANT(t->weight_bytes == rnn_params(s, -1, NULL, NULL) && is_aligned(t->weights, 16),
       "a weight space of the size that was told");
  WANT(t->work_bytes >= work_bytes(t->x) && is_aligned(t->work, 16),
       "a work space of the size that was told");
  WANT(t->trains ? t->reserve_bytes >= reserve_bytes(s, t->x) && is_aligned(t->reserve, 16)
                 : t->reserve_bytes == 0 && !t->reserve,
       "a reserve of the size that was told where there is training");
#undef WANT
  return (RnnJob){.shape = *s,
                  .steps = t->x->steps,
                  .batch = t->x->batch,
                  .weights = (void *)(uintptr_t)t->weights,
                  .work = (void *)(uintptr_t)t->work,
                  .work_bytes = work_bytes(t->x),
                  .reserve = (void *)(uintptr_t)t->reserve};
}

static cudnnStatus_t put(const RnnCall *t, const RnnJob *job, void (*run)(void *job)) {
  cudaError_t error = tlk_emulated_put(t->handle->stream, run, job, sizeof *job);
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                              cudnnForwardMode_t mode, const int32_t device_lengths[],
                              cudnnRNNDataDescriptor_t x_is, const void *x,
                              cudnnRNNDataDescriptor_t y_is, void *y, cudnnTensorDescriptor_t h_is,
                              const void *hx, void *hy, cudnnTensorDescriptor_t c_is,
                              const void *cx, void *cy, size_t weight_bytes, const void *weights,
                              size_t work_size, void *work, size_t reserve_size, void *reserve) {
  MAY_FAIL;
  RnnCall t = {__func__,     handle,  rnn,  device_lengths, x_is,
               y_is,         h_is,    c_is, weight_bytes,   work_size,
               reserve_size, weights, work, reserve,        mode == CUDNN_FWD_MODE_TRAINING,
               true};
  RnnJob job = check(&t);
  DEMAND(x && y, "input and output");
  DEMAND(rnn->shape.mode == CUDNN_LSTM || (!cx && !cy), "cells of LSTM alone");
  job.x = x, job.y_out = y, job.hx = hx, job.hy = hy, job.cx = cx, job.cy = cy;
  return put(&t, &job, rnn_forward);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                      const int32_t device_lengths[], cudnnRNNDataDescriptor_t y_is,
                                      const void *y, const void *dy, cudnnRNNDataDescriptor_t x_is,
                                      void *dx, cudnnTensorDescriptor_t h_is, const void *hx,
                                      const void *dhy, void *dhx, cudnnTensorDescriptor_t c_is,
                                      const void *cx, const void *dcy, void *dcx,
                                      size_t weight_bytes, const void *weights, size_t work_size,
                                      void *work, size_t reserve_size, void *reserve) {
  MAY_FAIL;
  RnnCall t = {__func__,     handle,    rnn,          device_lengths, x_is, y_is,    h_is, c_is,
               weight_bytes, work_size, reserve_size, weights,        work, reserve, true, true};
  RnnJob job = check(&t);
  DEMAND(y && dy && dx, "the output, and the gradients of it and of the input");
  DEMAND(rnn->shape.mode == CUDNN_LSTM || (!cx && !dcy && !dcx), "cells of LSTM alone");
  job.y = y, job.dy = dy, job.dx = dx, job.hx = hx, job.dhy = dhy, job.dhx = dhx;
  job.cx = cx, job.dcy = dcy, job.dcx = dcx;
  return put(&t, &job, rnn_backward_data);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         cudnnWgradMode_t mode, const int32_t device_lengths[],
                                         cudnnRNNDataDescriptor_t x_is, const void *x,
                                         cudnnTensorDescriptor_t h_is, const void *hx,
                                         cudnnRNNDataDescriptor_t y_is, const void *y,
                                         size_t weight_bytes, void *dweights, size_t work_size,
                                         void *work, size_t reserve_size, void *reserve) {
  MAY_FAIL;
  RnnCall t = {__func__,     handle,    rnn,          device_lengths, x_is, y_is,    h_is, NULL,
               weight_bytes, work_size, reserve_size, dweights,       work, reserve, true, false};
  RnnJob job = check(&t);
  DEMAND(mode == CUDNN_WGRAD_MODE_ADD, "gradients that are added, the only mode there is");
  DEMAND(x && y, "input and output");
  job.x = x, job.y = y, job.hx = hx;
  return put(&t, &job, rnn_backward_weights);
}

/* ---- the library ----------------------------------------------------------------------------- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  MAY_FAIL;
  *handle = calloc(1, sizeof **handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  MAY_FAIL;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "another status";
}

/* Replaces the function of the same name in kernels/cuda/lib/cudnn.c, which would load the real
** library. */

const cuda_Cudnn *cuda_cudnn(void) {
  static const cuda_Cudnn library = {
#define X(name) .name = name,
      X(cudnnCreate) X(cudnnSetStream) X(cudnnGetErrorString) CUDNN_RNN_CALLS(X)
#undef X
  };
  return is_set("TLUA_EMULATED_CUDNN", "0") ? NULL : &library;
}

static struct Handle {
  pthread_mutex_t lock;
  cudnnHandle_t handle;
} handles[CUDA_MAX_DEVICES];

__attribute__((constructor)) static void make_locks(void) {
  for (int i = 0; i < CUDA_MAX_DEVICES; i++) pthread_mutex_init(&handles[i].lock, NULL);
}

cudnnHandle_t cuda_dnn_enter(int device) {
  struct Handle *h = &handles[device];
  if (cuda_cudnn() == NULL) return NULL;
  pthread_mutex_lock(&h->lock);
  if (h->handle == NULL && cudnnCreate(&h->handle) != CUDNN_STATUS_SUCCESS) h->handle = NULL;
  if (h->handle == NULL) pthread_mutex_unlock(&h->lock);
  return h->handle;
}

void cuda_dnn_leave(int device) { pthread_mutex_unlock(&handles[device].lock); }
