/*
** cudnn.h - cuDNN's functions, a handle for each device, and helpers for its graph interface:
** graphs that own their descriptors, and plans. The library is loaded on first use. If it is
** absent, the functions do not fail, but tell their callers that cuDNN is absent.
*/
#ifndef TLK_CUDA_CUDNN_H
#define TLK_CUDA_CUDNN_H

#include <cudnn.h>

#include "kernels/cuda/plugin.h"

/* The functions of cuDNN that tlua calls, as X(function). */
#define CUDNN_CALLS(X)             \
  X(cudnnCreate)                   \
  X(cudnnSetStream)                \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)           \
  CUDNN_RNN_CALLS(X)
/* The functions for recurrent layers (kernels/cuda/rnn/cudnn_rnn.c), as X(function). */
#define CUDNN_RNN_CALLS(X)         \
  X(cudnnCreateTensorDescriptor)   \
  X(cudnnSetTensorNdDescriptor)    \
  X(cudnnGetTensorNdDescriptor)    \
  X(cudnnDestroyTensorDescriptor)  \
  X(cudnnCreateDropoutDescriptor)  \
  X(cudnnSetDropoutDescriptor)     \
  X(cudnnDestroyDropoutDescriptor) \
  X(cudnnCreateRNNDescriptor)      \
  X(cudnnSetRNNDescriptor_v8)      \
  X(cudnnDestroyRNNDescriptor)     \
  X(cudnnCreateRNNDataDescriptor)  \
  X(cudnnSetRNNDataDescriptor)     \
  X(cudnnDestroyRNNDataDescriptor) \
  X(cudnnGetRNNWeightSpaceSize)    \
  X(cudnnGetRNNWeightParams)       \
  X(cudnnGetRNNTempSpaceSizes)     \
  X(cudnnRNNForward)               \
  X(cudnnRNNBackwardData_v8)       \
  X(cudnnRNNBackwardWeights_v8)

typedef struct cuda_Cudnn {
#define X(name) __typeof__(&name) name;
  CUDNN_CALLS(X)
#undef X
} cuda_Cudnn;

/* Returns the library's functions, or NULL if cuDNN is not installed. */
const cuda_Cudnn *cuda_cudnn(void);

/* Returns a device's handle and locks it until cuda_dnn_leave. Returns NULL without a message if
** there is no cuDNN, if cuDNN cannot work on this device, or if the handle would have to be created
** during a capture, which CUDA does not allow. */
cudnnHandle_t cuda_dnn_enter(int device);
/* Unlocks the handle that cuda_dnn_enter has returned. Must not be called if cuda_dnn_enter
** returned NULL. */
void cuda_dnn_leave(int device);

/* ---- descriptors ---- */

#define CUDNN_MOST 160 /* largest number of descriptors in a graph */

/* A graph that is being built. It owns its descriptors. After the first failure all further calls
** do nothing. */
typedef struct cuda_DnnGraph {
  const cuda_Cudnn *lib;
  cudnnHandle_t handle; /* the device's handle; NULL if the graph is for a device descriptor */
  bool failed;
  int n;
  cudnnBackendDescriptor_t all[CUDNN_MOST];
} cuda_DnnGraph;

cudnnBackendDescriptor_t cuda_dnn_add(cuda_DnnGraph *g, cudnnBackendDescriptorType_t type);
void cuda_dnn_set(cuda_DnnGraph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t n, const void *values);
void cuda_dnn_set_ints(cuda_DnnGraph *g, cudnnBackendDescriptor_t d,
                       cudnnBackendAttributeName_t name, int64_t n, const int64_t *values);
