/*
** cublas_v2.h - the parts of cuBLAS that kernels/cuda/linalg uses, for machines without a GPU. It
** has the names and numbers that NVIDIA documents; spec/cuda/solver.c implements the functions.
*/
#ifndef TLK_EMULATED_CUBLAS_H
#define TLK_EMULATED_CUBLAS_H

#include <stddef.h>

#include <cuda_runtime_api.h>

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER } cublasFillMode_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef struct cublasContext *cublasHandle_t;

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes);

/* Declares the functions for precision P, with elements of type T. */
#define TLK_CUBLAS(P, T)                                                                           \
  cublasStatus_t cublas##P##getrfBatched(cublasHandle_t handle, int n, T *const a[], int lda,      \
                                         int *pivots, int *info, int batch);                       \
  cublasStatus_t cublas##P##getrsBatched(cublasHandle_t handle, cublasOperation_t trans, int n,    \
                                         int nrhs, const T *const a[], int lda, const int *pivots, \
                                         T *const b[], int ldb, int *host_info, int batch);        \
  cublasStatus_t cublas##P##geqrfBatched(cublasHandle_t handle, int m, int n, T *const a[],        \
                                         int lda, T *const tau[], int *host_info, int batch);      \
  cublasStatus_t cublas##P##trsm_v2(cublasHandle_t handle, cublasSideMode_t side,                  \
                                    cublasFillMode_t uplo, cublasOperation_t trans,                \
                                    cublasDiagType_t diag, int m, int n, const T *alpha,           \
                                    const T *a, int lda, T *b, int ldb);                           \
  cublasStatus_t cublas##P##trsmBatched(                                                           \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,                         \
      cublasOperation_t trans, cublasDiagType_t diag, int m, int n, const T *alpha,                \
      const T *const a[], int lda, T *const b[], int ldb, int batch);
TLK_CUBLAS(S, float)
TLK_CUBLAS(D, double)

#endif
