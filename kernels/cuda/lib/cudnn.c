/*
** cudnn.c - loads cuDNN, holds its handles, and builds graphs and plans.
*/
#include "kernels/cuda/lib/cudnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "core/platform/optional.h"
#include "kernels/cuda/lib/lib.h"

/* ---- the library ----------------------------------------------------------------------------- */

static cuda_Cudnn calls;
static bool opened;
static pthread_once_t opening = PTHREAD_ONCE_INIT;

static struct Handle {
  pthread_mutex_t lock;
  cudnnHandle_t handle; /* the device's handle, which is created on first use; NULL before */
} handles[CUDA_MAX_DEVICES];

static void open_library(void) {
  for (int i = 0; i < CUDA_MAX_DEVICES; i++) pthread_mutex_init(&handles[i].lock, NULL);
  void *library = dlopen(TLI_FILES_CUDNN, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return;
  opened = true;
#define X(name)                                  \
  {                                              \
    void *symbol = dlsym(library, #name);        \
    memcpy(&calls.name, &symbol, sizeof symbol); \
    opened = opened && symbol;                   \
  }
  CUDNN_CALLS(X)
#undef X
}

const cuda_Cudnn *cuda_cudnn(void) {
  pthread_once(&opening, open_library);
  return opened ? &calls : NULL;
}

cudnnHandle_t cuda_dnn_enter(int device) {
  const cuda_Cudnn *lib = cuda_cudnn();
  struct Handle *h = &handles[device];
  if (lib == NULL) return NULL;
  pthread_mutex_lock(&h->lock);
  if (h->handle == NULL &&
      (cuda_device_captures(device) || lib->cudnnCreate(&h->handle) != CUDNN_STATUS_SUCCESS))
    h->handle = NULL;
  if (h->handle == NULL) pthread_mutex_unlock(&h->lock);
  return h->handle;
}

void cuda_dnn_leave(int device) { pthread_mutex_unlock(&handles[device].lock); }

int64_t cuda_lib_cudnn_version(void) {
  const cuda_Cudnn *lib = cuda_cudnn();
  return lib ? (int64_t)lib->cudnnGetVersion() : 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static bool note(cuda_DnnGraph *g, cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) g->failed = true;
  return !g->failed;
}

cudnnBackendDescriptor_t cuda_dnn_add(cuda_DnnGraph *g, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t d = NULL;
  if (g->failed || g->n == CUDNN_MOST) {
    g->failed = true;
    return NULL;
  }
  if (note(g, g->lib->cudnnBackendCreateDescriptor(type, &d))) g->all[g->n++] = d;
  return d;
}

void cuda_dnn_set(cuda_DnnGraph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  if (!g->failed) note(g, g->lib->cudnnBackendSetAttribute(d, name, type, n, values));
}

void cuda_dnn_set_ints(cuda_DnnGraph *g, cudnnBackendDescriptor_t d,
                       cudnnBackendAttributeName_t name, int64_t n, const int64_t *values) {
  cuda_dnn_set(g, d, name, CUDNN_TYPE_INT64, n, values);
}

void cuda_dnn_set_descriptor(cuda_DnnGraph *g, cudnnBackendDescriptor_t d,
                             cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
  cuda_dnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void cuda_dnn_finish(cuda_DnnGraph *g, cudnnBackendDescriptor_t d) {
  if (!g->failed) note(g, g->lib->cudnnBackendFinalize(d));
}

cudnnBackendDescriptor_t cuda_dnn_strided(cuda_DnnGraph *g, int64_t id, cudnnDataType_t type,
                                          int rank, const int64_t *sizes, const int64_t *strides,
                                          int64_t alignment, cuda_DnnKind kind) {
  bool yes = true;
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, rank, sizes);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_STRIDES, rank, strides);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id);
  cuda_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
  if (kind == CUDNN_VIRTUAL)
    cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
  if (kind == CUDNN_BY_VALUE)
    cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
  cuda_dnn_finish(g, d);
  return d;
}

cudnnBackendDescriptor_t cuda_dnn_tensor(cuda_DnnGraph *g, int64_t id, cudnnDataType_t type,
                                         int rank, const int64_t *sizes, int64_t alignment) {
  int64_t strides[8], step = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = step;
    step *= sizes[i];
  }
  return cuda_dnn_strided(g, id, type, rank, sizes, strides, alignment, CUDNN_REAL);
}

cudnnDataType_t cuda_dnn_type(tl_DType dtype) {
  return dtype == TL_F64   ? CUDNN_DATA_DOUBLE
         : dtype == TL_F32 ? CUDNN_DATA_FLOAT
         : dtype == TL_F16 ? CUDNN_DATA_HALF
                           : CUDNN_DATA_BFLOAT16;
}

int cuda_dnn_first(const tlk_Windows *w) {
  return w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->padding[0] == 0;
}

cudnnBackendDescriptor_t cuda_dnn_of(cuda_DnnGraph *g, int n,
                                     const cudnnBackendDescriptor_t *operations) {
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, operations);
  if (g->handle)
    cuda_dnn_set(g, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
  cuda_dnn_finish(g, d);
  return d;
}

void cuda_dnn_free(cuda_DnnGraph *g) {
  while (g->n > 0) g->lib->cudnnBackendDestroyDescriptor(g->all[--g->n]);
}

/* ---- plans ----------------------------------------------------------------------------------- */

enum { CONFIGS = 32 }; /* largest number of configurations requested for one heuristic mode */