void cuda_dnn_set_descriptor(cuda_DnnGraph *g, cudnnBackendDescriptor_t d,
                             cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void cuda_dnn_finish(cuda_DnnGraph *g, cudnnBackendDescriptor_t d);
/* Adds a contiguous row-major tensor with the given id, the first `rank` of `sizes`, and an
** alignment in bytes. */
cudnnBackendDescriptor_t cuda_dnn_tensor(cuda_DnnGraph *g, int64_t id, cudnnDataType_t type,
                                         int rank, const int64_t *sizes, int64_t alignment);
/* Adds a tensor as cuda_dnn_tensor does, but with explicit strides. A virtual tensor exists only
** inside the graph and has no memory. A tensor by value is a single number in host memory. */
typedef enum cuda_DnnKind { CUDNN_REAL, CUDNN_VIRTUAL, CUDNN_BY_VALUE } cuda_DnnKind;
cudnnBackendDescriptor_t cuda_dnn_strided(cuda_DnnGraph *g, int64_t id, cudnnDataType_t type,
                                          int rank, const int64_t *sizes, const int64_t *strides,
                                          int64_t alignment, cuda_DnnKind kind);
/* Returns cuDNN's constant for a floating dtype. */
cudnnDataType_t cuda_dnn_type(tl_DType dtype);
/* Returns the first of the three window dimensions that is passed to cuDNN: 1 if dimension 0 is
** trivial, as in two-dimensional convolutions, otherwise 0. */
int cuda_dnn_first(const tlk_Windows *w);
/* Combines n operations into a graph. */
cudnnBackendDescriptor_t cuda_dnn_of(cuda_DnnGraph *g, int n,
                                     const cudnnBackendDescriptor_t *operations);
void cuda_dnn_free(cuda_DnnGraph *g);

/* ---- plans ---- */

/* The requirements that a plan must meet. */
typedef struct cuda_Wanted {
  uint32_t avoid;
  int64_t workspace; /* largest allowed workspace in bytes */
  int most;          /* largest number of plans to make */
} cuda_Wanted;

typedef struct cuda_Plan {
  cudnnBackendDescriptor_t plan; /* owned */
  int64_t workspace;
} cuda_Plan;

/* Creates plans for a graph, the most promising one first, and returns their number. The plans are
** for the handle's device or, if a device property descriptor is given, for the device that it
** describes; then no GPU is needed. */
int cuda_plans(cuda_DnnGraph *g, cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t device,
               cudnnHandle_t handle, const cuda_Wanted *wanted, cuda_Plan *out);
/* Serialises a plan as text that this version of cuDNN can read. Returns memory that the caller
** must free with cuda_host->free; NULL if serialising is impossible. */
char *cuda_plan_text(const cuda_Cudnn *lib, const cuda_Plan *plan, size_t *bytes);
/* Recreates a plan from its text. Returns false if this is impossible, or if the plan needs too
** large a workspace. */
bool cuda_plan_of_text(cuda_DnnGraph *g, const char *text, size_t bytes,
                       cudnnBackendDescriptor_t device, cudnnHandle_t handle,
                       const cuda_Wanted *wanted, cuda_Plan *out);
/* Runs a plan. Array i belongs to the graph's tensor with id ids[i]. *refused becomes true if the
** library finds only now that it cannot run the plan; it has launched nothing then. */
bool cuda_plan_run(const cuda_Plan *plan, cudnnHandle_t handle, int n, const int64_t *ids,
                   void *const *arrays, void *workspace, bool *refused);

/* ---- cached plans (cudnn_plans.c) ---- */

#define CUDNN_WORKSPACE ((int64_t)1 << 30) /* largest workspace of a plan, in bytes */
#define CUDNN_KEY 512                      /* largest size of a key in bytes */

/* The kinds of work. The kind is the first number of each key; for convolutions it is a value of
** Which. */
enum { CUDNN_ATTENTION = 100, CUDNN_NORMS };

/* A request to cuDNN. Its plan is cached under the key, which is compared as bytes. The key
** consists of the kind of work and everything that the plan depends on. */
typedef struct cuda_DnnWork {
  const tlk_Context *cx;
  const void *key;
  size_t key_bytes;
  cudnnBackendDescriptor_t (*graph)(cuda_DnnGraph *g, const void *key);
  uint32_t avoid;
  /* largest number of keys of this kind for which plans are made; 0 if there is no limit */
  int sizes;
  bool zeroed; /* whether the workspace must be zeroed */
  /* Whether to time the first few plans on these arrays and keep the fastest one. During a capture,
  ** the plan that was timed before is used, if there is one. */
  bool benchmark;
  int n; /* number of arrays and of tensor ids */
  const int64_t *ids;
  void *const *arrays;
} cuda_DnnWork;

#define CUDNN_KNOWN 91900 /* oldest version whose batch norms are verified */

/* Returns whether batch norms may use cuDNN. cuDNN does not promise that results are bitwise
** reproducible, so the user must have allowed it, and the version must be one that was verified. */
bool cuda_dnn_may_differ(void);

/* Runs a request. *done stays false if cuDNN is absent or disabled, or has no plan for the
** request. */
bool cuda_dnn_run(const cuda_DnnWork *work, bool *done);

#endif
