/*
** cusolverDn.h - the parts of cuSOLVER that kernels/cuda/linalg uses, for machines without a GPU.
** It has the names and numbers that NVIDIA documents; spec/cuda/solver.c implements the functions.
*/
#ifndef TLK_EMULATED_CUSOLVER_H
#define TLK_EMULATED_CUSOLVER_H

#include <cublas_v2.h>

typedef enum { CUSOLVER_STATUS_SUCCESS = 0, CUSOLVER_STATUS_INVALID_VALUE = 3 } cusolverStatus_t;
typedef enum { CUSOLVER_EIG_MODE_NOVECTOR, CUSOLVER_EIG_MODE_VECTOR } cusolverEigMode_t;
typedef enum { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
typedef struct cusolverDnContext *cusolverDnHandle_t;
typedef struct syevjInfo *syevjInfo_t;
typedef struct gesvdjInfo *gesvdjInfo_t;

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int *value);
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t *info);
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t *info);

/* Declares the functions for precision P, with elements of type T. */
#define TLK_CUSOLVER(P, T)                                                                         \
  cusolverStatus_t cusolverDn##P##potrf_bufferSize(                                                \
      cusolverDnHandle_t handle, cublasFillMode_t uplo, int n, T *a, int lda, int *size);          \
  cusolverStatus_t cusolverDn##P##potrf(cusolverDnHandle_t handle, cublasFillMode_t uplo, int n,   \
                                        T *a, int lda, T *work, int size, int *info);              \
  cusolverStatus_t cusolverDn##P##potrfBatched(cusolverDnHandle_t handle, cublasFillMode_t uplo,   \
                                               int n, T *a[], int lda, int *info, int batch);      \
  cusolverStatus_t cusolverDn##P##getrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T *a,  \
                                                   int lda, int *size);                            \
  cusolverStatus_t cusolverDn##P##getrf(cusolverDnHandle_t handle, int m, int n, T *a, int lda,    \
                                        T *work, int *pivots, int *info);                          \
  cusolverStatus_t cusolverDn##P##getrs(cusolverDnHandle_t handle, cublasOperation_t trans, int n, \
                                        int nrhs, const T *a, int lda, const int *pivots, T *b,    \
                                        int ldb, int *info);                                       \
  cusolverStatus_t cusolverDn##P##geqrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T *a,  \
                                                   int lda, int *size);                            \
  cusolverStatus_t cusolverDn##P##geqrf(cusolverDnHandle_t handle, int m, int n, T *a, int lda,    \
                                        T *tau, T *work, int size, int *info);                     \
  cusolverStatus_t cusolverDn##P##orgqr_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, \
                                                   const T *a, int lda, const T *tau, int *size);  \
  cusolverStatus_t cusolverDn##P##orgqr(cusolverDnHandle_t handle, int m, int n, int k, T *a,      \
                                        int lda, const T *tau, T *work, int size, int *info);      \
  cusolverStatus_t cusolverDn##P##syevd_bufferSize(                                                \
      cusolverDnHandle_t handle, cusolverEigMode_t job, cublasFillMode_t uplo, int n, const T *a,  \
      int lda, const T *w, int *size);                                                             \
  cusolverStatus_t cusolverDn##P##syevd(cusolverDnHandle_t handle, cusolverEigMode_t job,          \
                                        cublasFillMode_t uplo, int n, T *a, int lda, T *w,         \
                                        T *work, int size, int *info);                             \
  cusolverStatus_t cusolverDn##P##syevjBatched_bufferSize(                                         \
      cusolverDnHandle_t handle, cusolverEigMode_t job, cublasFillMode_t uplo, int n, const T *a,  \
      int lda, const T *w, int *size, syevjInfo_t params, int batch);                              \
  cusolverStatus_t cusolverDn##P##syevjBatched(                                                    \
      cusolverDnHandle_t handle, cusolverEigMode_t job, cublasFillMode_t uplo, int n, T *a,        \
      int lda, T *w, T *work, int size, int *info, syevjInfo_t params, int batch);                 \
  cusolverStatus_t cusolverDn##P##gesvdj_bufferSize(                                               \
      cusolverDnHandle_t handle, cusolverEigMode_t job, int econ, int m, int n, const T *a,        \
      int lda, const T *s, const T *u, int ldu, const T *v, int ldv, int *size,                    \
      gesvdjInfo_t params);                                                                        \
  cusolverStatus_t cusolverDn##P##gesvdj(                                                          \
      cusolverDnHandle_t handle, cusolverEigMode_t job, int econ, int m, int n, T *a, int lda,     \
      T *s, T *u, int ldu, T *v, int ldv, T *work, int size, int *info, gesvdjInfo_t params);      \
  cusolverStatus_t cusolverDn##P##gesvdjBatched_bufferSize(                                        \
      cusolverDnHandle_t handle, cusolverEigMode_t job, int m, int n, const T *a, int lda,         \
      const T *s, const T *u, int ldu, const T *v, int ldv, int *size, gesvdjInfo_t params,        \
      int batch);                                                                                  \
  cusolverStatus_t cusolverDn##P##gesvdjBatched(                                                   \
      cusolverDnHandle_t handle, cusolverEigMode_t job, int m, int n, T *a, int lda, T *s, T *u,   \
      int ldu, T *v, int ldv, T *work, int size, int *info, gesvdjInfo_t params, int batch);
TLK_CUSOLVER(S, float)
TLK_CUSOLVER(D, double)

#endif
