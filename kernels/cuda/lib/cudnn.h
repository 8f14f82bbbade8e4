/*
** cudnn.h - cuDNN: its calls, a handle for each device, and its graph interface in a few
** words: descriptors that a graph owns, and plans. The library is opened when it is first
** needed; without it nothing here fails, there is just no cuDNN.
*/
#ifndef TLK_CUDA_CUDNN_H
#define TLK_CUDA_CUDNN_H

#include <cudnn.h>

#include "kernels/cuda/plugin.h"

/* X(function): what is used of the library. */
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
/* ... for recurrent layers (kernels/cuda/rnn/cudnn_rnn.c). */
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

/* The library, NULL where it is not there. */
const cuda_Cudnn *cuda_cudnn(void);

/* The handle of a device, for the calling thread alone until it leaves; NULL, without a
** message, where there is no cuDNN, where it cannot work here, or where a handle would have
** to be made while a graph is captured, which does not allow that. */
cudnnHandle_t cuda_dnn_enter(int device);
void cuda_dnn_leave(int device); /* after a handle that is not NULL */

/* ---- descriptors ---- */

#define CUDNN_MOST 160 /* descriptors of one graph */

/* A graph while it is built: owns its descriptors; the first failure makes the rest do
** nothing. */
typedef struct cuda_DnnGraph {
  const cuda_Cudnn *lib;
  cudnnHandle_t handle; /* of the device that it is for; NULL where a descriptor tells that */
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
/* A tensor with that number, of `rank` sizes, row-major, aligned to so many bytes. */
cudnnBackendDescriptor_t cuda_dnn_tensor(cuda_DnnGraph *g, int64_t id, cudnnDataType_t type,
                                         int rank, const int64_t *sizes, int64_t alignment);
/* The same with strides. What is virtual is of the graph alone and has no memory; what is
** by value is one number in the host's. */
typedef enum cuda_DnnKind { CUDNN_REAL, CUDNN_VIRTUAL, CUDNN_BY_VALUE } cuda_DnnKind;
cudnnBackendDescriptor_t cuda_dnn_strided(cuda_DnnGraph *g, int64_t id, cudnnDataType_t type,
                                          int rank, const int64_t *sizes, const int64_t *strides,
                                          int64_t alignment, cuda_DnnKind kind);
/* cuDNN's name of a floating dtype. */
cudnnDataType_t cuda_dnn_type(tl_DType dtype);
/* The first of three dimensions of windows that it has to be told of: 1 where all have 1 before. */
int cuda_dnn_first(const tlk_Windows *w);
/* Operations as a graph. */
cudnnBackendDescriptor_t cuda_dnn_of(cuda_DnnGraph *g, int n,
                                     const cudnnBackendDescriptor_t *operations);
void cuda_dnn_free(cuda_DnnGraph *g);

/* ---- plans ---- */

/* Properties of algorithms that are not wanted, as bits of cudnnBackendNumericalNote_t. */
typedef struct cuda_Wanted {
  uint32_t avoid;
  int64_t workspace; /* bytes at the most */
  int most;          /* plans */
} cuda_Wanted;

typedef struct cuda_Plan {
  cudnnBackendDescriptor_t plan; /* owned */
  int64_t workspace;
} cuda_Plan;

/* Plans for a graph, the most promising first; how many. They are for the handle's device
** or for one that a device property descriptor describes; then no GPU is needed. */
int cuda_plans(cuda_DnnGraph *g, cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t device,
               cudnnHandle_t handle, const cuda_Wanted *wanted, cuda_Plan *out);
/* A plan in words from which this version of cuDNN makes it again, in a block for
** cuda_host->free; NULL where it cannot be said. */
char *cuda_plan_text(const cuda_Cudnn *lib, const cuda_Plan *plan, size_t *bytes);
/* The plan that such words mean; false where they mean none, or one that takes too much
** memory. */
bool cuda_plan_of_text(cuda_DnnGraph *g, const char *text, size_t bytes,
                       cudnnBackendDescriptor_t device, cudnnHandle_t handle,
                       const cuda_Wanted *wanted, cuda_Plan *out);
/* Runs a plan on arrays with the numbers that the graph's tensors have. */
bool cuda_plan_run(const cuda_Plan *plan, cudnnHandle_t handle, int n, const int64_t *ids,
                   void *const *arrays, void *workspace);

/* ---- plans that are kept (cudnn_plans.c) ---- */

#define CUDNN_WORKSPACE ((int64_t)1 << 30) /* bytes that a plan may want at the most */
#define CUDNN_KEY 512                      /* bytes of a key at the most */

/* What the keys of work begin with, of convolutions Which. */
enum { CUDNN_ATTENTION = 100, CUDNN_NORMS, CUDNN_POOLS };

/* Work that cuDNN is asked for. Its plan is kept by the key, which is compared as bytes: all
** that the plan depends on, a number of the kind of work first. */
typedef struct cuda_DnnWork {
  const tlk_Context *cx;
  const void *key;
  size_t key_bytes;
  cudnnBackendDescriptor_t (*graph)(cuda_DnnGraph *g, const void *key);
  uint32_t avoid;
  int sizes;      /* of so many keys of this kind plans are made, 0: of all */
  bool zeroed;    /* the workspace has to be 0 */
  bool benchmark; /* run the first few plans on these arrays and keep the fastest; a graph that is
                  ** captured gets what was measured before, if anything was */
  int n;          /* arrays and the numbers of the tensors that they are */
  const int64_t *ids;
  void *const *arrays;
} cuda_DnnWork;

#define CUDNN_KNOWN 91900 /* the oldest version whose norms and pools have been looked into */

/* Whether results may be those of norms and pools, whose bits cuDNN does not promise to be the
** same each time: users allow it, and the version is known. */
bool cuda_dnn_may_differ(void);

/* Where cuDNN is not there or is not wanted, or has no plan for this, *done stays false. */
bool cuda_dnn_run(const cuda_DnnWork *work, bool *done);

#endif
