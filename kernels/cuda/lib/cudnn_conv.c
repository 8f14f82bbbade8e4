/*
** cudnn_conv.c - convolutions by cuDNN. Plans are kept by all that they depend on, a table
** for each device; a convolution for which cuDNN has no plan is remembered, too.
**
** float32 is computed in TF32 only where users allow it (torch.backends.cudnn.allow_tf32).
** With torch.backends.cudnn.benchmark the first few plans are run on the data at hand and
** the fastest is kept.
*/
#include <pthread.h>
#include <string.h>

#include "kernels/cuda/lib/cudnn.h"
#include "kernels/cuda/lib/lib.h"

#define WORKSPACE ((int64_t)1 << 30) /* bytes that a plan may want at the most */
#define PLANS 1024
#define MOST_MEASURED 16

typedef enum Which { FORWARD, INPUT, WEIGHT } Which;

typedef struct Key {
  tlk_Conv conv;
  int64_t which, alignment, tf32, deterministic, benchmark;
} Key;

typedef struct Entry {
  bool used, none;
  Key key;
  cuda_Plan plan;
} Entry;

typedef struct Table {
  pthread_mutex_t lock;
  cudnnHandle_t handle;
  Entry entries[2 * PLANS];
  int filled;
} Table;

static Table tables[CUDA_MAX_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_locks(void) {
  for (int i = 0; i < CUDA_MAX_DEVICES; i++) pthread_mutex_init(&tables[i].lock, NULL);
}

/* What one convolution reads and writes: in, weight and out, by these numbers. */
typedef struct Call {
  const tlk_Context *cx;
  const tlk_Conv *conv;
  Which which;
  void *arrays[3];
} Call;

static const int64_t ids[] = {1, 2, 3};

/* ---- graphs ---------------------------------------------------------------------------------------- */

static cudnnDataType_t type_of(tl_DType dtype) {
  return dtype == TL_F64   ? CUDNN_DATA_DOUBLE
         : dtype == TL_F32 ? CUDNN_DATA_FLOAT
         : dtype == TL_F16 ? CUDNN_DATA_HALF
                           : CUDNN_DATA_BFLOAT16;
}

/* Padding at the end that makes as many windows as there are; may leave elements unread. */
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

/* The operation's names of what it works on, by Which. */
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

static bool is_flat(const tlk_Windows *w) {
  return w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->padding[0] == 0;
}

/* (count, channels, sizes...) without the first of three sizes where all have 1. */
static cudnnBackendDescriptor_t array(cuda_DnnGraph *g, const Key *key, int id, int64_t count,
                                      int64_t channels, const int64_t *sizes) {
  int first = is_flat(&key->conv.windows), rank = 3 - first;
  int64_t all[5] = {count, channels};
  memcpy(all + 2, sizes + first, (size_t)rank * sizeof *sizes);
  return cuda_dnn_tensor(g, id, type_of(key->conv.dtype), 2 + rank, all, key->alignment);
}

static cudnnBackendDescriptor_t graph_of(cuda_DnnGraph *g, const Key *key) {
  const tlk_Conv *c = &key->conv;
  const tlk_Windows *w = &c->windows;
  const struct Names *n = &names[key->which];
  int first = is_flat(w);
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
  return cuda_dnn_of(g, d);
}

/* ---- plans ------------------------------------------------------------------------------------------- */

#define BIT(note) (1u << CUDNN_NUMERICAL_NOTE_##note)

static uint32_t avoid(const Key *key) {
  uint32_t bits = key->deterministic ? BIT(NONDETERMINISTIC) : 0;
  bool exact = key->conv.dtype == TL_F32 && !key->tf32;
  return bits | (exact ? BIT(TENSOR_CORE) | BIT(DOWN_CONVERT_INPUTS) : 0);
}

static bool run(const Call *call, cudnnHandle_t handle, const cuda_Plan *plan) {
  void *workspace = plan->workspace > 0 ? cuda_scratch(call->cx, plan->workspace) : NULL;
  if (plan->workspace > 0 && workspace == NULL) return false;
  bool ok = cuda_plan_run(plan, handle, 3, ids, call->arrays, workspace);
  if (workspace) cuda_scratch_free(call->cx, workspace, plan->workspace);
  return ok;
}

/* Milliseconds of the second run; negative if there was none. */
static double measure(const Call *call, cudnnHandle_t handle, const cuda_Plan *plan) {
  double time = -1;
  tl_Event *start = cuda_event(call->cx->device, TL_EVENT_TIMING);
  tl_Event *end = cuda_event(call->cx->device, TL_EVENT_TIMING);
  bool ok = start && end && run(call, handle, plan) && cuda_event_record(start, call->cx->stream) &&
            run(call, handle, plan) && cuda_event_record(end, call->cx->stream) &&
            cudaEventSynchronize(cuda_event_handle(end)) == cudaSuccess &&
            cuda_event_elapsed(start, end, &time);
  if (start) cuda_event_free(start);
  if (end) cuda_event_free(end);
  return ok ? time : -1;
}

/* The fastest of some plans comes first. */
static void sort_out(const Call *call, cudnnHandle_t handle, cuda_Plan *plans, int n) {
  double best = -1;
  for (int i = 0; i < n; i++) {
    double time = measure(call, handle, &plans[i]);
    if (time < 0 || (best >= 0 && time >= best)) continue;
    cuda_Plan faster = plans[i];
    plans[i] = plans[0];
    plans[0] = faster;
    best = time;
  }
}

static void make(const Call *call, cudnnHandle_t handle, Entry *entry) {
  const Key *key = &entry->key;
  cuda_DnnGraph g = {.lib = cuda_cudnn()};
  cuda_Plan plans[MOST_MEASURED];
  int64_t limit = key->benchmark ? cuda_host->setting(TL_CUDNN_BENCHMARK_LIMIT) : 1;
  if (limit <= 0 || limit > MOST_MEASURED) limit = MOST_MEASURED;
  cuda_Wanted wanted = {avoid(key), WORKSPACE, (int)limit};
  cudnnBackendDescriptor_t graph = graph_of(&g, key);
  int n = cuda_plans(&g, graph, NULL, handle, &wanted, plans);
  if (n > 1) sort_out(call, handle, plans, n);
  for (int i = 1; i < n; i++) g.lib->cudnnBackendDestroyDescriptor(plans[i].plan);
  entry->none = n == 0;
  if (n > 0) entry->plan = plans[0];
  cuda_dnn_free(&g);
}

static void begin_anew(Table *t) {
  for (int i = 0; i < 2 * PLANS; i++)
    if (t->entries[i].used && !t->entries[i].none)
      cuda_cudnn()->cudnnBackendDestroyDescriptor(t->entries[i].plan.plan);
  memset(t->entries, 0, sizeof t->entries);
  t->filled = 0;
}

/* FNV-1a. */
static uint64_t hash_of(const Key *key) {
  uint64_t hash = 0xcbf29ce484222325u;
  const unsigned char *bytes = (const unsigned char *)key;
  for (size_t i = 0; i < sizeof *key; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

static const Entry *entry_of(Table *t, const Call *call, const Key *key) {
  if (t->filled == PLANS) begin_anew(t);
  size_t at = hash_of(key) % (2 * PLANS);
  while (t->entries[at].used && memcmp(&t->entries[at].key, key, sizeof *key) != 0)
    at = (at + 1) % (2 * PLANS);
  Entry *entry = &t->entries[at];
  if (entry->used) return entry;
  entry->key = *key;
  make(call, t->handle, entry);
  entry->used = true;
  t->filled++;
  return entry;
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

/* Keys are compared as bytes: every one of them is written. */
static Key key_of(const Call *call) {
  Key key;
  uintptr_t addresses = 16;
  memset(&key, 0, sizeof key);
  key.conv.windows = call->conv->windows;
  key.conv.dtype = call->conv->dtype;
  key.conv.batch = call->conv->batch;
  key.conv.groups = call->conv->groups;
  key.conv.channels_in = call->conv->channels_in;
  key.conv.channels_out = call->conv->channels_out;
  for (int i = 0; i < 3; i++) addresses |= (uintptr_t)call->arrays[i];
  key.alignment = (int64_t)1 << __builtin_ctzll(addresses);
  key.which = call->which;
  key.tf32 = cuda_host->setting(TL_CUDNN_TF32);
  key.deterministic =
      cuda_host->setting(TL_CUDNN_DETERMINISTIC) || cuda_host->setting(TL_DETERMINISTIC) != 0;
  key.benchmark =
      cuda_host->setting(TL_CUDNN_BENCHMARK) && !cuda_device_captures(call->cx->device.index);
  return key;
}

static bool with_table(Table *t, const Call *call, bool *done) {
  Key key = key_of(call);
  if (t->handle == NULL && cuda_cudnn()->cudnnCreate(&t->handle) != CUDNN_STATUS_SUCCESS)
    return true; /* it cannot work here; our own kernels can */
  if (cuda_cudnn()->cudnnSetStream(t->handle, call->cx->stream->handle) != CUDNN_STATUS_SUCCESS)
    return cuda_fail(TL_EDEVICE, "cudnnSetStream failed");
  const Entry *entry = entry_of(t, call, &key);
  *done = !entry->none;
  return entry->none || run(call, t->handle, &entry->plan);
}

static bool convolve(const Call *call, bool *done) {
  Table *t = &tables[call->cx->device.index];
  *done = false;
  if (!cuda_host->setting(TL_CUDNN_ENABLED) || cuda_cudnn() == NULL) return true;
  if (!cuda_enter(call->cx->device.index)) return false;
  pthread_once(&once, make_locks);
  pthread_mutex_lock(&t->lock);
  bool ok = with_table(t, call, done);
  pthread_mutex_unlock(&t->lock);
  return ok;
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