/* Returns whether the configuration's engine has one of the numerical notes in `avoid`. */
static bool avoided(cuda_DnnGraph *g, cudnnBackendDescriptor_t config, uint32_t avoid) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  cudnnBackendDescriptor_t engine = NULL;
  int64_t count = 0, found = 0;
  uint32_t has = 0;
  if (g->lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
      CUDNN_STATUS_SUCCESS)
    return true;
  bool ok = g->lib->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found,
                                             &engine) == CUDNN_STATUS_SUCCESS &&
            g->lib->cudnnBackendGetAttribute(
                engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS;
  for (int64_t i = 0; ok && i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
    has |= 1u << notes[i];
  g->lib->cudnnBackendDestroyDescriptor(engine);
  return !ok || (has & avoid) != 0;
}

/* Creates a plan from one attribute of its descriptor. Returns false if this fails, or if the plan
** needs too large a workspace. */
static bool plan_of(cuda_DnnGraph *g, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *value,
                    cudnnBackendDescriptor_t device, cudnnHandle_t handle,
                    const cuda_Wanted *wanted, cuda_Plan *out) {
  const cuda_Cudnn *lib = g->lib;
  int64_t count;
  if (lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &out->plan) !=
      CUDNN_STATUS_SUCCESS)
    return false;
  bool ok =
      (device == NULL || lib->cudnnBackendSetAttribute(
                             out->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device) == CUDNN_STATUS_SUCCESS) &&
      (handle == NULL ||
       lib->cudnnBackendSetAttribute(out->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                                     1, &handle) == CUDNN_STATUS_SUCCESS) &&
      lib->cudnnBackendSetAttribute(out->plan, name, type, n, value) == CUDNN_STATUS_SUCCESS &&
      lib->cudnnBackendFinalize(out->plan) == CUDNN_STATUS_SUCCESS &&
      lib->cudnnBackendGetAttribute(out->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &count,
                                    &out->workspace) == CUDNN_STATUS_SUCCESS &&
      out->workspace <= wanted->workspace;
  if (!ok) lib->cudnnBackendDestroyDescriptor(out->plan);
  return ok;
}

bool cuda_plan_of_text(cuda_DnnGraph *g, const char *text, size_t bytes,
                       cudnnBackendDescriptor_t device, cudnnHandle_t handle,
                       const cuda_Wanted *wanted, cuda_Plan *out) {
  return plan_of(g, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)bytes,
                 text, device, handle, wanted, out);
}

char *cuda_plan_text(const cuda_Cudnn *lib, const cuda_Plan *plan, size_t *bytes) {
  int64_t size = 0, written = 0;
  if (lib->cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                    CUDNN_TYPE_CHAR, 0, &size, NULL) != CUDNN_STATUS_SUCCESS ||
      size <= 0)
    return NULL;
  *bytes = (size_t)size;
  char *text = cuda_host->alloc(*bytes);
  if (text && (lib->cudnnBackendGetAttribute(
                   plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size,
                   &written, text) != CUDNN_STATUS_SUCCESS ||
               written > size)) {
    cuda_host->free(text, *bytes);
    text = NULL;
  }
  return text;
}

/* Fills `configs` with the configurations of a heuristic mode, and returns their number. */
static int configs_of(cuda_DnnGraph *g, cudnnBackendDescriptor_t graph,
                      cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                      cudnnBackendDescriptor_t *configs) {
  int64_t found = 0;
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  cuda_dnn_set_descriptor(g, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  cuda_dnn_set(g, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device) cuda_dnn_set_descriptor(g, d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  cuda_dnn_finish(g, d);
  for (int i = 0; i < CONFIGS; i++)
    configs[i] = cuda_dnn_add(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (g->failed || g->lib->cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &found,
                                                    configs) != CUDNN_STATUS_SUCCESS)
    return 0;
  return (int)(found < CONFIGS ? found : CONFIGS);
}

int cuda_plans(cuda_DnnGraph *g, cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t device,
               cudnnHandle_t handle, const cuda_Wanted *wanted, cuda_Plan *out) {
  static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
  int n = 0;
  for (int m = 0; m < 2 && n == 0 && !g->failed; m++) {
    cudnnBackendDescriptor_t configs[CONFIGS];
    cuda_DnnGraph asked = {.lib = g->lib};
    int found = configs_of(&asked, graph, device, modes[m], configs);
    for (int i = 0; i < found && n < wanted->most; i++)
      if (!avoided(&asked, configs[i], wanted->avoid) &&
          plan_of(&asked, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &configs[i], device, handle, wanted, &out[n]))
        n++;
    cuda_dnn_free(&asked);
  }
  return n;
}

bool cuda_plan_run(const cuda_Plan *plan, cudnnHandle_t handle, int n, const int64_t *ids,
                   void *const *arrays, void *workspace, bool *refused) {
  cuda_DnnGraph g = {.lib = cuda_cudnn()};
  cudnnBackendDescriptor_t pack = cuda_dnn_add(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  cuda_dnn_set_ints(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, n, ids);
  cuda_dnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, arrays);
  cuda_dnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  cuda_dnn_finish(&g, pack);
  cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;
  if (!g.failed) status = g.lib->cudnnBackendExecute(handle, plan->plan, pack);
  cuda_dnn_free(&g);
  *refused = status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000 ||
             status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
  return status == CUDNN_STATUS_SUCCESS || *refused ||
         cuda_fail(TL_EDEVICE, "cudnnBackendExecute: %s",
                   cuda_cudnn()->cudnnGetErrorString(status));
}
